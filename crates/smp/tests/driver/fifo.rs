//! The FIFO order, seen from outside: SCHED_FIFO tasks of one priority and one CPU run in the order of their arrival,
//! and a preempted task precedes the others.
//!
//! The driver sees tasks enter, leave and yield, and records for each when it joined its list. It does not judge cases
//! that it cannot see. Tasks that arrived in one call are equal, SCHED_RR tasks rotate at ticks, and a task that gets a
//! CPU to itself goes to the head. A task below a throttled group is not in the list. It joins at the tail when the
//! throttling ends, which may be in the same call.

use super::Job;
use super::Payload;
use runyard_engine::attr::{Policy, RtPrio};
use runyard_engine::class::Class;
use runyard_engine::cpu::CpuId;
use runyard_engine::task::{Task, TaskId};
use runyard_smp::machine::{Machine, Work};
use std::collections::BTreeMap;

/// The place of a task in its list.
#[derive(Clone, Copy, Debug)]
struct Place {
    cpu: CpuId,
    prio: RtPrio,
    /// The call in which the task joined the list; less than all others if it joined at the head. `None` if the driver
    /// cannot see it, and while the task takes turns.
    since: Option<i64>,
}

/// A switch of a CPU.
pub(super) struct Switched {
    pub(super) cpu: CpuId,
    pub(super) was: Option<TaskId>,
    pub(super) running: Option<TaskId>,
    pub(super) yielded: bool,
}

/// The places of all real-time tasks in run queues.
#[derive(Debug, Default)]
pub(super) struct Queueing {
    places: BTreeMap<TaskId, Place>,
    calls: i64,
    /// The tasks that entered a run queue in this call.
    entered: Vec<TaskId>,
}

impl Queueing {
    /// Records that the task may have entered a run queue.
    pub(super) fn enters(&mut self, task: TaskId) {
        self.entered.push(task);
    }

    /// Asserts that a CPU which has switched chose the first task of the list.
    pub(super) fn switches(
        &mut self,
        machine: &Machine<Payload>,
        Switched { cpu, was, running, yielded }: Switched,
        moved: &[TaskId],
    ) {
        let calls = self.calls;
        if let Some(place) = was.filter(|_| yielded).and_then(|was| self.places.get_mut(&was)) {
            place.since = Some(calls);
        }
        let Some(running) = running.filter(|&running| yielded || was != Some(running)) else {
            return;
        };
        let Some(&Place { prio, since: Some(since), .. }) = self.places.get(&running) else {
            return;
        };
        machine.cpu(cpu).inspect(|rq| {
            for (_, task) in
                rq.queues().competing().filter(|(_, task)| task.class() == Class::Rt(prio))
            {
                let stayed = |place: &&Place| is_at(place, cpu, prio) && !moved.contains(&task.id);
                let known = self.places.get(&task.id).filter(stayed);
                let other = known.and_then(|place| place.since).unwrap_or(i64::MAX);
                assert!(other >= since, "{} is passed over for {running}\n{rq}", task.id);
            }
        });
    }

    /// Records the places of all tasks after a call in which the tasks in `moved` changed their run queue.
    pub(super) fn follow(
        &mut self,
        machine: &Machine<Payload>,
        moved: &[TaskId],
        throttlings: &[CpuId],
    ) {
        self.calls += 1;
        let mut places = BTreeMap::new();
        for cpu in (0..machine.config().topology.cpus()).map(CpuId::at) {
            machine.cpu(cpu).inspect(|rq| {
                let curr = rq.tasks().curr();
                for (_, task) in rq.queues().competing() {
                    if let Some(prio) = task.class().push_prio() {
                        let moved = moved.contains(&task.id);
                        let since = self.since(task, (cpu, prio), curr, moved);
                        let since = since.filter(|_| !throttlings.contains(&cpu));
                        places.insert(task.id, Place { cpu, prio, since });
                    }
                }
            });
        }
        self.places = places;
        self.entered.clear();
    }

    fn since(
        &self,
        task: &Task<Work<Job>>,
        (cpu, prio): (CpuId, RtPrio),
        curr: Option<&Task<Work<Job>>>,
        moved: bool,
    ) -> Option<i64> {
        let entered = self.entered.contains(&task.id);
        let turns = matches!(task.attr().policy, Policy::RoundRobin(_));
        match self.places.get(&task.id) {
            _ if turns => None,
            _ if entered && !moved && may_be_made_way_for(task, curr) => None,
            // A request may have lowered its priority at its arrival.
            Some(place) if (entered || moved) && prio < place.prio => None,
            _ if entered || moved => Some(self.calls),
            Some(place) if is_at(place, cpu, prio) => place.since,
            // A lower priority in the same run queue puts the task at the head.
            Some(place) if place.cpu == cpu && prio < place.prio => Some(-self.calls),
            _ => Some(self.calls),
        }
    }
}

fn is_at(place: &Place, cpu: CpuId, prio: RtPrio) -> bool {
    (place.cpu, place.prio) == (cpu, prio)
}

fn may_be_made_way_for(woken: &Task<Work<Job>>, curr: Option<&Task<Work<Job>>>) -> bool {
    curr.is_some_and(|curr| {
        let affinity = &curr.attr().affinity;
        curr.class() == woken.class() && affinity.len() > 1 && *affinity != woken.attr().affinity
    })
}
