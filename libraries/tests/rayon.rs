//! Pools of rayon's whose threads are tasks, and rayon's own threads that a task starts.

#[path = "../../crates/runtime/tests/trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;
#[path = "../../crates/runtime/tests/common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use child::run;
use common::{Flag, cpu_time, ends, ms, until, workers};
use nix::sys::signal::Signal;
use rayon::prelude::*;
use runyard::rayon::{ThreadPool, pool};
use runyard::{Handle, Nice, Policy, Runtime, Task, TaskBuilder, TaskSnapshot, blocking};
use runyard::{spawn, spawn_blocking};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// Makes a pool in this runtime.
fn pool_in(runtime: &Runtime, threads: usize, task: TaskBuilder) -> ThreadPool {
    let _guard = runtime.enter();
    pool(threads, task).unwrap()
}

/// Returns the live tasks that are called `name-N`, in the order of their names.
fn tasks(handle: &Handle, name: &str) -> Vec<TaskSnapshot> {
    let mut tasks = handle.snapshot().tasks;
    let name = format!("{name}-");
    tasks.retain(|task| task.name.as_ref().is_some_and(|it| it.starts_with(&name)));
    tasks.sort_by(|one, other| one.name.cmp(&other.name));
    tasks
}

fn sum(pool: &ThreadPool) -> u64 {
    pool.install(|| (1..=1_000_u64).into_par_iter().sum())
}

#[test]
fn its_threads_are_tasks_with_what_was_asked_for() {
    let runtime = workers(2);
    let group = runtime.group("tiles").create().unwrap();
    let nice = Policy::Normal(Nice::new(19).unwrap());
    let task = Task::builder().nice(19).group(&group).name("tile");
    let pool = pool_in(&runtime, 2, task);
    assert_eq!(sum(&pool), 500_500);
    let there = tasks(runtime.handle(), "tile");
    let names: Vec<_> = there.iter().map(|task| task.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["tile-0", "tile-1"]);
    for task in there {
        assert_eq!((task.policy, task.group.as_deref()), (nice, Some("/tiles")));
    }
    let before = group.usage().used;
    let seen = pool.broadcast(|thread| {
        let end = cpu_time() + ms(5);
        while cpu_time() < end {
            std::hint::spin_loop();
        }
        let task = Task::current();
        let nth = thread.index();
        assert_eq!(task.name(), Some(format!("tile-{nth}").as_str()));
        (task.policy(), task.group().map(|group| group.path()))
    });
    assert_eq!(seen, [(); 2].map(|()| (nice, Some("/tiles".to_owned()))));
    assert!(group.usage().used - before > ms(8));
}

#[test]
fn what_is_not_said_the_calling_task_passes_on() {
    let runtime = workers(1);
    let calling = Task::builder().policy(Policy::Idle);
    let pool = calling.spawn_on(async { pool(1, Task::builder()).unwrap() }, runtime.handle());
    let pool = runtime.block_on(pool).unwrap();
    assert_eq!(pool.install(|| Task::current().policy()), Policy::Idle);
    assert_eq!(tasks(runtime.handle(), "rayon").len(), 1);
}

#[test]
fn a_panic_comes_to_whoever_waits_for_the_job() {
    ends(|| {
        let runtime = workers(2);
        let pool = pool_in(&runtime, 2, Task::builder());
        let panics =
            || pool.install(|| (0..100).into_par_iter().for_each(|_| panic!("on purpose")));
        let payload = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose");
        assert_eq!(sum(&pool), 500_500);
    });
}

#[test]
fn a_panic_for_which_nobody_waits_ends_the_process() {
    let name = "a_panic_for_which_nobody_waits_ends_the_process";
    let end = run(ms(20_000), &[], name, || {
        let runtime = workers(1);
        let pool = pool_in(&runtime, 1, Task::builder());
        pool.spawn(|| panic!("on purpose"));
        thread::sleep(ms(10_000));
    });
    if let Some(end) = end {
        assert_eq!(end.signal(), Some(Signal::SIGABRT as i32), "{:?}\n{}", end.status, end.said);
    }
}

#[test]
fn a_pool_that_is_dropped_does_its_work_and_ends_its_tasks() {
    let runtime = workers(2);
    let pool = pool_in(&runtime, 2, Task::builder());
    let (send, done) = channel();
    for nth in 0..100 {
        let send = send.clone();
        pool.spawn(move || send.send(nth).unwrap());
    }
    drop((pool, send));
    assert_eq!(done.iter().count(), 100);
    until(|| tasks(runtime.handle(), "rayon").is_empty());
}

/// There is one CPU. The threads of the pool have a higher priority than the other task.
#[test]
fn threads_without_work_leave_their_cpu_to_everybody() {
    ends(|| {
        let runtime = workers(1);
        if !runtime.preempts() {
            return;
        }
        let pool = pool_in(&runtime, 2, Task::builder().fifo(50));
        for _ in 0..20 {
            assert_eq!(sum(&pool), 500_500);
            let task = Task::builder().policy(Policy::Idle).spawn_on(async { 7 }, runtime.handle());
            assert_eq!(runtime.block_on(task).unwrap(), 7);
        }
    });
}

/// There is one CPU. A job computes until a task of a higher priority has run.
#[test]
fn a_more_important_task_preempts_a_job() {
    ends(|| {
        let runtime = workers(1);
        if !runtime.preempts() {
            return;
        }
        let pool = pool_in(&runtime, 2, Task::builder().nice(19));
        let [begun, over] = [(); 2].map(|()| Flag::default());
        let (begins, waits) = (begun.clone(), over.clone());
        pool.spawn(move || {
            begins.set();
            while !waits.is_set() {
                std::hint::spin_loop();
            }
        });
        begun.wait();
        let task = Task::builder().fifo(1).spawn_on(async move { over.set() }, runtime.handle());
        runtime.block_on(task).unwrap();
    });
}

#[test]
fn a_task_waits_for_the_pool_beside_which_it_runs() {
    ends(|| {
        workers(1).block_on(async {
            let pool = pool(2, Task::builder()).unwrap();
            let all = move || (0..50).map(|_| sum(&pool)).sum::<u64>();
            let unsaid = spawn(async move { (all(), all) }).await.unwrap();
            assert_eq!(unsaid.0, 50 * 500_500);
            assert_eq!(spawn(async move { blocking(unsaid.1) }).await.unwrap(), 50 * 500_500);
        });
    });
}

#[test]
fn the_end_of_a_runtime_waits_for_the_pool() {
    ends(|| {
        let runtime = workers(2);
        let pool = pool_in(&runtime, 2, Task::builder());
        pool.broadcast(|_| ());
        let handle = runtime.handle().clone();
        let ending = thread::spawn(move || drop(runtime));
        until(|| handle.block_on(handle.spawn(async {})).is_err());
        assert_eq!(sum(&pool), 500_500);
        assert!(!ending.is_finished());
        drop(pool);
        ending.join().unwrap();
    });
}

#[test]
fn a_pool_that_a_task_owns_ends_with_the_runtime() {
    ends(|| {
        workers(2).block_on(async {
            let pool = pool(2, Task::builder()).unwrap();
            pool.broadcast(|_| ());
            spawn(async move {
                std::future::pending::<()>().await;
                drop(pool);
            });
        });
    });
}

#[test]
fn a_runtime_that_has_ended_or_takes_no_such_tasks_refuses_a_pool() {
    let runtime = workers(1);
    let _guard = runtime.enter();
    let error = pool(1, Task::builder().affinity([7])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the runtime has 1 CPUs, numbered from 0, and none of the CPUs [7]"
    );
    let handle = workers(1).handle().clone();
    let _guard = handle.enter();
    assert_eq!(pool(2, Task::builder()).unwrap_err().to_string(), "the runtime has ended");
}

/// The task of the pool's thread would have to wait for the only CPU, which another task uses.
#[test]
fn a_thread_that_has_not_begun_as_the_runtime_ends_works_all_the_same() {
    ends(|| {
        let runtime = workers(1);
        let [begun, over] = [(); 2].map(|()| Flag::default());
        let (begins, waits) = (begun.clone(), over.clone());
        let spins = move || {
            begins.set();
            while !waits.is_set() {
                std::hint::spin_loop();
            }
        };
        Task::builder().fifo(1).spawn_blocking_on(spins, runtime.handle());
        begun.wait();
        let pool = pool_in(&runtime, 1, Task::builder().policy(Policy::Idle));
        runtime.shutdown_background();
        over.set();
        assert_eq!(sum(&pool), 500_500);
    });
}

/// Returns the kernel's attributes of the calling thread: its CPUs, its blocked and ignored signals, its nice value and
/// its policy.
fn of_this_thread() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let lines = status.lines().filter(|line| {
        ["Cpus_allowed_list:", "SigBlk:", "SigIgn:"].iter().any(|name| line.starts_with(name))
    });
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<_> = fields.split_whitespace().collect();
    // The nice value and the policy are fields 19 and 41 of proc(5). The first field here is the third one there.
    lines.chain([fields[19 - 3], fields[41 - 3]]).map(str::to_owned).collect()
}

/// The first use of rayon's global pool in this process starts its threads.
#[test]
fn the_global_pool_that_a_task_starts_has_all_cpus() {
    let elsewhere = thread::spawn(of_this_thread).join().unwrap();
    let threads = thread::available_parallelism().unwrap().get();
    let runtime = Runtime::new();
    let starts = async {
        let sum: u64 = (1..=1_000_u64).into_par_iter().sum();
        (sum, rayon::broadcast(|_| of_this_thread()))
    };
    let task = Task::builder().policy(Policy::Idle).spawn_on(starts, runtime.handle());
    let (sum, there) = runtime.block_on(task).unwrap();
    assert_eq!(sum, 500_500);
    assert_eq!(there, vec![elsewhere.clone(); threads]);
    // The second part makes a pool in a task with one long poll, which is preempted from time to time.
    let starts = || {
        let pool = rayon::ThreadPoolBuilder::new().build().unwrap();
        pool.broadcast(|_| of_this_thread())
    };
    let there = runtime.block_on(async move { spawn_blocking(starts).await.unwrap() });
    assert_eq!(there, vec![elsewhere; threads]);
}
