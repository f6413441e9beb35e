//! The judgement of one workload: recordings, replays and what-ifs beside each other.

use serde_json::Value;

/// The largest quotient of two sizes that agree.
const FACTOR: f64 = 1.5;

/// A change that is smaller than this has no direction. The machine differs that much from itself.
const LEAST_CHANGE: f64 = 1.1;

/// What `runyard replay --json` said of the recordings of one workload.
pub(super) struct Replays {
    /// Of the first one, with the what-if, for several seeds.
    pub(super) before: Vec<Value>,
    pub(super) again: Value,
    pub(super) after: Value,
}

/// A figure of the workload on all sides.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    before: f64,
    again: f64,
    after: f64,
    replayed: f64,
    what_if: f64,
}

/// A workload with its figures.
pub(super) struct Judged {
    name: &'static str,
    change: &'static str,
    /// The waits in seconds, for each second of execution. A change also changes how much a workload gets done.
    waits: Figure,
    /// The 99th percentile of the delays of wake-ups, in microseconds.
    p99: Figure,
}

impl Judged {
    pub(super) fn new(
        name: &'static str,
        change: &'static str,
        tasks: &[&str],
        replays: &Replays,
    ) -> Judged {
        let figure = |of: &dyn Fn(&Value, &str) -> f64| {
            let mean = |side: &str| {
                let sum: f64 = replays.before.iter().map(|replay| of(replay, side)).sum();
                sum / replays.before.len() as f64
            };
            Figure {
                before: mean("recorded"),
                again: of(&replays.again, "recorded"),
                after: of(&replays.after, "recorded"),
                replayed: mean("replayed"),
                what_if: mean("what_if"),
            }
        };
        let p99 = |replay: &Value, side: &str| p99(replay, tasks[0], side);
        Judged {
            name,
            change,
            waits: figure(&|it, side| waits(it, tasks, side)),
            p99: figure(&p99),
        }
    }
}

impl Figure {
    fn real(self) -> f64 {
        self.after / self.before
    }

    fn predicted(self) -> f64 {
        self.what_if / self.replayed
    }

    /// Returns whether the prediction is right: in the direction, if there is one, and in the size.
    fn verdict(self) -> &'static str {
        let (real, predicted) = (self.real(), self.predicted());
        let has_direction = real.max(1.0 / real) >= LEAST_CHANGE;
        match () {
            () if !real.is_finite() || !predicted.is_finite() => "not judged",
            () if apart(self.again / self.before) => "the recordings differ",
            () if has_direction && (real > 1.0) != (predicted > 1.0) => "**wrong**",
            () if apart(predicted / real) => "direction",
            () => "right",
        }
    }
}

fn apart(quotient: f64) -> bool {
    !(1.0 / FACTOR..=FACTOR).contains(&quotient)
}

/// The entries of these names.
fn named<'v>(replay: &'v Value, tasks: &'v [&str]) -> impl Iterator<Item = &'v Value> {
    let names = replay["names"].as_array().into_iter().flatten();
    names.filter(|it| it["name"].as_str().is_some_and(|name| tasks.contains(&name)))
}

fn waits(replay: &Value, tasks: &[&str], side: &str) -> f64 {
    let sum = |field: &str| -> f64 {
        named(replay, tasks).filter_map(|it| it[side][field].as_f64()).sum()
    };
    sum("wait_ns") / sum("runtime_ns")
}

fn p99(replay: &Value, task: &str, side: &str) -> f64 {
    let latency = |it: &Value| it[side]["wakeup_latency"]["p99_ns"].as_f64();
    named(replay, &[task]).find_map(latency).map_or(f64::NAN, |nanos| nanos / 1e3)
}

/// Returns two tables: of waits, and of percentiles.
pub(super) fn table(judged: &[Judged]) -> String {
    let waits = rows("waits, s in each s of execution", judged, 3, |it| it.waits);
    let p99 = rows("p99 of wake-ups, us", judged, 0, |it| it.p99);
    format!("{waits}\n{p99}")
}

fn rows(title: &str, judged: &[Judged], decimals: usize, of: fn(&Judged) -> Figure) -> String {
    let mut text = format!(
        "| {title}: workload | change | before | again | replayed | replayed / before | after | what if | after / before | \
         what if / replayed | |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for it in judged {
        let figure = of(it);
        let Figure { before, again, after, replayed, what_if } = figure;
        text += &format!(
            "| {} | {} | {before:.decimals$} | {again:.decimals$} | {replayed:.decimals$} | {:.2} | {after:.decimals$} | \
             {what_if:.decimals$} | {:.2} | {:.2} | {} |\n",
            it.name,
            it.change,
            replayed / before,
            figure.real(),
            figure.predicted(),
            figure.verdict(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_prediction_is_right_in_direction_and_size() {
        let verdict = |again, after, replayed, what_if| {
            Figure { before: 1.0, again, after, replayed, what_if }.verdict()
        };
        assert_eq!(verdict(1.0, 2.0, 1.5, 3.0), "right");
        assert_eq!(verdict(1.0, 2.0, 1.5, 1.4), "**wrong**");
        assert_eq!(verdict(1.0, 2.0, 1.0, 1.2), "direction");
        assert_eq!(verdict(1.6, 2.0, 1.0, 2.0), "the recordings differ");
        // A change of 5 per cent has no direction.
        assert_eq!(verdict(1.0, 1.05, 1.0, 0.95), "right");
        assert_eq!(verdict(1.0, 2.0, 0.0, 0.0), "not judged");
    }

    #[test]
    fn waits_are_those_of_the_named_tasks() {
        let side = |wait: u64| json!({"wait_ns": wait, "runtime_ns": 10, "wakeup_latency": {"p99_ns": wait * 1_000}});
        let entry = |name: &str, wait| json!({"name": name, "recorded": side(wait), "replayed": side(2 * wait), "what_if": side(3 * wait)});
        let replay = json!({"names": [entry("a", 5), entry("b", 15), entry("other", 99)]});
        let replays = Replays {
            before: vec![replay.clone(), replay.clone()],
            again: replay.clone(),
            after: replay,
        };
        let judged = Judged::new("n", "c", &["b", "a"], &replays);
        let waits = Figure { before: 1.0, again: 1.0, after: 1.0, replayed: 2.0, what_if: 3.0 };
        assert_eq!(judged.waits, waits);
        assert_eq!((judged.p99.before, judged.p99.what_if), (15.0, 45.0));
    }
}
