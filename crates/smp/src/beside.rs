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
use crate::host::{Controlled, Effects, Moving, kick_if, mark_away, mark_released};
use crate::machine::{Delta, Machine};
use crate::sync::lock;
use runyard_engine::attr::Cookie;
use runyard_engine::cpu::CpuId;
use runyard_engine::group::Groups;
use runyard_engine::run_queue::{Enqueue, Prev, Switch};
use runyard_engine::task::Task;
use runyard_engine::time::Time;
use runyard_engine::topology::Level;

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
    /// Returns the cookie that forces `cpu` to idle, if it is forced idle. In that case tasks wait on `cpu` while its
    /// core runs tasks with this cookie, or tasks without a cookie.
    #[must_use]
    pub fn forced_idle(&self, cpu: CpuId) -> Option<Option<Cookie>> {
        self.cores.as_ref()?;
        self.inspect(cpu, |rq| rq.classes().forced_idle())
    }

    /// Switches the run queue of `cpu`, a thread of a core with core scheduling.
    #[cold]
    #[inline(never)]
    pub(crate) fn switch_beside(
        &self,
        now: Time,
        cpu: CpuId,
        prev: Prev<W>,
        fx: &mut impl Effects<W>,
    ) -> (Switch<W>, Delta) {
        let cores = self.cores.as_ref().expect("the threads of a core decide together");
        let one = cores.of(cpu);
        let mut errands = Errands::default();
        let mut locked = lock(&one.decision);
        let decision = &mut *locked;
        for (sibling, offer) in cores.siblings(cpu).zip(&mut decision.others) {
            let core = &decision.core;
            let (_, delta) = self.with(sibling, fx, |rq| rq.at(now).offer_beside(core, offer));
            errands.push(sibling, delta);
        }
        let decisions = decision.core.decisions();
        let ((switch, mut forced), delta) = self.with(cpu, fx, |rq| {
            let switch = rq.schedule_beside(now, prev, decision);
            mark_released(&switch);
            (switch, rq.classes().forced_idle().is_some())
        });
        let core = &mut decision.core;
        let decided = core.decisions() > decisions;
        for sibling in cores.siblings(cpu) {
            let (heeded, delta) = self.with(sibling, fx, |rq| rq.classes_mut().heed(core, decided));
            forced |= heeded.forced;
            if let Some(by) = heeded.news {
                fx.forced_idle(sibling, by);
            }
            errands.push(sibling, delta);
        }
        let changes = core.is_in_episode() != forced;
        core.note_forced(forced);
        if changes && self.config.tickless {
            for thread in cores.threads_beside(cpu) {
                // Only the time of the thread's timer interrupt changes, so there is nothing to react to.
                let _ = self.with(thread, fx, |rq| rq.note_episode(now, forced));
            }
        }
        let word = Word { runs: core.runs(), in_episode: core.is_in_episode() };
        one.publish(word);
        drop(locked);
        for (sibling, delta) in errands.into_iter() {
            kick_if(delta.resched, sibling, fx);
            self.react(now, sibling, delta, fx);
        }
        (switch, delta)
    }

    /// Brings a waiting task to `cpu`, which is forced idle, from the nearest CPU that has a task with the cookie of
    /// the core (`sched_core_balance`). Returns whether there is one.
    #[cold]
    #[inline(never)]
    pub(crate) fn steal(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        let Some(cookie) = self.forced_idle(cpu) else { return false };
        self.config.topology.levels().any(|level| {
            let span = self.config.topology.span(cpu, level);
            let mut waiting = self.hints.overloaded.ring(&self.all, span, cpu);
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
            self.detach(from, fx, |rq| rq.at(now).take_beside(to, cookie).inspect(mark_away));
        kick_if(resched, from, fx);
        let Some(task) = taken else { return false };
        self.migrate(now, Moving::new(task, from, to, Enqueue::Moved), fx);
        true
    }

    /// Returns the cookie of a task: its own, or that of its group.
    pub(crate) fn cookie_of(&self, task: &Task<W>) -> Option<Cookie> {
        self.cores.as_ref()?;
        self.groups.cookie_of(task.attr())
    }

    /// Returns the cookie that the core of `cpu` runs, if core scheduling is on and some thread of the core is busy. It
    /// is a hint, read without the core's lock.
    #[must_use]
    pub fn core_runs(&self, cpu: CpuId) -> Option<Option<Cookie>> {
        let runs = self.cores.as_ref()?.word(cpu).runs?;
        let is_idle = |thread| self.hints.idle.contains(CpuId::at(thread));
        let idles = self.config.topology.span(cpu, Level::Smt).all(is_idle);
        (!idles).then_some(runs)
    }

    /// Returns whether a task with this cookie could run beside the tasks of the core of `cpu`
    /// (`sched_core_cookie_match`).
    pub(crate) fn suits_core(&self, cpu: CpuId, cookie: Option<Cookie>) -> bool {
        self.core_runs(cpu).is_none_or(|runs| runs == cookie)
    }

    /// Returns whether a task with this cookie that waits on `from` gains from a move to `to`, which is idle. It gains
    /// if it would run at once or would wait among fewer tasks.
    pub(crate) fn gains_at(&self, to: CpuId, from: CpuId, cookie: Option<Cookie>) -> bool {
        let on_core = |cpu| {
            let threads = self.config.topology.span(cpu, Level::Smt).map(CpuId::at);
            threads.map(|thread| self.hints.counts(thread).nr_fair).sum::<u32>()
        };
        self.suits_core(to, cookie) || on_core(to) + 1 < on_core(from)
    }
}
