//! A child that a task makes by fork, by clone or before exec, and a child of vfork. One binary has these tests with
//! the allocator of the runtime, and one without.

use crate::child::{run, within};
use crate::common::{ms, spin, under_a_storm, workers};
use runyard::trial::{self, Birth, before_exec, exit_at_once, status_of, vfork};
use runyard::{
    BuildError, Event, JoinHandle, Observer, Runtime, Task, blocking, spawn, time,
    without_preemption,
};
use std::cell::RefCell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The exit code of a child that did all that it should.
const WELL: i32 = 42;

/// The exit code of a child that panicked.
const PANICKED: i32 = 101;

/// The children of each kind.
const CHILDREN: usize = 25;

/// The births of children with a memory of their own.
const COPIES: [Birth; 2] = [Birth::Fork, Birth::Clone];

/// Makes a child that runs `body`. Returns the child's status.
fn in_child(birth: Birth, body: impl FnOnce() -> i32) -> i32 {
    match trial::fork(birth) {
        Some(child) => status_of(child),
        None => exit_at_once(catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED)),
    }
}

/// Computes and allocates, for some hundred microseconds.
fn compute() -> i32 {
    let sum: usize = (0..2_000).map(|nth| black_box(vec![nth; 1 + nth % 9])[0]).sum();
    if sum == 1_999_000 { WELL } else { 1 }
}

/// Runs `body` on a runtime in which a task is asked for its CPU every 170 us.
fn beside_a_beat(body: impl FnOnce(&Runtime)) {
    let runtime = workers(2);
    let beats = async {
        let mut interval = time::interval(Duration::from_micros(170));
        interval.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
        loop {
            interval.tick().await;
        }
    };
    let beat = Task::builder().fifo(99).spawn_on(beats, runtime.handle());
    body(&runtime);
    beat.task().abort();
}

/// The places of a task: in its poll, in a section that blocks, and in one that is not stopped.
const AROUND: [fn(&dyn Fn()); 3] = [|it| it(), |it| blocking(it), |it| without_preemption(it)];

async fn makes_children(around: fn(&dyn Fn()), makes: impl Fn()) {
    for _ in 0..CHILDREN {
        around(&makes);
        time::sleep(Duration::from_micros(100)).await;
    }
}

/// Runs `makes` in tasks at all places at the same time, beside a beat and a storm of signals.
fn in_tasks(makes: impl Fn() + Copy + Send + 'static) {
    beside_a_beat(|runtime| {
        under_a_storm(|| {
            let tasks = AROUND.map(|around| runtime.spawn(makes_children(around, makes)));
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        });
    });
}

fn makes_two() {
    assert_eq!(in_child(Birth::Fork, compute), WELL);
    assert_eq!(in_child(Birth::Fork, || trial::exit(compute())), WELL);
}

/// Computes in sections in which a task is not stopped, as an allocation is one, but without the C library's locks.
fn compute_in_sections() -> i32 {
    let sum: usize = (0..2_000_usize).map(|nth| without_preemption(|| black_box(nth))).sum();
    if sum == 1_999_000 { WELL } else { 1 }
}

/// Seen failing with the runtime's allocator: a child gave its slot to a thread that it did not have.
#[test]
fn h27_a_child_of_a_task_computes_allocates_and_exits() {
    within(ms(120_000), "children::h27_a_child_of_a_task_computes_allocates_and_exits", || {
        in_tasks(makes_two);
        // The C library does not know of a child of clone, which may have copies of its locks as others held them.
        in_tasks(|| assert_eq!(in_child(Birth::Clone, compute_in_sections), WELL));
    });
}

/// Seen failing with the runtime's allocator, also in `blocking`: the parent waits for its child's exec.
#[test]
fn h27_a_program_starts_with_and_without_code_before() {
    within(ms(120_000), "children::h27_a_program_starts_with_and_without_code_before", || {
        in_tasks(|| {
            for has_hook in [true, false] {
                let mut command = Command::new("echo");
                if has_hook {
                    before_exec(&mut command, || assert_eq!(compute(), WELL));
                }
                let output = command.arg("well").output().unwrap();
                assert!(output.status.success(), "{}", output.status);
                assert_eq!(output.stdout, b"well\n");
            }
        });
    });
}

#[test]
fn a_child_of_vfork_computes_and_executes_a_program() {
    within(ms(120_000), "children::a_child_of_vfork_computes_and_executes_a_program", || {
        in_tasks(|| {
            assert_eq!(status_of(vfork(compute)), WELL);
            let starts = || {
                compute();
                use std::os::unix::process::CommandExt;
                let _refused = Command::new("true").exec();
                1
            };
            assert_eq!(status_of(vfork(starts)), 0);
        });
    });
}

/// Returns whether `call` panics and says that this is a child.
fn is_refused<T>(call: impl FnOnce() -> T) -> bool {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(_) => false,
        Err(why) => why.downcast_ref::<String>().is_some_and(|why| why.contains("child of fork")),
    }
}

/// Returns the number of the first of these calls that a child may make although nobody answers it.
fn first_accepted(runtime: &Runtime, task: &mut JoinHandle<()>) -> i32 {
    let calls: [&mut dyn FnMut() -> bool; 6] = [
        &mut || is_refused(|| runtime.spawn(async {})),
        &mut || is_refused(|| runtime.spawn_blocking(|| ())),
        &mut || is_refused(|| runtime.block_on(async {})),
        &mut || is_refused(|| runtime.handle().block_on(&mut *task)),
        &mut || matches!(Runtime::builder().try_build(), Err(BuildError::Forked)),
        &mut || is_refused(|| Runtime::builder().build()),
    ];
    calls.into_iter().position(|call| !call()).map_or(WELL, |nth| nth as i32)
}

#[test]
fn a_child_is_told_that_nobody_runs_its_tasks() {
    within(ms(60_000), "children::a_child_is_told_that_nobody_runs_its_tasks", || {
        let runtime = workers(2);
        let mut task = runtime.spawn(std::future::pending());
        for birth in COPIES {
            assert_eq!(in_child(birth, || first_accepted(&runtime, &mut task)), WELL, "{birth:?}");
            let in_a_task = async move {
                let spawns = || is_refused(|| spawn(async {}));
                in_child(birth, || if spawns() { WELL } else { 1 })
            };
            assert_eq!(runtime.block_on(runtime.spawn(in_a_task)).unwrap(), WELL, "{birth:?}");
        }
        task.task().abort();
    });
}

thread_local! {
    static LAST: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// Seen failing: the end of a runtime waited for threads that the child does not have.
#[test]
fn a_child_ends_without_waiting_for_anybody() {
    within(ms(60_000), "children::a_child_ends_without_waiting_for_anybody", || {
        let hogs = |runtime: &Runtime| {
            (0..3).for_each(|_| drop(runtime.spawn(async { spin(ms(300)) })));
        };
        for birth in COPIES {
            let (mut dropped, other) = (Some(workers(2)), workers(1));
            LAST.set(Some(workers(1)));
            hogs(dropped.as_ref().unwrap());
            hogs(&other);
            let mut other = Some(other);
            let ends = || {
                drop(dropped.take());
                other.take().unwrap().shutdown_timeout(ms(60_000));
                // Also drops the one of the thread.
                trial::exit(WELL)
            };
            assert_eq!(in_child(birth, ends), WELL, "{birth:?}");
            LAST.take();
        }
    });
}

#[derive(Debug)]
struct Deaf;

impl Observer for Deaf {
    fn event(&self, _: &Event) {}
}

/// Seen failing: the child waited for the thread that calls the observer, and then for all others.
#[test]
fn a_child_returns_from_block_on_and_main() {
    within(ms(60_000), "children::a_child_returns_from_block_on_and_main", || {
        for birth in COPIES {
            let runtime = Runtime::builder().workers(2).observer(Arc::new(Deaf)).build();
            let child = runtime.block_on(async {
                let slept = time::sleep(ms(1));
                spawn(async {}).await.unwrap();
                slept.await;
                trial::fork(birth)
            });
            drop(runtime);
            match child {
                Some(child) => assert_eq!(status_of(child), WELL, "{birth:?}"),
                None => trial::exit(compute()),
            }
        }
    });
}

/// A process that ended its runtimes may fork, and its children have runtimes of their own.
#[test]
fn a_child_has_a_runtime_of_its_own_if_its_parent_has_none() {
    within(ms(60_000), "children::a_child_has_a_runtime_of_its_own_if_its_parent_has_none", || {
        drop(workers(2));
        for birth in COPIES {
            let works = || {
                let runtime = workers(2);
                let sum = runtime.block_on(async { spawn(async { compute() }).await.unwrap() });
                // Its own children know that they are children.
                let is_told = || i32::from(is_refused(|| runtime.spawn(async {})));
                if in_child(birth, is_told) == 1 { sum } else { 2 }
            };
            assert_eq!(in_child(birth, works), WELL, "{birth:?}");
        }
    });
}

/// A child that went on would poll copies of other tasks.
fn a_child_that_returns_from_its_poll_is_ended(name: &str, birth: Birth) {
    let end = run(ms(60_000), &[], name, || {
        let runtime = workers(2);
        let forks = runtime.spawn(async move {
            let child = trial::fork(birth);
            child.map(status_of)
        });
        // The signal is SIGABRT.
        assert_eq!(runtime.block_on(forks).unwrap(), Some(-6));
    });
    let Some(end) = end else { return };
    let text = "a child of fork went on behind the poll that forked it";
    assert!(end.status.is_some_and(|status| status.success()), "{:?}\n{}", end.status, end.said);
    assert!(end.said.contains(text), "{}", end.said);
}

#[test]
fn a_child_of_fork_that_returns_from_its_poll_is_ended() {
    let name = "children::a_child_of_fork_that_returns_from_its_poll_is_ended";
    a_child_that_returns_from_its_poll_is_ended(name, Birth::Fork);
}

#[test]
fn a_child_of_clone_that_returns_from_its_poll_is_ended() {
    let name = "children::a_child_of_clone_that_returns_from_its_poll_is_ended";
    a_child_that_returns_from_its_poll_is_ended(name, Birth::Clone);
}

/// As where the kernel is older than the page that it clears in children.
#[test]
fn a_child_of_fork_is_known_without_a_wiped_page() {
    within(ms(60_000), "children::a_child_of_fork_is_known_without_a_wiped_page", || {
        trial::refuse_wiping();
        let runtime = workers(2);
        let forks = async { in_child(Birth::Fork, || i32::from(is_refused(|| spawn(async {})))) };
        assert_eq!(runtime.block_on(runtime.spawn(forks)).unwrap(), 1);
        assert_eq!(
            in_child(Birth::Fork, || i32::from(is_refused(|| runtime.block_on(async {})))),
            1
        );
    });
}
