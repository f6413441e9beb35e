//! The choice of the next task of a CPU.
//!
//! The run queue makes the choice. This file handles the tasks that leave the queue in the meantime, and finds work for
//! a CPU that would be idle. It repeats both until the choice is stable. A chosen task that may only run to its return to
//! user mode asks for the next switch at once ([`Effects::kick_in_user_mode`]).

use crate::cpu::Delta;
use crate::host::{Controlled, Effects, Moving, mark_released};
use crate::machine::Machine;
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::{Enqueue, Prev, Released, Resched, Switch};
use runyard_engine::time::Time;

impl<W: Controlled> Machine<W> {
    /// Chooses the next task of `cpu`, and returns the task that left it for good. A task that may not stay on this CPU
    /// is sent to another. An idle CPU looks for work before it goes idle.
    pub fn schedule(
        &self,
        now: Time,
        cpu: CpuId,
        prev: Prev<W>,
        fx: &mut impl Effects<W>,
    ) -> Switch<W> {
        let newly = !matches!(prev, Prev::Idle);
        let mut prev = prev;
        let mut kept = None;
        loop {
            let (Switch { next, released }, delta) = self.switch(now, cpu, prev, fx);
            let mut reacted = false;
            match released {
                Some((task, Released::Evicted)) => {
                    reacted = true;
                    self.cpus.migrate_away(now, task, cpu, fx);
                }
                Some((task, Released::MoveTo(to))) => {
                    reacted = true;
                    self.cpus.migrate(now, Moving::new(task, cpu, to, Enqueue::Moved), fx);
                }
                Some(gone) => kept = Some(gone),
                None => {}
            }
            reacted |= self.cpus.react(now, cpu, delta, fx);
            if next.is_none() && self.sight().has(Feature::LoadBalance) {
                let forced = self.decisions.is_some() && self.cpu(cpu).forced_idle().is_some();
                reacted |= match forced {
                    true => self.cpus.steal(now, cpu, fx),
                    false => self.cpus.balance_without_work(now, cpu, newly, fx),
                };
            }
            // The reaction may have brought a task here that must run first.
            let resched = self.resched_after(cpu, delta, reacted);
            if resched == Resched::InUserMode {
                fx.kick_in_user_mode(cpu);
            } else if reacted && resched.is_due() {
                prev = next.map_or(Prev::Idle, |(_, payload)| Prev::Preempted(payload));
                continue;
            }
            return Switch { next, released: kept };
        }
    }

    /// Returns whether another switch is due after one and the reaction to it.
    #[inline]
    fn resched_after(&self, cpu: CpuId, delta: Delta, reacted: bool) -> Resched {
        if reacted { self.cpu(cpu).resched() } else { delta.resched }
    }

    #[inline(always)]
    fn switch(
        &self,
        now: Time,
        cpu: CpuId,
        prev: Prev<W>,
        fx: &mut impl Effects<W>,
    ) -> (Switch<W>, Delta) {
        if let Some(decisions) = &self.decisions {
            return self.switch_beside(decisions.of(cpu), (now, cpu), prev, fx);
        }
        self.cpu(cpu).switch(fx, |rq| {
            let switch = rq.schedule(now, prev);
            mark_released(&switch);
            switch
        })
    }
}
