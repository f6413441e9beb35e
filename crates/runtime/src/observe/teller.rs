//! The teller: the thread of the runtime that calls the observer.
//!
//! An observer is foreign code: it may wait for the lock of a stopped task, or last. So nobody else calls it. What
//! happens is written into the book, under a lock that is a leaf: while it is held nothing is locked, allocated or
//! freed, and no foreign code is called. The clock is read under it, so the events are in the order of their times.
//!
//! ```text
//!  anybody   the event into the book; the first one wakes the teller, which then gathers for ten milliseconds
//!  teller    takes the whole book, leaves an empty one, and calls the observer for each event
//!  flush     the teller gathers no more; waits until all that was in the book has been told
//! ```
//!
//! Whoever finds the book full waits for the teller, a second at the most from when it was full. Then events are
//! lost until the teller takes the book, which is said once. Threads of the runtime that serve workers never wait, nor
//! does anybody with a lock of the runtime: for their events there is a reserve.
//!
//! The keeper sees how the teller waits. While it has nothing to do it waits with a mark (`OURS`), as all threads
//! of runtimes. In the observer it is a thread that is no worker ([`crate::crew::foreign`]), for which stopped tasks are let
//! go. So a worker that waits for the teller is no reason to let anybody go.
//!
//! Rejected: a book for each CPU. The times of all would have to be merged, and what the last events of one mean
//! would not be known before all others had said that they have none before it.
//!
//! Invariants: an event is told once or lost, and told in the order of times; the observer is called by one thread
//! and with no lock of the runtime held; what was told to the book before a flush is told when that returns, unless
//! the observer keeps one event for longer than [`PATIENCE_OF_FLUSH`].

use crate::crew::threads;
use crate::observe::Observer;
use crate::os;
use crate::os::harmless::harmless;
use crate::os::here;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::paused::host::BEGIN;
use crate::runtime::Entered;
use crate::shared::Shared;
use crate::task::Job;
use crate::worker::Worker;
use crate::worker::current::without_preemption;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::TaskOf;
use std::mem;
use std::thread::{self, JoinHandle};

/// How many events there is room for: those of some milliseconds of CPUs that do nothing but switch.
const ROOM: usize = 1 << 16;

/// How many more, for those that must not wait.
const RESERVE: usize = 1 << 10;

/// How long the teller gathers after the first event: it takes a CPU from a worker for a moment each time. With 1 ms a
/// busy machine showed wake-ups of 120 us at the median, where they took 35 us; with this nothing was seen.
const GATHERS: Nanos = Nanos::from_millis(10);

/// How long others wait for the teller after the book was full.
const PATIENCE: Nanos = Nanos::from_millis(1_000);

/// How long a flush waits for the end of one event.
const PATIENCE_OF_FLUSH: Nanos = Nanos::from_millis(10_000);

/// Calls the observer.
#[derive(Debug)]
pub(crate) struct Teller {
    observer: Arc<dyn Observer>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// From when the times of events count.
    epoch: Time,
    book: Mutex<Book>,
    /// Where the teller waits; changes when it is woken.
    bed: AtomicU32,
    /// Where others wait for the teller; changes when it has taken the book, and when it has told what was in it.
    turns: AtomicU32,
    /// How many events were told.
    nr_told: AtomicU64,
    /// Whether events were ever lost, and whether that was said.
    loses: AtomicBool,
    said: AtomicBool,
}

/// What is to be told.
#[derive(Debug)]
struct Book {
    /// Has its full size from the start.
    events: Vec<Event>,
    /// How many events were ever written.
    nr_written: u64,
    rest: Rest,
    /// The teller is not to gather.
    hurries: bool,
    /// Since when events find no room.
    full_since: Option<Time>,
    /// Nobody is to wait for the teller.
    is_alone: bool,
    /// The runtime is over: what is in the book now is the last.
    ends: bool,
    /// Nothing more is told.
    closed: bool,
}

/// For what the teller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    /// For the first event.
    Idle,
    /// For the end of its time, or a reason to hurry.
    Gathers,
}

/// The book is full: the caller may wait for the next turn, until then.
#[derive(Clone, Copy, Debug)]
struct Full {
    turn: u32,
    until: Time,
}

impl Book {
    /// Ends the rest of the teller, if there is something to do. Whether it has to be woken.
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
    /// Of an observer for whom times count from `epoch`.
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

    /// An instant as observers count.
    fn told(&self, at: Time) -> Time {
        Time(at.since(self.epoch).0)
    }

    /// The teller's thread was started.
    pub(crate) fn has_started(&self, thread: JoinHandle<()>) {
        *lock(&self.thread) = Some(thread);
    }

    /// Writes down what happens at this moment. If there is no room, a caller that may wait is asked to; the event of
    /// another is lost.
    fn write(&self, cpu: CpuId, what: What, may_wait: bool) -> Result<(), Full> {
        let mut book = lock(&self.book);
        // The kernel's clock: `now` may go backwards from one thread to the next.
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

    /// Says, once, that events are lost. It takes a lock that stopped tasks may have.
    pub(crate) fn say_if_it_loses(&self) {
        if self.loses.load(Ordering::Relaxed) && !self.said.swap(true, Ordering::Relaxed) {
            harmless(|| eprintln!("runyard: the observer is too slow: events are lost"));
        }
    }

    /// Waits until all that was written has been told. Not for a thread of a runtime that serves workers: the
    /// teller cannot wait for itself, nor one for another.
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

    /// The runtime is about to end. If the teller ends it, an observer had the last handle: nobody is to wait for
    /// the teller, which waits for all.
    pub(crate) fn prepare_for_end(&self) {
        let is_teller = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if lock(&self.thread).as_ref().is_some_and(is_teller) {
            lock(&self.book).is_alone = true;
            self.turn();
        }
    }

    /// All else of the runtime is over: waits until everything has been told and the thread has ended, or, if this
    /// is that thread, leaves it to do so.
    pub(crate) fn end(&self) {
        self.hurry(|book| (book.ends, book.hurries) = (true, true));
        let thread = lock(&self.thread).take();
        thread.into_iter().for_each(threads::join);
    }

    /// Changes the book, and wakes the teller if it is to hurry now.
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

    /// The teller waits for the first event, or for a reason to hurry, until then.
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

    /// Takes what is in the book, for an empty one. Whether that is the last.
    fn take(&self, events: &mut Vec<Event>) -> bool {
        let mut book = lock(&self.book);
        mem::swap(&mut book.events, events);
        (book.rest, book.hurries, book.full_since) = (Rest::None, false, None);
        book.closed = book.ends;
        book.closed
    }

    fn live(&self) {
        let mut events = Vec::with_capacity(ROOM + RESERVE);
        loop {
            self.rest(Rest::Idle, None);
            self.rest(Rest::Gathers, Some(os::thread::now() + GATHERS));
            let is_last = self.take(&mut events);
            self.turn();
            self.say_if_it_loses();
            for event in events.drain(..) {
                harmless(|| self.observer.event(&event));
                self.nr_told.fetch_add(1, Ordering::SeqCst);
            }
            self.turn();
            if is_last {
                return;
            }
        }
    }
}

impl Shared {
    /// Has the observer told, if there is one, what happens on `cpu` at this moment. Not called with a lock of the
    /// runtime: it may have to wait for the teller.
    #[inline]
    pub(crate) fn tell(&self, cpu: CpuId, what: impl FnOnce() -> What) {
        if let Some(host) = &self.paused {
            host.note(cpu, what);
        } else if let Some(teller) = &self.teller {
            let what = what();
            while let Err(full) = teller.write(cpu, what, !os::local::is_servant()) {
                crate::worker::current::section(|| teller.wait_for_room(full), Worker::unseen);
            }
        }
    }

    /// The same of a task that is woken and could have run since `since`.
    #[inline]
    pub(crate) fn tell_wake(&self, task: &TaskOf<Job>, since: Time) {
        if self.is_observed() {
            self.tell_wake_to_observer(task, since);
        }
    }

    #[cold]
    fn tell_wake_to_observer(&self, task: &TaskOf<Job>, since: Time) {
        if let Some(host) = &self.paused {
            let by = here::cpu_of_poll()
                .and(crate::task::current::task(|task| task.map(|cell| cell.id)));
            let since = Time(since.since(BEGIN).0);
            host.note(task.cpu(), || What::Wake { task: task.id, since, by });
        } else if let Some(teller) = &self.teller {
            let by = self.here(Worker::waking).flatten();
            let since = teller.told(since);
            self.tell(task.cpu(), || What::Wake { task: task.id, since, by });
        }
    }

    /// As [`Shared::tell`], for who has a lock of the runtime: the event is lost if there is no room.
    pub(crate) fn tell_at_once(&self, cpu: CpuId, what: impl FnOnce() -> What) {
        if let Some(host) = &self.paused {
            host.note(cpu, what);
        } else if let Some(teller) = &self.teller {
            let full = teller.write(cpu, what(), false);
            assert!(full.is_ok(), "who must not wait is not asked to");
        }
    }

    /// Waits until the observer, if there is one, has heard of all that happened so far.
    pub(crate) fn flush(&self) {
        self.teller.iter().for_each(Teller::flush);
    }

    /// Whether somebody will ask when tasks were woken.
    pub(crate) fn is_observed(&self) -> bool {
        self.teller.is_some() || self.paused.is_some()
    }
}

/// The teller's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    let _context = Entered::enter(shared);
    shared.teller.as_ref().expect("there is an observer").live();
}
