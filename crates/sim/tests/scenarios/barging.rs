//! Mutexes like those of the C library: the first task to arrive takes a free mutex, and one waiter is woken to try.

use crate::rig::{FREE, Run, on, us, world};
use runyard_engine::time::Nanos;
use runyard_workload::scenario::Costs;

/// Runs `tasks` with enough CPUs for all. A task that is woken or begins executes 2 us later.
fn run(tasks: &str) -> Run {
    world().cpus(8).costs(Costs { ipi: Nanos(2_000), ..FREE }).run(tasks)
}

#[test]
fn who_is_there_has_it_before_who_is_woken_for_it() {
    let run = run("'a': {'loop': 2, 'lock': 'm', 'run': 500, 'unlock': 'm'},
         'b': {'delay': 100, 'loop': 1, 'lock': 'm', 'run': 500, 'unlock': 'm'}");
    run.is("a", run.stretches("a"), [on(0, 2, 1_002)]);
    run.is("b", run.at_step("b", 1), [us(1_004)]);
    run.is("b began, was woken in vain, and was woken", run.account("b").wakeups, 3);
}

#[test]
fn who_finds_it_taken_waits_at_the_end_and_nobody_is_woken_meanwhile() {
    let run = run("'a': {'loop': 3, 'lock': 'm', 'run': 500, 'unlock': 'm'},
         'b': {'delay': 100, 'loop': 1, 'lock': 'm', 'run': 500, 'unlock': 'm'},
         'c': {'delay': 200, 'loop': 1, 'lock': 'm', 'run': 500, 'unlock': 'm'}");
    run.is("a", run.stretches("a"), [on(0, 2, 1_502)]);
    // At 0.5 ms b is woken, at 1 ms c, at 1.5 ms b.
    run.is("b", run.at_step("b", 1), [us(1_504)]);
    run.is("c", run.at_step("c", 1), [us(2_006)]);
    let wakeups = ["b", "c"].map(|name| run.account(name).wakeups);
    run.is("starts included", wakeups, [3, 3]);
}

/// The mutex is not contended until the woken task tries to take it.
#[test]
fn nobody_is_woken_while_somebody_is_on_the_way() {
    let run = run("'a': {'loop': 1, 'lock': 'm', 'run': 500, 'unlock': 'm',
                   'lock1': 'm', 'run1': 1, 'unlock1': 'm'},
         'b': {'delay': 100, 'loop': 1, 'lock': 'm', 'run': 500, 'unlock': 'm'},
         'c': {'delay': 200, 'loop': 1, 'lock': 'm', 'run': 500, 'unlock': 'm'}");
    run.is("a was faster", run.at_step("b", 1), [us(504)]);
    run.is("c began, and was woken by b", run.account("c").wakeups, 2);
    run.is("c", run.at_step("c", 1), [us(1_006)]);
}

#[test]
fn the_most_important_waiter_is_woken() {
    let run = run("'first': {'loop': 1, 'lock': 'm', 'run': 1000, 'unlock': 'm'},
         'second': {'delay': 100, 'loop': 1, 'lock': 'm', 'run': 100, 'unlock': 'm'},
         'rt': {'policy': 'SCHED_FIFO', 'delay': 400, 'loop': 1, 'lock': 'm', 'run': 100,
                'unlock': 'm'}");
    run.is("rt", run.at_step("rt", 1), [us(1_004)]);
    run.is("second", run.at_step("second", 1), [us(1_106)]);
}

#[test]
fn who_is_signalled_takes_the_mutex_like_anybody_else() {
    let run =
        run("'waiter': {'loop': 1, 'lock': 'm', 'wait': {'ref': 'c', 'mutex': 'm'}, 'run': 100,
                   'unlock': 'm'},
         'signaller': {'delay': 200, 'loop': 1, 'lock': 'm', 'run': 300, 'signal': 'c', 'run1': 400,
                       'unlock': 'm'},
         'other': {'delay': 300, 'loop': 1, 'lock': 'm', 'run': 50, 'unlock': 'm'}");
    run.is("it was there first", run.at_step("other", 1), [us(904)]);
    run.is("the signalled one came later", run.at_step("waiter", 2), [us(956)]);
}

#[test]
fn each_mutex_is_of_its_own_kind() {
    let tasks = |mutex: &str| {
        format!(
            "'a{mutex}': {{'loop': 2, 'lock': '{mutex}', 'run': 500, 'unlock': '{mutex}'}},
             'b{mutex}': {{'policy': 'SCHED_FIFO', 'delay': 100, 'loop': 1, 'lock': '{mutex}',
                           'run': 500, 'unlock': '{mutex}'}},"
        )
    };
    let text = format!(
        "{{'mutexes': {{'h': 'hand_over', 'i': 'inherit'}}, 'tasks': {{{}}}}}",
        ["x", "h", "i"].map(tasks).concat()
    );
    let run = world().cpus(8).costs(Costs { ipi: Nanos(2_000), ..FREE }).run_text(&text);
    run.is("it barges", run.at_step("bx", 1), [us(1_004)]);
    run.is("it hands over", run.at_step("bh", 1), [us(504)]);
    run.is("it inherits", run.at_step("bi", 1), [us(504)]);
}
