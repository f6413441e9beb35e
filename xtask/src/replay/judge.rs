//! The judgement of one workload: recordings, replays and what-ifs beside each other.

use serde_json::Value;

/// The largest quotient of two sizes that agree.
const FACTOR: f64 = 1.5;

/// A change that is smaller than this has no direction.
const LEAST_CHANGE: f64 = 1.1;

/// What `runyard replay --json` said of the recordings of one workload.
pub(super) struct Replays {
    /// Of the first one, with the what-if, for several seeds.
    pub(super) before: Vec<Value>,
    pub(super) again: Value,
    pub(super) after: Value,
    pub(super) after_again: Value,
}

/// A figure of the workload on all sides.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    before: [f64; 2],
    after: [f64; 2],
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
        let Replays { before, again, after, after_again } = replays;
        let figure = |of: &dyn Fn(&Value, &str) -> f64| {
            let mean = |side: &str| {
                before.iter().map(|replay| of(replay, side)).sum::<f64>() / before.len() as f64
            };
            Figure {
                before: [mean("recorded"), of(again, "recorded")],
                after: [after, after_again].map(|replay| of(replay, "recorded")),
                replayed: mean("replayed"),
                what_if: mean("what_if"),
            }
        };
        Judged {
            name,
            change,
            waits: figure(&|replay, side| waits(replay, tasks, side)),
            p99: figure(&|replay, side| p99(replay, tasks[0], side)),
        }
    }
}

impl Figure {
    /// Returns the smallest and the largest quotient of a recording after the change and one before.
    fn real(self) -> [f64; 2] {
        let least = |pair: [f64; 2]| pair[0].min(pair[1]);
        let most = |pair: [f64; 2]| pair[0].max(pair[1]);
        [least(self.after) / most(self.before), most(self.after) / least(self.before)]
    }

    fn predicted(self) -> f64 {
        self.what_if / self.replayed
    }

    /// Returns whether the prediction is right: in the direction, if both recordings have the same, and in the size.
    fn verdict(self) -> &'static str {
        let ([least, most], predicted) = (self.real(), self.predicted());
        let all = [self.before, self.after, [self.replayed, self.what_if]];
        let (up, down) = (least >= LEAST_CHANGE, most <= 1.0 / LEAST_CHANGE);
        match () {
            () if all.iter().flatten().any(|it| !it.is_finite()) => "not judged",
            () if up && predicted <= 1.0 || down && predicted >= 1.0 => "**wrong**",
            () if predicted < least / FACTOR || predicted > most * FACTOR => "**size**",
            () if up || down => "right",
            () => "right, without a direction",
        }
    }
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

const HEADINGS: [&str; 12] = [
    "workload",
    "change",
    "before",
    "again",
    "replayed",
    "replayed / before",
    "after",
    "again",
    "what if",
    "after / before",
    "what if / replayed",
    "prediction",
];

fn rows(title: &str, judged: &[Judged], decimals: usize, of: fn(&Judged) -> Figure) -> String {
    let rule = ["---"; HEADINGS.len()].join("|");
    let mut text = format!("{title}\n\n| {} |\n|{rule}|\n", HEADINGS.join(" | "));
    for it in judged {
        let figure = of(it);
        let Figure { before, after, replayed, what_if } = figure;
        let [least, most] = figure.real();
        text += &format!(
            "| {} | {} | {:.decimals$} | {:.decimals$} | {replayed:.decimals$} | {:.2} | {:.decimals$} | \
             {:.decimals$} | {what_if:.decimals$} | {least:.2} to {most:.2} | {:.2} | {} |\n",
            it.name,
            it.change,
            before[0],
            before[1],
            replayed / before[0],
            after[0],
            after[1],
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
        let verdict =
            |after, what_if| Figure { before: [1.0, 1.1], after, replayed: 2.0, what_if }.verdict();
        assert_eq!(verdict([2.0, 2.4], 4.0), "right");
        assert_eq!(verdict([2.0, 2.4], 1.9), "**wrong**");
        assert_eq!(verdict([0.5, 0.4], 2.1), "**wrong**");
        assert_eq!(verdict([2.0, 2.4], 2.1), "**size**");
        assert_eq!(verdict([2.0, 2.4], 8.0), "**size**");
        // The recordings after the change are on both sides of those before.
        assert_eq!(verdict([0.9, 1.3], 1.8), "right, without a direction");
        assert_eq!(verdict([f64::NAN, 1.3], 1.8), "not judged");
    }

    #[test]
    fn waits_are_those_of_the_named_tasks() {
        let side = |wait: u64| json!({"wait_ns": wait, "runtime_ns": 10, "wakeup_latency": {"p99_ns": wait * 1_000}});
        let entry = |name: &str, wait| json!({"name": name, "recorded": side(wait), "replayed": side(2 * wait), "what_if": side(3 * wait)});
        let replay = json!({"names": [entry("a", 5), entry("b", 15), entry("other", 99)]});
        let [again, after, after_again] = [(); 3].map(|()| replay.clone());
        let replays = Replays { before: vec![replay.clone(), replay], again, after, after_again };
        let judged = Judged::new("n", "c", &["b", "a"], &replays);
        let waits = Figure { before: [1.0; 2], after: [1.0; 2], replayed: 2.0, what_if: 3.0 };
        assert_eq!(judged.waits, waits);
        assert_eq!((judged.p99.before[0], judged.p99.what_if), (15.0, 45.0));
    }
}
