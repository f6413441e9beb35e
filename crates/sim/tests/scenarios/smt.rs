//! Hardware threads that share a core.

use crate::rig::world;
use runyard_engine::time::{Nanos, Time};

/// Returns the end of a run without costs in which a task wants 60 ms on a thread of a core, beside these others.
fn end(machine: &str, others: &str) -> Time {
    let costs = "'context_switch_ns': 0, 'migration_ns': 0, 'ipi_ns': 0, 'wakeup_ns': 0, 'timer_interrupt_ns': 0";
    let text = format!(
        "{{'machine': {{'costs': {{{costs}}}, {machine}}}, 'tasks': {{
         'task': {{'cpus': [0], 'loop': 1, 'run': 60000}} {others}}}}}"
    );
    world().run_text(&text).outcome.end
}

fn millis(millis: u64) -> Time {
    Time::ZERO + Nanos::from_millis(millis)
}

#[test]
fn two_busy_threads_have_a_little_more_than_a_core() {
    let beside = ", 'other': {'cpus': [1], 'loop': 1, 'run': 60000}";
    let shared = "'topology': '1x1x2', 'smt': {'busy_speed': 0.6}";
    assert_eq!(end(shared, ""), millis(60));
    assert_eq!(end(shared, beside), millis(100), "60 / 0.6");
    assert_eq!(end("'topology': '1x1x2', 'smt': {}", beside), millis(100), "the default");
    assert_eq!(end("'topology': '1x1x2'", beside), millis(60), "nothing is shared");
    assert_eq!(end("'topology': '1x2x1'", beside), millis(60), "two cores");
}

#[test]
fn a_thread_is_slow_for_as_long_as_a_sibling_is_busy() {
    // 30 ms alone; 20 ms in which the other task does its 12 ms and this task does 12 ms; 18 ms alone.
    let other =
        ", 'other': {'delay': 30000, 'timer_slack': 0, 'cpus': [1], 'loop': 1, 'run': 12000}";
    assert_eq!(end("'topology': '1x1x2', 'smt': {'busy_speed': 0.6}", other), millis(68));
    // Of the 30 ms that are left, the task does 12 ms at a speed of 0.7 and 18 ms at full speed. The run ends at the
    // first nanosecond at which all is done.
    let ends = end("'topology': '1x1x2', 'smt': {'busy_speed': 0.7}", other);
    assert_eq!(ends, Time::ZERO + Nanos(30_000_000 + 17_142_858 + 18_000_000));
}

#[test]
fn threads_of_four_share_by_the_square() {
    let others = ", 'others': {'instance': 3, 'cpus': [1, 2, 3], 'loop': 1, 'run': 60000}";
    let ends = end("'topology': '1x1x4', 'smt': {'busy_speed': 0.5}", others);
    assert_eq!(ends, millis(240), "60 / 0.25");
}
