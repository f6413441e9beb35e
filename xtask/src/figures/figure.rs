//! The format of `docs/figures/NAME.json`: one measurement, its origin and its values.
//!
//! A file has one layout, in which each row is a line, so that a new value is a change of one line.
//! `docs/figures/README.md` describes the fields for authors.

use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::ser::{Formatter, Serializer};
use std::collections::BTreeMap;
use std::io;

use crate::workspace::Outcome;

/// One measurement: the table that a page shows.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The noun phrase above the table.
    pub title: String,
    /// The runs that the values come from.
    pub measured: Vec<Origin>,
    /// The source that `--record` reads. Without one, a person edits the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Source>,
    /// The columns, the labels of the rows included.
    pub columns: Vec<Column>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<Option<Cell>>>,
    /// Sentences below the table, in Markdown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A run that values come from.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The command that prints the values. Every table has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The day, or the days.
    pub date: String,
    /// The commit that was measured, or the first one with the values, for a table of before 29 November 2026. Every
    /// table has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The machine, unless the values are the same on every machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

/// A source that `--record` reads.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Source {
    /// A program of the project that knows its rows.
    Known(Known),
    /// JSON that the first command of `measured` prints with `--json`.
    Printed(Printed),
}

/// A program whose rows are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// `cargo xtask instructions`: a cell is the operation `LABEL/COLUMN`.
    Instructions,
}

/// The place of the rows in JSON. Every path is a JSON pointer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The list of the rows in the whole text.
    pub rows: String,
    /// The label in a row.
    pub label: String,
    /// The labels in JSON of the rows that have another one in the table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
}

/// The place of a cell in a row of JSON, as JSON pointers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// A number.
    Number(String),
    /// The median, the least and the greatest value.
    Range([String; 3]),
}

/// A column.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The heading, which may be empty.
    pub name: String,
    /// The unit of its numbers, shown in the heading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The digits after the point. Without it numbers are shown as they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decimals: Option<usize>,
    /// The place of its values in the JSON that `--record` reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Place>,
    /// The factor from the unit of the JSON to that of the column: 0.001 from ns to us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// The most significant digits that are shown, instead of `decimals`. Digits before the point always remain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub significant: Option<usize>,
    /// The two columns whose ratio `--record` puts here: the first over the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<[String; 2]>,
}

/// The value of a cell. A cell without a value is `null`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number.
    Number(Number),
    /// A label or a word, in Markdown.
    Text(String),
    /// The least and the greatest of several values, and their median if it is known.
    Range(Range),
}

/// A spread of values.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<Number>,
    /// The least value.
    pub low: Number,
    /// The greatest value.
    pub high: Number,
}

impl Figure {
    /// Reads the text of a file. The error is one sentence.
    pub fn parse(text: &str) -> Outcome<Figure> {
        let figure: Figure = serde_json::from_str(text)?;
        let columns = figure.columns.len();
        if figure.measured.is_empty() {
            return Err("`measured` names no run. Give at least its date".into());
        }
        if let Some(row) = figure.rows.iter().position(|row| row.len() != columns) {
            let cells = figure.rows[row].len();
            let row = row + 1;
            return Err(format!("row {row} has {cells} cells for {columns} columns").into());
        }
        let both = |column: &&Column| column.decimals.is_some() && column.significant.is_some();
        if let Some(column) = figure.columns.iter().find(both) {
            let name = &column.name;
            return Err(format!("column `{name}` has both `decimals` and `significant`").into());
        }
        Ok(figure)
    }

    /// The text of its file: one line for each run, column, row and note.
    pub fn text(&self) -> Outcome<String> {
        let mut text = format!("{{\n  \"title\": {},\n", line(&self.title)?);
        list(&mut text, "measured", &self.measured)?;
        if let Some(record) = &self.record {
            text.push_str(&format!("  \"record\": {},\n", line(record)?));
        }
        list(&mut text, "columns", &self.columns)?;
        list(&mut text, "rows", &self.rows)?;
        if !self.notes.is_empty() {
            list(&mut text, "notes", &self.notes)?;
        }
        text.truncate(text.len() - ",\n".len());
        text.push_str("\n}\n");
        Ok(text)
    }
}

fn list<T: Serialize>(text: &mut String, name: &str, items: &[T]) -> Outcome {
    let lines = items.iter().map(|item| Ok(format!("    {}", line(item)?)));
    let lines = lines.collect::<Outcome<Vec<_>>>()?.join(",\n");
    text.push_str(&format!("  \"{name}\": [\n{lines}\n  ],\n"));
    Ok(())
}

/// `value` as JSON in one line, with a space after each comma and colon.
fn line<T: Serialize>(value: &T) -> Outcome<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced))?;
    Ok(String::from_utf8(bytes)?)
}

/// JSON in one line as a person writes it.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
  "title": "Cost of a switch",
  "measured": [
    {"command": "cargo xtask instructions switch", "date": "2026-11-24"}
  ],
  "record": "instructions",
  "columns": [
    {"name": "operation"},
    {"name": "8", "unit": "instructions", "decimals": 0}
  ],
  "rows": [
    ["switch/engine/yield", 821],
    ["switch/engine/tick", {"median": 2.0, "low": 1.5, "high": 3}],
    ["none", null]
  ],
  "notes": [
    "The \"root\" has heaps in arrays."
  ]
}
"#;

    #[test]
    fn a_file_is_written_as_it_was_read() {
        assert_eq!(Figure::parse(TEXT).unwrap().text().unwrap(), TEXT);
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(TEXT.contains(from));
        Figure::parse(&TEXT.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_place() {
        let unknown = refused("\"title\"", "\"name\"");
        assert!(unknown.contains("unknown field `name`"), "{unknown}");
        assert_eq!(refused("[\"none\", null]", "[\"none\"]"), "row 3 has 1 cells for 2 columns");
        let both = refused("\"decimals\": 0", "\"decimals\": 0, \"significant\": 2");
        assert_eq!(both, "column `8` has both `decimals` and `significant`");
        let origin = "{\"command\": \"cargo xtask instructions switch\", \"date\": \"2026-11-24\"}";
        assert!(refused(origin, "").starts_with("`measured` names no run"));
    }
}
