//! `runyard live`: runs a scenario on the runyard runtime, on this machine's CPUs, in this process.
//!
//! Its report is made from the runtime's events, as in a simulation.

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::log::Log;
use crate::options::HostOptions;
use crate::outputs::{Ended, Outputs};
use crate::progress;
use clap::Args;
use runyard_engine::event::Event;
use runyard_engine::time::Nanos;
use runyard_hosts::ignored;
use runyard_hosts::live::{self, EventSink};
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::{ChainReport, Checks, Collector, Kept, RunInfo};
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
    let accounts = outputs.collector(parsed.scenario.machine.topology);
    let accounts = match outputs.tell_all() {
        true => accounts.with_worst(parsed.scenario.instances().count()),
        false => accounts,
    };
    let events = Events { accounts, kept: outputs.kept() };
    let events = Arc::new(Mutex::new(events));
    let started = Instant::now();
    let log = host.log.is_some();
    let interrupt = Interrupt::expect();
    let bar = progress::of_wall_time(parsed.scenario.duration);
    let plan = Plan { log, stop: Some(interrupt.flag()), ..Plan::new(parsed.scenario, host.seed) };
    let over = live::run(plan, cpus, events.clone())?;
    drop(bar);
    let wall = Nanos::from(started.elapsed());
    interrupt.tell(over.ended(), &over.left().lines);
    let (accounts, kept) = std::mem::take(&mut *lock(&events)).finish();
    let (end, totals) = (over.ended(), accounts.finish(over.ended()));
    let info = RunInfo { scenario: host.name(), seed: host.seed, wall, ..over.info() };
    info.chains.iter().filter_map(ChainReport::shortfall).for_each(say);
    let kernel = over.scenario().model.kernel;
    let ended = Ended { info, totals, end, kernel, kept };
    let log = Log::new(over.scenario(), over.take_rows());
    outputs.finish(ended, Checks::NotDone, log)?;
    Ok(interrupt.done(Done::Well))
}

/// The events of a run. They are counted at once, unless a trace is wanted. With a trace they are kept, and counted at
/// the end in the order of the trace.
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
    /// The accounts, and the kept events in order of time.
    fn finish(mut self) -> (Collector, Option<Kept>) {
        let kept = self.kept.map(Kept::in_order);
        kept.iter().flat_map(Kept::iter).for_each(|event| self.accounts.event(event));
        (self.accounts, kept)
    }
}
