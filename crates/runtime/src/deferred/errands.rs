//! Errands: calls of foreign wakers that the runtime's own code defers.
//!
//! An expired timer, or a mutex that is passed on, wakes a task or thread in code of the runtime in which no thread is
//! stopped. A task's own waker is called there: it takes only locks of the runtime. Any other waker is foreign code: it
//! may wait for the lock of a stopped task, compute for long, or panic. Such a call becomes an errand. Each CPU has a
//! list of errands, and a task of the runtime, at FIFO 99, calls them. That task is stopped, blocked and replaced like
//! any other. A long errand delays later errands of its CPU and nothing else.
//!
//! ```text
//!  Bell::of     in foreign code: clones the waker and allocates its place in a list
//!  provide_for  in foreign code, before the bell is armed: the tasks exist after it
//!  ring         in own code: links the errand into the list of this CPU, and wakes its task
//!  poll         takes the whole list, and calls each waker with `preempt_count` at zero
//! ```
//!
//! A list is linked through its errands, so a ring allocates nothing.
//!
//! These tasks end after all others: a task that is to end may wait in foreign code for a foreign waker. Errands that
//! are still in a list when no worker is left are called by the thread that ends the runtime.
//!
//! Rejected: a task for each bell, since arming a timer would cost a spawn. One task for all CPUs, since most errands
//! would call it to another CPU.
//!
//! Invariants: a foreign waker is called with no lock of the runtime held and nowhere in own code; a bell that has rung
//! is called once; the errands of one CPU are called in the order in which their bells rang.

use crate::deferred::careful::{Careful, is_harmless};
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::shared::Shared;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A waker that the runtime's own code may ring.
#[derive(Debug)]
pub(crate) enum Bell {
    /// A waker that calls no foreign code.
    Own(Waker),
    Foreign(Box<Errand>),
}

/// A foreign waker that is to be called, or may be.
#[derive(Debug)]
pub(crate) struct Errand {
    waker: Careful,
    /// The time since which the woken tasks could run; `None` for now.
    since: Option<Time>,
    /// The errand before it in the list.
    before: Option<Box<Errand>>,
}

/// The errands of one CPU.
#[derive(Debug, Default)]
struct List {
    last: Option<Box<Errand>>,
    /// Wakes the task that calls the errands, while that task sleeps.
    task: Option<Waker>,
}

/// All errands of a runtime.
#[derive(Debug)]
pub(crate) struct Errands {
    lists: Box<[Mutex<List>]>,
    /// Whether each list has its task.
    are_served: AtomicBool,
}

impl Bell {
    /// Makes a bell from a waker. It clones a foreign waker and may allocate, so it is not called in the runtime's own
    /// code.
    pub(crate) fn of(waker: &Waker) -> Bell {
        let new = waker.clone();
        if is_harmless(waker) {
            return Bell::Own(new);
        }
        Bell::Foreign(Box::new(Errand { waker: Careful::new(new), since: None, before: None }))
    }

    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, Bell::Foreign(_))
    }

    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        match self {
            Bell::Own(own) => own.will_wake(waker),
            Bell::Foreign(errand) => errand.waker.will_wake(waker),
        }
    }

    /// Rings in the runtime's own code, for a task that could run since `since`. Returns the rest of the work, to be
    /// done by [`Bell::end`] when that code is over.
    #[must_use]
    pub(crate) fn ring(self, since: Option<Time>) -> Option<Bell> {
        match self {
            Bell::Own(ref waker) => {
                wake_since(since, || waker.wake_by_ref());
                Some(self)
            }
            Bell::Foreign(mut errand) => {
                errand.since = since;
                let mut left = Some(errand);
                crate::current::worker::worker(|worker| {
                    let errands = &worker.shared.deferred.errands;
                    if errands.are_served() {
                        left.take().into_iter().for_each(|it| errands.put(worker.thread.cpu(), it));
                    }
                });
                left.map(Bell::Foreign)
            }
        }
    }

    /// Ends a bell that has rung, in foreign code: drops an own waker, and calls a foreign one if no task will call it.
    pub(crate) fn end(self) {
        if let Bell::Foreign(errand) = self {
            errand.call();
        }
    }
}

/// Runs `wake` in the name of a timer that was due at `since`, if there is one.
fn wake_since(since: Option<Time>, wake: impl FnOnce()) {
    let mut wake = Some(wake);
    if let Some(since) = since {
        crate::current::worker::worker(|worker| {
            wake.take().into_iter().for_each(|wake| worker.poll.wake_since(since, wake));
        });
    }
    wake.into_iter().for_each(|wake| wake());
}

impl Errand {
    /// Calls the waker as if outside a poll: a task that it wakes does not wait for the end of this one.
    fn call(self) {
        let Errand { waker, since, .. } = self;
        let call = || wake_since(since, || waker.call());
        crate::current::worker::section(call, |worker, wakes| worker.poll.outside(wakes));
    }
}

impl List {
    /// Takes all errands, with the first of them in front.
    fn take(&mut self) -> Option<Box<Errand>> {
        let (mut first, mut rest) = (None, self.last.take());
        while let Some(mut errand) = rest {
            rest = errand.before.take();
            errand.before = first;
            first = Some(errand);
        }
        first
    }
}

/// Calls errands that are linked with the first in front.
fn call_all(mut first: Option<Box<Errand>>) {
    while let Some(mut errand) = first {
        first = errand.before.take();
        errand.call();
    }
}

impl Errands {
    pub(crate) fn new(cpus: usize) -> Errands {
        let lists = (0..cpus).map(|_| Mutex::default()).collect();
        Errands { lists, are_served: AtomicBool::new(false) }
    }

    fn are_served(&self) -> bool {
        self.are_served.load(Ordering::Acquire)
    }

    /// Adds an errand, in the runtime's own code. Allocates nothing.
    fn put(&self, cpu: CpuId, mut errand: Box<Errand>) {
        let mut list = lock(&self.lists[cpu.index()]);
        errand.before = list.last.take();
        list.last = Some(errand);
        let task = list.task.take();
        drop(list);
        task.into_iter().for_each(Waker::wake);
    }

    /// Calls the errands of a CPU until there are none. The next errand then wakes the caller's task.
    fn go(&self, cpu: CpuId, task: &Waker) {
        loop {
            let mut task = Some(task.clone());
            let first = without_preemption(|| {
                let mut list = lock(&self.lists[cpu.index()]);
                let first = list.take();
                if first.is_none() {
                    std::mem::swap(&mut list.task, &mut task);
                }
                first
            });
            if first.is_none() {
                return;
            }
            call_all(first);
        }
    }

    /// Calls the remaining errands, when no worker is left, and drops the tasks' wakers, which own the runtime.
    pub(crate) fn end(&self) {
        for list in &self.lists {
            let List { last, task } = std::mem::take(&mut *lock(list));
            drop(task);
            call_all(List { last, task: None }.take());
        }
    }
}

/// The future of a task that calls the errands of a CPU, for ever.
struct Goes {
    shared: Arc<Shared>,
    cpu: CpuId,
}

impl Future for Goes {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.deferred.errands.go(self.cpu, cx.waker());
        Poll::Pending
    }
}

impl Shared {
    /// Provides the tasks that call the waker of `bell`, if it is foreign. Called before the bell is armed. Allocates,
    /// so it is not called in the runtime's own code.
    ///
    /// Several threads may do this at the same time. None waits for another, which may be stopped. A list may then have
    /// several tasks, of which the one that slept last is woken.
    pub(crate) fn provide_for(self: &Arc<Shared>, bell: &Bell) {
        // In virtual time, and where tasks run on the thread of `block_on`, the wakers are called at once: no thread of the
        // runtime is stopped there.
        if !bell.is_foreign()
            || self.deferred.errands.are_served()
            || self.scheduler.paused().is_some()
            || self.scheduler.single().is_some()
        {
            return;
        }
        for cpu in self.scheduler.machine().config().topology.iter() {
            self.spawn_server("runyard-errands", cpu, Goes { shared: self.clone(), cpu });
        }
        self.deferred.errands.are_served.store(true, Ordering::Release);
    }
}
