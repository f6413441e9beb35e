//! The medians over the rounds, and their ranges.

use crate::Failure;
use std::io::BufRead;

/// All figures with the same load, side and name.
struct Row {
    key: String,
    figures: Vec<f64>,
}

/// Reads the lines of any number of runs. Prints the figures in the order in which their names first appear.
pub fn print(lines: impl BufRead) -> Result<(), Failure> {
    let mut rows: Vec<Row> = Vec::new();
    for (nth, line) in lines.lines().enumerate() {
        let line = line?;
        let wrong = || format!("line {}: {line:?} is no figure", nth + 1);
        let (key, figure) = line.rsplit_once(',').ok_or_else(wrong)?;
        let figure = figure.parse().map_err(|_| wrong())?;
        match rows.iter_mut().find(|row| row.key == key) {
            Some(row) => row.figures.push(figure),
            None => rows.push(Row { key: key.to_owned(), figures: vec![figure] }),
        }
    }
    for Row { key, mut figures } in rows {
        figures.sort_by(f64::total_cmp);
        let last = figures.len() - 1;
        let [least, middle, most] = [0, last / 2, last].map(|nth| figures[nth]);
        println!(
            "{:<48} {middle:12.2} [{least:.2}-{most:.2}]  n = {}",
            key.replace(',', ", "),
            figures.len()
        );
    }
    Ok(())
}
