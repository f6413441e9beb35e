//! `JoinHandle`, `AbortHandle` and `JoinError`.

use super::rt;
use crate::{Flag, HOUR, ends, ms};
use std::future::pending;
use std::thread;

#[test]
fn a_task_gives_its_value() {
    ends(|| {
        rt::runtime(2).block_on(async {
            assert_eq!(rt::spawn(async { 7 }).await.unwrap(), 7);
            assert_eq!(rt::spawn_blocking(|| 8).await.unwrap(), 8);
        });
    });
}

#[test]
fn a_panic_is_handed_to_who_joins() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let error = rt::spawn(async { panic!("a task's panic") }).await.unwrap_err();
            assert!(error.is_panic() && !error.is_cancelled());
            let payload = error.into_panic();
            assert_eq!(*payload.downcast_ref::<&str>().unwrap(), "a task's panic");
            let error = rt::spawn_blocking(|| panic!("a function's")).await.unwrap_err();
            let payload = error.try_into_panic().unwrap();
            assert_eq!(*payload.downcast_ref::<&str>().unwrap(), "a function's");
            assert_eq!(rt::spawn(async { 7 }).await.unwrap(), 7, "others go on");
        });
    });
}

#[test]
fn an_error_goes_where_errors_go() {
    fn is_error<E: std::error::Error + Send + Sync + 'static>(_: &E) {}
    ends(|| {
        rt::runtime(1).block_on(async {
            let task = rt::spawn(pending::<()>());
            task.abort();
            let error = task.await.unwrap_err();
            is_error(&error);
            assert!(error.is_cancelled() && !error.is_panic());
            assert!(error.try_into_panic().is_err());
        });
    });
}

/// The task may have been polled once by then, or not.
#[test]
fn a_task_that_is_aborted_at_once_is_cancelled_and_dropped() {
    ends(|| {
        rt::runtime(1).block_on(async {
            rt::spawn(async {
                let dropped = Flag::default();
                let held = dropped.at_drop();
                let task = rt::spawn(async move {
                    let _held = held;
                    pending::<()>().await;
                });
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
                assert!(dropped.is_set());
            })
            .await
            .unwrap();
        });
    });
}

#[test]
fn a_task_that_is_aborted_in_its_sleep_is_dropped_there() {
    ends(|| {
        let runtime = rt::runtime(1);
        let (begun, dropped, after) = (Flag::default(), Flag::default(), Flag::default());
        let (begins, held, goes_on) = (begun.clone(), dropped.at_drop(), after.clone());
        let task = runtime.spawn(async move {
            let _held = held;
            begins.set();
            rt::time::sleep(HOUR).await;
            goes_on.set();
        });
        begun.wait();
        let handle = task.abort_handle();
        handle.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        assert!(dropped.is_set() && !after.is_set());
        assert!(handle.is_finished());
    });
}

#[test]
fn a_task_that_is_over_cannot_be_aborted() {
    ends(|| {
        let runtime = rt::runtime(1);
        let task = runtime.spawn(async { 7 });
        crate::until(|| task.is_finished());
        task.abort();
        task.abort_handle().abort();
        assert_eq!(runtime.block_on(task).unwrap(), 7);
    });
}

#[test]
fn a_blocking_function_that_runs_is_not_aborted() {
    ends(|| {
        let runtime = rt::runtime(1);
        let (begun, aborted) = (Flag::default(), Flag::default());
        let (begins, is_aborted) = (begun.clone(), aborted.clone());
        let task = runtime.spawn_blocking(move || {
            begins.set();
            is_aborted.wait();
            7
        });
        begun.wait();
        task.abort();
        aborted.set();
        assert_eq!(runtime.block_on(task).unwrap(), 7);
    });
}

#[test]
fn a_task_without_a_handle_goes_on() {
    ends(|| {
        let runtime = rt::runtime(1);
        let done = Flag::default();
        let (does, does_too) = (done.clone(), Flag::default());
        let blocking = does_too.clone();
        drop(runtime.spawn(async move {
            rt::time::sleep(ms(2)).await;
            does.set();
        }));
        drop(runtime.spawn_blocking(move || {
            thread::sleep(ms(2));
            blocking.set();
        }));
        done.wait();
        does_too.wait();
    });
}

#[test]
fn a_task_is_finished_when_it_is_over() {
    ends(|| {
        let runtime = rt::runtime(1);
        let may_end = Flag::default();
        let may = may_end.clone();
        let task = runtime.spawn(async move {
            while !may.is_set() {
                rt::yield_now().await;
            }
        });
        let handle = task.abort_handle();
        assert!(!task.is_finished() && !handle.is_finished());
        may_end.set();
        crate::until(|| task.is_finished() && handle.is_finished());
        runtime.block_on(task).unwrap();
    });
}
