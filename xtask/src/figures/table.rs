//! A measurement as a table in Markdown.

use serde_json::Number;

use super::figure::{Cell, Column, Figure, Origin, Range};

/// A cell without a value.
const NONE: &str = "-";

/// The title, the table, the runs that it comes from, and the notes.
#[must_use]
pub fn render(figure: &Figure) -> String {
    let mut text = format!("**{}**\n\n", figure.title);
    text.push_str(&row(figure.columns.iter().map(heading)));
    text.push_str(&row((0..figure.columns.len()).map(|column| rule(figure, column).to_owned())));
    for cells in &figure.rows {
        text.push_str(&row(figure
            .columns
            .iter()
            .zip(cells)
            .map(|(column, cell)| shown(column, cell))));
    }
    let origins: Vec<_> = figure.measured.iter().map(origin).collect();
    text.push_str(&format!("\n{}\n", origins.join(" ")));
    if !figure.notes.is_empty() {
        text.push('\n');
    }
    for note in &figure.notes {
        text.push_str(&format!("* {note}\n"));
    }
    text
}

fn row(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<_> = cells.map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn heading(column: &Column) -> String {
    match &column.unit {
        Some(unit) => format!("{}, {unit}", column.name),
        None => column.name.clone(),
    }
}

/// Numbers stand at the right of their column, words at the left.
fn rule(figure: &Figure, column: usize) -> &'static str {
    let number = |cell: &Option<Cell>| matches!(cell, Some(Cell::Number(_) | Cell::Range(_)));
    if figure.rows.iter().any(|row| number(&row[column])) { "---:" } else { "---" }
}

fn shown(column: &Column, cell: &Option<Cell>) -> String {
    match cell {
        None => NONE.to_owned(),
        Some(Cell::Text(text)) => text.clone(),
        Some(Cell::Number(value)) => number(column, value),
        Some(Cell::Range(range)) => range_text(column, range),
    }
}

/// The numbers of a range have the digits of the one with most of them: 4.0 beside 3.97 is 4.00.
fn range_text(column: &Column, range: &Range) -> String {
    let numbers = range.median.iter().chain([&range.low, &range.high]);
    let written = |number: &Number| number.to_string().split_once('.').map_or(0, |(_, d)| d.len());
    let most = numbers.map(written).max();
    let plain = column.decimals.is_none() && column.significant.is_none();
    let column = &Column { decimals: if plain { most } else { column.decimals }, ..column.clone() };
    let (low, high) = (number(column, &range.low), number(column, &range.high));
    match &range.median {
        Some(median) => format!("{} [{low}-{high}]", number(column, median)),
        None => format!("{low} to {high}"),
    }
}

fn number(column: &Column, value: &Number) -> String {
    let text = match (digits(column, value), value.as_f64()) {
        (Some(digits), Some(value)) => format!("{value:.digits$}"),
        _ => value.to_string(),
    };
    with_commas(&text)
}

/// The digits after the point, if the column says so.
fn digits(column: &Column, value: &Number) -> Option<usize> {
    let significant = column.significant.and_then(|significant| {
        // Of the value as it is rounded: 9.96 has two digits before the point at two significant ones.
        let rounded = format!("{:.*e}", significant.saturating_sub(1), value.as_f64()?);
        let exponent: i32 = rounded.split_once('e')?.1.parse().ok()?;
        let digits = i32::try_from(significant).ok()? - 1 - exponent;
        Some(usize::try_from(digits).unwrap_or(0))
    });
    column.decimals.or(significant)
}

/// The number with a comma before each three digits of its whole part: 10,000.
fn with_commas(number: &str) -> String {
    let (sign, number) = number.split_at(usize::from(number.starts_with('-')));
    let whole = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let mut text = sign.to_owned();
    for (index, digit) in number[..whole].char_indices() {
        if index > 0 && (whole - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + &number[whole..]
}

fn origin(origin: &Origin) -> String {
    let by = origin.command.as_ref().map(|command| format!("by `{command}`, "));
    let mut text = format!("Measured {}{}", by.unwrap_or_default(), origin.date);
    if let Some(commit) = &origin.commit {
        text.push_str(&format!(", commit `{commit}`"));
    }
    if let Some(machine) = &origin.machine {
        text.push_str(&format!(", {machine}"));
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(column: &Column, value: f64) -> String {
        number(column, &Number::from_f64(value).unwrap())
    }

    #[test]
    fn a_number_has_the_digits_of_its_column() {
        let plain = Column::default();
        assert_eq!(of(&plain, 2.0), "2.0");
        assert_eq!(number(&plain, &Number::from(2_666_700)), "2,666,700");
        let fixed = Column { decimals: Some(2), ..Column::default() };
        assert_eq!((of(&fixed, 0.3), of(&fixed, -1234.567)), ("0.30".into(), "-1,234.57".into()));
        let significant = Column { significant: Some(2), ..Column::default() };
        let cases = [(0.0123, "0.012"), (1.0, "1.0"), (9.96, "10"), (12345.6, "12,346")];
        for (value, expected) in cases {
            assert_eq!(of(&significant, value), expected);
        }
    }

    #[test]
    fn thousands_have_commas_and_fractions_have_none() {
        let cases =
            [("999", "999"), ("1000", "1,000"), ("-10000", "-10,000"), ("0.12345", "0.12345")];
        for (number, expected) in cases {
            assert_eq!(with_commas(number), expected);
        }
    }

    #[test]
    fn a_table_has_units_in_its_headings_and_numbers_at_the_right() {
        let figure = Figure::parse(
            r#"{"title": "Lateness",
                "measured": [{"command": "live probe", "date": "2026-11-25", "commit": "abc", "machine": "a guest"},
                             {"date": "2026-11-26"}],
                "columns": [{"name": "side"}, {"name": "p50", "unit": "us"}, {"name": "p99", "unit": "us"}],
                "rows": [["a | b", 38341, null],
                         ["c", {"median": 1.5, "low": 1.0, "high": 1000.25}, "saturated"],
                         ["d", {"low": 1, "high": 2}, "-"]],
                "notes": ["One.", "Two."]}"#,
        )
        .unwrap();
        let expected = "**Lateness**\n\n| side | p50, us | p99, us |\n| --- | ---: | --- |\n\
                        | a \\| b | 38,341 | - |\n| c | 1.50 [1.00-1,000.25] | saturated |\n| d | 1 to 2 | - |\n\n\
                        Measured by `live probe`, 2026-11-25, commit `abc`, a guest. Measured 2026-11-26.\n\n\
                        * One.\n* Two.\n";
        assert_eq!(render(&figure), expected);
    }
}
