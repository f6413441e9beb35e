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
use runyard_hosts::linux::{self, Ground, Schedstat};
use runyard_hosts::play::Plan;
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::{ChainReport, Checks, EngineReport};
use std::io::Write;
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
    let mut outputs = Outputs::open(host)?;
    let schedstat =
        outputs.take_schedstat().map(|file| Ok::<_, Failure>((file, Schedstat::begin()?)));
    let schedstat = schedstat.transpose()?;
    let ground = Ground::with_groups(cpus, &parsed.scenario);
    let started = Instant::now();
    let log = host.log.is_some();
    let interrupt = Interrupt::expect();
    let bar = progress::of_wall_time(parsed.scenario.duration);
    let plan = Plan { log, stop: Some(interrupt.flag()), ..Plan::new(parsed.scenario, host.seed) };
    let over = linux::run(plan, ground)?;
    let counted = schedstat.map(|(file, begun)| Ok::<_, Failure>((file, begun.end()?)));
    drop(bar);
    let wall = Nanos::from(started.elapsed());
    interrupt.tell(over.ended(), &over.left().lines);
    let mut report = over.report();
    (report.scenario, report.seed) = (host.name(), host.seed);
    report.engine = EngineReport { wall_ns: Some(wall.0), ..EngineReport::default() };
    report.chains.iter().filter_map(ChainReport::shortfall).for_each(say);
    let log = Log::new(over.scenario(), over.take_rows());
    outputs.show(&report, None, Checks::NotDone, log)?;
    if let Some((file, text)) = counted.transpose()? {
        file.write(|out| out.write_all(text.as_bytes()))?;
    }
    Ok(interrupt.done(Done::Well))
}
