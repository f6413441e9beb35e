//! A round trip of a waking task: it wakes, gets its CPU, runs and blocks again. This is the cost of an event for the
//! task that waits for it. The CPU is idle, or runs another task that the waking task preempts.

use crate::rig::{Clock, Quiet, Seat, attr, eevdf, fifo, machine_with, nested, task};
use crate::{Operation, Runner};
use runyard_engine::attr::{Attr, GroupId, Nice, Policy};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Features};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};

/// Numbers of other tasks on the CPU.
const OTHERS: [u32; 2] = [0, 64];

/// The CPU of all tasks.
const HERE: CpuId = CpuId(0);

/// The task that wakes.
const SLEEPER: TaskId = TaskId(0);

/// Run time of the waking task.
const STINT: Nanos = Nanos::from_micros(10);

/// Sleep of the waking task. In it a fair sleeper falls behind the running task by more than the wake-up granularity,
/// and so preempts it.
const SLEEP: Nanos = Nanos::from_millis(5);

pub(crate) fn operations() -> Vec<Operation> {
    let policies = [("fair", Policy::Normal(Nice::default())), ("fifo", fifo(1))];
    let all = Features::default();
    let operation = |others: u32, (word, policy): (&str, Policy)| {
        Operation::new(format!("wake-switch-block/{word}/{others}-others"), move || {
            round_trips(others, policy, (all, false))
        })
    };
    let without = all.without(Feature::LatencyNice);
    let most = OTHERS[OTHERS.len() - 1];
    let name = format!("wake-switch-block/fair-without-latency-nice/{most}-others");
    let more = [
        (name, most, (without, false)),
        (format!("wake-switch-block/fair-in-groups/cfs/{most}-others"), most, (all, true)),
        ("wake-switch-block/fair-in-groups/eevdf/1-others".to_owned(), 1, (eevdf(), true)),
        ("wake-switch-block/fair-with-eevdf/1-others".to_owned(), 1, (eevdf(), false)),
    ];
    let more = more.into_iter().map(|(name, others, how)| {
        Operation::new(name, move || round_trips(others, policies[0].1, how))
    });
    let operations = policies
        .into_iter()
        .flat_map(|policy| OTHERS.into_iter().map(move |others| operation(others, policy)));
    operations.chain(more).collect()
}

/// Prepares round trips with these features, with the tasks in the root or in a nested group. Under EEVDF a woken task
/// is sure to preempt only a SCHED_IDLE task, so there the one other task is of that policy.
pub(crate) fn round_trips(
    others: u32,
    policy: Policy,
    (features, grouped): (Features, bool),
) -> Runner {
    let groups = nested(0).1;
    let machine = machine_with(1, features, if grouped { &groups } else { &[] });
    let eevdf = features.has(Feature::Eevdf);
    let other = if eevdf { Policy::Idle } else { Policy::Normal(Nice::default()) };
    let group = if grouped { nested(0).0 } else { GroupId::ROOT };
    let attr = |policy| Attr { group, ..attr(policy, CpuSet::only(HERE)) };
    let (mut here, mut clock) = (Seat::idle(HERE), Clock::default());
    // The first round trip is that of a new task, which may not preempt.
    let new = task(SLEEPER.0, attr(policy), HERE);
    machine.wake(Time::ZERO, new, None, &mut Quiet);
    here.switch_to(&machine, clock.now, SLEEPER);
    let mut asleep = Some(here.block(&machine, clock.after(STINT)));
    for id in 1..=others {
        machine.wake(clock.now, task(id, attr(other), HERE), None, &mut Quiet);
    }
    here.switch(&machine, clock.now);
    Box::new(move |times| {
        for _ in 0..times {
            let now = clock.after(SLEEP);
            let woken = asleep.take().expect("it sleeps between two round trips");
            machine.wake(now, woken, Some(HERE), &mut Quiet);
            here.switch_to(&machine, now, SLEEPER);
            asleep = Some(here.block(&machine, clock.after(STINT)));
        }
    })
}
