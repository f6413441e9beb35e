//! The page of a sweep, from its plan and its tables.

use crate::cell::Cell;
use crate::gather::Gathered;
use crate::plan::Plan;
use runyard_report::html::{self, Sweep, SweepColumn, SweepMetric};
use runyard_report::metric_title;

/// The page.
pub(crate) fn page(plan: &Plan, gathered: &Gathered) -> String {
    let columns: Vec<SweepColumn> = (0..plan.columns().len()).map(|at| column(plan, at)).collect();
    let place = |(cell, column): (&Cell, &SweepColumn)| {
        let shown = shown(cell);
        column.values.iter().position(|value| *value == shown).expect("a column has its values")
    };
    let point = |at: usize| plan.point(at).values.iter().zip(&columns).map(place).collect();
    let metric = |metric: &crate::metric::Metric| SweepMetric {
        name: metric_title(&metric.to_string()),
        unit: metric.unit(),
    };
    html::sweep(&Sweep {
        title: plan.name().to_owned(),
        seeds: gathered.seeds.iter().copied().max().unwrap_or(0),
        runs: gathered.seeds.iter().sum(),
        is_grid: plan.is_grid(),
        points: (0..plan.points()).map(point).collect(),
        metrics: plan.metrics().iter().map(metric).collect(),
        figures: gathered.summary.iter().map(|row| row.summary).collect(),
        failed: gathered.failed.clone(),
        columns,
    })
}

/// A column with its values, in the order of their first appearance.
fn column(plan: &Plan, at: usize) -> SweepColumn {
    let mut values: Vec<String> = Vec::new();
    let all = plan.values(at);
    for cell in &all {
        let shown = shown(cell);
        if !values.contains(&shown) {
            values.push(shown);
        }
    }
    let is_number = all.iter().all(|cell| cell.number().is_some());
    SweepColumn { name: plan.columns()[at].clone(), values, is_number }
}

/// A value as the page shows it.
fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Null => "as it is".to_owned(),
        Cell::Text(text) if text.is_empty() => "none".to_owned(),
        cell => cell.to_string(),
    }
}
