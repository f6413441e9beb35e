//! The costs of the machine's own work, and the places where they occur. Each cost has a distinct size, so that a sum
//! shows it.

use crate::rig::{FREE, Run, World, world};
use runyard_engine::event::What;
use runyard_engine::time::{Nanos, Time};
use runyard_workload::scenario::{Costs, SystemCalls};

const SWITCH: u64 = 100_000;
const MIGRATION: u64 = 20_000;
const IPI: u64 = 3_000;
const WAKEUP: u64 = 400;
const INTERRUPT: u64 = 50;

/// The costs that a machine has only if it declares them.
const LATENCY: u64 = 70_000;
const EXIT: u64 = 600_000;

const MS: u64 = 1_000_000;

fn dear(cpus: usize) -> World {
    world().cpus(cpus).costs(Costs {
        context_switch: Nanos(SWITCH),
        migration: Nanos(MIGRATION),
        ipi: Nanos(IPI),
        wakeup: Nanos(WAKEUP),
        timer_interrupt: Nanos(INTERRUPT),
        ..Costs::FREE
    })
}

/// Returns the nanoseconds at which the task began and stopped executing, for each stretch.
fn spans(run: &Run, name: &str) -> Vec<(u16, u64, u64)> {
    run.stretches(name).into_iter().map(|one| (one.cpu, one.from.0, one.to.0)).collect()
}

#[test]
fn a_task_starts_after_an_interrupt_and_a_switch() {
    let run = dear(1).run("'a': {'loop': 1, 'run': 500}");
    let start = IPI + SWITCH;
    run.is("a", spans(&run, "a"), [(0, start, start + MS / 2)]);
    run.is("it costs nothing to go idle", run.end(), Time(start + MS / 2));
    let cpu = run.totals().cpu(runyard_engine::cpu::CpuId(0));
    run.is("idle until the interrupt", (cpu.idle, cpu.overhead), (Nanos(IPI), Nanos(SWITCH)));
}

#[test]
fn a_wake_up_elsewhere_costs_the_waker_its_part_and_the_woken_an_interrupt_and_a_switch() {
    let run = dear(2).run(
        "'waker': {'cpus': [0], 'loop': 1, 'run': 500, 'sem_post': 's', 'run1': 100},
         'woken': {'cpus': [1], 'loop': 1, 'sem_wait': 's', 'run': 100}",
    );
    let post = IPI + SWITCH + MS / 2;
    run.is("post", run.at_step("waker", 1), [Time(post)]);
    run.is("the waker goes on", run.at_step("waker", 2), [Time(post + WAKEUP)]);
    run.is("the woken", run.at_step("woken", 1), [Time(post + IPI + SWITCH)]);
    let latency = run.account("woken").wakeup_latency.max();
    run.is("its latency", latency, Some(Nanos(IPI + SWITCH)));
}

#[test]
fn a_wake_up_on_the_own_cpu_needs_no_interrupt() {
    let run = dear(1).run(
        "'woken': {'policy': 'SCHED_FIFO', 'loop': 1, 'sem_wait': 's', 'run': 100},
         'waker': {'delay': 5000, 'loop': 1, 'run': 500, 'sem_post': 's', 'run1': 100}",
    );
    let post = 5 * MS + IPI + SWITCH + MS / 2;
    run.is("post", run.at_step("waker", 1), [Time(post)]);
    let start = post + WAKEUP + SWITCH;
    run.is("the woken", run.at_step("woken", 1), [Time(start)]);
    run.is("back again", run.at_step("waker", 2), [Time(start + MS / 10 + SWITCH)]);
}

#[test]
fn each_of_many_wake_ups_costs_the_waker_its_part() {
    let run = dear(4).run(
        "'waker': {'cpus': [0], 'loop': 1, 'run': 500, 'resume': 'woken', 'run1': 100},
         'woken': {'instance': 3, 'cpus': [1, 2, 3], 'loop': 1, 'suspend': '', 'run': 100}",
    );
    let post = IPI + SWITCH + MS / 2;
    run.is("three parts", run.at_step("waker", 2), [Time(post + 3 * WAKEUP)]);
    let names = ["woken-0", "woken-1", "woken-2"];
    let mut starts = names.map(|name| run.at_step(name, 1)[0].0);
    starts.sort_unstable();
    let after = |nth: u64| nth * WAKEUP + IPI + SWITCH;
    run.is("one after the other", starts, [0, 1, 2].map(|nth| post + after(nth)));
    let latest = names.map(|name| run.account(name).wakeup_latency.max()).into_iter().max();
    run.is("counted from the call", latest, Some(Some(Nanos(after(2)))));
}

#[test]
fn a_timer_costs_its_interrupt_and_the_wake_up() {
    let run =
        dear(1).run("'a': {'timer_slack': 0, 'loop': 1, 'run': 500, 'sleep': 1000, 'run1': 9}");
    let asleep = IPI + SWITCH + MS / 2;
    let woken = asleep + MS + INTERRUPT + WAKEUP + SWITCH;
    run.is("a", run.at_step("a", 2), [Time(woken)]);
    let overhead = run.totals().cpu(runyard_engine::cpu::CpuId(0)).overhead;
    run.is("overhead", overhead, Nanos(2 * SWITCH + INTERRUPT + WAKEUP));
}

/// Each level of groups has a cost of its own for fair tasks: the kernel queues and picks at each.
#[test]
fn a_fair_task_s_wake_up_costs_more_and_more_by_each_group_above_it() {
    let costs = Costs {
        wakeup: Nanos(WAKEUP),
        wakeup_fair: Nanos(30),
        wakeup_level: Nanos(7),
        ..Costs::FREE
    };
    for (group, levels) in [("/", 0), ("/a", 1), ("/a/b", 2)] {
        for (policy, dearer) in [("SCHED_OTHER", 30 + 7 * levels), ("SCHED_FIFO", 0)] {
            let told = |what: &str| format!("{what} of {policy} in {group}");
            let attr = format!("'policy': '{policy}', 'group': '{group}'");
            let run = world().cpus(2).costs(costs).run_text(&format!(
                "{{'groups': {{'/a': {{}}, '/a/b': {{}}}}, 'tasks': {{
                    'sleeper': {{{attr}, 'cpus': [1], 'timer_slack': 0, 'loop': 1, 'sleep': 5000, 'run': 9}},
                    'waker': {{'cpus': [0], 'loop': 1, 'run': 500, 'sem_post': 's', 'run1': 100}},
                    'woken': {{{attr}, 'cpus': [1], 'loop': 1, 'sem_wait': 's', 'run': 100}}}}}}"
            ));
            let cost = WAKEUP + dearer;
            run.is(&told("the timer"), run.at_step("sleeper", 1), [Time(5 * MS + cost)]);
            run.is(&told("the post"), run.at_step("waker", 2), [Time(MS / 2 + cost)]);
        }
    }
}

#[test]
fn a_timer_that_expires_on_a_busy_cpu_costs_the_task_that_runs_there() {
    let run = dear(2).run(
        "'sleeper': {'policy': 'SCHED_FIFO', 'loop': 1, 'cpus': [0], 'phases': {
            'p': {'sleep': 300, 'cpus': [0]}, 'q': {'run': 10}}},
         'hog': {'delay': 103, 'cpus': [0], 'loop': 1, 'run': 600}",
    );
    // The switch to the hog is requested while the CPU still switches from the sleeper, or after it.
    let fires = run.at_step_of("sleeper", 0, 0)[0].0 + 300_000;
    let start = fires + INTERRUPT + WAKEUP + SWITCH;
    run.is("the sleeper", spans(&run, "sleeper").last(), Some(&(0, start, start + 10_000)));
    run.is("the hog stops when the interrupt comes", spans(&run, "hog")[0].2, fires);
}

#[test]
fn a_tick_costs_its_interrupt() {
    let run = dear(1).run("'a': {'loop': 1, 'run': 10000}");
    run.is("ticks", run.interrupts(0), 10);
    run.is("end", run.end(), Time(IPI + SWITCH + 10 * MS + 10 * INTERRUPT));
}

#[test]
fn an_interrupt_within_a_switch_makes_it_longer() {
    let run = dear(1).run(
        "'other': {'policy': 'SCHED_FIFO', 'delay': 900, 'loop': 1, 'run': 10},
         'a': {'loop': 1, 'run': 2000}",
    );
    // The tick of 1 ms comes while the CPU switches to "other".
    let start = 900_000 + IPI + SWITCH + INTERRUPT;
    run.is("other", spans(&run, "other"), [(0, start, start + 10_000)]);
}

#[test]
fn a_task_that_changes_its_cpu_is_on_its_way_for_a_while() {
    let run = dear(2).run(
        "'a': {'cpus': [0], 'loop': 1, 'phases': {'p': {'run': 500}, 'q': {'cpus': [1], 'run': 200}}}",
    );
    let leaves = IPI + SWITCH + MS / 2;
    let start = leaves + MIGRATION + IPI + SWITCH;
    run.is("a", spans(&run, "a"), [(0, IPI + SWITCH, leaves), (1, start, start + MS / 5)]);
    run.is("migrations", run.account("a").migrations, 1);
}

#[test]
fn a_push_costs_a_migration_and_an_interrupt() {
    let run = dear(2).run(
        "'low': {'policy': 'SCHED_FIFO', 'priority': 1, 'cpus': [0], 'loop': 1, 'phases': {
            'p': {'run': 500}, 'q': {'cpus': [0, 1], 'run': 2000}}},
         'high': {'policy': 'SCHED_FIFO', 'priority': 2, 'cpus': [0], 'delay': 1500, 'loop': 1,
                  'run': 500}",
    );
    let preempted = MS + MS / 2 + IPI;
    run.is("low leaves", spans(&run, "low")[1].2, preempted);
    run.is("low comes", spans(&run, "low")[2].1, preempted + MIGRATION + IPI + SWITCH);
    run.is("high starts", spans(&run, "high")[0].1, preempted + SWITCH);
}

#[test]
fn a_task_wakes_up_where_it_is_important_enough_and_not_on_a_way_round() {
    let run = dear(2).run(
        "'rt': {'policy': 'SCHED_FIFO', 'priority': 5, 'cpus': [0], 'loop': 1, 'phases': {
            'there': {'run': 500}, 'wide': {'cpus': [0, 1], 'sleep': 2000, 'run': 100}}},
         'wall': {'policy': 'SCHED_FIFO', 'priority': 9, 'cpus': [0], 'delay': 1500, 'loop': 1,
                  'run': 3000},
         'normal': {'cpus': [1], 'loop': 1, 'run': 9000}",
    );
    let due = run.at_step_of("rt", 1, 0)[0] + Nanos(2 * MS);
    let start = due + Nanos(IPI + SWITCH);
    run.is("an interrupt and a switch", run.at_step_of("rt", 1, 1), [start]);
    run.is("on CPU 1", run.cpus_of("rt"), [0, 1]);
}

#[test]
fn a_fork_costs_a_wake_up() {
    let run = dear(1).run(
        "'a': {'policy': 'SCHED_FIFO', 'loop': 1, 'run': 500, 'fork': 'b', 'run1': 100},
         'b': {'instance': 0, 'loop': 1, 'run': 100}",
    );
    let fork = IPI + SWITCH + MS / 2;
    run.is("the parent", run.at_step("a", 2), [Time(fork + WAKEUP)]);
    run.is("the child", run.start("b-0000"), Time(fork + WAKEUP + MS / 10 + SWITCH));
}

#[test]
fn to_go_on_costs_nothing() {
    let run = dear(1).run("'a': {'loop': 9, 'run': 10, 'yield': ''}");
    run.is("a", spans(&run, "a"), [(0, IPI + SWITCH, IPI + SWITCH + 90_000)]);
}

#[test]
fn jitter_is_added_to_every_cost() {
    let jitter = Nanos(1_000);
    let costs = Costs { context_switch: Nanos(SWITCH), jitter, ..FREE };
    let run = world().costs(costs).run(
        "'a': {'policy': 'SCHED_FIFO', 'loop': 200, 'run': 10, 'yield': ''},
         'b': {'policy': 'SCHED_FIFO', 'loop': 200, 'run': 10, 'yield': ''}",
    );
    let mut switches = Vec::new();
    let mut since = None;
    for event in &run.events {
        match (event.what, since) {
            (What::Switch { next: Some(_), .. }, _) => since = Some(event.at),
            (What::Exec { .. }, Some(from)) => {
                switches.push(event.at.since(from).0);
                since = None;
            }
            (What::TimerInterrupt, _) => since = None,
            _ => {}
        }
    }
    run.holds(switches.len() > 300, "they take turns");
    let range = SWITCH..=SWITCH + jitter.0;
    run.holds(switches.iter().all(|span| range.contains(span)), "each is in its range");
    run.holds(switches.iter().any(|&span| span < SWITCH + 100), "some are short");
    run.holds(switches.iter().any(|&span| span > SWITCH + 900), "some are long");
}

/// Returns a machine with CPUs that sleep deeply and timers that interrupt late.
fn drowsy(cpus: usize) -> World {
    let (timer_latency, idle_exit) = (Nanos(LATENCY), Nanos(EXIT));
    world().cpus(cpus).costs(Costs { timer_latency, idle_exit, ..FREE })
}

#[test]
fn a_timer_interrupts_late_and_an_idle_cpu_wakes_up_first() {
    let alone = drowsy(1).run("'a': {'loop': 1, 'run': 500, 'sleep': 1000, 'run1': 0}");
    let slept = EXIT + MS / 2;
    let due = slept + MS + 50_000;
    alone.is("a", alone.at_step("a", 1), [Time(slept)]);
    alone.is("its CPU is idle", alone.at_step("a", 2), [Time(due + LATENCY + EXIT)]);
    let beside = drowsy(1).run(
        "'a': {'policy': 'SCHED_FIFO', 'loop': 1, 'run': 500, 'sleep': 1000, 'run1': 0},
         'hog': {'loop': 1, 'run': 20000}",
    );
    let slept = beside.at_step("a", 1)[0];
    let due = slept + Nanos(MS + LATENCY);
    beside.is("its CPU is busy", beside.at_step("a", 2), [due]);
}

#[test]
fn a_kick_of_an_idle_cpu_waits_until_that_is_awake() {
    let run = drowsy(2).run(
        "'waker': {'cpus': [0], 'loop': 1, 'run': 500, 'sem_post': 's', 'run1': 5000},
         'woken': {'cpus': [1], 'loop': 1, 'sem_wait': 's', 'run': 100}",
    );
    let post = run.at_step("waker", 1)[0];
    run.is("the woken", run.at_step("woken", 1), [post + Nanos(EXIT)]);
}

/// A machine on which only system calls take time.
fn calls(system_calls: SystemCalls) -> World {
    world().cpus(1).costs(Costs { system_calls, ..Costs::FREE })
}

/// Seen failing: all of it came before the sleep.
#[test]
fn a_sleep_takes_the_sleeper_s_own_time_half_before_it_and_half_after_it() {
    let run = calls(SystemCalls { sleep: Nanos(MS / 10), ..SystemCalls::default() })
        .run("'a': {'policy': 'SCHED_FIFO', 'loop': 2, 'run': 1000, 'sleep': 2000}");
    let (half, sleep) = (MS / 20, 2 * MS);
    let first = MS + half;
    let second = first + sleep + half + MS + half;
    let third = second + sleep;
    let all = [(0, 0, first), (0, first + sleep, second), (0, third, third + half)];
    run.is("a", spans(&run, "a"), all);
}

#[test]
fn a_lock_costs_only_who_waits_and_a_pipe_costs_both() {
    let (lock, send, receive) = (Nanos(MS / 10), Nanos(MS / 5), Nanos(MS / 4));
    let run = calls(SystemCalls { lock, send, receive, ..SystemCalls::default() }).run(
        "'free': {'loop': 1, 'lock': 'm', 'run': 1000, 'unlock': 'm'},
         'sender': {'delay': 10000, 'loop': 1, 'send': {'ref': 'p', 'bytes': 1}},
         'receiver': {'delay': 20000, 'loop': 1, 'recv': {'ref': 'p', 'bytes': 1}},
         'waiter': {'delay': 30000, 'loop': 1, 'sem_wait': 's'},
         'poster': {'delay': 40000, 'loop': 1, 'sem_post': 's', 'run': 1000}",
    );
    let times = [
        ("free", MS),
        ("sender", send.0),
        ("receiver", receive.0),
        ("waiter", lock.0),
        ("poster", MS),
    ];
    for (name, time) in times {
        let ran: u64 = spans(&run, name).iter().map(|span| span.2 - span.1).sum();
        run.is(name, ran, time);
    }
}

#[test]
fn a_task_is_preempted_in_a_system_call_as_elsewhere() {
    let run = calls(SystemCalls { sleep: Nanos(MS), ..SystemCalls::default() }).run(
        "'a': {'loop': 1, 'sleep': 1000},
         'rt': {'policy': 'SCHED_FIFO', 'delay': 500, 'loop': 1, 'run': 300}",
    );
    run.is("a", spans(&run, "a").len(), 2);
    let ran: u64 = spans(&run, "a").iter().map(|span| span.2 - span.1).sum();
    run.is("its sleep", ran, MS);
}

/// A receipt that finds nothing takes its own time and that of a wait.
#[test]
fn who_waits_at_a_pipe_pays_for_the_wait_as_well() {
    let (lock, receive) = (Nanos(MS / 10), Nanos(MS / 4));
    let run = calls(SystemCalls { lock, receive, ..SystemCalls::default() }).run(
        "'receiver': {'loop': 1, 'recv': {'ref': 'p', 'bytes': 1}},
         'sender': {'delay': 10000, 'loop': 1, 'send': {'ref': 'p', 'bytes': 1}}",
    );
    let ran: u64 = spans(&run, "receiver").iter().map(|span| span.2 - span.1).sum();
    run.is("the receiver", ran, (lock + receive).0);
}

/// A call that wakes tasks takes time before each wake-up, also if the waker is preempted in it.
#[test]
fn a_call_that_wakes_takes_time_before_the_wake_up() {
    let wake = Nanos(MS / 2);
    let run = calls(SystemCalls { wake, ..SystemCalls::default() }).run(
        "'a': {'loop': 1, 'barrier': 'b', 'run': 100},
         'b': {'delay': 100, 'loop': 1, 'barrier': 'b', 'run': 100},
         'last': {'policy': 'SCHED_FIFO', 'priority': 2, 'delay': 1000, 'loop': 1, 'barrier': 'b', 'sem_post': 's'},
         'rt': {'policy': 'SCHED_FIFO', 'priority': 3, 'delay': 1200, 'loop': 1, 'run': 1000}",
    );
    let ends = 1_000_000 + MS / 2 + MS + MS / 2;
    run.is("last", spans(&run, "last"), [(0, MS, 1_200_000), (0, 2_200_000, ends)]);
    let woken = [run.at_step("b", 1)[0].0, run.at_step("a", 1)[0].0];
    run.is("both begin when it leaves", woken, [ends, ends + 100_000]);
}
