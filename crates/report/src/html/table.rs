//! The parts of a page's tables.

use crate::figure::Figure;
use crate::text::{counted, cpu_cell, printable};
use crate::units::{count_cell, span_cell};
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
    pub(super) fn row(&mut self, texts: &[&str], figures: &[(Figure, String)]) {
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

pub(super) fn spanned(figure: Figure) -> (Figure, String) {
    (figure, span_cell(figure))
}

pub(super) fn counted_cell(figure: Figure) -> (Figure, String) {
    (figure, count_cell(figure))
}

/// The number of a CPU.
pub(super) fn placed(cpu: Option<usize>) -> (Figure, String) {
    (cpu.map(|cpu| cpu as u64), cpu_cell(cpu))
}
