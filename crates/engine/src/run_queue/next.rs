//! What a run queue knows of its next switch: whether it is due, and for whom.

use crate::attr::Cookie;
use crate::cpu::CpuId;
use crate::run_queue::switch::Resched;
use crate::run_queue::thread::Thread;
use crate::store::heap::Index;

/// The next switch of a CPU.
#[derive(Debug)]
pub(super) struct NextSwitch {
    due: Resched,
    /// The CPU that gets the running task then.
    given: Option<CpuId>,
    /// The part of the core in it, on a machine with core scheduling.
    thread: Option<Box<Thread>>,
}

impl NextSwitch {
    pub(super) fn new(has_core: bool) -> NextSwitch {
        NextSwitch { due: Resched::No, given: None, thread: has_core.then(Box::default) }
    }

    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due.is_due()
    }

    #[inline]
    pub(super) fn resched(&self) -> Resched {
        self.due
    }

    /// Asks for a switch.
    #[inline]
    pub(super) fn ask(&mut self, due: bool) {
        if due {
            self.due = Resched::Yes;
        }
    }

    /// Asks for a switch from one fair task to another, which [may wait](Resched::Lazy).
    #[inline]
    pub(super) fn ask_lazily(&mut self, due: bool) {
        if due {
            self.ask_for(Resched::Lazy);
        }
    }

    /// Asks for a switch as soon as `due` says.
    #[inline]
    pub(super) fn ask_for(&mut self, due: Resched) {
        self.due = self.due.max(due);
    }

    /// Asks for a switch because the last decision of the core did not know of a change here: this
    /// CPU does not follow that decision.
    #[inline]
    pub(super) fn ask_anew(&mut self, due: bool) {
        if due {
            self.due = Resched::Yes;
            self.decide_anew();
        }
    }

    /// Makes the next switch decide, instead of following the last decision of the core.
    #[cold]
    #[inline(never)]
    pub(super) fn decide_anew(&mut self) {
        if let Some(thread) = &mut self.thread {
            thread.decide_anew();
        }
    }

    /// Notes that a task is picked now.
    #[inline]
    pub(super) fn done(&mut self) {
        self.due = Resched::No;
    }

    /// Gives the running task to another CPU then.
    pub(super) fn give(&mut self, to: CpuId) {
        (self.given, self.due) = (Some(to), Resched::Yes);
    }

    #[inline]
    pub(super) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    #[inline]
    pub(super) fn take_given(&mut self) -> Option<CpuId> {
        self.given.take()
    }

    /// Returns whether the CPU is a thread of a core that decides for all its threads.
    #[inline]
    pub(super) fn has_core(&self) -> bool {
        self.thread.is_some()
    }

    #[inline]
    pub(super) fn thread(&self) -> Option<&Thread> {
        self.thread.as_deref()
    }

    /// Returns the part of the core, which must be there.
    #[inline]
    pub(super) fn thread_mut(&mut self) -> &mut Thread {
        self.thread.as_mut().expect("this CPU indexes its tasks by cookie")
    }

    /// Makes room for this many fair queues. Allocates.
    pub(super) fn grow(&mut self, queues: usize) {
        if let Some(thread) = &mut self.thread {
            thread.grow(queues);
        }
    }

    /// Returns the cookie for which the CPU is forced idle, if it is.
    #[inline]
    pub(super) fn forced_idle(&self) -> Option<Option<Cookie>> {
        self.thread().and_then(Thread::forced)
    }

    /// Returns whether the core keeps this queue's own choice off the CPU.
    #[inline]
    pub(super) fn is_kept_off(&self) -> bool {
        self.thread().is_some_and(|it| it.kept_off().is_some() || it.forced().is_some())
    }

    /// Notes that a task left. If the core decided by that task, or it was this queue's own choice,
    /// a new decision is due. A CPU that is forced idle and has no more tasks also needs a switch.
    #[cold]
    pub(super) fn note_loss(&mut self, at: Index, runs: bool, waits: bool) {
        let (was_kept_off, was_offered) = self.thread_mut().lose(at);
        let was_forced = !runs && self.forced_idle().is_some();
        let is_last = was_forced && (was_offered || !waits);
        self.ask(was_kept_off || is_last);
    }

    /// Notes that a task with this cookie came and waits. If it fits the tasks of the core, it is no
    /// reason for another decision on a CPU that is forced idle: it came to run beside them. A
    /// switch that is due for another reason decides.
    #[cold]
    pub(super) fn note_arrival(&mut self, cookie: Option<Cookie>, boosted: bool) {
        // A task with an inherited priority may prevent the throttling of the others.
        let due = self.is_due() || boosted;
        self.thread_mut().meet(cookie, due);
    }
}
