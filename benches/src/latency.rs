//! What latency nice costs the engine: the second heap of a fair queue, which is empty while nobody is
//! sensitive. `latency/hackbench` is a turn of [`crate::cycle`]; `latency/yield` and `latency/tick`
//! are switches, as of [`crate::switch`]. Each with `LATENCY_NICE` off; with it on and nobody, every
//! eighth task or everybody at -20.

use crate::Operation;
use crate::cycle::{self, Host, Why};
use crate::rig::{Mix, Sensitive, attr, config, nice_0};
use crate::switch::{self, Cause, Tasks};
use runyard_engine::attr::{Attr, Nice, Policy};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Features};
use runyard_engine::run_queue::{Enqueue, Prev, Resched, RunQueue};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use std::sync::Arc;

/// Tasks in the queue, the running one included.
const QUEUED: u32 = 64;

/// The CPU on which everything happens.
const HERE: CpuId = CpuId(0);

pub(crate) fn operations() -> Vec<Operation> {
    let all = Features::default();
    let off = ("off", all.without(Feature::LatencyNice), Sensitive::Nobody);
    let on = Sensitive::ALL.map(|sensitive| (sensitive.word(), all, sensitive));
    let policy = Policy::Normal(Nice::default());
    let causes = [("yield", Cause::Yield), ("tick", Cause::Tick(Nanos::from_millis(1)))];
    let mut operations = Vec::new();
    for (word, features, sensitive) in [off].into_iter().chain(on) {
        let name = format!("latency/hackbench/{word}/{QUEUED}");
        operations.push(Operation::new(name, move || {
            cycle::turns(Engine::new(QUEUED, features, (sensitive, nice_0)), QUEUED)
        }));
        for (cause_word, cause) in causes {
            if sensitive != Sensitive::Nobody && matches!(cause, Cause::Yield) {
                // Who goes first by its offset is ahead of the others, and may go on though it yields.
                continue;
            }
            let tasks = Tasks { policy, number: QUEUED, sensitive };
            let name = format!("latency/{cause_word}/{word}/{QUEUED}");
            operations.push(switch::engine(name, tasks, (features, cause)));
        }
    }
    operations
}

/// A run queue with its tasks, of which those that sleep are here.
pub(crate) struct Engine {
    rq: RunQueue<(), ()>,
    tasks: Vec<Option<Box<Task<()>>>>,
    now: Time,
}

impl Engine {
    /// With room for so many queued tasks and as many that sleep.
    pub(crate) fn new(queued: u32, features: Features, (sensitive, policy): Mix) -> Engine {
        let task = |id| {
            let plain = attr(policy(id), CpuSet::only(HERE));
            let attr = Attr { latency_nice: sensitive.latency_nice(id), ..plain };
            Some(Task::new(TaskId(id.into()), attr, ()))
        };
        let config = Arc::new(config(1, features));
        Engine {
            rq: RunQueue::new(HERE, config, Arc::new(())),
            tasks: (0..2 * queued).map(task).collect(),
            now: Time::ZERO,
        }
    }
}

impl Host for Engine {
    fn run(&mut self, span: Nanos) {
        self.now = self.now + span;
    }

    fn wake(&mut self, task: u32) -> bool {
        let woken = self.tasks[task as usize].take().expect("it sleeps");
        let was_idle = self.rq.curr().is_none();
        match self.rq.offer(self.now, woken, Enqueue::Woken) {
            Ok((_, resched)) => resched == Resched::Yes && !was_idle,
            Err(_) => unreachable!("the CPU takes tasks"),
        }
    }

    fn switch(&mut self, why: Why) -> u32 {
        let prev = match (self.rq.curr(), why) {
            (None, _) => Prev::Idle,
            (Some(_), Why::Preempted) => Prev::Preempted(()),
            (Some(_), Why::Blocked) => Prev::Blocked(()),
        };
        let switch = self.rq.schedule(self.now, prev);
        if let Some((task, _)) = switch.released {
            let id = task.id.0 as usize;
            self.tasks[id] = Some(task);
        }
        switch.next.expect("somebody waits").0.index() as u32
    }
}
