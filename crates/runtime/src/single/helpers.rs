//! Threads that call blocking functions for a runtime whose tasks run on one thread.
//!
//! A function that comes while all threads are busy gets a new one. A thread that had nothing to do for [`IDLES`] ends.
//! The functions are called in the order in which they come.
//!
//! Invariants: a function that was accepted is called once, or dropped with its runtime; no lock is held while foreign
//! code runs.

use crate::current::caller;
use crate::current::runtime::Entered;
use crate::current::task::{current, helping};
use crate::os;
use crate::os::harmless::harmless;
use crate::os::refusal::Refusal;
use crate::os::sync::{Arc, Condvar, Mutex, MutexGuard, lock};
use crate::os::threads;
use crate::shared::Shared;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The time after which an idle thread ends, as in tokio.
const IDLES: Duration = Duration::from_secs(10);

type Function = Box<dyn FnOnce() + Send>;

/// The helper threads of a runtime.
pub(crate) struct Helpers {
    /// The most threads at a time.
    most: usize,
    state: Mutex<State>,
    /// Notified when a function comes, and at the end.
    comes: Condvar,
}

#[derive(Default)]
struct State {
    /// The functions that no thread has yet.
    functions: VecDeque<Function>,
    nr_idle: usize,
    nr_threads: usize,
    /// All threads, and some that have ended.
    threads: Vec<JoinHandle<()>>,
    /// Whether a refusal of the system was told.
    is_told: bool,
    ends: bool,
}

/// The result of a function, and the waker of the task that waits for it.
struct Told<T>(Mutex<(Option<thread::Result<T>>, Option<Waker>)>);

/// Calls a function on a helper thread of the runtime. A panic of the function goes on in the calling task.
pub(crate) async fn call<T: Send + 'static>(
    shared: Arc<Shared>,
    function: impl FnOnce() -> T + Send + 'static,
) -> T {
    let told = Arc::new(Told(Mutex::new((None, None))));
    let tells = told.clone();
    let task = current();
    let function = move || {
        let called = || catch_unwind(AssertUnwindSafe(function));
        let result = match &task {
            Some(task) => helping(task, called),
            None => called(),
        };
        drop(task);
        os::fork::end_child();
        tells.tell(result);
    };
    if let Some(single) = shared.scheduler.single() {
        single.helpers.call(&shared, Box::new(function));
    }
    drop(shared);
    let result = poll_fn(|cx| told.poll(cx.waker())).await;
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

impl<T> Told<T> {
    fn tell(&self, result: thread::Result<T>) {
        let waker = {
            let mut told = lock(&self.0);
            told.0 = Some(result);
            told.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, waker: &Waker) -> Poll<thread::Result<T>> {
        let mut told = lock(&self.0);
        if let Some(result) = told.0.take() {
            return Poll::Ready(result);
        }
        told.1 = Some(waker.clone());
        Poll::Pending
    }
}

impl Helpers {
    pub(super) fn new(most: usize) -> Helpers {
        Helpers { most, state: Mutex::default(), comes: Condvar::new() }
    }

    /// Has a thread call a function. If there is none, and the system refuses one, the function is called here.
    fn call(&self, shared: &Arc<Shared>, function: Function) {
        let mut state = lock(&self.state);
        state.functions.push_back(function);
        if state.nr_idle >= state.functions.len() {
            return self.comes.notify_one();
        }
        if state.nr_threads >= self.most {
            return;
        }
        state.nr_threads += 1;
        drop(state);
        let (lives, hooks) = (shared.clone(), &shared.scheduler.crew().threads().hooks);
        let started = hooks.thread("runyard-helper".to_owned()).spawn(move || {
            let _context = Entered::enter(&lives);
            lives.scheduler.driver().enter_for_life();
            caller::be_helper(lives.id);
            let helpers = lives.scheduler.single().map(|single| &single.helpers);
            let live = || helpers.into_iter().for_each(Helpers::live);
            lives.scheduler.crew().threads().hooks.around(live);
        });
        let mut state = lock(&self.state);
        match started {
            Ok(thread) => {
                state.threads.retain(|thread| !thread.is_finished());
                state.threads.push(thread);
            }
            Err(error) => {
                state.nr_threads -= 1;
                let is_told = std::mem::replace(&mut state.is_told, true);
                if state.nr_threads == 0 {
                    let functions = std::mem::take(&mut state.functions);
                    drop(state);
                    if !is_told {
                        let refusal = Refusal::Thread(error);
                        eprintln!(
                            "runyard: {refusal}: blocking functions are called on the thread of block_on"
                        );
                    }
                    functions.into_iter().for_each(harmless);
                }
            }
        }
    }

    /// Calls functions until none comes for a while, or the runtime is over.
    fn live(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(function) = state.functions.pop_front() {
                drop(state);
                harmless(function);
                state = lock(&self.state);
            } else if state.ends {
                break;
            } else {
                let is_late;
                (state, is_late) = self.idle(state);
                if is_late && state.functions.is_empty() {
                    break;
                }
            }
        }
        state.nr_threads -= 1;
    }

    /// Waits for a function. Returns whether none came in time.
    fn idle<'a>(&self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        state.nr_idle += 1;
        let waited = self.comes.wait_timeout(state, IDLES);
        let (mut state, waited) = waited.expect("no thread panicked with this lock held");
        state.nr_idle -= 1;
        (state, waited.timed_out())
    }

    /// Ends the threads, and waits for that.
    pub(super) fn end(&self) {
        let threads = {
            let mut state = lock(&self.state);
            state.ends = true;
            std::mem::take(&mut state.threads)
        };
        self.comes.notify_all();
        threads.into_iter().for_each(threads::join);
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Helpers")
            .field("threads", &state.nr_threads)
            .field("idle", &state.nr_idle)
            .finish_non_exhaustive()
    }
}
