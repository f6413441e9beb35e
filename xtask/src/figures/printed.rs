//! The values of a table from the JSON that a program prints.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::figure::{Cell, Column, Figure, Place, Printed, Range};
use crate::workspace::Outcome;

/// Puts the values of `json` into the rows of `figure` that have their labels. Returns the labels of the other rows.
pub fn fill(figure: &mut Figure, printed: &Printed, json: &Value) -> Outcome<Vec<String>> {
    let list = json.pointer(&printed.rows).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("there is no list at `{}`", printed.rows))?;
    let label = |row| Value::pointer(row, &printed.label).and_then(Value::as_str);
    let found: BTreeMap<_, _> = list.iter().filter_map(|row| Some((label(row)?, row))).collect();
    let mut kept = Vec::new();
    for row in &mut figure.rows {
        let Some(Some(Cell::Text(text))) = row.first() else { continue };
        let name = printed.names.get(text).map_or(text.trim_matches('`'), String::as_str);
        let Some(values) = found.get(name) else {
            kept.push(text.clone());
            continue;
        };
        for (column, cell) in figure.columns.iter().zip(row) {
            if let Some(value) = value(column, values) {
                *cell = Some(value);
            }
        }
    }
    Ok(kept)
}

/// The cell of `column`, if the JSON has it.
fn value(column: &Column, row: &Value) -> Option<Cell> {
    let number = |path: &String| {
        let value = row.pointer(path)?.as_f64()?;
        Number::from_f64(column.scale.map_or(value, |scale| value * scale))
    };
    match column.from.as_ref()? {
        Place::Number(path) => Some(Cell::Number(number(path)?)),
        Place::Range([median, low, high]) => Some(Cell::Range(Range {
            median: Some(number(median)?),
            low: number(low)?,
            high: number(high)?,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figure::Source;

    const FIGURE: &str = r#"{
        "title": "t",
        "measured": [{"command": "live", "date": "d"}],
        "record": {"rows": "/lateness", "label": "/probe", "names": {"runyard": "runyard, FIFO"}},
        "columns": [{"name": ""}, {"name": "p50", "from": "/figures/p50_ns", "scale": 0.001},
                    {"name": "ratio", "from": ["/ratio", "/range/0", "/range/1"]}, {"name": "note"}],
        "rows": [["runyard", 1, null, "kept"], ["`tokio`", 2, 3, null], ["earlier", 4, 5, null]]}"#;

    const JSON: &str = r#"{"lateness": [
        {"probe": "runyard, FIFO", "figures": {"p50_ns": 22000}, "ratio": 1.5, "range": [1.0, 2.0]},
        {"probe": "tokio", "figures": {"p50_ns": 500}},
        {"probe": "another", "figures": {"p50_ns": 1}}]}"#;

    fn filled(json: &str) -> Outcome<(String, Vec<String>)> {
        let mut figure = Figure::parse(FIGURE)?;
        let Some(Source::Printed(printed)) = figure.record.clone() else { panic!("no source") };
        let kept = fill(&mut figure, &printed, &serde_json::from_str(json)?)?;
        Ok((figure.text()?, kept))
    }

    #[test]
    fn rows_have_the_values_of_their_labels() {
        let (text, kept) = filled(JSON).unwrap();
        let range = r#"{"median": 1.5, "low": 1.0, "high": 2.0}"#;
        for row in [
            format!(r#"["runyard", 22.0, {range}, "kept"]"#),
            r#"["`tokio`", 0.5, 3, null]"#.to_owned(),
            r#"["earlier", 4, 5, null]"#.to_owned(),
        ] {
            assert!(text.contains(&row), "{row}\n{text}");
        }
        assert_eq!(kept, ["earlier"]);
    }

    #[test]
    fn json_without_the_list_is_refused() {
        let error = filled(r#"{"late": []}"#).unwrap_err().to_string();
        assert_eq!(error, "there is no list at `/lateness`");
    }
}
