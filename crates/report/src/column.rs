//! How the columns of a report are made; they stand with their rows, in `report.rs`, `groups.rs`, `chains.rs`, `cookies.rs`
//! and `balance.rs`. A column is one entry of [`columns!`]: its field in JSON, its sentence in the reference,
//! its value in a run, and its views. Text, pages, comparisons and sums of rows are made from the views.
//!
//! An entry without a sentence, a value or a list of views does not compile. Tables of Arrow and of sweeps take the
//! fields of JSON as they are.

use crate::figure::{Figure, Unit};
use crate::units::{count_cell, cpu_cell, percent_cell, span_cell};

/// A column of rows of the type `T`.
#[derive(Debug)]
pub(crate) struct Column<T: 'static> {
    /// The name of the field in JSON.
    pub(crate) name: &'static str,
    /// Its meaning, in sentences.
    pub(crate) what: &'static str,
    pub(crate) views: &'static [View<T>],
}

/// One use of a column. In a table, views have the order of their entries; a view of another field stands in the entry
/// that it follows.
#[derive(Debug)]
pub(crate) enum View<T: 'static> {
    Shown(Shown<T>),
    /// A figure of comparisons.
    Compared(&'static str, Unit, fn(&T) -> Figure),
    /// Adds the second row to the first one, which stands for several things.
    Summed(fn(&mut T, &T)),
}

/// A column of tables.
#[derive(Debug)]
pub(crate) struct Shown<T: 'static> {
    titles: Titles,
    cells: Cells<T>,
    /// The condition under which a row needs the column. A column that no row needs is left out.
    needed: fn(&T, &Scale) -> bool,
}

/// The tables that have a column, each with the title there.
type Titles = &'static [(Place, &'static str)];

#[derive(Debug)]
enum Cells<T: 'static> {
    Texts(fn(&T, &Scale) -> String),
    Figures(fn(&T, &Scale) -> Cell),
}

/// A column of one table.
#[derive(Debug)]
pub(crate) struct Titled<T: 'static> {
    pub(crate) title: &'static str,
    cells: &'static Cells<T>,
}

/// A figure and its form for people.
pub(crate) type Cell = (Figure, String);

/// A table, or the like, with columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The table of these rows in the text.
    Text,
    /// The table of limits in the text.
    Limits,
    /// The table of these rows on the page of a run.
    Page,
    /// The table of a short report.
    Brief,
    /// The figures in large type on the page of a run.
    Cards,
    /// The counts at the foot of the text; the title is a noun.
    Foot,
}

/// The facts about a run, and about a row, that cells need besides the row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scale {
    pub(crate) duration_ns: u64,
    /// The time of which a cell is a part.
    pub(crate) whole_ns: u64,
    /// The number of CPUs.
    pub(crate) cpus: usize,
    /// The number of things for which the row stands.
    pub(crate) things: u64,
    /// Whether some p50 is marked, as it is mostly timer slack.
    pub(crate) marks: bool,
}

/// A row of a report.
pub(crate) trait Columns: Sized + 'static {
    const COLUMNS: &'static [Column<Self>];

    /// The columns of a table with these rows: texts, then figures.
    fn shown(place: Place, rows: &[(&Self, Scale)]) -> Vec<Titled<Self>> {
        let titled = |view: &'static View<Self>| {
            let View::Shown(Shown { titles, cells, needed }) = view else { return None };
            let (_, title) = titles.iter().find(|(at, _)| *at == place)?;
            let is_needed = rows.is_empty() || rows.iter().any(|(row, scale)| needed(row, scale));
            is_needed.then_some(Titled { title, cells })
        };
        let mut shown: Vec<_> = views().filter_map(titled).collect();
        shown.sort_by_key(|it| !it.is_text());
        shown
    }

    /// The figures of a comparison.
    fn compared(&self) -> Vec<(&'static str, Unit, Figure)> {
        let figure = |view: &'static View<Self>| match view {
            View::Compared(what, unit, figure) => Some((*what, *unit, figure(self))),
            _ => None,
        };
        views().filter_map(figure).collect()
    }

    /// Adds another row to this one.
    fn add(&mut self, row: &Self) {
        for view in views::<Self>() {
            if let View::Summed(add) = view {
                add(self, row);
            }
        }
    }
}

fn views<T: Columns>() -> impl Iterator<Item = &'static View<T>> {
    T::COLUMNS.iter().flat_map(|column| column.views)
}

impl<T> Titled<T> {
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.cells, Cells::Texts(_))
    }

    /// The cell of a row, for people.
    pub(crate) fn text(&self, row: &T, scale: &Scale) -> String {
        match self.cells {
            Cells::Texts(text) => text(row, scale),
            Cells::Figures(cell) => cell(row, scale).1,
        }
    }

    /// The cell of a row; a text has no figure.
    pub(crate) fn cell(&self, row: &T, scale: &Scale) -> Cell {
        match self.cells {
            Cells::Texts(text) => (None, text(row, scale)),
            Cells::Figures(cell) => cell(row, scale),
        }
    }
}

/// A column of texts.
pub(crate) const fn texts<T>(titles: Titles, text: fn(&T, &Scale) -> String) -> View<T> {
    View::Shown(Shown { titles, cells: Cells::Texts(text), needed: |_, _| true })
}

/// A column of figures.
pub(crate) const fn figures<T>(titles: Titles, cell: fn(&T, &Scale) -> Cell) -> View<T> {
    seldom(titles, cell, |_, _| true)
}

/// A column of figures that is left out of a table if no row needs it.
pub(crate) const fn seldom<T>(
    titles: Titles,
    cell: fn(&T, &Scale) -> Cell,
    needed: fn(&T, &Scale) -> bool,
) -> View<T> {
    View::Shown(Shown { titles, cells: Cells::Figures(cell), needed })
}

/// Adds a figure to another one; the sum is unknown if one of them is.
pub(crate) fn add(all: &mut Figure, one: Figure) {
    *all = all.zip(one).map(|(all, one)| all + one);
}

/// A time for a cell.
pub(crate) fn spanned(figure: Figure) -> Cell {
    (figure, span_cell(figure))
}

/// A number of things for a cell.
pub(crate) fn counted(figure: Figure) -> Cell {
    (figure, count_cell(figure))
}

/// A part of a time, in per cent, for a cell.
pub(crate) fn part(figure: Figure, whole_ns: u64) -> Cell {
    (figure, percent_cell(figure, whole_ns))
}

/// The number of a CPU for a cell.
pub(crate) fn placed(cpu: Option<usize>) -> Cell {
    (cpu.map(|cpu| cpu as u64), cpu_cell(cpu))
}

/// Makes the type of a row and its columns from the entries. `from` names the parameters of the function `of`, which
/// makes a row from the values in the entries.
macro_rules! columns {
    (
        $(#[$attribute:meta])*
        pub struct $row:ident from($($given:ident: $of:ty),+) {
            $(
                $(#[doc = $what:literal])+
                $(#[serde($serde:ident)])?
                $field:ident: $type:ty = $value:expr, [$($view:expr),* $(,)?];
            )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $row {
            $($(#[doc = $what])+ $(#[serde($serde)])? pub $field: $type,)+
        }

        impl $row {
            fn of($($given: $of),+) -> $row {
                $row { $($field: $value),+ }
            }
        }

        impl $crate::column::Columns for $row {
            const COLUMNS: &'static [$crate::column::Column<$row>] = &[$($crate::column::Column {
                name: stringify!($field),
                what: concat!($($what),+),
                views: &[$($view),*],
            }),+];
        }
    };
}
pub(crate) use columns;
