//! Balance over the topology: the tasks spread over the CPUs, and no CPU idles while a task waits. Every run here
//! checks `no-wasted-cpu`, as all runs do.

use crate::rig::{Run, World, ms, world};
use proptest::collection::vec;
use proptest::prelude::*;
use runyard_engine::balance::{Balanced, IdleKind};
use runyard_engine::event::What;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Level;
use std::fmt::Write as _;

/// Returns a thread object. Its instances begin on `from`, stay there for a millisecond of work, and may then run on
/// `cpus`.
fn begins_on(name: &str, instances: u32, (from, cpus): (u16, &str), attributes: &str) -> String {
    format!(
        "'{name}': {{'instance': {instances}, {attributes} 'phases': {{
             'there': {{'cpus': [{from}], 'run': 1000}},
             'wide': {{'loop': -1, 'cpus': [{cpus}], 'run': 1000}}}}}},"
    )
}

/// Runs `tasks` on a machine of this shape.
#[track_caller]
fn on_shape(world: World, shape: &str, groups: &str, tasks: &str) -> Run {
    world.run_text(&format!(
        "{{'machine': {{'topology': '{shape}'}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}"
    ))
}

/// Returns the part of the machine that has worked since the run began, in per cent.
fn busy(run: &Run) -> f64 {
    let (totals, topology) = (run.totals(), run.scenario.machine.topology);
    let idle: u64 = topology.iter().map(|cpu| totals.cpu(cpu).idle.0).sum();
    100.0 - idle as f64 * 100.0 / (topology.cpus() as u64 * run.end().0) as f64
}

/// Returns the CPU on which the task executes at the end.
fn last_cpu(run: &Run, name: &str) -> u16 {
    run.stretches(name).last().expect("it ran").cpu
}

const CROWD: &str = "'soaker': {'instance': 4, 'policy': 'SCHED_IDLE', 'run': 1000},
                     'normal': {'delay': 1000, 'run': 1000}";

#[test]
fn one_normal_task_leaves_no_cpu_idle() {
    let run = on_shape(world().millis(4_000), "2x2", "", CROWD);
    run.holds(busy(&run) > 99.9, &format!("{} % is busy", busy(&run)));
    let normal = run.share("normal", Nanos::from_secs(4));
    // The task begins on a CPU with a soaker, which has a slice or two before it moves to another CPU.
    run.holds(normal > 99.5, &format!("the normal task has {normal} % of a CPU"));
}

/// The failure of the founding document, with its cause: the node of the normal task is always the heaviest. It loses
/// its other task, although running, to the other node, and pulls nothing back.
#[test]
fn balance_by_weights_alone_leaves_a_cpu_idle() {
    let run = on_shape(world().millis(6_000).features("NO_IDLE_LOAD_BALANCE"), "2x2", "", CROWD);
    let at = last_cpu(&run, "normal");
    let neighbour = at ^ 1;
    for nth in 0..4 {
        let name = format!("soaker-{nth}");
        let last = run.stretches(&name).last().unwrap().cpu;
        run.holds(last / 2 != at / 2, &format!("{name} is on the other node"));
    }
    let idle = |event: &_| {
        let &runyard_engine::event::Event { cpu, what, .. } = event;
        cpu.0 == neighbour && matches!(what, What::Idle)
    };
    let since = *run.times(idle).last().expect("the neighbour idles");
    run.holds(since < ms(4_000), &format!("CPU {neighbour} idles since {since}"));
}

/// A group with a low weight affects another group like SCHED_IDLE affects normal tasks.
#[test]
fn groups_of_little_weight_are_balanced_as_sched_idle_tasks_are() {
    let crowd = "'soaker': {'instance': 4, 'group': '/low', 'run': 1000},
                 'normal': {'delay': 1000, 'group': '/high', 'run': 1000}";
    for low in ["'weight': 2", "'idle': true"] {
        let groups = format!("'/low': {{{low}}}, '/high': {{}}");
        let run = on_shape(world().millis(3_000), "2x2", &groups, crowd);
        run.holds(busy(&run) > 99.9, &format!("{low}: {} % is busy", busy(&run)));
        let normal = run.share("normal", Nanos::from_secs(3));
        run.holds(normal > 99.0, &format!("{low}: the normal task has {normal} % of a CPU"));
    }
    let world = world().millis(6_000).features("NO_IDLE_LOAD_BALANCE");
    let run = on_shape(world, "2x2", "'/low': {'weight': 2}, '/high': {}", crowd);
    run.holds(busy(&run) < 95.0, &format!("before: {} % is busy", busy(&run)));
}

/// A SCHED_IDLE task does not stay behind a normal one while other SCHED_IDLE tasks have CPUs. No CPU has more of them
/// than its neighbours without need.
#[test]
fn sched_idle_tasks_go_where_normal_ones_leave_time() {
    let tasks = begins_on("soaker", 3, (0, "0, 1"), "'policy': 'SCHED_IDLE',")
        + "'half': {'cpus': [0], 'timer': {'ref': 't', 'period': 10000}, 'run': 5000}";
    let run = on_shape(world().millis(10_000), "1x2", "", &tasks);
    // A CPU and a half for three of them.
    for nth in 0..3 {
        let share = run.share(&format!("soaker-{nth}"), Nanos::from_secs(10));
        run.holds((35.0..65.0).contains(&share), &format!("soaker-{nth} has {share} %"));
    }
    // Three CPUs for four of them. The disadvantage rotates, and no task stays with the normal task.
    let tasks = "'soaker': {'instance': 4, 'policy': 'SCHED_IDLE', 'run': 1000},
                 'all': {'cpus': [0], 'run': 1000}";
    let run = on_shape(world().millis(10_000), "1x4", "", tasks);
    for nth in 0..4 {
        let share = run.share(&format!("soaker-{nth}"), Nanos::from_secs(10));
        run.holds((60.0..90.0).contains(&share), &format!("soaker-{nth} has {share} %"));
    }
    let migrations = run.totals().task(run.task("soaker-0")).map_or(0, |task| task.migrations);
    run.holds(migrations < 100, &format!("{migrations} migrations of a task in 10 s"));
}

/// Two tasks on one core spread over two cores, although both run all the time.
#[test]
fn cores_are_shared_only_when_all_are_taken() {
    let tasks =
        begins_on("a", 1, (0, "0, 1, 2, 3"), "") + &begins_on("b", 1, (1, "0, 1, 2, 3"), "");
    for features in ["", "NO_IDLE_LOAD_BALANCE"] {
        let run = on_shape(world().millis(500).features(features), "1x2x2", "", &tasks);
        let cores = [last_cpu(&run, "a") / 2, last_cpu(&run, "b") / 2];
        run.holds(cores[0] != cores[1], &format!("{features}: a core for each: {cores:?}"));
        let still = on_shape(world().millis(500).features("NO_LOAD_BALANCE"), "1x2x2", "", &tasks);
        still.is("a stays", still.cpus_of("a"), [0]);
    }
}

/// A CPU whose last task ends pulls a task of another CPU at once.
#[test]
fn who_is_about_to_idle_takes_a_waiting_task() {
    let tasks = begins_on("a", 3, (0, "0, 1"), "")
        + "'short': {'cpus': [1], 'loop': 1, 'run': 30000}, 'shorter': {'cpus': [1], 'loop': 1, 'run': 1}";
    for features in ["", "NO_IDLE_LOAD_BALANCE"] {
        let run = on_shape(world().millis(100).features(features), "1x2", "", &tasks);
        let end = run.exit("short").max(run.exit("shorter"));
        let first = |nth| {
            let stretches = run.stretches(&format!("a-{nth}"));
            stretches.iter().find(|it| it.cpu == 1 && it.to > end).map(|it| it.from)
        };
        let next = (0..3).filter_map(first).min();
        run.holds(next.is_some_and(|at| at <= end), &format!("{features}: {next:?} after {end}"));
    }
}

/// A waiting normal task gets a CPU with SCHED_IDLE work within two ticks and 4 ms.
#[test]
fn sched_idle_work_makes_room_for_normal_tasks_that_wait() {
    let tasks = begins_on("a", 2, (0, "0, 1"), "")
        + "'soaker': {'cpus': [1], 'policy': 'SCHED_IDLE', 'run': 1000}";
    let run = on_shape(world().millis(200), "1x2", "", &tasks);
    let came = |nth| {
        let stretches = run.stretches(&format!("a-{nth}"));
        stretches.iter().find(|it| it.cpu == 1).map(|it| it.from)
    };
    let first = (0..2).filter_map(came).min();
    // Each task must do its first millisecond on the CPU where it began.
    run.holds(first.is_some_and(|at| at < ms(2 * 4 + 6)), &format!("at {first:?}"));
}

/// At each level one CPU balances for all CPUs of its CPU group.
#[test]
fn the_first_cpu_of_a_full_node_balances_for_it() {
    let run = on_shape(world().millis(2_000), "2x2", "", "'a': {'instance': 8, 'run': 1000}");
    let mut by = std::collections::BTreeSet::new();
    for event in &run.events {
        if let What::Balanced(Balanced {
            level: Level::Machine, idle_kind: IdleKind::Busy, ..
        }) = event.what
        {
            by.insert(event.cpu.0);
        }
    }
    run.is("the CPUs that balance nodes", by.into_iter().collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn tasks_spread_over_nodes() {
    let tasks = begins_on("a", 4, (0, "0, 1, 2, 3, 4, 5, 6, 7"), "");
    let run = on_shape(world().millis(2_000), "2x4", "", &tasks);
    let on_first = (0..4).filter(|nth| last_cpu(&run, &format!("a-{nth}")) < 4).count();
    run.is("tasks on the first node", on_first, 2);
}

/// Two classes: push and pull move real-time tasks, balance moves fair tasks.
#[test]
fn real_time_tasks_are_never_moved() {
    let tasks = begins_on("rt", 2, (0, "0, 1"), "'policy': 'SCHED_RR', 'priority': 5,");
    let run = on_shape(world().millis(500).features("NO_RT_PUSH NO_RT_PULL"), "1x2", "", &tasks);
    run.is("CPUs of rt-0", run.cpus_of("rt-0"), [0]);
    run.is("CPUs of rt-1", run.cpus_of("rt-1"), [0]);
}

/// With `POWER_SAVINGS`, SCHED_IDLE work does not wake a CPU that sleeps deeply. Normal work does.
#[test]
fn sched_idle_work_does_not_wake_a_cpu_from_deep_sleep() {
    // The tasks come to share CPU 0 when CPU 1 has been idle for long.
    let crowd = |policy: &str| {
        format!(
            "'a': {{'instance': 2, 'policy': '{policy}', 'loop': 1, 'cpus': [0], 'phases': {{
                'pinned': {{'run': 20000}}, 'wide': {{'loop': -1, 'cpus': [0, 1], 'run': 1000}}}}}}"
        )
    };
    let ends = |features: &str, policy: &str| {
        let run = on_shape(world().millis(300).features(features), "1x2", "", &crowd(policy));
        [last_cpu(&run, "a-0"), last_cpu(&run, "a-1")].contains(&1)
    };
    assert!(ends("", "SCHED_IDLE"));
    assert!(ends("POWER_SAVINGS", "SCHED_OTHER"));
    assert!(!ends("POWER_SAVINGS", "SCHED_IDLE"));
}

/// A pass on behalf of the sleeping CPU by a neighbour that is sometimes awake does not wake it either.
#[test]
fn sched_idle_work_does_not_wake_a_cpu_by_a_pass_either() {
    let tasks = "'a': {'instance': 2, 'policy': 'SCHED_IDLE', 'cpus': [0], 'phases': {
            'pinned': {'loop': 1, 'run': 20000}, 'wide': {'loop': -1, 'cpus': [0, 2], 'run': 1000}}},
        'neighbour': {'cpus': [1], 'run': 50, 'sleep': 300}";
    let runs_on_2 = |features: &str| {
        let run = on_shape(world().millis(500).features(features), "1x3", "", tasks);
        [run.cpus_of("a-0"), run.cpus_of("a-1")].concat().contains(&2)
    };
    assert!(runs_on_2("") && !runs_on_2("POWER_SAVINGS"));
}

/// Balance examines a few tasks at a time, and other tasks the next time.
#[test]
fn no_crowd_hides_who_may_leave() {
    let free = begins_on("free", 1, (0, "0, 1"), "'delay': 1000,");
    for pinned in [33, 300] {
        let crowd = format!("'pinned': {{'instance': {pinned}, 'cpus': [0], 'run': 1000}},");
        // The task's first millisecond runs among many tasks.
        let run = on_shape(world().millis(2_000).unlogged(), "1x2", "", &(crowd + &free));
        run.is("the last CPU of the task that may leave", last_cpu(&run, "free"), 1);
    }
    let crowd = "'soaker': {'instance': 33, 'cpus': [0], 'policy': 'SCHED_IDLE', 'run': 1000},
                 'other': {'cpus': [1], 'policy': 'SCHED_IDLE', 'run': 1000},";
    let two = begins_on("two", 2, (0, "0, 1"), "'delay': 1000,");
    let run = on_shape(world().millis(1_000), "1x2", "", &(crowd.to_owned() + &two));
    let shares = ["two-0", "two-1"].map(|name| run.share(name, Nanos::from_secs(1)));
    run.holds(shares.iter().all(|&share| share > 80.0), &format!("shares {shares:?}"));
}

/// A SCHED_IDLE task counts with the weight of its group. A normal task need not wait for it while another CPU has only
/// light SCHED_IDLE tasks.
#[test]
fn nobody_waits_for_a_heavy_sched_idle_task() {
    let tasks = "'heavy': {'policy': 'SCHED_IDLE', 'group': '/c', 'cpus': [0], 'run': 1000},
                 'light': {'policy': 'SCHED_IDLE', 'cpus': [1], 'run': 1000},
                 'normal': {'delay': 1000, 'phases': {'there': {'cpus': [0], 'run': 100},
                     'wide': {'loop': -1, 'cpus': [0, 1], 'run': 1000}}}";
    let run = on_shape(world().millis(3_000), "1x2", "'/c': {'weight': 262144}", tasks);
    // Each turn gives the task a 257th, until its first 100 us are done.
    let there = run.at_step_of("normal", 1, 0)[0];
    let (left, after) = (run.end().since(there), run.ran("normal").0 - 100_000);
    let share = after as f64 * 100.0 / left.0 as f64;
    run.holds(share > 95.0, &format!("since {there} the normal task has {share} %"));
}

/// With one task more than CPUs, the two tasks that share a CPU change.
#[test]
fn one_task_too_many_goes_round() {
    for cpus in [3, 16] {
        for (policy, first) in [("SCHED_OTHER", ""), ("SCHED_IDLE", "'n': {'run': 1000},")] {
            let number = cpus + usize::from(first.is_empty());
            let tasks =
                format!("{first} 'a': {{'instance': {number}, 'policy': '{policy}', 'run': 1000}}");
            let world = world().millis(8_000).unlogged();
            let run = on_shape(world, &format!("1x{cpus}"), "", &tasks);
            let shares = (0..number).map(|nth| run.share(&format!("a-{nth}"), Nanos::from_secs(8)));
            let least = shares.fold(f64::INFINITY, f64::min);
            // On 3 CPUs each task can have two thirds or three quarters. Without rotation the least is a half.
            run.holds(least > 54.0, &format!("{policy} on {cpus} CPUs: {least} % at the least"));
        }
    }
}

/// A CPU that is often idle for a moment does not look for work each time.
#[test]
fn who_is_busy_again_soon_does_not_search() {
    let searches = |sleep| {
        let tasks = format!(
            "'pinned': {{'instance': 2, 'cpus': [0], 'run': 1000}},
             'naps': {{'cpus': [1], 'run': 100, 'sleep': {sleep}}}"
        );
        let run = on_shape(world().millis(500), "1x2", "", &tasks);
        let newly = |event: &_| {
            let &runyard_engine::event::Event { cpu, what, .. } = event;
            let newly = matches!(what, What::Balanced(it) if it.idle_kind == IdleKind::NewlyIdle);
            newly && cpu.0 == 1
        };
        run.times(newly).len()
    };
    let (short, long) = (searches(100), searches(3_000));
    // It searches until the average idle time is known to be short. With long idle times it searches each time, as the
    // last failed search was more than 4 ms ago.
    assert!(short < 20 && long > 60, "{short} and {long} searches");
}

/// A queue with only pinned tasks does not end the search for a busier queue.
#[test]
fn a_busiest_queue_of_pinned_tasks_does_not_hide_the_next() {
    let tasks =
        "'bound': {'instance': 6, 'cpus': [0], 'run': 1000}, 'lone': {'cpus': [2], 'run': 1000},"
            .to_owned()
            + &begins_on("free", 3, (1, "0, 1, 2"), "");
    let run = on_shape(world().millis(4_000), "1x3", "", &tasks);
    let shares = (0..3).map(|nth| run.share(&format!("free-{nth}"), Nanos::from_secs(4)));
    // Two CPUs for four tasks. A search that ended would leave one CPU for three tasks.
    let least = shares.fold(f64::INFINITY, f64::min);
    run.holds(least > 40.0, &format!("{least} % at the least"));
}

/// The work for tasks that cannot move does not grow with the number of idle CPUs.
#[test]
fn pinned_tasks_cost_no_idle_cpu_anything() {
    for shape in ["1x16", "1x256"] {
        let tasks = "'a': {'instance': 2, 'cpus': [0], 'run': 1000}";
        let run = on_shape(world().millis(100), shape, "", tasks);
        let mut moments = std::collections::BTreeMap::new();
        for event in run.events.iter().filter(|event| matches!(event.what, What::Balanced(_))) {
            *moments.entry(event.at).or_insert(0) += 1;
        }
        let most = moments.values().max().copied().unwrap_or_default();
        run.holds(most <= 3, &format!("{most} passes and searches in one moment on {shape}"));
    }
}

// J. Lozi and others, "The Linux scheduler: a decade of wasted cores", EuroSys 2016: four bugs, each
// of which left CPUs idle for seconds while tasks waited.

/// Bug 1: a task in a group of its own has such a high weight that the average load of its node hides idle CPUs there.
#[test]
fn group_imbalance() {
    let groups = "'/make': {}, '/r1': {}, '/r2': {}";
    let cpus = "0, 1, 2, 3, 4, 5, 6, 7";
    let tasks = begins_on("make", 12, (0, cpus), "'group': '/make',")
        + "'r1': {'group': '/r1', 'run': 1000}, 'r2': {'group': '/r2', 'run': 1000}";
    let run = on_shape(world().millis(1_500), "2x4", groups, &tasks);
    run.holds(busy(&run) > 97.0, &format!("{} % is busy", busy(&run)));
}

/// Bug 2: tasks that are pinned to two distant nodes all stay on the node where they began.
#[test]
fn scheduling_group_construction() {
    let tasks = begins_on("a", 4, (2, "2, 3, 12, 13"), "");
    let run = on_shape(world().millis(1_000), "8x2", "", &tasks);
    let mut cpus: Vec<_> = (0..4).map(|nth| last_cpu(&run, &format!("a-{nth}"))).collect();
    cpus.sort_unstable();
    run.is("CPUs", cpus, [2, 3, 12, 13]);
}

/// Bug 3: tasks wake on the node where they slept, although it is full and other nodes have idle CPUs.
#[test]
fn overload_on_wakeup() {
    let db = "'db': {'instance': 8, 'phases': {'there': {'cpus': [0], 'run': 1000},
        'wide': {'loop': -1, 'cpus': [0, 1, 2, 3, 4, 5, 6, 7],
                 'run': {'exponential': 3000}, 'sleep': {'exponential': 300}}}}";
    let run = |features| on_shape(world().millis(1_500).features(features), "2x4", "", db);
    // Eight tasks that sleep a tenth of the time.
    let (with, without) = (run(""), run("NO_LOAD_BALANCE"));
    with.holds(busy(&with) > 88.0, &format!("{} % is busy", busy(&with)));
    without.holds(busy(&without) < 60.0, &format!("they stay on their node: {}", busy(&without)));
}

/// Bug 4: after a CPU went offline and came back, nodes no longer balance with each other.
#[test]
fn missing_scheduling_domains() {
    let tasks = begins_on("a", 8, (0, "0, 1, 2, 3, 4, 5, 6, 7"), "'delay': 30000,");
    let world = world().millis(1_000).hotplug(ms(10), 5, false).hotplug(ms(20), 5, true);
    let run = on_shape(world, "2x4", "", &tasks);
    run.holds(busy(&run) > 90.0, &format!("{} % is busy", busy(&run)));
}

const SHAPES: [(&str, u16); 6] =
    [("1x2", 2), ("1x8", 8), ("4x2", 8), ("2x2x2", 8), ("4x4", 16), ("3x5", 15)];
const POLICIES: [&str; 3] = ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"];
const GROUPS: [(&str, &str); 5] = [
    ("/a", "'weight': 2"),
    ("/a/b", ""),
    ("/c", "'weight': 262144"),
    ("/i", "'idle': true"),
    ("/i/d", ""),
];

/// A thread object of a random crowd.
#[derive(Clone, Debug)]
struct Member {
    instances: u32,
    policy: usize,
    nice: i32,
    group: Option<usize>,
    /// The CPU where it begins, and one bit for each CPU where it may run afterwards.
    from: u16,
    cpus: u16,
    /// The sleep between its runs in microseconds; zero for none.
    sleep: u32,
    delay: u32,
}

fn member() -> impl Strategy<Value = Member> {
    let sleep = prop_oneof![3 => Just(0), 1 => 100..5_000_u32];
    let mask = prop_oneof![2 => Just(u16::MAX), 1 => any::<u16>()];
    let group = prop::option::of(0..GROUPS.len());
    let instances = prop_oneof![9 => 1..5_u32, 1 => 30..40_u32];
    (instances, 0..POLICIES.len(), -20..20, group, any::<u16>(), mask, sleep, 0..100_000_u32)
        .prop_map(|(instances, policy, nice, group, from, cpus, sleep, delay)| Member {
            instances,
            policy,
            nice,
            group,
            from,
            cpus,
            sleep,
            delay,
        })
}

fn text((shape, cpus): (&str, u16), members: &[Member]) -> String {
    let groups: String =
        GROUPS.iter().map(|(path, what)| format!("'{path}': {{{what}}}, ")).collect();
    let mut tasks = String::new();
    for (nth, it) in members.iter().enumerate() {
        let list = |mask: u16| {
            let some = (0..cpus).filter(|cpu| mask >> cpu & 1 == 1).map(|cpu| cpu.to_string());
            some.collect::<Vec<_>>().join(", ")
        };
        let wide = Some(list(it.cpus)).filter(|list| !list.is_empty());
        let group = it.group.map_or(String::new(), |at| format!("'group': '{}',", GROUPS[at].0));
        let nice = if it.policy == 2 { 0 } else { it.nice };
        let sleep = match it.sleep {
            0 => String::new(),
            us => format!("'sleep': {{'exponential': {us}}},"),
        };
        let _ = write!(
            tasks,
            "'t{nth}': {{'instance': {}, 'policy': '{}', 'priority': {nice}, {group}
                 'delay': {}, 'phases': {{
                 'there': {{'cpus': [{}], 'run': 1000}},
                 'wide': {{'loop': -1, 'cpus': [{}], 'run': 700, {sleep}}}}}}},\n",
            it.instances,
            POLICIES[it.policy],
            it.delay,
            it.from % cpus,
            wide.unwrap_or_else(|| list(u16::MAX)),
        );
    }
    format!(
        "{{'machine': {{'topology': '{shape}'}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}"
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// For any topology, affinities, weights and groups, no CPU idles for long while a task waits that may run there.
    #[test]
    fn no_cpu_is_wasted(shape in 0..SHAPES.len(), members in vec(member(), 1..8), seed in 0..100_u64) {
        let text = text(SHAPES[shape], &members);
        world().millis(250).seed(seed).costs_of_the_text().unlogged().run_text(&text);
    }
}
