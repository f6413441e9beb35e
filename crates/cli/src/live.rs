//! `runyard live`: a scenario on the runyard runtime, on this machine's CPUs, in this process.
//!
//! The report is made from the runtime's events, like a simulation's.

use crate::exit::Done;
use crate::log::Log;
use crate::options::HostOptions;
use crate::outputs::{Ended, Outputs, tell_what_is_left};
use crate::trace::Kept;
use clap::Args;
use runyard_engine::event::Event;
use runyard_engine::time::Nanos;
use runyard_hosts::live::{self, EventSink};
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_hosts::{Failure, ignored};
use runyard_report::{Checks, Collector, RunInfo};
use std::time::Instant;

/// The arguments of `runyard live`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let host = &arguments.host;
    let cpus = host.cpus_here()?.len();
    let parsed = host.read_on(cpus)?;
    ignored::warn_on_live(&parsed.scenario);
    let outputs = Outputs::open(host)?;
    let events = Events { accounts: outputs.collector(), kept: outputs.kept() };
    let events = Arc::new(Mutex::new(events));
    let started = Instant::now();
    let log = host.log.is_some();
    let plan = Plan { scenario: parsed.scenario, seed: host.seed, watch: None, log };
    let over = live::run(plan, cpus, events.clone())?;
    let wall = Nanos(started.elapsed().as_nanos() as u64);
    tell_what_is_left(&over.left());
    let (accounts, kept) = std::mem::take(&mut *lock(&events)).finish();
    let (end, totals) = (over.ended(), accounts.finish(over.ended()));
    let info = RunInfo { scenario: host.name(), seed: host.seed, wall, ..over.info() };
    let ended = Ended { info, totals, end, kept };
    let log = Log::new(over.scenario(), over.take_rows());
    outputs.finish(ended, Checks::NotDone, log)?;
    Ok(Done::Well)
}

/// What becomes of the events: they are accounted for at once, unless a trace is wanted. Then they
/// are kept, and accounted for in the order in which the trace has them.
#[derive(Debug, Default)]
struct Events {
    accounts: Collector,
    kept: Option<Kept>,
}

impl EventSink for Events {
    fn event(&mut self, event: &Event) {
        match &mut self.kept {
            None => self.accounts.event(event),
            Some(kept) => kept.push(event),
        }
    }
}

impl Events {
    /// The accounts, and what was kept in order of time.
    fn finish(mut self) -> (Collector, Option<Kept>) {
        let kept = self.kept.map(Kept::in_order);
        kept.iter().flat_map(Kept::iter).for_each(|event| self.accounts.event(event));
        (self.accounts, kept)
    }
}
