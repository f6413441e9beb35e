//! `#[runyard::main]` and `#[runyard::test]` on typical functions.

use runyard::{Handle, spawn, spawn_blocking, time, yield_now};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

mod renamed {
    pub mod inside {
        pub use runyard::Runtime;
    }
}

/// The `Rc` is not `Send`, and lives across an await.
#[runyard::test]
async fn a_test_is_no_task() {
    let own = Rc::new(7);
    yield_now().await;
    assert_eq!(spawn(async { 7 }).await.unwrap(), *own);
    assert!(Handle::try_current().is_ok());
}

#[runyard::test(workers = 2, max_threads = 64, preempt = true)]
async fn a_test_may_have_arguments() {
    assert_eq!(spawn_blocking(|| 7).await.unwrap(), 7);
}

/// Without the argument it would never end.
#[runyard::test(shutdown_timeout = "20ms")]
async fn a_test_may_end_without_its_tasks() {
    spawn(async {
        loop {
            std::thread::park();
        }
    });
}

#[runyard::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_may_have_the_arguments_of_tokio() {
    time::sleep(Duration::from_millis(1)).await;
}

#[runyard::test(crate = crate::renamed::inside)]
async fn a_test_may_name_the_crate_by_a_path() {
    yield_now().await;
}

#[runyard::test(crate = "renamed::inside", workers = 1)]
async fn a_test_may_name_the_crate_by_a_string() {
    yield_now().await;
}

#[runyard::test]
async fn a_test_may_have_a_result() -> Result<(), Box<dyn std::error::Error>> {
    let number: u32 = "7".parse()?;
    assert_eq!(number, 7);
    if number == 8 {
        return Err("it is 7".into());
    }
    Ok(())
}

#[runyard::test]
#[should_panic(expected = "on purpose")]
async fn a_test_may_panic() {
    panic!("on purpose");
}

#[should_panic(expected = "on purpose")]
#[runyard::test]
async fn attributes_may_stand_before_it() {
    panic!("on purpose");
}

static HAS_RUN: AtomicBool = AtomicBool::new(false);

#[runyard::main(workers = 1)]
async fn program() -> Result<u32, std::num::ParseIntError> {
    let parsed = spawn(async { "7".parse() }).await.unwrap()?;
    HAS_RUN.store(true, Ordering::SeqCst);
    Ok(parsed)
}

#[test]
fn main_makes_a_function_of_an_async_one() {
    assert_eq!(program(), Ok(7));
    assert!(HAS_RUN.load(Ordering::SeqCst));
}
