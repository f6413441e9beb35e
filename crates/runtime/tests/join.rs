//! Guarantees for the results of tasks: an error can be passed wherever errors go; a set returns each result once, in
//! the order in which the tasks ended; and a set that is dropped aborts its tasks.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, ms, workers};
use runyard::{AbortHandle, JoinError, JoinSet, Policy, Task, spawn, time, yield_now};
use std::error::Error;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

#[test]
fn an_error_goes_by_a_question_mark_into_any_error() {
    fn is_error<E: Error + Send + Sync + std::fmt::Debug + 'static>() {}
    is_error::<JoinError>();
    async fn fails() -> Result<u32, Box<dyn Error + Send + Sync>> {
        let n = spawn(async { 7 }).await?;
        // The message of the panic is built at run time.
        let what = String::from("cheese");
        let panics = spawn(async move {
            if n == 7 {
                panic!("out of {what}")
            }
        });
        panics.await?;
        Ok(n)
    }
    ends(|| {
        let error = workers(2).block_on(async { spawn(fails()).await.unwrap().unwrap_err() });
        assert!(error.to_string().ends_with("panicked: out of cheese"), "{error}");
        let error = error.downcast::<JoinError>().unwrap();
        assert!(error.is_panic() && !error.is_cancelled());
        assert_eq!(error.into_panic().downcast_ref::<String>().unwrap(), "out of cheese");
    });
}

#[test]
fn an_error_says_which_task_it_was_and_why() {
    ends(|| {
        workers(2).block_on(async {
            let waits = spawn(pending::<()>());
            let (id, end) = (waits.id(), waits.abort_handle());
            end.abort();
            let error = waits.await.unwrap_err();
            assert!(error.is_cancelled() && !error.is_panic());
            assert_eq!((error.id(), end.id()), (id, id));
            assert_eq!(error.to_string(), format!("task {id} was cancelled"));
            assert!(error.try_into_panic().unwrap_err().is_cancelled());
            assert!(end.is_finished());
            let other = spawn(async { std::panic::panic_any(7_u8) });
            let (id, error) = (other.id(), other.await.unwrap_err());
            assert_eq!(error.to_string(), format!("task {id} panicked"), "no message is known");
            assert_eq!(error.try_into_panic().unwrap().downcast_ref::<u8>(), Some(&7));
            let fixed = spawn(async { panic!("as it is") }).await.map(|(): ()| ()).unwrap_err();
            assert!(fixed.to_string().ends_with(": as it is"), "{fixed}");
        });
    });
}

/// One worker: what ends at the same moment on two CPUs may come in either order.
#[test]
fn a_set_gives_results_in_the_order_in_which_tasks_end() {
    ends(|| {
        workers(1).block_on(async {
            let mut set = JoinSet::new();
            assert!(set.is_empty() && set.join_next().await.is_none());
            // Each task ends when the one that was added after it has ended.
            let mut last: Option<AbortHandle> = None;
            for n in (0..10).rev() {
                let before = last.take();
                last = Some(set.spawn(async move {
                    while before.as_ref().is_some_and(|it| !it.is_finished()) {
                        time::sleep(ms(1)).await;
                    }
                    n
                }));
            }
            let first = set.add(Task::builder().fifo(5).spawn(async { 10 })).id();
            assert_eq!(set.len(), 11);
            let mut order = Vec::new();
            while let Some(result) = set.join_next_with_id().await {
                let (id, n) = result.unwrap();
                assert_eq!(n == 10, id == first);
                order.push(n);
            }
            assert_eq!(order.len(), 11);
            order.retain(|&n| n != 10);
            assert_eq!(order, (0..10).rev().collect::<Vec<_>>());
            assert!(set.is_empty() && set.try_join_next().is_none());
        });
    });
}

/// A set that polled each member at each wake-up would do so 200 million times.
#[test]
fn a_set_has_a_place_for_many_and_loses_none() {
    ends(|| {
        workers(2).block_on(async {
            let set: JoinSet<usize> = (0..20_000).map(|n| async move { n }).collect();
            let mut results = set.join_all().await;
            results.sort_unstable();
            assert!(results.into_iter().eq(0..20_000));
        });
    });
}

#[test]
fn places_of_a_set_are_used_again() {
    ends(|| {
        workers(2).block_on(async {
            let mut set = JoinSet::new();
            let mut sum = 0;
            for n in 0..1_000 {
                set.spawn(async move { n });
                set.spawn_blocking(move || n);
                sum += set.join_next().await.unwrap().unwrap();
            }
            assert_eq!(set.len(), 1_000);
            sum += set.join_all().await.into_iter().sum::<i32>();
            assert_eq!(sum, 999_000);
        });
    });
}

#[test]
fn who_waits_for_a_set_hears_of_a_task_that_is_aborted_before_its_first_poll() {
    ends(|| {
        workers(1).block_on(async {
            // On the only CPU no other task begins before this task waits.
            let task = Task::builder().fifo(50).spawn(async {
                let mut set = JoinSet::new();
                let idle = || Task::builder().policy(Policy::Idle);
                set.add(idle().spawn(pending::<()>())).abort();
                set.join_next().await.unwrap().unwrap_err().is_cancelled()
            });
            assert!(task.await.unwrap());
        });
    });
}

/// Counts its drops.
struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns ten tasks that wait for ever, and the number of them that were dropped.
fn ten() -> (JoinSet<()>, Arc<AtomicUsize>) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let waits = |_| {
        let counts = Counts(dropped.clone());
        async move {
            let _counts = counts;
            pending::<()>().await;
        }
    };
    ((0..10).map(waits).collect(), dropped)
}

async fn until(count: &AtomicUsize, wanted: usize) {
    while count.load(Ordering::SeqCst) != wanted {
        time::sleep(ms(1)).await;
    }
}

#[test]
fn a_set_that_is_dropped_aborts_its_tasks_wherever_that_is() {
    ends(|| {
        let runtime = workers(2);
        runtime.block_on(async {
            let (set, dropped) = ten();
            drop(set);
            until(&dropped, 10).await;
            let (mut set, dropped) = ten();
            assert!(set.try_join_next().is_none());
            spawn(async move { drop(set) }).await.unwrap();
            until(&dropped, 10).await;
            let (set, dropped) = ten();
            std::thread::spawn(move || drop(set)).join().unwrap();
            until(&dropped, 10).await;
        });
        // This set outlives the runtime.
        let (mut set, dropped) = runtime.block_on(async { ten() });
        drop(runtime);
        assert_eq!(dropped.load(Ordering::SeqCst), 10);
        assert!(set.try_join_next().unwrap().unwrap_err().is_cancelled());
        drop(set);
    });
}

#[test]
fn a_set_is_shut_down_or_lets_its_tasks_go() {
    ends(|| {
        workers(2).block_on(async {
            let (mut set, dropped) = ten();
            set.shutdown().await;
            assert_eq!((set.len(), dropped.load(Ordering::SeqCst)), (0, 10));
            let (mut set, dropped) = ten();
            set.detach_all();
            assert!(set.join_next().await.is_none());
            drop(set);
            for _ in 0..20 {
                yield_now().await;
            }
            assert_eq!(dropped.load(Ordering::SeqCst), 0, "they go on");
            let (mut set, _) = ten();
            set.abort_all();
            let mut cancelled = 0;
            while let Some(result) = set.join_next().await {
                cancelled += usize::from(result.unwrap_err().is_cancelled());
            }
            assert_eq!(cancelled, 10);
        });
    });
}

#[test]
fn a_panic_of_a_task_is_passed_on_by_join_all() {
    ends(|| {
        workers(2).block_on(async {
            let (mut set, dropped) = ten();
            set.spawn(async { panic!("out of cheese") });
            let error = spawn(set.join_all()).await.unwrap_err();
            assert!(error.to_string().ends_with("panicked: out of cheese"), "{error}");
            until(&dropped, 10).await;
        });
    });
}

/// The waker of an earlier poll is not the one that is woken.
#[test]
fn the_last_who_polls_a_set_is_woken() {
    ends(|| {
        workers(2).block_on(async {
            let (send, receive) = std::sync::mpsc::channel::<()>();
            let mut set = JoinSet::new();
            set.spawn_blocking(move || receive.recv().unwrap());
            poll_fn(|cx| {
                assert!(set.poll_join_next(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            let waits = Arc::new(AtomicUsize::new(0));
            let polls = waits.clone();
            let other = spawn(poll_fn(move |cx| {
                let polled = set.poll_join_next(cx);
                polls.fetch_add(1, Ordering::SeqCst);
                polled.map(Option::unwrap)
            }));
            until(&waits, 1).await;
            send.send(()).unwrap();
            other.await.unwrap().unwrap();
        });
    });
}
