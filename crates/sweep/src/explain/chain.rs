//! The slowest token of a chain, hop by hop.

use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{SlowReport, span};
use serde::Serialize;
use std::fmt::Write as _;

/// The visit of a token to a task.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) task: TaskId,
    /// The instant at which the token reached the task, and the instant at which it went on.
    pub(super) at: Time,
    end: Time,
    is_woken: bool,
    /// The instant at which the task first ran, if the token had to wake it.
    first: Option<Time>,
    /// The CPU that executes the task, and the instant at which it began.
    on: Option<(CpuId, Time)>,
    /// The time that the task ran while it had the token.
    ran: Nanos,
}

impl Hop {
    pub(super) fn new(task: TaskId, at: Time, end: Time) -> Hop {
        Hop { task, at, end, is_woken: false, first: None, on: None, ran: Nanos::ZERO }
    }

    /// Takes the next event of the run.
    pub(super) fn event(&mut self, event: &Event) {
        let turns = matches!(
            event.what,
            What::Exec { .. } | What::Overhead | What::Idle | What::ForcedIdle { .. }
        );
        if let Some((cpu, from)) = self.on.filter(|(cpu, _)| turns && *cpu == event.cpu) {
            let (from, to) = (from.max(self.at), event.at.min(self.end));
            self.ran += if from < to { to.since(from) } else { Nanos::ZERO };
            self.on = self.on.filter(|(on, _)| *on != cpu);
        }
        match event.what {
            What::Wake { task, since, .. } => {
                self.is_woken |= (task, since) == (self.task, self.at);
            }
            What::Exec { task, .. } if task == self.task => {
                self.on = Some((event.cpu, event.at));
                if self.is_woken {
                    self.first.get_or_insert(event.at);
                }
            }
            _ => {}
        }
    }

    /// The time that the token waited for the task to run; zero for a task that was running.
    pub(super) fn wait(&self) -> Nanos {
        self.first.map_or(Nanos::ZERO, |first| first.since(self.at))
    }
}

/// The account of a token.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Slow {
    name: String,
    at_ns: u64,
    latency_ns: u64,
    hops: Vec<SlowHop>,
}

#[derive(Clone, Debug, Serialize)]
struct SlowHop {
    task: String,
    at_ns: u64,
    /// The time until the task first ran.
    wait_ns: u64,
    /// The time that the task ran.
    ran_ns: u64,
    /// The time until the token went on.
    took_ns: u64,
}

impl Slow {
    pub(super) fn new(name: &str, slow: &SlowReport, hops: &[Hop]) -> Slow {
        let told = slow.hops_with_ends().zip(hops).map(|((hop, end), own)| SlowHop {
            task: hop.task.clone(),
            at_ns: hop.at_ns,
            wait_ns: own.wait().0,
            ran_ns: own.ran.0,
            took_ns: end.saturating_sub(hop.at_ns),
        });
        let hops = told.collect();
        Slow { name: name.to_owned(), at_ns: slow.at_ns, latency_ns: slow.latency_ns, hops }
    }

    /// The account as lines of text.
    pub(super) fn text(&self) -> String {
        let Slow { name, at_ns, latency_ns, hops } = self;
        let mut text = format!(
            "The slowest {name} began at {} and took {}:\n\n",
            Time(*at_ns),
            span(*latency_ns)
        );
        let width = hops.iter().map(|hop| hop.task.chars().count()).max().unwrap_or(0);
        for SlowHop { task, at_ns: came, wait_ns, ran_ns, took_ns } in hops {
            let at = format!("+{}", span(came.saturating_sub(*at_ns)));
            let rest = took_ns.saturating_sub(wait_ns + ran_ns);
            let [took, wait, ran, rest] = [*took_ns, *wait_ns, *ran_ns, rest].map(span);
            writeln!(
                text,
                "  {at:<10}  {task:<width$}  {took:>8}: waited {wait}, ran {ran}, was kept off for {rest}"
            )
            .expect("a string takes all");
        }
        text
    }
}
