//! The kernel threads of a runtime, and the table of its workers.
//!
//! A worker has a place in the table, its [`WorkerId`], for as long as the runtime lives. Its thread comes and goes. If
//! the thread could not be started, got no timer, or was ended, its worker is *vacant*. The next thread takes a vacant
//! worker first. So a refusal costs no place.
//!
//! The table grows in segments that never move: signal handlers read it without a lock.
//!
//! Invariant: a worker has a thread, or is vacant, or is held by the caller that is about to start its thread.

use crate::crew::hooks::Hooks;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::list::List;
use crate::os::sync::{Arc, AtomicUsize, Mutex, OnceLock, Ordering, Weak, lock};
use crate::protocol::handoff::WorkerId;
use crate::worker::Worker;
use std::collections::BTreeMap;
use std::thread::JoinHandle;

/// The number of workers in a segment of the table.
const SEGMENT: usize = 256;

/// A segment of the table. A worker is alive as long as it has a thread or is vacant.
type Segment = Box<[OnceLock<Weak<Worker>>]>;

/// The workers, their threads, and the workers that wait at no slot.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The most workers that there may be.
    most: usize,
    /// The program's settings for the threads.
    pub(crate) hooks: Hooks,
    segments: Box<[OnceLock<Segment>]>,
    /// The number of places of the table that were ever used.
    nr_used: AtomicUsize,
    running: Mutex<BTreeMap<u32, JoinHandle<()>>>,
    /// The number of running threads.
    nr_running: AtomicUsize,
    vacant: Mutex<Vec<Arc<Worker>>>,
    /// Workers that were spares of a slot and are needed at none.
    pool: Mutex<Vec<WorkerId>>,
    /// Workers whose threads end by themselves.
    leaving: Mutex<List<Arc<Worker>>>,
}

impl Threads {
    /// Makes the table, without a worker, for at most this many.
    pub(crate) fn new(most: usize, hooks: Hooks) -> Threads {
        Threads {
            most,
            hooks,
            segments: (0..most.div_ceil(SEGMENT)).map(|_| OnceLock::new()).collect(),
            nr_used: AtomicUsize::new(0),
            running: Mutex::default(),
            nr_running: AtomicUsize::new(0),
            vacant: Mutex::default(),
            pool: Mutex::new(Vec::with_capacity(most)),
            leaving: Mutex::default(),
        }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Returns a worker for a new thread: a vacant one, or `new`. `None` if there are as many as there may be.
    /// Allocates.
    pub(crate) fn take_vacant(
        &self,
        new: impl FnOnce(WorkerId) -> Arc<Worker>,
    ) -> Option<Arc<Worker>> {
        if let Some(worker) = lock(&self.vacant).pop() {
            return Some(worker);
        }
        let nth = self.nr_used.load(Ordering::Acquire);
        if nth >= self.most {
            return None;
        }
        let worker = new(WorkerId(nth as u32));
        let segment = self.segments[nth / SEGMENT]
            .get_or_init(|| (0..SEGMENT).map(|_| OnceLock::new()).collect());
        let set = segment[nth % SEGMENT].set(Arc::downgrade(&worker));
        assert!(set.is_ok(), "a place of the table is used once");
        self.nr_used.store(nth + 1, Ordering::Release);
        Some(worker)
    }

    /// Notes that a worker has no thread, or that its thread has ended.
    pub(crate) fn vacate(&self, worker: Arc<Worker>) {
        lock(&self.vacant).push(worker);
    }

    /// Notes that a worker has a thread.
    pub(crate) fn has_started(&self, id: WorkerId, thread: JoinHandle<()>) {
        lock(&self.running).insert(id.0, thread);
        self.nr_running.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes as vacant those workers of `ending` whose threads have ended; the others stay in it.
    pub(crate) fn reap(&self, ending: &mut Vec<Arc<Worker>>) {
        let over: Vec<_> =
            ending.extract_if(.., |worker| self.is_over(worker.thread.id())).collect();
        for worker in over {
            let thread = lock(&self.running).remove(&worker.thread.id().0);
            self.nr_running.fetch_sub(thread.iter().len(), Ordering::Relaxed);
            thread.into_iter().for_each(os::threads::join);
            self.vacate(worker);
        }
    }

    /// Notes that the thread of a worker, which calls this, is about to end.
    pub(crate) fn leaves(&self, id: WorkerId) {
        let worker = self.worker(id);
        let mut leaving = lock(&self.leaving);
        worker.into_iter().for_each(|worker| leaving.push(worker));
    }

    /// Takes the workers whose threads end by themselves.
    pub(crate) fn take_leaving(&self) -> Vec<Arc<Worker>> {
        let leaving = without_preemption(|| std::mem::take(&mut *lock(&self.leaving)));
        leaving.into_iter().collect()
    }

    /// Returns how many threads there are.
    pub(crate) fn nr_running(&self) -> usize {
        self.nr_running.load(Ordering::Relaxed)
    }

    fn is_over(&self, id: WorkerId) -> bool {
        lock(&self.running).get(&id.0).is_some_and(JoinHandle::is_finished)
    }

    /// Returns the worker at a place of the table that was used. May be called in a signal handler: the thread or the
    /// list of vacant workers keeps it, so nothing is freed here.
    pub(crate) fn worker(&self, id: WorkerId) -> Option<Arc<Worker>> {
        self.place(id.0 as usize).expect("an id names a worker").upgrade()
    }

    fn place(&self, nth: usize) -> Option<&Weak<Worker>> {
        self.segments.get(nth / SEGMENT)?.get()?[nth % SEGMENT].get()
    }

    /// Returns every worker, also vacant ones.
    pub(crate) fn workers(&self) -> impl Iterator<Item = Arc<Worker>> {
        (0..self.most).map_while(|nth| self.place(nth)).filter_map(Weak::upgrade)
    }

    /// Takes a worker that is needed at no slot.
    pub(crate) fn take_from_pool(&self) -> Option<WorkerId> {
        lock(&self.pool).pop()
    }

    /// Adds a worker that is needed at no slot.
    pub(crate) fn put_into_pool(&self, id: WorkerId) {
        lock(&self.pool).push(id);
    }

    /// Returns how many workers are needed at no slot.
    pub(crate) fn nr_pooled(&self) -> usize {
        lock(&self.pool).len()
    }

    /// Waits for all threads, which are about to end.
    pub(crate) fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.running));
        threads.into_values().for_each(os::threads::join);
        // These workers own the runtime, which owns them: this breaks the cycle.
        lock(&self.vacant).clear();
        drop(self.take_leaving());
    }
}
