//! Tasks that stay on one thread: a set of futures that need not be `Send`, as one future.
//!
//! The set is polled by the thread that waits for it, in [`Runtime::block_on`](crate::Runtime::block_on) or in a blocking
//! function. It polls the members whose [notices](crate::task::notices) came, in the order in which they came. So its tasks
//! are nothing of the engine: they run when the surrounding task runs, by its policy and in its group, and are preempted
//! as that one task. A task that is stopped in the middle of a poll goes on on its own thread, so a set in a blocking
//! function stays on one thread too.
//!
//! Invariants:
//! * No member is borrowed while it is polled or dropped: it may spawn others, and end them.
//! * A handle is ready once its task is over, also if the set is dropped before.
//! * After [`POLLS`] polls the set lets its task go on with its other futures.
//!
//! Rejected: an engine task for each of them, bound to one thread, because a task of the engine has a thread only while it
//! is polled. Also rejected: the set of tokio or of async-executor inside. Their errors and handles are others, and tokio's
//! needs a feature of this crate.

mod handle;

pub use handle::LocalJoinHandle;

use self::handle::LocalFuture;

use crate::deferred::careful::LastCareful;
use crate::driver::budget;
use crate::os::harmless::harmless;
use crate::os::sync::Arc;
use crate::task::notices::{Notice, Queue};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The polls of members in one poll of their set.
const POLLS: u32 = 64;

/// A set of tasks that stay on one thread, so their futures need not be `Send`. The set is a future, which is ready when
/// all its tasks are over. It is awaited in [`Runtime::block_on`](crate::Runtime::block_on), or in a blocking function that
/// waits for it there.
///
/// The tasks of a set are no tasks of the scheduler. They share the policy, the group and the limits of the task in which
/// the set is polled, and take turns only when they await. [`Task::current`](crate::Task::current) is the surrounding task.
///
/// If the set is dropped, its tasks are cancelled.
///
/// ```
/// use runyard::{LocalSet, Runtime, spawn_local};
/// use std::rc::Rc;
///
/// let runtime = Runtime::new();
/// let set = LocalSet::new();
/// let shared = Rc::new(20);
/// let sum = set.block_on(&runtime, async move {
///     let other = shared.clone();
///     let task = spawn_local(async move { *other + 1 });
///     *shared + task.await.unwrap()
/// });
/// assert_eq!(sum, 41);
/// ```
///
/// A set that has a priority is one in a blocking function:
///
/// ```
/// use runyard::{Handle, LocalSet, Runtime, Task};
///
/// let runtime = Runtime::new();
/// let task = Task::builder().fifo(10).spawn_blocking_on(
///     || {
///         let set = LocalSet::new();
///         let task = set.spawn_local(async { "important" });
///         Handle::current().block_on(async {
///             set.await;
///             task.await.unwrap()
///         })
///     },
///     runtime.handle(),
/// );
/// assert_eq!(runtime.block_on(task).unwrap(), "important");
/// ```
#[must_use = "its tasks run only while it is polled"]
pub struct LocalSet {
    tasks: Rc<Tasks>,
}

/// While this guard lives, [`spawn_local`] on its thread spawns onto the [set](LocalSet::enter).
#[derive(Debug)]
#[must_use = "the set is left when the guard is dropped"]
pub struct LocalEnterGuard<'s> {
    before: Option<Rc<Tasks>>,
    set: PhantomData<&'s LocalSet>,
}

/// The tasks of a set.
pub(crate) struct Tasks {
    members: RefCell<Vec<Option<Member>>>,
    /// The free places of `members`.
    free: RefCell<Vec<usize>>,
    queue: Arc<Queue>,
    careful: RefCell<LastCareful>,
    /// Set when the set is dropped.
    is_closed: Cell<bool>,
}

struct Member {
    /// `None` while it is polled.
    future: Option<LocalFuture>,
    notice: Arc<Notice>,
    waker: Waker,
}

thread_local! {
    /// The set in which the calling code is.
    static CURRENT: RefCell<Option<Rc<Tasks>>> = const { RefCell::new(None) };
}

/// Starts a task in the [`LocalSet`] of the calling code. The future of `block_on` of a runtime
/// [on the calling thread](crate::Builder::new_current_thread) is in one that ends with the call.
///
/// # Panics
/// If the calling code is in none.
///
/// ```
/// use runyard::{LocalSet, Runtime, spawn_local};
///
/// let set = LocalSet::new();
/// let told = set.block_on(&Runtime::new(), async { spawn_local(async { 7 }).await });
/// assert_eq!(told.unwrap(), 7);
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> LocalJoinHandle<F::Output>
where
    F: Future<Output: 'static> + 'static,
{
    let current = CURRENT.with_borrow(Clone::clone);
    current.expect("spawn_local was called outside of every LocalSet").spawn(future)
}

impl LocalSet {
    /// Makes an empty set.
    pub fn new() -> LocalSet {
        LocalSet {
            tasks: Rc::new(Tasks {
                members: RefCell::default(),
                free: RefCell::default(),
                queue: Arc::default(),
                careful: RefCell::default(),
                is_closed: Cell::new(false),
            }),
        }
    }

    /// Starts a task of this set. It runs once the set is polled.
    pub fn spawn_local<F>(&self, future: F) -> LocalJoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        self.tasks.spawn(future)
    }

    /// Runs a future as a part of this set, so that [`spawn_local`] works in it, and the tasks of the set beside it. Tasks
    /// that are not over when the future is stay in the set.
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let _entered = self.enter();
            let polled = budget::apart(|| {
                budget::begin_poll();
                future.as_mut().poll(cx)
            });
            if polled.is_pending() {
                // The future may wait for other things than tasks of the set.
                let _ = self.tasks.poll(cx);
            }
            polled
        })
        .await
    }

    /// Enters the set: until the guard is dropped, [`spawn_local`] works on this thread. Guards must be dropped in the
    /// reverse order.
    ///
    /// ```
    /// use runyard::{LocalSet, Runtime, spawn_local};
    ///
    /// let set = LocalSet::new();
    /// let guard = set.enter();
    /// let task = spawn_local(async { 3 });
    /// drop(guard);
    /// assert_eq!(set.block_on(&Runtime::new(), task).unwrap(), 3);
    /// ```
    pub fn enter(&self) -> LocalEnterGuard<'_> {
        LocalEnterGuard { before: CURRENT.replace(Some(self.tasks.clone())), set: PhantomData }
    }
}

impl Drop for LocalEnterGuard<'_> {
    fn drop(&mut self) {
        // A thread at its end has no place for it.
        let _ = CURRENT.try_with(|current| current.replace(self.before.take()));
    }
}

impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _entered = self.enter();
        self.tasks.poll(cx)
    }
}

impl Tasks {
    fn spawn<F>(&self, future: F) -> LocalJoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let at = self.free.borrow_mut().pop().unwrap_or(self.members.borrow().len());
        let notice = Notice::new(at, &self.queue);
        let (future, handle) = handle::task(future, &notice);
        if self.is_closed.get() {
            // Its handle says that it was cancelled.
            drop(future);
            return handle;
        }
        let waker = Waker::from(notice.clone());
        waker.wake_by_ref();
        let member = Some(Member { future: Some(future), notice, waker });
        let mut members = self.members.borrow_mut();
        match members.get_mut(at) {
            Some(place) => *place = member,
            None => members.push(member),
        }
        handle
    }

    fn len(&self) -> usize {
        self.members.borrow().len() - self.free.borrow().len()
    }

    /// Polls the tasks that were woken. Is ready when there are no tasks. In any case a task that is woken or spawned later
    /// wakes the caller.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..POLLS {
            match self.queue.pop() {
                Some(notice) => self.poll_member(&notice),
                None if self.queue.wait(self.careful.borrow_mut().of(cx.waker())) => {
                    return if self.len() == 0 { Poll::Ready(()) } else { Poll::Pending };
                }
                None => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_member(&self, notice: &Arc<Notice>) {
        let taken = {
            let mut members = self.members.borrow_mut();
            // A late notice of a task that is over may find another task in its place.
            let member = members.get_mut(notice.at()).and_then(Option::as_mut);
            let member = member.filter(|member| Arc::ptr_eq(&member.notice, notice));
            member.and_then(|member| Some((member.future.take()?, member.waker.clone())))
        };
        let Some((mut future, waker)) = taken else { return };
        let polled = budget::apart(|| {
            budget::begin_poll();
            future.as_mut().poll(&mut Context::from_waker(&waker))
        });
        if polled.is_pending() {
            let mut members = self.members.borrow_mut();
            let member = members[notice.at()].as_mut().expect("only its end empties its place");
            member.future = Some(future);
            return;
        }
        self.leave(notice.at());
    }

    /// Empties the place of a task that is over.
    fn leave(&self, at: usize) {
        let member = self.members.borrow_mut()[at].take();
        self.free.borrow_mut().push(at);
        // Its result, if nobody takes it.
        harmless(|| drop(member));
    }

    fn close(&self) {
        self.is_closed.set(true);
        let members = self.members.take();
        self.free.take();
        harmless(|| drop(members));
        self.queue.close();
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        // A task that is dropped may spawn another one, which is then cancelled.
        let _entered = CURRENT.try_with(|_| ()).is_ok().then(|| self.enter());
        self.tasks.close();
    }
}

impl Default for LocalSet {
    fn default() -> LocalSet {
        LocalSet::new()
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet").field("tasks", &self.tasks).finish()
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("len", &self.len()).finish_non_exhaustive()
    }
}
