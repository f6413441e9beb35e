//! The slowest token of a chain, hop by hop.

use super::waited::{Blames, Stay};
use runyard_engine::event::Event;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_report::{BlameReport, Cause, CauseTimes, SlowReport, by_cause, span};
use serde::Serialize;
use std::fmt::Write as _;

/// The visit of a token to a task.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) task: TaskId,
    /// The instant at which the token reached the task.
    pub(super) at: Time,
    pub(super) stay: Stay,
}

impl Hop {
    pub(super) fn new(task: TaskId, at: Time, end: Time) -> Hop {
        Hop { task, at, stay: Stay::new(task, at..end) }
    }

    /// Takes the next event of the run.
    pub(super) fn event(&mut self, event: &Event) {
        self.stay.event(event);
    }
}

/// The account of a token.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Slow {
    name: String,
    at_ns: u64,
    latency_ns: u64,
    hops: Vec<SlowHop>,
    /// The cause of the largest part of all waits, and the latency without it, if nothing else changed.
    helps_most: Option<Cause>,
    without_ns: u64,
}

#[derive(Clone, Debug, Serialize)]
struct SlowHop {
    task: String,
    at_ns: u64,
    /// The time until the task first ran, if the token woke it.
    wait_ns: u64,
    /// The time that the task ran, and that it slept.
    ran_ns: u64,
    slept_ns: u64,
    /// The time that it waited, after the wake-up and later, by cause.
    waits: CauseTimes,
    /// The same by those who caused it, the longest first.
    by: Vec<BlameReport>,
    /// The time until the token went on.
    took_ns: u64,
}

impl Slow {
    /// The account of `slow`. `told` has the waits of each hop.
    pub(super) fn new(
        name: &str,
        slow: &SlowReport,
        hops: &[Hop],
        told: impl Fn(usize) -> Vec<BlameReport>,
    ) -> Slow {
        let hop = |(nth, ((hop, end), own)): (usize, ((&runyard_report::HopReport, u64), &Hop))| {
            let by = told(nth);
            SlowHop {
                task: hop.task.clone(),
                at_ns: hop.at_ns,
                wait_ns: own.stay.first_wait().0,
                ran_ns: own.stay.ran.0,
                slept_ns: own.stay.slept.0,
                waits: own.stay.waits(&by),
                by,
                took_ns: end.saturating_sub(hop.at_ns),
            }
        };
        let hops: Vec<_> = slow.hops_with_ends().zip(hops).enumerate().map(hop).collect();
        let mut all = CauseTimes::default();
        hops.iter().for_each(|hop| all.add(&hop.waits));
        let (helps_most, most) = all.longest().first().copied().unzip();
        let without_ns = slow.latency_ns - most.unwrap_or(0);
        let (name, at_ns, latency_ns) = (name.to_owned(), slow.at_ns, slow.latency_ns);
        Slow { name, at_ns, latency_ns, hops, helps_most, without_ns }
    }

    /// The account as lines of text.
    pub(super) fn text(&self) -> String {
        let Slow { name, at_ns, latency_ns, hops, .. } = self;
        let mut text = format!(
            "The slowest {name} began at {} and took {}:\n\n",
            Time(*at_ns),
            span(*latency_ns)
        );
        let width = hops.iter().map(|hop| hop.task.chars().count()).max().unwrap_or(0);
        for SlowHop { task, at_ns: came, ran_ns, slept_ns, waits, took_ns, .. } in hops {
            let at = format!("+{}", span(came.saturating_sub(*at_ns)));
            let [took, ran] = [*took_ns, *ran_ns].map(span);
            let slept =
                if *slept_ns > 0 { format!(", slept {}", span(*slept_ns)) } else { String::new() };
            let waited = if waits.total() > 0 {
                format!(", waited {}", by_cause(waits))
            } else {
                String::new()
            };
            writeln!(text, "  {at:<10}  {task:<width$}  {took:>8}: ran {ran}{slept}{waited}")
                .expect("a string takes all");
        }
        if let Some(cause) = self.helps_most {
            let [without, with] = [self.without_ns, *latency_ns].map(span);
            let by: Vec<_> = hops.iter().flat_map(|hop| &hop.by).collect();
            let who = Blames::of(cause, by.into_iter()).in_words(&[]);
            writeln!(
                text,
                "\nThe largest part of the waits: {who}.\nWithout that it would have taken {without} instead of {with}."
            )
            .expect("a string takes all");
        }
        text
    }
}
