//! The parts of a page's tables.

use crate::column::{Cell, Columns, Place, Scale};
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

    /// Adds a row: texts, then figures with their shown form.
    pub(super) fn row(&mut self, texts: &[&str], figures: &[Cell]) {
        debug_assert_eq!(texts.len(), self.texts, "a row has the table's columns");
        self.html.push_str("<tr>");
        for text in texts {
            let text = escaped(text);
            write!(self.html, "<td class=text title=\"{text}\">{text}</td>").expect(TAKES_ALL);
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
            let own = columns[..texts].iter().map(|it| it.text(row, scale));
            let names: Vec<_> = name.iter().map(|&it| it.to_owned()).chain(own).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let cells: Vec<_> = columns[texts..].iter().map(|it| it.cell(row, scale)).collect();
            table.row(&names, &cells);
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
        true => format!("<th class=text data-sort=text>{title}</th>"),
        false => format!("<th data-sort=number>{title}</th>"),
    }
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
