//! The result of a task: the handle that waits for it, and why there may be none.

use super::cell::Head;
use super::handle::{AbortHandle, TaskHandle};
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
use std::task::{Context, Poll, Waker};

/// Why a task has no result: it panicked, or it was cancelled.
///
/// It can be passed on by `?` into any error type that takes `dyn Error + Send + Sync`.
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

/// Behind a pointer: each task has room for its result or for this, and most fail never.
struct Failure {
    id: TaskId,
    why: Why,
}

enum Why {
    Cancelled,
    Panicked {
        /// Only `Send`. Nobody locks it: the lock makes the error `Sync`.
        payload: Mutex<Box<dyn Any + Send>>,
        /// The payload, if it is a string: without it a reader would have to lock the payload.
        message: Option<Cow<'static, str>>,
    },
}

impl JoinError {
    /// In foreign code.
    pub(crate) fn cancelled(id: TaskId) -> JoinError {
        JoinError(Box::new(Failure { id, why: Why::Cancelled }))
    }

    /// In foreign code: a message that is a `String` is copied.
    pub(crate) fn panicked(id: TaskId, payload: Box<dyn Any + Send>) -> JoinError {
        let message = match payload.downcast_ref::<&'static str>() {
            Some(&message) => Some(Cow::Borrowed(message)),
            None => payload.downcast_ref::<String>().map(|message| Cow::Owned(message.clone())),
        };
        let why = Why::Panicked { payload: Mutex::new(payload), message };
        JoinError(Box::new(Failure { id, why }))
    }

    /// Whether the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.0.why, Why::Panicked { .. })
    }

    /// Whether the task was aborted, or its runtime ended before it did.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.why, Why::Cancelled)
    }

    /// What the task panicked with, for [`std::panic::resume_unwind`].
    ///
    /// # Panics
    /// If the task did not panic.
    #[must_use]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        self.try_into_panic().expect("the task panicked")
    }

    /// What the task panicked with.
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

    /// Which task it was.
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

/// The result of a task, when it is there. Dropping the handle lets the task go on.
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

    /// The task, to ask and change it; outlives this handle.
    #[must_use]
    pub fn task(&self) -> &TaskHandle {
        self.task.get_or_init(|| TaskHandle { cell: self.result.cell().clone() })
    }

    /// The task's number, unique in its runtime: its name in the events of an [`crate::Observer`].
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.result.cell().id
    }

    /// Ends the task at its next await, unless it is over by then.
    pub fn abort(&self) {
        self.result.cell().abort();
    }

    /// A handle that can end the task and do nothing else.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(self.task().clone())
    }

    /// Whether the task is over: then its result is there, and this handle is ready.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.result.cell().is_over()
    }
}

impl<T> JoinHandle<T> {
    /// Whether the result was taken: this handle is of no use any more.
    pub(crate) fn is_taken(&self) -> bool {
        self.result.is_taken()
    }

    /// As [`Future::poll`], with a waker that harms nobody.
    pub(crate) fn poll_by(&mut self, harmless: &Waker) -> Poll<Result<T, JoinError>> {
        self.result.poll(harmless).map(Outcome::take)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut careful = std::mem::take(&mut self.careful);
        let polled = self.poll_by(careful.of(cx.waker()));
        self.careful = careful;
        polled
    }
}
