//! The keys of SCHED_DEADLINE: the reservations of deadline tasks, and the slices of fair tasks.

use runyard_engine::attr::{Policy, RtPrio, Slice};
use runyard_engine::time::Nanos;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Reservation, Step, TaskSpec};
use runyard_workload::{DeadlinePolicy, Overrides, Parsed, parse};

fn parsed(text: &str, deadline: DeadlinePolicy) -> Parsed {
    parse("test.json", text, &Overrides { deadline, ..Overrides::default() })
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

#[test]
fn a_deadline_task_has_what_it_reserves_where_the_host_has_the_policy() {
    let text = "{'global': {'duration': 1}, 'tasks': {
        'all': {'policy': 'SCHED_DEADLINE', 'dl-runtime': 1, 'dl-deadline': 2, 'dl-period': 3, 'run': 1},
        'period': {'policy': 'SCHED_DEADLINE', 'dl-runtime': 4, 'dl-period': 9, 'run': 1},
        'old': {'policy': 'SCHED_DEADLINE', 'runtime': 5, 'deadline': 6, 'period': 7},
        'phases': {'policy': 'SCHED_DEADLINE', 'dl-runtime': 1, 'dl-period': 9, 'phases': {
            'a': {'run': 1}, 'b': {'dl-runtime': 2, 'dl-period': 9, 'run': 1}, 'c': {'run': 1},
            'd': {'policy': 'SCHED_OTHER', 'run': 1}, 'e': {'dl-runtime': 3000, 'run': 1}}}}}";
    let scenario = parsed(text, DeadlinePolicy::Native).scenario;
    let reserved = |runtime, deadline, period| {
        Some(Reservation { runtime: us(runtime), deadline: us(deadline), period: us(period) })
    };
    let firsts = scenario.tasks.iter().map(TaskSpec::first_reservation);
    let expected = [reserved(1, 2, 3), reserved(4, 9, 9), reserved(5, 6, 7), reserved(1, 9, 9)];
    assert_eq!(firsts.collect::<Vec<_>>(), expected);
    assert_eq!(
        scenario.tasks[2].phases[0].steps,
        [Step::Runtime(Draw::Fixed(us(5)))],
        "it is both"
    );
    let phased = &scenario.tasks[3];
    let (mut now, mut then) = (phased.first_reservation(), Vec::new());
    for phase in &phased.phases {
        now = TaskSpec::reservation_in(phase, now);
        then.push(now);
    }
    let [one, two] = [reserved(1, 9, 9), reserved(2, 9, 9)];
    assert_eq!(then, [one, two, two, None, None]);
    assert_eq!(phased.phases[1].properties.policy, Some(Policy::Fifo(RtPrio::MAX)));
    assert_eq!(phased.phases[4].properties.slice, Slice::new(us(3_000)), "it is fair again");
}

#[test]
fn what_no_kernel_reserves_is_refused() {
    let native = Overrides { deadline: DeadlinePolicy::Native, ..Overrides::default() };
    for (task, place) in [
        ("'policy': 'SCHED_DEADLINE', 'priority': 'high', 'run': 1", "1:58: expected a priority"),
        ("'policy': 'SCHED_DEADLINE', 'taskgroup': '/g', 'run': 1", "1:59: a real-time task in a"),
        ("'policy': 'SCHED_DEADLINE', 'run': 1", "1:28: SCHED_DEADLINE needs a `dl-runtime`"),
        ("'policy': 'SCHED_DEADLINE', 'dl-period': 9, 'run': 1", "1:46: a deadline needs"),
        ("'policy': 'SCHED_DEADLINE', 'dl-runtime': 0, 'run': 1", "1:46: the kernel takes"),
        (
            "'policy': 'SCHED_DEADLINE', 'dl-runtime': 9, 'dl-period': 8, 'run': 1",
            "1:46: the kernel",
        ),
    ] {
        let error = parse("f", &format!("{{'tasks': {{'a': {{{task}}}}}}}"), &native).unwrap_err();
        assert!(error.to_string().starts_with(&format!("f:{place}")), "{task}: {error}");
    }
}

/// The slice is clamped as in the kernel; a `slice` out of range is refused.
#[test]
fn the_runtime_of_a_fair_task_is_its_slice() {
    let slice = |members: &str| {
        let text = format!("{{'tasks': {{'a': {{'loop': 1, {members}, 'run': 1}}}}}}");
        parsed(&text, DeadlinePolicy::Refused).scenario.tasks[0].properties.slice
    };
    assert_eq!(slice("'dl-runtime': 3000"), Slice::new(us(3_000)));
    assert_eq!(slice("'policy': 'SCHED_BATCH', 'dl-runtime': 1"), Some(Slice::MIN));
    assert_eq!(slice("'dl-runtime': 2000000"), Some(Slice::MAX));
    assert_eq!(slice("'dl-runtime': 0"), None);
    assert_eq!(slice("'policy': 'SCHED_IDLE', 'dl-runtime': 3000"), None);
    let text =
        "{'machine': {'kernel': '6.6'}, 'tasks': {'a': {'dl-runtime': 1, 'loop': 1, 'run': 1}}}";
    let said: Vec<_> =
        parsed(text, DeadlinePolicy::Refused).warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["test.json:1:48: the fair class of 6.6 takes no slices"]);
}
