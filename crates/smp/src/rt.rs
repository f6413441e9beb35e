//! Active balancing of real-time tasks: push, pull, and the choice of a CPU.
//!
//! The aim is that the most important runnable real-time tasks run at any instant, as far as affinities allow. A CPU
//! that cannot run a task at once pushes it to the least important CPU. A CPU that becomes less important pulls. Both
//! are needed, because each side may decide on hints that the other side is just changing: see *publish, then look* in
//! [`crate::machine`].
//!
//! `RT_BALANCE` is what Linux had before push and pull: the balance of fair tasks ([`crate::balance`]) took real-time
//! tasks along.

use crate::cpus::Cpus;
use crate::host::{Controlled, Effects, Moving, kick_if, mark_away};
use crate::mask::Mask;
use crate::sight::Sight;
use crate::site::Site;
use crate::sync::{Ordering, fence};
use runyard_engine::attr::RtPrio;
use runyard_engine::balance::Found;
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::{Enqueue, Importance};
use runyard_engine::task::Task;
use runyard_engine::time::Time;
use runyard_engine::topology::Level;
use std::cmp::Reverse;

impl<W: Controlled> Cpus<W> {
    /// Pushes the waiting real-time tasks of `cpu` that could run on other CPUs now.
    ///
    /// Each iteration of the loop is one task that left. A task that was refused everywhere comes back and is examined
    /// again, since a CPU may have become less important. Each refusal means that another CPU made progress. After a
    /// bounded number of rounds, the rest is left to the next switch of this CPU.
    pub(crate) fn push(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let rounds = 2 * self.sight.nr_cpus() + 8;
        for _ in 0..rounds {
            fence(Ordering::SeqCst);
            let floor = match self.sight.hints.cpupri.lowest() {
                Importance::Normal => None,
                Importance::Rt(prio) => Some(prio),
                Importance::Closed => return,
            };
            let (pushed, resched) = self.of(cpu).detach(fx, |rq| {
                rq.classes_mut()
                    .take_pushable(floor, |task| {
                        let prio = task.class().push_prio().expect("only such tasks are pushable");
                        self.sight.find_lowest(task, prio, cpu).filter(|&to| to != cpu)
                    })
                    .inspect(|(task, _)| mark_away(task))
            });
            let Some((task, to)) = pushed else {
                kick_if(resched, cpu, fx);
                return;
            };
            let moving = Moving::new(task, cpu, to, Enqueue::Pushed);
            if let Some(landed) = self.land_somewhere(now, moving, fx)
                && landed.on != cpu
            {
                self.after_landing(now, landed, fx);
            }
        }
        fx.kick(cpu);
    }

    /// Pulls waiting real-time tasks that are more important than the task that `cpu` is about to run. It takes the
    /// best task of each CPU that has any, if that task is better than the last one pulled.
    pub(crate) fn pull(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        fence(Ordering::SeqCst);
        let mut best = match self.sight.hints.cpupri.of(cpu).importance {
            Importance::Normal => None,
            Importance::Rt(prio) => Some(prio),
            Importance::Closed => return,
        };
        let n = self.sight.nr_cpus();
        for from in self.sight.hints.pushable.ring(self.sight.peers(cpu), 0..n, cpu) {
            if from == cpu || self.sight.hints.pushable(from) <= best {
                continue;
            }
            let (pulled, resched) = self
                .of(from)
                .detach(fx, |rq| rq.classes_mut().take_pullable(cpu, best).inspect(mark_away));
            kick_if(resched, from, fx);
            if let Some(task) = pulled {
                best = task.class().push_prio();
                let mut moving = Moving::new(task, from, cpu, Enqueue::Pushed);
                moving.pulled = best;
                self.migrate(now, moving, fx);
            }
        }
    }

    /// Takes waiting real-time tasks for a CPU that balances, if `RT_BALANCE` is on: half of what the CPU of its domain
    /// with the most real-time tasks has more than it, the most important ones first. Returns their number.
    ///
    /// As in 2.6.24 only numbers of tasks decide. A task may go that is about to preempt where it waits, and it may
    /// wait behind a more important one where it arrives.
    pub(crate) fn balance_rt(&self, site: Site<'_>, fx: &mut impl Effects<W>) -> u32 {
        let Site { now, cpu, level, .. } = site;
        let Some((from, most)) = self.sight.find_most_rt(cpu, level) else { return 0 };
        let mut moved = 0;
        while moved < most {
            let (taken, resched) = self
                .of(from)
                .detach(fx, |rq| rq.classes_mut().take_waiting_rt(cpu, None).inspect(mark_away));
            kick_if(resched, from, fx);
            let Some(task) = taken else { break };
            self.migrate(now, Moving::new(task, from, cpu, Enqueue::Moved), fx);
            moved += 1;
        }
        if moved > 0 {
            site.report(fx, Found::Tasks(moved));
        }
        moved
    }
}

impl Sight {
    /// Returns whether a real-time task waits that a balancing CPU may take.
    pub(crate) fn some_rt_waits(&self) -> bool {
        self.has(Feature::RtBalance) && !self.hints.pushable.is_empty()
    }

    /// Returns the CPU of a domain that has the most real-time tasks among those where one waits, and half of what it
    /// has more than `cpu`, if that is a task. Every real-time task had the same weight in 2.6.24, which was more than
    /// any fair task has, so the comparison of loads was one of numbers.
    fn find_most_rt(&self, cpu: CpuId, level: Level) -> Option<(CpuId, u32)> {
        let closed = || self.hints.cpupri.of(cpu).importance == Importance::Closed;
        if !self.some_rt_waits() || closed() {
            return None;
        }
        let span = self.config.topology.span(cpu, level);
        let waiting = self.hints.pushable.ring(self.peers(cpu), span, cpu).filter(|&it| it != cpu);
        let tasks = |it| self.hints.counts(it).nr_rt;
        let (most, Reverse(from)) = waiting.map(|it| (tasks(it), Reverse(it))).max()?;
        let half = most.saturating_sub(tasks(cpu)) / 2;
        (half > 0).then_some((from, half))
    }

    /// Returns the least important CPU on which a task of priority `prio` could start at once. It prefers a CPU near
    /// the task's last one, or near `from`, the CPU that searches (`find_lowest_rq`).
    pub(crate) fn find_lowest(
        &self,
        task: &Task<impl Sized>,
        prio: RtPrio,
        from: CpuId,
    ) -> Option<CpuId> {
        let (affinity, last) = (self.within(from, &task.attr().affinity), task.cpu());
        let topology = self.config.topology;
        let nearest = |candidates: &Mask| {
            let is_candidate = |cpu| candidates.contains(cpu) && affinity.contains(cpu);
            if is_candidate(last) {
                return Some(last);
            }
            for level in topology.levels() {
                let span = topology.span(last, level);
                if span.contains(&from.index()) && is_candidate(from) {
                    return Some(from);
                }
                if let Some(near) = candidates.ring(&affinity, span, last).next() {
                    return Some(near);
                }
            }
            None
        };
        // A CPU may leave its mask between two reads of it. The search then continues with the next mask.
        self.hints.cpupri.below(prio, &affinity).find_map(nearest)
    }
}
