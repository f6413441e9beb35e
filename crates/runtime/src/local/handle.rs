//! A task of a [`LocalSet`](super::LocalSet): its future, and the handle that waits for its result.

use crate::current::turn;
use crate::deferred::careful::LastCareful;
use crate::os::above::without_preemption;
use crate::os::harmless::harmless;
use crate::os::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::task::JoinError;
use crate::task::notices::Notice;
use runyard_engine::task::TaskId;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker, ready};

/// The first number of a task of a set. Tasks of a runtime are counted from 0.
const FIRST: u64 = 1 << 62;

/// The numbers of such tasks are unique in the process.
static NEXT: AtomicU64 = AtomicU64::new(FIRST);

/// A handle that waits for the result of a task of a [`LocalSet`](crate::LocalSet). If it is dropped, the task goes on.
///
/// ```
/// use runyard::{LocalSet, Runtime, spawn_local};
///
/// LocalSet::new().block_on(&Runtime::new(), async {
///     let endless = spawn_local(std::future::pending::<()>());
///     endless.abort();
///     assert!(endless.await.unwrap_err().is_cancelled());
/// });
/// ```
pub struct LocalJoinHandle<T> {
    state: Arc<State<T>>,
    careful: LastCareful,
}

/// The state that a task shares with its handle.
struct State<T> {
    id: TaskId,
    notice: Arc<Notice>,
    progress: Mutex<Progress<T>>,
}

enum Progress<T> {
    /// The task is not over. It has the waker of the handle.
    Goes {
        waiter: Option<Waker>,
        is_aborted: bool,
    },
    Over(Result<T, JoinError>),
    Taken,
}

/// A task whose future is over or dropped has told its handle.
struct Local<F: Future> {
    /// `None` when it is over.
    future: Option<Pin<Box<F>>>,
    state: Arc<State<F::Output>>,
}

/// A task of a set, whatever its result is.
pub(super) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Makes the task of a future, and its handle. `notice` wakes it.
pub(super) fn task<F>(future: F, notice: &Arc<Notice>) -> (LocalFuture, LocalJoinHandle<F::Output>)
where
    F: Future<Output: 'static> + 'static,
{
    let progress = Mutex::new(Progress::Goes { waiter: None, is_aborted: false });
    let id = TaskId(NEXT.fetch_add(1, Ordering::Relaxed));
    let state = Arc::new(State { id, notice: notice.clone(), progress });
    let task = Local { future: Some(Box::pin(future)), state: state.clone() };
    (Box::pin(task), LocalJoinHandle { state, careful: LastCareful::default() })
}

impl<T> State<T> {
    fn is_aborted(&self) -> bool {
        without_preemption(|| {
            matches!(&*lock(&self.progress), Progress::Goes { is_aborted: true, .. })
        })
    }

    fn end(&self, result: Result<T, JoinError>) {
        let mut new = Some(Progress::Over(result));
        let before = without_preemption(|| {
            std::mem::replace(&mut *lock(&self.progress), new.take().expect("it is set once"))
        });
        if let Progress::Goes { waiter: Some(waiter), .. } = before {
            waiter.wake();
        }
    }
}

impl<F: Future> Local<F> {
    fn end(&mut self, result: Result<F::Output, JoinError>) {
        // The result comes after the future has been dropped, as with other tasks.
        let future = self.future.take();
        harmless(|| drop(future));
        self.state.end(result);
    }
}

impl<F: Future> Future for Local<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let id = self.state.id;
        if self.state.is_aborted() {
            self.end(Err(JoinError::cancelled(id)));
            return Poll::Ready(());
        }
        let Some(future) = &mut self.future else { return Poll::Ready(()) };
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => Err(JoinError::panicked(id, payload)),
        };
        self.end(result);
        Poll::Ready(())
    }
}

impl<F: Future> Drop for Local<F> {
    fn drop(&mut self) {
        if self.future.is_some() {
            self.end(Err(JoinError::cancelled(self.state.id)));
        }
    }
}

impl<T> LocalJoinHandle<T> {
    /// Ends the task at its next await, unless it is over by then.
    pub fn abort(&self) {
        without_preemption(|| {
            if let Progress::Goes { is_aborted, .. } = &mut *lock(&self.state.progress) {
                *is_aborted = true;
            }
        });
        self.state.notice.wake_by_ref();
    }

    /// Returns whether the task is over.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        without_preemption(|| !matches!(&*lock(&self.state.progress), Progress::Goes { .. }))
    }

    /// Returns the task's number, which is unique among the tasks of all sets. It is in no event.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.state.id
    }
}

impl<T> Future for LocalJoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(turn::proceed(cx));
        let this = &mut *self;
        let mut new = Some(this.careful.of(cx.waker()).clone());
        let taken = without_preemption(|| {
            let mut progress = lock(&this.state.progress);
            match &mut *progress {
                Progress::Goes { waiter, .. } => Err(std::mem::replace(waiter, new.take())),
                Progress::Over(_) => Ok(std::mem::replace(&mut *progress, Progress::Taken)),
                Progress::Taken => Ok(Progress::Taken),
            }
        });
        match taken {
            Err(_before) => Poll::Pending,
            Ok(Progress::Over(result)) => Poll::Ready(result),
            Ok(_) => panic!("a handle is polled until it is ready"),
        }
    }
}

impl<T> fmt::Debug for LocalJoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalJoinHandle").field("id", &self.id()).finish_non_exhaustive()
    }
}
