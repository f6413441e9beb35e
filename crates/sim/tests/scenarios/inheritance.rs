//! Priority inheritance: its bounds, its chains, and its end.

use crate::rig::{Run, World, on, us, world};
use runyard_engine::event::What;

/// `low` takes the mutex, `high` wants it, and `medium` does not use it.
const INVERSION: &str = "
    'low': {'policy': 'SCHED_FIFO', 'priority': 1, 'loop': 1,
            'run': 100, 'lock': 'm', 'run1': 1000, 'unlock': 'm', 'run2': 500},
    'high': {'policy': 'SCHED_FIFO', 'priority': 9, 'delay': 300, 'loop': 1,
             'lock': 'm', 'run': 200, 'unlock': 'm', 'run1': 100},
    'medium': {'policy': 'SCHED_FIFO', 'priority': 5, 'delay': 400, 'loop': 1, 'run': 9000}";

#[test]
fn without_inheritance_the_medium_task_decides() {
    let run = world().run(INVERSION);
    run.is("medium delays no task", run.stretches("medium"), [on(0, 400, 9_400)]);
    run.is("high waits for both", run.at_step("high", 1), [us(10_100)]);
}

#[test]
fn with_inheritance_the_critical_section_decides() {
    let run = world().run_inheriting(INVERSION);
    run.is("the holder goes on", run.stretches("low")[0], on(0, 0, 1_100));
    run.is("high waits for the section", run.at_step("high", 1), [us(1_100)]);
    run.is("high is not interrupted", run.exit("high"), us(1_400));
    run.is("then medium", run.stretches("medium"), [on(0, 1_400, 10_400)]);
    run.is("low is low again", run.stretches("low")[1], on(0, 10_400, 10_900));
}

#[test]
fn fair_tasks_inherit_real_time_priorities() {
    let tasks =
        INVERSION.replace("'policy': 'SCHED_FIFO', 'priority': 1,", "'policy': 'SCHED_IDLE',");
    let run = world().run(&tasks);
    run.is("without", run.at_step("high", 1), [us(10_100)]);
    let run = world().run_inheriting(&tasks);
    run.is("with", run.at_step("high", 1), [us(1_100)]);
    run.is("low is low again", run.exit("low"), us(10_900));
}

#[test]
fn fair_waiters_lend_nothing() {
    let tasks = INVERSION.replace("'policy': 'SCHED_FIFO', 'priority': 9", "'priority': -20");
    let (with, without) = (world().run_inheriting(&tasks), world().run(&tasks));
    with.is("events", &with.events, &without.events);
}

/// `low` holds a. `second` wants a and holds b. `third` wants b and holds c.
const CHAIN: &str = "
    'low': {'policy': 'SCHED_FIFO', 'priority': 1, 'loop': 1,
            'lock': 'a', 'run': 1000, 'unlock': 'a', 'run1': 1},
    'second': {'policy': 'SCHED_FIFO', 'priority': 2, 'delay': 100, 'loop': 1,
               'lock': 'b', 'lock1': 'a', 'run': 100, 'unlock': 'a', 'unlock1': 'b', 'run1': 1},
    'third': {'policy': 'SCHED_FIFO', 'priority': 3, 'delay': 200, 'loop': 1,
              'lock': 'c', 'lock1': 'b', 'run': 100, 'unlock': 'b', 'unlock1': 'c', 'run1': 1},
    'high': {'policy': 'SCHED_FIFO', 'priority': 9, 'delay': 300, 'loop': 1,
             'lock': 'c', 'run': 100, 'unlock': 'c'},
    'medium': {'policy': 'SCHED_FIFO', 'priority': 5, 'delay': 400, 'loop': 1, 'run': 5000}";

#[test]
fn a_priority_is_inherited_through_a_chain() {
    let run = world().run_inheriting(CHAIN);
    run.is("low", run.stretches("low")[0], on(0, 0, 1_000));
    run.is("second", run.at_step("second", 2), [us(1_000)]);
    run.is("third", run.at_step("third", 2), [us(1_100)]);
    run.is("high", run.at_step("high", 1), [us(1_200)]);
    run.is("then medium", run.stretches("medium"), [on(0, 1_300, 6_300)]);
    run.is("all are themselves again", ["third", "second", "low"].map(|name| run.exit(name)), {
        [6_301, 6_302, 6_303].map(us)
    });
    let run = world().run(CHAIN);
    run.is("without, the medium task decides", run.at_step("high", 1), [us(6_200)]);
}

#[test]
fn a_boost_is_the_best_of_those_that_are_left() {
    let run = world().run_inheriting(
        "'low': {'policy': 'SCHED_FIFO', 'priority': 1, 'loop': 1,
                 'lock': 'a', 'lock1': 'b', 'run': 500, 'unlock': 'a', 'run1': 500,
                 'unlock1': 'b', 'run2': 500},
         'five': {'policy': 'SCHED_FIFO', 'priority': 5, 'delay': 100, 'loop': 1,
                  'lock': 'b', 'run': 10, 'unlock': 'b'},
         'nine': {'policy': 'SCHED_FIFO', 'priority': 9, 'delay': 200, 'loop': 1,
                  'lock': 'a', 'run': 10, 'unlock': 'a'},
         'seven': {'policy': 'SCHED_FIFO', 'priority': 7, 'delay': 300, 'loop': 1, 'run': 100},
         'three': {'policy': 'SCHED_FIFO', 'priority': 3, 'delay': 300, 'loop': 1, 'run': 100}",
    );
    run.is("as 9 until it gives a back", run.stretches("low")[0], on(0, 0, 500));
    run.is("nine", run.at_step("nine", 1), [us(500)]);
    run.is("seven beats 5", run.stretches("seven"), [on(0, 510, 610)]);
    run.is("as 5 until it gives b back", run.stretches("low")[1], on(0, 610, 1_110));
    run.is("three", run.stretches("three"), [on(0, 1_120, 1_220)]);
    run.is("as 1", run.stretches("low")[2], on(0, 1_220, 1_720));
}

/// Runs an owner that uses more than the budget of real-time tasks.
fn hold_long(world: World) -> Run {
    world.run_inheriting(
        "'low': {'loop': 1, 'lock': 'm', 'run': 2000000, 'unlock': 'm', 'run1': 400000},
         'high': {'policy': 'SCHED_FIFO', 'delay': 1000, 'loop': 1, 'lock': 'm', 'run': 1000},
         'fair': {'delay': 2000, 'loop': 1, 'run': 400000}",
    )
}

#[test]
fn who_inherits_a_priority_is_not_throttled() {
    let run = hold_long(world());
    run.is("it goes through", run.at_step("low", 2), [us(2_000_000)]);
    run.holds(run.start("fair") >= us(2_000_000), "no other task runs meanwhile");
}

#[test]
fn what_was_used_while_boosted_counts_afterwards() {
    let run = hold_long(world());
    // Of the 2 s that began at 1 ms, 1.9 s are the budget. The rest is missing from the third second.
    let high = run.at_step("high", 1)[0];
    run.holds((us(2_001_000)..us(2_002_000)).contains(&high), "high waits for the third period");
    let told = run.times(|event| matches!(event.what, What::Throttled { .. }));
    run.is("from the end of the boost on, as reported", told, [us(2_000_000)]);
}
