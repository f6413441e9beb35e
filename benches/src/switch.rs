//! Switches between runnable tasks of one CPU: in the engine alone, and through the machine, which adds the lock, the
//! hints and the scan of other CPUs.
//!
//! A fair task that yields is the plain case: it is enqueued, and the task with the least vruntime takes its place. A
//! tick adds accounting, the end of the turn and balancing. The machine has 16 CPUs. All but one stay idle, because
//! their kicks have no effect.

use crate::rig::{
    Clock, Payload, Quiet, Sensitive, attr, config, eevdf, fifo, machine, machine_with, nested, rr,
    task,
};
use crate::{Operation, Runner};
use runyard_engine::attr::{Attr, Nice, Policy};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Features};
use runyard_engine::run_queue::{Enqueue, Prev, RunQueue, Switch};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_smp::machine::Machine;
use std::sync::Arc;

/// Numbers of tasks in the queue, including the running one.
const QUEUED: [u32; 4] = [8, 64, 1_024, 16_384];

/// Number of tasks where the comparison is of something else.
const TYPICAL: u32 = 64;

/// Number of CPUs of the machine.
const CPUS: u32 = 16;

/// The CPU of all tasks.
const HERE: CpuId = CpuId(0);

/// Approximate run time of a task before it yields.
const TURN: Nanos = Nanos::from_micros(500);

/// Turns of each task after which vruntimes have converged. A new fair task starts up to a whole latency period behind
/// the others.
const TURNS_TO_SETTLE: u32 = 16;

/// The cause of a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// The running task yields.
    Yield,
    /// The tick ends the turn of the running task, this long after the last tick.
    Tick(Nanos),
}

/// A CPU with its run queue, in the engine or in a machine.
trait Host: 'static {
    type Payload;

    /// Serves the due timers of the CPU.
    fn expire(&mut self, now: Time);

    fn switch(&mut self, now: Time, prev: Prev<Self::Payload>) -> Next<Self::Payload>;
}

type Next<P> = Option<(TaskId, P)>;

struct Switching<H: Host> {
    host: H,
    cause: Cause,
    clock: Clock,
    curr: Next<H::Payload>,
}

struct Engine(RunQueue<(), ()>);

struct OneOfMany(Machine<Payload>);

pub(crate) fn operations() -> Vec<Operation> {
    let all = Features::default();
    let others = [
        ("without-rt-balancing", all.without(Feature::RtPush).without(Feature::RtPull)),
        ("without-latency-nice", all.without(Feature::LatencyNice)),
        ("with-eevdf", eevdf()),
    ];
    let fair = Policy::Normal(Nice::default());
    let sensitive = Sensitive::Nobody;
    let tasks = |policy, number| Tasks { policy, number, sensitive };
    let tick = Cause::Tick(Nanos::from_millis(1));
    let mut operations = Vec::new();
    for (word, cause) in [("yield", Cause::Yield), ("tick", tick)] {
        for number in QUEUED {
            let tasks = tasks(fair, number);
            operations.push(engine(format!("switch/engine/{word}/{number}"), tasks, (all, cause)));
            let name = format!("switch/machine/{word}/{number}");
            operations.push(one_of_many(name, tasks, (all, cause)));
        }
        let tasks = tasks(fair, TYPICAL);
        for (other, features) in others {
            let name = format!("switch/machine-{other}/{word}/{TYPICAL}");
            operations.push(one_of_many(name, tasks, (features, cause)));
        }
        for (order, features) in [("cfs", all), ("eevdf", eevdf())] {
            let name = format!("switch/machine-in-groups/{order}/{word}/{TYPICAL}");
            operations.push(in_groups(name, tasks, (features, cause)));
        }
        operations.push(engine(
            format!("switch/engine-with-eevdf/{word}/{TYPICAL}"),
            tasks,
            (eevdf(), cause),
        ));
    }
    for number in QUEUED {
        let turn = Cause::Tick(config(1, all).rr_slice);
        let (yields, turns) = (tasks(fifo(1), number), tasks(rr(1), number));
        operations.push(engine(
            format!("switch/engine/fifo-yield/{number}"),
            yields,
            (all, Cause::Yield),
        ));
        operations.push(engine(format!("switch/engine/rr-tick/{number}"), turns, (all, turn)));
        let name = format!("switch/machine/fifo-yield/{number}");
        operations.push(one_of_many(name, yields, (all, Cause::Yield)));
    }
    operations
}

/// The tasks in the queue. They are bound to the CPU; otherwise a woken task would go to an idle CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tasks {
    pub(crate) policy: Policy,
    pub(crate) number: u32,
    pub(crate) sensitive: Sensitive,
}

impl Tasks {
    fn attr(self, id: u32) -> Attr {
        let latency_nice = self.sensitive.latency_nice(id);
        Attr { latency_nice, ..attr(self.policy, CpuSet::only(HERE)) }
    }
}

pub(crate) fn engine(
    name: String,
    tasks: Tasks,
    (features, cause): (Features, Cause),
) -> Operation {
    Operation::new(name, move || {
        switches(Engine::new(tasks, features), tasks.number, (features, cause))
    })
}

pub(crate) fn one_of_many(
    name: String,
    tasks: Tasks,
    (features, cause): (Features, Cause),
) -> Operation {
    Operation::new(name, move || {
        let attrs = (0..tasks.number).map(|id| tasks.attr(id));
        in_machine(machine(CPUS, features), attrs, (features, cause))
    })
}

/// Returns the operation with its tasks spread over two groups of two levels.
fn in_groups(name: String, tasks: Tasks, (features, cause): (Features, Cause)) -> Operation {
    Operation::new(name, move || {
        let attrs = (0..tasks.number).map(|id| Attr { group: nested(id).0, ..tasks.attr(id) });
        in_machine(machine_with(CPUS, features, &nested(0).1), attrs, (features, cause))
    })
}

/// Prepares switches between tasks with these attributes on the first CPU of `machine`.
pub(crate) fn in_machine(
    machine: Machine<Payload>,
    attrs: impl ExactSizeIterator<Item = Attr>,
    why: (Features, Cause),
) -> Runner {
    let number = attrs.len() as u32;
    for (id, attr) in (0_u32..).zip(attrs) {
        machine.wake(Time::ZERO, task(id, attr, HERE), None, &mut Quiet);
    }
    switches(OneOfMany(machine), number, why)
}

/// Prepares switches. Each gives the CPU to another task, and no wake-up causes it. Under EEVDF a task with positive
/// lag may go on after its turn.
fn switches<H: Host>(host: H, tasks: u32, (features, cause): (Features, Cause)) -> Runner {
    let mut switching = Switching { host, cause, clock: Clock::default(), curr: None };
    switching.curr = switching.host.switch(Time::ZERO, Prev::Idle);
    for _ in 0..TURNS_TO_SETTLE * tasks {
        switching.switch();
    }
    Box::new(move |times| {
        for _ in 0..times {
            let before = switching.runs();
            switching.switch();
            let other = switching.runs() != before || features.has(Feature::Eevdf);
            assert!(other, "another task's turn");
        }
    })
}

impl<H: Host> Switching<H> {
    fn switch(&mut self) {
        let (_, payload) = self.curr.take().expect("a CPU with tasks runs one");
        let prev = match self.cause {
            Cause::Yield => {
                let turn = TURN + self.clock.below(TURN);
                self.clock.after(turn);
                Prev::Yielded(payload)
            }
            Cause::Tick(turn) => {
                let now = self.clock.after(turn);
                self.host.expire(now);
                Prev::Preempted(payload)
            }
        };
        self.curr = self.host.switch(self.clock.now, prev);
    }

    fn runs(&self) -> Option<TaskId> {
        self.curr.as_ref().map(|next| next.0)
    }
}

impl Engine {
    fn new(tasks: Tasks, features: Features) -> Engine {
        let config = Arc::new(config(1, features));
        let mut rq = RunQueue::new(HERE, config, Arc::new(()));
        for id in 0..tasks.number {
            let task = Task::new(TaskId(id.into()), tasks.attr(id), ());
            assert!(rq.offer(Time::ZERO, task, Enqueue::Woken).is_ok(), "the CPU takes tasks");
        }
        Engine(rq)
    }
}

impl Host for Engine {
    type Payload = ();

    fn expire(&mut self, now: Time) {
        while self.0.expire(now, Walk::Busy).is_some() {}
    }

    fn switch(&mut self, now: Time, prev: Prev<()>) -> Next<()> {
        let Switch { next, released } = self.0.schedule(now, prev);
        debug_assert!(released.is_none(), "no task leaves");
        next
    }
}

impl Host for OneOfMany {
    type Payload = Payload;

    fn expire(&mut self, now: Time) {
        while self.0.expire(now, HERE, Walk::Busy, &mut Quiet).is_some() {}
    }

    fn switch(&mut self, now: Time, prev: Prev<Payload>) -> Next<Payload> {
        let Switch { next, released } = self.0.schedule(now, HERE, prev, &mut Quiet);
        debug_assert!(released.is_none(), "no task leaves");
        next
    }
}
