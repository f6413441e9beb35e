//! A comparison as text and as JSON.

use super::compared::{
    Compared, FACTOR_TENTHS, Figures, LEAST, Sides, Task, Verdict, percent, ratio,
};
use runyard_report::{LatencyReport, span, table};
use runyard_workload::import::Statistics;
use serde_json::{Value, json};
use std::fmt::Write;

/// The number of names that the text shows, those that waited most.
const NAMES: usize = 12;

/// The number of tasks that the text names for a reason.
const NAMED: usize = 4;

/// A comparison, with what belongs to all tasks.
pub(super) struct Shown<'s> {
    /// The recording's name.
    pub(super) name: String,
    pub(super) statistics: &'s Statistics,
    /// The kernels of the replay and of the what-if.
    pub(super) kernel: &'s str,
    pub(super) other_kernel: Option<&'s str>,
    pub(super) compared: &'s Compared<'s>,
}

impl Shown<'_> {
    /// Returns the text: a table with three lines for each name, the verdict, and the reasons.
    pub(super) fn text(&self) -> String {
        let Statistics { cpus, span: length, tick_hz, .. } = self.statistics;
        let compared = self.compared;
        let tick = tick_hz.map_or(String::new(), |hz| format!(", {hz} ticks a second"));
        let tasks = compared.tasks.len();
        let mut text = format!(
            "{}, replayed: {cpus} CPUs, {tasks} tasks, {}, kernel {}{tick}\n\n",
            printable(&self.name),
            span(length.0),
            self.kernel,
        );
        text += &self.table();
        let (within, judged) = compared.within();
        let [recorded, replayed] = [&compared.all.recorded, &compared.all.replayed];
        let quotient = ratio(replayed.wait, recorded.wait);
        let quotient = quotient.map_or(String::new(), |it| format!(", {it:.2} of that"));
        let [least, recorded, replayed] =
            [LEAST, recorded.wait, replayed.wait].map(|wait| span(wait.0));
        let _ = writeln!(
            text,
            "\nWaits: {recorded} recorded, {replayed} replayed{quotient}.\n\
             Within a factor of {}.{}: {within} of {judged} tasks that waited {least} or more, {} %.",
            FACTOR_TENTHS / 10,
            FACTOR_TENTHS % 10,
            percent(within, judged),
        );
        for (reason, tasks) in compared.outside() {
            let names = tasks.iter().take(NAMED).map(|task| printable(&task.recorded.name));
            let more = if tasks.len() > NAMED { ", ..." } else { "" };
            let names = names.collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "{:>5} {}: {names}{more}", tasks.len(), reason.text());
        }
        text
    }

    fn table(&self) -> String {
        let titles =
            ["task", "n", "", "runtime", "wait", "wake-ups", "switches", "migrated", "p50", "p99"];
        let mut table = table(&titles, 3);
        let names = self.compared.by_name();
        let all = ("all", self.compared.tasks.len(), self.compared.all.clone());
        let left_out = names.len().saturating_sub(NAMES);
        for (name, number, sides) in std::iter::once(all).chain(names.into_iter().take(NAMES)) {
            let mut head = [printable(name), number.to_string()];
            for (side, figures) in named(&sides) {
                table.add_row(head.into_iter().chain([side.to_owned()]).chain(cells(figures)));
                head = Default::default();
            }
        }
        let mut text = table.trim_fmt() + "\n";
        if left_out > 0 {
            let _ = writeln!(text, "and {left_out} more names");
        }
        text
    }

    /// Returns the same as JSON, with every task.
    pub(super) fn json(&self) -> Value {
        let Statistics { cpus, span, tick_hz, events, skipped, lost, .. } = self.statistics;
        let (within, judged) = self.compared.within();
        let all = &self.compared.all;
        json!({
            "schema": "runyard.replay/1",
            "recording": self.name,
            "duration_ns": span.0,
            "cpus": cpus,
            "kernel": self.kernel,
            "what_if_kernel": self.other_kernel,
            "tick_hz": tick_hz,
            "events": events,
            "skipped": skipped,
            "lost": lost,
            "verdict": {
                "factor": FACTOR_TENTHS as f64 / 10.0,
                "least_wait_ns": LEAST.0,
                "judged": judged,
                "within": within,
                "within_percent": percent(within, judged),
                "waits_ratio": ratio(all.replayed.wait, all.recorded.wait),
            },
            "all": sides_json(all),
            "names": self.compared.by_name().iter().map(name_json).collect::<Vec<_>>(),
            "tasks": self.compared.tasks.iter().map(task_json).collect::<Vec<_>>(),
        })
    }
}

/// The sides that there are, with their names.
fn named(sides: &Sides) -> impl Iterator<Item = (&'static str, &Figures)> {
    let both = [("recorded", &sides.recorded), ("replayed", &sides.replayed)];
    both.into_iter().chain(sides.what_if.iter().map(|figures| ("what if", figures)))
}

fn cells(figures: &Figures) -> [String; 7] {
    let quantile = |millionths| {
        figures.latencies.quantile(millionths).map_or("-".to_owned(), |latency| span(latency.0))
    };
    [
        span(figures.runtime.0),
        span(figures.wait.0),
        figures.wakeups.to_string(),
        figures.switches.to_string(),
        figures.migrations.to_string(),
        quantile(500_000),
        quantile(990_000),
    ]
}

fn name_json((name, number, sides): &(&str, usize, Sides)) -> Value {
    let mut value = sides_json(sides);
    value["name"] = (*name).into();
    value["tasks"] = (*number).into();
    value
}

fn task_json(task: &Task<'_>) -> Value {
    let (verdict, reason) = match task.verdict {
        Verdict::NotJudged => ("not judged", None),
        Verdict::Within => ("within", None),
        Verdict::Outside(reason) => ("outside", Some(reason.name())),
    };
    let mut value = sides_json(&task.sides);
    value["name"] = task.recorded.name.as_str().into();
    value["verdict"] = verdict.into();
    value["reason"] = reason.into();
    value["recorded"]["charged_ns"] = task.recorded.charged.map(|charged| charged.0).into();
    value["wants_more"] = task.recorded.wants_more.into();
    value
}

fn sides_json(sides: &Sides) -> Value {
    json!({
        "recorded": figures_json(&sides.recorded),
        "replayed": figures_json(&sides.replayed),
        "what_if": sides.what_if.as_ref().map(figures_json),
    })
}

fn figures_json(figures: &Figures) -> Value {
    json!({
        "runtime_ns": figures.runtime.0,
        "wait_ns": figures.wait.0,
        "wakeups": figures.wakeups,
        "switches": figures.switches,
        "migrations": figures.migrations,
        "wakeup_latency": LatencyReport::new(&figures.latencies),
    })
}

/// A name without characters that move the cursor.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}
