//! The meaning of scenarios: each part of the language, and the surprising rules of rt-app.

use runyard_engine::attr::{Attr, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice, Weight};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{
    Costs, ObjectId, Objects, SpecId, Step, TaskAttr, TaskSpec, TimerMode, TimerRef,
};
use runyard_workload::{DeadlinePolicy, Overrides, Parsed, Scenario, cpusets::Cpusets, parse};

fn parsed(text: &str) -> Parsed {
    parsed_with(text, DeadlinePolicy::Refused)
}

fn parsed_with(text: &str, deadline: DeadlinePolicy) -> Parsed {
    parse("test.json", text, &Overrides { deadline, ..Overrides::default() })
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the scenario with these tasks, which ends after a second.
fn tasks(tasks: &str) -> Scenario {
    parsed(&format!("{{\"tasks\": {{{tasks}}}, \"global\": {{\"duration\": 1}}}}")).scenario
}

/// Returns the thread object with these members.
fn thread(members: &str) -> TaskSpec {
    tasks(&format!("\"a\": {{{members}}}")).tasks.remove(0)
}

/// Returns the steps of a task with these events, and the objects that it names.
fn steps(events: &str) -> (Vec<Step>, Objects) {
    let scenario = tasks(&format!("\"a\": {{\"loop\": 1, {events}}}"));
    (scenario.tasks[0].phases[0].steps.iter().collect(), scenario.objects)
}

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

fn fixed(n: u64) -> Draw {
    Draw::Fixed(us(n))
}

fn fifo(prio: i64) -> Option<Policy> {
    Some(Policy::Fifo(RtPrio::new(prio).unwrap()))
}

fn normal(nice: i64) -> Option<Policy> {
    Some(Policy::Normal(Nice::new(nice).unwrap()))
}

#[test]
fn every_event_becomes_a_step() {
    let (zero, one) = (ObjectId(0), ObjectId(1));
    let timer = |timer, mode| Step::Timer { timer, period: fixed(10), mode };
    for (event, step) in [
        ("'run': 5", Step::Run(fixed(5))),
        ("'runtime': 5", Step::Runtime(fixed(5))),
        ("'sleep': 0", Step::Sleep(fixed(0))),
        ("'kernel': 5", Step::Kernel(fixed(5))),
        ("'kernel2': {'uniform': [1, 9]}", Step::Kernel(Draw::Uniform(us(1), us(9)))),
        ("'run': {'uniform': [1, 9]}", Step::Run(Draw::Uniform(us(1), us(9)))),
        ("'run': {'exponential': 7}", Step::Run(Draw::Exponential(us(7)))),
        ("'run': {'normal': [7, 2]}", Step::Run(Draw::Normal { mean: us(7), sd: us(2) })),
        ("'lock': 'm'", Step::Lock(zero)),
        ("'unlock': 'm'", Step::Unlock(zero)),
        ("'wait': {'ref': 'c', 'mutex': 'm'}", Step::Wait { cond: zero, mutex: zero }),
        ("'sync': {'ref': 'c', 'mutex': 'm'}", Step::Sync { cond: zero, mutex: zero }),
        ("'signal': 'c'", Step::Signal(zero)),
        ("'broad': 'c'", Step::Broadcast(zero)),
        ("'broadcast': 'c'", Step::Broadcast(zero)),
        ("'barrier': 'b'", Step::Barrier(zero)),
        ("'sem_post': 's'", Step::SemPost(zero)),
        ("'sem_wait': 's'", Step::SemWait(zero)),
        ("'resume': 'b'", Step::Resume(zero)),
        ("'suspend': 'whatever'", Step::Suspend(zero)),
        ("'yield': ''", Step::Yield),
        ("'exit': null", Step::Exit),
        ("'fork': 'a'", Step::Fork(SpecId(0))),
        ("'send': {'ref': 'p', 'bytes': 3}", Step::Send { pipe: zero, bytes: 3 }),
        ("'recv': {'ref': 'p', 'bytes': 3}", Step::Recv { pipe: zero, bytes: 3 }),
        ("'timer': {'ref': 't', 'period': 10}", timer(TimerRef::Shared(zero), TimerMode::Relative)),
        (
            "'timer': {'ref': 'unique', 'period': 10, 'mode': 'absolute'}",
            timer(TimerRef::Unique(0), TimerMode::Absolute),
        ),
    ] {
        assert_eq!(steps(&format!("{event}, 'run9': 1")).0, [step, Step::Run(fixed(1))], "{event}");
    }
    let (found, _) = steps("'lock1': 'm', 'lock2': 'n', 'unlock': 'm'");
    assert_eq!(found, [Step::Lock(zero), Step::Lock(one), Step::Unlock(zero)]);
}

#[test]
fn bytes_that_are_moved_are_cpu_time() {
    let memory = |event: &str| match steps(event).0[..] {
        [Step::Memory(span)] => span,
        ref other => panic!("{event}: {other:?}"),
    };
    assert_eq!(memory("'mem': 2000"), Nanos(100));
    assert_eq!(memory("'memory': 1"), Nanos(1), "no byte is free");
    assert_eq!(memory("'iorun2': 100000"), us(25));
    let memrun = |members: &str| memory(&format!("'memrun': {{'size': 4096, {members}}}"));
    assert_eq!(memrun("'type': 'read', 'count': 4000"), us(1));
    assert_eq!(memrun("'type': 'write', 'count': 4000, 'stride': 1"), us(1));
    assert_eq!(memrun("'type': 'chase', 'count': 30"), us(3));
    let sequential = "'stride': 128, 'pattern': 'sequential', 'ref': 'b'";
    assert_eq!(memrun(&format!("'type': 'chase', 'count': 200, {sequential}")), us(1));
    // All events that share a buffer use it in the same way. The same name with another use is another buffer.
    steps(
        "'memrun1': {'type': 'read', 'size': 1, 'count': 1, 'ref': 'b'}, \
         'memrun2': {'type': 'read', 'size': 1, 'stride': 5, 'count': 2, 'ref': 'b'}, \
         'memrun3': {'type': 'write', 'size': 2, 'count': 1, 'ref': 'b'}",
    );
}

#[test]
fn known_keys_are_exact_and_events_are_beginnings_in_the_order_of_the_file() {
    let (found, _) = steps("'runtime_1': 1, 'running': 2, 'sleepy': 3, 'run': 4, 'timer_slack': 5");
    let expected =
        [Step::Runtime(fixed(1)), Step::Run(fixed(2)), Step::Sleep(fixed(3)), Step::Run(fixed(4))];
    assert_eq!(found, expected);
}

#[test]
fn an_event_that_needs_no_value_may_have_none() {
    let (found, _) = steps("'suspend', 'run': 1, 'yield' /* at last */, 'exit'");
    let expected = [Step::Suspend(ObjectId(0)), Step::Run(fixed(1)), Step::Yield, Step::Exit];
    assert_eq!(found, expected);
    let text = "{'tasks': {'a': {'suspend', 'loop': 1,\n'suspend', 'colour': 1}}}";
    assert_eq!(parsed(text).warnings[0].to_string().split(' ').next(), Some("test.json:2:12:"));
}

#[test]
fn a_phase_may_repeat_and_keeps_its_place() {
    let task = thread("'phases': {'p': {'run': 1}, 'q': {'run': 2}, 'p': {'run': 3}}");
    let runs: Vec<_> =
        task.phases.iter().map(|phase| (&*phase.name, phase.steps.get(0).unwrap())).collect();
    let [one, two, three] = [1, 2, 3].map(|us| Step::Run(fixed(us)));
    assert_eq!(runs, [("p", one), ("q", two), ("p", three)]);
}

#[test]
fn what_is_not_done_here_is_said_once_with_what_is_done_instead() {
    let parsed = parsed_with(
        "{'global': {'duration': 1, 'default_policy': 'SCHED_DEADLINE'}, 'tasks': {\n\
         'a': {'dl-runtime': 5, 'dl-period': 9, 'dl-deadline': 9, 'run': 1},\n\
         'b': {'policy': 'SCHED_DEADLINE', 'priority': 0, 'dl-runtime': 1, 'period': 5, \
               'deadline': 5, 'runtime': 2},\n\
         'c': {'policy': 'SCHED_OTHER', 'util_min': -1, 'phases': {'p': {'util_max': 9, 'run': 1, \
               'nodes_membind': [0]}}}, 'd': {'nodes_membind': [], 'period': 1, 'run': 1}, \n\
         'e': {'policy': 'SCHED_FIFO', 'dl-runtime': 1, 'run': 1}}}",
        DeadlinePolicy::AsFifo,
    );
    let shown: Vec<_> = parsed.warnings.iter().map(ToString::to_string).collect();
    let expected = [
        "test.json:1:46: SCHED_DEADLINE is SCHED_FIFO of priority 99, without a budget, here",
        "test.json:4:32: utilization clamps have no effect here: all CPUs have one capacity and \
         speed",
        "test.json:4:90: `nodes_membind` has no effect here: all memory is equally near",
        "test.json:5:31: \"dl-runtime\" has no effect on a task of this policy",
    ];
    assert_eq!(shown, expected);
    let policies = parsed.scenario.tasks.iter().map(|task| task.properties.policy);
    assert_eq!(policies.collect::<Vec<_>>(), [fifo(99), fifo(99), normal(0), fifo(99), fifo(10)]);
    assert_eq!(parsed.scenario.tasks[1].phases[0].steps, [Step::Runtime(fixed(2))]);
}

#[test]
fn how_to_log_is_rt_apps() {
    let log = |global: &str| {
        let text = format!("{{'global': {{{global}}}, 'tasks': {{'a': {{'loop': 1, 'run': 1}}}}}}");
        let log = parsed(&text).scenario.log;
        (log.basename, log.cumulative_slack)
    };
    assert_eq!(log(""), ("rt-app".to_owned(), false));
    assert_eq!(log("'log_basename': 'x', 'cumulative_slack': true"), ("x".to_owned(), true));
}

#[test]
fn an_event_may_repeat_and_keeps_its_place() {
    let (found, _) = steps("'run': 1, 'sleep': 2, 'run': 3, 'run': 3");
    let expected =
        [Step::Run(fixed(1)), Step::Sleep(fixed(2)), Step::Run(fixed(3)), Step::Run(fixed(3))];
    assert_eq!(found, expected);
}

#[test]
fn a_task_is_suspended_under_its_own_name() {
    let scenario =
        tasks("'a': {'suspend': 'b', 'resume': 'b'}, 'b': {'suspend': 0, 'resume': 'a'}");
    assert_eq!(scenario.objects.suspends, ["a", "b"]);
    let (a, b) = (ObjectId(0), ObjectId(1));
    assert_eq!(scenario.tasks[0].phases[0].steps, [Step::Suspend(a), Step::Resume(b)]);
    assert_eq!(scenario.tasks[1].phases[0].steps, [Step::Suspend(b), Step::Resume(a)]);
}

#[test]
fn objects_of_one_kind_share_names_and_other_kinds_do_not() {
    let (found, objects) =
        steps("'lock': 'x', 'wait': {'ref': 'x', 'mutex': 'x'}, 'sem_wait': 'x'");
    let x = ObjectId(0);
    let wait = Step::Wait { cond: x, mutex: x };
    assert_eq!(found, [Step::Lock(x), wait, Step::SemWait(x)]);
    let mutexes: Vec<_> = objects.mutexes.iter().map(|(name, _)| name.clone()).collect();
    let names = [&mutexes, &objects.conditions, &objects.semaphores];
    assert_eq!(names, [&["x"], &["x"], &["x"]]);
}

#[test]
fn what_rt_app_names_unknown_is_so_named() {
    let (found, objects) = steps("'wait': {}, 'timer': {'period': 5}, 'timer': {'ref': 't'}");
    assert_eq!(
        (&objects.conditions[0], &objects.mutexes[0].0),
        (&"unknown".into(), &"unknown".into())
    );
    assert_eq!(objects.timers, ["unknown", "t"]);
    let (timer, mode) = (TimerRef::Shared(ObjectId(1)), TimerMode::Relative);
    assert_eq!(found[2], Step::Timer { timer, period: fixed(0), mode });
}

#[test]
fn a_barrier_has_a_user_for_each_reference_of_each_instance() {
    let scenario = tasks(
        "'a': {'instance': 3, 'barrier0': 'x', 'barrier1': 'y', 'barrier2': 'x'}, \
         'b': {'run': 5, 'barrier': 'x'}",
    );
    assert_eq!(scenario.objects.barriers, [("x".to_owned(), 7), ("y".to_owned(), 3)]);
}

#[test]
fn a_timer_is_absolute_if_any_reference_says_so() {
    let relative = "{'ref': 't', 'period': 10}";
    let absolute = "{'ref': 't', 'period': 10, 'mode': 'absolute'}";
    let own = "{'ref': 'unique1', 'period': 10}";
    let scenario = tasks(&format!(
        "'a': {{'timer': {relative}, 'timer': {own}}}, 'b': {{'timer': {absolute}}}, \
         'c': {{'timer': {{'ref': 'unique1', 'period': 10, 'mode': 'absolute'}}}}"
    ));
    let modes: Vec<_> = scenario
        .tasks
        .iter()
        .flat_map(|task| task.phases[0].steps.iter())
        .map(|step| match step {
            Step::Timer { mode, .. } => mode,
            _ => panic!("{step:?}"),
        })
        .collect();
    use TimerMode::{Absolute, Relative};
    assert_eq!(modes, [Absolute, Relative, Absolute, Absolute]);
}

#[test]
fn unique_timers_are_numbered_within_their_task() {
    let timer = |name| format!("'timer': {{'ref': '{name}', 'period': 10}}");
    let scenario = tasks(&format!(
        "'a': {{{}, {}, {}}}, 'b': {{{}}}",
        timer("unique_x"),
        timer("unique_y"),
        timer("unique_x"),
        timer("unique_y")
    ));
    let of = |task: usize, step: usize| match scenario.tasks[task].phases[0].steps.get(step) {
        Some(Step::Timer { timer, .. }) => timer,
        _ => panic!(),
    };
    assert_eq!([of(0, 0), of(0, 1), of(0, 2), of(1, 0)], [0, 1, 0, 0].map(TimerRef::Unique));
    assert!(scenario.objects.timers.is_empty());
}

#[test]
fn a_pipe_has_the_capacity_that_a_reference_gives_it() {
    let (_, objects) = steps(
        "'send': {'ref': 'p', 'bytes': 9, 'capacity': 4}, 'recv': {'ref': 'p', 'bytes': 9}, \
         'send': {'ref': 'q', 'bytes': 1}",
    );
    assert_eq!(objects.pipes, [("p".to_owned(), 4), ("q".to_owned(), 65_536)]);
}

#[test]
fn loops_are_rt_apps() {
    let loops = |members: &str| {
        let thread = thread(members);
        (thread.loops, thread.phases.iter().map(|phase| phase.loops).collect::<Vec<_>>())
    };
    // Without phases the thread's `loop` is the phase's.
    assert_eq!(loops("'run': 1"), (None, vec![Some(1)]));
    assert_eq!(loops("'run': 1, 'loop': 5"), (Some(1), vec![Some(5)]));
    assert_eq!(loops("'run': 1, 'loop': -1"), (Some(1), vec![None]));
    assert_eq!(loops("'run': 1, 'loop': 0"), (Some(1), vec![None]));
    // With phases each has its own.
    let phases =
        "'phases': {'p': {'run': 1}, 'q': {'run': 1, 'loop': 3}, 'r': {'run': 1, 'loop': 0}}";
    let each = vec![Some(1), Some(3), None];
    assert_eq!(loops(phases), (None, each.clone()));
    assert_eq!(loops(&format!("'loop': 4, {phases}")), (Some(4), each.clone()));
    assert_eq!(loops(&format!("'loop': -1, {phases}")), (None, each.clone()));
    assert_eq!(loops(&format!("'loop': 0, {phases}")), (Some(0), each));
}

#[test]
fn threads_and_phases_have_names_delays_and_instances() {
    let scenario = tasks(
        "'one': {'delay': 7, 'phases': {'p': {'run': 1}}}, 'none': {'instance': 0, 'run': 1}, \
         'two': {'instance': 2, 'delay': {'uniform': [0, 5]}, 'run': 1}",
    );
    let [one, none, two] = &scenario.tasks[..] else { panic!() };
    assert_eq!((one.delay, two.delay), (fixed(7), Draw::Uniform(us(0), us(5))));
    assert_eq!((one.instances, none.instances, two.instances), (1, 0, 2));
    assert_eq!((&*one.phases[0].name, &*two.phases[0].name), ("p", ""));
    let instances: Vec<_> =
        scenario.instances().map(|(spec, nth, name)| (spec.0, nth, name)).collect();
    let expected = [(0, 0, "one"), (2, 0, "two-0"), (2, 1, "two-1")];
    assert_eq!(instances, expected.map(|(spec, nth, name)| (spec, nth, name.to_owned())));
}

#[test]
fn policies_have_rt_apps_priorities() {
    let policy = |members: &str| thread(&format!("{members} 'run': 1")).properties.policy;
    assert_eq!(policy(""), normal(0));
    assert_eq!(policy("'priority': -5,"), normal(-5));
    assert_eq!(policy("'policy': 'SCHED_FIFO',"), fifo(10));
    assert_eq!(policy("'priority': 99, 'policy': 'SCHED_FIFO',"), fifo(99));
    let rr = Some(Policy::RoundRobin(RtPrio::MIN));
    assert_eq!(policy("'policy': 'SCHED_RR', 'priority': 1,"), rr);
    let batch = Some(Policy::Batch(Nice::new(19).unwrap()));
    assert_eq!(policy("'policy': 'SCHED_BATCH', 'priority': 19,"), batch);
    assert_eq!(policy("'policy': 'SCHED_IDLE', 'priority': 3,"), Some(Policy::Idle));
}

#[test]
fn a_phase_that_sets_priority_alone_keeps_the_policy() {
    let policies = |global: &str, thread: &str| {
        let phases = "'phases': {'p': {'priority': 5, 'run': 1}, 'q': {'run': 1}, \
             'r': {'policy': 'SCHED_OTHER', 'run': 1}, 's': {'priority': 6, 'run': 1}, \
             't': {'policy': 'SCHED_FIFO', 'run': 1}}";
        let text = format!(
            "{{'global': {{'duration': 1, {global}}}, 'tasks': {{'a': {{{thread} {phases}}}}}}}"
        );
        let task = parsed(&text).scenario.tasks.remove(0);
        let phases = task.phases.iter().map(|phase| phase.properties.policy);
        std::iter::once(task.properties.policy).chain(phases).collect::<Vec<_>>()
    };
    let later = [None, normal(0), normal(6), fifo(10)];
    assert_eq!(policies("", ""), [[normal(0), normal(5)].as_slice(), &later].concat());
    let with_default = policies("'default_policy': 'SCHED_FIFO',", "");
    assert_eq!(with_default, [[fifo(10), fifo(5)].as_slice(), &later].concat());
    let with_thread = policies("", "'policy': 'SCHED_FIFO', 'priority': 1,");
    assert_eq!(with_thread, [[fifo(1), fifo(5)].as_slice(), &later].concat());
}

#[test]
fn a_phase_says_only_what_it_changes() {
    let task = thread(
        "'cpus': [0, 2], 'timer_slack': 0, \
         'phases': {'p': {'run': 1}, 'q': {'cpus': [7, 1, 1], 'timer_slack': 90, 'run': 1}}",
    );
    let cpus = |list: &[u16]| Some(list.iter().copied().map(CpuId).collect::<CpuSet>());
    let shown = |at: usize| {
        let properties = &task.phases[at].properties;
        (properties.cpus.clone(), properties.slack)
    };
    assert_eq!((&task.properties.cpus, task.properties.slack), (&cpus(&[0, 2]), Some(us(0))));
    assert_eq!(shown(0), (None, None));
    assert_eq!(shown(1), (cpus(&[1, 7]), Some(us(90))));
}

#[test]
fn latency_nice_and_slice_hold_until_a_phase_says_otherwise() {
    let task = thread(
        "'latency_nice': -20, 'phases': {'p': {'run': 1}, 'q': {'latency_nice': 19, 'run': 1}, \
         'r': {'slice': 100, 'run': 1}, 's': {'slice': 100000, 'latency_nice': 0, 'run': 1}}",
    );
    let cpusets = Cpusets::all_of(CpuSet::first(8));
    let mut attr = task.first_attr(&cpusets);
    let had = task.phases.iter().map(|phase| {
        attr = task.attr_in(phase, &attr, None, &cpusets);
        (attr.latency_nice.get(), attr.slice.map(Slice::get))
    });
    let (short, long) = (Some(us(100)), Some(us(100_000)));
    assert_eq!(had.collect::<Vec<_>>(), [(-20, None), (19, None), (19, short), (0, long)]);
}

#[test]
fn a_forked_task_inherits_slack_and_latency_nice_and_slice_unless_one_of_the_two_says_otherwise() {
    let scenario = tasks(
        "'parent': {'slice': 300, 'latency_nice': 3, 'run': 1}, \
         'resets': {'reset_on_fork': true, 'run': 1}, 'plain': {'reset_on_fork': false, 'run': 1}, \
         'own': {'latency_nice': 0, 'run': 1}, \
         'late': {'phases': {'p': {'slice': 700, 'run': 1}, 'q': {'latency_nice': 1, 'run': 1}}}",
    );
    let [parent, resets, plain, own, late] = &scenario.tasks[..] else { panic!() };
    let cpusets = Cpusets::all_of(CpuSet::first(8));
    let attr = Attr {
        policy: Policy::Fifo(RtPrio::MAX),
        latency_nice: LatencyNice::new(-7).unwrap(),
        slice: Slice::new(us(500)),
        ..Attr::normal(CpuSet::first(1))
    };
    let asked = TaskAttr { attr, slack: us(9) };
    let forked = |task: &TaskSpec, by: &TaskSpec| {
        let attr = task.forked_attr(&cpusets, by, &asked);
        let first = task.first_attr(&cpusets);
        let Attr { latency_nice, slice, .. } = attr.attr;
        let inherited = Attr { latency_nice, slice, ..first.attr };
        let inherited = TaskAttr { attr: inherited, slack: asked.slack };
        assert_eq!(attr, inherited, "nothing else is inherited, and slack by all");
        (attr.latency_nice.get(), attr.slice.map(|slice| slice.get().0 / 1_000))
    };
    assert_eq!(forked(plain, parent), (-7, Some(500)), "the parent's last attributes");
    assert_eq!(forked(own, plain), (0, Some(500)), "the thread says one of them");
    assert_eq!(forked(late, parent), (-7, Some(700)), "the first phase says one of them");
    assert_eq!(forked(parent, plain), (3, Some(300)), "the thread says both");
    assert_eq!(forked(plain, resets), (0, None));
    assert_eq!(forked(parent, resets), (3, Some(300)));
    assert_eq!(forked(resets, plain), (-7, Some(500)), "it inherits as any other");
}

#[test]
fn groups_have_a_latency_nice_idle_ones_too() {
    let text = "{'tasks': {'a': {'loop': 1, 'taskgroup': '/made', 'run': 1}}, 'groups': {\
         '/a': {'latency_nice': -20}, '/b': {'idle': true, 'latency_nice': 19}, \
         '/c': {'weight': 7, 'cpu.latency.nice': 1}, '/d': {}}}";
    let groups = parsed(text).scenario.groups;
    let shown: Vec<_> = groups
        .iter()
        .map(|g| (&*g.path, g.spec.weight.get(), g.spec.idle, g.spec.latency_nice.get()))
        .collect();
    let expected = [
        ("/", 1024, false, 0),
        ("/a", 1024, false, -20),
        ("/b", 3, true, 19),
        ("/c", 7, false, 1),
        ("/d", 1024, false, 0),
        ("/made", 1024, false, 0),
    ];
    assert_eq!(shown, expected);
}

/// Returns the limit of the group with these keys, and the warnings.
fn limit(keys: &str) -> (Option<Limit>, Vec<String>) {
    let text =
        format!("{{'tasks': {{'a': {{'loop': 1, 'run': 1}}}}, 'groups': {{'/web': {{{keys}}}}}}}");
    let Parsed { scenario, warnings, .. } = parsed(&text);
    (scenario.groups[1].spec.limit, warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn a_group_is_limited_by_its_runtime() {
    let none = |keys| assert_eq!(limit(keys), (None, vec![]), "{keys}");
    let is = |keys, [runtime, period, burst]: [u64; 3], per_cpu| {
        let [runtime, period, burst] = [runtime, period, burst].map(Nanos::from_micros);
        let expected = Limit::new(runtime, period, burst, per_cpu).expect("a limit");
        assert_eq!(limit(keys), (Some(expected), vec![]), "{keys}");
    };
    none("");
    none("'runtime': -1");
    is("'runtime': 20000", [20_000, 100_000, 0], false);
    is("'runtime': 1000, 'period': 1000000", [1_000, 1_000_000, 0], false);
    is("'burst': 250, 'per_cpu': true, 'runtime': 1500, 'period': 1000", [1_500, 1_000, 250], true);
    is("'runtime': 400000, 'per_cpu': false", [400_000, 100_000, 0], false);
    is("'runtime': 20000, 'burst': 20000, 'idle': true", [20_000, 100_000, 20_000], false);
    is("'runtime': 65536000000, 'period': 1000000", [65_536_000_000, 1_000_000, 0], false);
}

#[test]
fn a_limit_that_is_lifted_leaves_its_other_keys() {
    for keys in ["'period': 1000", "'runtime': -1, 'period': 1000000, 'burst': 9, 'per_cpu': true"]
    {
        assert_eq!(limit(keys), (None, vec![]), "{keys}");
    }
    let (none, said) = limit("'burst': 5, 'per_cpu': true");
    assert_eq!(none, None);
    let forgotten = |column, key| {
        format!("test.json:1:{column}: \"{key}\" has no effect on a task group without a `runtime`")
    };
    assert_eq!(said, [forgotten(61, "burst"), forgotten(73, "per_cpu")]);
    assert_eq!(limit("'per_cpu': false"), (None, vec![]), "it is the default of a group");
}

#[test]
fn a_child_may_ask_for_more_than_its_parent() {
    let text = "{'tasks': {'a': {'loop': 1, 'run': 1}}, 'groups': {\
         '/a': {'runtime': 20000}, '/a/b': {'runtime': 50000}, '/a/c': {}}}";
    let groups = parsed(text).scenario.groups;
    let runtimes = groups.iter().map(|group| Some(group.spec.limit?.runtime().0));
    let expected = [None, Some(20_000_000), Some(50_000_000), None];
    assert_eq!(runtimes.collect::<Vec<_>>(), expected);
}

#[test]
fn parents_come_first_whatever_the_order_of_the_file() {
    let text = "{'tasks': {'a': {'loop': 1, 'run': 1}}, 'groups': {'/b/c': {'weight': 2}, \
         '/a': {}, '/': {}, '/b': {'weight': 262144}}}";
    let groups = parsed(text).scenario.groups;
    let shown: Vec<_> =
        groups.iter().map(|g| (&*g.path, g.spec.parent.0, g.spec.weight.get())).collect();
    let expected = [("/", 0, 1024), ("/b", 0, 262_144), ("/b/c", 1, 2), ("/a", 0, 1024)];
    assert_eq!(shown, expected);
}

#[test]
fn an_idle_group_has_the_weight_of_sched_idle() {
    let text = "{'tasks': {'a': {'loop': 1, 'run': 1}}, 'groups': {'/a': {'idle': true}, \
         '/a/b': {'weight': 9, 'idle': false}}}";
    let groups = parsed(text).scenario.groups;
    let shown: Vec<_> =
        groups.iter().map(|g| (&*g.path, g.spec.weight.get(), g.spec.idle)).collect();
    assert_eq!(shown, [("/", 1024, false), ("/a", 3, true), ("/a/b", 9, false)]);
}

#[test]
fn taskgroup_creates_its_group_and_group_names_one() {
    let text = "{'groups': {'/web': {'weight': 5}}, 'tasks': {\
         'a': {'loop': 1, 'taskgroup': '/db/log', 'phases': {\
             'p': {'run': 1}, 'q': {'taskgroup': '/web', 'run': 1}, 'r': {'taskgroup': '', 'run': 1}, \
             's': {'group': '/web', 'policy': 'SCHED_RR', 'run': 1}, 't': {'group': '/', 'run': 1}}}}}";
    let scenario = parsed(text).scenario;
    let paths: Vec<_> = scenario.groups.iter().map(|g| (&*g.path, g.spec.parent.0)).collect();
    assert_eq!(paths, [("/", 0), ("/web", 0), ("/db", 0), ("/db/log", 2)]);
    assert_eq!(scenario.groups[2].spec.weight, Weight::NICE_0);
    let task = &scenario.tasks[0];
    let groups: Vec<_> = task.phases.iter().map(|phase| phase.properties.group).collect();
    let (web, root) = (Some(GroupId(1)), Some(GroupId::ROOT));
    assert_eq!(task.properties.group, Some(GroupId(3)));
    assert_eq!(groups, [None, web, None, web, root]);
}

#[test]
fn the_machine_has_defaults() {
    let machine = parsed("{'tasks': {'a': {'loop': 1, 'run': 1}}}").scenario.machine;
    assert_eq!((machine.topology.to_string(), machine.tick_hz), ("1x8".into(), 1_000));
    assert!(!machine.rt_group_sched && !machine.skew_tick);
    assert_eq!(machine.packs_below, None);
    assert_eq!(machine.costs, Costs::default());
}

#[test]
fn the_machine_is_as_described() {
    let text = "{'tasks': {'a': {'loop': 1, 'run': 1}}, 'machine': {'topology': '2x2x2', \
         'cpus': 8, 'tick_hz': 250, 'skew_tick': true, 'rt_group_sched': true, 'packs_below': 68, 'costs': {'context_switch_ns': 1, 'migration_ns': 2, \
         'ipi_ns': 3, 'wakeup_ns': 4, 'wakeup_fair_ns': 12, 'wakeup_level_ns': 13, 'timer_interrupt_ns': 5, 'jitter_ns': 6, \
         'timer_latency_ns': 7, 'idle_exit_ns': 8, 'timer_spread_ns': 9, 'ipi_spread_ns': 10, 'idle_exit_spread_ns': 11}}}";
    let machine = parsed(text).scenario.machine;
    assert_eq!((machine.topology.to_string(), machine.tick_hz), ("2x2x2".into(), 250));
    assert!(machine.rt_group_sched && machine.skew_tick && machine.packs_below == Some(68));
    let expected = Costs {
        context_switch: Nanos(1),
        migration: Nanos(2),
        ipi: Nanos(3),
        wakeup: Nanos(4),
        wakeup_fair: Nanos(12),
        wakeup_level: Nanos(13),
        timer_interrupt: Nanos(5),
        timer_latency: Nanos(7),
        idle_exit: Nanos(8),
        jitter: Nanos(6),
        timer_spread: Nanos(9),
        ipi_spread: Nanos(10),
        idle_exit_spread: Nanos(11),
        ..Costs::FREE
    };
    assert_eq!(machine.costs, expected);
}

#[test]
fn constant_rounds_that_lock_to_the_tick_are_told() {
    let of = |costs: &str, sleep: &str, other: &str| {
        let machine = format!("'machine': {{'tick_hz': 250, 'costs': {{{costs}}}}}");
        let half = format!("'half': {{'run': 2000, 'sleep': {sleep}}}");
        parsed(&format!("{{'global': {{'duration': 1}}, {machine}, 'tasks': {{{half}{other}}}}}"))
            .warnings
    };
    let (exact, hog) = ("'jitter_ns': 0", ", 'hog': {'run': 100000}");
    let told: Vec<_> = of(exact, "2000", hog).iter().map(|warning| warning.what.clone()).collect();
    let expected = "the rounds of \"half\" take 4000 us and fit the tick of 4000 us, so they may lock to it and the shares \
                    may depend on the seed: remove `jitter_ns`, or draw a time, as {\"uniform\": [a, b]}";
    assert_eq!(told, [expected]);
    assert_eq!(of("'timer_spread_ns': 300", "1998", hog).len(), 1);
    assert_eq!(of("", "2000", hog), [], "the default unlocks them");
    assert_eq!(of(exact, "2000", ""), [], "it is alone");
    assert_eq!(of(exact, "2500", hog), [], "it drifts through the tick");
    assert_eq!(of(exact, "{'uniform': [1900, 2100]}", hog), [], "it draws");
    assert_eq!(of("'timer_spread_ns': 1000, 'jitter_ns': 0", "2000", hog), [], "it is spread");
}

#[test]
fn no_jitter_is_no_spread_either() {
    let of = |costs: &str| {
        let text = format!(
            "{{'machine': {{'costs': {{{costs}}}}}, 'tasks': {{'a': {{'loop': 1, 'run': 1}}}}}}"
        );
        let Costs { jitter, timer_spread, .. } = parsed(&text).scenario.machine.costs;
        (jitter, timer_spread)
    };
    assert_eq!(of(""), (Costs::JITTER, Costs::TIMER_SPREAD));
    assert_eq!(of("'ipi_ns': 5"), (Costs::JITTER, Costs::TIMER_SPREAD));
    assert_eq!(of("'jitter_ns': 0"), (Nanos(0), Nanos(0)));
    assert_eq!(of("'jitter_ns': 9"), (Nanos(9), Costs::TIMER_SPREAD));
    assert_eq!(of("'timer_spread_ns': 7, 'jitter_ns': 9"), (Nanos(9), Nanos(7)));
    assert_eq!(of("'timer_spread_ns': 7"), (Costs::JITTER, Nanos(7)));
}

#[test]
fn a_topology_alone_says_how_many_cpus() {
    let text =
        "{'tasks': {'a': {'cpus': [15], 'loop': 1, 'run': 1}}, 'machine': {'topology': '4x4'}}";
    assert_eq!(parsed(text).scenario.machine.topology.cpus(), 16);
}

#[test]
fn features_are_switched_in_order() {
    let text = "{'tasks': {'a': {'loop': 1, 'run': 1}}, \
         'features': ['NO_RT_PULL', 'NO_RT_PUSH', 'RT_PULL']}";
    let features = parsed(text).scenario.features;
    assert!(!features.has(Feature::RtPush) && features.has(Feature::RtPull));
}

#[test]
fn what_rt_app_alone_needs_is_taken_silently() {
    let parsed = parsed(
        "{'resources': {'m': {'type': 'mutex'}, 's': {'type': 'signal', 'target': 'w'}}, \
         'global': {'duration': 2, 'calibration': 'CPU0', 'default_policy': 'SCHED_OTHER', \
         'pi_enabled': true, 'lock_pages': false, 'logdir': './', 'log_basename': 'x', \
         'log_size': 'file', 'ftrace': 'main,task', 'gnuplot': false, 'cumulative_slack': true, \
         'io_device': '/dev/null', 'mem_buffer_size': 4096}, 'tasks': {'a': {'run': 1}}}",
    );
    assert_eq!(parsed.scenario.duration, Some(Nanos::from_secs(2)));
    assert_eq!(parsed.warnings, []);
    let numbers = "{'global': {'calibration': 50, 'log_size': 2, 'ftrace': true}, \
         'tasks': {'a': {'loop': 1, 'run': 1}}}";
    assert_eq!(self::parsed(numbers).warnings, []);
}

#[test]
fn unknown_keys_are_warned_about_once_where_they_come_first() {
    let parsed = parsed(
        "{'frag': 1,\n 'tasks': {'a': {'loop': 1, 'run': 1, 'frag': 1, 'colour': {'x': [1]}},\n\
         'b': {'phases': {'p': {'delay': 5, 'run': 1}}, 'loop': 1, 'run': 7, 'colour': 3}}}",
    );
    let shown: Vec<_> = parsed.warnings.iter().map(ToString::to_string).collect();
    let unknown = "is not known here and has no effect";
    let expected = [
        format!("test.json:1:2: \"frag\" {unknown}"),
        format!("test.json:2:50: \"colour\" {unknown}"),
        format!("test.json:3:24: \"delay\" {unknown}"),
        "test.json:3:59: \"run\" has no effect beside `phases`".to_owned(),
    ];
    assert_eq!(shown, expected);
    let parsed = self::parsed("{'chain': {'c': ['a']}, 'tasks': {'a': {'loop': 1, 'run': 1}}}");
    let near = format!("test.json:1:2: \"chain\" {unknown}; did you mean \"chains\"?");
    assert_eq!(parsed.warnings[0].to_string(), near);
}
