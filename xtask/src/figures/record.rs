//! Measures a file of `docs/figures` again.
//!
//! Only instructions: they are the same in every run, so a command can replace them without a person
//! who judges the run.

use std::fs;
use std::process::Command;

use serde_json::Number;

use super::figure::{Cell, Figure, Source};
use super::pages::FOLDER;
use crate::instructions::{self, Cost};
use crate::workspace::{Outcome, output, root};

/// Measures `docs/figures/NAME.json` again and writes it.
pub fn record(name: &str) -> Outcome {
    let path = root().join(format!("{FOLDER}{name}.json"));
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| format!("{FOLDER}{name}.json: {error}"))?;
    let mut figure = Figure::parse(&text)?;
    let Some(Source::Instructions) = figure.record else {
        let remedy = "Run the command that it names, and edit its rows";
        return Err(format!("{FOLDER}{name}.json has no `record`. {remedy}").into());
    };
    let costs = instructions::costs(&operations(&figure), instructions::ITERATIONS)?;
    replace(&mut figure, &costs);
    let origin = &mut figure.measured[0];
    origin.date = said(Command::new("date").arg("+%F"))?;
    let commit = ["rev-parse", "--short=12", "HEAD"];
    origin.commit = Some(said(Command::new("git").current_dir(root()).args(commit))?);
    Ok(fs::write(path, figure.text()?)?)
}

/// The names of the operations that the numbers of `figure` belong to.
fn operations(figure: &Figure) -> Vec<String> {
    let mut names = Vec::new();
    for row in &figure.rows {
        let numbers = figure.columns.iter().zip(row).filter(|(_, cell)| is_number(cell));
        names.extend(numbers.filter_map(|(column, _)| operation(row, &column.name)));
    }
    names
}

/// The operation `LABEL/COLUMN` of a row whose label stands in backticks.
fn operation(row: &[Option<Cell>], column: &str) -> Option<String> {
    let Some(Cell::Text(label)) = row.first()? else { return None };
    let label = label.strip_prefix('`')?.strip_suffix('`')?;
    Some(format!("{label}/{}", column.replace(',', "")))
}

fn is_number(cell: &Option<Cell>) -> bool {
    matches!(cell, Some(Cell::Number(_)))
}

/// Puts the costs in the place of the numbers of their operations.
fn replace(figure: &mut Figure, costs: &[Cost]) {
    let columns: Vec<_> = figure.columns.iter().map(|column| column.name.clone()).collect();
    for row in &mut figure.rows {
        for (index, column) in columns.iter().enumerate() {
            let Some(name) = operation(row, column) else { continue };
            let cost = costs.iter().find(|cost| cost.name == name);
            let number = cost.and_then(|cost| Number::from_f64(cost.instructions));
            if let Some(number) = number.filter(|_| is_number(&row[index])) {
                row[index] = Some(Cell::Number(number));
            }
        }
    }
}

fn said(command: &mut Command) -> Outcome<String> {
    Ok(String::from_utf8(output(command)?.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_replaced_by_the_cost_of_its_operation() {
        let mut figure = Figure::parse(
            r#"{"title": "t", "measured": [{"command": "c", "date": "d"}], "record": "instructions",
                "columns": [{"name": "operation"}, {"name": "8"}, {"name": "1,024"}],
                "rows": [["`switch/yield`", 1, 2], ["`other`", 3, null], ["before", 4, 5]]}"#,
        )
        .unwrap();
        assert_eq!(operations(&figure), ["switch/yield/8", "switch/yield/1024", "other/8"]);
        let cost = |name: &str| Cost { name: name.to_owned(), instructions: 97.25 };
        replace(&mut figure, &[cost("switch/yield/1024"), cost("other/1024")]);
        let text = figure.text().unwrap();
        assert!(text.contains("[\"`switch/yield`\", 1, 97.25]"), "{text}");
        assert!(text.contains("[\"`other`\", 3, null]"), "{text}");
    }
}
