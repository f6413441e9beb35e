//! The result of a task: the handle that waits for it, and the error if there is none.

use super::cell::Head;
use super::handle::{AbortHandle, TaskHandle};
use crate::current::turn;
use crate::deferred::careful::LastCareful;
use crate::os::future::Joined;
use crate::os::harmless::Outcome;
use crate::os::sync::{Mutex, OnceLock};
use runyard_engine::task::TaskId;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// The reason why a task has no result: it panicked, or it was cancelled.
///
/// `?` converts it into any error type that takes `dyn Error + Send + Sync`.
///
/// ```
/// use runyard::{Runtime, spawn};
///
/// Runtime::new().block_on(async {
///     let error = spawn(async { panic!("out of cheese") }).await.map(|(): ()| ()).unwrap_err();
///     assert!(error.is_panic());
///     assert!(error.to_string().ends_with("panicked: out of cheese"));
///     let other: Box<dyn std::error::Error + Send + Sync> = error.into();
///     # drop(other);
/// });
/// ```
pub struct JoinError(Box<Failure>);

/// The content of a [`JoinError`]. It lies behind a pointer because each task has room for its result or for an error,
/// and few tasks fail.
struct Failure {
    id: TaskId,
    why: Why,
}

enum Why {
    Cancelled,
    Panicked {
        /// The payload of the panic. It is only `Send`; the lock makes the error `Sync`, and is never contended.
        payload: Mutex<Box<dyn Any + Send>>,
        /// A copy of the payload if it is a string, so that a reader need not lock the payload.
        message: Option<Cow<'static, str>>,
    },
}

impl JoinError {
    /// Makes the error of a cancelled task. Called in foreign code.
    pub(crate) fn cancelled(id: TaskId) -> JoinError {
        JoinError(Box::new(Failure { id, why: Why::Cancelled }))
    }

    /// Makes the error of a task that panicked. Called in foreign code, since a message that is a `String` is copied.
    pub(crate) fn panicked(id: TaskId, payload: Box<dyn Any + Send>) -> JoinError {
        let message = match payload.downcast_ref::<&'static str>() {
            Some(&message) => Some(Cow::Borrowed(message)),
            None => payload.downcast_ref::<String>().map(|message| Cow::Owned(message.clone())),
        };
        let why = Why::Panicked { payload: Mutex::new(payload), message };
        JoinError(Box::new(Failure { id, why }))
    }

    /// Returns whether the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.0.why, Why::Panicked { .. })
    }

    /// Returns whether the task was aborted, or its runtime ended before the task did.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.why, Why::Cancelled)
    }

    /// Returns the payload of the panic, for [`std::panic::resume_unwind`].
    ///
    /// # Panics
    /// If the task did not panic.
    #[must_use]
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        self.try_into_panic().expect("the task panicked")
    }

    /// Returns the payload of the panic.
    ///
    /// # Errors
    /// The error itself, if the task did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.0.why {
            Why::Panicked { payload, .. } => {
                Ok(payload.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
            }
            Why::Cancelled => Err(self),
        }
    }

    /// Returns the number of the task.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.0.id
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0.id.0;
        match &self.0.why {
            Why::Cancelled => write!(f, "JoinError::Cancelled({id})"),
            Why::Panicked { message: None, .. } => write!(f, "JoinError::Panic({id}, ..)"),
            Why::Panicked { message: Some(message), .. } => {
                write!(f, "JoinError::Panic({id}, {message:?})")
            }
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0.id;
        match &self.0.why {
            Why::Cancelled => write!(f, "task {id} was cancelled"),
            Why::Panicked { message: None, .. } => write!(f, "task {id} panicked"),
            Why::Panicked { message: Some(message), .. } => {
                write!(f, "task {id} panicked: {message}")
            }
        }
    }
}

impl std::error::Error for JoinError {}

/// For functions whose error is [`std::io::Error`].
impl From<JoinError> for std::io::Error {
    fn from(error: JoinError) -> std::io::Error {
        std::io::Error::other(error)
    }
}

/// A handle that waits for the result of a task. If it is dropped, the task goes on.
#[derive(Debug)]
pub struct JoinHandle<T> {
    result: Joined<Head, T>,
    /// Made when it is asked for.
    task: OnceLock<TaskHandle>,
    careful: LastCareful,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(result: Joined<Head, T>) -> Self {
        JoinHandle { result, task: OnceLock::new(), careful: LastCareful::default() }
    }

    /// Returns a handle with which the task can be inspected and changed. It outlives this handle.
    #[must_use]
    pub fn task(&self) -> &TaskHandle {
        self.task.get_or_init(|| TaskHandle { cell: self.result.cell().clone() })
    }

    /// Returns the task's number, which is unique in its runtime and identifies it in the events of an
    /// [`crate::Observer`].
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.result.cell().id
    }

    /// Ends the task at its next await, unless it is over by then.
    pub fn abort(&self) {
        self.result.cell().abort();
    }

    /// Returns a handle that can only end the task.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(self.task().clone())
    }

    /// Returns whether the task is over. Its result is then available, and this handle is ready.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.result.cell().is_over()
    }
}

impl<T> JoinHandle<T> {
    /// Returns whether the result was taken. The handle then has no further use.
    pub(crate) fn is_taken(&self) -> bool {
        self.result.is_taken()
    }

    /// Polls as [`Future::poll`], with a waker that calls no foreign code.
    pub(crate) fn poll_by(&mut self, harmless: &Waker) -> Poll<Result<T, JoinError>> {
        self.result.poll(harmless).map(Outcome::take)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(turn::proceed(cx));
        let JoinHandle { result, careful, .. } = &mut *self;
        result.poll(careful.of(cx.waker())).map(Outcome::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::sync::Arc;
    use crate::{Runtime, spawn};
    use std::collections::BTreeSet;

    const MANY: usize = 200;

    /// Spawns tasks of one type one after the other, and calls `keep` with each handle once its task is over. Returns the
    /// addresses of their cells.
    fn cells(mut keep: impl FnMut(JoinHandle<()>) + Send + 'static) -> Vec<usize> {
        async fn nothing() {}
        let runtime = Runtime::builder().workers(1).build();
        let spawns = runtime.spawn(async move {
            let mut cells = Vec::new();
            for _ in 0..MANY {
                let mut task = spawn(nothing());
                cells.push(Arc::as_ptr(task.result.cell()).addr());
                (&mut task).await.unwrap();
                keep(task);
            }
            cells
        });
        runtime.block_on(spawns).unwrap()
    }

    #[test]
    fn the_cell_of_a_task_that_is_over_becomes_that_of_a_new_one() {
        let cells: BTreeSet<_> = cells(drop).into_iter().collect();
        // A batch keeps a few of those that are over.
        assert!(cells.len() <= 40, "{} cells for {MANY} tasks", cells.len());
    }

    #[test]
    fn a_cell_that_somebody_knows_is_not_used_again() {
        let mut known = Vec::new();
        let all = cells(move |task| known.push(task.abort_handle()));
        let cells: BTreeSet<_> = all.iter().collect();
        assert_eq!(cells.len(), MANY);
    }
}
