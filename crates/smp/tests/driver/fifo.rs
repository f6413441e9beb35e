//! Who came first, as seen from outside: SCHED_FIFO tasks of one priority and one CPU run in the
//! order in which they came, a preempted one before the others.
//!
//! The driver sees tasks enter, leave and yield, and notes for each when it joined its list. What
//! it cannot see it does not judge: tasks that came in one call are equals, SCHED_RR tasks turn
//! at ticks, and one that is made way for goes to the head. Who is below a throttled group is not in
//! line, and joins at the tail when that is over; that may be in the same call.

use super::Job;
use super::Payload;
use runyard_engine::attr::{Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::{Task, TaskId};
use runyard_smp::machine::{Machine, Work};
use std::collections::BTreeMap;

/// Where a task stands in line.
#[derive(Clone, Copy, Debug)]
struct Place {
    cpu: CpuId,
    prio: RtPrio,
    /// When it joined the list, counted in calls; less than all before if it joined at the head.
    /// `None` where that cannot be seen, and while it takes turns.
    since: Option<i64>,
}

/// A switch of a CPU.
pub(super) struct Switched {
    pub(super) cpu: CpuId,
    pub(super) was: Option<TaskId>,
    pub(super) running: Option<TaskId>,
    pub(super) yielded: bool,
}

/// The places of all real-time tasks that are in a run queue.
#[derive(Debug, Default)]
pub(super) struct Queueing {
    places: BTreeMap<TaskId, Place>,
    calls: i64,
    /// Who entered a run queue in this call.
    entered: Vec<TaskId>,
}

impl Queueing {
    /// The task may have entered a run queue.
    pub(super) fn enters(&mut self, task: TaskId) {
        self.entered.push(task);
    }

    /// A CPU has switched. Looks whether it chose the first.
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
        machine.inspect(cpu, |rq| {
            for (_, task) in rq.competing().filter(|(_, task)| task.rt_prio() == Some(prio)) {
                let stayed = |place: &&Place| is_at(place, cpu, prio) && !moved.contains(&task.id);
                let known = self.places.get(&task.id).filter(stayed);
                let other = known.and_then(|place| place.since).unwrap_or(i64::MAX);
                assert!(other >= since, "{} is passed over for {running}\n{rq}", task.id);
            }
        });
    }

    /// Notes where everybody is after a call in which `moved` left a run queue for another.
    pub(super) fn follow(
        &mut self,
        machine: &Machine<Payload>,
        moved: &[TaskId],
        throttlings: &[CpuId],
    ) {
        self.calls += 1;
        let mut places = BTreeMap::new();
        for cpu in (0..machine.config().topology.cpus()).map(CpuId::at) {
            machine.inspect(cpu, |rq| {
                let curr = rq.curr();
                for (_, task) in rq.competing() {
                    if let Some(prio) = task.rt_prio() {
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
            // It may have been asked for less just when it came.
            Some(place) if (entered || moved) && prio < place.prio => None,
            _ if entered || moved => Some(self.calls),
            Some(place) if is_at(place, cpu, prio) => place.since,
            // Asked for less where it is: to the head.
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
        curr.rt_prio() == woken.rt_prio()
            && affinity.len() > 1
            && *affinity != woken.attr().affinity
    })
}
