//! A runtime whose tasks run only inside `block_on`, on the thread that calls it.
//!
//! The test names nothing of Linux: with `--cfg runyard_portable` it uses only the facilities of other systems.

use runyard::sync::Mutex;
use runyard::{
    Builder, Event, Handle, Limit, LocalSet, Observer, Policy, RtPrio, Runtime, Task, What,
    blocking, spawn, spawn_blocking, spawn_local, time, yield_now,
};
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier};
use std::task::{Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

mod calls;
mod end;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

const MS: Duration = Duration::from_millis(1);

fn runtime() -> Runtime {
    Builder::new_current_thread().build()
}

fn here() -> ThreadId {
    thread::current().id()
}

/// Runs a test, and fails it if it has not ended after a minute.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (send, receive) = channel();
    let runs = thread::spawn(move || {
        test();
        send.send(()).unwrap();
    });
    match receive.recv_timeout(60_000 * MS) {
        Err(RecvTimeoutError::Timeout) => panic!("it never ends"),
        _ => runs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
}

/// Computes for `span` of wall-clock time.
fn spin(span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Notes the thread on which it is dropped.
struct Notes(Arc<std::sync::Mutex<Vec<ThreadId>>>);

impl Drop for Notes {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(here());
    }
}

/// Returns a future that never ends, and notes where it is dropped.
fn noted(
    dropped: &Arc<std::sync::Mutex<Vec<ThreadId>>>,
) -> impl Future<Output = ()> + Send + 'static {
    let notes = Notes(dropped.clone());
    async move {
        let _notes = notes;
        pending::<()>().await;
    }
}

#[test]
fn tasks_run_on_the_thread_of_block_on() {
    ends(|| {
        let runtime = runtime();
        assert!(!runtime.preempts());
        let task = runtime.spawn(async { (here(), spawn(async { here() }).await.unwrap()) });
        assert_eq!(runtime.block_on(task).unwrap(), (here(), here()));
        let early = runtime.spawn(async {
            yield_now().await;
            here()
        });
        let elsewhere = thread::scope(|scope| {
            let calls = scope.spawn(|| (here(), runtime.block_on(early).unwrap()));
            calls.join().unwrap()
        });
        assert_eq!(elsewhere.0, elsewhere.1, "a later call may be on another thread");
    });
}

#[test]
fn nothing_runs_between_two_calls() {
    ends(|| {
        let runtime = runtime();
        let steps = Arc::new(AtomicUsize::new(0));
        let counts = steps.clone();
        let task = runtime.spawn(async move {
            loop {
                counts.fetch_add(1, Ordering::SeqCst);
                time::sleep(MS).await;
            }
        });
        thread::sleep(20 * MS);
        assert_eq!(steps.load(Ordering::SeqCst), 0, "no thread runs it");
        runtime.block_on(time::sleep(20 * MS));
        let before = steps.load(Ordering::SeqCst);
        assert!(before > 1, "{before}");
        thread::sleep(20 * MS);
        assert_eq!(steps.load(Ordering::SeqCst), before, "no thread runs it");
        runtime.block_on(time::sleep(20 * MS));
        assert!(steps.load(Ordering::SeqCst) > before);
        assert!(!task.is_finished());
    });
}

/// The order is that of the engine: real-time tasks by their priority, then fair ones.
#[test]
fn the_policies_choose_the_next_task() {
    ends(|| {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = order.clone();
            async move { order.lock().unwrap().push(name) }
        };
        runtime().block_on(async {
            let tasks = [
                Task::builder().policy(Policy::Idle).spawn(note("idle")),
                Task::builder().spawn(note("fair")),
                Task::builder().fifo(10).spawn(note("fifo 10")),
                Task::builder().fifo(20).spawn(note("fifo 20")),
            ];
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(*order.lock().unwrap(), ["fifo 20", "fifo 10", "fair", "idle"]);
    });
}

/// Both compute a third of a millisecond in each poll. By the kernel's table the weight of nice 5 is a third of that of
/// nice 0.
#[test]
fn nice_values_share_the_time() {
    ends(|| {
        let polls = [0, 5].map(|nice| (nice, Arc::new(AtomicUsize::new(0))));
        runtime().block_on(async {
            for (nice, polls) in &polls {
                let polls = polls.clone();
                drop(Task::builder().nice(*nice).spawn(async move {
                    loop {
                        spin(MS / 3);
                        polls.fetch_add(1, Ordering::Relaxed);
                        yield_now().await;
                    }
                }));
            }
            time::sleep(600 * MS).await;
        });
        let [most, least] = polls.map(|(_, polls)| polls.load(Ordering::Relaxed));
        let ratio = most as f64 / least as f64;
        assert!((2.0..4.5).contains(&ratio), "{most} and {least} polls");
    });
}

/// The main future takes its turn. It would wait for ever behind a task that yields if it did not.
#[test]
fn the_main_future_is_a_task_among_the_others() {
    ends(|| {
        runtime().block_on(async {
            let polls = Arc::new(AtomicUsize::new(0));
            let counts = polls.clone();
            drop(spawn(async move {
                loop {
                    counts.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            }));
            let end = Instant::now() + 50 * MS;
            while Instant::now() < end {
                yield_now().await;
            }
            assert!(polls.load(Ordering::Relaxed) > 10, "the task has turns too");
            // A real-time main future goes before it.
            Task::current().set_policy(Policy::Fifo(RtPrio::new(10).unwrap()));
            yield_now().await;
            let before = polls.load(Ordering::Relaxed);
            for _ in 0..100 {
                yield_now().await;
            }
            assert_eq!(polls.load(Ordering::Relaxed), before);
            // What it spawns begins with the defaults.
            let policy = spawn(async { Task::current().policy() }).await.unwrap();
            assert!(matches!(policy, Policy::Normal(_)), "{policy}");
        });
    });
}

#[test]
fn a_limit_holds_its_group_back_and_the_main_future_pays_for_itself() {
    ends(|| {
        let runtime = runtime();
        let limit = Limit::new(5 * MS, 50 * MS);
        let tenant = runtime.group("tenant").limit(limit).create().unwrap();
        let computed = Arc::new(AtomicUsize::new(0));
        let counts = computed.clone();
        let hog = async move {
            loop {
                spin(MS);
                counts.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        };
        drop(Task::builder().group(&tenant).spawn_on(hog, runtime.handle()));
        runtime.block_on(async {
            let end = Instant::now() + 500 * MS;
            while Instant::now() < end {
                // Its own time is no time of the group.
                spin(2 * MS);
                yield_now().await;
                time::sleep(MS).await;
            }
        });
        let polls = computed.load(Ordering::Relaxed);
        let used = tenant.usage().used;
        assert!(polls >= 10, "{polls} polls");
        assert!(used <= 90 * MS, "a tenth of 500 ms, and what ten polls are over it: {used:?}");
    });
}

/// Returns a function that wakes a future, and the future.
fn a_call() -> (impl FnOnce() + Send + 'static, impl Future<Output = ()> + Send + 'static) {
    let state = Arc::new(std::sync::Mutex::new((false, None::<Waker>)));
    let calls = state.clone();
    let call = move || {
        let waker = {
            let mut state = calls.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    };
    let called = poll_fn(move |cx| {
        let mut state = state.lock().unwrap();
        state.1 = Some(cx.waker().clone());
        if state.0 { Poll::Ready(()) } else { Poll::Pending }
    });
    (call, called)
}

/// No wake-up is lost, whether it comes before the wait or in it, for the main future or for a task.
#[test]
fn a_wake_up_from_another_thread_ends_the_wait() {
    ends(|| {
        let runtime = runtime();
        for nth in 0..2_000_u32 {
            let (call, called) = a_call();
            let (handle, delay) = (runtime.handle().clone(), MS / 50 * (nth % 4));
            let calls = thread::spawn(move || {
                spin(delay);
                match nth % 3 {
                    0 => call(),
                    1 => drop(handle.spawn(async { call() })),
                    _ => _ = handle.spawn(async { call() }).abort_handle().is_finished(),
                }
            });
            match nth % 2 {
                0 => runtime.block_on(called),
                _ => runtime.block_on(runtime.spawn(called)).unwrap(),
            }
            calls.join().unwrap();
        }
    });
}

/// An idle call uses no CPU time: the process waits for the other thread.
#[test]
fn an_idle_call_sleeps() {
    ends(|| {
        let polls = Arc::new(AtomicUsize::new(0));
        let (call, called) = a_call();
        let calls = thread::spawn(move || {
            thread::sleep(200 * MS);
            call();
        });
        let counts = polls.clone();
        let mut called = Box::pin(called);
        runtime().block_on(poll_fn(|cx| {
            counts.fetch_add(1, Ordering::Relaxed);
            called.as_mut().poll(cx)
        }));
        assert!(polls.load(Ordering::Relaxed) <= 2, "{polls:?} polls");
        calls.join().unwrap();
    });
}

#[test]
fn panics_go_where_they_belong() {
    ends(|| {
        let runtime = runtime();
        let task = runtime.spawn(async {
            yield_now().await;
            7
        });
        let panics = runtime.block_on(async { spawn(async { panic!("of a task") }).await });
        assert!(panics.is_err_and(|error| message(&*error.into_panic()) == "of a task"));
        let main = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                yield_now().await;
                panic!("of the main future");
            });
        }));
        assert_eq!(message(&*main.unwrap_err()), "of the main future");
        assert_eq!(runtime.block_on(task).unwrap(), 7, "the runtime goes on");
    });
}

#[test]
fn local_tasks_work_and_end_with_the_call() {
    ends(|| {
        let runtime = runtime();
        let steps = Rc::new(Cell::new(0));
        let (counts, own) = (steps.clone(), steps.clone());
        let [endless] = runtime.block_on(async move {
            let endless = spawn_local(async move {
                loop {
                    counts.set(counts.get() + 1);
                    time::sleep(MS).await;
                }
            });
            let from_local =
                spawn_local(async move { spawn_local(async move { own.get() }).await });
            assert!(from_local.await.unwrap().unwrap() < 100);
            time::sleep(20 * MS).await;
            [endless]
        });
        assert!(steps.get() > 1);
        assert_eq!(Rc::strong_count(&steps), 1, "its future is gone");
        assert!(endless.is_finished());
        assert!(runtime.block_on(endless).unwrap_err().is_cancelled());
    });
}

#[test]
fn a_blocking_function_runs_beside_the_tasks() {
    ends(|| {
        let runtime = runtime();
        let (sends, receives) = channel();
        runtime.block_on(async {
            // It waits for a task.
            let function = spawn_blocking(move || {
                assert!(Handle::try_current().is_ok());
                (receives.recv().unwrap(), here())
            });
            let task = spawn(async move {
                time::sleep(5 * MS).await;
                sends.send(7).unwrap();
            });
            let (told, on) = function.await.unwrap();
            assert_eq!(told, 7);
            assert_ne!(on, here());
            task.await.unwrap();
            let panics = spawn_blocking(|| panic!("on purpose")).await;
            assert!(panics.is_err_and(|error| error.is_panic()));
            let many: Vec<_> = (0..40)
                .map(|nth| {
                    spawn_blocking(move || {
                        thread::sleep(MS);
                        nth
                    })
                })
                .collect();
            for (nth, task) in many.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), nth);
            }
            // `blocking` keeps the thread.
            assert_eq!(spawn(async { blocking(here) }).await.unwrap(), here());
        });
    });
}

/// As with workers: what has begun goes on, what has not is cancelled.
#[test]
fn an_abort_does_not_end_a_function_that_has_begun() {
    ends(|| {
        let runtime = Builder::new_current_thread().max_threads(1).build();
        runtime.block_on(async {
            let (begins, began) = channel();
            let (ends, ended) = channel::<()>();
            let function = spawn_blocking(move || {
                begins.send(()).unwrap();
                ended.recv().unwrap();
                7
            });
            time::sleep(MS).await;
            began.recv().unwrap();
            function.abort();
            time::sleep(MS).await;
            ends.send(()).unwrap();
            assert_eq!(function.await.unwrap(), 7);
            let refused = spawn_blocking(|| 7);
            refused.abort();
            assert!(refused.await.unwrap_err().is_cancelled());
        });
    });
}

/// A lock that is waited for by blocking might be held by a task of this thread.
#[test]
fn a_lock_is_awaited_and_not_waited_for() {
    ends(|| {
        runtime().block_on(async {
            let mutex = Arc::new(Mutex::new(1));
            assert_eq!(*mutex.blocking_lock(), 1, "it is free");
            let holds = mutex.lock().await;
            let waits = mutex.clone();
            let task = spawn(async move { *waits.blocking_lock() });
            let panic = task.await.unwrap_err().into_panic();
            assert!(message(&*panic).contains("lock().await"));
            drop(holds);
            assert_eq!(*mutex.lock().await, 1);
        });
    });
}

/// The holder of a lock has the priority of the main future, which waits for it. A task in between would come first.
#[test]
fn the_main_future_lends_its_priority() {
    ends(|| {
        runtime().block_on(async {
            let mutex = Arc::new(Mutex::new(()));
            let polls = Arc::new(AtomicUsize::new(0));
            let waits = Arc::new(AtomicBool::new(false));
            let (locks, asked) = (mutex.clone(), waits.clone());
            let holder = spawn(async move {
                let holds = locks.lock().await;
                while !asked.load(Ordering::Relaxed) {
                    yield_now().await;
                }
                for _ in 0..10 {
                    yield_now().await;
                }
                drop(holds);
            });
            while mutex.try_lock().is_ok() {
                yield_now().await;
            }
            let counts = polls.clone();
            let between = Task::builder().fifo(10).spawn(async move {
                for _ in 0..1_000 {
                    counts.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            });
            Task::current().set_policy(Policy::Fifo(RtPrio::new(20).unwrap()));
            waits.store(true, Ordering::Relaxed);
            drop(mutex.lock().await);
            assert!(polls.load(Ordering::Relaxed) < 10, "{polls:?} polls of the task in between");
            holder.await.unwrap();
            between.await.unwrap();
        });
    });
}

#[test]
fn long_polls_are_reported_when_they_are_over() {
    ends(|| {
        let (tell, told) = channel();
        let runtime = Builder::new_current_thread()
            .on_stall(20 * MS, move |report| tell.send(report.clone()).unwrap())
            .build();
        runtime.block_on(async {
            spawn(async { spin(MS) }).await.unwrap();
            Task::builder().name("hog").spawn(async { spin(30 * MS) }).await.unwrap();
        });
        let reports: Vec<_> = told.try_iter().collect();
        let hog = reports.iter().find(|report| report.name.as_deref() == Some("hog")).unwrap();
        assert!(hog.lasted >= 30 * MS);
        assert!(hog.backtrace.is_err());
    });
}

#[derive(Debug)]
struct Counts(std::sync::Mutex<Vec<Event>>);

impl Observer for Counts {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(*event);
    }
}

#[test]
fn events_and_snapshots_are_those_of_any_runtime() {
    ends(|| {
        let events = Arc::new(Counts(std::sync::Mutex::default()));
        let builder = Builder::new_current_thread().observer(events.clone()).statistics(true);
        let runtime = builder.name("one thread").build();
        let (task, snapshot) = runtime.block_on(async {
            let task = Task::builder().name("sleeper").spawn(time::sleep(3_600_000 * MS));
            time::sleep(MS).await;
            (task.id(), runtime.snapshot())
        });
        assert_eq!(snapshot.cpus.len(), 1);
        assert!(snapshot.tasks.iter().any(|task| task.name.as_deref() == Some("sleeper")));
        let events = events.0.lock().unwrap();
        assert!(
            events.iter().any(|it| matches!(it.what, What::Exec { task: it, .. } if it == task))
        );
        assert_eq!(runtime.handle().name(), Some("one thread"));
        assert!(runtime.capacity() <= 1_000 * MS);
    });
}

#[runyard::test(flavor = "current_thread")]
async fn an_attribute_makes_such_a_runtime() {
    assert_eq!(spawn(async { here() }).await.unwrap(), here());
    let own = Rc::new(7);
    assert_eq!(spawn_local(async move { *own }).await.unwrap(), 7);
}
