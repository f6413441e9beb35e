//! The content of a snapshot of a running runtime, and the invariants of its numbers.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, spin, until};
use runyard::trial::Strict;
use runyard::{Counts, Runtime, Snapshot, Task, TaskState, blocking, spawn, time, yield_now};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Strict = Strict;

fn workers(count: usize) -> Runtime {
    Runtime::builder().workers(count).statistics(true).build()
}

/// Returns all counted numbers.
fn numbers(counts: &Counts) -> [u64; 8] {
    let Counts { run, wait, switches, migrations, preemptions: by, .. } = *counts;
    let nanos = |span: Duration| span.as_nanos() as u64;
    [nanos(run), nanos(wait), switches, migrations, by.important, by.turn, by.limit, by.moved]
}

fn sum<'a>(all: impl IntoIterator<Item = &'a Counts>) -> [u64; 8] {
    let mut sum = [0; 8];
    for counts in all {
        sum.iter_mut().zip(numbers(counts)).for_each(|(sum, one)| *sum += one);
    }
    sum
}

fn by_cpus(snapshot: &Snapshot) -> [u64; 8] {
    sum(snapshot.cpus.iter().map(|cpu| &cpu.counts))
}

fn by_tasks(snapshot: &Snapshot) -> [u64; 8] {
    sum(snapshot.tasks.iter().map(|task| &task.counts).chain([&snapshot.ended]))
}

/// Returns a snapshot of a moment at which no task runs or waits: two in a row say so, and are equal.
fn at_rest(runtime: &Runtime) -> Snapshot {
    let rests = |snapshot: &Snapshot| {
        let blocks = |state| state == TaskState::Blocked;
        snapshot.tasks.iter().all(|task| blocks(task.state))
            && snapshot.cpus.iter().all(|cpu| cpu.running.is_none())
    };
    let found = std::cell::RefCell::new(runtime.snapshot());
    until(|| {
        let next = runtime.snapshot();
        let before = found.replace(next);
        let now = found.borrow();
        rests(&before) && rests(&now) && by_cpus(&before) == by_cpus(&now)
    });
    found.into_inner()
}

fn named<'a>(snapshot: &'a Snapshot, name: &str) -> &'a runyard::TaskSnapshot {
    let is_it = |task: &&runyard::TaskSnapshot| task.name.as_deref() == Some(name);
    snapshot.tasks.iter().find(is_it).unwrap_or_else(|| panic!("there is a {name}:\n{snapshot}"))
}

/// Seen failing without the account of tasks that are over.
#[test]
fn what_the_cpus_did_is_what_the_tasks_did() {
    ends(|| {
        let runtime = workers(2);
        let group = runtime.group("web").create().unwrap();
        let inner = group.group("inner").create().unwrap();
        for round in 0..5 {
            runtime.block_on(async {
                let one = || async {
                    for _ in 0..50 {
                        yield_now().await;
                        spin(Duration::from_micros(20));
                    }
                };
                let tasks = (0..8).map(|nth| match nth % 3 {
                    0 => spawn(one()),
                    1 => Task::builder().group(&inner).nice(5).spawn(one()),
                    _ => Task::builder().fifo(7).spawn(one()),
                });
                for task in tasks.collect::<Vec<_>>() {
                    task.await.unwrap();
                }
            });
            drop(runtime.spawn(pending::<()>()));
            let snapshot = at_rest(&runtime);
            assert_eq!(by_cpus(&snapshot), by_tasks(&snapshot), "{snapshot}");
            assert_eq!(snapshot.tasks.len(), round + 1, "{snapshot}");
            let paths: Vec<_> = snapshot.groups.iter().map(|group| &*group.path).collect();
            assert_eq!(paths, ["/web", "/web/inner"]);
            let [above, below] = &snapshot.groups[..] else { unreachable!() };
            assert_eq!(above.counts, below.counts, "all is below");
            assert!(below.counts.switches >= 3 * (round as u64 + 1));
            assert_eq!(below.counts.run, inner.usage().used);
            assert!(below.counts.run > Duration::ZERO);
        }
        drop(inner);
        // The group is removed when the last of its tasks has been freed, for which a poll must have the time.
        until(|| {
            runtime.block_on(runtime.spawn(async {})).unwrap();
            runtime.snapshot().groups.len() == 1
        });
        let snapshot = runtime.snapshot();
        assert!(
            snapshot.groups[0].counts.switches >= 15,
            "totals of ended tasks are kept above their group"
        );
    });
}

#[test]
fn a_group_keeps_the_cpu_time_of_a_task_that_goes_to_another() {
    ends(|| {
        let runtime = workers(1);
        let [from, to] = ["from", "to"].map(|name| runtime.group(name).create().unwrap());
        let task = Task::builder().group(&from);
        let [task] = runtime.block_on(async {
            [task.spawn(async {
                spin(Duration::from_millis(2));
                pending::<()>().await;
            })]
        });
        let used = |snapshot: &Snapshot| [0, 1].map(|nth| snapshot.groups[nth].counts.run);
        until(|| used(&runtime.snapshot())[0] > Duration::ZERO);
        let before = used(&at_rest(&runtime));
        task.task().set_group(&to);
        let snapshot = at_rest(&runtime);
        assert_eq!([0, 1].map(|nth| snapshot.groups[nth].tasks), [0, 1]);
        assert_eq!(used(&snapshot), before);
        assert_eq!(before, [from.usage().used, Duration::ZERO]);
    });
}

/// Each live task is in each snapshot, exactly once, whatever happens meanwhile.
#[test]
fn every_task_is_there_while_they_run_move_and_block() {
    ends(|| {
        let runtime = Arc::new(Runtime::builder().workers(2).statistics(true).siege(7).build());
        let over = Arc::new(AtomicBool::new(false));
        let task = |nth: u32, over: Arc<AtomicBool>| async move {
            while !over.load(Ordering::Relaxed) {
                match nth % 4 {
                    0 => yield_now().await,
                    1 => time::sleep(Duration::from_micros(50)).await,
                    2 => spin(Duration::from_micros(300)),
                    _ => blocking(|| thread::sleep(Duration::from_micros(100))),
                }
                yield_now().await;
            }
        };
        let tasks: Vec<_> = (0..12).map(|nth| runtime.spawn(task(nth, over.clone()))).collect();
        let mut ids: Vec<_> = tasks.iter().map(|task| task.id()).collect();
        ids.sort();
        let mut before = [0; 8];
        for _ in 0..300 {
            let snapshot = runtime.snapshot();
            let found: Vec<_> = snapshot.tasks.iter().map(|task| task.id).collect();
            assert_eq!(found, ids);
            let now = by_cpus(&snapshot);
            let grows = before.iter().zip(&now).all(|(before, now)| before <= now);
            assert!(grows, "no number falls: {before:?}, {now:?}");
            before = now;
        }
        // A task can take one as well.
        let theirs = runtime.clone();
        let within = runtime.spawn(async move { theirs.snapshot().tasks.len() });
        assert_eq!(runtime.block_on(within).unwrap(), ids.len() + 1);
        over.store(true, Ordering::Relaxed);
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        let snapshot = at_rest(&runtime);
        assert_eq!(by_cpus(&snapshot), by_tasks(&snapshot), "{snapshot}");
        assert!(snapshot.tasks.is_empty(), "{snapshot}");
    });
}

#[test]
fn who_is_stopped_says_why_and_who_waits_says_since_when() {
    ends(|| {
        let runtime = workers(1);
        let (over, urgent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let spins = |until: &Arc<AtomicBool>| {
            let until = until.clone();
            async move {
                while !until.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let hog = Task::builder().name("hog").spawn_on(spins(&over), runtime.handle());
        until(|| named(&runtime.snapshot(), "hog").state == TaskState::Running);
        let alarm =
            Task::builder().name("alarm").fifo(9).spawn_on(spins(&urgent), runtime.handle());
        until(|| named(&runtime.snapshot(), "alarm").state == TaskState::Running);
        let snapshot = runtime.snapshot();
        let hog_then = named(&snapshot, "hog");
        assert_eq!(hog_then.state, TaskState::Stopped, "{snapshot}");
        assert!(hog_then.counts.preemptions.important >= 1, "{snapshot}");
        assert!(snapshot.stopped_threads >= 1, "{snapshot}");
        let wait = snapshot.oldest_wait.as_ref().expect("the hog waits");
        assert_eq!((wait.task, wait.name.as_deref()), (hog_then.id, Some("hog")));
        assert!(named(&runtime.snapshot(), "hog").waits > Some(wait.waits), "it waits on");
        assert!(snapshot.threads >= 2, "{snapshot}");
        urgent.store(true, Ordering::Relaxed);
        runtime.block_on(alarm).unwrap();
        until(|| named(&runtime.snapshot(), "hog").counts.wait >= wait.waits);
        over.store(true, Ordering::Relaxed);
        runtime.block_on(hog).unwrap();
    });
}

#[test]
fn turns_of_equals_are_counted_as_such() {
    ends(|| {
        let runtime = workers(1);
        let over = Arc::new(AtomicBool::new(false));
        let hogs = [(); 2].map(|()| {
            let over = over.clone();
            runtime.spawn(async move { while !over.load(Ordering::Relaxed) {} })
        });
        until(|| {
            let turns = |task: &runyard::TaskSnapshot| task.counts.preemptions.turn;
            runtime.snapshot().tasks.iter().all(|task| turns(task) >= 3)
        });
        over.store(true, Ordering::Relaxed);
        hogs.into_iter().for_each(|hog| runtime.block_on(hog).unwrap());
        let snapshot = at_rest(&runtime);
        assert!(snapshot.ended.preemptions.turn >= 6, "{snapshot}");
        assert_eq!(snapshot.ended.preemptions.important, 0, "{snapshot}");
        assert_eq!(snapshot.ended.migrations, 0, "there is one CPU");
    });
}

#[test]
fn a_task_that_blocks_in_the_kernel_is_there() {
    ends(|| {
        let runtime = workers(1);
        let (send, receive) = std::sync::mpsc::channel();
        let asleep = runtime.spawn(async move { blocking(|| receive.recv()) });
        until(|| runtime.snapshot().tasks[0].state == TaskState::InKernel);
        send.send(()).unwrap();
        runtime.block_on(asleep).unwrap().unwrap();
    });
}

/// Seen failing with columns of a fixed width.
#[test]
fn the_table_lines_up() {
    let runtime = workers(1);
    let group = runtime.group("a group\nof two lines").create().unwrap();
    runtime.block_on(async {
        drop(Task::builder().name("a name").group(&group).spawn(pending::<()>()));
        drop(Task::builder().name("lang-\u{e4}\u{f6}\u{fc}").fifo(99).spawn(pending::<()>()));
        yield_now().await;
    });
    let shown = at_rest(&runtime).to_string();
    let tables: Vec<_> = shown.split("\n\n").skip(1).collect();
    assert_eq!(tables.len(), 3, "CPUs, groups, tasks:\n{shown}");
    for table in tables {
        let lines: Vec<_> = table.lines().collect();
        let columns = lines[0].split_whitespace().count();
        for line in &lines {
            assert_eq!(line.chars().count(), lines[0].chars().count(), "{shown}");
            assert_eq!(line.split_whitespace().count(), columns, "{shown}");
        }
    }
    assert!(shown.contains("a_name") && shown.contains("/a_group_of_two_lines"), "{shown}");
}

/// Seen failing when statistics were always on.
#[test]
fn who_asks_for_no_statistics_knows_cpu_time_and_who_waits() {
    ends(|| {
        let runtime = common::workers(1);
        let over = Arc::new(AtomicBool::new(false));
        let hogs = [(); 2].map(|()| {
            let over = over.clone();
            runtime.spawn(async move { while !over.load(Ordering::Relaxed) {} })
        });
        let ran = |task: &runyard::TaskSnapshot| task.counts.run > Duration::ZERO;
        until(|| runtime.snapshot().tasks.iter().all(ran));
        let snapshot = runtime.snapshot();
        assert!(!snapshot.statistics && snapshot.oldest_wait.is_some(), "{snapshot}");
        over.store(true, Ordering::Relaxed);
        runtime.block_on(async {
            for hog in hogs {
                hog.await.unwrap();
            }
        });
        let snapshot = at_rest(&runtime);
        assert_eq!(by_cpus(&snapshot), by_tasks(&snapshot), "{snapshot}");
        assert_eq!(by_cpus(&snapshot)[1..], [0; 7], "{snapshot}");
    });
}
