//! The future of a task and its result, inside the task's cell: one allocation holds all of it.
//!
//! A cell is made for a type of future, and used without that type through the trait [`Body`]. The holder of the task's
//! turn touches its future ([`Seat`]). After the last poll, the result belongs to the task's [`Joined`] handle, or to
//! the thread of that poll if the handle is gone by then.
//!
//! (Rejected: the crate async-task. It has a word, a waker and a reference count of its own beside those of the cell,
//! and one more allocation per task. A task that is woken during its poll comes back through it.)

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

/// The future inside a cell, with its type erased.
pub(crate) trait Body: Send + Sync {
    /// Polls the future. Returns whether it has completed: then its result is stored and the future is gone.
    ///
    /// # Safety
    /// The caller has the turn of `task`, the turn is not over, and this is the body of `task`.
    unsafe fn poll(&self, task: &Arc<Cell>) -> bool;

    /// Moves the result to the place that `into` points to, or drops it if `into` is null.
    ///
    /// # Safety
    /// The result is stored and belongs to the caller. `into` is null or points to an `Option<Outcome<T>>`, where `T`
    /// is the future's output.
    unsafe fn take(&self, into: *mut ());
}

/// A future of a known type, or its result.
pub(crate) struct FutureBody<F: Future> {
    stage: UnsafeCell<Stage<F>>,
}

enum Stage<F: Future> {
    Future(F),
    Result(Outcome<F::Output>),
    Gone,
}

// SAFETY: only the holder of the task's turn or of the result touches the stage, one thread at a time. So both are at
// most sent.
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
            // SAFETY: the future is in a reference-counted allocation, and stays there until it is dropped.
            let future = unsafe { Pin::new_unchecked(future) };
            let mut cx = Context::from_waker(&waker);
            match catch_unwind(AssertUnwindSafe(|| future.poll(&mut cx))) {
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(value)) => Ok(value),
                Err(payload) => Err(JoinError::panicked(task.id, payload)),
            }
        };
        // Dropping the future may panic as well.
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
        // SAFETY: as the caller promises.
        let Some(into) = (unsafe { into.as_mut() }) else { return *stage = Stage::Gone };
        // The stage is as large as the future; only the outcome is moved out of it. SAFETY: the outcome is read once,
        // as nothing drops the stage that held it.
        *into = Some(unsafe { std::ptr::read(outcome) });
        // SAFETY: the place is valid, and its content was moved out.
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

/// The owner of the result, and whether a waiter may be registered for it.
#[derive(Debug, Default)]
pub(crate) struct Join {
    word: AtomicU32,
}

/// The waker of the task or thread that waits for the result.
pub(crate) type Waiter = Mutex<Option<Waker>>;

/// A handle wants the result.
const WANTED: u32 = 1;
/// The result is stored.
const THERE: u32 = 2;
/// A waiter may be registered.
const WAITS: u32 = 4;

impl Join {
    /// Returns whether the result has been stored, even if it was taken since.
    pub(crate) fn is_over(&self) -> bool {
        self.word.load(Ordering::Acquire) & THERE != 0
    }
}

/// Makes a new task of a runtime, and the only handle for its result.
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

/// Polls a task that was scheduled. Called in foreign code.
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
        // SAFETY: no handle is left, so the result belongs to the thread that polled the task.
        unsafe { task.body.take(std::ptr::null_mut()) };
    } else if before & WAITS != 0 {
        let waiter = without_preemption(|| lock(&task.waiter).take());
        waiter.into_iter().for_each(Waker::wake);
    }
    drop(in_poll);
}

/// Ends the poll of a task that blocks: puts its box into its seat, or returns it if the task was woken meanwhile.
#[inline]
pub(crate) fn block(task: TaskOf<crate::task::Job>) -> Option<TaskOf<crate::task::Job>> {
    let job = task.payload.as_ref().expect("a blocked task has its payload");
    let seat = &raw const job.cell.seat;
    // SAFETY: the box keeps the cell, which is an allocation of its own, and the caller has the box.
    unsafe { Seat::block(seat, task) }
}

/// The handle for the result of a task.
#[derive(Debug)]
pub(crate) struct Joined<T> {
    task: TaskHandle,
    is_taken: bool,
    /// The type for which [`task`] made the cell.
    result: PhantomData<fn() -> T>,
}

impl<T> Joined<T> {
    pub(crate) fn task(&self) -> &TaskHandle {
        &self.task
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Returns the result if it is stored. Otherwise registers `waker`, which must be safe to wake anywhere, for that
    /// moment.
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
        // SAFETY: the result is stored and belongs to the handle, and the cell was made for this type.
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
            // SAFETY: the result is stored and belongs to the handle.
            unsafe { cell.body.take(std::ptr::null_mut()) };
        }
    }
}
