//! One test for each hazard of stopping threads, with the numbers of the list in the design page on preemption. The
//! whole binary allocates through the runtime's allocator, which panics if the signal handler ever allocates.
//! `docs/design/preemption.md` lists the hazards.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, ms, signal_everybody, spin, threads, under_a_storm, until, workers};
use runyard::{
    Event, Left, Runtime, Task, TaskHandle, TaskState, What, blocking, spawn, spawn_blocking, time,
};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();

/// Starts a task that is more important than any fair one, and runs every millisecond until it is aborted. It stops any
/// task that runs on its CPU.
fn disturb(runtime: &Runtime) -> TaskHandle {
    let disturber = async {
        let mut interval = time::interval(ms(1));
        interval.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
        loop {
            interval.tick().await;
        }
    };
    runtime.block_on(async { Task::builder().fifo(99).spawn(disturber).task().clone() })
}

#[test]
fn h01_h02_the_handler_allocates_nothing_and_stops_whoever_allocates() {
    let runtime = workers(1);
    let disturber = disturb(&runtime);
    under_a_storm(|| {
        let lengths = runtime.block_on(async {
            let writers = (0..4_usize).map(|nth| {
                spawn(async move {
                    let end = Instant::now() + ms(100);
                    let mut length = 0;
                    while Instant::now() < end {
                        length = format!("{nth}: {:?}", vec![nth; 100]).len();
                        writeln!(std::io::sink(), "{length}").unwrap();
                    }
                    length
                })
            });
            let mut lengths = Vec::new();
            for writer in writers.collect::<Vec<_>>() {
                lengths.push(writer.await.unwrap());
            }
            lengths
        });
        assert_eq!(lengths, [303; 4]);
    });
    disturber.abort();
}

#[test]
fn h03_the_runtimes_own_code_is_never_stopped() {
    // There is one worker: a task that is stopped with a run queue's lock would block all others for ever.
    let runtime = workers(1);
    let disturber = disturb(&runtime);
    under_a_storm(|| {
        let ran = runtime.block_on(async {
            let ran = Arc::new(AtomicUsize::new(0));
            let busy = (0..4).map(|_| {
                let ran = ran.clone();
                spawn(async move {
                    for _ in 0..500 {
                        let ran = ran.clone();
                        let child = spawn(async move { ran.fetch_add(1, Ordering::Relaxed) });
                        time::sleep(std::time::Duration::from_micros(10)).await;
                        child.await.unwrap();
                    }
                })
            });
            for task in busy.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            ran.load(Ordering::Relaxed)
        });
        assert_eq!(ran, 2_000);
    });
    disturber.abort();
}

#[test]
fn h04_the_holder_of_a_lock_is_stopped_and_who_waits_for_it_gets_it() {
    // Both are real-time: the holder never has the CPU while the other task could.
    ends(|| workers(1).block_on(holder_and_waiter()));
}

async fn holder_and_waiter() {
    let shared = Arc::new(Mutex::new(0_u32));
    let held = Arc::new(AtomicBool::new(false));
    let (theirs, holds) = (shared.clone(), held.clone());
    let holder = Task::builder().fifo(1).spawn(async move {
        let mut value = theirs.lock().unwrap();
        holds.store(true, Ordering::Release);
        spin(ms(50));
        *value += 1;
    });
    while !held.load(Ordering::Acquire) {
        time::sleep(ms(1)).await;
    }
    // This task stops the holder, and blocks in the kernel on the holder's lock.
    let important = Task::builder().fifo(50).spawn(async move { *shared.lock().unwrap() });
    assert_eq!(important.await.unwrap(), 1);
    holder.await.unwrap();
}

#[test]
fn h05_who_panics_is_stopped_too() {
    let runtime = workers(1);
    let disturber = disturb(&runtime);
    runtime.block_on(async {
        let panics = (0..100).map(|nth| {
            spawn(async move {
                spin(std::time::Duration::from_micros(200));
                assert!(nth >= 1_000, "on purpose");
            })
        });
        for task in panics.collect::<Vec<_>>() {
            assert!(task.await.is_err_and(|error| error.is_panic()));
        }
    });
    disturber.abort();
}

#[test]
fn h06_system_calls_are_restarted() {
    let runtime = workers(1);
    let disturber = disturb(&runtime);
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let writer = thread::spawn(move || {
        for byte in 0..20_u8 {
            thread::sleep(ms(2));
            near.write_all(&[byte]).unwrap();
        }
        near
    });
    under_a_storm(|| {
        runtime.block_on(async {
            let reader = spawn_blocking(move || {
                let mut bytes = Vec::new();
                let mut byte = [0];
                for _ in 0..20 {
                    // The storm is not the runtime's: it also rings in sections that block.
                    assert_eq!(blocking(|| far.read(&mut byte)).unwrap(), 1);
                    bytes.push(byte[0]);
                }
                bytes
            });
            let sleeper = spawn_blocking(|| {
                let started = Instant::now();
                thread::sleep(ms(40));
                started.elapsed()
            });
            let waiter = spawn_blocking(|| {
                let (lock, condition) = (Mutex::new(()), Condvar::new());
                let started = Instant::now();
                let guard = lock.lock().unwrap();
                drop(condition.wait_timeout_while(guard, ms(40), |()| true));
                started.elapsed()
            });
            assert_eq!(reader.await.unwrap(), (0..20).collect::<Vec<_>>());
            assert!(sleeper.await.unwrap() >= ms(40));
            assert!(waiter.await.unwrap() >= ms(40));
        });
    });
    drop(writer.join().unwrap());
    disturber.abort();
}

/// Number of scheduling decisions, and of those about a stopped task.
#[derive(Debug, Default)]
struct Counts {
    preemptions: AtomicUsize,
    switches: AtomicUsize,
}

impl runyard::Observer for Counts {
    fn event(&self, event: &Event) {
        if let What::Switch { prev, .. } = event.what {
            self.switches.fetch_add(1, Ordering::Relaxed);
            if let Some((_, Left::Preempted)) = prev {
                self.preemptions.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn h07_h08_signals_that_mean_nothing_stop_nobody() {
    let counts = Arc::new(Counts::default());
    let runtime = Runtime::builder().workers(1).observer(counts.clone()).build();
    under_a_storm(|| {
        runtime.block_on(async { spawn(async { spin(ms(200)) }).await.unwrap() });
    });
    assert!(counts.switches.load(Ordering::Relaxed) > 0);
    // One task may arrive between the decision and the poll, and cause one more decision.
    assert!(counts.preemptions.load(Ordering::Relaxed) <= 1, "{counts:?}");
}

#[test]
fn h07_h08_whoever_waits_in_the_handler_waits_for_its_slot_only() {
    // Stopped threads receive signals all the time. Each spins through a value of its own.
    let runtime = workers(1);
    under_a_storm(|| {
        runtime.block_on(async {
            let hogs: Vec<_> = (0..8_u64)
                .map(|nth| {
                    spawn(async move {
                        let mut value = nth;
                        let end = Instant::now() + ms(150);
                        while Instant::now() < end {
                            value = value.wrapping_mul(3).wrapping_sub(2 * nth);
                        }
                        value
                    })
                })
                .collect();
            for (nth, hog) in (0..).zip(hogs) {
                assert_eq!(hog.await.unwrap(), nth);
            }
        });
    });
}

/// Returns the name of each thread and the signals that it blocks, by its number.
fn masks() -> BTreeMap<String, (String, u64)> {
    let read = |status: &String| {
        let field = |name| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim());
        let mask = u64::from_str_radix(field("SigBlk:")?, 16).ok()?;
        Some((field("Pid:")?.to_owned(), (field("Name:")?.to_owned(), mask)))
    };
    threads().iter().filter_map(read).collect()
}

/// Returns whether the signal mask of a thread is wrong: a thread that blocks signals of the process; or a keeper that
/// does not block one, or blocks its own faults.
fn is_wrong((name, mask): &(String, u64)) -> bool {
    let bit = |signal: Signal| 1_u64 << (signal.as_raw() - 1);
    let others = [Signal::TERM, Signal::INT, Signal::PROF, Signal::USR2, Signal::CHILD];
    let keeps = name == "runyard-keeper";
    let ours = mask & bit(Signal::URG) != 0;
    ours != keeps
        || mask & bit(Signal::SEGV) != 0
        || others.into_iter().any(|signal| (mask & bit(signal) != 0) != keeps)
}

#[test]
fn h09_workers_hear_what_the_process_hears_and_the_keeper_nothing() {
    let runtime = workers(1);
    // Two tasks take turns, so there are a worker, a stopped thread and spares.
    let begun = Arc::new(AtomicUsize::new(0));
    let hogs = runtime.block_on(async {
        [0, 1].map(|_| {
            let begun = begun.clone();
            spawn(async move {
                begun.fetch_add(1, Ordering::SeqCst);
                spin(ms(100));
            })
        })
    });
    until(|| begun.load(Ordering::SeqCst) == 2);
    assert!(threads().len() >= 2, "workers have threads");
    runtime.block_on(async {
        for hog in hogs {
            hog.await.unwrap();
        }
    });
    // The C library blocks all signals of a thread for a moment when the thread makes another one or ends, also in
    // threads of other tests. On a busy machine the moment is long. So only a thread that is wrong at every check is
    // wrong. No thread is stopped then, because the handler has its own mask.
    let started = Instant::now();
    let mut wrong = masks();
    while !wrong.is_empty() {
        assert!(started.elapsed() < ms(10_000), "wrong all the time: {wrong:x?}");
        thread::sleep(ms(20));
        let now = masks();
        wrong.retain(|thread, seen| {
            let still = now.get(thread).filter(|seen| is_wrong(seen));
            *seen = still.cloned().unwrap_or_default();
            still.is_some()
        });
    }
}

#[test]
fn h16_a_signal_that_somebody_else_handles_is_left_alone() {
    let rang = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, rang.clone()).unwrap();
    let runtime = Runtime::builder().workers(1).signal(signal_hook::consts::SIGUSR1).build();
    runtime.block_on(async {
        // Without preemption the important task waits for the poll to end, and everything works.
        let begun = Arc::new(AtomicBool::new(false));
        let tells = begun.clone();
        let hog = spawn(async move {
            tells.store(true, Ordering::SeqCst);
            spin(ms(50));
            Instant::now()
        });
        while !begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let important = Task::builder().fifo(50).spawn(async { Instant::now() });
        let (ended, ran) = (hog.await.unwrap(), important.await.unwrap());
        assert!(ran >= ended, "no task was stopped");
    });
    assert!(!rang.load(Ordering::Relaxed), "no thread was signalled");
}

#[test]
fn h17_threads_come_and_go_under_signals() {
    under_a_storm(|| {
        for _ in 0..30 {
            let runtime = workers(1);
            runtime.block_on(async {
                let hogs = [0, 1].map(|_| spawn(async { spin(ms(3)) }));
                Task::builder().fifo(9).spawn(async {}).await.unwrap();
                for hog in hogs {
                    hog.await.unwrap();
                }
            });
        }
    });
}

#[test]
fn h18_there_are_more_stopped_tasks_than_spares() {
    let runtime = workers(1);
    let done = runtime.block_on(async {
        let done = Arc::new(AtomicUsize::new(0));
        let hogs = (0..200).map(|_| {
            let done = done.clone();
            spawn(async move {
                spin(std::time::Duration::from_micros(1_500));
                done.fetch_add(1, Ordering::Relaxed);
            })
        });
        for hog in hogs.collect::<Vec<_>>() {
            hog.await.unwrap();
        }
        done.load(Ordering::Relaxed)
    });
    assert_eq!(done, 200);
}

#[test]
fn h20_a_stopped_task_keeps_its_thread() {
    workers(2).block_on(async {
        let hogs = (0..4).map(|_| {
            spawn(async {
                let thread = thread::current().id();
                let end = Instant::now() + ms(150);
                while Instant::now() < end {
                    assert_eq!(thread::current().id(), thread);
                }
            })
        });
        for hog in hogs.collect::<Vec<_>>() {
            hog.await.unwrap();
        }
    });
}

#[test]
fn h22_a_poll_that_blocks_in_the_kernel_gives_its_cpu_away() {
    ends(|| workers(1).block_on(reader_and_writer()));
}

async fn reader_and_writer() {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    // This task is more important, so it keeps its CPU as long as the runtime believes that it runs.
    let reader = Task::builder().fifo(9).spawn(async move { far.read(&mut [0]).unwrap() });
    // Only the other task lets it go on, and there is only one CPU.
    let writer = Task::builder().fifo(1).spawn(async move { near.write(&[7]).unwrap() });
    assert_eq!((reader.await.unwrap(), writer.await.unwrap()), (1, 1));
}

/// The task does not call the C library, so the place where it is stopped does not show that it blocks.
#[test]
fn h22_a_bare_system_call_that_blocks_gives_its_cpu_away() {
    let began = Instant::now();
    ends(|| {
        workers(1).block_on(async {
            let (near, far) = UnixStream::pair().unwrap();
            let reader = Task::builder()
                .fifo(9)
                .spawn(async move { rustix::io::read(far, &mut [0]).unwrap() });
            let writer = Task::builder()
                .fifo(1)
                .spawn(async move { rustix::io::write(near, &[7]).unwrap() });
            assert_eq!((reader.await.unwrap(), writer.await.unwrap()), (1, 1));
        });
    });
    // This takes about 8 ms. It took more than 10 s when each tick of the reader counted as running.
    assert!(began.elapsed() < ms(5_000), "{:?}", began.elapsed());
}

/// Here too the task does not call the C library, as in a static program. An interrupted wait is not running.
#[test]
fn h22_signals_that_mean_nothing_queue_nobody_who_waits_in_a_bare_system_call() {
    let runtime = Runtime::builder().workers(1).statistics(true).build();
    let (near, far) = UnixStream::pair().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let end = over.clone();
    let reads = async move { rustix::io::read(far, &mut [0]).unwrap() };
    let computes = async move {
        while !end.load(Ordering::Relaxed) {
            spin(ms(1));
        }
    };
    let [reader, _] = runtime.block_on(async {
        let reader = Task::builder().name("reader").spawn(reads);
        [reader.task().clone(), spawn(computes).task().clone()]
    });
    let state = || {
        let snapshot = runtime.snapshot();
        let found = snapshot.tasks.iter().find(|task| task.id == reader.id());
        found.map(|task| (task.state, task.counts.switches)).expect("it reads")
    };
    until(|| state().0 == TaskState::InKernel);
    let before = state().1;
    for _ in 0..100 {
        signal_everybody(nix::sys::signal::Signal::SIGURG);
        thread::sleep(ms(2));
    }
    let after = state().1;
    over.store(true, Ordering::Relaxed);
    rustix::io::write(near, &[7]).unwrap();
    assert!(after - before < 20, "it came to the CPU {before} and then {after} times");
}

#[test]
fn h22_a_blocking_section_gives_its_cpu_away_at_once() {
    workers(1).block_on(async {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let reader = spawn(async move {
            let read = blocking(|| far.read(&mut [0]).unwrap());
            spin(ms(5));
            read
        });
        let writer = spawn(async move { near.write(&[7]).unwrap() });
        assert_eq!((reader.await.unwrap(), writer.await.unwrap()), (1, 1));
        let panics = spawn(async { blocking(|| panic!("on purpose")) });
        assert!(panics.await.is_err_and(|error| error.is_panic()));
        spawn(async { spin(ms(3)) }).await.unwrap();
    });
}

#[test]
fn h22_who_blocks_may_wait_for_a_timer_of_its_own_runtime() {
    ends(|| {
        let runtime = Arc::new(workers(1));
        let inner = runtime.clone();
        let waiter = runtime.spawn(async move {
            blocking(|| inner.block_on(async { time::sleep(ms(5)).await }));
        });
        runtime.block_on(waiter).unwrap();
    });
}

#[test]
fn h22_each_of_many_blocking_sections_gives_its_cpu_away() {
    // Each task waits for the next one, on one CPU. None ends unless all give the CPU away.
    ends(|| {
        workers(1).block_on(async {
            let (mut first, mut next) = UnixStream::pair().unwrap();
            let mut tasks = Vec::new();
            for _ in 0..8 {
                let (from, to) = UnixStream::pair().unwrap();
                let (mut into, mut out) = (std::mem::replace(&mut next, to), from);
                tasks.push(spawn(async move {
                    let mut byte = [0];
                    blocking(|| into.read_exact(&mut byte)).unwrap();
                    out.write_all(&byte).unwrap();
                }));
            }
            let last = spawn(async move { blocking(|| next.read(&mut [0])).unwrap() });
            time::sleep(ms(5)).await;
            first.write_all(&[7]).unwrap();
            assert_eq!(last.await.unwrap(), 1);
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn h24_slices_end_though_every_cpu_is_busy() {
    // Each task computes, without an await, until it has seen the other make progress three times.
    const TIMES: usize = 3;
    const LONG: std::time::Duration = std::time::Duration::from_secs(60);
    let runtime = workers(1);
    runtime.block_on(async {
        let turns: [_; 2] = std::array::from_fn(|_| Arc::new(AtomicUsize::new(0)));
        let over = Arc::new(AtomicBool::new(false));
        let hogs = [0, 1].map(|nth| {
            let (own, other) = (turns[nth].clone(), turns[1 - nth].clone());
            let (over, began) = (over.clone(), Instant::now());
            spawn(async move {
                let (mut seen, mut times) = (0, 0);
                while times < TIMES && !over.load(Ordering::Relaxed) {
                    own.fetch_add(1, Ordering::Relaxed);
                    let now = other.load(Ordering::Relaxed);
                    times += usize::from(std::mem::replace(&mut seen, now) != now);
                    assert!(began.elapsed() < LONG, "the other went on {times} times");
                }
                over.store(true, Ordering::Relaxed);
            })
        });
        for hog in hogs {
            hog.await.unwrap();
        }
    });
}
