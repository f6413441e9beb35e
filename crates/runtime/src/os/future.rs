//! The future of a task, and its result, in the cell of the task: one allocation has all of it.
//!
//! A cell is made for a type of future, and used without that type, by the trait [`Body`]. Who has the turn of the
//! task touches its future ([`Seat`]); after the last poll the result belongs to the task's [`Joined`] handle, or to the
//! thread of that poll if the handle is gone by then.
//!
//! (Rejected: the crate async-task. It has a word, a waker and a reference count of its own beside those of the cell, and
//! an allocation more for each task; and a task that is woken in its poll comes back through it.)

use crate::deferred::harmless::{Outcome, harmless};
use crate::os::seat::Seat;
use crate::os::sync::{Arc, AtomicU32, Mutex, Ordering, lock};
use crate::shared::Shared;
use crate::task::{Cell, JoinError, NewCell, TaskCell, TaskHandle, without_preemption};
use runyard_smp::machine::TaskOf;
use std::cell::UnsafeCell;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

/// The future in a cell, whatever its type is.
pub(crate) trait Body: Send + Sync {
    /// Polls the future. Whether its result is there, and the future gone.
    ///
    /// # Safety
    /// The caller has the turn of `task`, which is not over, and of which this is the body.
    unsafe fn poll(&self, task: &Arc<Cell>) -> bool;

    /// Takes the result to where `into` points, or drops it if that is null.
    ///
    /// # Safety
    /// The result is there, and it is the caller's. `into` is null, or leads to an `Option<Outcome<T>>` with the type of
    /// the future's output.
    unsafe fn take(&self, into: *mut ());
}

/// The future of a type, or its result.
pub(crate) struct FutureBody<F: Future> {
    stage: UnsafeCell<Stage<F>>,
}

enum Stage<F: Future> {
    Future(F),
    Result(Outcome<F::Output>),
    Gone,
}

// SAFETY: the stage is touched by who has the turn of the task, or the result: by one thread at a time. So both are
// sent at most.
unsafe impl<F: Future<Output: Send> + Send> Sync for FutureBody<F> {}

impl<F> Body for FutureBody<F>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    unsafe fn poll(&self, task: &Arc<Cell>) -> bool {
        // SAFETY: the caller has the turn.
        let stage = unsafe { &mut *self.stage.get() };
        let Stage::Future(future) = stage else { unreachable!("it is polled until it is ready") };
        let ready = if task.is_aborted() {
            Err(JoinError::cancelled(task.id))
        } else {
            // SAFETY: this is the body of the task, whose cell was made for this type of future. The count that the
            // waker stands for is the caller's: the waker is not dropped.
            let waker = unsafe { Arc::from_raw(Arc::as_ptr(task).cast::<TaskCell<Self>>()) };
            let waker = ManuallyDrop::new(Waker::from(waker));
            // SAFETY: the future is in an allocation that is counted, and stays there until it is dropped.
            let future = unsafe { Pin::new_unchecked(future) };
            let mut cx = Context::from_waker(&waker);
            match catch_unwind(AssertUnwindSafe(|| future.poll(&mut cx))) {
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(value)) => Ok(value),
                Err(payload) => Err(JoinError::panicked(task.id, payload)),
            }
        };
        // What the future has may panic as well when it is dropped.
        let dropped = catch_unwind(AssertUnwindSafe(|| *stage = Stage::Gone));
        *stage = Stage::Result(Outcome::new(match dropped {
            Ok(()) => ready,
            Err(payload) => {
                harmless(|| drop(ready));
                Err(JoinError::panicked(task.id, payload))
            }
        }));
        true
    }

    unsafe fn take(&self, into: *mut ()) {
        // SAFETY: the result is the caller's.
        let stage = unsafe { &mut *self.stage.get() };
        let Stage::Result(outcome) = stage else { unreachable!("a result is taken once") };
        let into = into.cast::<Option<Outcome<F::Output>>>();
        // SAFETY: as the caller says.
        let Some(into) = (unsafe { into.as_mut() }) else { return *stage = Stage::Gone };
        // The stage is as large as the future. Of that the outcome is moved only.
        // SAFETY: the outcome is read once, as nothing drops the stage that had it.
        *into = Some(unsafe { std::ptr::read(outcome) });
        // SAFETY: the place is valid, and what is there was moved.
        unsafe { std::ptr::write(stage, Stage::Gone) };
    }
}

impl<F> Wake for TaskCell<FutureBody<F>>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let cell: &Cell = &**self;
        cell.wake();
    }
}

/// Whose the result is, and whether somebody waits for it.
#[derive(Debug, Default)]
pub(crate) struct Join {
    word: AtomicU32,
}

/// Who waits for the result.
pub(crate) type Waiter = Mutex<Option<Waker>>;

/// A handle wants the result.
const WANTED: u32 = 1;
/// The result is there.
const THERE: u32 = 2;
/// There may be a waiter.
const WAITS: u32 = 4;

impl Join {
    /// Whether the result is there, or was.
    pub(crate) fn is_over(&self) -> bool {
        self.word.load(Ordering::Acquire) & THERE != 0
    }
}

/// A new task in a runtime, and the one handle for its result.
pub(crate) fn task<F>(
    shared: &Arc<Shared>,
    new: NewCell,
    future: F,
) -> (Arc<Cell>, Joined<F::Output>)
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let body = FutureBody { stage: UnsafeCell::new(Stage::Future(future)) };
    let cell: Arc<Cell> = Arc::new(TaskCell::new(shared.clone(), new, body));
    cell.join.word.store(WANTED, Ordering::Relaxed);
    let task = TaskHandle { cell: cell.clone() };
    (cell, Joined { task, is_taken: false, result: PhantomData })
}

/// Polls a task that was scheduled. In foreign code.
pub(crate) fn run(task: &Arc<Cell>) {
    let in_poll = task.seat.begin();
    // SAFETY: the turn has just begun.
    if !unsafe { task.body.poll(task) } {
        return;
    }
    task.note_done();
    task.seat.end();
    let join = &task.join;
    let before = join.word.fetch_or(THERE, Ordering::AcqRel);
    if before & WANTED == 0 {
        // SAFETY: no handle is left, so the result is of whoever polled the task.
        unsafe { task.body.take(std::ptr::null_mut()) };
    } else if before & WAITS != 0 {
        let waiter = without_preemption(|| lock(&task.waiter).take());
        waiter.into_iter().for_each(Waker::wake);
    }
    drop(in_poll);
}

/// The poll of a task is over, and it blocks: its box goes to its seat, or is given back if it was woken meanwhile.
#[inline]
pub(crate) fn block(task: TaskOf<crate::task::Job>) -> Option<TaskOf<crate::task::Job>> {
    let job = task.payload.as_ref().expect("a blocked task has its payload");
    let seat = &raw const job.cell.seat;
    // SAFETY: the box keeps the cell, in an allocation of its own, and the caller has the box.
    unsafe { Seat::block(seat, task) }
}

/// The handle for the result of a task.
#[derive(Debug)]
pub(crate) struct Joined<T> {
    task: TaskHandle,
    is_taken: bool,
    /// The type with which [`task`] made the cell.
    result: PhantomData<fn() -> T>,
}

impl<T> Joined<T> {
    pub(crate) fn task(&self) -> &TaskHandle {
        &self.task
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// The result, if it is there; else `waker`, which harms nobody, is woken when it is.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Outcome<T>> {
        assert!(!self.is_taken, "a handle is polled until it is ready");
        let join = &self.task.cell.join;
        if !join.is_over() {
            let new = waker.clone();
            let old = without_preemption(|| lock(&self.task.cell.waiter).replace(new));
            drop(old);
            if join.word.fetch_or(WAITS, Ordering::AcqRel) & THERE == 0 {
                return Poll::Pending;
            }
        }
        self.is_taken = true;
        let mut outcome: Option<Outcome<T>> = None;
        // SAFETY: the result is there and the handle's, and the cell was made with its type.
        unsafe { self.task.cell.body.take((&raw mut outcome).cast()) };
        Poll::Ready(outcome.expect("it was taken"))
    }
}

impl<T> Drop for Joined<T> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let cell = &self.task.cell;
        let before = cell.join.word.fetch_and(!WANTED, Ordering::AcqRel);
        if before & WAITS != 0 {
            drop(without_preemption(|| lock(&cell.waiter).take()));
        }
        if before & THERE != 0 {
            // SAFETY: the result is there, and its handle's.
            unsafe { cell.body.take(std::ptr::null_mut()) };
        }
    }
}
