//! `runyard linux`: a scenario as kernel threads under the machine's own scheduler.
//!
//! Each task is a thread that has the policy, the CPUs, the timer slack, the task group and, where the
//! kernel takes one, the slice of the task. The kernel says afterwards how long it ran and waited; how
//! often and how late it was woken it sees itself.

mod cgroup;
mod inherit;
mod kernel;
mod thread;

use crate::Failure;
use crate::machine;
use crate::options::HostOptions;
use crate::output;
use crate::outputs::{self, Outputs};
use crate::play::{Known, Plan, World};
use crate::sync::Arc;
use cgroup::{Stat, Tree};
use clap::Args;
use kernel::{Figures, Ground, Outcome};
use runyard_engine::attr::{GroupId, LatencyNice};
use runyard_engine::time::Nanos;
use runyard_report::{
    Checks, EngineReport, Figure, GroupReport, LatencyReport, MachineReport, Report, SCHEMA,
    TaskReport, TimersReport, distributions, group_reports,
};
use runyard_workload::Scenario;
use runyard_workload::scenario::{Properties, TaskSpec};
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
    let cpus = host.cpus_here()?;
    let parsed = host.read_on(cpus.len())?;
    machine::warn(&parsed.scenario, "linux");
    if asks_latency_nice(&parsed.scenario) {
        output::say("warning: linux has no latency nice: it runs as if none was asked for");
    }
    let outputs = Outputs::open(host)?;
    let groups = groups_for(&parsed.scenario, cpus.len());
    let started = Instant::now();
    let log = host.log.is_some();
    let plan = Plan { scenario: parsed.scenario, seed: host.seed, watch: None, log };
    let (world, outcome) = perform(plan, Ground::new(cpus, groups))?;
    let wall = Nanos(started.elapsed().as_nanos() as u64);
    let mut report = report(&world, &outcome);
    (report.scenario, report.seed) = (host.name(), host.seed);
    report.engine = EngineReport { wall_ns: Some(wall.0), ..EngineReport::default() };
    outputs.show(&report, None, Checks::NotDone, |folder, _| world.write_log(folder))
}

/// Whether a scenario asks for a latency nice anywhere.
fn asks_latency_nice(scenario: &Scenario) -> bool {
    let asks = |properties: &Properties| properties.latency_nice.is_some();
    let task = |task: &TaskSpec| {
        asks(&task.properties) || task.phases.iter().any(|phase| asks(&phase.properties))
    };
    scenario.tasks.iter().any(task)
        || scenario.groups.iter().any(|group| group.spec.latency_nice != LatencyNice::ZERO)
}

/// The kernel's groups for a scenario that has some, or says why they have no effect.
fn groups_for(scenario: &Scenario, cpus: usize) -> Option<Tree> {
    let wanted = (scenario.groups.len() > 1).then_some(&scenario.groups)?;
    if wanted.iter().any(|group| group.spec.limit.is_some_and(|limit| limit.is_per_cpu())) {
        output::say("warning: linux limits all CPUs together, `per_cpu` or not");
    }
    Tree::make(wanted, cpus).inspect_err(|why| machine::warn_of_groups("linux", why)).ok()
}

/// Runs `plan` for those who watch it, without task groups.
pub(crate) fn watched(plan: Plan, cpus: Vec<usize>) -> Result<(), Failure> {
    perform(plan, Ground::new(cpus, None)).map(|_| ())
}

/// Runs `plan` to its end on what it has of the machine.
fn perform(plan: Plan, ground: Ground) -> Result<(Arc<World>, Outcome), Failure> {
    let (world, births) = World::new(plan, ground.cpus.len(), inherit::Lock::default());
    let outcome = thread::run(&world, births, ground);
    match world.refused() {
        None => Ok((world, outcome)),
        Some(why) => Err(Failure::Refused(format!("linux: {why}"))),
    }
}

/// What became of a run.
fn report(world: &World, outcome: &Outcome) -> Report {
    let Outcome { end, figures, limits } = outcome;
    let (end, grouped) = (*end, limits.is_some());
    let nothing = Figures::default();
    let mut in_groups = vec![Nanos::ZERO; world.scenario.groups.len()];
    let task = |(at, known): (usize, Known)| {
        let did = figures.get(at).unwrap_or(&nothing);
        let life = known.life.1.min(end).since(known.life.0.min(end));
        let runtime = did.runtime.min(life);
        let group = if grouped { known.group } else { GroupId::ROOT };
        let moves = did.diary.moves.iter().filter(|_| grouped);
        let spans = moves.map(|&(to, at)| (to, at.saturating_sub(did.diary.cpu_at_start)));
        add_stays(&mut in_groups, group, spans, runtime);
        let wait = did.wait.map(|wait| wait.min(life - runtime));
        TaskReport {
            name: known.name,
            policy: known.policy.to_string(),
            priority: known.policy.priority(),
            latency_nice: None,
            group: world.scenario.groups[group.index()].path.clone(),
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
        groups: groups(world, &in_groups, limits.as_deref()),
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

/// Adds the `runtime` of a task to the groups in which it ran: the `first`, and those to which it
/// went when it had run for so long.
fn add_stays(
    in_groups: &mut [Nanos],
    first: GroupId,
    moves: impl Iterator<Item = (GroupId, Nanos)>,
    runtime: Nanos,
) {
    let (mut group, mut counted) = (first, Nanos::ZERO);
    for (to, at) in moves {
        // What it ran is cut off at the end of the run, its moves are not.
        let at = at.clamp(counted, runtime);
        in_groups[group.index()] += at - counted;
        (group, counted) = (to, at);
    }
    in_groups[group.index()] += runtime - counted;
}

/// The groups, in each of which tasks ran for so long, with what the kernel says of their limits.
/// Where all tasks are in `/`, nothing is known of the others.
fn groups(world: &World, in_groups: &[Nanos], limits: Option<&[Stat]>) -> Vec<GroupReport> {
    let infos = outputs::groups(&world.scenario, |_| None);
    let mut groups = group_reports(&infos, in_groups, world.all().len());
    for (at, group) in groups.iter_mut().enumerate() {
        match limits.map(|limits| limits[at]) {
            Some(Stat { nr_periods, nr_throttled, throttled_ns, nr_bursts, burst_ns }) => {
                (group.nr_periods, group.nr_throttled) = (nr_periods, nr_throttled);
                group.throttled_ns = throttled_ns;
                (group.nr_bursts, group.burst_ns) = (nr_bursts, burst_ns);
            }
            None if at == GroupId::ROOT.index() => {}
            None => group.runtime_ns = None,
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_ran_is_its_groups_by_turns() {
        let ran = |moves: &[(u32, u64)], runtime| {
            let mut in_groups = [Nanos::ZERO; 3];
            let moves = moves.iter().map(|&(to, at)| (GroupId(to), Nanos(at)));
            add_stays(&mut in_groups, GroupId(1), moves, Nanos(runtime));
            in_groups.map(|span| span.0)
        };
        assert_eq!(ran(&[], 10), [0, 10, 0]);
        assert_eq!(ran(&[(2, 3), (0, 4), (2, 5)], 10), [1, 3, 6]);
        assert_eq!(ran(&[(2, 3), (0, 40)], 10), [0, 3, 7], "it is cut off at the end");
    }
}
