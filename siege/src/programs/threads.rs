//! Threads with destructors, panics with backtraces, and shared libraries that are loaded and unloaded.

use super::all;
use crate::draws::Draws;
use runyard::spawn;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A thread-local value that adds its numbers to a sum when its thread ends.
struct Counted(Arc<AtomicU64>, Vec<u64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(self.1.iter().sum(), Ordering::SeqCst);
    }
}

thread_local! {
    static COUNTED: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

/// Starts threads in tasks. Each thread runs the destructors of its thread-local values before it is joined.
pub async fn destructors(mut draws: Draws) {
    let (tasks, threads) = (draws.within(1, 4), draws.within(1, 6));
    let ended = Arc::new(AtomicU64::new(0));
    let turn = |_| {
        let ended = ended.clone();
        spawn(async move {
            let start = |nth| {
                let ended = ended.clone();
                thread::spawn(move || {
                    COUNTED.with_borrow_mut(|it| *it = Some(Counted(ended, vec![nth; 32])));
                    vec![nth; 100].iter().sum::<u64>()
                })
            };
            let started: Vec<_> = (0..threads).map(start).collect();
            for (nth, thread) in (0..threads).zip(started) {
                assert_eq!(thread.join().expect("it ends"), 100 * nth);
            }
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
    let each: u64 = (0..threads).map(|nth| 32 * nth).sum();
    assert_eq!(ended.load(Ordering::SeqCst), tasks * each, "each destructor ran once");
}

/// The beginning of the message of each panic on purpose.
const ON_PURPOSE: &str = "a panic of the siege, number ";

/// Whether a panic is one of [`panics`], so that it needs no message.
#[must_use]
pub fn is_on_purpose(payload: &dyn std::any::Any) -> bool {
    payload.downcast_ref::<String>().is_some_and(|said| said.starts_with(ON_PURPOSE))
}

/// Panics, and catches the panics here and in the runtime. It also captures backtraces.
pub async fn panics(mut draws: Draws) {
    let (tasks, many) = (draws.within(1, 4), draws.within(1, 4));
    let turn = |nth: u64| {
        spawn(async move {
            for number in 0..many {
                let said = format!("{ON_PURPOSE}{}", number + nth);
                let caught = catch_unwind(|| std::panic::panic_any(said.clone()));
                let payload = caught.expect_err("it panicked");
                assert_eq!(payload.downcast_ref(), Some(&said), "the payload of that panic");
                assert_eq!(Backtrace::force_capture().status(), BacktraceStatus::Captured);
            }
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
    let ends = spawn(async { std::panic::panic_any(format!("{ON_PURPOSE}0")) }).await;
    assert!(ends.is_err_and(|error| error.is_panic()), "a task that panicked");
}

/// Loads shared libraries. The loader has a lock.
pub async fn libraries(mut draws: Draws) {
    let (tasks, many) = (draws.within(1, 4), draws.within(1, 12));
    let turn = |nth: u64| {
        spawn(async move {
            for step in 0..many {
                let at = (nth * 12 + step) as f64;
                let root = runyard::trial::call_in_library("libm.so.6", "sqrt", at * at);
                assert_eq!(root, Some(at), "the root of a square");
                assert_eq!(runyard::trial::call_in_library("libno-such.so", "sqrt", at), None);
            }
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}
