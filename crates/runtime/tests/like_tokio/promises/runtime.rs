//! `Runtime` and `Handle`.

use super::rt;
use crate::{Flag, HOUR, ends, ms};
use rt::{Handle, JoinHandle, Runtime};
use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};
use std::thread;

/// Starts a task that sleeps, and returns a flag that is set when its future is dropped.
fn sleeper(runtime: &rt::Runtime) -> Flag {
    let (begun, dropped) = (Flag::default(), Flag::default());
    let (begins, held) = (begun.clone(), dropped.at_drop());
    drop(runtime.spawn(async move {
        let _held = held;
        begins.set();
        rt::time::sleep(HOUR).await;
    }));
    begun.wait();
    dropped
}

#[test]
fn a_runtime_that_is_dropped_drops_its_tasks() {
    ends(|| {
        let runtime = rt::runtime(2);
        let sleepers: Vec<_> = (0..10).map(|_| sleeper(&runtime)).collect();
        drop(runtime);
        assert!(sleepers.iter().all(Flag::is_set));
    });
}

#[test]
fn a_task_is_cancelled_with_its_runtime() {
    ends(|| {
        let runtime = rt::runtime(1);
        let task = runtime.spawn(async { rt::time::sleep(HOUR).await });
        drop(runtime);
        let error = rt::runtime(1).block_on(task).unwrap_err();
        assert!(error.is_cancelled());
    });
}

#[test]
fn a_shutdown_does_not_wait_for_a_function_that_blocks() {
    ends(|| {
        for in_background in [true, false] {
            let runtime = rt::runtime(1);
            let dropped = sleeper(&runtime);
            let (begun, may_end, done) = (Flag::default(), Flag::default(), Flag::default());
            let (begins, may, does) = (begun.clone(), may_end.clone(), done.clone());
            drop(runtime.spawn_blocking(move || {
                begins.set();
                may.wait();
                does.set();
            }));
            begun.wait();
            if in_background {
                runtime.shutdown_background();
            } else {
                runtime.shutdown_timeout(ms(10));
            }
            assert!(!done.is_set());
            may_end.set();
            done.wait();
            crate::until(|| dropped.is_set());
        }
    });
}

#[test]
fn a_shutdown_with_time_enough_waits_for_all() {
    ends(|| {
        let runtime = rt::runtime(1);
        let dropped = sleeper(&runtime);
        let (begun, done) = (Flag::default(), Flag::default());
        let (begins, does) = (begun.clone(), done.clone());
        drop(runtime.spawn_blocking(move || {
            begins.set();
            thread::sleep(ms(20));
            does.set();
        }));
        begun.wait();
        runtime.shutdown_timeout(HOUR);
        assert!(done.is_set() && dropped.is_set());
    });
}

#[test]
fn there_is_a_current_runtime_in_its_tasks_and_nowhere_else() {
    ends(|| {
        assert!(Handle::try_current().is_err());
        let runtime = rt::runtime(1);
        assert!(Handle::try_current().is_err());
        runtime.block_on(async {
            assert!(Handle::try_current().is_ok());
            rt::spawn(async { drop(Handle::current()) }).await.unwrap();
            rt::spawn_blocking(|| drop(Handle::current())).await.unwrap();
        });
        assert!(Handle::try_current().is_err());
    });
}

#[test]
#[should_panic(expected = "runtime")]
fn without_a_runtime_nothing_is_spawned() {
    drop(rt::spawn(async {}));
}

#[test]
fn who_has_entered_a_runtime_spawns_in_it() {
    ends(|| {
        let runtime = rt::runtime(1);
        let task = {
            let _entered = runtime.enter();
            rt::spawn(async { 7 })
        };
        assert!(Handle::try_current().is_err());
        assert_eq!(runtime.block_on(task).unwrap(), 7);
        let handle = runtime.handle().clone();
        let elsewhere = thread::spawn(move || {
            let _entered = handle.enter();
            let task = rt::spawn(async { 8 });
            handle.block_on(task).unwrap()
        });
        assert_eq!(elsewhere.join().unwrap(), 8);
    });
}

#[test]
fn a_handle_spawns_from_anywhere() {
    ends(|| {
        let runtime = rt::runtime(1);
        let handle = runtime.handle().clone();
        let spawned =
            thread::spawn(move || (handle.spawn(async { 1 }), handle.spawn_blocking(|| 2)));
        let (one, two) = spawned.join().unwrap();
        assert_eq!(runtime.block_on(async { one.await.unwrap() + two.await.unwrap() }), 3);
    });
}

#[test]
fn a_function_that_blocks_may_run_a_future_to_its_end() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let task = rt::spawn_blocking(|| {
                Handle::current().block_on(async {
                    rt::time::sleep(ms(1)).await;
                    rt::spawn(async { 7 }).await.unwrap()
                })
            });
            assert_eq!(task.await.unwrap(), 7);
        });
    });
}

#[test]
fn a_future_of_block_on_need_not_be_sent() {
    ends(|| {
        let local = std::rc::Rc::new(7);
        assert_eq!(rt::runtime(1).block_on(async { *local }), 7);
    });
}

#[test]
fn a_panic_of_the_main_future_passes_its_runtime() {
    let runtime = rt::runtime(1);
    let task = runtime.spawn(async { 5 });
    let caught = catch_unwind(|| runtime.block_on(async { panic!("on purpose") }));
    assert_eq!(*caught.unwrap_err().downcast_ref::<&str>().unwrap(), "on purpose");
    assert_eq!(runtime.block_on(task).unwrap(), 5);
}

/// A closure that holds one of them can be given to `catch_unwind`.
#[test]
fn runtimes_and_handles_are_unwind_safe() {
    fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>(_: &T) {}
    let runtime = rt::runtime(1);
    is_unwind_safe(&runtime);
    is_unwind_safe(runtime.handle());
    let task: JoinHandle<Option<Box<dyn Fn() + Send>>> = runtime.spawn(async { None });
    is_unwind_safe(&task);
    is_unwind_safe(&task.abort_handle());
}

#[test]
fn a_guard_of_enter_can_be_shared_with_other_threads() {
    fn is_sync<T: Sync>(_: &T) {}
    let runtime: Runtime = rt::runtime(1);
    is_sync(&runtime.enter());
}
