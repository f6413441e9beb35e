//! The comparison of a recording with its replay: the figures of both sides, the tasks whose waits agree, and the
//! reasons for the others.
//!
//! A replay repeats what tasks ask for, and makes each decision anew. So waits are what it can get wrong. A task is
//! *within* if its waits, in sum, are within [`FACTOR_TENTHS`] of the recorded ones, and *outside* otherwise. A task that
//! waited less than [`LEAST`] on both sides is not judged.

use runyard_engine::time::Nanos;
use runyard_report::Histogram;
use runyard_workload::import::{Imported, Recorded};
use std::collections::BTreeMap;

/// The largest quotient of two figures that agree, in tenths.
pub(super) const FACTOR_TENTHS: u64 = 15;

/// A task that waited less than this is not judged. The cost of recording is a large part of such a wait.
pub(super) const LEAST: Nanos = Nanos::from_millis(1);

/// The smallest number of waits of which a sum says more than chance.
const FEW: u64 = 10;

/// The figures of one task, or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) runtime: Nanos,
    pub(super) wait: Nanos,
    pub(super) wakeups: u64,
    pub(super) switches: u64,
    pub(super) migrations: u64,
    /// The delays from a wake-up to a CPU.
    pub(super) latencies: Histogram,
}

impl Figures {
    fn of(task: &Recorded) -> Figures {
        let mut latencies = Histogram::default();
        task.delays.iter().for_each(|&delay| latencies.record(delay));
        Figures {
            runtime: task.runtime,
            wait: task.wait,
            wakeups: task.wakeups,
            switches: task.switches,
            migrations: task.migrations,
            latencies,
        }
    }

    pub(super) fn add(&mut self, more: &Figures) {
        self.runtime += more.runtime;
        self.wait += more.wait;
        self.wakeups += more.wakeups;
        self.switches += more.switches;
        self.migrations += more.migrations;
        self.latencies.merge(&more.latencies);
    }
}

/// The figures of the recording, of its replay, and of the what-if, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Sides {
    pub(super) recorded: Figures,
    pub(super) replayed: Figures,
    pub(super) what_if: Option<Figures>,
}

impl Sides {
    fn add(&mut self, more: &Sides) {
        self.recorded.add(&more.recorded);
        self.replayed.add(&more.replayed);
        if let Some(more) = &more.what_if {
            self.what_if.get_or_insert_default().add(more);
        }
    }
}

/// Why the waits of a task differ: the first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// It got more or less CPU time.
    Share,
    /// It was woken more or less often.
    Wakeups,
    /// It waited a few times only.
    Few,
    /// None of these.
    Order,
}

impl Reason {
    /// Its name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Reason::Share => "share",
            Reason::Wakeups => "wakeups",
            Reason::Few => "few",
            Reason::Order => "order",
        }
    }

    /// A sentence about the tasks.
    pub(super) fn text(self) -> &'static str {
        match self {
            Reason::Share => {
                "got another share of the CPUs: their task groups or policies may not be known"
            }
            Reason::Wakeups => {
                "slept more or less often: a wake-up that comes before the sleep needs none"
            }
            Reason::Few => "waited fewer than ten times, so chance decides",
            Reason::Order => "found other tasks before them: the order of the others differs",
        }
    }

    fn of(sides: &Sides) -> Reason {
        let (recorded, replayed) = (&sides.recorded, &sides.replayed);
        match () {
            () if !agree(recorded.runtime.0, replayed.runtime.0) => Reason::Share,
            () if !agree(recorded.wakeups, replayed.wakeups) => Reason::Wakeups,
            () if recorded.switches.min(replayed.switches) < FEW => Reason::Few,
            () => Reason::Order,
        }
    }
}

/// How far the replay of a task agrees with the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It hardly waited.
    NotJudged,
    Within,
    Outside(Reason),
}

impl Verdict {
    fn of(sides: &Sides) -> Verdict {
        let waits = [sides.recorded.wait, sides.replayed.wait];
        match () {
            () if waits.into_iter().max() < Some(LEAST) => Verdict::NotJudged,
            () if agree(waits[0].0, waits[1].0) => Verdict::Within,
            () => Verdict::Outside(Reason::of(sides)),
        }
    }
}

/// Returns whether neither figure is more than [`FACTOR_TENTHS`] of the other.
fn agree(one: u64, other: u64) -> bool {
    let product = |figure: u64, by: u64| u128::from(figure) * u128::from(by);
    product(one.max(other), 10) <= product(one.min(other), FACTOR_TENTHS)
}

/// One task on all sides.
#[derive(Debug)]
pub(super) struct Task<'i> {
    pub(super) recorded: &'i Recorded,
    pub(super) sides: Sides,
    pub(super) verdict: Verdict,
}

/// The comparison of all tasks, in the order of the scenario.
#[derive(Debug)]
pub(super) struct Compared<'i> {
    pub(super) tasks: Vec<Task<'i>>,
    pub(super) all: Sides,
}

impl<'i> Compared<'i> {
    /// Compares a recording with its replay, and perhaps with a what-if. Both have the figures of the tasks by name.
    pub(super) fn new(
        imported: &'i Imported,
        replayed: &BTreeMap<String, Figures>,
        what_if: Option<&BTreeMap<String, Figures>>,
    ) -> Compared<'i> {
        let of =
            |side: &BTreeMap<String, Figures>, name| side.get(name).cloned().unwrap_or_default();
        let task = |recorded: &'i Recorded| {
            let name = recorded.name.as_str();
            let sides = Sides {
                recorded: Figures::of(recorded),
                replayed: of(replayed, name),
                what_if: what_if.map(|side| of(side, name)),
            };
            Task { recorded, verdict: Verdict::of(&sides), sides }
        };
        let tasks: Vec<_> = imported.tasks.iter().map(task).collect();
        let mut all = Sides::default();
        tasks.iter().for_each(|task| all.add(&task.sides));
        Compared { tasks, all }
    }

    /// Returns the number of tasks whose waits agree, and of those that are judged.
    pub(super) fn within(&self) -> (usize, usize) {
        let count = |counts: fn(&Verdict) -> bool| {
            self.tasks.iter().filter(|task| counts(&task.verdict)).count()
        };
        let within = count(|verdict| *verdict == Verdict::Within);
        (within, within + count(|verdict| matches!(verdict, Verdict::Outside(_))))
    }

    /// Returns the tasks outside, by the reason.
    pub(super) fn outside(&self) -> BTreeMap<Reason, Vec<&Task<'i>>> {
        let mut outside: BTreeMap<Reason, Vec<_>> = BTreeMap::new();
        for task in &self.tasks {
            if let Verdict::Outside(reason) = task.verdict {
                outside.entry(reason).or_default().push(task);
            }
        }
        outside
    }

    /// Returns the number of tasks of each name with the sum of their figures, those that waited most first.
    pub(super) fn by_name(&self) -> Vec<(&'i str, usize, Sides)> {
        let mut names: BTreeMap<&str, (usize, Sides)> = BTreeMap::new();
        for task in &self.tasks {
            let (number, sides) = names.entry(&task.recorded.comm).or_default();
            *number += 1;
            sides.add(&task.sides);
        }
        let mut names: Vec<_> =
            names.into_iter().map(|(name, (number, sides))| (name, number, sides)).collect();
        let waited = |sides: &Sides| sides.recorded.wait.max(sides.replayed.wait);
        names.sort_by_key(|(name, _, sides)| (std::cmp::Reverse(waited(sides)), *name));
        names
    }
}

/// The part that `of` is of `whole`, in per cent; 100 of nothing.
pub(super) fn percent(of: usize, whole: usize) -> usize {
    (of * 100 + whole / 2).checked_div(whole).unwrap_or(100)
}

/// The quotient of two spans, if there is one.
pub(super) fn ratio(span: Nanos, by: Nanos) -> Option<f64> {
    (by > Nanos::ZERO).then(|| span.0 as f64 / by.0 as f64)
}
