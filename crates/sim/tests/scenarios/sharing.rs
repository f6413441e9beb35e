//! The objects that tasks share: mutexes, conditions, barriers, semaphores, suspensions and pipes. There are enough
//! CPUs for all tasks, so that a task waits only for other tasks.

use crate::rig::{Run, on, us, world};

/// Runs `tasks` with mutexes that hand over; `barging` tests mutexes that barge.
fn run(tasks: &str) -> Run {
    world().cpus(8).hand_over().run(tasks)
}

#[test]
fn a_mutex_is_held_by_one_at_a_time_in_order_of_importance_then_arrival() {
    let run = run("'first': {'loop': 1, 'lock': 'm', 'run': 1000, 'unlock': 'm', 'run1': 1},
         'second': {'delay': 100, 'loop': 1, 'lock': 'm', 'run': 100, 'unlock': 'm'},
         'third': {'delay': 200, 'loop': 1, 'lock': 'm', 'run': 100, 'unlock': 'm'},
         'less': {'policy': 'SCHED_RR', 'priority': 4, 'delay': 300, 'loop': 1,
                  'lock': 'm', 'run': 100, 'unlock': 'm'},
         'more': {'policy': 'SCHED_FIFO', 'priority': 5, 'delay': 400, 'loop': 1,
                  'lock': 'm', 'run': 100, 'unlock': 'm'}");
    let holds = |name| (run.at_step(name, 1)[0], run.at_step(name, 2)[0]);
    run.is("first", holds("first"), (us(0), us(1_000)));
    run.is("more", holds("more"), (us(1_000), us(1_100)));
    run.is("less", holds("less"), (us(1_100), us(1_200)));
    run.is("second", holds("second"), (us(1_200), us(1_300)));
    run.is("third", holds("third"), (us(1_300), us(1_400)));
    run.is("the task that releases it goes on", run.exit("first"), us(1_001));
}

#[test]
fn nobody_barges_in_on_who_was_given_the_mutex() {
    let run = run("'a': {'loop': 2, 'lock': 'm', 'run': 500, 'unlock': 'm'},
         'b': {'delay': 100, 'loop': 1, 'lock': 'm', 'run': 500, 'unlock': 'm'}");
    run.is("a", run.stretches("a"), [on(0, 0, 500), on(0, 1_000, 1_500)]);
    run.is("b", run.at_step("b", 1), [us(500)]);
}

#[test]
fn giving_back_what_is_anothers_does_nothing() {
    let run = run(
        "'a': {'loop': 1, 'lock': 'm', 'run': 500, 'unlock': 'm'},
         'thief': {'delay': 100, 'loop': 1, 'unlock': 'm', 'lock': 'm', 'run': 10, 'unlock1': 'm'}",
    );
    run.is("the thief", run.at_step("thief", 2), [us(500)]);
}

#[test]
fn who_ends_with_a_mutex_keeps_it() {
    let run = run("'a': {'loop': 1, 'lock': 'm', 'run': 500},
         'b': {'delay': 100, 'loop': 1, 'lock': 'm', 'run': 10}");
    run.is("b", run.at_step("b", 1), []);
    run.is("end", run.end(), us(500));
}

#[test]
fn a_signal_wakes_one_waiter_and_a_broadcast_all() {
    let wait = "'lock': 'm', 'wait': {'ref': 'c', 'mutex': 'm'}, 'run': 100, 'unlock': 'm'";
    let run = run(&format!(
        "'first': {{'delay': 10, 'loop': 1, {wait}}},
         'second': {{'delay': 20, 'loop': 1, {wait}}},
         'third': {{'delay': 30, 'loop': 1, {wait}}},
         'rt': {{'policy': 'SCHED_FIFO', 'delay': 40, 'loop': 1, {wait}}},
         'signaller': {{'loop': 1, 'run': 1000, 'signal': 'c', 'run1': 1000, 'signal1': 'c',
                        'run2': 1000, 'broad': 'c'}}"
    ));
    let woken = |name| run.at_step(name, 2)[0];
    run.is("the important one first", woken("rt"), us(1_000));
    run.is("then the first", woken("first"), us(2_000));
    run.is("then all", woken("second"), us(3_000));
    run.is("one after the other, as they hold the mutex", woken("third"), us(3_100));
}

#[test]
fn a_signal_that_nobody_waits_for_is_lost() {
    let run = run("'early': {'loop': 1, 'signal': 'c', 'broad': 'c'},
         'late': {'delay': 100, 'loop': 1,
                  'lock': 'm', 'wait': {'ref': 'c', 'mutex': 'm'}, 'run': 1}");
    run.is("late", run.at_step("late", 2), []);
    run.is("nothing is left to hope for", run.end(), us(100));
}

#[test]
fn a_waiter_gives_its_mutex_back_and_goes_on_with_it() {
    let run = run("'waiter': {'loop': 1, 'lock': 'm', 'wait': {'ref': 'c', 'mutex': 'm'},
                    'run': 100, 'unlock': 'm'},
         'signaller': {'delay': 200, 'loop': 1, 'lock': 'm', 'run': 300, 'signal': 'c',
                       'run1': 400, 'unlock': 'm'},
         'other': {'delay': 300, 'loop': 1, 'lock': 'm', 'run': 50, 'unlock': 'm'}");
    run.is("the mutex is free while it is waited for", run.at_step("signaller", 1), [us(200)]);
    run.is("a waiter for the mutex comes first", run.at_step("other", 1), [us(900)]);
    run.is("the signalled one needs the mutex", run.at_step("waiter", 2), [us(950)]);
}

#[test]
fn sync_is_a_signal_and_a_wait() {
    let player = "'loop': 1, 'phases': {
        'begin': {'lock': 'm'},
        'round': {'loop': 3, 'run': 100, 'sync': {'ref': 'c', 'mutex': 'm'}},
    }";
    let run = run(&format!("'a': {{{player}}}, 'b': {{'delay': 10, {player}}}"));
    let runs = |name| run.at_step_of(name, 1, 0);
    run.is("a", runs("a"), [0, 200, 400].map(us));
    run.is("b", runs("b"), [100, 300, 500].map(us));
    run.is("a is the last to be signalled", run.exit("a"), us(600));
    run.is("end", run.end(), us(600));
}

#[test]
fn a_barrier_opens_for_all_when_the_last_arrives() {
    let run = run("'quick': {'instance': 2, 'loop': 2, 'run': 100, 'barrier': 'b', 'run1': 50},
         'slow': {'loop': 2, 'run': 300, 'barrier': 'b', 'run1': 50}");
    for name in ["quick-0", "quick-1", "slow"] {
        run.is(name, run.at_step(name, 2), [us(300), us(650)]);
    }
    let run = world().run("'alone': {'loop': 2, 'run': 100, 'barrier': 'b'}");
    run.is("with one user it is open", run.end(), us(200));
}

#[test]
fn a_semaphore_remembers() {
    let run = run(
        "'poster': {'loop': 1, 'sem_post': 's', 'sem_post1': 's', 'run': 1000, 'sem_post2': 's',
                    'run1': 1000, 'sem_post3': 's'},
         'taker': {'delay': 100, 'loop': 1, 'sem_wait': 's', 'sem_wait1': 's', 'run': 10,
                   'sem_wait2': 's', 'run1': 10},
         'rt': {'policy': 'SCHED_FIFO', 'delay': 200, 'loop': 1, 'sem_wait': 's', 'run': 10}",
    );
    run.is("two posts", run.at_step("taker", 2), [us(100)]);
    run.is("the third for the important one", run.at_step("rt", 1), [us(1_000)]);
    run.is("the fourth", run.at_step("taker", 4), [us(2_000)]);
}

#[test]
fn resume_wakes_all_instances_and_is_lost_if_nobody_waits() {
    let run = run("'sleeper': {'instance': 3, 'loop': 2, 'suspend': 'any', 'run': 100},
         'early': {'policy': 'SCHED_FIFO', 'delay': 500, 'loop': 1,
                   'resume': 'sleeper', 'run': 50, 'resume1': 'sleeper', 'resume2': 'nobody'},
         'late': {'delay': 900, 'loop': 1, 'resume': 'sleeper'}");
    for nth in 0..3 {
        let name = format!("sleeper-{nth}");
        run.is(&name, run.at_step(&name, 1), [us(500), us(900)]);
        run.is(&name, run.exit(&name), us(1_000));
    }
}

#[test]
fn a_sender_blocks_while_the_pipe_is_full() {
    let run =
        run("'sender': {'loop': 1, 'send': {'ref': 'p', 'bytes': 25, 'capacity': 10}, 'run': 10,
                    'send1': {'ref': 'p', 'bytes': 10}, 'run1': 10},
         'receiver': {'loop': 1, 'run': 1000, 'recv': {'ref': 'p', 'bytes': 5}, 'run1': 1000,
                      'recv1': {'ref': 'p', 'bytes': 20}, 'run2': 10}");
    run.is("5 bytes are there", run.at_step("receiver", 2), [us(1_000)]);
    run.is("all bytes are in", run.at_step("sender", 1), [us(2_000)]);
    run.is("20 bytes are there", run.at_step("receiver", 4), [us(2_000)]);
    run.is("10 bytes fit", run.at_step("sender", 3), [us(2_010)]);
}

#[test]
fn receivers_wait_for_all_their_bytes_in_order() {
    let run = run("'greedy': {'loop': 1, 'recv': {'ref': 'p', 'bytes': 10}, 'run': 1},
         'modest': {'delay': 100, 'loop': 1, 'recv': {'ref': 'p', 'bytes': 1}, 'run': 1},
         'sender': {'delay': 200, 'loop': 3, 'send': {'ref': 'p', 'bytes': 5}, 'run': 100}");
    run.is("greedy", run.at_step("greedy", 1), [us(300)]);
    run.is("modest does not overtake", run.at_step("modest", 1), [us(400)]);
    run.is("the sender never waited", run.exit("sender"), us(500));
}

#[test]
fn a_request_may_be_larger_than_the_pipe() {
    let run =
        run("'sender': {'loop': 1, 'send': {'ref': 'p', 'bytes': 1000, 'capacity': 1}, 'run': 1},
         'receiver': {'delay': 50, 'loop': 1, 'recv': {'ref': 'p', 'bytes': 1000}, 'run': 1}");
    run.is(
        "both",
        (run.at_step("sender", 1), run.at_step("receiver", 1)),
        (vec![us(50)], vec![us(50)]),
    );
}
