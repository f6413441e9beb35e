//! `runyard linux`: a scenario as kernel threads under the machine's own scheduler.
//!
//! Each task is a thread that has the policy, the CPUs and the timer slack of the task. The kernel
//! says afterwards how long it ran and waited; how often and how late it was woken it sees itself.

mod inherit;
mod kernel;
mod thread;

use crate::Failure;
use crate::machine;
use crate::options::HostOptions;
use crate::outputs::Outputs;
use crate::play::{Plan, World};
use crate::sync::Arc;
use clap::Args;
use kernel::Figures;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{
    Checks, EngineReport, Figure, GroupReport, LatencyReport, MachineReport, Report, SCHEMA,
    TaskReport, TimersReport, distributions,
};
use std::time::Instant;

/// The arguments of `runyard linux`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let host = &arguments.host;
    if host.has_features() {
        return Err(Failure::input("--feature: linux runs under the kernel's own scheduler"));
    }
    if host.trace.asked() {
        return Err(Failure::input(
            "--trace: what the kernel does is traced by `perf sched record`",
        ));
    }
    let cpus = machine::cpus(host.cpus)?;
    let parsed = host.read_on(cpus.len())?;
    machine::warn(&parsed.scenario, "linux");
    let outputs = Outputs::open(host)?;
    let started = Instant::now();
    let log = host.log.is_some();
    let plan = Plan { scenario: parsed.scenario, seed: host.seed, watch: None, log };
    let (world, end, figures) = perform(plan, cpus)?;
    let wall = Nanos(started.elapsed().as_nanos() as u64);
    let mut report = report(&world, end, &figures);
    (report.scenario, report.seed) = (host.name(), host.seed);
    report.engine = EngineReport { wall_ns: Some(wall.0), ..EngineReport::default() };
    outputs.show(&report, None, Checks::NotDone, |folder, _| world.write_log(folder))
}

/// Runs `plan` for those who watch it.
pub(crate) fn watched(plan: Plan, cpus: Vec<usize>) -> Result<(), Failure> {
    perform(plan, cpus).map(|_| ())
}

/// Runs `plan` to its end on these CPUs of the machine. When that was, and what each task did.
fn perform(plan: Plan, cpus: Vec<usize>) -> Result<(Arc<World>, Time, Vec<Figures>), Failure> {
    let (world, births) = World::new(plan, cpus.len(), inherit::Lock::default());
    let (end, figures) = thread::run(&world, births, cpus);
    match world.refused() {
        None => Ok((world, end, figures)),
        Some(why) => Err(Failure::Refused(format!("linux: {why}"))),
    }
}

fn report(world: &World, end: Time, figures: &[Figures]) -> Report {
    let nothing = Figures::default();
    let task = |(at, known): (usize, crate::play::Known)| {
        let did = figures.get(at).unwrap_or(&nothing);
        let life = known.life.1.min(end).since(known.life.0.min(end));
        let runtime = did.runtime.min(life);
        let wait = did.wait.map(|wait| wait.min(life - runtime));
        TaskReport {
            name: known.name,
            policy: known.policy.to_string(),
            priority: known.policy.priority(),
            latency_nice: None,
            group: "/".to_owned(),
            runtime_ns: Some(runtime.0),
            wait_ns: wait.map(|wait| wait.0),
            sleep_ns: wait.map(|wait| (life - runtime - wait).0),
            wakeups: Some(did.diary.latency.count()),
            switches: did.switches,
            preemptions: did.preemptions,
            migrations: did.migrations,
            wakeup_latency: LatencyReport::new(&did.diary.latency),
            thread: known.thread,
        }
    };
    let known = world.known();
    let latency = |at| figures.get(at).map(|did: &Figures| &did.diary.latency);
    let latencies =
        distributions(known.iter().enumerate().map(|(at, it)| (it.thread.as_str(), latency(at))));
    let tasks: Vec<_> = known.into_iter().enumerate().map(task).collect();
    let sum = |figure: fn(&TaskReport) -> Figure| tasks.iter().map(figure).sum::<Figure>();
    let cpus = world.all().len();
    Report {
        schema: SCHEMA.to_owned(),
        host: "linux".to_owned(),
        duration_ns: end.0,
        machine: MachineReport {
            cpus,
            switches: sum(|task| task.switches),
            preemptions: sum(|task| task.preemptions),
            migrations: sum(|task| task.migrations),
            ..MachineReport::default()
        },
        cpus: (0..cpus).map(machine::unknown_cpu).collect(),
        groups: groups(world, sum(|task| task.runtime_ns)),
        timers: TimersReport {
            armed: Some(figures.iter().map(|did| did.diary.timers.0).sum()),
            expired: Some(figures.iter().map(|did| did.diary.timers.1).sum()),
            ..TimersReport::default()
        },
        tasks,
        latencies,
        ..Report::default()
    }
}

/// Everybody is in `/`, since this host makes no task groups: nothing is known of the others.
fn groups(world: &World, runtime: Figure) -> Vec<GroupReport> {
    let group = |group: &runyard_workload::scenario::GroupSpec| GroupReport {
        path: group.path.clone(),
        runtime_ns: runtime.filter(|_| group.path == "/"),
        ..GroupReport::default()
    };
    world.scenario.groups.iter().map(group).collect()
}
