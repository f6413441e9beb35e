//! A future as a task of the engine: where it is while it is not in a run queue.
//!
//! The engine's box of a blocked task waits in its [`Cell`]: a waker can only enqueue a box that it
//! has, and the box comes here after the poll is over, so a task is never in two queues and no
//! wake-up is lost. A wake-up that comes before the box leaves a note.

use crate::os;
use crate::runtime::Shared;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::worker::Worker;
use async_task::Runnable;
use runyard_smp::machine::TaskOf;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What the engine lends a worker to run a task.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) cell: Arc<Cell>,
    pub(crate) todo: Todo,
}

/// What running a task means now.
#[derive(Debug)]
pub(crate) enum Todo {
    /// The task runs, or waits to be woken.
    Nothing,
    /// Poll its future.
    Poll(Runnable),
    /// Let the worker go on that was stopped in the middle of a poll.
    Resume(Arc<Worker>),
}

/// Where a task is while it is in no run queue.
#[derive(Debug, Default)]
enum Parking {
    /// Being polled, or in a run queue.
    #[default]
    Awake,
    /// Blocked.
    Parked(TaskOf<Job>),
    /// Woken while it was being polled.
    Note(Runnable),
}

/// What a task shares with its wakers.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    parking: Mutex<Parking>,
    done: AtomicBool,
    aborted: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Cell {
    /// Whether the future is gone, by its end or by being dropped.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// The wake-up that came during the poll.
    pub(crate) fn take_note(&self) -> Option<Runnable> {
        let mut parking = lock(&self.parking);
        match std::mem::take(&mut *parking) {
            Parking::Note(runnable) => Some(runnable),
            Parking::Awake => None,
            Parking::Parked(_) => unreachable!("a task that is being polled has its box"),
        }
    }

    /// Leaves the blocked task here, or gives it back if it was woken meanwhile.
    pub(crate) fn park(&self, mut task: TaskOf<Job>) -> Option<TaskOf<Job>> {
        let mut parking = lock(&self.parking);
        match std::mem::take(&mut *parking) {
            Parking::Awake => {
                *parking = Parking::Parked(task);
                None
            }
            Parking::Note(runnable) => {
                task.payload.as_mut().expect("a blocked task has its payload").work.todo =
                    Todo::Poll(runnable);
                Some(task)
            }
            Parking::Parked(_) => unreachable!("a task has one box"),
        }
    }

    /// Takes the task out to be enqueued, or leaves a note.
    pub(crate) fn wake(&self, runnable: Runnable) -> Option<TaskOf<Job>> {
        let mut parking = lock(&self.parking);
        match std::mem::take(&mut *parking) {
            Parking::Parked(mut task) => {
                task.payload.as_mut().expect("a blocked task has its payload").work.todo =
                    Todo::Poll(runnable);
                Some(task)
            }
            Parking::Awake => {
                *parking = Parking::Note(runnable);
                None
            }
            Parking::Note(_) => unreachable!("a task is scheduled once at a time"),
        }
    }

    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        if let Some(waker) = without_preemption(|| lock(&self.waker).take()) {
            waker.wake();
        }
    }
}

/// Runs a section of the runtime's own code; on a worker, without being stopped in it.
pub(crate) fn without_preemption<R>(section: impl FnOnce() -> R) -> R {
    let mut section = Some(section);
    let on_worker = os::local::worker(|worker| {
        let section = section.take().expect("it is run once");
        worker.without_preemption(section)
    });
    on_worker.unwrap_or_else(|| section.take().expect("it is run once")())
}

/// Why a task has no result.
pub enum JoinError {
    /// It was aborted, or the runtime ended.
    Cancelled,
    /// It panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoinError::Cancelled => "Cancelled",
            JoinError::Panicked(_) => "Panicked(..)",
        })
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoinError::Cancelled => "the task was cancelled",
            JoinError::Panicked(_) => "the task panicked",
        })
    }
}

impl std::error::Error for JoinError {}

/// The result of a task, when it is there. Dropping the handle lets the task go on.
#[derive(Debug)]
pub struct JoinHandle<T> {
    task: Option<async_task::FallibleTask<Result<T, JoinError>>>,
    cell: Arc<Cell>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(task: async_task::Task<Result<T, JoinError>>, cell: Arc<Cell>) -> Self {
        JoinHandle { task: Some(task.fallible()), cell }
    }

    /// Ends the task at its next await, unless it is over by then.
    pub fn abort(&self) {
        self.cell.abort();
    }

    /// Whether the task is over.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cell.is_done()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.task.as_mut().expect("a handle is polled until it is ready");
        Pin::new(task).poll(cx).map(|result| result.unwrap_or(Err(JoinError::Cancelled)))
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

/// The future that is polled in the end: it notes its end, catches its panic, and heeds an abort.
pub(crate) struct Guarded<F> {
    future: Option<Pin<Box<F>>>,
    cell: Arc<Cell>,
    /// The runtime, and the place of the task among its live ones.
    home: (Arc<Shared>, usize),
}

impl<F> Guarded<F> {
    pub(crate) fn new(future: F, cell: Arc<Cell>, home: (Arc<Shared>, usize)) -> Guarded<F> {
        Guarded { future: Some(Box::pin(future)), cell, home }
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.cell.aborted.load(Ordering::Acquire) {
            self.future = None;
            return Poll::Ready(Err(JoinError::Cancelled));
        }
        let future = self.future.as_mut().expect("it is polled until it is ready");
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        let ready = match polled {
            Ok(Poll::Pending) => {
                let waker = cx.waker().clone();
                let old = without_preemption(|| lock(&self.cell.waker).replace(waker));
                drop(old);
                // An abort that came before the waker was there finds nobody to wake.
                if self.cell.aborted.load(Ordering::Acquire) {
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => Err(JoinError::Panicked(payload)),
        };
        self.future = None;
        Poll::Ready(ready)
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        self.future = None;
        drop(without_preemption(|| lock(&self.cell.waker).take()));
        self.cell.done.store(true, Ordering::Release);
        self.home.0.ended(self.home.1);
    }
}
