//! The figures as tables in plain ASCII.

use super::{GOALS, Goal, Highest, OpenLoopFigures, Point, Quantile};
use crate::live::table::table;
use clap::ValueEnum;

/// Renders every point, then the load that each side sustains.
pub(crate) fn render(measured: &OpenLoopFigures) -> String {
    let head = [
        "mix",
        "side",
        "load",
        "achieved",
        "requests",
        "p50",
        "p99",
        "p99.9",
        "short p50",
        "short p99",
        "short p99.9",
        "",
    ];
    let points = table(head, measured.points.iter().map(point));
    let goals = GOALS.map(goal);
    let [a, b, c, d] = goals.each_ref().map(String::as_str);
    let highest = measured.highest();
    points + "\n" + &table(["mix", "side", a, b, c, d], highest.iter().map(highest_row))
}

fn point(point: &Point) -> [String; 12] {
    let [mix, side] = [name(&point.mix), name(&point.side)];
    let load = format!("{:.2}", point.load);
    let Some(median) = point.median() else {
        let mut row = [const { String::new() }; 12];
        [row[0], row[1], row[2], row[3]] = [mix, side, load, "not permitted".to_owned()];
        return row;
    };
    let saturated = if point.is_saturated() { "saturated" } else { "" };
    [
        mix,
        side,
        load,
        format!("{:.3}", median.achieved),
        median.all.count.to_string(),
        figure(median.all.p50),
        figure(median.all.p99),
        figure(median.all.p999),
        figure(median.short.p50),
        figure(median.short.p99),
        figure(median.short.p999),
        saturated.to_owned(),
    ]
}

fn goal(goal: Goal) -> String {
    let quantile = match goal.quantile {
        Quantile::P99 => "p99",
        Quantile::P999 => "p99.9",
    };
    format!("{quantile} <= {}", goal.most)
}

fn highest_row(row: &Highest) -> [String; 2 + GOALS.len()] {
    let load = |load: Option<f64>| load.map_or_else(|| "-".to_owned(), |load| format!("{load:.2}"));
    let [a, b, c, d] = row.loads.map(load);
    [name(&row.mix), name(&row.side), a, b, c, d]
}

fn figure(slowdown: Option<f64>) -> String {
    slowdown.map_or_else(|| "-".to_owned(), |slowdown| format!("{slowdown:.1}"))
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("every value has a name").get_name().to_owned()
}
