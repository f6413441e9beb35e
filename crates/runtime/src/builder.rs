//! How tasks are started, and what is asked for them.

use crate::runtime::{Shared, current};
use crate::sync::Arc;
use crate::task::JoinHandle;
use runyard_engine::attr::{Attr, Nice, Policy, RtPrio};
use runyard_engine::cpu::{CpuId, CpuSet};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Names [`Task::builder`].
#[derive(Debug)]
pub enum Task {}

impl Task {
    /// A task to be started, with a policy of its own.
    #[must_use]
    pub fn builder() -> TaskBuilder {
        TaskBuilder::default()
    }
}

/// What is asked for a task that is about to start.
#[derive(Clone, Debug, Default)]
pub struct TaskBuilder {
    policy: Option<Policy>,
    cpus: Option<Vec<usize>>,
}

impl TaskBuilder {
    /// Its policy. SCHED_OTHER at nice 0 if not said.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> TaskBuilder {
        self.policy = Some(policy);
        self
    }

    /// Real-time, first come first served, at a priority of 1..=99.
    ///
    /// # Panics
    /// If the priority is not one.
    #[must_use]
    pub fn fifo(self, priority: u8) -> TaskBuilder {
        let prio = RtPrio::new(priority.into()).expect("a real-time priority is in 1..=99");
        self.policy(Policy::Fifo(prio))
    }

    /// Fair, at a nice value of -20..=19.
    ///
    /// # Panics
    /// If the nice value is not one.
    #[must_use]
    pub fn nice(mut self, nice: i8) -> TaskBuilder {
        let nice = Nice::new(nice.into()).expect("a nice value is in -20..=19");
        self.policy = Some(match self.policy {
            Some(Policy::Batch(_)) => Policy::Batch(nice),
            _ => Policy::Normal(nice),
        });
        self
    }

    /// The runtime's CPUs on which it may run, counted from 0.
    #[must_use]
    pub fn affinity(mut self, cpus: impl IntoIterator<Item = usize>) -> TaskBuilder {
        self.cpus = Some(cpus.into_iter().collect());
        self
    }

    /// Starts the task in the runtime of the calling code.
    ///
    /// # Panics
    /// If the calling code belongs to no runtime, or the affinity has no CPU of it.
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let shared = current();
        let attr = self.attr(&shared);
        shared.spawn(future, Some(attr))
    }

    fn attr(&self, shared: &Arc<Shared>) -> Attr {
        let all = shared.machine.all();
        let mut attr = Attr::normal(all.clone());
        attr.policy = self.policy.unwrap_or(attr.policy);
        if let Some(cpus) = &self.cpus {
            let wanted: CpuSet = cpus.iter().map(|&cpu| CpuId::at(cpu)).collect();
            attr.affinity = wanted.intersection(all);
            assert!(!attr.affinity.is_empty(), "the runtime has none of the CPUs {wanted}");
        }
        attr
    }
}

/// Starts a task in the runtime of the calling code.
///
/// # Panics
/// If the calling code belongs to no runtime.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    current().spawn(future, None)
}

/// Runs a function that computes for long, or blocks: a task with one long poll.
///
/// # Panics
/// If the calling code belongs to no runtime.
pub fn spawn_blocking<T: Send + 'static>(
    function: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    spawn(async move { function() })
}

/// Lets others run.
pub async fn yield_now() {
    Yield(false).await;
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
