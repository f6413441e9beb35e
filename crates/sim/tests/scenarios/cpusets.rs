//! Cpusets: where tasks run, and between which CPUs the machine moves them. Every run here checks `no-wasted-cpu` and
//! `rt-weak-affinity` as all runs do, within root domains.

use crate::rig::{Run, world};
use proptest::collection::vec;
use proptest::prelude::*;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::time::Nanos;
use runyard_workload::{Overrides, parse};
use std::fmt::Write as _;

/// Runs `tasks` for two seconds on four CPUs.
#[track_caller]
fn on_four(machine: &str, groups: &str, tasks: &str) -> Run {
    let text = format!(
        "{{'machine': {{'cpus': 4, {machine}}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}"
    );
    world().millis(2_000).run_text(&text)
}

/// Returns the share of a CPU that a task has.
#[track_caller]
fn share(run: &Run, name: &str) -> f64 {
    run.share(name, Nanos::from_secs(2))
}

/// Four hogs outside of a group that has two CPUs and one hog.
const FIVE: &str = "'in': {'group': '/a', 'run': 1000}, 'out': {'instance': 4, 'run': 1000}";

#[test]
fn a_cpuset_confines_its_own_tasks_only() {
    let run = on_four("", "'/a': {'cpuset.cpus': '2-3'}", FIVE);
    run.holds(run.cpus_of("in").iter().all(|cpu| [2, 3].contains(cpu)), "it stays on CPUs 2 and 3");
    let outside = (0..4).map(|nth| run.cpus_of(&format!("out-{nth}")));
    let cpus: Vec<u16> = outside.flatten().collect();
    run.holds(cpus.contains(&2) && cpus.contains(&3), "the others use these CPUs too");
}

#[test]
fn a_partition_has_its_cpus_for_itself() {
    let groups = "'/a': {'cpuset.cpus': '2-3', 'cpuset.cpus.partition': 'root'}";
    let run = on_four("", groups, FIVE);
    run.holds(share(&run, "in") > 99.9, "nobody else is there");
    for nth in 0..4 {
        let name = format!("out-{nth}");
        run.holds(run.cpus_of(&name).iter().all(|&cpu| cpu < 2), &format!("{name} is outside"));
        let share = share(&run, &name);
        run.holds((45.0..55.0).contains(&share), &format!("{name} has {share} % of a CPU"));
    }
}

/// Two hogs that begin on CPU 2 and may then run on CPUs 2 and 3.
const PAIR: &str = "'hog': {'instance': 2, 'group': '/a', 'phases': {
    'there': {'cpus': [2], 'run': 1000}, 'wide': {'loop': -1, 'cpus': [2, 3], 'run': 1000}}}";

#[test]
fn nothing_is_balanced_between_isolated_cpus() {
    let partition =
        |kind: &str| format!("'/a': {{'cpuset.cpus': '2-3', 'cpuset.cpus.partition': '{kind}'}}");
    for (machine, groups, balances) in [
        ("", "'/a': {'cpuset.cpus': '2-3'}", true),
        ("", &*partition("root"), true),
        ("", &*partition("isolated"), false),
        ("'isolated': '2-3'", "'/a': {}", false),
        ("'isolated': '2-3'", "'/a': {'cpuset.cpus': '2-3'}", false),
        ("'isolated': '1'", "'/a': {}", true),
    ] {
        for kernel in ["", "'kernel': '6.1',", "'kernel': '6.12',"] {
            let run = on_four(&format!("{kernel} {machine}"), groups, PAIR);
            for name in ["hog-0", "hog-1"] {
                let share = share(&run, name);
                let expected = if balances { 97.0..100.1 } else { 49.0..51.0 };
                let what = format!("{name} has {share} % of a CPU: {machine} {groups}");
                run.holds(expected.contains(&share), &what);
            }
        }
    }
}

/// A sleeper that wakes beside a hog goes to an idle CPU, except from an isolated one.
#[test]
fn a_wake_up_stays_on_an_isolated_cpu() {
    let tasks = "'hog': {'cpus': [2], 'run': 1000}, 'sleeper': {'phases': {
        'there': {'cpus': [2], 'run': 1000, 'sleep': 1000},
        'wide': {'loop': -1, 'cpus': [1, 2, 3], 'sleep': 3000, 'run': 1000}}}";
    for (machine, cpus) in [("'isolated': '2-3'", 1), ("", 2)] {
        let run = on_four(machine, "", tasks);
        run.is(machine, run.cpus_of("sleeper").len(), cpus);
    }
}

#[test]
fn real_time_tasks_move_between_isolated_cpus_and_not_out_of_them() {
    let tasks =
        "'high': {'policy': 'SCHED_FIFO', 'priority': 9, 'cpus': [2], 'sleep': 1000, 'run': 3000},
        'low': {'policy': 'SCHED_FIFO', 'priority': 5, 'phases': {
            'there': {'cpus': [2], 'run': 1000},
            'wide': {'loop': -1, 'cpus': [1, 2, 3], 'run': 10000, 'sleep': 1000}}},
        'other': {'policy': 'SCHED_FIFO', 'priority': 5, 'cpus': [3], 'run': 5000, 'sleep': 5000}";
    let run = on_four("'isolated': '2-3'", "", tasks);
    run.is("isolated", run.cpus_of("low"), vec![2, 3]);
    let run = on_four("", "", tasks);
    run.holds(run.cpus_of("low").contains(&1), "it is pushed to a CPU without real-time tasks");
}

#[test]
fn a_phase_in_another_group_runs_on_its_cpus() {
    let groups = "'/a': {'cpuset.cpus': '0-1'}, '/b': {'cpuset.cpus': '2'}";
    let tasks = "'t': {'cpus': [1, 2], 'loop': -1, 'phases': {
        'a': {'group': '/a', 'run': 5000}, 'b': {'group': '/b', 'run': 5000}}}";
    let run = on_four("", groups, tasks);
    run.is("in turn", run.cpus_of("t"), vec![1, 2]);
}

#[test]
fn a_change_of_cpus_acts_within_the_cpuset() {
    let text = "{'machine': {'cpus': 4}, 'groups': {'/a': {'cpuset.cpus': '2-3'}},
        'tasks': {'t': {'group': '/a', 'run': 1000}},
        'timeline': [{'at': 50000, 'task': 't', 'cpus': [0, 3]}, {'at': 100000, 'task': 't', 'cpus': [0]}]}";
    let run = world().millis(150).run_text(text);
    let stretches = run.stretches("t");
    let within = stretches.iter().filter(|it| (50_000_000..100_000_000).contains(&it.from.0));
    run.holds(within.clone().count() > 0 || stretches.len() == 1, "it runs");
    run.holds(within.clone().all(|it| it.cpu == 3), "it has CPU 3 of the two");
    run.holds(stretches.iter().all(|it| it.cpu >= 2), "it stays in its cpuset");
}

/// A group: its CPUs, its kind, and whether it is below the one before it.
fn group() -> impl Strategy<Value = (u8, u8, bool)> {
    (any::<u8>(), 0..4_u8, any::<bool>())
}

/// A task: its group, its policy, its CPUs, and its sleep in microseconds.
fn task() -> impl Strategy<Value = (usize, usize, u8, u16)> {
    (0..4_usize, 0..4_usize, any::<u8>(), 0..3_000_u16)
}

fn cpus(bits: u8) -> CpuSet {
    (0..6).filter(|bit| bits >> bit & 1 == 1).map(CpuId).collect()
}

/// Returns a scenario on six CPUs, which may ask for impossible partitions.
fn text(groups: &[(u8, u8, bool)], tasks: &[(usize, usize, u8, u16)], isolated: u8) -> String {
    let (mut paths, mut listed) = (vec!["/".to_owned()], String::new());
    for (nth, &(bits, kind, below)) in groups.iter().enumerate() {
        let parent = if below { paths[nth].trim_end_matches('/') } else { "" };
        let path = format!("{parent}/{nth}");
        let kind = ["member", "member", "root", "isolated"][usize::from(kind)];
        let cpus = cpus(bits);
        let _ = write!(
            listed,
            "'{path}': {{'cpuset.cpus': '{cpus}', 'cpuset.cpus.partition': '{kind}'}},"
        );
        paths.push(path);
    }
    let mut text = String::new();
    for (nth, &(group, policy, bits, sleep)) in tasks.iter().enumerate() {
        let policy = ["SCHED_OTHER", "SCHED_IDLE", "SCHED_FIFO", "SCHED_BATCH"][policy];
        let group = &paths[group % paths.len()];
        let list: Vec<_> = cpus(bits).iter().map(|cpu| cpu.to_string()).collect();
        let cpus = match list[..] {
            [] => String::new(),
            _ => format!("'cpus': [{}],", list.join(", ")),
        };
        let _ = write!(
            text,
            "'t{nth}': {{'instance': 2, 'policy': '{policy}', 'priority': 1, 'group': '{group}', {cpus} \
             'run': 700, 'sleep': {{'exponential': {}}}}},",
            sleep + 1
        );
    }
    format!(
        "{{'machine': {{'topology': '2x3', 'isolated': '{}'}}, 'groups': {{{listed}}}, 'tasks': {{{text}}}}}",
        cpus(isolated & 0b11_0000)
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_task_runs_outside_of_its_cpuset(
        groups in vec(group(), 1..4),
        tasks in vec(task(), 1..6),
        isolated in any::<u8>(),
        seed in 0..100_u64,
    ) {
        // Partitions that the kernel would not accept are members.
        let members: Vec<_> = groups.iter().map(|&(cpus, _, below)| (cpus, 0, below)).collect();
        let duration = Some(Nanos::from_millis(60));
        let over = Overrides { duration, ..Overrides::default() };
        let mut texts = [&groups, &members].map(|groups| text(groups, &tasks, isolated)).into_iter();
        let text = texts.find(|text| parse("-", text, &over).is_ok());
        let text = text.expect("members may ask for any CPUs");
        let run = world().millis(60).seed(seed).costs_of_the_text().unlogged().run_text(&text);
        let cpusets = run.scenario.cpusets(CpuSet::first(6));
        for (nth, task) in run.scenario.tasks.iter().enumerate() {
            let group = task.properties.group.unwrap_or_default();
            let allowed = cpusets.affinity(task.properties.cpus.as_ref(), group);
            for name in [format!("t{nth}-0"), format!("t{nth}-1")] {
                let cpus: CpuSet = run.cpus_of(&name).into_iter().map(CpuId).collect();
                prop_assert!(cpus.without(&allowed).is_empty(), "{name} on {cpus} and not on {allowed}: {text}");
            }
        }
    }
}
