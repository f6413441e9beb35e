//! The pressure on task groups, beside a naive computation from the trace.

use crate::rig::{Run, world};
use proptest::collection::vec;
use proptest::prelude::*;
use runyard_engine::attr::GroupId;
use runyard_engine::event::{Left, What};
use runyard_engine::time::{Nanos, Time};
use runyard_report::{Collector, Pressure, Totals};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the parents of the groups.
fn parents(run: &Run) -> Vec<Option<GroupId>> {
    let groups = run.scenario.groups.iter().enumerate();
    groups.map(|(nth, group)| (nth > 0).then_some(group.spec.parent)).collect()
}

fn totals(run: &Run) -> Totals {
    let mut collector = Collector::default().with_pressure(&parents(run));
    let mut asked = run.asked.iter().peekable();
    for (nth, event) in run.events.iter().enumerate() {
        while let Some((_, task, attr)) = asked.next_if(|(before, ..)| *before <= nth) {
            collector.asks(*task, attr, attr.slack, None);
        }
        collector.event(event);
    }
    collector.finish(run.end())
}

/// Whether a task waits or has a CPU, and its group.
#[derive(Clone, Copy, Default)]
struct Seen {
    group: GroupId,
    waits: bool,
    has_cpu: bool,
    woken: bool,
}

/// Returns the pressure on each group, counted between each two events over all tasks.
fn naive(run: &Run) -> Vec<Pressure> {
    let parents = parents(run);
    let is_in = |group: GroupId, of: usize| {
        let mut all = std::iter::successors(Some(group), |it| parents[it.index()]);
        all.any(|it| it.index() == of)
    };
    let mut all = vec![Pressure::default(); parents.len()];
    let mut tasks = BTreeMap::<u64, Seen>::new();
    let mut asked = run.asked.iter().peekable();
    let mut count = |tasks: &BTreeMap<u64, Seen>, span: Nanos| {
        for (group, pressure) in all.iter_mut().enumerate() {
            let own = || tasks.values().filter(|it| is_in(it.group, group));
            if own().any(|it| it.waits) {
                pressure.some += span;
                pressure.full += if own().any(|it| it.has_cpu) { Nanos::ZERO } else { span };
            }
        }
    };
    let mut now = Time::ZERO;
    for (nth, event) in run.events.iter().enumerate() {
        count(&tasks, event.at.since(now));
        now = event.at;
        while let Some((_, task, attr)) = asked.next_if(|(before, ..)| *before <= nth) {
            tasks.entry(task.0).or_default().group = attr.group;
        }
        match event.what {
            What::Wake { task, .. } => {
                let it = tasks.entry(task.0).or_default();
                (it.waits, it.woken) = (!it.has_cpu, it.has_cpu);
            }
            What::Switch { prev, next } => {
                if let Some((task, left)) = prev {
                    let it = tasks.entry(task.0).or_default();
                    let goes_on = matches!(left, Left::Preempted | Left::Yielded);
                    it.waits = goes_on || left == Left::Blocked && it.woken;
                    (it.has_cpu, it.woken) = (false, false);
                }
                if let Some(task) = next {
                    let it = tasks.entry(task.0).or_default();
                    (it.waits, it.has_cpu) = (false, true);
                }
            }
            _ => {}
        }
    }
    count(&tasks, run.end().since(now));
    all
}

/// Returns the pressure on each group in milliseconds, and checks it against the naive one.
#[track_caller]
fn millis(run: &Run) -> Vec<[u64; 2]> {
    let totals = totals(run);
    let naive = naive(run);
    let told = (0..naive.len()).map(|nth| totals.pressure(GroupId(nth as u32)).unwrap());
    let told: Vec<_> = told.collect();
    run.is("the pressure on each group", told.clone(), naive);
    told.iter().map(|it| [it.some, it.full].map(|span| span.0 / 1_000_000)).collect()
}

#[test]
fn the_pressure_on_a_group_is_the_time_that_others_have() {
    let text = "{'machine': {'cpus': 1}, 'groups': {'/a': {}, '/b': {}}, 'tasks': {
        'a': {'group': '/a', 'run': 1000}, 'b': {'group': '/b', 'run': 1000}}}";
    let run = world().millis(1_000).run_text(text);
    let [root, a, b] = millis(&run)[..] else { panic!("three groups") };
    run.is("somebody waits and somebody runs", root, [1_000, 0]);
    for group in [a, b] {
        run.is("the only task waits alone", group[0], group[1]);
        run.holds((490..=510).contains(&group[0]), "half of the time");
    }
}

#[test]
fn a_throttled_task_is_under_full_pressure() {
    let text = "{'machine': {'cpus': 2}, 'groups': {'/a': {'cpu.max': '20000 100000'}, '/a/b': {}},
        'tasks': {'t': {'group': '/a/b', 'run': 1000}}}";
    let run = world().millis(1_000).run_text(text);
    for group in millis(&run) {
        run.is("some is full", group[0], group[1]);
        run.holds((780..=800).contains(&group[0]), "four fifths of the time");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pressure_is_that_of_the_trace(
        tasks in vec((0..4_usize, 0..3_usize, 1..2_000_u16), 1..7),
        moves in any::<bool>(),
        seed in 0..100_u64,
    ) {
        let groups = ["/", "/a", "/a/b", "/c"];
        let mut text = String::new();
        for (nth, (group, policy, sleep)) in tasks.into_iter().enumerate() {
            let policy = ["SCHED_OTHER", "SCHED_IDLE", "SCHED_FIFO"][policy];
            let next = if moves { groups[(group + 1) % 4] } else { groups[group] };
            let _ = write!(
                text,
                "'t{nth}': {{'policy': '{policy}', 'priority': 1, 'phases': {{
                    'p': {{'group': '{}', 'run': 700, 'sleep': {{'exponential': {sleep}}}}},
                    'q': {{'group': '{next}', 'run': {{'exponential': 900}}}}}}}},",
                groups[group]
            );
        }
        let text = format!(
            "{{'machine': {{'cpus': 2}}, 'groups': {{'/a': {{'cpu.max': '30000'}}, '/a/b': {{}}, '/c': {{}}}},
             'tasks': {{{text}}}}}"
        );
        let run = world().millis(80).seed(seed).costs_of_the_text().unlogged().run_text(&text);
        millis(&run);
    }
}
