//! Workers that are preempted all the time are bound for the moment in which they wake, and some idle workers while
//! they sleep. Threads and programs that tasks start on them are not bound.

use crate::child::within;
use crate::common::{ms, spin};
use crate::leaks::{cpus, cpus_of_a_thread};
use runyard::{Runtime, Task, spawn, time, yield_now};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn bind(cpus: &[usize]) {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

fn cpus_of_a_program() -> String {
    let output = Command::new("cat").arg("/proc/self/status").output().unwrap();
    let status = String::from_utf8(output.stdout).unwrap();
    status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap().to_owned()
}

/// Preempts the task that runs here, again and again until `over`.
async fn preempt_all_the_time(over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        time::sleep(ms(1) / 4).await;
    }
}

fn among_preempted<T: Send + 'static>(look: impl Fn() -> T + Clone + Send + 'static) -> Vec<T> {
    let runtime = Runtime::builder().siege(7).build();
    runtime.block_on(async {
        let over = Arc::new(AtomicBool::new(false));
        let tickers = (0..2_u8)
            .map(|nth| Task::builder().fifo(10 + nth).spawn(preempt_all_the_time(over.clone())));
        let tickers: Vec<_> = tickers.collect();
        let tasks = (0..6).map(|_| {
            let look = look.clone();
            spawn(async move {
                let mut seen = Vec::new();
                for _ in 0..30 {
                    spin(ms(1));
                    seen.push(look());
                    yield_now().await;
                }
                seen
            })
        });
        let mut seen = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            seen.extend(task.await.unwrap());
        }
        over.store(true, Ordering::Relaxed);
        for ticker in tickers {
            ticker.await.unwrap();
        }
        seen
    })
}

/// Seen failing: a worker that stayed bound after it was steered left these with one CPU.
#[test]
fn what_is_started_on_workers_that_are_steered_has_all_cpus() {
    let name = "steered::what_is_started_on_workers_that_are_steered_has_all_cpus";
    within(ms(60_000), name, || {
        let elsewhere = cpus();
        for (own, of_a_thread) in among_preempted(|| (cpus(), cpus_of_a_thread())) {
            assert_eq!((&own, &of_a_thread), (&elsewhere, &elsewhere));
        }
        let elsewhere = cpus_of_a_program();
        for of_a_program in among_preempted(cpus_of_a_program) {
            assert_eq!(of_a_program, elsewhere);
        }
    });
}

/// A binding that foreign code sets for its own thread lasts as long as its poll. Seen failing: a worker that steered
/// such a thread unbound it.
#[test]
fn a_thread_that_foreign_code_has_bound_is_not_steered() {
    let name = "steered::a_thread_that_foreign_code_has_bound_is_not_steered";
    within(ms(60_000), name, || {
        let elsewhere = cpus();
        let nth = Arc::new(AtomicUsize::new(0));
        let is_kept = among_preempted(move || {
            let nth = nth.fetch_add(1, Ordering::Relaxed);
            if !nth.is_multiple_of(3) {
                // Other tasks are on other CPUs, and run meanwhile.
                spin(ms(3));
                return true;
            }
            let wanted = &[elsewhere[nth / 3 % elsewhere.len()]];
            bind(wanted);
            spin(ms(5));
            let is_kept = cpus() == wanted;
            bind(&elsewhere);
            is_kept
        });
        assert!(is_kept.into_iter().all(|is_kept| is_kept));
    });
}

/// Seen failing: an idle worker that stayed bound after it slept left these with one CPU.
#[test]
fn what_is_started_on_workers_that_slept_bound_has_all_cpus() {
    let name = "steered::what_is_started_on_workers_that_slept_bound_has_all_cpus";
    within(ms(60_000), name, || {
        let elsewhere = cpus();
        // Under siege all workers sleep bound.
        let runtime = Runtime::builder().siege(7).build();
        runtime.block_on(async {
            let sleepers = (0..4).map(|_| {
                spawn(async {
                    let mut seen = Vec::new();
                    for _ in 0..50 {
                        time::sleep(ms(1)).await;
                        seen.push((cpus(), cpus_of_a_thread()));
                    }
                    seen
                })
            });
            for sleeper in sleepers.collect::<Vec<_>>() {
                for (own, of_a_thread) in sleeper.await.unwrap() {
                    assert_eq!((&own, &of_a_thread), (&elsewhere, &elsewhere));
                }
            }
        });
    });
}
