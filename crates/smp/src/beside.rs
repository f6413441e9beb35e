//! Core scheduling: in machines with [cookies](runyard_engine::config::Config::cookies), a switch of a hardware thread
//! is a decision of its core ([`runyard_engine::core`]).
//!
//! Only [`Machine::schedule`] switches tasks. Each core has a lock, which a switch takes *before* any run-queue lock,
//! so the switches of a core happen one after another. A switch has three steps. The thread asks its siblings for their
//! best tasks, with one run-queue lock at a time. It decides under its own run-queue lock. Then it passes the
//! consequence to each sibling, again with one lock at a time. The lock order is core, run queue, leaf, with at most
//! one lock of each kind.
//!
//! The answer of a sibling may be stale when the decision is made. The sibling cannot switch in the meantime, since
//! that needs the core's lock. Any other change of its queue sets `resched` and sends a kick, so that sibling decides
//! next. A decision does not wait for the siblings that it kicks. Such a sibling runs its task until its kick arrives.

use crate::cores::Word;
use crate::cpu::Delta;
use crate::cpus::Cpus;
use crate::host::{Controlled, Effects, Moving, kick_if, mark_away, mark_released};
use crate::machine::Machine;
use crate::sync::{Mutex, lock};
use runyard_engine::attr::Cookie;
use runyard_engine::core::Decision;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Enqueue, Prev, Switch};
use runyard_engine::time::Time;

/// The work that visits to the threads of a core leave for after the release of the core's lock. Cores of up to eight
/// threads need no allocation.
#[derive(Debug, Default)]
struct Errands {
    few: [Option<(CpuId, Delta)>; 14],
    nr: usize,
    more: Vec<(CpuId, Delta)>,
}

impl Errands {
    fn push(&mut self, cpu: CpuId, delta: Delta) {
        match self.few.get_mut(self.nr) {
            Some(place) => *place = Some((cpu, delta)),
            None => self.more.push((cpu, delta)),
        }
        self.nr += 1;
    }

    fn into_iter(self) -> impl Iterator<Item = (CpuId, Delta)> {
        self.few.into_iter().flatten().chain(self.more)
    }
}

impl<W: Controlled> Machine<W> {
    /// Switches the run queue of `cpu`, a thread of a core with core scheduling. `decision` is that of the core.
    #[cold]
    #[inline(never)]
    pub(crate) fn switch_beside(
        &self,
        decision: &Mutex<Decision>,
        (now, cpu): (Time, CpuId),
        prev: Prev<W>,
        fx: &mut impl Effects<W>,
    ) -> (Switch<W>, Delta) {
        let cores = self.sight().cores.as_ref().expect("the threads of a core decide together");
        let mut errands = Errands::default();
        let mut locked = lock(decision);
        let decision = &mut *locked;
        for (sibling, offer) in cores.siblings(cpu).zip(&mut decision.others) {
            let core = &decision.core;
            let (_, delta) =
                self.cpu(sibling).change(fx, |rq| rq.at(now).offer_beside(core, offer));
            errands.push(sibling, delta);
        }
        let decisions = decision.core.decisions();
        let ((switch, mut forced), delta) = self.cpu(cpu).switch(fx, |rq| {
            let switch = rq.schedule_beside(now, prev, decision);
            mark_released(&switch);
            (switch, rq.classes().forced_idle().is_some())
        });
        let core = &mut decision.core;
        let decided = core.decisions() > decisions;
        for sibling in cores.siblings(cpu) {
            let (heeded, delta) =
                self.cpu(sibling).change(fx, |rq| rq.classes_mut().heed(core, decided));
            forced |= heeded.forced;
            if let Some(by) = heeded.news {
                fx.forced_idle(sibling, by);
            }
            errands.push(sibling, delta);
        }
        let changes = core.is_in_episode() != forced;
        core.note_forced(forced);
        if changes && self.config().tickless {
            for thread in cores.threads_beside(cpu) {
                // Only the time of the thread's timer interrupt changes, so there is nothing to react to.
                let _ = self.cpu(thread).change(fx, |rq| rq.note_episode(now, forced));
            }
        }
        cores.publish(cpu, Word { runs: core.runs(), in_episode: core.is_in_episode() });
        drop(locked);
        for (sibling, delta) in errands.into_iter() {
            kick_if(delta.resched, sibling, fx);
            self.cpus.react(now, sibling, delta, fx);
        }
        (switch, delta)
    }
}

impl<W: Controlled> Cpus<W> {
    /// Brings a waiting task to `cpu`, which is forced idle, from the nearest CPU that has a task with the cookie of
    /// the core (`sched_core_balance`). Returns whether there is one.
    #[cold]
    #[inline(never)]
    pub(crate) fn steal(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        let Some(cookie) = self.of(cpu).forced_idle() else { return false };
        self.sight.config.topology.levels().any(|level| {
            let span = self.sight.config.topology.span(cpu, level);
            let mut waiting = self.sight.hints.overloaded.ring(&self.sight.all, span, cpu);
            waiting.any(|from| from != cpu && self.steal_from(now, (from, cpu), cookie, fx))
        })
    }

    fn steal_from(
        &self,
        now: Time,
        (from, to): (CpuId, CpuId),
        cookie: Option<Cookie>,
        fx: &mut impl Effects<W>,
    ) -> bool {
        let (taken, resched) =
            self.of(from).detach(fx, |rq| rq.at(now).take_beside(to, cookie).inspect(mark_away));
        kick_if(resched, from, fx);
        let Some(task) = taken else { return false };
        self.migrate(now, Moving::new(task, from, to, Enqueue::Moved), fx);
        true
    }
}
