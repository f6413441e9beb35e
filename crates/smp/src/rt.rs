//! Active balancing of real-time tasks: push, pull, and the choice of a CPU.
//!
//! The aim is that the most important runnable real-time tasks run at any instant, as far as affinities allow. A CPU
//! that cannot run a task at once pushes it to the least important CPU. A CPU that becomes less important pulls. Both
//! are needed, because each side may decide on hints that the other side is just changing: see *publish, then look* in
//! [`crate::machine`].

use crate::cpus::Cpus;
use crate::host::{Controlled, Effects, Moving, kick_if, mark_away};
use crate::mask::Mask;
use crate::sight::Sight;
use crate::sync::{Ordering, fence};
use runyard_engine::attr::RtPrio;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Enqueue, Importance};
use runyard_engine::task::Task;
use runyard_engine::time::Time;

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
        for from in self.sight.hints.pushable.ring(&self.sight.all, 0..n, cpu) {
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
}

impl Sight {
    /// Returns the least important CPU on which a task of priority `prio` could start at once. It prefers a CPU near
    /// the task's last one, or near `from`, the CPU that searches (`find_lowest_rq`).
    pub(crate) fn find_lowest(
        &self,
        task: &Task<impl Sized>,
        prio: RtPrio,
        from: CpuId,
    ) -> Option<CpuId> {
        let (affinity, last) = (&task.attr().affinity, task.cpu());
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
                if let Some(near) = candidates.ring(affinity, span, last).next() {
                    return Some(near);
                }
            }
            None
        };
        // A CPU may leave its mask between two reads of it. The search then continues with the next mask.
        self.hints.cpupri.below(prio, affinity).find_map(nearest)
    }
}
