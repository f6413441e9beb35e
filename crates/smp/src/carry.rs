//! Migration of tasks between run queues: a task is offered, and sent on after a refusal, until a CPU accepts it.
//!
//! The rule is *offer, may be refused* of [`crate::machine`].

use crate::control::{Home, take};
use crate::cpu::{Delta, OneCpu};
use crate::cpus::Cpus;
use crate::host::{Controlled, Effects, Moving, TaskOf, apply_pending, kick_if, mark_away};
use crate::sight::Sight;
use runyard_engine::attr::RtPrio;
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::{Enqueue, Importance};
use runyard_engine::task::Change;
use runyard_engine::time::Time;

/// The number of refusals after which a task goes back to the CPU that it came from.
const MAX_REFUSALS: u8 = 3;

/// The arrival of a task at a CPU that accepted it.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landed {
    pub(crate) on: CpuId,
    /// The change that other CPUs must react to, if the task is real-time.
    delta: Option<Delta>,
}

impl<W: Controlled> Cpus<W> {
    /// Enqueues a carried task on its destination CPU.
    pub fn arrive(&self, now: Time, moving: Moving<W>, fx: &mut impl Effects<W>) {
        match self.land(now, moving, fx) {
            Ok(landed) => self.after_landing(now, landed, fx),
            Err(refused) => self.migrate(now, refused, fx),
        }
    }

    /// Sends a task that cannot stay on `from` to a CPU that accepts it.
    pub(crate) fn migrate_away(
        &self,
        now: Time,
        mut task: TaskOf<W>,
        from: CpuId,
        fx: &mut impl Effects<W>,
    ) {
        apply_pending(&mut task);
        let to = self.select_cpu(now, &task, None);
        self.migrate(now, Moving::new(task, from, to, Enqueue::Moved), fx);
    }

    /// Migrates a task: offers it to one CPU after another until one accepts it or the host carries it.
    pub(crate) fn migrate(&self, now: Time, moving: Moving<W>, fx: &mut impl Effects<W>) {
        if let Some(landed) = self.land_somewhere(now, moving, fx) {
            self.after_landing(now, landed, fx);
        }
    }

    /// Does the same as [`Cpus::migrate`], but leaves the call of [`Cpus::after_landing`] to its caller.
    pub(crate) fn land_somewhere(
        &self,
        now: Time,
        moving: Moving<W>,
        fx: &mut impl Effects<W>,
    ) -> Option<Landed> {
        let mut next = fx.carry(moving);
        loop {
            match self.land(now, next?, fx) {
                Ok(landed) => return Some(landed),
                Err(refused) => next = fx.carry(refused),
            }
        }
    }

    /// Reacts to the arrival of a real-time task.
    pub(crate) fn after_landing(&self, now: Time, landed: Landed, fx: &mut impl Effects<W>) {
        if let Landed { on, delta: Some(delta) } = landed {
            self.react(now, on, delta, fx);
        }
    }

    /// Offers a task to its destination CPU. After a refusal, returns the task with its next destination.
    fn land(
        &self,
        now: Time,
        mut moving: Moving<W>,
        fx: &mut impl Effects<W>,
    ) -> Result<Landed, Moving<W>> {
        apply_pending(&mut moving.task);
        if let Some(left) = moving.task.left_on().filter(|&left| left != moving.to) {
            self.of(left).withdraw(now, &mut moving.task, fx);
        }
        let Moving { task, to, from, why, refusals, pulled } = moving;
        let (offered, delta) = self.of(to).offer(now, task, why, fx);
        kick_if(delta.resched, to, fx);
        if pulled.is_some_and(|prio| delta.importance < Importance::Rt(prio)) {
            // The task was changed on its way, or may no longer run here. The pull passed over other tasks for it, so
            // pull again.
            self.pull(now, to, fx);
        }
        match offered {
            Ok(prio) => Ok(Landed { on: to, delta: prio.map(|_| delta) }),
            Err(task) => {
                if delta.held_back {
                    // A stale hint would otherwise send the task here again and again.
                    self.publish_held_back(now, to, fx);
                }
                let (refusals, pulled) = (refusals + 1, None);
                Err(self.sight.elsewhere(Moving { task, to, from, why, refusals, pulled }))
            }
        }
    }
}

impl<W: Controlled> OneCpu<'_, W> {
    /// Offers a task under the lock, and applies the requests that arrived in the meantime. Returns the task if it may
    /// not stay, else the priority by which CPUs push and pull it.
    fn offer(
        &self,
        now: Time,
        task: TaskOf<W>,
        why: Enqueue,
        fx: &mut impl Effects<W>,
    ) -> (Result<Option<RtPrio>, TaskOf<W>>, Delta) {
        self.change(fx, |rq| {
            let id = task.id;
            let (slot, _) = rq.offer(now, task, why)?;
            let cell = rq.tasks().get(slot).and_then(|task| task.payload.as_ref());
            let cell = cell.expect("an offered task waits here");
            // No other check detects a caller that forgot to mark the task away; see `control`.
            debug_assert_eq!(cell.tag().home(), Home::Away, "{id} was in no run queue");
            cell.tag().enter(id, Home::At(rq.site().cpu(), slot));
            if cell.tag().was_asked_meanwhile()
                && let Some(change) = take(cell)
                && let Some(task) = rq.change(now, slot, change).evicted
            {
                mark_away(&task);
                return Err(task);
            }
            let prio = rq.tasks().get(slot).and_then(|task| task.class().push_prio());
            if prio.is_some() && why == Enqueue::Woken && self.sight.has(Feature::RtPush) {
                let cpu = rq.site().cpu();
                let _ = rq.classes_mut().make_way(slot, |task| {
                    task.class()
                        .push_prio()
                        .is_some_and(|prio| self.sight.find_lowest(task, prio, cpu).is_some())
                });
            }
            Ok(prio)
        })
    }
}

impl Sight {
    /// Chooses the next destination of a refused task. Up to the limit of refusals, that is a CPU whose running task
    /// has a lower priority. After that, it is the CPU where the task came from.
    fn elsewhere<W>(&self, mut moving: Moving<W>) -> Moving<W> {
        let task = &moving.task;
        let target =
            task.class().push_prio().and_then(|prio| self.find_lowest(task, prio, moving.from));
        if let Some(to) = target
            && moving.refusals < MAX_REFUSALS
        {
            (moving.to, moving.why) = (to, Enqueue::Pushed);
            return moving;
        }
        moving.why = Enqueue::Moved;
        let affinity = &task.attr().affinity;
        let usable = |cpu| affinity.contains(cpu) && self.hints.online.contains(cpu);
        let n = self.nr_cpus();
        let first = self.hints.online.ring(affinity, 0..n, CpuId(0)).next();
        match Some(moving.from).filter(|&from| usable(from) && from != moving.to).or(first) {
            Some(to) => moving.to = to,
            None => {
                // None of the task's CPUs is online. As in the kernel, it runs on any CPU rather than not at all.
                let change = Change { affinity: Some(self.all.clone()), ..Change::default() };
                moving.task.apply(change);
                let first = self.hints.online.ring(&self.all, 0..n, CpuId(0)).next();
                moving.to = first.expect("a machine keeps a CPU online");
            }
        }
        moving
    }
}
