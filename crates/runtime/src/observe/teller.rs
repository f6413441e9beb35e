//! The teller: the thread of the runtime that calls the observer.
//!
//! An observer is foreign code: it may wait for the lock of a stopped task, or take long. So no other thread calls it.
//! Events are written into the book, a buffer, under a leaf lock. While that lock is held nothing is locked, allocated
//! or freed, and no foreign code is called. The clock is read under the lock, so events are in the order of their
//! times.
//!
//! ```text
//!  any thread  writes its event into the book; the first one wakes the teller, which gathers for ten milliseconds
//!  teller      takes the whole book, leaves an empty one, and calls the observer for each event
//!  flush       makes the teller stop gathering, and waits until the events in the book have been delivered
//! ```
//!
//! A thread that finds the book full waits for the teller, until at most a second after the book became full. After
//! that, events are lost until the teller takes the book, which is reported once. Threads of the runtime that serve
//! workers never wait, and neither does a thread with a lock of the runtime. The book has a reserve for their events.
//!
//! The keeper observes the waits of the teller. While the teller has nothing to do, it waits with the mark `OURS`, as
//! all threads of runtimes do. While it is in the observer, it is a thread that is not a worker
//! ([`crate::crew::foreign`]), for which stopped tasks are resumed. So a worker that waits for the teller is no reason
//! to resume stopped tasks.
//!
//! Rejected: a book for each CPU. The teller would have to merge the books by time, and could not deliver the last
//! events of one before each other book had reported that it has no earlier ones.
//!
//! Invariants: an event is delivered once or lost, and events are delivered in the order of their times; one thread
//! calls the observer, with no lock of the runtime held; events that were written before a flush have been delivered
//! when the flush returns, unless the observer takes longer than [`PATIENCE_OF_FLUSH`] for one event.

use crate::observe::Observer;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::harmless::harmless;
use crate::os::here;
use crate::os::here::BEGIN;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::os::threads;
use crate::shared::Scheduler;
use crate::task::Job;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::TaskOf;
use std::mem;
use std::thread::{self, JoinHandle};

/// Number of events that fit into the book: those of some milliseconds in which all CPUs do nothing but switch.
const ROOM: usize = 1 << 16;

/// Number of further events from threads that must not wait.
const RESERVE: usize = 1 << 10;

/// Time for which the teller gathers events after the first one, because each time that it runs it takes a CPU from a
/// worker for a moment. With 1 ms, wake-ups on a busy machine took 120 us at the median instead of 35 us. With this
/// value there was no measurable effect.
const GATHERS: Nanos = Nanos::from_millis(10);

/// Time for which other threads wait for the teller after the book became full.
const PATIENCE: Nanos = Nanos::from_millis(1_000);

/// Time for which a flush waits for the end of one event.
const PATIENCE_OF_FLUSH: Nanos = Nanos::from_millis(10_000);

/// The state of the teller.
#[derive(Debug)]
pub(crate) struct Teller {
    observer: Arc<dyn Observer>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Zero point of the times of events.
    epoch: Time,
    book: Mutex<Book>,
    /// Futex on which the teller waits. It changes when the teller is woken.
    bed: AtomicU32,
    /// Futex on which other threads wait for the teller. It changes when the teller has taken the book, and when it has
    /// delivered the events in it.
    turns: AtomicU32,
    /// Number of events delivered.
    nr_told: AtomicU64,
    /// `loses`: whether events were ever lost. `said`: whether that was reported.
    loses: AtomicBool,
    said: AtomicBool,
}

/// The buffer of events that the teller has not taken yet.
#[derive(Debug)]
struct Book {
    /// The events. The vector has its full capacity from the start.
    events: Vec<Event>,
    /// Number of events ever written.
    nr_written: u64,
    rest: Rest,
    /// Set when the teller must not gather any longer.
    hurries: bool,
    /// Time at which the book became full, if it is full.
    full_since: Option<Time>,
    /// Set when no thread may wait for the teller.
    is_alone: bool,
    /// Set when the runtime is over. The events in the book are then the last.
    ends: bool,
    /// Set when no more events are accepted.
    closed: bool,
}

/// The reason why the teller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    /// It waits for the first event.
    Idle,
    /// It gathers events until its time is over, or until it must hurry.
    Gathers,
}

/// The book is full. The caller may wait for the turn after `turn`, at most until `until`.
#[derive(Clone, Copy, Debug)]
struct Full {
    turn: u32,
    until: Time,
}

impl Book {
    /// Ends the wait of the teller, if it has work. Returns whether it has to be woken.
    fn rouse(&mut self, bed: &AtomicU32) -> bool {
        let rests = match self.rest {
            Rest::None => false,
            Rest::Idle => true,
            Rest::Gathers => self.hurries,
        };
        if rests {
            self.rest = Rest::None;
            bed.fetch_add(1, Ordering::SeqCst);
        }
        rests
    }
}

impl Teller {
    /// Makes the teller of an observer. Times of events count from `epoch`.
    pub(crate) fn new(observer: Arc<dyn Observer>, epoch: Time) -> Teller {
        let book = Book {
            events: Vec::with_capacity(ROOM + RESERVE),
            nr_written: 0,
            rest: Rest::None,
            hurries: false,
            full_since: None,
            is_alone: false,
            ends: false,
            closed: false,
        };
        Teller {
            observer,
            thread: Mutex::default(),
            epoch,
            book: Mutex::new(book),
            bed: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            nr_told: AtomicU64::new(0),
            loses: AtomicBool::new(false),
            said: AtomicBool::new(false),
        }
    }

    /// Returns an instant as observers receive it.
    fn told(&self, at: Time) -> Time {
        Time(at.since(self.epoch).0)
    }

    /// Records that the teller's thread was started.
    pub(crate) fn has_started(&self, thread: JoinHandle<()>) {
        *lock(&self.thread) = Some(thread);
    }

    /// Writes an event that happens now. If there is no room, returns an error to a caller that may wait; the event of
    /// another caller is lost.
    fn write(&self, cpu: CpuId, what: What, may_wait: bool) -> Result<(), Full> {
        let mut book = lock(&self.book);
        // This is the kernel's clock, because `now` may go backwards from one thread to the next.
        let now = os::thread::monotonic();
        if book.closed {
            return Ok(());
        }
        let room = if may_wait { ROOM } else { ROOM + RESERVE };
        if book.events.len() >= room {
            return self.no_room(&mut book, now, may_wait);
        }
        book.events.push(Event { at: self.told(now), cpu, what });
        book.nr_written += 1;
        book.hurries |= book.events.len() >= ROOM / 2;
        let wakes = book.rouse(&self.bed);
        drop(book);
        if wakes {
            os::futex::wake(&self.bed);
        }
        Ok(())
    }

    #[cold]
    fn no_room(&self, book: &mut Book, now: Time, may_wait: bool) -> Result<(), Full> {
        let until = *book.full_since.get_or_insert(now) + PATIENCE;
        if may_wait && !book.is_alone && now < until {
            return Err(Full { turn: self.turns.load(Ordering::SeqCst), until });
        }
        self.loses.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until there may be room.
    fn wait_for_room(&self, Full { turn, until }: Full) {
        os::futex::wait(&self.turns, turn, Some(until));
    }

    /// Reports, once, that events are lost. It takes a lock that stopped tasks may hold.
    pub(crate) fn say_if_it_loses(&self) {
        if self.loses.load(Ordering::Relaxed) && !self.said.swap(true, Ordering::Relaxed) {
            harmless(|| eprintln!("runyard: the observer is too slow: events are lost"));
        }
    }

    /// Waits until all events written so far have been delivered. It does not wait on a thread of a runtime that serves
    /// workers: the teller cannot wait for itself, nor one teller for another.
    fn flush(&self) {
        if os::local::is_servant() {
            return;
        }
        let goal = self.hurry(|book| {
            book.hurries |= !book.events.is_empty();
            book.nr_written
        });
        let (mut before, mut until) = (0, Time::MAX);
        loop {
            let turn = self.turns.load(Ordering::SeqCst);
            let (told, now) = (self.nr_told.load(Ordering::SeqCst), os::thread::now());
            if told != before || until == Time::MAX {
                (before, until) = (told, now + PATIENCE_OF_FLUSH);
            }
            if told >= goal || now >= until {
                return;
            }
            os::futex::wait(&self.turns, turn, Some(until));
        }
    }

    /// Prepares the teller for the end of the runtime. If the teller itself ends the runtime, because an observer
    /// dropped the last handle, no other thread may wait for it: it waits for all of them.
    pub(crate) fn prepare_for_end(&self) {
        let is_teller = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if lock(&self.thread).as_ref().is_some_and(is_teller) {
            lock(&self.book).is_alone = true;
            self.turn();
        }
    }

    /// Ends the teller after the rest of the runtime is over. Waits until all events have been delivered and the thread
    /// has ended. If this is that thread, it ends on its own.
    pub(crate) fn end(&self) {
        self.hurry(|book| (book.ends, book.hurries) = (true, true));
        let thread = lock(&self.thread).take();
        thread.into_iter().for_each(threads::join);
    }

    /// Changes the book, and wakes the teller if it must hurry now.
    fn hurry<R>(&self, change: impl FnOnce(&mut Book) -> R) -> R {
        without_preemption(|| {
            let mut book = lock(&self.book);
            let result = change(&mut book);
            let wakes = book.hurries && book.rouse(&self.bed);
            drop(book);
            if wakes {
                os::futex::wake(&self.bed);
            }
            result
        })
    }

    fn turn(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
        os::futex::wake_all(&self.turns);
    }

    /// Waits, as the teller, for the first event or for a reason to hurry, at most until `until`.
    fn rest(&self, rest: Rest, until: Option<Time>) {
        loop {
            let bed = {
                let mut book = lock(&self.book);
                book.rest = rest;
                if book.hurries || rest == Rest::Idle && !book.events.is_empty() {
                    return;
                }
                self.bed.load(Ordering::SeqCst)
            };
            if until.is_some_and(|until| os::thread::now() >= until) {
                return;
            }
            os::futex::wait(&self.bed, bed, until);
        }
    }

    /// Takes the events of the book, and leaves it empty. Returns whether these are the last.
    fn take(&self, events: &mut Vec<Event>) -> bool {
        let mut book = lock(&self.book);
        mem::swap(&mut book.events, events);
        (book.rest, book.hurries, book.full_since) = (Rest::None, false, None);
        book.closed = book.ends;
        book.closed
    }

    /// Runs the teller's thread.
    pub(crate) fn live(&self) {
        let mut events = Vec::with_capacity(ROOM + RESERVE);
        loop {
            self.rest(Rest::Idle, None);
            self.rest(Rest::Gathers, Some(os::thread::now() + GATHERS));
            let is_last = self.take(&mut events);
            self.turn();
            self.say_if_it_loses();
            for event in events.drain(..) {
                harmless(|| self.observer.event(&event));
                os::fork::end_child();
                self.nr_told.fetch_add(1, Ordering::SeqCst);
            }
            self.turn();
            if is_last {
                return;
            }
        }
    }
}

impl Scheduler {
    /// Reports an event that happens on `cpu` now to the observer, if there is one. Must not be called with a lock of
    /// the runtime, because it may wait for the teller.
    #[inline]
    pub(crate) fn tell(&self, cpu: CpuId, what: impl FnOnce() -> What) {
        if let Some(host) = self.paused() {
            host.note(cpu, what);
        } else if let Some(teller) = self.teller() {
            let what = what();
            while let Err(full) = teller.write(cpu, what, !os::local::is_servant()) {
                crate::current::worker::section(
                    || teller.wait_for_room(full),
                    |worker, wait| worker.own.unseen(wait),
                );
            }
        }
    }

    /// Reports the wake-up of a task that is runnable since `since` to the observer, if there is one.
    #[inline]
    pub(crate) fn tell_wake(&self, task: &TaskOf<Job>, since: Time) {
        if self.is_observed() {
            self.tell_wake_to_observer(task, since);
        }
    }

    #[cold]
    fn tell_wake_to_observer(&self, task: &TaskOf<Job>, since: Time) {
        if let Some(host) = self.paused() {
            let by = here::cpu_of_poll()
                .and(crate::current::task::task(|task| task.map(|cell| cell.id)));
            let since = Time(since.since(BEGIN).0);
            host.note(task.cpu(), || What::Wake { task: task.id, since, by });
        } else if let Some(teller) = self.teller() {
            let of_worker = || self.here(|worker| worker.poll.waking(&worker.shared.registry));
            let by = match self.single() {
                Some(single) if single.runs_here() => {
                    crate::current::task::task(|task| task.map(|cell| cell.id))
                }
                Some(_) => None,
                None => of_worker().flatten(),
            };
            let since = teller.told(since);
            self.tell(task.cpu(), || What::Wake { task: task.id, since, by });
        }
    }

    /// Reports an event as [`Scheduler::tell`], for a caller that holds a lock of the runtime. The event is lost if there
    /// is no room.
    pub(crate) fn tell_at_once(&self, cpu: CpuId, what: impl FnOnce() -> What) {
        if let Some(host) = self.paused() {
            host.note(cpu, what);
        } else if let Some(teller) = self.teller() {
            let full = teller.write(cpu, what(), false);
            assert!(full.is_ok(), "a caller that must not wait does not wait");
        }
    }

    /// Reports that a CPU has nothing to do now.
    pub(crate) fn tell_idle(&self, cpu: CpuId) {
        self.tell(cpu, || match self.machine().cpu(cpu).forced_idle() {
            Some(cookie) => What::ForcedIdle { cookie },
            None => What::Idle,
        });
    }

    /// Waits until the observer, if there is one, has received all events so far.
    pub(crate) fn flush(&self) {
        if !os::fork::is_child() {
            self.teller().into_iter().for_each(Teller::flush);
        }
    }

    /// Returns whether there is an observer, which needs the times of wake-ups.
    pub(crate) fn is_observed(&self) -> bool {
        self.teller().is_some() || self.paused().is_some()
    }
}
