//! Tests in virtual time: a program runs on simulated CPUs under the real policies, in the same way each time.
//!
//! [`paused`] makes a runtime with a simulated clock. Code takes time only where it calls [`compute`]. When every task
//! waits, the clock advances to the next timer at once. So a test of an hour takes a moment, a priority inversion is a
//! failing test, and a limit of 10 % is exactly that.
//!
//! ```
//! use runyard::{Limit, Task, test, time};
//! use std::time::Duration;
//!
//! test::paused(7).cpus(1).run(async {
//!     let tenth = Limit::new(Duration::from_millis(10), Duration::from_millis(100));
//!     let tenant = test::group("tenant").limit(tenth).create().unwrap();
//!     let begin = time::now();
//!     let task = Task::builder().group(&tenant).spawn(async {
//!         test::compute(Duration::from_millis(25));
//!         time::now()
//!     });
//!     // Ten milliseconds in each of two periods, and the rest in the third.
//!     let took = task.await.unwrap() - begin;
//!     assert!(took > Duration::from_millis(200) && took < Duration::from_millis(220));
//!     time::sleep(Duration::from_secs(3_600)).await;
//! });
//! ```
//!
//! Notes:
//! * `use runyard::test` also imports the attribute [`test`](macro@crate::test), which hides that of the
//!   standard library. `use runyard::test::{self}` imports this module alone.
//! * [`std::time::Instant::now`] reads the machine's clock. [`crate::time::now`] reads the virtual one, which also
//!   gives the instants for [`crate::time::sleep_until`].
//! * Timers are exact unless a slack is asked for.
//! * The main future is not a task, as in [`crate::Runtime::block_on`]: it uses none of the CPUs. Its
//!   [computations](compute) take time, and delay no task.
//! * `std::thread::sleep`, I/O, and locks of the standard library take real time and no virtual time. A task that waits
//!   for a lock of the standard library while its holder computes waits for ever. After ten seconds the runtime reports
//!   which task that is.
//! * A task that waits for an event outside of virtual time (I/O, another thread) makes the test fail, with its name.

use crate::current::runtime::{Entered, current, current_if_any};
use crate::driver::Driver;
use crate::group::GroupBuilder;
use crate::mutex::guards;
use crate::observe::Observer;
use crate::os::here::{self, Here};
use crate::os::sync::{Arc, AtomicBool, Ordering};
use crate::paused::clockwork::{Clockwork, Goal};
use crate::paused::hands;
use crate::shared::Shared;
use crate::shared::outside::Outside;
use crate::shared::paused::Host;
use crate::shared::settings::Settings;
use runyard_engine::time::Nanos;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// A builder that runs a program in virtual time; see [the module](self).
///
/// ```
/// use runyard::{test, time};
/// use std::time::Duration;
///
/// let test = test::paused(7).cpus(4);
/// test.run(time::sleep(Duration::from_secs(86_400)));
/// ```
#[derive(Clone, Debug)]
pub struct Paused {
    seed: u64,
    cpus: usize,
    settings: Settings,
}

/// Makes a runtime in virtual time with one simulated CPU. The seed decides the choices that are left open: the order
/// of events at one instant, and the point of a tick at which the test begins.
#[must_use]
pub fn paused(seed: u64) -> Paused {
    Paused { seed, cpus: 1, settings: Settings::default() }
}

impl Paused {
    /// Sets the number of simulated CPUs. The real machine may have fewer.
    ///
    /// # Panics
    /// If it is zero.
    #[must_use]
    #[track_caller]
    pub fn cpus(mut self, cpus: usize) -> Paused {
        assert!(cpus > 0, "a machine has at least one CPU");
        self.cpus = cpus;
        self
    }

    /// Sets the observer. There is none by default. The thread of the test calls it, right after each event. Times
    /// count from the last whole second of virtual time before the beginning.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Paused {
        self.settings.observer = Some(observer);
        self
    }

    /// Runs the main future to its end on the calling thread, in virtual time. The future can spawn tasks. Tasks that
    /// remain at its end are ended: a waiting task at its await, and a computing one where it is, by a panic that is
    /// not reported.
    ///
    /// # Panics
    /// * If the main future panics.
    /// * If nothing runs, no timer is armed, and the main future is not ready. This is a deadlock, or a wait for an
    ///   event outside of virtual time.
    /// * If a thread outside of virtual time wakes a task.
    /// * If virtual time stands still because tasks yield to each other for ever.
    /// * If the calling code is in virtual time already.
    #[track_caller]
    pub fn run<F: Future>(self, main: F) -> F::Output {
        let seed = self.seed;
        match self.outcome(main) {
            Ok(value) => value,
            Err(End::Panic(payload)) => resume_unwind(payload),
            Err(End::Refused(why)) => panic!("{why} (seed {seed})"),
        }
    }

    fn outcome<F: Future>(self, main: F) -> Result<F::Output, End> {
        assert!(!here::is_paused(), "a test in virtual time cannot start another one");
        let paused = Some(self.seed);
        let settings = Settings { workers: Some(self.cpus), paused, ..self.settings };
        let driver = Driver::default();
        let (cpus, outside) = ((0..self.cpus).collect::<Vec<_>>(), Outside::none(settings.workers));
        let shared = Arc::new(Shared::new((&cpus, outside), false, settings, driver));
        guards::enlist(shared.number, Arc::downgrade(&shared));
        let clockwork = Clockwork::new(&shared);
        let _context = Entered::enter(&shared);
        let before = here::be(Here::at(clockwork.now(), None));
        let _back = Back(before);
        let wakes = WakesMain { woken: AtomicBool::new(false), shared: shared.clone() };
        let (clockwork, result) = drive(clockwork, Arc::new(wakes), main);
        let ended = clockwork.end();
        guards::delist(shared.number);
        shared.deferred.bins.empty();
        shared.registry.forget_boxes();
        shared.scheduler.paused().into_iter().for_each(Host::tell_observer);
        let value = result?;
        ended.map_err(End::Refused)?;
        Ok(value)
    }
}

/// The reason why there is no value.
enum End {
    Panic(Box<dyn Any + Send>),
    Refused(String),
}

/// A guard that restores the calling thread's earlier [`Here`].
struct Back(Here);

impl Drop for Back {
    fn drop(&mut self) {
        here::be(self.0);
    }
}

/// Runs a test with each of these seeds, and prints the seed with which it failed.
///
/// ```
/// use runyard::test;
/// use std::time::Duration;
///
/// test::seeds(0..5, |paused| {
///     paused.cpus(2).run(async { runyard::time::sleep(Duration::from_secs(1)).await });
/// });
/// ```
///
/// # Panics
/// With the panic of the test.
#[track_caller]
pub fn seeds(seeds: impl IntoIterator<Item = u64>, test: impl Fn(Paused)) {
    for seed in seeds {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| test(paused(seed)))) {
            eprintln!("runyard: the test failed with seed {seed}");
            resume_unwind(payload);
        }
    }
}

/// Computes for `span` of CPU time, in place of code that really computes. In a task, other tasks may have the CPU
/// meanwhile, by their policies; the call returns when the task has had `span` of CPU time. The main future uses no
/// CPU: for it, `span` of time passes.
///
/// The call may be in the middle of a poll, in any function. If the test ends meanwhile, it does not return but
/// unwinds. A call after that comes from a destructor, and returns at once.
///
/// ```
/// use runyard::{spawn, test, time};
/// use std::time::Duration;
///
/// let took = test::paused(1).run(async {
///     let begin = time::now();
///     let all: Vec<_> = (0..3).map(|_| spawn(async { test::compute(Duration::from_millis(5)) })).collect();
///     for task in all {
///         task.await.unwrap();
///     }
///     time::now() - begin
/// });
/// assert_eq!(took, Duration::from_millis(15), "there is one CPU");
/// ```
///
/// # Panics
/// If the calling code is not in virtual time.
#[track_caller]
pub fn compute(span: Duration) {
    assert!(here::is_paused(), "`compute` needs virtual time: use `runyard::test::paused(seed)`");
    let span = Nanos::from(span);
    if hands::is_hand() {
        return hands::compute(current().scheduler.paused(), span);
    }
    let mut clockwork =
        CLOCKWORK.take().expect("the main future is polled by the test's own thread");
    let until = clockwork.now() + span;
    let reached = clockwork.go(&Goal::Time(until));
    CLOCKWORK.set(Some(clockwork));
    if let Err(why) = reached
        && !thread::panicking()
    {
        panic!("{why}");
    }
}

/// Returns the simulated CPU on which the calling code runs, counted from 0. Returns none for the main future, and
/// outside of virtual time.
///
/// ```
/// use runyard::{Task, test};
///
/// let ran_on = test::paused(1).cpus(2).run(async {
///     Task::builder().affinity([1]).spawn(async { test::cpu() }).await.unwrap()
/// });
/// assert_eq!(ran_on, Some(1));
/// ```
#[must_use]
pub fn cpu() -> Option<usize> {
    here::cpu().map(|cpu| cpu.index())
}

/// Returns a builder for a task group without a parent group, in the runtime of the calling code.
///
/// ```
/// use runyard::{Task, test};
///
/// test::paused(1).run(async {
///     let tenant = test::group("tenant").create().unwrap();
///     let path = Task::builder().group(&tenant).spawn(async { Task::current().group().map(|it| it.path()) });
///     assert_eq!(path.await.unwrap().as_deref(), Some("/tenant"));
/// });
/// ```
///
/// # Panics
/// If the calling code belongs to no runtime.
#[must_use]
#[track_caller]
pub fn group(name: impl Into<String>) -> GroupBuilder {
    GroupBuilder::new(&current(), name)
}

thread_local! {
    /// The clockwork, while the main future is polled on this thread. A computation of the main future drives it.
    static CLOCKWORK: RefCell<Option<Clockwork>> = const { RefCell::new(None) };
}

/// The waker of the main future.
struct WakesMain {
    woken: AtomicBool,
    shared: Arc<Shared>,
}

impl fmt::Debug for WakesMain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WakesMain")
    }
}

impl Wake for WakesMain {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        let ours = |shared: Arc<Shared>| Arc::ptr_eq(&shared, &self.shared);
        if !(here::is_paused() && current_if_any().is_some_and(ours))
            && let Some(host) = self.shared.scheduler.paused()
        {
            host.refuse("the main future".to_owned(), None);
        }
    }
}

/// Polls the main future until it is ready, or the test cannot go on.
fn drive<F: Future>(
    mut clockwork: Clockwork,
    wakes: Arc<WakesMain>,
    main: F,
) -> (Clockwork, Result<F::Output, End>) {
    let waker = Waker::from(wakes.clone());
    let mut main = Box::pin(main);
    let result = loop {
        wakes.woken.store(false, Ordering::Release);
        CLOCKWORK.set(Some(clockwork));
        let poll = || main.as_mut().poll(&mut Context::from_waker(&waker));
        let polled = catch_unwind(AssertUnwindSafe(poll));
        clockwork = CLOCKWORK.take().expect("the clockwork was set before the poll");
        match polled {
            Ok(Poll::Ready(value)) => break Ok(value),
            Ok(Poll::Pending) => {}
            Err(payload) => break Err(End::Panic(payload)),
        }
        if let Err(why) = clockwork.go(&Goal::Woken(&wakes.woken)) {
            break Err(End::Refused(why));
        }
    };
    // The main future is dropped while virtual time still exists.
    CLOCKWORK.set(Some(clockwork));
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(main)));
    clockwork = CLOCKWORK.take().expect("the clockwork was set before the drop");
    let result = result.and_then(|value| dropped.map(|()| value).map_err(End::Panic));
    (clockwork, result)
}
