//! The future of a task, and its result, in the cell of the task: one allocation has all of it.
//!
//! A cell is made for a type of future, and used without that type, by the trait [`Body`]. Who has the turn of the
//! task touches its future ([`Seat`]); after the last poll the result belongs to the task's [`Joined`] handle, or to the
//! thread of that poll if the handle is gone by then.
//!
//! (Rejected: the crate async-task. It has a word, a waker and a reference count of its own beside those of the cell, and
//! an allocation more for each task; and a task that is woken in its poll comes back through it.)

use crate::os::above::{Above, Calls};
use crate::os::harmless::Outcome;
use crate::os::seat::Seat;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering, lock};
use runyard_smp::machine::TaskOf;
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

/// The part of a cell that the rooms above know.
pub(crate) trait Head: fmt::Debug + Send + Sync + Sized + 'static {
    /// The reason why a task has no result.
    type Error: Send;
    /// What running the task means now.
    type Todo: fmt::Debug + Send;

    /// Makes the error of a task that is cancelled. In foreign code.
    fn cancelled(&self) -> Self::Error;

    /// Makes the error of a task that panicked. In foreign code.
    fn panicked(&self, payload: Box<dyn Any + Send>) -> Self::Error;

    /// Wakes the task of this cell, unless it is awake or over.
    fn wake(cell: &Cell<Self>);
}

/// The cell of a task, whatever its future is.
pub(crate) type Cell<H> = TaskCell<H, dyn Body<H>>;

/// A task's cell, with its future.
///
/// In the order of the source: what every wake-up and poll looks at lies together behind the reference
/// counts. With thousands of tasks each line is a miss.
#[repr(C)]
pub(crate) struct TaskCell<H: Head, B: ?Sized> {
    pub(crate) seat: Seat<TaskOf<Job<H>>>,
    join: Join,
    /// The future is gone.
    done: AtomicBool,
    aborted: AtomicBool,
    head: H,
    waiter: Waiter,
    body: B,
}

impl<H: Head, B: ?Sized> Deref for TaskCell<H, B> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.head
    }
}

impl<H: Head, B: ?Sized> fmt::Debug for TaskCell<H, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head.fmt(f)
    }
}

impl<H: Head, B: ?Sized> TaskCell<H, B> {
    /// Whether the future is gone, by its end or by being dropped.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Whether somebody asked for the task's end.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// It is to end at its next poll.
    pub(crate) fn note_aborted(&self) {
        self.aborted.store(true, Ordering::Release);
    }

    /// Whether the result of the task is there: it is some time after the future is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.join.is_over()
    }
}

/// What the engine lends a worker to run a task.
#[derive(Debug)]
pub(crate) struct Job<H: Head> {
    pub(crate) cell: Arc<Cell<H>>,
    pub(crate) todo: H::Todo,
}

/// The future in a cell, whatever its type is.
pub(crate) trait Body<H: Head>: Send + Sync {
    /// Polls the future. Whether its result is there, and the future gone.
    ///
    /// # Safety
    /// The caller has the turn of `task`, which is not over, and of which this is the body.
    unsafe fn poll(&self, task: &Arc<Cell<H>>) -> bool;

    /// Takes the result to where `into` points, or drops it if that is null.
    ///
    /// # Safety
    /// The result is there, and it is the caller's. `into` is null, or leads to an `Option<Outcome<T, H::Error>>` with the type of
    /// the future's output.
    unsafe fn take(&self, into: *mut ());
}

/// The future of a type, or its result.
pub(crate) struct FutureBody<H: Head, F: Future> {
    stage: UnsafeCell<Stage<H, F>>,
}

enum Stage<H: Head, F: Future> {
    Future(F),
    Result(Outcome<F::Output, H::Error>),
    Gone,
}

// SAFETY: the stage is touched by who has the turn of the task, or the result: by one thread at a time. So both are
// sent at most.
unsafe impl<H: Head, F: Future<Output: Send> + Send> Sync for FutureBody<H, F> {}

impl<H, F> Body<H> for FutureBody<H, F>
where
    H: Head,
    F: Future<Output: Send + 'static> + Send + 'static,
{
    unsafe fn poll(&self, task: &Arc<Cell<H>>) -> bool {
        // SAFETY: the caller has the turn.
        let stage = unsafe { &mut *self.stage.get() };
        let Stage::Future(future) = stage else { unreachable!("it is polled until it is ready") };
        let ready = if task.is_aborted() {
            Err(task.cancelled())
        } else {
            // SAFETY: this is the body of the task, whose cell was made for this type of future. The count that the
            // waker stands for is the caller's: the waker is not dropped.
            let waker = unsafe { Arc::from_raw(Arc::as_ptr(task).cast::<TaskCell<H, Self>>()) };
            let waker = ManuallyDrop::new(Waker::from(waker));
            // SAFETY: the future is in an allocation that is counted, and stays there until it is dropped.
            let future = unsafe { Pin::new_unchecked(future) };
            let mut cx = Context::from_waker(&waker);
            match catch_unwind(AssertUnwindSafe(|| future.poll(&mut cx))) {
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(value)) => Ok(value),
                Err(payload) => Err(task.panicked(payload)),
            }
        };
        // What the future has may panic as well when it is dropped.
        let dropped = catch_unwind(AssertUnwindSafe(|| *stage = Stage::Gone));
        *stage = Stage::Result(Outcome::new(match dropped {
            Ok(()) => ready,
            Err(payload) => {
                drop(Outcome::new(ready));
                Err(task.panicked(payload))
            }
        }));
        true
    }

    unsafe fn take(&self, into: *mut ()) {
        // SAFETY: the result is the caller's.
        let stage = unsafe { &mut *self.stage.get() };
        let Stage::Result(outcome) = stage else { unreachable!("a result is taken once") };
        let into = into.cast::<Option<Outcome<F::Output, H::Error>>>();
        // SAFETY: as the caller says.
        let Some(into) = (unsafe { into.as_mut() }) else { return *stage = Stage::Gone };
        // The stage is as large as the future. Of that the outcome is moved only.
        // SAFETY: the outcome is read once, as nothing drops the stage that had it.
        *into = Some(unsafe { std::ptr::read(outcome) });
        // SAFETY: the place is valid, and what is there was moved.
        unsafe { std::ptr::write(stage, Stage::Gone) };
    }
}

impl<H, F> Wake for TaskCell<H, FutureBody<H, F>>
where
    H: Head,
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let cell: &Cell<H> = &**self;
        H::wake(cell);
    }
}

/// Whose the result is, and whether somebody waits for it.
#[derive(Debug, Default)]
struct Join {
    word: AtomicU32,
}

/// Who waits for the result.
type Waiter = Mutex<Option<Waker>>;

/// A handle wants the result.
const WANTED: u32 = 1;
/// The result is there.
const THERE: u32 = 2;
/// There may be a waiter.
const WAITS: u32 = 4;

impl Join {
    /// Whether the result is there, or was.
    fn is_over(&self) -> bool {
        self.word.load(Ordering::Acquire) & THERE != 0
    }
}

/// A new task, and the one handle for its result.
pub(crate) fn task<H, F>(head: H, future: F) -> (Arc<Cell<H>>, Joined<H, F::Output>)
where
    H: Head,
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let cell: Arc<Cell<H>> = Arc::new(TaskCell {
        seat: Seat::new(),
        join: Join { word: AtomicU32::new(WANTED) },
        done: AtomicBool::new(false),
        aborted: AtomicBool::new(false),
        head,
        waiter: Waiter::default(),
        body: FutureBody { stage: UnsafeCell::new(Stage::Future(future)) },
    });
    (cell.clone(), Joined { cell, is_taken: false, result: PhantomData })
}

/// Polls a task that was scheduled. In foreign code.
pub(crate) fn run<H: Head>(task: &Arc<Cell<H>>) {
    let in_poll = task.seat.begin();
    // SAFETY: the turn has just begun.
    if !unsafe { task.body.poll(task) } {
        return;
    }
    task.done.store(true, Ordering::Release);
    task.seat.end();
    let join = &task.join;
    let before = join.word.fetch_or(THERE, Ordering::AcqRel);
    if before & WANTED == 0 {
        // SAFETY: no handle is left, so the result is of whoever polled the task.
        unsafe { task.body.take(std::ptr::null_mut()) };
    } else if before & WAITS != 0 {
        let waiter = Above::without_preemption(|| lock(&task.waiter).take());
        waiter.into_iter().for_each(Waker::wake);
    }
    drop(in_poll);
}

/// The poll of a task is over, and it blocks: its box goes to its seat, or is given back if it was woken meanwhile.
#[inline]
pub(crate) fn block<H: Head>(task: TaskOf<Job<H>>) -> Option<TaskOf<Job<H>>> {
    let job = task.payload.as_ref().expect("a blocked task has its payload");
    let seat = &raw const job.cell.seat;
    // SAFETY: the box keeps the cell, in an allocation of its own, and the caller has the box.
    unsafe { Seat::block(seat, task) }
}

/// The handle for the result of a task.
#[derive(Debug)]
pub(crate) struct Joined<H: Head, T> {
    cell: Arc<Cell<H>>,
    is_taken: bool,
    /// The type with which [`task`] made the cell.
    result: PhantomData<fn() -> T>,
}

impl<H: Head, T> Joined<H, T> {
    pub(crate) fn cell(&self) -> &Arc<Cell<H>> {
        &self.cell
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// The result, if it is there; else `waker`, which harms nobody, is woken when it is.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Outcome<T, H::Error>> {
        assert!(!self.is_taken, "a handle is polled until it is ready");
        let join = &self.cell.join;
        if !join.is_over() {
            let new = waker.clone();
            let old = Above::without_preemption(|| lock(&self.cell.waiter).replace(new));
            drop(old);
            if join.word.fetch_or(WAITS, Ordering::AcqRel) & THERE == 0 {
                return Poll::Pending;
            }
        }
        self.is_taken = true;
        let mut outcome: Option<Outcome<T, H::Error>> = None;
        // SAFETY: the result is there and the handle's, and the cell was made with its type.
        unsafe { self.cell.body.take((&raw mut outcome).cast()) };
        Poll::Ready(outcome.expect("it was taken"))
    }
}

impl<H: Head, T> Drop for Joined<H, T> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let cell = &self.cell;
        let before = cell.join.word.fetch_and(!WANTED, Ordering::AcqRel);
        if before & WAITS != 0 {
            drop(Above::without_preemption(|| lock(&cell.waiter).take()));
        }
        if before & THERE != 0 {
            // SAFETY: the result is there, and its handle's.
            unsafe { cell.body.take(std::ptr::null_mut()) };
        }
    }
}
