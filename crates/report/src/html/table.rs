//! The parts of a page's tables.

use crate::column::{Cell, Columns, Place, Scale, Titled};
use crate::figure::Figure;
use crate::names::printable;
use crate::text::counted;
use std::fmt::Write as _;

/// The number of rows of a table; of more things, the busiest have one.
pub(super) const ROWS: usize = 200;
pub(super) const TAKES_ALL: &str = "a string takes all";

/// A user's text as text of the document.
pub(super) fn escaped(text: &str) -> String {
    let text = printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

pub(super) fn section(title: &str, note: &str, content: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("<p class=note>{note}</p>\n") };
    format!("<section>\n<h2>{title}</h2>\n{note}{content}</section>\n")
}

/// A table with the columns of `titles`. The first `texts` columns are texts.
pub(super) struct Table {
    html: String,
    texts: usize,
}

impl Table {
    pub(super) fn new(id: &str, titles: &[&str], texts: usize) -> Table {
        let mut html = format!("<div class=scroll><table id={id}>\n<thead><tr>");
        titles
            .iter()
            .enumerate()
            .for_each(|(at, title)| html.push_str(&sorting(title, at < texts)));
        html.push_str("</tr></thead>\n<tbody>\n");
        Table { html, texts }
    }

    /// A table with these columns.
    pub(super) fn of_columns<T: Columns>(id: &str, columns: &[Titled<T>]) -> Table {
        let titles: Vec<_> = columns.iter().map(|it| it.title).collect();
        Table::new(id, &titles, columns.iter().filter(|it| it.is_text()).count())
    }

    /// Adds a row: texts, then figures with their shown form.
    pub(super) fn row(&mut self, texts: &[&str], figures: &[Cell]) {
        self.html.push_str("<tr>");
        self.cells(texts, figures, "");
    }

    /// Adds the row of a name, which opens to the parts that follow.
    pub(super) fn fold<T: Columns>(&mut self, columns: &[Titled<T>], row: (&T, &Scale)) {
        let n = row.1.things;
        let button = match n {
            1 => String::new(),
            n => format!(" <button class=fold aria-expanded=false>{n} tasks</button>"),
        };
        self.html.push_str("</tbody><tbody>\n<tr>");
        self.row_of(columns, None, row, &button);
    }

    /// Adds a row that is hidden until its name opens.
    pub(super) fn part<T: Columns>(&mut self, columns: &[Titled<T>], row: (&T, &Scale)) {
        self.html.push_str("<tr class=part hidden>");
        self.row_of(columns, None, row, "");
    }

    /// The cells of a row, perhaps with a name before the others, and with markup behind the first text.
    fn row_of<T: Columns>(
        &mut self,
        columns: &[Titled<T>],
        name: Option<&str>,
        (row, scale): (&T, &Scale),
        behind: &str,
    ) {
        let (texts, figures) = columns.split_at(self.texts - usize::from(name.is_some()));
        let texts: Vec<_> = texts.iter().map(|it| it.text(row, scale)).collect();
        let texts: Vec<_> = name.into_iter().chain(texts.iter().map(String::as_str)).collect();
        let cells: Vec<_> = figures.iter().map(|it| it.cell(row, scale)).collect();
        self.cells(&texts, &cells, behind);
    }

    fn cells(&mut self, texts: &[&str], figures: &[Cell], behind: &str) {
        debug_assert_eq!(texts.len(), self.texts, "a row has the table's columns");
        for (at, text) in texts.iter().enumerate() {
            self.html.push_str(&match at {
                0 => name_cell(text, behind),
                _ => text_cell(text),
            });
        }
        for (figure, shown) in figures {
            self.html.push_str(&cell("", *figure, shown));
        }
        self.html.push_str("</tr>\n");
    }

    /// The table of these rows on the page.
    pub(super) fn of<T: Columns>(id: &str, rows: &[(&T, Scale)]) -> Table {
        let named: Vec<_> = rows.iter().map(|&(row, scale)| (None, row, scale)).collect();
        Table::named(id, None, &named)
    }

    /// The same with a column of names before the others, under the title `first`.
    pub(super) fn named<T: Columns>(
        id: &str,
        first: Option<&str>,
        rows: &[(Option<&str>, &T, Scale)],
    ) -> Table {
        let all: Vec<_> = rows.iter().map(|&(_, row, scale)| (row, scale)).collect();
        let columns = T::shown(Place::Page, &all);
        let texts = columns.iter().filter(|it| it.is_text()).count();
        let titles: Vec<_> = first.into_iter().chain(columns.iter().map(|it| it.title)).collect();
        let mut table = Table::new(id, &titles, texts + usize::from(first.is_some()));
        for (name, row, scale) in rows {
            table.html.push_str("<tr>");
            table.row_of(&columns, *name, (row, scale), "");
        }
        table
    }

    pub(super) fn end(mut self, left_out: usize, what: &str) -> String {
        self.html.push_str("</tbody></table></div>\n");
        if left_out > 0 {
            let rest = counted(left_out as u64, &format!("less busy {what}"));
            writeln!(self.html, "<p class=note>and {rest}</p>").expect(TAKES_ALL);
        }
        self.html
    }
}

pub(super) fn sorting(title: &str, text: bool) -> String {
    match text {
        true => format!("<th scope=col class=text data-sort=text>{title}</th>"),
        false => format!("<th scope=col data-sort=number>{title}</th>"),
    }
}

/// The first cell of a row, which names it, with markup behind the name.
pub(super) fn name_cell(name: &str, behind: &str) -> String {
    let name = escaped(name);
    format!("<th scope=row class=text title=\"{name}\"><span>{name}</span>{behind}</th>")
}

/// Another cell with a text.
pub(super) fn text_cell(text: &str) -> String {
    let text = escaped(text);
    format!("<td class=text title=\"{text}\">{text}</td>")
}

/// A cell that shows a figure, and carries its exact value.
pub(super) fn cell(class: &str, figure: Figure, shown: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let value = figure.map_or(String::new(), |figure| format!(" data-value={figure}"));
    format!("<td{class}{value}>{}</td>", shown.trim_end())
}

/// An instant of the run, to the microsecond.
pub(super) fn moment(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
}
