//! The state that a run queue keeps for its core, of which its CPU is a hardware thread
//! ([`crate::core`]).

use crate::attr::Cookie;
use crate::core::Decision;
use crate::fair::beside::Snapshot;
use crate::store::heap::Index;
use crate::time::Nanos;

/// A hardware thread of a core.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Snapshots of the virtual clocks, by fair queue.
    snapshots: Vec<Snapshot>,
    /// Whether the last offer to the core is still valid.
    told: bool,
    /// The task of the last offer to the core.
    offered: Option<Index>,
    /// The cookie of the core, by the last decision that this queue knows of.
    runs: Option<Option<Cookie>>,
    /// This queue's own choice, if the core decided otherwise.
    kept_off: Option<Index>,
    /// The cookie for which the CPU is forced idle, if it is.
    forced: Option<Option<Cookie>>,
    /// The decision of another thread for this one, if nothing that matters has happened here
    /// since.
    called: Option<Call>,
    /// The data by which the core decides, while this thread switches.
    decision: Decision,
    /// CPU time that the running task had used in its life when it was picked after another one.
    ran_before: Nanos,
    /// On a tickless machine: whether a thread of the core is forced idle. A tick ends that.
    ticks: bool,
}

/// The decision of another thread for this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Whether a task that waits or runs here has the cookie.
    pub(super) runs: bool,
}

impl Thread {
    /// Makes room for this many fair queues. Allocates.
    pub(super) fn grow(&mut self, queues: usize) {
        self.snapshots.reserve_exact(queues.saturating_sub(self.snapshots.len()));
    }

    pub(super) fn snapshots_mut(&mut self) -> &mut Vec<Snapshot> {
        &mut self.snapshots
    }

    #[inline]
    pub(super) fn kept_off(&self) -> Option<Index> {
        self.kept_off
    }

    #[inline]
    pub(super) fn forced(&self) -> Option<Option<Cookie>> {
        self.forced
    }

    /// Exchanges the data by which the core decides.
    pub(super) fn swap_decision(&mut self, decision: &mut Decision) {
        std::mem::swap(&mut self.decision, decision);
    }

    pub(super) fn take_decision(&mut self) -> Decision {
        std::mem::take(&mut self.decision)
    }

    pub(super) fn take_call(&mut self) -> Option<Call> {
        self.called.take()
    }

    /// Notes the offer of a task, or of none.
    pub(super) fn offers(&mut self, best: Option<Index>) {
        (self.offered, self.told) = (best, true);
    }

    /// Notes the cookie of the core, and the task that is kept off because of it.
    pub(super) fn chose(&mut self, runs: Option<Option<Cookie>>, kept_off: Option<Index>) {
        (self.runs, self.kept_off) = (runs, kept_off);
    }

    /// Notes the decision, by which this thread has a task or none. Returns whether it is forced
    /// idle.
    pub(super) fn decided(&mut self, has_task: bool, decision: Decision) -> bool {
        let waits = !has_task && self.kept_off.is_some();
        self.forced = if waits { decision.core.runs() } else { None };
        self.decision = decision;
        self.forced.is_some()
    }

    /// Notes that a task was picked after another one, with the CPU time of its life.
    pub(super) fn begins(&mut self, runtime: Nanos) {
        self.ran_before = runtime;
    }

    /// Returns the CPU time since then.
    pub(super) fn ran(&self, runtime: Nanos) -> Nanos {
        runtime.saturating_sub(self.ran_before)
    }

    /// Notes whether a thread of the core is forced idle.
    pub(super) fn note_episode(&mut self, lasts: bool) {
        self.ticks = lasts;
    }

    /// Returns whether a thread of the core is forced idle, on a tickless machine.
    #[inline]
    pub(super) fn ticks(&self) -> bool {
        self.ticks
    }

    /// Returns whether another thread decided that a task of this cookie runs here next.
    pub(super) fn will_run(&self, cookie: Option<Cookie>) -> bool {
        self.called == Some(Call { runs: true }) && self.runs == Some(cookie)
    }

    pub(super) fn decide_anew(&mut self) {
        (self.called, self.told) = (None, false);
    }

    /// Forgets a task that left. Returns whether it was kept off, and whether it was offered.
    pub(super) fn lose(&mut self, at: Index) -> (bool, bool) {
        let was_kept_off = self.kept_off == Some(at);
        if was_kept_off {
            self.kept_off = None;
        }
        let was_offered = self.offered == Some(at);
        if was_offered {
            self.decide_anew();
        }
        (was_kept_off, was_offered)
    }

    /// Notes that a task with this cookie came. `due` says whether another reason has this thread
    /// decide.
    pub(super) fn meet(&mut self, cookie: Option<Cookie>, due: bool) {
        let fits = self.forced.is_some() && self.runs == Some(cookie);
        let follows = fits && (self.called.is_some() || !due);
        (self.called, self.told) = (follows.then_some(Call { runs: true }), false);
    }

    /// Notes the decision of another thread for the core: `stays` says whether the running task,
    /// if there is one, has its cookie, and `can` whether any task does. `due` says whether a switch
    /// is due. Returns whether this thread has to switch, and the other cookie for which it is forced
    /// idle now.
    pub(super) fn heed(
        &mut self,
        runs: Option<Option<Cookie>>,
        (stays, can): (Option<bool>, bool),
        due: bool,
    ) -> (bool, Option<Option<Cookie>>) {
        self.runs = runs;
        // If this CPU has no task, that thread knows the result of a switch that is due here. If it
        // has a task, that thread does not. In both cases it does not know of events since it
        // asked.
        let called = match stays {
            Some(stays) => !stays && (self.called.is_some() || !due),
            None => can || due,
        };
        self.called = (called && self.told).then_some(Call { runs: can });
        let mut news = None;
        if let Some(by) = &mut self.forced
            && !called
            && let Some(runs) = runs.filter(|runs| runs != by)
        {
            *by = runs;
            news = Some(runs);
        }
        (called, news)
    }
}
