//! The future of a task and its result, inside the task's cell: one allocation holds all of it.
//!
//! A cell is made for a type of future, and used without that type through the trait [`Body`]. The holder of the task's
//! turn touches its future ([`Seat`]). After the last poll, the result belongs to the task's [`Joined`] handle, or to
//! the thread of that poll if the handle is gone by then.
//!
//! (Rejected: the crate async-task. It has a word, a waker and a reference count of its own beside those of the cell,
//! and one more allocation per task. A task that is woken during its poll comes back through it.)

use crate::os::above::without_preemption;
use crate::os::harmless::{Outcome, harmless};
use crate::os::seat::Seat;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering, lock};
use runyard_smp::machine::TaskOf;
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

/// The part of a cell that the modules above define.
pub(crate) trait Head: fmt::Debug + Send + Sync + Sized + 'static {
    /// The reason why a task has no result.
    type Error: Send;
    /// The kind of work that running the task means now.
    type Todo: fmt::Debug + Send;

    /// Makes the error of a task that is cancelled. Called in foreign code.
    fn cancelled(&self) -> Self::Error;

    /// Makes the error of a task that panicked. Called in foreign code.
    fn panicked(&self, payload: Box<dyn Any + Send>) -> Self::Error;

    /// Wakes the task of this cell, unless it is awake or over.
    fn wake(cell: &Cell<Self>);
}

/// The cell of a task, with the type of its future erased.
pub(crate) type Cell<H> = TaskCell<H, dyn Body<H>>;

/// A task's cell, with its future.
///
/// The fields are laid out in the order of the source: those that every wake-up and poll reads lie together behind the
/// reference counts. With thousands of tasks each cache line is a miss.
#[repr(C)]
pub(crate) struct TaskCell<H: Head, B: ?Sized> {
    pub(crate) seat: Seat<TaskOf<Job<H>>>,
    join: Join,
    /// Whether the future is gone.
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
    /// Returns whether the future is gone, by its end or by being dropped.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Returns whether the task was asked to end.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// Makes the task end at its next poll.
    pub(crate) fn note_aborted(&self) {
        self.aborted.store(true, Ordering::Release);
    }

    /// Returns whether the result of the task is stored, some time after the future is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.join.is_over()
    }
}

/// A shared cell that was found behind its reference counts. That takes some instructions each time, as its size is not
/// known.
#[derive(Debug)]
pub(crate) struct Found<'a, H: Head> {
    shared: &'a Arc<Cell<H>>,
    cell: &'a Cell<H>,
}

impl<'a, H: Head> Found<'a, H> {
    #[inline]
    pub(crate) fn new(shared: &'a Arc<Cell<H>>) -> Found<'a, H> {
        Found { shared, cell: shared }
    }

    #[inline]
    pub(crate) fn shared(self) -> &'a Arc<Cell<H>> {
        self.shared
    }
}

impl<H: Head> Clone for Found<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Head> Copy for Found<'_, H> {}

impl<H: Head> Deref for Found<'_, H> {
    type Target = Cell<H>;

    #[inline]
    fn deref(&self) -> &Cell<H> {
        self.cell
    }
}

/// The payload that the engine hands a worker to run a task.
#[derive(Debug)]
pub(crate) struct Job<H: Head> {
    pub(crate) cell: Arc<Cell<H>>,
    pub(crate) todo: H::Todo,
}

/// The future inside a cell, with its type erased.
pub(crate) trait Body<H: Head>: Any + Send + Sync {
    /// Polls the future. Returns whether it has completed: then its result is stored and the future is gone.
    ///
    /// # Safety
    /// The caller has the turn of `task`, the turn is not over, and this is the body of `task`.
    unsafe fn poll(&self, task: Found<'_, H>) -> bool;

    /// Moves the result to the place that `into` points to, or drops it if `into` is null.
    ///
    /// # Safety
    /// The result is stored and belongs to the caller. `into` is null or points to an `Option<Outcome<T, H::Error>>`,
    /// where `T` is the future's output.
    unsafe fn take(&self, into: *mut ());
}

/// A future of a known type, or its result.
pub(crate) struct FutureBody<H: Head, F: Future> {
    stage: UnsafeCell<Stage<H, F>>,
}

enum Stage<H: Head, F: Future> {
    Future(F),
    Result(Outcome<F::Output, H::Error>),
    Gone,
}

// SAFETY: only the holder of the task's turn or of the result touches the stage, one thread at a time. So both are at
// most sent.
unsafe impl<H: Head, F: Future<Output: Send> + Send> Sync for FutureBody<H, F> {}

/// The stage of a future whose poll panics. The future is dropped while the thread unwinds, as any value that a panic
/// drops: its destructors see that the thread is panicking.
struct Unwinding<'a, H: Head, F: Future>(&'a mut Stage<H, F>);

impl<H: Head, F: Future> Drop for Unwinding<'_, H, F> {
    fn drop(&mut self) {
        harmless(|| *self.0 = Stage::Gone);
    }
}

impl<H, F> Body<H> for FutureBody<H, F>
where
    H: Head,
    F: Future<Output: Send + 'static> + Send + 'static,
{
    unsafe fn poll(&self, task: Found<'_, H>) -> bool {
        // SAFETY: the caller has the turn.
        let stage = unsafe { &mut *self.stage.get() };
        let ready = if task.is_aborted() {
            Err(task.cancelled())
        } else {
            // SAFETY: this is the body of the task, whose cell was made for this type of future. The count that the
            // waker stands for is the caller's: the waker is not dropped.
            let waker =
                unsafe { Arc::from_raw(Arc::as_ptr(task.shared).cast::<TaskCell<H, Self>>()) };
            let waker = ManuallyDrop::new(Waker::from(waker));
            let mut cx = Context::from_waker(&waker);
            let poll = || {
                let stage = Unwinding(&mut *stage);
                let Stage::Future(future) = &mut *stage.0 else {
                    unreachable!("a future is polled only until it is ready")
                };
                // SAFETY: the future is in a reference-counted allocation, and stays there until it is dropped.
                let polled = unsafe { Pin::new_unchecked(future) }.poll(&mut cx);
                mem::forget(stage);
                polled
            };
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(value)) => Ok(value),
                Err(payload) => Err(task.panicked(payload)),
            }
        };
        // Dropping the future may panic as well.
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
        // SAFETY: as the caller promises.
        let Some(into) = (unsafe { into.as_mut() }) else { return *stage = Stage::Gone };
        // The stage is as large as the future; only the outcome is moved out of it. SAFETY: the outcome is read once,
        // as nothing drops the stage that held it.
        *into = Some(unsafe { std::ptr::read(outcome) });
        // SAFETY: the place is valid, and its content was moved out.
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

/// The owner of the result, and whether a waiter may be registered for it.
#[derive(Debug, Default)]
struct Join {
    word: AtomicU32,
}

/// The waker of the task or thread that waits for the result.
type Waiter = Mutex<Option<Waker>>;

/// A handle wants the result.
const WANTED: u32 = 1;
/// The result is stored.
const THERE: u32 = 2;
/// A waiter may be registered.
const WAITS: u32 = 4;

impl Join {
    /// Returns whether the result has been stored, even if it was taken since.
    fn is_over(&self) -> bool {
        self.word.load(Ordering::Acquire) & THERE != 0
    }
}

/// Makes a new task, and the only handle for its result.
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

/// Makes the cell of a task that is over the cell of a new task, and returns the only handle for its result. `renews`
/// changes the head, and says whether it can. The future stays where it is, and the result is `None`, if the cell cannot
/// be used again: it is of another type, or a handle or a waker still refers to it.
///
/// No foreign code runs, and nothing is allocated or freed: the future of a task that is over is gone, and its result was
/// taken.
#[inline]
pub(crate) fn renewed<H, F>(
    cell: &mut Arc<Cell<H>>,
    renews: impl FnOnce(&mut H) -> bool,
    future: &mut Option<F>,
) -> Option<Joined<H, F::Output>>
where
    H: Head,
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let own = Arc::get_mut(cell)?;
    let body: &mut dyn Any = &mut own.body;
    let stage = body.downcast_mut::<FutureBody<H, F>>()?.stage.get_mut();
    if !matches!(stage, Stage::Gone) || !renews(&mut own.head) {
        return None;
    }
    *stage = Stage::Future(future.take()?);
    own.seat = Seat::new();
    own.join = Join { word: AtomicU32::new(WANTED) };
    own.done = AtomicBool::new(false);
    own.aborted = AtomicBool::new(false);
    Some(Joined { cell: cell.clone(), is_taken: false, result: PhantomData })
}

/// Polls a task that was scheduled. Called in foreign code.
#[inline]
pub(crate) fn run<H: Head>(task: Found<'_, H>) {
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
pub(crate) fn block<H: Head>(task: TaskOf<Job<H>>) -> Option<TaskOf<Job<H>>> {
    let job = task.payload.as_ref().expect("a blocked task has its payload");
    let seat = &raw const job.cell.seat;
    // SAFETY: the box keeps the cell, which is an allocation of its own, and the caller has the box.
    unsafe { Seat::block(seat, task) }
}

/// The handle for the result of a task.
#[derive(Debug)]
pub(crate) struct Joined<H: Head, T> {
    cell: Arc<Cell<H>>,
    is_taken: bool,
    /// The type for which [`task`] made the cell.
    result: PhantomData<fn() -> T>,
}

impl<H: Head, T> Joined<H, T> {
    pub(crate) fn cell(&self) -> &Arc<Cell<H>> {
        &self.cell
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Returns the result if it is stored. Otherwise registers `waker`, which must be safe to wake anywhere, for that
    /// moment.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Outcome<T, H::Error>> {
        assert!(!self.is_taken, "a handle is polled until it is ready");
        let join = &self.cell.join;
        if !join.is_over() {
            let new = waker.clone();
            let old = without_preemption(|| lock(&self.cell.waiter).replace(new));
            drop(old);
            if join.word.fetch_or(WAITS, Ordering::AcqRel) & THERE == 0 {
                return Poll::Pending;
            }
        }
        self.is_taken = true;
        let mut outcome: Option<Outcome<T, H::Error>> = None;
        // SAFETY: the result is stored and belongs to the handle, and the cell was made for this type.
        unsafe { self.cell.body.take((&raw mut outcome).cast()) };
        Poll::Ready(outcome.expect("the result was moved into the outcome"))
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
            drop(without_preemption(|| lock(&cell.waiter).take()));
        }
        if before & THERE != 0 {
            // SAFETY: the result is stored and belongs to the handle.
            unsafe { cell.body.take(std::ptr::null_mut()) };
        }
    }
}
