//! Priorities and limits hold in sections that were announced as blocking but compute, and for threads that return from
//! a system call without a slot.
//!
//! Assertions are about CPU time by the threads' own clocks, which stand still while the machine has other work.

use crate::child::{run, within};
use crate::common::{Work, ms, workers};
use runyard::{Limit, Task, blocking, spawn, time, yield_now};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Seen failing: the end waited for ever, and said nothing.
#[test]
fn a_section_that_never_ends_is_told_by_its_task() {
    let name = "sections::a_section_that_never_ends_is_told_by_its_task";
    let end = run(ms(20_000), &[], name, || {
        let runtime = workers(2);
        let handle = runtime.handle().clone();
        let (begins, begun) = std::sync::mpsc::channel();
        let never_ends = async move {
            blocking(|| {
                begins.send(()).unwrap();
                handle.block_on(async {
                    loop {
                        yield_now().await;
                    }
                })
            })
        };
        runtime.block_on(async { drop(Task::builder().name("loops").spawn(never_ends)) });
        begun.recv().unwrap();
        std::thread::spawn(|| {
            std::thread::sleep(ms(2_500));
            std::process::exit(7);
        });
        drop(runtime);
    });
    let Some(end) = end else { return };
    assert_eq!(end.status.and_then(|status| status.code()), Some(7), "{}", end.said);
    assert!(end.said.contains("waited for a second for `loops`"), "{}", end.said);
}

/// Keeps the CPU for `span` of wall-clock time, mostly outside of the C library.
fn spin(span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        for step in 0..1_000 {
            std::hint::black_box(step);
        }
    }
}

/// The patterns of a section: how long it computes at a time, and how long it waits in between.
const SECTIONS: [(Duration, Duration); 4] = [
    (Duration::from_secs(3_600), Duration::ZERO),
    (Duration::from_millis(1), Duration::ZERO),
    (Duration::from_micros(300), Duration::from_micros(300)),
    (Duration::from_micros(50), Duration::from_micros(200)),
];

/// Seen failing: a section that spins had all of a CPU.
#[test]
fn a_group_has_its_limit_in_sections_that_block_too() {
    let name = "sections::a_group_has_its_limit_in_sections_that_block_too";
    within(ms(60_000), name, || {
        for (computes, waits) in SECTIONS {
            let work = Work::default();
            let runtime = workers(2);
            let limit = Limit::new(ms(10), ms(100));
            let group = runtime.group("tenant").limit(limit).create().unwrap();
            runtime.block_on(async {
                let began = Instant::now();
                let tasks: Vec<_> = (0..3)
                    .map(|_| {
                        let work = work.clone();
                        Task::builder().group(&group).spawn(async move {
                            while !work.is_over() {
                                blocking(|| {
                                    work.compute(computes);
                                    std::thread::sleep(waits);
                                });
                                yield_now().await;
                            }
                        })
                    })
                    .collect();
                time::sleep(ms(2_000)).await;
                let (used, passed) = (work.used(), began.elapsed());
                work.stop();
                group.set_limit(None).unwrap();
                for task in tasks {
                    task.await.unwrap();
                }
                // A quota for each period that has begun, and one for the time that each of three had used before it
                // was detected.
                let most = ms(10) * (passed.as_millis() / 100 + 2) as u32;
                assert!(used <= most, "{computes:?}, {waits:?}: {used:?} of {most:?}");
            });
        }
    });
}

/// Seen failing: the section had as much as the FIFO task.
#[test]
fn a_section_that_computes_takes_nothing_from_a_more_important_task() {
    let name = "sections::a_section_that_computes_takes_nothing_from_a_more_important_task";
    within(ms(60_000), name, || {
        for computes in [ms(3_600_000), ms(5), ms(1)] {
            let work = Work::default();
            workers(1).block_on(async {
                let compute = work.clone();
                let section = Task::builder().nice(19).spawn(async move {
                    while !compute.is_over() {
                        blocking(|| compute.compute(computes));
                    }
                });
                time::sleep(ms(20)).await;
                let before = work.used();
                let important = Task::builder().fifo(50).spawn(async { spin(ms(500)) });
                important.await.unwrap();
                let used = work.used() - before;
                work.stop();
                section.await.unwrap();
                assert!(used < ms(100), "{used:?} beside 500 ms of a FIFO task");
            });
        }
    });
}

/// Seen failing: each ran until the kernel's next tick, 2 ms on average.
#[test]
fn a_thread_that_comes_back_from_a_call_stops_soon() {
    const COME_BACK: usize = 40;
    let name = "sections::a_thread_that_comes_back_from_a_call_stops_soon";
    within(ms(60_000), name, || {
        let work = Work::default();
        workers(1).block_on(async {
            let (mut near, mut tasks) = (Vec::new(), Vec::new());
            for _ in 0..COME_BACK {
                let (here, mut there) = UnixStream::pair().unwrap();
                near.push(here);
                let work = work.clone();
                tasks.push(spawn(async move {
                    there.read_exact(&mut [0]).unwrap();
                    work.compute(ms(20));
                }));
            }
            // All have begun to wait, and have lost their slot to the next.
            spawn(async {}).await.unwrap();
            let writer = std::thread::spawn(move || {
                for mut here in near {
                    std::thread::sleep(ms(10));
                    here.write_all(&[7]).unwrap();
                }
            });
            let used = work.clone();
            let important = Task::builder().fifo(50).spawn(async move {
                while !writer.is_finished() {
                    spin(ms(1));
                }
                used.used()
            });
            let used = important.await.unwrap();
            work.stop();
            for task in tasks {
                task.await.unwrap();
            }
            assert!(used < COME_BACK as u32 * ms(1), "{used:?} by {COME_BACK}");
        });
    });
}
