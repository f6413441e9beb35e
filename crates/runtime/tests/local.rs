//! Sets of tasks that stay on one thread.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ms, spin, until};
use runyard::{Handle, JoinError, LocalSet, Policy, Runtime, Task, spawn_local, time, yield_now};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

fn one() -> Runtime {
    Runtime::builder().workers(1).build()
}

#[test]
fn tasks_take_turns_in_the_order_of_their_wakings() {
    let (set, told) = (LocalSet::new(), Rc::new(RefCell::new(Vec::new())));
    for name in ["a", "b"] {
        let told = told.clone();
        let tells = async move {
            for round in 0..3 {
                told.borrow_mut().push(format!("{name}{round}"));
                yield_now().await;
            }
        };
        drop(set.spawn_local(tells));
    }
    one().block_on(set);
    assert_eq!(told.take(), ["a0", "b0", "a1", "b1", "a2", "b2"]);
}

#[test]
fn a_set_is_ready_when_its_tasks_and_theirs_are_over() {
    let (set, sum) = (LocalSet::new(), Rc::new(Cell::new(0)));
    let counted = sum.clone();
    drop(set.spawn_local(async move {
        for n in 0..1_000 {
            let counted = counted.clone();
            drop(spawn_local(async move {
                time::sleep(ms(1)).await;
                counted.set(counted.get() + n);
            }));
        }
    }));
    one().block_on(set);
    assert_eq!(sum.get(), 499_500);
}

#[test]
fn tasks_beside_a_future_go_on_in_the_next_one() {
    let (runtime, set, rounds) = (one(), LocalSet::new(), Rc::new(Cell::new(0)));
    let counted = rounds.clone();
    let endless = set.spawn_local(async move {
        loop {
            counted.set(counted.get() + 1);
            time::sleep(ms(1)).await;
        }
    });
    for _ in 0..2 {
        let before = rounds.get();
        set.block_on(&runtime, async {
            while rounds.get() < before + 3 {
                yield_now().await
            }
        });
    }
    endless.abort();
    let ended: Result<(), JoinError> = set.block_on(&runtime, endless);
    assert!(ended.unwrap_err().is_cancelled());
}

/// Seen failing: the timer was never polled, as the set never ended its poll.
#[test]
fn tasks_that_are_always_ready_leave_time_to_the_future_beside_them() {
    let set = LocalSet::new();
    drop(set.spawn_local(async {
        loop {
            yield_now().await;
        }
    }));
    set.block_on(&one(), time::sleep(ms(20)));
}

#[test]
fn others_wake_tasks_of_a_set_from_other_threads() {
    let (runtime, set) = (Runtime::builder().workers(2).build(), LocalSet::new());
    let handle = runtime.handle().clone();
    let sum = set.block_on(&runtime, async {
        let each = |n: u64| {
            let (elsewhere, handle) = (Rc::new(n), handle.clone());
            spawn_local(async move {
                let n = *elsewhere;
                handle.spawn(async move { n }).await.unwrap() + *elsewhere
            })
        };
        let tasks: Vec<_> = (0..200).map(each).collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 199 * 200);
}

#[test]
fn a_panic_comes_to_whoever_waits_and_leaves_the_others_alone() {
    let told = LocalSet::new().block_on(&one(), async {
        let panics = spawn_local(async { panic!("on purpose") });
        let goes_on = spawn_local(async {
            yield_now().await;
            5
        });
        let error = panics.await.map(|(): ()| ()).unwrap_err();
        assert_eq!(goes_on.await.unwrap(), 5);
        error.to_string()
    });
    assert!(told.ends_with("panicked: on purpose"), "{told}");
}

#[test]
fn a_dropped_set_cancels_its_tasks_and_what_they_spawn_at_their_end() {
    struct Spawns(Rc<RefCell<Vec<runyard::LocalJoinHandle<()>>>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            self.0.borrow_mut().push(spawn_local(async {}));
        }
    }
    let (set, late) = (LocalSet::new(), Rc::new(RefCell::new(Vec::new())));
    let spawns = Spawns(late.clone());
    let task = set.spawn_local(async move {
        let _spawns = spawns;
        std::future::pending::<()>().await;
    });
    let runtime = one();
    set.block_on(&runtime, yield_now());
    drop(set);
    assert!(task.is_finished());
    let late = late.take().pop().unwrap();
    for cancelled in [task, late] {
        assert!(runtime.block_on(cancelled).unwrap_err().is_cancelled());
    }
}

#[test]
fn a_set_in_a_blocking_function_has_its_policy_its_thread_and_is_preempted() {
    let runtime = one();
    let (over, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (told, begins) = (over.clone(), begun.clone());
    let set = move || {
        let set = LocalSet::new();
        Handle::current().block_on(set.run_until(async {
            let first = thread::current().id();
            let task = spawn_local(async move {
                begins.store(true, Ordering::SeqCst);
                // A long poll, which is stopped if anything is.
                while !told.load(Ordering::SeqCst) {
                    spin(ms(1));
                }
                yield_now().await;
                (Task::current().policy(), thread::current().id())
            });
            let (policy, last) = task.await.unwrap();
            assert_eq!(first, last);
            policy
        }))
    };
    let task = Task::builder().nice(3).spawn_blocking_on(set, runtime.handle());
    until(|| begun.load(Ordering::SeqCst));
    if runtime.preempts() {
        // On the only worker, in the middle of the poll of the set.
        runtime.block_on(Task::builder().fifo(1).spawn_on(async {}, runtime.handle())).unwrap();
    }
    over.store(true, Ordering::SeqCst);
    let policy = runtime.block_on(task).unwrap();
    assert!(matches!(policy, Policy::Normal(nice) if nice.get() == 3), "{policy:?}");
}

#[test]
#[should_panic(expected = "spawn_local was called outside of every LocalSet")]
fn a_local_task_takes_a_set() {
    drop(spawn_local(async {}));
}

#[test]
fn sets_nest_and_are_left_in_order() {
    let (outer, inner) = (LocalSet::new(), LocalSet::new());
    let runtime = one();
    let told = outer.block_on(&runtime, async {
        let of_inner = inner.run_until(async { spawn_local(async { 1 }).await.unwrap() }).await;
        of_inner + spawn_local(async { 2 }).await.unwrap()
    });
    assert_eq!(told, 3);
}

#[test]
fn the_memory_of_ended_tasks_is_used_again() {
    let began = Instant::now();
    LocalSet::new().block_on(&one(), async {
        for n in 0..100_000_u32 {
            assert_eq!(spawn_local(async move { n }).await.unwrap(), n);
        }
    });
    println!("{:?} for 100,000 tasks", began.elapsed());
}

#[test]
fn a_task_that_is_spawned_beside_the_set_wakes_it() {
    let set = LocalSet::new();
    let mut rounds = 0;
    one().block_on(async {
        let mut endless = pin!(set.run_until(pending::<()>()));
        let mut beside = pin!(async {
            for round in 1..=3 {
                set.spawn_local(async {}).await.unwrap();
                rounds = round;
            }
        });
        let both = poll_fn(|cx| {
            assert!(endless.as_mut().poll(cx).is_pending());
            beside.as_mut().poll(cx)
        });
        assert_eq!(time::timeout(ms(10_000), both).await, Ok(()));
    });
    assert_eq!(rounds, 3);
}
