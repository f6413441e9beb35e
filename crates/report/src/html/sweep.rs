//! The page of a sweep: a chart of one metric against the swept values, with the interval of its mean as a band, and a
//! table of all points.
//!
//! The table is in the document. The script shows the rows of the chosen metric, and draws the chart.

use super::table::{escaped, section, sorting, text_cell};
use crate::statistics::Summary;
use crate::text::counted;
use crate::units::{MetricUnit, UNKNOWN};
use serde::{Serialize, Serializer};
use std::fmt::Write as _;

/// The number of summaries on a page; with more, some metrics or points are left out.
const FIGURES: usize = 20_000;
/// The number of rows of the table.
const ROWS: usize = 4_000;

const TAKES_ALL: &str = "a string takes all";

/// The contents of a sweep's page.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The title: the swept scenario.
    pub title: String,
    /// The number of runs of each point; the greatest one, if it differs.
    pub seeds: usize,
    /// The number of runs of all points.
    pub runs: usize,
    /// Whether there is a point for each combination of values.
    pub is_grid: bool,
    /// The columns in which the points differ.
    pub columns: Vec<SweepColumn>,
    /// For each point, the indices of its values in the columns.
    pub points: Vec<Vec<usize>>,
    /// The metrics.
    pub metrics: Vec<SweepMetric>,
    /// Each metric of each point; `None` if no run has it.
    pub figures: Vec<Option<Summary>>,
    /// The number of failed runs, and the reason of the first.
    pub failed: Option<(usize, String)>,
}

/// A column in which the points differ.
#[derive(Clone, Debug, Serialize)]
pub struct SweepColumn {
    /// The path or the axis.
    pub name: String,
    /// The values, in their order.
    pub values: Vec<String>,
    /// Whether all values are numbers.
    pub is_number: bool,
}

/// A metric of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepMetric {
    /// The name in the specification.
    pub name: String,
    /// The unit of its numbers.
    pub unit: MetricUnit,
}

/// The figures that the page's script draws.
#[derive(Serialize)]
struct Data<'s> {
    is_grid: bool,
    columns: &'s [SweepColumn],
    points: &'s [Vec<usize>],
    metrics: &'s [SweepMetric],
    /// For each metric and each point: n, mean, median, and the ends of the interval.
    figures: Vec<Vec<Option<Figures>>>,
}

/// A summary with as many digits as a picture shows.
struct Figures(Summary);

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        /// Rounds to six digits, which are more than a screen has points.
        fn short(number: f64) -> f64 {
            let digits = format!("{number:.5e}");
            digits.parse().expect("a number in digits is a number")
        }
        let Summary { n, mean, median, interval } = self.0;
        let ends = interval.map(|(low, high)| (short(low), short(high)));
        (n, short(mean), short(median), ends).serialize(to)
    }
}

/// The part of a sweep that a page has.
struct Shown {
    metrics: usize,
    points: usize,
}

impl Shown {
    fn of(sweep: &Sweep) -> Shown {
        let points = sweep.points.len().min(FIGURES);
        let metrics = sweep.metrics.len().min(FIGURES / points.max(1));
        Shown { metrics, points }
    }
}

/// The document.
pub(super) fn body(sweep: &Sweep) -> String {
    let shown = Shown::of(sweep);
    let (points, runs) = (sweep.points.len(), sweep.runs);
    let mut body = format!(
        "<header>\n<h1>{}, swept</h1>\n<p class=quiet>{}, {} each: {}</p>\n</header>\n",
        escaped(&sweep.title),
        counted(points as u64, "point"),
        counted(sweep.seeds as u64, "seed"),
        counted(runs as u64, "run"),
    );
    if let Some((failed, reason)) = &sweep.failed {
        let failed = counted(*failed as u64, "run");
        let reason = escaped(reason);
        writeln!(body, "<div class=broken><b>Failed: {failed}.</b> The first: {reason}</div>")
            .expect(TAKES_ALL);
    }
    body.push_str(&left_out(sweep, &shown));
    body.push_str(&figure(sweep));
    let note = "The mean over the seeds, the median, and the interval that holds the mean 95 times in 100 (Student's t).";
    body.push_str(&section("All points", note, &table(sweep, &shown)));
    body + "<footer>Made by runyard; charts by Apache ECharts. A dash stands for what no run has, or what one run \
            cannot say.</footer>\n"
}

fn left_out(sweep: &Sweep, shown: &Shown) -> String {
    let mut parts = Vec::new();
    for (all, some, what) in [
        (sweep.metrics.len(), shown.metrics, "metrics"),
        (sweep.points.len(), shown.points, "points"),
    ] {
        if some < all {
            parts.push(format!("the first {some} of {all} {what}"));
        }
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=note>The page has {}; summary.csv has all.</p>\n",
            parts.join(" and ")
        ),
    }
}

fn figure(sweep: &Sweep) -> String {
    let note = match sweep.seeds {
        1 => {
            "One run of each point: there is no interval, and what looks like a difference may be chance."
        }
        _ => {
            "Lines and points are means over the seeds. A band or a bar holds its mean 95 times in 100; where two do not overlap, means differ."
        }
    };
    let content = "<form class=choices id=choices></form>\n<ul class=legend id=sweep-legend></ul>\n<div class=chart id=sweep></div>\n";
    section("Figure", note, content)
}

/// The rows of the first metrics. The script shows one metric at a time.
fn table(sweep: &Sweep, shown: &Shown) -> String {
    let mut html = "<div class=scroll><table id=points>\n<thead><tr>".to_owned();
    for column in &sweep.columns {
        html.push_str(&sorting(&escaped(&column.name), true));
    }
    html.push_str("<th scope=col class=text>metric</th>");
    for title in ["n", "mean", "median", "lo", "hi"] {
        html.push_str(&sorting(title, false));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let metrics = shown.metrics.min((ROWS / shown.points.max(1)).max(1));
    let mut rows = 0;
    for (at, metric) in sweep.metrics.iter().enumerate().take(metrics) {
        for (point, values) in sweep.points.iter().enumerate().take(shown.points.min(ROWS)) {
            let figures = sweep.figures[point * sweep.metrics.len() + at];
            html.push_str(&row(sweep, (at, metric), values, figures));
            rows += 1;
        }
    }
    html.push_str("</tbody></table></div>\n");
    let all = sweep.points.len() * sweep.metrics.len();
    if rows < all {
        writeln!(html, "<p class=note>{rows} of {all} rows; summary.csv has all.</p>")
            .expect(TAKES_ALL);
    }
    html
}

fn row(
    sweep: &Sweep,
    (at, metric): (usize, &SweepMetric),
    values: &[usize],
    figures: Option<Summary>,
) -> String {
    let mut html = format!("<tr data-metric={at}>");
    for (value, column) in values.iter().zip(&sweep.columns) {
        html.push_str(&text_cell(&column.values[*value]));
    }
    html.push_str(&text_cell(&metric.name));
    let n = figures.map_or(0, |figures| figures.n);
    write!(html, "<td data-value={n}>{n}</td>").expect(TAKES_ALL);
    let interval = figures.and_then(|figures| figures.interval);
    for number in [
        figures.map(|figures| figures.mean),
        figures.map(|figures| figures.median),
        interval.map(|(low, _)| low),
        interval.map(|(_, high)| high),
    ] {
        match number {
            Some(number) => {
                write!(html, "<td data-value={number}>{}</td>", metric.unit.shown(number))
                    .expect(TAKES_ALL);
            }
            None => write!(html, "<td>{UNKNOWN}</td>").expect(TAKES_ALL),
        }
    }
    html + "</tr>\n"
}

/// The data for the script. The text contains no `<`, so nothing in it ends a script element.
pub(super) fn json(sweep: &Sweep) -> String {
    let Shown { metrics, points } = Shown::of(sweep);
    let figures = |metric: usize| {
        let at = |point: usize| sweep.figures[point * sweep.metrics.len() + metric].map(Figures);
        (0..points).map(at).collect()
    };
    let data = Data {
        is_grid: sweep.is_grid,
        columns: &sweep.columns,
        points: &sweep.points[..points],
        metrics: &sweep.metrics[..metrics],
        figures: (0..metrics).map(figures).collect(),
    };
    let json = serde_json::to_string(&data).expect("figures are JSON");
    json.replace('<', "\\u003c")
}
