//! What the limits on one CPU have to tell to the machine.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::limits::{Throttled, Throttling};

/// The news of one CPU.
#[derive(Debug, Default)]
pub struct News {
    /// CPUs that wait for budget that was given back, each with the group.
    refilled: Vec<(CpuId, GroupId)>,
    throttlings: Vec<Throttling>,
    /// Whether a timer of a group's bandwidth was set here.
    timer_set: bool,
    /// Whether there is any of these.
    is_any: bool,
}

impl News {
    /// Makes room for the news of this many queues. Allocates.
    pub(crate) fn grow(&mut self, queues: usize) {
        self.refilled.reserve(queues.saturating_sub(self.refilled.len()));
        // Each group may begin and end; for real-time tasks there is one of the two.
        self.throttlings.reserve((2 * queues + 1).saturating_sub(self.throttlings.len()));
    }

    pub(crate) fn note(&mut self, throttling: Throttling) {
        self.throttlings.push(throttling);
        self.is_any = true;
    }

    /// Notes real-time throttling before that of groups: the budget of real-time tasks ends before
    /// a group draws its own.
    pub(crate) fn note_rt(&mut self, begins: bool) {
        self.throttlings.insert(0, Throttling { what: Throttled::RealTime, begins });
        self.is_any = true;
    }

    /// Notes a CPU that waits for the available budget of a group.
    pub(crate) fn note_waiting(&mut self, waiting: CpuId, group: GroupId) {
        let news = (waiting, group);
        if !self.refilled.contains(&news) {
            self.refilled.push(news);
        }
        self.is_any = true;
    }

    /// Notes that a timer of a group's bandwidth was set here, so that the next interrupt may be due
    /// earlier.
    pub(crate) fn note_timer(&mut self) {
        self.timer_set = true;
        self.is_any = true;
    }

    fn renew(&mut self) {
        self.is_any = !self.refilled.is_empty() || !self.throttlings.is_empty() || self.timer_set;
    }

    /// Returns whether [`News::take_refilled`], [`News::take_timer`] or [`News::drain_throttlings`]
    /// has any result.
    #[inline]
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.is_any
    }

    /// Takes a CPU that waits for budget that this one gave back, and the group. The caller repeats
    /// this until it gets `None`, after each call that may switch.
    pub fn take_refilled(&mut self) -> Option<(CpuId, GroupId)> {
        let news = self.refilled.pop();
        self.renew();
        news
    }

    /// Returns whether a timer of a group's bandwidth was set since the last call. The caller does
    /// this after each call that changes the queue, as another CPU's wake-up may set one here.
    pub fn take_timer(&mut self) -> bool {
        let set = std::mem::take(&mut self.timer_set);
        self.renew();
        set
    }

    /// Calls `tell` with each group that was throttled or unthrottled since the last call, in
    /// order. The caller does this after each call that changes the queue, and after
    /// [`RunQueue::expire`](crate::run_queue::RunQueue::expire) returned `None`.
    pub fn drain_throttlings(&mut self, tell: impl FnMut(Throttling)) {
        self.throttlings.drain(..).for_each(tell);
        self.renew();
    }
}
