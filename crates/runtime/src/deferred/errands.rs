//! Errands: the calls of foreign wakers that the runtime's own code owes.
//!
//! A timer that expires and a mutex that is passed on wake somebody, in code of the runtime in which nobody is
//! stopped. The own waker of a task is called there: it takes locks of the runtime only. Any other waker is
//! foreign code: it may wait for the lock of a stopped task, compute for long, or panic. Such a call becomes an
//! errand. Each CPU has a list of them, and a task of the runtime goes on them, at FIFO 99. That task is stopped,
//! blocked and replaced like any other. An errand that lasts keeps later errands of its CPU waiting, and nobody
//! else.
//!
//! ```text
//!  Bell::of     in foreign code: the waker is cloned, and has its place in the list from then on
//!  provide_for  in foreign code, before the bell is armed: the tasks are there
//!  ring         in own code: the errand is linked into the list of this CPU, and the task is woken
//!  poll         takes the whole list, and calls each waker with `preempt_count` at zero
//! ```
//!
//! A list is linked through its errands, so nothing is allocated when a bell rings.
//!
//! The tasks end after all others: a task that is to end may wait in foreign code for a foreign waker. Errands
//! that are in a list when no worker is left are called by the thread that ends the runtime.
//!
//! Rejected: a task for each bell. To arm a timer would cost a spawn. One task for all CPUs: it would be called to
//! another CPU for most errands.
//!
//! Invariants: a foreign waker is called with no lock of the runtime held and nowhere in own code; a bell that has
//! rung is called once; the errands of one CPU are called in the order in which their bells rang.

use crate::deferred::careful::{Careful, is_harmless};
use crate::os::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::shared::{NewTask, Shared};
use crate::worker::Worker;
use crate::worker::current::without_preemption;
use runyard_engine::attr::{Attr, GroupId, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Wakes somebody, from the runtime's own code.
#[derive(Debug)]
pub(crate) enum Bell {
    /// A waker that calls nothing foreign.
    Own(Waker),
    Foreign(Box<Errand>),
}

/// A foreign waker that is to be called, or may be.
#[derive(Debug)]
pub(crate) struct Errand {
    waker: Careful,
    /// Since when those could run whom it wakes; none for now.
    since: Option<Time>,
    /// The errand before it in the list.
    before: Option<Box<Errand>>,
}

/// The errands of one CPU.
#[derive(Debug, Default)]
struct List {
    last: Option<Box<Errand>>,
    /// Wakes the task that goes on them, while that sleeps.
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
    /// It clones a foreign waker and may allocate, so it is not called in the runtime's own code.
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

    /// Rings in the runtime's own code, for somebody who could run since `since`. Gives back what has to
    /// be done when that code is over, by [`Bell::end`].
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
                crate::worker::current::worker(|worker| {
                    let errands = &worker.shared.errands;
                    if errands.are_served() {
                        left.take().into_iter().for_each(|it| errands.put(worker.cpu(), it));
                    }
                });
                left.map(Bell::Foreign)
            }
        }
    }

    /// After it rang, in foreign code: drops an own waker, and calls a foreign one that no task is there to call.
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
        crate::worker::current::worker(|worker| {
            wake.take().into_iter().for_each(|wake| worker.wake_since(since, wake));
        });
    }
    wake.into_iter().for_each(|wake| wake());
}

impl Errand {
    /// Calls the waker, as from outside a poll: a task that it wakes does not wait for the end of this one.
    fn call(self) {
        let Errand { waker, since, .. } = self;
        let call = || wake_since(since, || waker.call());
        crate::worker::current::section(call, Worker::wake_at_once);
    }
}

impl List {
    /// Takes all errands, the first of them in front.
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

    /// One more, in the runtime's own code. Allocates nothing.
    fn put(&self, cpu: CpuId, mut errand: Box<Errand>) {
        let mut list = lock(&self.lists[cpu.index()]);
        errand.before = list.last.take();
        list.last = Some(errand);
        let task = list.task.take();
        drop(list);
        task.into_iter().for_each(Waker::wake);
    }

    /// Goes on all errands of a CPU, until there are none; then the caller's task is woken by the next.
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

    /// Calls what is left, when no worker is left. The tasks' wakers know the runtime, and go.
    pub(crate) fn end(&self) {
        for list in &self.lists {
            let List { last, task } = std::mem::take(&mut *lock(list));
            drop(task);
            call_all(List { last, task: None }.take());
        }
    }
}

/// A task that goes on the errands of a CPU, for ever.
struct Goes {
    shared: Arc<Shared>,
    cpu: CpuId,
}

impl Future for Goes {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.errands.go(self.cpu, cx.waker());
        Poll::Pending
    }
}

impl Shared {
    /// Sees to it that somebody calls the waker of `bell`, if that is foreign; before it is armed. Allocates,
    /// so it is not called in the runtime's own code.
    ///
    /// Several threads may do this at a time. None waits for another, which may be stopped: a list may have several
    /// tasks then, of which the one that slept last is woken.
    pub(crate) fn provide_for(self: &Arc<Shared>, bell: &Bell) {
        // In virtual time the wakers are called at once: nobody is stopped there.
        if !bell.is_foreign() || self.errands.are_served() || self.paused.is_some() {
            return;
        }
        for cpu in self.machine.config().topology.iter() {
            let mut attr = Attr::normal([cpu].into_iter().collect());
            attr.policy = Policy::Fifo(RtPrio::MAX);
            attr.group = GroupId::ROOT;
            let new = NewTask {
                attr,
                slack: Attr::DEFAULT_SLACK,
                reset_on_fork: true,
                group: None,
                // Its thread is not to be bound: a thread that a foreign waker starts would inherit that.
                has_affinity: false,
                name: Some("runyard-errands".to_owned()),
                serves: true,
                blocks: false,
            };
            drop(self.spawn(Goes { shared: self.clone(), cpu }, new));
        }
        self.errands.are_served.store(true, Ordering::Release);
    }
}
