//! Threads that do not answer (R-3). A task may block the runtime's signal on its thread, as the idiom of signalfd does.
//! Then nothing stops the thread: its CPU is lost for everybody, and its group's limit does not hold.
//!
//! ```text
//!  HEARS ---> MARKED   the keeper: it was asked, has used 10 ms of CPU time since, its handler has not begun, and the
//!                      kernel says twice that it blocks the signal
//!  MARKED --> DEAF     the keeper has made its nice value 19 and has taken its slot
//!  MARKED --> HEARS    the keeper could not take the slot
//!  DEAF ----> HEARS    the thread: its poll is over, and the signal is unblocked; or its handler has begun
//! ```
//!
//! A deaf thread goes on with its poll without a slot, like one that returns from the kernel: it is charged, and asks for
//! a slot at the end. It has a low nice value if the kernel would give it back the old one, which is tried when the
//! runtime starts. If the kernel refuses that later, the thread hands its slot on as soon as its poll is over, and ends.
//!
//! Its group owes the CPU time of the deaf poll, at most the budget of one period: a group with a limit of 10 % would
//! otherwise stand still for nine times as long as that poll.
//!
//! Rejected:
//!
//! * To read the mask at the end of each poll: a system call for each.
//! * To catch `pthread_sigmask`: programs make the system call too.
//! * To count wall-clock time: a thread without a CPU does not answer either.
//! * To go by CPU time alone: a thread in a long system call answers at its end, and the clock of a virtual CPU goes on
//!   while the host runs something else.
//! * To read the mask once: the signal is blocked as well between the kernel's last instruction before the handler and the
//!   handler's first one, and a virtual CPU may stand still there.
//!
//! Invariant: only the keeper leaves HEARS and MARKED, and only the thread leaves DEAF.

use super::poll::Poll;
use super::thread::Thread;
use crate::os;
use crate::os::signal::Signals;
use crate::os::sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Mutex, Ordering, fence, lock};
use crate::os::threads::LOWEST_NICE;
use crate::registry::Registry;
use crate::task::Job;
use runyard_engine::run_queue::Prev;
use runyard_engine::task::TaskId;
use runyard_engine::time::Nanos;

/// The CPU time after which a thread is deaf that was asked and has not answered. After half of it the keeper asks again
/// and looks at the thread's mask.
const UNANSWERED: Nanos = Nanos::from_millis(10);

/// Stands for no nice value.
const UNCHANGED: i32 = i32::MAX;

mod state {
    pub(super) const HEARS: u32 = 0;
    pub(super) const MARKED: u32 = 1;
    pub(super) const DEAF: u32 = 2;
}

/// A task that a worker was about to poll or to resume when it handed its slot on.
type Handed = (Prev<Job>, Option<TaskId>);

/// Whether a thread answers when it is asked for its CPU.
///
/// Legend of access: `(w)` written by this thread, read by the keeper; `(o)` used by this thread only; `(k)` used by the keeper only; `(a)` as the field
/// says.
#[derive(Debug)]
pub(crate) struct Hearing {
    /// (w) The number of times that it answered: the handler began, or a section ended with a request.
    answers: AtomicU64,
    /// (k)
    silence: Silence,
    /// (a) One of [`state`].
    state: AtomicU32,
    /// (a) The nice value that it had before it was lowered. Written by the keeper while MARKED, by the thread while DEAF.
    nice: AtomicI32,
    /// (a) The task that the owner before it handed on.
    handed: Mutex<Option<Handed>>,
    /// (o) The signals that the thread blocks outside handlers, as far as is known.
    blocked: AtomicU64,
    /// (w) Whether the kernel refused to give it its nice value back.
    is_stuck: AtomicBool,
}

/// What a thread was asked: the number of its answers until then, and when the poll began that it was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    answers: u64,
    poll: u64,
}

/// What the keeper does about a thread that was asked.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Wait,
    Ask,
    Deaf,
}

/// How long a thread has not answered, in its CPU time. Used by the keeper only.
#[derive(Debug)]
struct Silence {
    /// What it was asked; `u64::MAX` answers if nothing.
    answers: AtomicU64,
    poll: AtomicU64,
    /// The CPU time that it had used when it was seen to be asked.
    asked_at: AtomicU64,
    /// The CPU time that it had used when it was first seen to block the signal since; `u64::MAX` if it did not.
    blocked_at: AtomicU64,
}

impl Silence {
    fn new() -> Silence {
        let [answers, blocked_at] = [u64::MAX; 2].map(AtomicU64::new);
        let [poll, asked_at] = [0; 2].map(AtomicU64::new);
        Silence { answers, poll, asked_at, blocked_at }
    }

    /// Notes that the thread is not asked for anything now.
    fn end(&self) {
        self.answers.store(u64::MAX, Ordering::Relaxed);
    }

    /// Notes that the thread is asked and has used this much CPU time.
    fn observe(&self, asked: Asked, used: Nanos, is_blocked: impl FnOnce() -> bool) -> Verdict {
        let before = Asked {
            answers: self.answers.swap(asked.answers, Ordering::Relaxed),
            poll: self.poll.swap(asked.poll, Ordering::Relaxed),
        };
        if before != asked {
            self.asked_at.store(used.0, Ordering::Relaxed);
            self.blocked_at.store(u64::MAX, Ordering::Relaxed);
            return Verdict::Wait;
        }
        let since = |at: &AtomicU64| used.0.saturating_sub(at.load(Ordering::Relaxed));
        let silent = since(&self.asked_at);
        if silent < UNANSWERED.0 / 2 {
            return Verdict::Wait;
        }
        if !is_blocked() {
            self.blocked_at.store(u64::MAX, Ordering::Relaxed);
            if silent >= UNANSWERED.0 {
                self.end();
                return Verdict::Wait;
            }
        } else if self.blocked_at.load(Ordering::Relaxed) == u64::MAX {
            self.blocked_at.store(used.0, Ordering::Relaxed);
        } else if silent >= UNANSWERED.0 && since(&self.blocked_at) >= UNANSWERED.0 / 4 {
            return Verdict::Deaf;
        }
        Verdict::Ask
    }
}

impl Hearing {
    pub(super) fn new() -> Hearing {
        Hearing {
            answers: AtomicU64::new(0),
            silence: Silence::new(),
            state: AtomicU32::new(state::HEARS),
            nice: AtomicI32::new(UNCHANGED),
            handed: Mutex::new(None),
            blocked: AtomicU64::new(0),
            is_stuck: AtomicBool::new(false),
        }
    }

    /// Notes the signals that the thread blocks outside handlers.
    pub(super) fn blocks(&self, blocked: Signals) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }

    /// Returns whether the thread is in the handler of another signal, which may hold a lock or must not be entered
    /// twice (H9): such a handler blocks more signals than its thread.
    pub(super) fn is_in_a_handler(&self, deaf_to: Signals) -> bool {
        // A handler blocks all signals that its thread blocks. So the thread does not block a signal that is not
        // blocked here.
        let usual = self.blocked.load(Ordering::Relaxed) & deaf_to;
        self.blocks(usual);
        deaf_to & !usual != 0
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Prepares for a new thread.
    pub(super) fn begin_anew(&self) {
        self.is_stuck.store(false, Ordering::SeqCst);
    }
}

impl Hearing {
    /// Unblocks the runtime's signal on this thread.
    pub(super) fn listen(&self, thread: &Thread) {
        self.blocks(os::signal::listen_to(thread.crew().preemption().signal));
    }

    /// Notes that this thread answers a request.
    pub(super) fn note_answer(&self) {
        let answers = self.answers.load(Ordering::Relaxed);
        self.answers.store(answers + 1, Ordering::Relaxed);
    }

    /// Notes that the handler has begun: the thread hears, also if it did not before.
    pub(super) fn has_heard(&self, thread: &Thread) {
        self.note_answer();
        if self.is_deaf() {
            self.hear(thread);
        }
    }

    /// Returns whether this thread does not hear requests.
    pub(crate) fn is_deaf(&self) -> bool {
        self.state.load(Ordering::SeqCst) == state::DEAF
    }

    /// Checks a thread that was asked for its CPU and has used this much CPU time by now: asks again if it has not
    /// answered for some time, and marks it as deaf if that has not helped. Called by the keeper.
    pub(super) fn await_answer(
        &self,
        thread: &Thread,
        poll: &Poll,
        registry: &Registry,
        used: Nanos,
    ) {
        let asked = Asked { answers: self.answers.load(Ordering::Relaxed), poll: poll.began().0 };
        match self.silence.observe(asked, used, || cannot_answer(thread)) {
            Verdict::Wait => {}
            // It may have answered before it was seen to be asked, in a section that goes on.
            Verdict::Ask => thread.signal(),
            Verdict::Deaf => self.deafen(thread, poll, registry),
        }
    }

    /// Checks whether this thread answers, which owns a slot, runs a task's code and has used this much CPU time: another
    /// thread may have asked it (`is_rung`), or its own timer. Called by the keeper.
    pub(crate) fn listen_for(
        &self,
        (thread, poll): (&Thread, &Poll),
        registry: &Registry,
        is_rung: bool,
        used: Nanos,
    ) {
        if is_rung || thread.alarm.is_overdue() {
            self.await_answer(thread, poll, registry, used);
        } else {
            self.silence.end();
        }
    }

    fn deafen(&self, thread: &Thread, poll: &Poll, registry: &Registry) {
        let crew = thread.crew();
        let take = || thread.slot().has_spares(1) && thread.loses_slot();
        if self.is_deaf() {
            // It got a slot since, at the end of a section.
            if thread.owns() {
                take();
            }
            return;
        }
        if !self.change(state::HEARS, state::MARKED) {
            return;
        }
        if crew.keeper().may_renice() {
            let before = os::thread::renice(thread.tid(), LOWEST_NICE);
            self.nice.store(before.unwrap_or(UNCHANGED), Ordering::SeqCst);
        }
        // If its poll ends at this moment, it sees that it is marked.
        let is_marked = if thread.owns() { take() } else { poll.is_foreign_for_others() };
        if is_marked {
            crew.keeper().count_deaf(true);
            crew.keeper().note_first_deaf(|| Some((thread.tid(), poll.cell(registry)?)));
            self.state.store(state::DEAF, Ordering::SeqCst);
            crew.maker().call();
        } else {
            crew.maker().order();
            self.give_nice_back(thread);
            self.state.store(state::HEARS, Ordering::SeqCst);
        }
    }

    /// Gives this thread its nice value back, unless its task has changed that.
    fn give_nice_back(&self, thread: &Thread) {
        let before = self.nice.swap(UNCHANGED, Ordering::SeqCst);
        if before == UNCHANGED || os::thread::nice(thread.tid()) != Some(LOWEST_NICE) {
            return;
        }
        if os::thread::renice(thread.tid(), before).is_none() {
            self.is_stuck.store(true, Ordering::SeqCst);
        }
    }

    /// Notes that this thread hears again. Called by the thread.
    fn hear(&self, thread: &Thread) {
        if self.change(state::DEAF, state::HEARS) {
            self.give_nice_back(thread);
            thread.crew().keeper().count_deaf(false);
        }
    }

    /// Unblocks the signal at the end of a poll in which this thread was deaf. Returns whether it was.
    pub(super) fn mend(&self, thread: &Thread) -> bool {
        // Pairs with the keeper's mark and its question whether the thread is in a poll.
        fence(Ordering::SeqCst);
        while self.state.load(Ordering::SeqCst) == state::MARKED {
            std::thread::yield_now();
        }
        let was_deaf = self.is_deaf();
        if was_deaf {
            self.listen(thread);
            self.hear(thread);
        }
        was_deaf
    }

    /// Returns whether the thread cannot have its nice value back: then it ends.
    #[inline]
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// Hands the task on to the thread, which gets the slot next.
    pub(super) fn hand(&self, next: Option<(TaskId, Job)>) {
        let handed = match next {
            Some((id, job)) => (Prev::Preempted(job), Some(id)),
            None => (Prev::Idle, None),
        };
        *lock(&self.handed) = Some(handed);
    }

    /// Returns the task that the owner before this worker handed on, if it did.
    pub(super) fn take_handed(&self) -> Option<Handed> {
        lock(&self.handed).take()
    }
}

/// Returns whether the signal does not reach the handler of this thread. Without `/proc` the missing answer has to do as
/// the sign.
fn cannot_answer(thread: &Thread) -> bool {
    let signal = thread.crew().preemption().signal;
    os::thread::blocks_signal(thread.tid(), signal) != Some(false) || !os::signal::is_ours(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked { answers: 3, poll: 7 };

    /// Returns the verdicts about a thread that is looked at each millisecond of its CPU time, from 1 ms on.
    fn verdicts(silence: &Silence, blocks: impl Fn(u64) -> bool, until: u64) -> Vec<Verdict> {
        let look = |ms| silence.observe(ASKED, Nanos::from_millis(ms), || blocks(ms));
        (1..=until).map(look).collect()
    }

    #[test]
    fn a_thread_that_blocks_the_signal_is_deaf_after_ten_milliseconds() {
        let silence = Silence::new();
        let verdicts = verdicts(&silence, |_| true, 11);
        assert_eq!(verdicts[..5], [const { Verdict::Wait }; 5]);
        assert_eq!(verdicts[5..10], [const { Verdict::Ask }; 5]);
        assert_eq!(verdicts[10], Verdict::Deaf);
    }

    /// Seen failing: a thread in a long system call was deaf if the keeper read its mask just before its handler began.
    #[test]
    fn a_thread_that_blocks_the_signal_at_one_look_is_not_deaf() {
        for moment in 6..30 {
            let silence = Silence::new();
            let verdicts = verdicts(&silence, |ms| ms == moment, 40);
            assert!(!verdicts.contains(&Verdict::Deaf), "{moment} ms: {verdicts:?}");
        }
    }

    /// Seen failing: two looks were enough, however near to each other.
    #[test]
    fn two_looks_in_one_moment_are_no_two_looks() {
        let silence = Silence::new();
        verdicts(&silence, |_| false, 10);
        let look = |us| silence.observe(ASKED, Nanos::from_micros(us), || true);
        assert!((10_900..13_300).step_by(50).map(look).all(|verdict| verdict != Verdict::Deaf));
    }

    #[test]
    fn an_answer_and_another_poll_begin_a_silence_anew() {
        for asked in [Asked { answers: 4, ..ASKED }, Asked { poll: 8, ..ASKED }] {
            let silence = Silence::new();
            verdicts(&silence, |_| true, 10);
            assert_eq!(silence.observe(asked, Nanos::from_millis(11), || true), Verdict::Wait);
        }
        let silence = Silence::new();
        verdicts(&silence, |_| true, 10);
        silence.end();
        assert_eq!(silence.observe(ASKED, Nanos::from_millis(11), || true), Verdict::Wait);
    }
}
