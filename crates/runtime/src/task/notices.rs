//! The members of a set that are to be polled.
//!
//! The waker of each member is a notice. A notice that is woken appends itself to the set's queue, and wakes whoever
//! waits for the set. So the set polls only members that have made a notice ready, and the cost of a member does not depend on
//! the size of the set.
//!
//! Invariants:
//! * A notice is in the queue at most once. The queue is linked through the notices, so it needs no memory: wakers may
//!   be called in the runtime's own code.
//! * No thread is stopped while it holds the lock of the queue, and no foreign code is called under it.

use crate::os::above::without_preemption;
use crate::os::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use std::task::{Wake, Waker};

/// The ready notices, and the waker of the task that waits for them.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Queued>);

#[derive(Default)]
struct Queued {
    first: Option<Arc<Notice>>,
    last: Option<Arc<Notice>>,
    /// The waker of the waiting task. It calls no foreign code, so it may be woken anywhere.
    waiter: Option<Waker>,
    /// Set when there is no set any more.
    closed: bool,
}

/// The waker of a member.
pub(crate) struct Notice {
    /// Index of its member in the set.
    at: usize,
    queue: Arc<Queue>,
    /// Set while the notice is in the queue. `next` is the notice after it. Both are accessed under the lock of the
    /// queue.
    queued: AtomicBool,
    next: Mutex<Option<Arc<Notice>>>,
}

impl Queue {
    /// Appends a notice, unless it is in the queue already. Returns the waker to be woken.
    fn push(&self, notice: &Arc<Notice>) -> Option<Waker> {
        without_preemption(|| {
            let mut queued = lock(&self.0);
            if queued.closed || notice.queued.swap(true, Ordering::Relaxed) {
                return None;
            }
            match queued.last.replace(notice.clone()) {
                None => queued.first = Some(notice.clone()),
                Some(last) => *lock(&last.next) = Some(notice.clone()),
            }
            queued.waiter.take()
        })
    }

    pub(crate) fn pop(&self) -> Option<Arc<Notice>> {
        let (first, _last) = without_preemption(|| {
            let mut queued = lock(&self.0);
            let first = queued.first.take()?;
            queued.first = lock(&first.next).take();
            first.queued.store(false, Ordering::Relaxed);
            let last = if queued.first.is_none() { queued.last.take() } else { None };
            Some((first, last))
        })?;
        Some(first)
    }

    /// Registers the waker that the next notice wakes. Returns false if the queue already has a notice.
    pub(crate) fn wait(&self, waiter: &Waker) -> bool {
        let mut new = Some(waiter.clone());
        let (waits, _old) = without_preemption(|| {
            let mut queued = lock(&self.0);
            if queued.first.is_some() {
                return (false, None);
            }
            (true, std::mem::replace(&mut queued.waiter, new.take()))
        });
        waits
    }

    /// Makes the queue accept no more notices, and empties it. The notices refer to the queue, so they are dropped one
    /// by one.
    pub(crate) fn close(&self) {
        let _waiter = without_preemption(|| {
            let mut queued = lock(&self.0);
            queued.closed = true;
            queued.waiter.take()
        });
        while self.pop().is_some() {}
    }
}

impl Notice {
    /// Makes the notice of a member with this index, which is not in the queue.
    pub(crate) fn new(at: usize, queue: &Arc<Queue>) -> Arc<Notice> {
        let (queued, next) = (AtomicBool::new(false), Mutex::new(None));
        Arc::new(Notice { at, queue: queue.clone(), queued, next })
    }

    /// Returns the index of its member.
    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self).into_iter().for_each(Waker::wake);
    }
}
