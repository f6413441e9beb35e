//! How late a task is says nothing of what its neighbour is doing: that computes in its own text, in the C library
//! or in the kernel (H-2).

use crate::child::within;
use crate::common::{ms, spin, workers};
use runyard::{Runtime, Task, spawn, time, yield_now};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the FIFO task wakes up in a try.
const WAKES: usize = 50;

/// How often it is tried, as others may have the machine for a while.
const TRIES: usize = 10;

/// How late it may be at the median, beside what it is late for a neighbour that spins: long beside what that is on
/// a busy machine (20 to 40 us), short beside what was seen of the neighbours here (0.4 to 15 ms).
const LATER: Duration = Duration::from_micros(250);

/// The median lateness of a FIFO task that sleeps for a millisecond again and again, on one worker, while a task
/// does `work` all the time.
fn lateness(mut work: impl FnMut() + Send + 'static) -> Duration {
    let over = Arc::new(AtomicBool::new(false));
    let stops = over.clone();
    workers(1).block_on(async move {
        let neighbour = spawn(async move {
            while !stops.load(Ordering::Relaxed) {
                let end = Instant::now() + ms(50);
                while Instant::now() < end {
                    (0..20).for_each(|_| work());
                }
                yield_now().await;
            }
        });
        let probe = async {
            let mut lateness = Vec::new();
            for _ in 0..WAKES {
                let until = Instant::now() + ms(1);
                time::sleep_until(until).await;
                lateness.push(until.elapsed());
            }
            lateness
        };
        let mut lateness = Task::builder()
            .fifo(90)
            .slack(Duration::from_nanos(1))
            .spawn(probe)
            .await
            .expect("the probe does not panic");
        over.store(true, Ordering::Relaxed);
        neighbour.await.expect("a neighbour does not panic");
        lateness.sort_unstable();
        lateness[WAKES / 2]
    })
}

/// Fails if a task is later beside each neighbour that `work` makes than beside one that spins.
fn is_prompt<W: FnMut() + Send + 'static>(name: &str, work: impl Fn() -> W) {
    let name = format!("neighbours::{name}");
    within(ms(60_000), &name, || {
        let is_prompt = |_| {
            let (plain, beside) = (lateness(|| spin(Duration::from_micros(50))), lateness(work()));
            eprintln!("late by {beside:?}, beside one that spins by {plain:?}");
            beside < plain + LATER
        };
        assert!((0..TRIES).any(is_prompt), "it is never prompt");
    });
}

fn copies(bytes: usize) -> impl FnMut() + Send {
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    move || black_box(&mut to).copy_from_slice(black_box(&from))
}

/// Seen failing where each thread in the C library got graces: late by 1 to 21 ms in ten tries.
#[test]
fn beside_one_that_copies_much() {
    is_prompt("beside_one_that_copies_much", || copies(32 << 20));
}

#[test]
fn beside_one_that_copies_little() {
    is_prompt("beside_one_that_copies_little", || copies(4 << 10));
}

#[test]
fn beside_one_that_reads() {
    is_prompt("beside_one_that_reads", || {
        let (mut zero, mut bytes) = (File::open("/dev/zero").unwrap(), [0; 4 << 10]);
        move || zero.read_exact(black_box(&mut bytes)).unwrap()
    });
}

/// Seen failing, as above: 0.3 to 2 ms.
#[test]
fn beside_one_that_writes() {
    is_prompt("beside_one_that_writes", || {
        let mut null = File::create("/dev/null").unwrap();
        move || null.write_all(black_box(&[1; 4 << 10])).unwrap()
    });
}

/// Seen failing, as above: 0.5 to 4 ms.
#[test]
fn beside_one_that_writes_a_file() {
    is_prompt("beside_one_that_writes_a_file", || {
        let path = std::env::temp_dir().join(format!("runyard-beside-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        move || file.write_all_at(black_box(&[1; 4 << 10]), 0).unwrap()
    });
}

#[test]
fn beside_one_that_stats() {
    is_prompt("beside_one_that_stats", || || assert!(!fs::metadata("/dev/null").unwrap().is_dir()));
}

#[test]
fn beside_one_that_prints() {
    is_prompt("beside_one_that_prints", || {
        let mut out = std::io::LineWriter::new(File::create("/dev/null").unwrap());
        move || writeln!(out, "{}: {:?}", black_box(7), "a line").unwrap()
    });
}

#[test]
fn beside_one_that_sorts_strings() {
    is_prompt("beside_one_that_sorts_strings", || {
        || {
            let mut names: Vec<_> =
                (0..1_000_u32).map(|n| (n * 7_919 % 1_009).to_string()).collect();
            names.sort();
            black_box(names);
        }
    });
}

#[test]
fn beside_one_that_faults_pages_in() {
    is_prompt("beside_one_that_faults_pages_in", || {
        || {
            let mut pages = vec![0_u8; 1 << 20];
            pages.iter_mut().step_by(4 << 10).for_each(|byte| *byte = black_box(1));
        }
    });
}

/// Who is in the allocator, or in the library's lists of names and streams, holds locks there. Stopped with one of
/// those, it would be in the way of all the others at each of these turns.
#[test]
fn many_in_the_library_do_not_wait_for_each_other() {
    let name = "neighbours::many_in_the_library_do_not_wait_for_each_other";
    within(ms(60_000), name, || {
        let runtime = Runtime::builder().workers(1).siege(7).build();
        runtime.block_on(async {
            let tasks = (0..8_usize).map(|nth| {
                spawn(async move {
                    let mut sum = 0;
                    for round in 0..200 {
                        let much = vec![nth as u8; 1 << 18];
                        let names: Vec<_> = (0..50).map(|n| format!("{n} {round}")).collect();
                        print!("{}", if names.len() > 50 { "never" } else { "" });
                        std::io::stdout().flush().unwrap();
                        sum += much.len() + names.len();
                        yield_now().await;
                    }
                    sum
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                assert_eq!(task.await.unwrap(), 200 * ((1 << 18) + 50));
            }
        });
    });
}
