//! The experiment in virtual time: with the balancer and without, on the document's machine and on others.

use super::{machine, part};
use crate::figure::percent;
use crate::length::Length;
use crate::rows::{Row, Word};
use crate::setting::{Part, Seen, Setting, Simulated, of_run};
use crate::usage::{Row as Second, SECOND, Window};
use runyard_engine::features::Feature;
use runyard_engine::kernel::Experiment;
use runyard_engine::time::{Nanos, Time};

/// The time by which the last normal task has come, with any seed, and then the time that the balancer has until seconds
/// are counted. The document was measured minutes after the start. A balancer gives up on a CPU after some failures, and
/// on a large machine it tries once in some seconds. With less time, "before" would look better than it becomes.
const FROM: Nanos = Nanos::from_secs(1 + 10);

/// The least part of the CPU time that is not idle with the balancer, and without a normal task, in per cent. The
/// document's 99.92 and 99.86 are its column %user. All but 0.01 of the missing part is the kernel's own work, which is
/// not idle here either.
const LEAST_BUSY: f64 = 99.9;

/// The least part of a CPU that a normal task gets with the balancer, in per cent. A soaker that waits on its CPU takes
/// 0.3 (3 of 1027), and the tick another 0.15. So no soaker may wait there.
const LEAST_SHARE: f64 = 99.7;

/// The load of the document's machine without the balancer, in per cent. Three idle CPUs of 16 give 81.25. The
/// document's own seconds are between 76.73 and 87.34, with an average of 82.31.
const DOCUMENTS_BEFORE: std::ops::RangeInclusive<f64> = 78.0..=88.0;

/// The least gain of other machines by the balancer, in percentage points. Three CPUs of 64 in nodes of four are 4.7.
const POINTS_BETTER: f64 = 3.0;

/// The largest part of the exits from idle that power savings may leave.
const MOST_EXITS: f64 = 0.9;

/// The number of runs of the document's case with `--soak`.
const SOAK_RUNS: u64 = 20;

/// The title.
const TITLE: &str = "a SCHED_IDLE task for each CPU, and normal tasks that come; none ever blocks";

/// The document's case.
const DOCUMENTS: &str = "16 CPUs, 1 normal task";

/// The experiment, and the names of parts that fail without the balancer: the document's machine with some normal tasks.
pub(crate) fn broken() -> (Simulated, Vec<&'static str>) {
    let parts = vec![DOCUMENTS, "16 CPUs, 3", "16 CPUs, 5", "16 CPUs, groups"];
    (experiment(Length::Short), parts)
}

/// The experiment: each case once, and in a soak the document's case 20 times.
pub(crate) fn experiment(length: Length) -> Simulated {
    let soaked = (1..=SOAK_RUNS).map(|seed| vec![documents(seed)]).collect();
    let soak = (format!("{DOCUMENTS}: runs in which all of this holds"), soaked);
    Simulated {
        document: Experiment::IdleBalance,
        title: TITLE.to_owned(),
        parts: parts(),
        soak: length.pick(None, Some(soak)),
    }
}

/// All cases, from small to large. Each busy CPU has a simulated tick, so a second of a large machine takes long. A few
/// seconds are enough there, since all are alike once the balancer has settled.
fn parts() -> Vec<Part> {
    let in_none: Change = |setting| in_kernel(setting, "none");
    let in_full: Change = |setting| in_kernel(setting, "full");
    // One node is a small part of the largest machine, so there any gain will do.
    let (points, some) = (POINTS_BETTER, 0.0);
    let cases = [
        ("1 normal task, half in a kernel of preemption none", [4, 4, 1, 5], in_none, points),
        ("1 normal task, half in a kernel of preemption full", [4, 4, 1, 5], in_full, points),
        ("3 normal tasks", [4, 4, 3, 10], same, points),
        ("5 normal tasks", [4, 4, 5, 10], same, points),
        ("groups of weight 2 and 1024", [4, 4, 1, 10], in_groups, points),
        ("1 normal task", [16, 4, 1, 5], same, points),
        ("3 normal tasks", [16, 4, 3, 5], same, points),
        ("5 normal tasks", [16, 4, 5, 5], same, points),
        ("groups of weight 2 and 1024", [16, 4, 1, 5], in_groups, points),
        ("1 normal task", [16, 16, 1, 5], same, some),
        ("3 normal tasks", [16, 16, 3, 5], same, points),
        ("5 normal tasks", [16, 16, 5, 5], same, points),
        ("groups of weight 2 and 1024", [16, 16, 1, 5], in_groups, some),
    ];
    let cases = cases.map(|(name, machine, change, gain)| case(name, machine, change, gain));
    [alone(), documents(1)].into_iter().chain(cases).chain([power_savings()]).collect()
}

/// A change of a setting.
type Change = fn(Setting) -> Setting;

/// A machine of so many nodes with so many cores, with so many normal tasks, of which so many seconds count: how busy it
/// is, with at least this gain by the balancer, and the normal tasks' share.
fn case(name: &str, [nodes, cores, normal, seconds]: [u32; 4], change: Change, gain: f64) -> Part {
    let cpus = nodes * cores;
    let settings = change(counted([nodes, cores, normal, seconds])).pair(Experiment::IdleBalance);
    let busy = busy().holds(move |before, after| {
        after >= LEAST_BUSY && before < after && before <= after - gain
    });
    Part::new(format!("{cpus} CPUs, {name}"), settings, vec![busy, share(cpus, normal)])
}

fn counted([nodes, cores, normal, seconds]: [u32; 4]) -> Setting {
    let window = Window::of_seconds(FROM, seconds);
    machine(nodes, cores, normal).lasts(window.end.since(Time::ZERO)).window(window, SECOND)
}

fn same(setting: Setting) -> Setting {
    setting
}

/// Soakers and normal tasks differ only in their groups. The soakers' has the least possible weight, over all CPUs, as in
/// the document.
fn in_groups(setting: Setting) -> Setting {
    setting
        .set("groups", r#"{"/soakers": {"weight": 2}, "/normal": {"weight": 1024}}"#)
        .set("tasks.soaker.policy", "SCHED_OTHER")
        .set("tasks.soaker.group", "/soakers")
        .set("tasks.normal.policy", "SCHED_OTHER")
        .set("tasks.normal.group", "/normal")
}

/// Half of all work is in a kernel of this preemption model, in system calls of 2 ms.
fn in_kernel(setting: Setting, model: &str) -> Setting {
    let setting = setting.set("machine.preemption", model);
    setting
        .set(
            "tasks.soaker",
            r#"{"instance": 16, "policy": "SCHED_IDLE", "run": 2000, "kernel": 2000}"#,
        )
        .set(
            "tasks.normal",
            r#"{"delay": {"uniform": [500000, 1000000]}, "run": 2000, "kernel": 2000}"#,
        )
}

/// The document's machine before its normal task came. Only the old kernel was measured in this state.
fn alone() -> Part {
    let nothing = Word::Same("each CPU has one task, so there is nothing to balance");
    let busy = busy().judged(nothing, |before, after| before >= LEAST_BUSY && after >= LEAST_BUSY);
    let rows =
        vec![busy.published(99.86, None), interrupts().published(16_628.20, None), migrations()];
    let settings = counted([4, 4, 0, 10]).pair(Experiment::IdleBalance);
    Part::new("16 CPUs, no normal task", settings, rows)
}

/// The document's machine, and its explanation: passes fail, and active balance then takes what runs beside the normal
/// task, so that its node has three idle CPUs. Its seconds are more even here than there, since nothing else runs.
fn documents(seed: u64) -> Part {
    let count =
        |what: &str, of: fn(&Seen) -> u64| of_run(what, "in the run", move |run| of(run) as f64);
    let second =
        |what: &str, at: usize| of_run(what, "%", move |run| percent(run.used.busy_rows()[at]));
    let as_published =
        |before: f64, after| DOCUMENTS_BEFORE.contains(&before) && after >= LEAST_BUSY;
    let rows = vec![
        busy().published(82.31, 99.92).holds(as_published),
        share(16, 1),
        interrupts().published(14_699.10, 16_347.25),
        migrations(),
        count("passes that failed", |run| run.used.failed_passes),
        count("running tasks taken, before at least 3", |run| run.used.taken)
            .holds(|before, _| before >= 3.0),
        second("busy, least second", 0),
        second("busy, most second", 1),
    ];
    let settings = counted([4, 4, 1, 10]).seeds([seed]).pair(Experiment::IdleBalance);
    Part::new(DOCUMENTS, settings, rows).text(|sides| {
        let titles = ["before: NO_IDLE_LOAD_BALANCE", "after: IDLE_LOAD_BALANCE"].iter().zip(sides);
        let text = titles.map(|(title, runs)| {
            format!("\n{title}, {DOCUMENTS}\n{}", runs[0].used.text(Time::ZERO + FROM))
        });
        text.collect()
    })
}

/// Power savings, which the document leaves for later: with `POWER_SAVINGS` no CPU is woken from a deep sleep for
/// SCHED_IDLE work. 24 SCHED_IDLE tasks compute for 2 ms of each 16 ms, three CPUs' worth. Each would have an idle CPU at
/// once. With power savings they stay on the CPUs that are awake, here one, and do less.
fn power_savings() -> Part {
    let soaker = r#"{
        "instance": 24, "policy": "SCHED_IDLE", "delay": {"uniform": [0, 16000]},
        "timer": {"ref": "unique", "period": 16000, "mode": "absolute"}, "run": 2000,
    }"#;
    let without = counted([4, 4, 0, 5]).seeds([0]).set("tasks.soaker", soaker);
    let with = without.clone().feature(Feature::PowerSavings, true);
    let exits = per_second("exits from idle", |second| second.idle_exits);
    let rows = vec![exits.holds(|before, after| after <= before * MOST_EXITS), busy()];
    Part::new("16 CPUs, 24 tasks that use 3, POWER_SAVINGS", vec![without, with], rows)
}

/// The part of the CPU time that is not idle.
fn busy() -> Row<Seen> {
    of_run("busy", "%", |run| percent(run.used.sum().busy()))
}

/// The least part of a CPU that a normal task gets. Tasks are numbered in the order of the file.
fn share(cpus: u32, normal: u32) -> Row<Seen> {
    let what = if normal > 1 { "least share of a CPU" } else { "its share of a CPU" };
    let row = of_run(what, "%", move |run| {
        let tasks = (cpus..cpus + normal).map(|task| part(run, task as usize));
        percent(tasks.fold(f64::INFINITY, f64::min))
    });
    row.holds(|_, after| after >= LEAST_SHARE)
}

/// The document counts interrupts of all devices, this counts those of timers, so there is no bound. Only the difference
/// can be compared: it is that of the ticks of idle CPUs.
fn interrupts() -> Row<Seen> {
    per_second("timer interrupts", |second| second.interrupts)
}

/// The cost of the balance.
fn migrations() -> Row<Seen> {
    per_second("migrations", |second| second.migrations)
}

fn per_second(what: &str, of: fn(&Second) -> u64) -> Row<Seen> {
    of_run(what, "1/s", move |run| run.used.per_second(of(&run.used.sum())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_scenario_is_the_documents_case() {
        let made = counted([4, 4, 1, 10]).scenario().unwrap();
        let shipped = Setting::of("idle-balance.json", super::super::SCENARIO).scenario().unwrap();
        assert_eq!(format!("{made:?}"), format!("{shipped:?}"));
    }

    #[test]
    fn every_task_that_executes_is_in_the_rows() {
        for setting in [counted([1, 2, 1, 1]), in_groups(counted([1, 2, 1, 1]))] {
            let used = setting.run(1).unwrap().used;
            assert_eq!((used.rows.len(), used.most()), (1, used.total()));
            assert!(used.sum().interrupts > 1_000, "a busy CPU has a tick of 1 ms: {used:?}");
        }
    }
}
