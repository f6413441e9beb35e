//! The accounts: small stories with known figures, wrong streams of events, and runs that are also counted nanosecond
//! by nanosecond.

use proptest::prelude::*;
use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Nice, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{Collector, CpuTotals, Explained, TaskTotals, Totals};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
const CPU0: CpuId = CpuId(0);
const CPU1: CpuId = CpuId(1);

fn normal() -> Policy {
    Policy::Normal(Nice::default())
}

fn exec(task: TaskId) -> What {
    What::Exec { task, policy: normal() }
}

fn wake(task: TaskId, since: u64) -> What {
    What::Wake { task, since: Time(since), by: None }
}

fn switch(prev: impl Into<Option<(TaskId, Left)>>, next: impl Into<Option<TaskId>>) -> What {
    What::Switch { prev: prev.into(), next: next.into() }
}

/// The totals of these events of (time, CPU, change), checked after each of them.
fn totals_of(events: &[(u64, CpuId, What)], end: u64) -> Totals {
    let mut collector = Collector::with_history();
    for &(at, cpu, what) in events {
        collector.event(&Event { at: Time(at), cpu, what });
        collector.check();
    }
    collector.finish(Time(end))
}

fn spans(task: &TaskTotals) -> [u64; 3] {
    [task.runtime.0, task.wait.0, task.sleep.0]
}

fn latencies(task: &TaskTotals) -> (u64, Option<Nanos>) {
    (task.wakeup_latency.count(), task.wakeup_latency.max())
}

#[test]
fn a_task_is_woken_runs_is_interrupted_and_exits() {
    let totals = totals_of(
        &[
            (10, CPU0, What::Spawn { task: A }),
            (15, CPU0, wake(A, 12)),
            (20, CPU0, What::Overhead),
            (20, CPU0, switch(None, A)),
            (23, CPU0, exec(A)),
            (50, CPU0, What::Overhead),
            (50, CPU0, What::TimerInterrupt),
            (54, CPU0, exec(A)),
            (60, CPU0, What::Overhead),
            (60, CPU0, switch((A, Left::Exited), None)),
            (61, CPU0, What::Idle),
        ],
        100,
    );
    let a = totals.task(A).unwrap();
    assert_eq!(spans(a), [27 + 6, 8 + 4, 5]);
    assert_eq!((a.wakeups, a.switches, a.preemptions, a.migrations), (1, 1, 0, 0));
    assert_eq!(latencies(a), (1, Some(Nanos(23 - 12))));
    let expected = CpuTotals {
        idle: Nanos(20 + 39),
        normal: Nanos(33),
        overhead: Nanos(3 + 4 + 1),
        switches: 1,
        ..CpuTotals::default()
    };
    assert_eq!(totals.cpu(CPU0), expected);
    assert_eq!((totals.counts().decisions, totals.counts().timer_interrupts), (2, 1));
}

#[test]
fn time_counts_for_the_policy_that_executes() {
    let policies = [
        Policy::Fifo(RtPrio::MIN),
        Policy::RoundRobin(RtPrio::MAX),
        normal(),
        Policy::Batch(Nice::default()),
        Policy::Idle,
    ];
    let mut events = Vec::new();
    for (at, policy) in (0..).zip(policies) {
        events.push((10_u64.pow(at), CPU1, What::Exec { task: A, policy }));
    }
    let totals = totals_of(&events, 100_000);
    let cpu = totals.cpu(CPU1);
    assert_eq!((cpu.rt, cpu.normal, cpu.idle_policy), (Nanos(99), Nanos(9_900), Nanos(90_000)));
    assert_eq!((cpu.idle, cpu.busy()), (Nanos(1), Nanos(99_999)));
    let unnamed = CpuTotals { idle: Nanos(100_000), ..CpuTotals::default() };
    assert_eq!((totals.cpu(CPU0), totals.cpu(CpuId(9))), (unnamed, unnamed));
}

#[test]
fn a_switch_is_to_another_task_and_a_preemption_needs_one() {
    let totals = totals_of(
        &[
            (0, CPU0, switch(None, A)),
            (1, CPU0, exec(A)),
            (2, CPU0, switch((A, Left::Preempted), A)),
            (3, CPU0, switch((A, Left::Preempted), B)),
            (4, CPU0, exec(B)),
            (5, CPU0, switch((B, Left::Yielded), A)),
            (6, CPU0, exec(A)),
            (7, CPU0, switch((A, Left::Preempted), None)),
            (7, CPU0, What::Idle),
        ],
        10,
    );
    let (a, b) = (totals.task(A).unwrap(), totals.task(B).unwrap());
    assert_eq!((a.switches, a.preemptions, b.switches, b.preemptions), (2, 1, 1, 0));
    assert_eq!((totals.cpu(CPU0).switches, totals.counts().decisions), (3, 5));
    assert_eq!((spans(a), spans(b)), ([3, 6, 0], [1, 5, 0]));
}

#[test]
fn a_migration_is_the_first_execution_elsewhere() {
    let totals = totals_of(
        &[
            (0, CPU1, exec(A)),
            (5, CPU1, switch((A, Left::Blocked), None)),
            (6, CPU0, wake(A, 6)),
            (7, CPU0, switch(None, A)),
            (8, CPU0, switch((A, Left::Preempted), B)),
            (9, CPU1, exec(A)),
            (10, CPU1, What::Overhead),
            (11, CPU1, exec(A)),
            (12, CPU1, switch((A, Left::Preempted), None)),
            (13, CPU0, exec(A)),
        ],
        20,
    );
    let a = totals.task(A).unwrap();
    assert_eq!(a.migrations, 1, "it was chosen on CPU 0 at 7 ns, but did not execute there");
    assert_eq!(latencies(a), (1, Some(Nanos(9 - 6))));
}

#[test]
fn a_wake_up_without_execution_has_no_latency() {
    let events = [
        (0, CPU0, What::Spawn { task: A }),
        (1, CPU0, wake(A, 1)),
        (2, CPU0, wake(A, 2)),
        (4, CPU0, exec(A)),
        (5, CPU0, switch((A, Left::Blocked), None)),
        (6, CPU0, wake(A, 6)),
    ];
    let totals = totals_of(&events, 9);
    let a = totals.task(A).unwrap();
    assert_eq!((a.wakeups, latencies(a)), (3, (1, Some(Nanos(4 - 1)))));
    assert_eq!(spans(a), [1, 3 + 3, 1 + 1]);
}

#[test]
fn a_task_woken_before_it_has_blocked_does_not_sleep() {
    let totals = totals_of(
        &[
            (0, CPU0, exec(A)),
            (10, CPU0, What::Overhead),
            (11, CPU1, wake(A, 10)),
            (12, CPU0, switch((A, Left::Blocked), B)),
            (13, CPU0, exec(B)),
            (20, CPU1, exec(A)),
        ],
        30,
    );
    let a = totals.task(A).unwrap();
    assert_eq!((spans(a), latencies(a)), ([20, 10, 0], (1, Some(Nanos(10)))));
}

#[test]
fn an_early_wake_up_outlives_an_interrupt() {
    let totals = totals_of(
        &[
            (0, CPU0, exec(A)),
            (10, CPU1, wake(A, 10)),
            (11, CPU0, What::Overhead),
            (12, CPU0, exec(A)),
            (20, CPU0, switch((A, Left::Blocked), None)),
            (30, CPU0, exec(A)),
        ],
        30,
    );
    let a = totals.task(A).unwrap();
    assert_eq!((spans(a), latencies(a)), ([19, 11, 0], (1, Some(Nanos(20)))));
}

#[test]
fn a_task_that_blocks_is_woken_and_chosen_again_in_one_decision() {
    let totals = totals_of(
        &[
            (0, CPU0, exec(A)),
            (10, CPU0, wake(A, 8)),
            (10, CPU0, switch((A, Left::Blocked), A)),
            (12, CPU0, exec(A)),
        ],
        20,
    );
    let a = totals.task(A).unwrap();
    assert_eq!((spans(a), latencies(a)), ([18, 2, 0], (1, Some(Nanos(4)))));
    assert_eq!((a.switches, totals.counts().decisions), (0, 1));
}

#[test]
fn a_life_without_a_spawn_begins_when_it_is_first_named() {
    let totals = totals_of(&[(10, CPU0, wake(A, 7)), (12, CPU0, exec(B))], 20);
    assert_eq!(spans(totals.task(A).unwrap()), [0, 10, 0]);
    assert_eq!(spans(totals.task(B).unwrap()), [8, 0, 0]);
    assert!(totals.task(TaskId(2)).is_none());
}

#[test]
fn an_early_wake_up_of_a_task_that_does_not_block_has_no_latency() {
    let totals = totals_of(
        &[
            (0, CPU0, exec(A)),
            (10, CPU1, wake(A, 10)),
            (11, CPU0, switch((A, Left::Preempted), A)),
            (20, CPU0, switch((A, Left::Blocked), None)),
            (25, CPU1, wake(A, 25)),
            (26, CPU0, exec(A)),
            (27, CPU1, wake(A, 27)),
            (28, CPU0, switch((A, Left::Yielded), None)),
            (30, CPU0, exec(A)),
        ],
        40,
    );
    let a = totals.task(A).unwrap();
    assert_eq!((a.wakeups, latencies(a)), (3, (1, Some(Nanos(1)))));
    assert_eq!(spans(a), [20 + 2 + 10, 1 + 2, 5]);
}

#[test]
fn a_task_that_executes_elsewhere_has_left_its_cpu() {
    let totals = totals_of(
        &[
            (0, CPU0, exec(A)),
            (10, CPU1, wake(A, 8)),
            (12, CPU1, exec(A)),
            (15, CPU0, switch((A, Left::Blocked), None)),
            (15, CPU0, What::Idle),
        ],
        30,
    );
    let a = totals.task(A).unwrap();
    assert_eq!((spans(a), latencies(a)), ([30, 0, 0], (1, Some(Nanos(4)))));
    assert_eq!((totals.cpu(CPU0).overhead, totals.cpu(CPU1).normal), (Nanos(3), Nanos(18)));
}

#[test]
fn a_task_s_runtime_goes_to_the_group_in_which_it_ran() {
    let join = |group| What::Changed {
        task: A,
        policy: normal(),
        group: GroupId(group),
        latency_nice: LatencyNice::ZERO,
    };
    let totals = totals_of(
        &[
            (0, CPU0, exec(A)),
            (0, CPU1, exec(B)),
            (1, CPU0, join(3)),
            (11, CPU0, join(2)),
            (111, CPU0, join(3)),
            (1_111, CPU0, join(1)),
        ],
        11_111,
    );
    let first = [(A, GroupId(1)), (B, GroupId(4)), (TaskId(7), GroupId(4))];
    let expected = [0, 1 + 10_000, 100, 10 + 1_000, 11_111].map(Nanos);
    assert_eq!(totals.group_runtimes(5, first), expected);
    assert_eq!(totals.task(A).unwrap().runtime, Nanos(11_111));
}

#[test]
fn timers_are_counted_by_what_becomes_of_them() {
    let whats = [
        What::TimerArmed,
        What::TimerArmed,
        What::TimerArmed,
        What::TimerExpired { greedy: true },
        What::TimerExpired { greedy: false },
        What::TimerCancelled,
        What::Step { task: A, phase: 0, step: 0 },
    ];
    let counts = totals_of(&whats.map(|what| (5, CPU0, what)), 9).counts();
    let timers = [counts.timers_armed, counts.timers_expired, counts.timers_greedy];
    assert_eq!((timers, counts.timers_cancelled, counts.events), ([3, 2, 1], 1, 7));
}

fn any_left() -> impl Strategy<Value = Left> {
    prop::sample::select(vec![Left::Preempted, Left::Yielded, Left::Blocked, Left::Exited])
}

/// Any event of three CPUs and four tasks, however wrong, at any time.
fn any_event() -> impl Strategy<Value = Event> {
    let task = || (0..4_u64).prop_map(TaskId);
    let policies = vec![normal(), Policy::Idle, Policy::Fifo(RtPrio::MIN)];
    let what = prop_oneof![
        task().prop_map(|task| What::Spawn { task }),
        (task(), 0..1000_u64).prop_map(|(task, since)| wake(task, since)),
        (prop::option::of((task(), any_left())), prop::option::of(task()))
            .prop_map(|(prev, next)| What::Switch { prev, next }),
        (task(), prop::sample::select(policies))
            .prop_map(|(task, policy)| What::Exec { task, policy }),
        Just(What::Overhead),
        Just(What::Idle),
        (0..3_u32).prop_map(|cookie| What::ForcedIdle { cookie: Cookie::new(cookie) }),
        (task(), 0..3_u32).prop_map(|(task, group)| What::Changed {
            task,
            policy: normal(),
            group: GroupId(group),
            latency_nice: LatencyNice::ZERO,
        }),
    ];
    (0..4000_u64, 0..3_u16, what).prop_map(|(at, cpu, what)| Event {
        at: Time(at),
        cpu: CpuId(cpu),
        what,
    })
}

proptest! {
    #[test]
    fn the_laws_hold_for_streams_that_lie(events in prop::collection::vec(any_event(), 0..200)) {
        let explained = Explained { cpus: 3, threads: 1, parents: vec![None] };
        let mut collector = Collector::with_history().with_waits(explained);
        for event in &events {
            collector.event(event);
            collector.check();
        }
        let totals = collector.finish(Time(5_000));
        for cpu in (0..3).map(CpuId) {
            let did = totals.cpu(cpu);
            prop_assert_eq!(did.busy() + did.idle, totals.duration());
            prop_assert!(did.forced <= did.idle);
        }
        let groups = totals.group_runtimes(3, (0..4).map(|id| (TaskId(id), GroupId::ROOT)));
        let ran: u64 = (0..4).filter_map(|id| totals.task(TaskId(id))).map(|it| it.runtime.0).sum();
        prop_assert_eq!(groups.iter().map(|span| span.0).sum::<u64>(), ran);
    }
}

/// The state of a task of a [`Machine`].
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Asleep,
    Queued,
    OnCpu(usize),
    Gone,
}

/// The activity of a CPU of a [`Machine`].
#[derive(Clone, Copy, PartialEq)]
enum Activity {
    Idle,
    Overhead,
    Executing,
}

/// A toy machine that emits events and, beside them, counts every nanosecond.
struct Machine {
    now: u64,
    collector: Collector,
    cpus: Vec<(Option<usize>, Activity)>,
    tasks: Vec<Place>,
    /// The beginning of each task's running latency, and all finished latencies.
    woken: Vec<Option<u64>>,
    latencies: Vec<Vec<u64>>,
    cpu_ns: Vec<[u64; 3]>,
    task_ns: Vec<[u64; 3]>,
}

/// The next action on one CPU of the toy machine.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Wake { task: usize, late: u64 },
    Decide { cpu: usize, left: Left, next: Option<usize> },
    Execute { cpu: usize },
    Interrupt { cpu: usize },
}

impl Machine {
    fn new(cpus: usize, tasks: usize) -> Machine {
        let mut machine = Machine {
            now: 0,
            collector: Collector::with_history(),
            cpus: vec![(None, Activity::Idle); cpus],
            tasks: vec![Place::Asleep; tasks],
            woken: vec![None; tasks],
            latencies: vec![Vec::new(); tasks],
            cpu_ns: vec![[0; 3]; cpus],
            task_ns: vec![[0; 3]; tasks],
        };
        (0..tasks).for_each(|task| machine.emit(0, What::Spawn { task: id(task) }));
        machine
    }

    fn emit(&mut self, cpu: usize, what: What) {
        self.collector.event(&Event { at: Time(self.now), cpu: CpuId::at(cpu), what });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Pass(ns) => (0..ns).for_each(|_| self.pass()),
            Step::Wake { task, late } if self.tasks[task] == Place::Asleep => {
                let since = self.now.saturating_sub(late);
                (self.tasks[task], self.woken[task]) = (Place::Queued, Some(since));
                self.emit(0, wake(id(task), since));
            }
            Step::Decide { cpu, left, next } => self.decide(cpu, left, next),
            Step::Execute { cpu } => self.execute(cpu),
            Step::Interrupt { cpu } if self.cpus[cpu].0.is_some() => {
                self.cpus[cpu].1 = Activity::Overhead;
                self.emit(cpu, What::Overhead);
            }
            Step::Wake { .. } | Step::Interrupt { .. } => {}
        }
    }

    fn pass(&mut self) {
        self.now += 1;
        for (ns, &(_, activity)) in self.cpu_ns.iter_mut().zip(&self.cpus) {
            ns[activity as usize] += 1;
        }
        for (ns, &place) in self.task_ns.iter_mut().zip(&self.tasks) {
            match place {
                Place::OnCpu(cpu) if self.cpus[cpu].1 == Activity::Executing => ns[0] += 1,
                Place::OnCpu(_) | Place::Queued => ns[1] += 1,
                Place::Asleep => ns[2] += 1,
                Place::Gone => {}
            }
        }
    }

    fn decide(&mut self, cpu: usize, left: Left, next: Option<usize>) {
        let prev = self.cpus[cpu].0;
        if let Some(prev) = prev {
            self.tasks[prev] = match left {
                Left::Preempted | Left::Yielded => Place::Queued,
                Left::Blocked => Place::Asleep,
                Left::Exited => Place::Gone,
            };
        }
        let next = next.filter(|&next| self.tasks[next] == Place::Queued);
        if let Some(next) = next {
            self.tasks[next] = Place::OnCpu(cpu);
        }
        let activity = if next.is_some() { Activity::Overhead } else { Activity::Idle };
        self.cpus[cpu] = (next, activity);
        self.emit(cpu, switch(prev.map(|prev| (id(prev), left)), next.map(id)));
        self.emit(cpu, if next.is_some() { What::Overhead } else { What::Idle });
    }

    fn execute(&mut self, cpu: usize) {
        if let (Some(task), activity) = &mut self.cpus[cpu] {
            *activity = Activity::Executing;
            let task = *task;
            self.latencies[task].extend(self.woken[task].take().map(|since| self.now - since));
            self.emit(cpu, exec(id(task)));
        }
    }
}

fn id(task: usize) -> TaskId {
    TaskId(u64::try_from(task).unwrap())
}

fn any_step() -> impl Strategy<Value = Step> {
    let (cpu, task) = (|| 0..3_usize, || 0..5_usize);
    prop_oneof![
        (0..9_u64).prop_map(Step::Pass),
        (task(), 0..5_u64).prop_map(|(task, late)| Step::Wake { task, late }),
        (cpu(), any_left(), prop::option::of(task())).prop_map(|(cpu, left, next)| Step::Decide {
            cpu,
            left,
            next
        }),
        cpu().prop_map(|cpu| Step::Execute { cpu }),
        cpu().prop_map(|cpu| Step::Interrupt { cpu }),
    ]
}

proptest! {
    #[test]
    fn spans_are_those_of_an_observer_who_never_sleeps(
        steps in prop::collection::vec(any_step(), 0..300),
    ) {
        let mut machine = Machine::new(3, 5);
        steps.iter().for_each(|&step| machine.step(step));
        let totals = machine.collector.finish(Time(machine.now));
        for (at, &[idle, overhead, executing]) in machine.cpu_ns.iter().enumerate() {
            let cpu = totals.cpu(CpuId::at(at));
            prop_assert_eq!([cpu.idle.0, cpu.overhead.0, cpu.normal.0], [idle, overhead, executing]);
        }
        for (at, &expected) in machine.task_ns.iter().enumerate() {
            let task = totals.task(id(at)).unwrap();
            prop_assert_eq!(spans(task), expected, "task {}", at);
            let latencies = &machine.latencies[at];
            prop_assert_eq!(task.wakeup_latency.count(), latencies.len() as u64);
            let longest = latencies.iter().copied().max().map(Nanos);
            prop_assert_eq!(task.wakeup_latency.max(), longest, "task {}", at);
        }
    }
}
