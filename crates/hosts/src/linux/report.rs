//! The report of a run, from the kernel's counts of the tasks' threads and groups.

use super::cgroup::Stat;
use super::kernel::{Figures, Outcome};
use crate::machine;
use crate::play::World;
use crate::play::world::Known;
use runyard_engine::attr::GroupId;
use runyard_engine::time::Nanos;
use runyard_outcome::scenario;
use runyard_report::{
    CpuReport, Figure, GroupReport, LatencyReport, MachineReport, Report, SCHEMA, TaskReport,
    TimersReport, cookie_reports, distributions, group_reports,
};

/// Makes the report of a run.
pub(super) fn report(world: &World, outcome: &Outcome) -> Report {
    let Outcome { end, figures, limits } = outcome;
    let (end, grouped) = (*end, limits.is_some());
    let nothing = Figures::default();
    let mut in_groups = vec![Nanos::ZERO; world.scenario.groups.len()];
    let task = |(at, known): (usize, Known)| {
        let did = figures.get(at).unwrap_or(&nothing);
        let life = known.life.1.min(end).since(known.life.0.min(end));
        let runtime = did.runtime.min(life);
        let group = if grouped { known.group } else { GroupId::ROOT };
        let moves = did.stats.moves.iter().filter(|_| grouped);
        let spans = moves.map(|&(to, at)| (to, at.saturating_sub(did.stats.cpu_at_start)));
        add_stays(&mut in_groups, group, spans, runtime);
        let wait = did.wait.map(|wait| wait.min(life - runtime));
        let (policy, priority) = match known.is_deadline {
            true => ("SCHED_DEADLINE".to_owned(), 0),
            false => (known.policy.to_string(), known.policy.priority()),
        };
        TaskReport {
            name: known.name,
            policy,
            priority,
            latency_nice: None,
            group: world.scenario.groups[group.index()].path.clone(),
            runtime_ns: Some(runtime.0),
            wait_ns: wait.map(|wait| wait.0),
            sleep_ns: wait.map(|wait| (life - runtime - wait).0),
            wakeups: Some(did.stats.latency.count()),
            switches: did.switches,
            preemptions: did.preemptions,
            migrations: did.migrations,
            wakeup_latency: LatencyReport::new(&did.stats.latency),
            thread: known.thread,
            cookie: known.cookie.map(|it| world.scenario.cookie_name(it).to_owned()),
            missed: Some(did.stats.missed),
            slack_ns: Some(known.slack.0),
            ..TaskReport::default()
        }
    };
    let known = world.known();
    let latency = |at| figures.get(at).map(|did: &Figures| &did.stats.latency);
    let latencies =
        distributions(known.iter().enumerate().map(|(at, it)| (it.thread.as_str(), latency(at))));
    let cookies = known.iter().map(|known| known.cookie).collect::<Vec<_>>();
    let tasks: Vec<_> = known.into_iter().enumerate().map(task).collect();
    let ran = tasks.iter().map(|task| Nanos(task.runtime_ns.unwrap_or(0)));
    let cookies = cookie_reports(&world.scenario.cookies, cookies.into_iter().zip(ran), |_| None);
    let cpus = world.all().len();
    Report {
        schema: SCHEMA.to_owned(),
        host: "linux".to_owned(),
        kernel: machine::release(),
        duration_ns: end.0,
        from_ns: 0,
        machine: machine_report(world, &tasks),
        cpus: (0..cpus).map(unknown_cpu).collect(),
        groups: groups(world, &in_groups, limits.as_deref()),
        timers: TimersReport {
            armed: Some(figures.iter().map(|did| did.stats.timers.0).sum()),
            expired: Some(figures.iter().map(|did| did.stats.timers.1).sum()),
            ..TimersReport::default()
        },
        tasks,
        cookies,
        latencies,
        chains: world.chains(),
        blocked_at_end: scenario::blocked(world.left()),
        ..Report::default()
    }
}

/// The report of the machine, from the kernel's counts of the tasks.
fn machine_report(world: &World, tasks: &[TaskReport]) -> MachineReport {
    let sum = |figure: fn(&TaskReport) -> Figure| tasks.iter().map(figure).sum::<Figure>();
    MachineReport {
        cpus: world.all().len(),
        switches: sum(|task| task.switches),
        preemptions: sum(|task| task.preemptions),
        migrations: sum(|task| task.migrations),
        topology: Some(world.scenario.machine.topology.to_string()),
        ..MachineReport::default()
    }
}

/// The report of a CPU. This host knows only that the CPU exists.
fn unknown_cpu(cpu: usize) -> CpuReport {
    CpuReport { cpu, ..CpuReport::default() }
}

/// Adds the `runtime` of a task to the groups in which it ran: the `first` group, and those that it moved to, with its
/// CPU time at each move.
fn add_stays(
    in_groups: &mut [Nanos],
    first: GroupId,
    moves: impl Iterator<Item = (GroupId, Nanos)>,
    runtime: Nanos,
) {
    let (mut group, mut counted) = (first, Nanos::ZERO);
    for (to, at) in moves {
        // The runtime is cut off at the end of the run; the moves are not.
        let at = at.clamp(counted, runtime);
        in_groups[group.index()] += at - counted;
        (group, counted) = (to, at);
    }
    in_groups[group.index()] += runtime - counted;
}

/// The reports of the groups, from the CPU time in each and the kernel's counts of their limits. Where all tasks are in
/// `/`, nothing is known of the other groups.
fn groups(world: &World, in_groups: &[Nanos], limits: Option<&[Stat]>) -> Vec<GroupReport> {
    let infos = scenario::groups(&world.scenario, |_| None);
    let mut groups = group_reports(&infos, in_groups, world.all().len());
    for (at, group) in groups.iter_mut().enumerate() {
        match limits.map(|limits| limits[at]) {
            Some(stat) => {
                (group.nr_periods, group.nr_throttled) = (stat.nr_periods, stat.nr_throttled);
                group.throttled_ns = stat.throttled_ns;
                (group.nr_bursts, group.burst_ns) = (stat.nr_bursts, stat.burst_ns);
                group.pressure_some_ns = stat.pressure_some_ns;
                group.pressure_full_ns = stat.pressure_full_ns;
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
