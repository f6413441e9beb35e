//! The preemption models of the kernel: where a task in a system call gives way, and to whom.

use crate::rig::{Run, World, us, world};
use runyard_engine::time::{Nanos, Time};
use runyard_workload::scenario::{Costs, Preemption, SystemCalls};

/// A machine of this model, on which nothing takes time but the tasks' own work.
fn of(model: Preemption, cpus: usize) -> World {
    world().cpus(cpus).set(&format!("machine.preemption=\"{model}\""))
}

/// The starts of `task`, which comes 3.25 ms after the start beside a task in a system call from 1 ms to 6 ms, under
/// each model. The CPU ticks each millisecond.
fn starts_beside_a_call(task: &str, starts: [u64; 4]) {
    for (model, start) in Preemption::ALL.into_iter().zip(starts) {
        let run = of(model, 1).run(&format!(
            "'calls': {{'policy': 'SCHED_IDLE', 'loop': 1, 'run': 1000, 'kernel': 5000, 'run1': 1000}},
             'comes': {{{task}, 'loop': 1, 'run': 100}}"
        ));
        run.is(model.name(), run.start("comes"), us(start));
        run.is("the call", run.ran("calls"), Nanos::from_millis(7));
    }
}

#[test]
fn a_real_time_task_waits_for_a_system_call_as_the_model_says() {
    starts_beside_a_call("'policy': 'SCHED_FIFO', 'delay': 3250", [6_000, 3_300, 3_250, 3_250]);
}

#[test]
fn a_fair_task_also_waits_for_the_tick_under_lazy_preemption() {
    starts_beside_a_call("'delay': 3250", [6_000, 3_300, 4_000, 3_250]);
}

#[test]
fn a_timer_of_the_own_cpu_is_no_other_case() {
    for (model, start) in Preemption::ALL.into_iter().zip([6_000, 3_300, 4_000, 3_250]) {
        let run = of(model, 1).run(
            "'comes': {'loop': 1, 'timer_slack': 0, 'sleep': 3250, 'run': 100},
             'calls': {'policy': 'SCHED_IDLE', 'delay': 1000, 'loop': 1, 'kernel': 5000}",
        );
        run.is(model.name(), run.stretches("comes").last().unwrap().from, us(start));
    }
}

/// The start of `woken` on CPU 0, where `beside` runs. A task on CPU 1 wakes it after 3.25 ms.
fn start_of(model: Preemption, woken: &str, beside: &str) -> (Time, Run) {
    let run = of(model, 2).run(&format!(
        "'woken': {{{woken} 'cpus': [0], 'loop': 1, 'sem_wait': 's', 'run': 100}},
         'waker': {{'cpus': [1], 'loop': 1, 'run': 3250, 'sem_post': 's', 'run1': 5000}}{beside}"
    ));
    (run.stretches("woken").last().unwrap().from, run)
}

const HOG: &str = ", 'hog': {'policy': 'SCHED_IDLE', 'cpus': [0], 'loop': 1, 'run': 9000}";

#[test]
fn a_remote_fair_wakeup_waits_for_the_tick_under_lazy_preemption_and_under_no_other_model() {
    for model in Preemption::ALL {
        let (start, run) = start_of(model, "", HOG);
        let waits = model == Preemption::Lazy;
        run.is(model.name(), start, us(if waits { 4_000 } else { 3_250 }));
    }
}

#[test]
fn a_real_time_task_and_an_idle_cpu_do_not_wait() {
    let (rt, run) = start_of(Preemption::Lazy, "'policy': 'SCHED_FIFO',", HOG);
    run.is("a real-time task", rt, us(3_250));
    let (alone, run) = start_of(Preemption::Lazy, "", "");
    run.is("an idle CPU", alone, us(3_250));
}

#[test]
fn a_lazy_request_is_noticed_at_a_system_call_and_not_between_two_runs() {
    let hog = |then: &str| {
        format!(", 'hog': {{'policy': 'SCHED_IDLE', 'cpus': [0], 'loop': 1, 'run': 3500, {then}}}")
    };
    let send = hog("'send': {'ref': 'p', 'bytes': 1}, 'run1': 5000");
    let (start, run) = start_of(Preemption::Lazy, "", &send);
    run.is("a system call", start, us(3_500));
    let call = hog("'kernel': 200, 'run1': 5000");
    let (start, run) = start_of(Preemption::Lazy, "", &call);
    run.is("a longer one", start, us(3_700));
    let (start, run) = start_of(Preemption::Lazy, "", &hog("'run1': 5000"));
    run.is("two runs", start, us(4_000));
    let (start, run) =
        start_of(Preemption::Lazy, "", &hog("'lock': 'm', 'unlock': 'm', 'run1': 9"));
    run.is("a free mutex, and the end", start, us(3_509));
}

#[test]
fn a_call_that_blocks_does_so_before_its_task_gives_way() {
    for (model, start) in Preemption::ALL.into_iter().zip([1_000, 500, 500, 500]) {
        // Half of it comes before the sleep.
        let system_calls = SystemCalls { sleep: Nanos::from_millis(2), ..SystemCalls::default() };
        let run = of(model, 1).costs(Costs { system_calls, ..Costs::FREE }).run(
            "'a': {'loop': 1, 'sleep': 1000},
             'rt': {'policy': 'SCHED_FIFO', 'delay': 500, 'loop': 1, 'run': 300}",
        );
        run.is(model.name(), run.start("rt"), us(start));
        let stretches = if model == Preemption::None { 2 } else { 3 };
        run.is(model.name(), run.stretches("a").len(), stretches);
        run.is("its sleep", run.ran("a"), Nanos::from_millis(2));
    }
}
