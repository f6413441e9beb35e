//! A runtime whose tasks run only inside `block_on`, on the thread that calls it. The design is in
//! docs/design/current-thread.md.
//!
//! It has no workers. A loop in `block_on` asks the machine for the next task and polls it ([`run`]). The main future is a
//! task for the machine, by its stand-in ([`main`]). Blocking functions are called by helper threads ([`helpers`]).
//!
//! ```text
//!  block_on   takes the state of the loop, runs tasks until its future is ready, puts the state back
//!             if another thread has the state: polls its future alone, until it is woken because the state is back
//! ```
//!
//! Invariants: a task is polled only by the thread that has the state; whoever puts the state back wakes all threads that
//! wait for it; nothing runs while no thread has it.

mod helpers;
mod main;
mod meter;
mod run;
mod work;

pub(crate) use helpers::call;

use self::helpers::Helpers;
use self::main::Main;
use self::meter::OfThread;
use self::run::{State, Until};
use self::work::Work;
use crate::current::caller;
use crate::current::runtime::Entered;
use crate::current::turn;
use crate::current::unpark::Unpark;
use crate::driver::budget;
use crate::os;
use crate::os::sync::{Arc, AtomicUsize, Mutex, Ordering, lock};
use crate::shared::Shared;
use runyard_engine::run_queue::Meter;
use runyard_engine::time::Time;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The part of a runtime that runs tasks on the calling thread.
#[derive(Debug)]
pub(crate) struct Single {
    seat: Mutex<Seat>,
    /// The [mark](caller::mark) of the thread that has the state; 0 if none has.
    runner: AtomicUsize,
    work: Work,
    cpu_time: Arc<OfThread>,
    helpers: Helpers,
}

/// The right to run tasks.
#[derive(Debug, Default)]
struct Seat {
    /// The state of the loop, unless a thread has it.
    state: Option<State>,
    /// The wakers of the threads that wait for it.
    waiters: Vec<Waker>,
}

impl Single {
    /// Makes the part of a runtime that has at most so many helper threads.
    pub(crate) fn new(most: usize) -> Single {
        Single {
            seat: Mutex::new(Seat { state: Some(State::new()), waiters: Vec::new() }),
            runner: AtomicUsize::new(0),
            work: Work::new(),
            cpu_time: Arc::default(),
            helpers: Helpers::new(most),
        }
    }

    /// Returns the clock by which tasks are charged.
    pub(crate) fn meter(&self) -> Arc<dyn Meter> {
        self.cpu_time.clone()
    }

    /// Makes the thread that runs tasks ask for the next one before it waits.
    pub(crate) fn ring(&self) {
        self.work.ring(self.runs_here());
    }

    /// Returns whether the calling thread runs the tasks.
    pub(crate) fn runs_here(&self) -> bool {
        self.runner.load(Ordering::Relaxed) == caller::mark()
    }

    /// Ends the helper threads, and waits for them.
    pub(crate) fn end(&self) {
        self.helpers.end();
    }

    /// Takes the state for the calling thread. If another thread has it, `waiter` is woken when it is back.
    fn take(&self, waiter: Option<&Waker>) -> Option<State> {
        let mut seat = lock(&self.seat);
        let Some(state) = seat.state.take() else {
            let is_known = |waiter| seat.waiters.iter().any(|it: &Waker| it.will_wake(waiter));
            let new = waiter.filter(|&waiter| !is_known(waiter)).cloned();
            seat.waiters.extend(new);
            return None;
        };
        drop(seat);
        let mark = caller::mark();
        let state = state.on(mark);
        self.cpu_time.comes(state.thread());
        self.runner.store(mark, Ordering::Relaxed);
        Some(state)
    }

    /// Refuses a `block_on` below one of the same runtime.
    #[track_caller]
    pub(crate) fn refuse_here(&self) {
        assert!(
            !self.runs_here(),
            "the tasks of this runtime run only on this thread, which is in one of them: block_on would wait for ever; \
             await the future instead"
        );
    }

    /// Puts the state back.
    fn put(&self, shared: &Shared, state: State) {
        self.runner.store(0, Ordering::Relaxed);
        self.cpu_time.leaves();
        let waiters = {
            let mut seat = lock(&self.seat);
            seat.state = Some(state);
            std::mem::take(&mut seat.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
        shared.registry.call_closer();
    }

    /// Waits for the state no longer.
    fn forget(&self, waiter: &Waker) {
        lock(&self.seat).waiters.retain(|it| !it.will_wake(waiter));
    }

    /// Runs tasks with `state` until the goal is reached.
    fn run(&self, shared: &Arc<Shared>, state: State, until: &mut Until<'_>) {
        let state = caller::running(|| run::run(&self.work, shared, state, until));
        self.put(shared, state);
    }

    /// Runs tasks on the calling thread until a future is ready. While another thread does, the future is polled alone.
    ///
    /// # Panics
    /// If the calling thread runs the tasks already, in a call below this one.
    #[track_caller]
    pub(crate) fn block_on<F: Future>(&self, shared: &Arc<Shared>, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut output = None;
        let mut polls = |cx: &mut Context<'_>| match future.as_mut().poll(cx) {
            Poll::Ready(value) => {
                output = Some(value);
                true
            }
            Poll::Pending => false,
        };
        let (parker, waker) = Unpark::new();
        let _leaves = Leaves(self, &waker);
        // A runtime that is over has no tasks.
        let mut has_tasks = true;
        loop {
            let state = if has_tasks { self.take(Some(&waker)) } else { None };
            let is_ready = match state {
                Some(state) => {
                    let mut until = Until::Main(Main::new(shared, &mut polls));
                    self.run(shared, state, &mut until);
                    let Until::Main(main) = until else { unreachable!("the goal stays the same") };
                    has_tasks = !shared.registry.serves_nobody();
                    main.end().unwrap_or_else(|panic| resume_unwind(panic))
                }
                None => {
                    turn::begin(os::thread::now());
                    budget::begin_poll();
                    let is_ready = polls(&mut Context::from_waker(&waker));
                    if !is_ready {
                        parker.park();
                    }
                    is_ready
                }
            };
            if is_ready {
                break;
            }
        }
        output.expect("the future is ready")
    }

    /// Runs tasks on the calling thread until `are_over`, and not much longer than until `deadline`; returns earlier if
    /// another thread runs them.
    pub(crate) fn help(
        &self,
        shared: &Arc<Shared>,
        deadline: Option<Time>,
        are_over: &dyn Fn() -> bool,
    ) {
        match self.take(None) {
            Some(state) => {
                let _context = Entered::enter(shared);
                let _driver = shared.scheduler.driver().enter();
                self.run(shared, state, &mut Until::Tasks { are_over, deadline });
            }
            None => shared.registry.wait_for_call(deadline),
        }
    }
}

/// The end of a wait for the state.
struct Leaves<'a>(&'a Single, &'a Waker);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}
