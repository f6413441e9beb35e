//! CPUs that go offline and come back.

use crate::rig::{Run, ms, on, us, world};
use runyard_engine::time::{Nanos, Time};

/// Returns whether a task executed on `cpu` between the two times.
fn executed(run: &Run, cpu: u16, from: Time, to: Time) -> bool {
    let names = run.outcome.tasks.iter().map(|task| task.name.as_str());
    let mut stretches = names.flat_map(|name| run.stretches(name));
    stretches.any(|stretch| stretch.cpu == cpu && stretch.from < to && stretch.to > from)
}

#[test]
fn tasks_leave_a_cpu_that_goes_and_use_it_when_it_comes() {
    for policy in ["SCHED_OTHER", "SCHED_FIFO"] {
        let run = world().cpus(3).hotplug(ms(10), 1, false).hotplug(ms(40), 1, true).run(&format!(
            "'a': {{'instance': 4, 'policy': '{policy}', 'loop': 20, 'run': 5000, 'sleep': 10}}"
        ));
        run.holds(executed(&run, 1, ms(0), ms(10)), "CPU 1 is used before");
        run.holds(!executed(&run, 1, us(10_001), ms(40)), "not while it is away");
        run.holds(executed(&run, 1, ms(40), ms(60)), "and soon after it came back");
    }
}

#[test]
fn the_running_task_goes_on_elsewhere() {
    for policy in ["SCHED_OTHER", "SCHED_RR"] {
        let run = world().cpus(2).hotplug(ms(3), 1, false).run(&format!(
            "'wall': {{'policy': 'SCHED_FIFO', 'priority': 50, 'cpus': [0], 'loop': 1, 'run': 5000}},
             'a': {{'policy': '{policy}', 'delay': 100, 'loop': 1, 'run': 10000}}"
        ));
        run.is(policy, run.stretches("a"), [on(1, 100, 3_000), on(0, 5_000, 12_100)]);
    }
}

#[test]
fn who_has_no_cpu_left_runs_anywhere_rather_than_never() {
    for policy in ["SCHED_OTHER", "SCHED_FIFO"] {
        let run = world().cpus(2).hotplug(ms(3), 1, false).run(&format!(
            "'a': {{'policy': '{policy}', 'cpus': [1], 'loop': 1, 'run': 5000, 'sleep': 1000,
                    'run1': 1000}}"
        ));
        run.is("on CPU 0", run.cpus_of("a"), [1, 0]);
        run.holds(run.exit("a") < us(7_100), "without a pause");
    }
}

#[test]
fn a_cpu_that_came_back_is_one_as_before() {
    let world = || world().cpus(2).hotplug(ms(1), 1, false).hotplug(ms(20), 1, true);
    let run = world().run(
        "'hog': {'cpus': [1], 'delay': 21000, 'loop': 1, 'run': 10000},
         'pinned': {'cpus': [1], 'delay': 22000, 'loop': 1, 'run': 1000}",
    );
    run.is("a task that begins then keeps to it", (run.cpus_of("hog"), run.cpus_of("pinned")), {
        (vec![1], vec![1])
    });
    let run = world().run("'a': {'instance': 4, 'loop': 1, 'run': 20000}");
    run.holds(run.end() < ms(65), "it fetches its part of the tasks");
}

#[test]
fn the_timers_of_a_cpu_that_is_away_are_served() {
    let run = world().cpus(2).hotplug(ms(3), 1, false).run(
        "'a': {'policy': 'SCHED_FIFO', 'cpus': [1], 'loop': 1, 'phases': {
            'p': {'run': 1000},
            'q': {'cpus': [0, 1], 'sleep': 5000, 'run': 1000}}}",
    );
    run.is("a", run.stretches("a"), [on(1, 0, 1_000), on(0, 6_000, 7_000)]);
}

#[test]
fn any_cpu_may_go_as_long_as_another_stays() {
    let world = world().cpus(2).hotplug(ms(1), 0, false);
    let run = world.run("'a': {'instance': 2, 'loop': 1, 'run': 5000}");
    run.is("end", run.end(), ms(9));
    run.holds(!executed(&run, 0, us(1_001), ms(9)), "CPU 0 is away");
}

#[test]
fn a_cpu_may_go_twice_and_come_twice() {
    let world = world().cpus(2).hotplug(ms(1), 1, true).hotplug(ms(2), 1, false);
    let world = world.hotplug(ms(3), 1, false).hotplug(ms(4), 1, true).hotplug(ms(5), 1, true);
    let run = world.run("'a': {'instance': 3, 'policy': 'SCHED_FIFO', 'loop': 1, 'run': 5000}");
    let used: Nanos = Nanos::from_millis(15);
    run.is("work", ["a-0", "a-1", "a-2"].iter().fold(Nanos(0), |sum, a| sum + run.ran(a)), used);
    run.holds(run.end() <= ms(10), "both CPUs were used but for 2 ms");
}
