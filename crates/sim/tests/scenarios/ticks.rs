//! Interrupts: the CPUs with a tick and those without.

use crate::rig::{ms, us, world};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::time::{Nanos, Time};

#[test]
fn a_busy_cpu_ticks_and_an_idle_one_does_not() {
    let run = world().cpus(2).millis(100).run("'a': {'cpus': [0], 'run': 1000}");
    let mut ticks = run.times(|event| event.what == What::TimerInterrupt);
    run.is("of CPU 1", run.interrupts(1), 0);
    ticks.retain(|&at| at < ms(100));
    run.is("of CPU 0", ticks, (1..100).map(ms).collect::<Vec<_>>());
}

#[test]
fn a_cpu_that_goes_idle_ticks_no_more() {
    let run = world()
        .millis(50)
        .run("'a': {'loop': 1, 'run': 10500}, 'b': {'delay': 20300, 'loop': 1, 'run': 1500}");
    let ticks: Vec<_> = (1..=10).chain([21]).map(ms).collect();
    run.is("ticks", run.times(|event| event.what == What::TimerInterrupt), ticks);
}

#[test]
fn the_rate_is_the_machines() {
    let run = world()
        .millis(100)
        .run_text("{'machine': {'cpus': 1, 'tick_hz': 250}, 'tasks': {'a': {'run': 1000}}}");
    let mut ticks = run.times(|event| event.what == What::TimerInterrupt);
    ticks.retain(|&at| at < ms(100));
    run.is("ticks", ticks, (1..25).map(|n| ms(4 * n)).collect::<Vec<_>>());
}

#[test]
fn an_idle_cpu_wakes_up_for_its_timers_only() {
    let run = world()
        .cpus(3)
        .millis(100)
        .run("'a': {'cpus': [1], 'timer_slack': 0, 'sleep': 10000, 'run': 100}");
    let starts = run.at_step("a", 1);
    let interrupts = run.times(|event| event.cpu == CpuId(1) && event.what == What::TimerInterrupt);
    run.is("one for each sleep", interrupts, starts);
    let counts = run.totals().counts();
    run.is("armed", counts.timers_armed, 10);
    run.is("expired", counts.timers_expired, 9);
    run.is("counted", counts.timer_interrupts, 9);
    run.is("of others", (run.interrupts(0), run.interrupts(2)), (0, 0));
}

#[test]
fn timers_with_slack_share_an_interrupt() {
    let run = world().run(
        "'a': {'instance': 20, 'timer_slack': 1000, 'loop': 1,
               'sleep': {'uniform': [10000, 10900]}, 'run': 1}",
    );
    let counts = run.totals().counts();
    run.is("expired", counts.timers_expired, 20);
    let late = us(11_950);
    let woken = run.times(|event| matches!(event.what, What::TimerExpired { .. }));
    run.holds(woken.iter().all(|&at| (ms(10)..late).contains(&at)), "within their windows");
    run.holds(counts.timer_interrupts < 10, "by few interrupts");
}

#[test]
fn a_period_that_is_over_just_now_arms_no_timer() {
    let run = world().run(
        "'a': {'policy': 'SCHED_FIFO', 'loop': 5,
               'timer': {'ref': 'unique', 'period': 1000}, 'run': 1000}",
    );
    run.is("the first", run.totals().counts().timers_armed, 1);
    run.is("the others follow at once", run.exit("a"), ms(6));
}

#[test]
fn the_first_instruction_and_the_last_are_at_the_ends() {
    let run = world().cpus(2).run("'a': {'loop': 1, 'run': 7}");
    let totals = run.totals();
    let busy = [0, 1].map(|cpu| totals.cpu(CpuId(cpu)).busy());
    run.is("a CPU is busy and one is not", busy.iter().max(), Some(&Nanos(7_000)));
    run.is("both for as long as the run", run.end(), Time(7_000));
}
