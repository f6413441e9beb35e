//! Measures a file of `docs/figures` again.
//!
//! Instructions are the same in every run. Other values are those of one run on this machine, so a
//! person decides whether the machine was quiet enough for them to be committed.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;

use serde_json::Number;

use super::figure::{Cell, Column, Figure, Known, Origin, Printed, Source};
use super::pages::FOLDER;
use super::printed;
use crate::instructions::{self, Cost};
use crate::workspace::{Outcome, output, program, root};

/// Measures `docs/figures/NAME.json` again and writes it.
pub fn record(name: &str) -> Outcome {
    let path = root().join(format!("{FOLDER}{name}.json"));
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| format!("{FOLDER}{name}.json: {error}"))?;
    let mut figure = Figure::parse(&text)?;
    let earlier = figure.measured[0].clone();
    let kept = match figure.record.clone() {
        Some(Source::Known(Known::Instructions)) => {
            let costs = instructions::costs(&operations(&figure), instructions::ITERATIONS)?;
            replace(&mut figure, &costs)
        }
        Some(Source::Printed(printed)) => {
            figure.measured[0].machine = Some(machine());
            read(&mut figure, &printed)?
        }
        None => {
            let remedy = "Run the command that it names, and edit its rows";
            return Err(format!("{FOLDER}{name}.json has no `record`. {remedy}").into());
        }
    };
    let origin = &mut figure.measured[0];
    origin.date = said(Command::new("date").arg("+%F"))?;
    let commit = ["rev-parse", "--short=12", "HEAD"];
    origin.commit = Some(said(Command::new("git").current_dir(root()).args(commit))?);
    keep_origin(&mut figure, earlier, &kept);
    Ok(fs::write(path, figure.text()?)?)
}

/// Names the run that the rows come from that were not measured again.
fn keep_origin(figure: &mut Figure, earlier: Origin, kept: &[String]) {
    for label in kept {
        eprintln!("kept the row `{label}`, which the command does not measure");
    }
    if !kept.is_empty() && figure.measured.len() == 1 {
        figure.measured.push(earlier);
    }
}

/// Runs the first command of `figure` with `--json` and takes its values. Returns the labels of the rows that it kept.
fn read(figure: &mut Figure, printed: &Printed) -> Outcome<Vec<String>> {
    let command = figure.measured[0].command.clone().ok_or("the first run has no `command`")?;
    let mut words = command.split_whitespace();
    let mut command = program(words.next().unwrap_or_default());
    let json = serde_json::from_str(&said(command.args(words).arg("--json"))?)?;
    printed::fill(figure, printed, &json)
}

/// The CPUs and the kernel of this machine, as far as it has them in files.
fn machine() -> String {
    let file = |path| fs::read_to_string(path).unwrap_or_default();
    let cpus = available_parallelism().map_or(0, usize::from);
    let info = file("/proc/cpuinfo");
    let model = info.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, name)| name);
    let release = file("/proc/sys/kernel/osrelease");
    format!("{cpus} CPUs ({model}), Linux {}", release.trim())
}

/// The names of the operations that the numbers of `figure` belong to.
fn operations(figure: &Figure) -> Vec<String> {
    let mut names = Vec::new();
    for row in &figure.rows {
        let measured = figure.columns.iter().zip(row).filter(|(column, _)| column.ratio.is_none());
        let numbers = measured.filter(|(_, cell)| is_number(cell));
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

/// Puts the costs in the place of the numbers of their operations. Returns the labels of the rows that it kept.
fn replace(figure: &mut Figure, costs: &[Cost]) -> Vec<String> {
    let columns: Vec<_> = figure.columns.iter().map(|column| column.name.clone()).collect();
    let mut kept = Vec::new();
    for row in &mut figure.rows {
        if let (None, Some(Some(Cell::Text(label)))) = (operation(row, ""), row.first()) {
            kept.push(label.clone());
        }
        for (index, column) in columns.iter().enumerate() {
            let Some(name) = operation(row, column) else { continue };
            let cost = costs.iter().find(|cost| cost.name == name);
            let number = cost.and_then(|cost| Number::from_f64(cost.instructions));
            if let Some(number) = number.filter(|_| is_number(&row[index])) {
                row[index] = Some(Cell::Number(number));
            }
        }
    }
    divide(figure);
    kept
}

/// Computes the columns that are ratios of two others.
fn divide(figure: &mut Figure) {
    let place = |name: &String| figure.columns.iter().position(|column| column.name == *name);
    let ratio = |column: &Column| Some(column.ratio.as_ref()?.each_ref().map(place));
    let ratios: Vec<_> = figure.columns.iter().map(ratio).collect();
    for row in &mut figure.rows {
        for (index, ratio) in ratios.iter().enumerate() {
            let Some([Some(over), Some(under)]) = *ratio else { continue };
            let value = number(&row[over]).zip(number(&row[under]));
            let value = value.and_then(|(over, under)| Number::from_f64(over / under));
            row[index] = value.map(Cell::Number);
        }
    }
}

fn number(cell: &Option<Cell>) -> Option<f64> {
    let Some(Cell::Number(number)) = cell else { return None };
    number.as_f64()
}

fn said(command: &mut Command) -> Outcome<String> {
    Ok(String::from_utf8(output(command)?.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_computed_and_not_measured() {
        let mut figure = Figure::parse(
            r#"{"title": "t", "measured": [{"command": "c", "date": "d"}], "record": "instructions",
                "columns": [{"name": "operation"}, {"name": "off"}, {"name": "on"},
                            {"name": "ratio", "ratio": ["on", "off"]}],
                "rows": [["`yield`", 1, 1, 1], ["`tick`", 2, null, 7]]}"#,
        )
        .unwrap();
        assert_eq!(operations(&figure), ["yield/off", "yield/on", "tick/off"]);
        let cost = |name: &str, instructions| Cost::of(name, vec![instructions]);
        let kept = replace(&mut figure, &[cost("yield/off", 4.0), cost("yield/on", 5.0)]);
        assert!(kept.is_empty());
        let text = figure.text().unwrap();
        assert!(text.contains("[\"`yield`\", 4.0, 5.0, 1.25]"), "{text}");
        assert!(text.contains("[\"`tick`\", 2, null, null]"), "{text}");
    }

    #[test]
    fn a_number_is_replaced_by_the_cost_of_its_operation() {
        let mut figure = Figure::parse(
            r#"{"title": "t", "measured": [{"command": "c", "date": "d"}], "record": "instructions",
                "columns": [{"name": "operation"}, {"name": "8"}, {"name": "1,024"}],
                "rows": [["`switch/yield`", 1, 2], ["`other`", 3, null], ["before", 4, 5]]}"#,
        )
        .unwrap();
        assert_eq!(operations(&figure), ["switch/yield/8", "switch/yield/1024", "other/8"]);
        let cost = |name: &str| Cost::of(name, vec![97.25]);
        let kept = replace(&mut figure, &[cost("switch/yield/1024"), cost("other/1024")]);
        assert_eq!(kept, ["before"]);
        let text = figure.text().unwrap();
        assert!(text.contains("[\"`switch/yield`\", 1, 97.25]"), "{text}");
        assert!(text.contains("[\"`other`\", 3, null]"), "{text}");
        let earlier = figure.measured[0].clone();
        keep_origin(&mut figure, earlier.clone(), &[]);
        assert_eq!(figure.measured.len(), 1);
        keep_origin(&mut figure, earlier, &kept);
        assert_eq!(figure.measured.len(), 2);
    }
}
