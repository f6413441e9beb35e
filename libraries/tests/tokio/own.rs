//! The behaviour with the runtime's own driver.

use crate::child;
use crate::common::{ends, ms, until};
use runyard::{Runtime, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::runtime::Handle;

/// A part of the runtime's warning about tasks that tokio started.
const SAID: &str = "a library, called tokio::spawn";

/// Runs the test `name` in a process of its own, and returns the number of warnings there. In that process it runs
/// `body`, and returns nothing.
fn times_said(name: &str, body: impl FnOnce()) -> Option<usize> {
    let end = child::run(Duration::from_secs(60), &[], name, body)?;
    assert!(end.status.is_some_and(|status| status.success()), "{}", end.said);
    Some(end.said.matches(SAID).count())
}

fn a_runtime() -> Runtime {
    Runtime::builder().workers(2).enable_tokio().build()
}

#[test]
fn what_escapes_is_said_once() {
    let said = times_said("own::what_escapes_is_said_once", || {
        let runtime = a_runtime();
        runtime.block_on(async {
            for _ in 0..3 {
                // A library that knows only tokio spawns in this way.
                let escapes = async { tokio::spawn(tokio::time::sleep(ms(1))).await };
                spawn(escapes).await.unwrap().unwrap();
            }
        });
        let tokio = runtime.handle().tokio().unwrap();
        until(|| tokio.metrics().num_alive_tasks() == 0);
    });
    assert!(said.is_none_or(|times| times == 1), "{said:?} times");
}

#[test]
fn what_does_not_escape_is_not_said() {
    let said = times_said("own::what_does_not_escape_is_not_said", || {
        a_runtime().block_on(async {
            spawn(tokio::time::sleep(ms(1))).await.unwrap();
            // tokio reads files on a thread for blocking functions.
            spawn(tokio::fs::read("/proc/self/status")).await.unwrap().unwrap();
        });
    });
    assert!(said.is_none_or(|times| times == 0), "{said:?} times");
}

#[test]
fn what_escapes_is_counted() {
    let runtime = a_runtime();
    let tokio = runtime.handle().tokio().unwrap().clone();
    let stays = tokio.spawn(std::future::pending::<()>());
    assert_eq!(tokio.metrics().num_alive_tasks(), 1);
    stays.abort();
    until(|| tokio.metrics().num_alive_tasks() == 0);
}

/// A task on the driver's thread belongs to the runtime of that driver.
#[test]
fn a_task_that_escaped_spawns() {
    let runtime = a_runtime();
    let escapes = runtime.handle().tokio().unwrap().spawn(async {
        let thread = || std::thread::current().name().map(str::to_owned);
        let here = thread();
        let there = spawn(async move { thread() }).await.unwrap();
        (here, there)
    });
    let (here, there) = runtime.block_on(escapes).unwrap();
    assert_eq!(here.as_deref(), Some("runyard-driver"));
    assert_ne!(here, there);
}

/// The driver serves the tasks that wait while the runtime ends. It ends after them.
#[test]
fn the_driver_ends_last() {
    let served = Arc::new(AtomicBool::new(false));
    let serves = served.clone();
    let runtime = a_runtime();
    let tokio = runtime.handle().tokio().unwrap().clone();
    // The function waits for tokio in the middle of a poll, and the end of the runtime waits for that poll.
    let (begins, begun) = std::sync::mpsc::channel();
    runtime.spawn_blocking(move || {
        begins.send(()).unwrap();
        Handle::current().block_on(tokio::time::sleep(ms(20)));
        serves.store(true, Ordering::SeqCst);
    });
    begun.recv().unwrap();
    drop(runtime);
    assert!(served.load(Ordering::SeqCst));
    assert!(tokio.block_on(tokio.spawn(async {})).is_err());
}

/// The end of a runtime must not wait for the thread that requested it.
#[test]
fn a_runtime_ends_on_the_thread_of_its_driver() {
    for how in [drop, Runtime::shutdown_background, |it: Runtime| it.shutdown_timeout(ms(60_000))] {
        ends(move || {
            let runtime = a_runtime();
            runtime.spawn(async { tokio::time::sleep(ms(3_600_000)).await });
            let tokio = runtime.handle().tokio().unwrap().clone();
            let ended = tokio.spawn(async move { how(runtime) });
            let _ = tokio.block_on(ended);
        });
    }
}

#[test]
fn runtimes_have_a_driver_each() {
    let [one, other] = [a_runtime(), a_runtime()];
    let driver = |runtime: &Runtime| runtime.handle().tokio().unwrap().id();
    assert_ne!(driver(&one), driver(&other));
    let inner = one.block_on(async { other.block_on(async { Handle::current().id() }) });
    assert_eq!(inner, driver(&other));
    for runtime in [&one, &other] {
        let seen = runtime.spawn(async { Handle::current().id() });
        assert_eq!(runtime.block_on(seen).unwrap(), driver(runtime));
    }
}

/// Code in a task may poll a timer of tokio's with a waker that panics. The driver cannot go on after that. The runtime
/// reports the panic, and still ends.
#[test]
fn a_waker_that_panics_in_the_driver_hangs_no_end() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let name = "own::a_waker_that_panics_in_the_driver_hangs_no_end";
    let end = child::run(Duration::from_secs(60), &[], name, || {
        let runtime = a_runtime();
        let tokio = runtime.handle().tokio().unwrap().clone();
        runtime.spawn(async { tokio::time::sleep(ms(3_600_000)).await });
        let polls = runtime.spawn(async {
            let mut sleeps = Box::pin(tokio::time::sleep(ms(1)));
            let waker = Waker::from(Arc::new(Panics));
            assert!(sleeps.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            std::future::pending::<()>().await;
        });
        // The loop ends when the tokio runtime has ended.
        until(|| runtime.block_on(async { tokio.spawn(async {}).await.is_err() }));
        assert!(!polls.is_finished());
    });
    let Some(end) = end else { return };
    assert!(end.status.is_some_and(|status| status.success()), "{}", end.said);
    assert_eq!(end.said.matches("a waker panicked in the tokio driver").count(), 1, "{}", end.said);
}
