//! `runyard linux`: runs a scenario as kernel threads under the machine's own scheduler.

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::log::Log;
use crate::options::HostOptions;
use crate::outputs::Outputs;
use crate::progress;
use clap::Args;
use runyard_engine::time::Nanos;
use runyard_hosts::ignored;
use runyard_hosts::linux::{self, Ground};
use runyard_hosts::play::Plan;
use runyard_outcome::Failure;
use runyard_report::{Checks, EngineReport};
use std::time::Instant;

/// The arguments of `runyard linux`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let host = &arguments.host;
    if host.has_features() {
        return Err(Failure::input("--feature: linux runs under the kernel's own scheduler"));
    }
    if host.has_kernel() {
        return Err(Failure::input("--kernel: linux runs under the kernel of this machine"));
    }
    if host.trace.is_given() {
        return Err(Failure::input(
            "--trace: what the kernel does is traced by `perf sched record`",
        ));
    }
    let cpus = host.cpus_here()?;
    let parsed = host.read_for_kernel(cpus.len())?;
    ignored::warn_on_linux(&parsed.scenario);
    let outputs = Outputs::open(host)?;
    let ground = Ground::with_groups(cpus, &parsed.scenario);
    let started = Instant::now();
    let log = host.log.is_some();
    let interrupt = Interrupt::expect();
    let bar = progress::of_wall_time(parsed.scenario.duration);
    let plan = Plan { log, stop: Some(interrupt.flag()), ..Plan::new(parsed.scenario, host.seed) };
    let over = linux::run(plan, ground)?;
    drop(bar);
    let wall = Nanos::from(started.elapsed());
    interrupt.tell(over.ended(), &over.left().lines);
    let mut report = over.report();
    (report.scenario, report.seed) = (host.name(), host.seed);
    report.engine = EngineReport { wall_ns: Some(wall.0), ..EngineReport::default() };
    let log = Log::new(over.scenario(), over.take_rows());
    outputs.show(&report, None, Checks::NotDone, log)?;
    Ok(interrupt.done(Done::Well))
}
