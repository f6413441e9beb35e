//! The price of each founding mechanism where nobody uses it. The instructions of the same work are counted with the
//! mechanism off (`off`: the model without the features of its document) and with all default features (`unused`).
//!
//! The work uses none of the mechanisms: fair tasks of nice 0 and latency nice 0 without groups, which are bound to one
//! CPU. There are no SCHED_IDLE tasks, no real-time tasks and no timers of the host. A feature that is off is still
//! asked for, so both counts include that question.
//!
//! One row is not like for like. At `tick` many bound tasks wait while 15 CPUs idle. With IDLE_LOAD_BALANCE the busy
//! CPU looks itself for a task that may leave. Without it the busy CPU kicks an idle one to look, and that CPU's work
//! is not counted.
//!
//! | operation | work |
//! |---|---|
//! | `yield`, `tick` | a switch of 64 tasks through a machine of 16 CPUs, as in [`crate::switch`] |
//! | `wake` | a wake-up beside 64 tasks that preempts, and a block, as in [`crate::wake`] |
//! | `pipe` | a task wakes another on its CPU and blocks, as in `sched pipe` |
//! | `hackbench` | a turn of [`crate::cycle`] with 64 tasks, in the engine alone |
//!
//! Two rows are of other work. Real-time push and pull also has `rt-wake`, in which it is `used`: each CPU has one
//! real-time task, so there is nothing to push or to pull. Greedy timers also has the timers themselves, of
//! [`crate::timers`]. GREEDY_TIMERS turns off the walk, and not the order of soft expiries. So there `off` is the same
//! heap without soft expiries, the state before the document, and no timer is taken by the greedy walk.

use crate::cycle;
use crate::rig::{Clock, Quiet, Seat, Sensitive, attr, fifo, machine, nice_0, task};
use crate::switch::{self, Cause, Tasks};
use crate::timers::{self, MIXED, Plain, Slacks};
use crate::wake;
use crate::{Operation, Runner};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Features;
use runyard_engine::kernel::Experiment;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::TimerQueue;

/// Number of tasks in the queue.
const QUEUED: u32 = 64;

/// Number of CPUs that have a real-time task each.
const CPUS: u32 = 16;

/// Number of armed timers.
const ARMED: usize = 1_000;

/// The slack of timers that no greedy walk can take early.
const EXACT: Slacks = &[Nanos::ZERO];

/// Time between two events of tasks that wake each other.
const MOMENT: Nanos = Nanos::from_micros(5);

/// The CPU of fair tasks.
const HERE: CpuId = CpuId(0);

/// The mechanisms, by the names of their experiments.
pub(crate) const MECHANISMS: [(&str, Experiment); 5] = [
    ("rt-migrate", Experiment::RtMigrate),
    ("idle-balance", Experiment::IdleBalance),
    ("latency-nice", Experiment::LatencyNice),
    ("hard-limits", Experiment::HardLimits),
    ("greedy-timers", Experiment::GreedyTimers),
];

pub(crate) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for (mechanism, experiment) in MECHANISMS {
        let sides = [("off", experiment.before().features()), ("unused", Features::default())];
        for (word, features) in sides {
            let name = |operation: &str| format!("overhead/{mechanism}/{operation}/{word}");
            operations.extend(of_fair_tasks(name, features));
        }
        if experiment == Experiment::RtMigrate {
            for (word, features) in [("off", sides[0].1), ("used", sides[1].1)] {
                let name = format!("overhead/{mechanism}/rt-wake/{word}");
                operations.push(Operation::new(name, move || one_real_time_task_each(features)));
            }
        }
        if experiment == Experiment::GreedyTimers {
            operations.extend(of_timers(mechanism));
        }
    }
    operations
}

/// Returns the operations that use no mechanism.
fn of_fair_tasks(name: impl Fn(&str) -> String, features: Features) -> [Operation; 5] {
    let policy = nice_0(0);
    let tasks = Tasks { policy, number: QUEUED, sensitive: Sensitive::Nobody };
    let tick = Cause::Tick(Nanos::from_millis(1));
    let wake = move || wake::round_trips(QUEUED, policy, (features, false));
    let hackbench = move || cycle::turns(QUEUED, features, Sensitive::Nobody);
    [
        switch::one_of_many(name("yield"), tasks, (features, Cause::Yield)),
        switch::one_of_many(name("tick"), tasks, (features, tick)),
        Operation::new(name("wake"), wake),
        Operation::new(name("pipe"), move || pipe(features)),
        Operation::new(name("hackbench"), hackbench),
    ]
}

/// Returns the operations of timers, with and without slack.
fn of_timers(mechanism: &str) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (slack, slacks) in [("", MIXED), ("-exact", EXACT)] {
        let name = |operation, word| format!("overhead/{mechanism}/{operation}{slack}/{word}");
        let mut add = |operation, word, prepare: fn(Slacks, usize) -> Runner| {
            let prepare = move || prepare(slacks, ARMED);
            operations.push(Operation::new(name(operation, word), prepare));
        };
        add("arm-cancel", "off", timers::cancellations::<Plain>);
        add("arm-cancel", "unused", timers::cancellations::<TimerQueue>);
        add("arm-expire", "off", timers::expiries::<Plain>);
        add("arm-expire", "unused", timers::expiries::<TimerQueue>);
    }
    operations
}

/// Prepares two tasks on one CPU. The one that runs wakes the other and blocks.
fn pipe(features: Features) -> Runner {
    let machine = machine(1, features);
    let (mut here, mut clock) = (Seat::idle(HERE), Clock::default());
    for id in 0..2_u32 {
        let task = task(id, attr(nice_0(id), CpuSet::only(HERE)), HERE);
        machine.wake(Time::ZERO, task, None, &mut Quiet);
    }
    here.switch(&machine, clock.now);
    let mut asleep = Some(here.block(&machine, clock.after(MOMENT)));
    Box::new(move |times| {
        for _ in 0..times {
            let woken = asleep.take().expect("one of the two sleeps");
            let id = woken.id;
            machine.wake(clock.after(MOMENT), woken, Some(HERE), &mut Quiet);
            asleep = Some(here.block(&machine, clock.after(MOMENT)));
            assert_eq!(here.runs(), Some(id), "the woken task goes on");
        }
    })
}

/// Prepares a machine whose CPUs have a fair task and a real-time task each. In turn the real-time tasks block and
/// wake again. Each may run on every CPU, and stays on its own.
fn one_real_time_task_each(features: Features) -> Runner {
    let machine = machine(CPUS, features);
    let mut clock = Clock::default();
    let mut seats: Vec<_> = (0..CPUS as usize).map(|at| Seat::idle(CpuId::at(at))).collect();
    // A real-time task would go to an idle CPU, so all fair tasks run first.
    for (first, is_real_time) in [(CPUS, false), (0, true)] {
        for (at, seat) in (0..).zip(&mut seats) {
            let (id, cpu) = (first + at, CpuId::at(at as usize));
            let attr = match is_real_time {
                false => attr(nice_0(id), CpuSet::only(cpu)),
                true => attr(fifo(1), machine.all().clone()),
            };
            machine.wake(clock.after(MOMENT), task(id, attr, cpu), None, &mut Quiet);
            seat.switch_to(&machine, clock.after(MOMENT), TaskId(id.into()));
        }
    }
    let mut at = 0;
    Box::new(move |times| {
        for _ in 0..times {
            let asleep = seats[at].block(&machine, clock.after(MOMENT));
            let id = asleep.id;
            machine.wake(clock.after(MOMENT), asleep, None, &mut Quiet);
            seats[at].switch_to(&machine, clock.after(MOMENT), id);
            at = (at + 1) % seats.len();
        }
    })
}
