//! Timers with slack, on an idle CPU and on a busy one.

use crate::rig::{Run, ms, us, world};
use runyard_engine::event::What;
use runyard_engine::time::Time;

/// Returns the times of timers that the regular walk would have left, and the times of all timers.
fn expiries(run: &Run) -> (Vec<Time>, Vec<Time>) {
    let of = |greedy| run.times(|event| event.what == What::TimerExpired { greedy });
    let (greedy, mut all) = (of(true), of(false));
    all.extend(&greedy);
    all.sort_unstable();
    (greedy, all)
}

/// Three timers. That of `a` is open from 5 ms to 25 ms. It lies behind the exact timers of `b` at 10 ms and of `c` at
/// 20 ms, and the latter is not open then.
const HIDDEN: &str = "'a': {'timer_slack': 20000, 'loop': 1, 'sleep': 5000, 'run': 1},
     'b': {'timer_slack': 0, 'loop': 1, 'sleep': 10000, 'run': 1},
     'c': {'timer_slack': 0, 'loop': 1, 'sleep': 20000, 'run': 1}";

#[test]
fn an_idle_cpu_runs_what_is_open_behind_what_is_not() {
    let run = world().run(HIDDEN);
    run.is("a with b", expiries(&run), (vec![ms(10)], vec![ms(10), ms(10), ms(20)]));
    let run = world().features("NO_GREEDY_TIMERS").run(HIDDEN);
    run.is("a with c", expiries(&run), (vec![], vec![ms(10), ms(20), ms(20)]));
}

#[test]
fn a_busy_cpu_walks_regularly() {
    let run = world().run(&format!("'hog': {{'delay': 1, 'loop': 1, 'run': 30000}}, {HIDDEN}"));
    run.is("behind the tick", expiries(&run), (vec![], vec![ms(10), ms(20), ms(25)]));
}

#[test]
fn a_cpu_runs_what_is_open_before_it_goes_idle() {
    let run = |features: &str| {
        let tasks = "'other': {'timer_slack': 3000, 'loop': 1, 'sleep': 2000, 'run': 10},
             'busy': {'timer_slack': 0, 'delay': 1, 'loop': 1, 'run': 4000, 'sleep': 10000}";
        let machine = "'machine': {'cpus': 1, 'tick_hz': 100}";
        world().features(features).run_text(&format!("{{{machine}, 'tasks': {{{tasks}}}}}"))
    };
    let expired = expiries(&run(""));
    run("").is("when busy sleeps", expired, (vec![us(4_001)], vec![us(4_001), us(14_001)]));
    let expired = expiries(&run("NO_GREEDY_TIMERS"));
    run("").is("in an interrupt of its own", expired, (vec![], vec![ms(5), us(14_001)]));
}

#[test]
fn an_exact_timer_is_never_postponed() {
    let exact = "'exact': {'policy': 'SCHED_FIFO', 'loop': 20, 'sleep': 1700, 'run': 1}";
    let lax = "'lax': {'instance': 8, 'timer_slack': 9000, 'loop': 9, 'run': 3, 'sleep': 1000}";
    let alone = world().cpus(2).run(exact).at_step("exact", 1);
    let beside = world().cpus(2).run(&format!("{exact}, {lax}"));
    beside.holds(expiries(&beside).0.len() > 10, "there is much to run greedily");
    beside.is("exact as alone", beside.at_step("exact", 1), alone);
}

#[test]
fn a_child_has_the_slack_of_its_parent() {
    let run = world().run(
        "'parent': {'timer_slack': 700, 'loop': 1, 'fork': 'child'},
         'child': {'instance': 0, 'loop': 1, 'sleep': 1000, 'run': 1}",
    );
    run.is("its window ends after 700 us", expiries(&run).1, [us(1_700)]);
}

/// Work of 15 ms for each period of 10 ms. Each of 65 rounds of the relative timer begins half a period late.
#[test]
fn requests_that_a_late_task_leaves_out_are_told() {
    let lines = |tasks: &str| world().millis(1_000).run(tasks).outcome.left.lines;
    let client = |rest: &str| {
        format!("'client': {{'timer': {{'ref': 'unique', 'period': 10000{rest}}}, 'run': 15000}}")
    };
    let told = lines(&client(""));
    let begin = "coordinated omission: client came too late to its timer, so 32 of its requests are missing; ";
    assert!(told.len() == 1 && told[0].starts_with(begin), "{told:?}");
    assert!(lines(&client(", 'mode': 'absolute'")).is_empty());
    assert!(
        lines("'client': {'timer': {'ref': 'unique', 'period': 10000}, 'run': 5000}").is_empty()
    );
}
