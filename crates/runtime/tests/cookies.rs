//! Core scheduling on real CPUs and threads. Two workers count as the hardware threads of one core, whatever machine
//! the test runs on.
//!
//! The allocator of this program aborts it if the runtime's own code calls it.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Flag, ends, ms, until};
use nix::time::ClockId;
use runyard::{
    Builder, Cookie, Event, JoinHandle, JoinSet, NoCookies, Observer, Runtime, Task, TaskBuilder,
    What, blocking, spawn, spawn_blocking, time, yield_now,
};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

fn cookie(number: u32) -> Option<Cookie> {
    Cookie::new(number)
}

/// Returns a runtime with a core of two threads; `None` if the process has one CPU, or may not bind threads.
fn core_of(builder: Builder) -> Option<Runtime> {
    with_names(builder.thread_name("core"))
}

/// Returns the same runtime, with threads that have the names of their CPUs.
fn with_names(builder: Builder) -> Option<Runtime> {
    let runtime = builder.workers(2).pin_workers(true).cookies(true).declare_cores(2).build();
    let keeps = runtime.keeps_cookies();
    if let Err(why) = keeps {
        assert!([NoCookies::UnevenCores, NoCookies::NotPinned].contains(&why), "{why}");
        eprintln!("nothing is tested: {why}");
    }
    keeps.is_ok().then_some(runtime)
}

fn core() -> Option<Runtime> {
    core_of(Runtime::builder())
}

/// Returns a builder for a task on one of the two CPUs.
fn on(cpu: usize, number: u32) -> TaskBuilder {
    Task::builder().affinity([cpu]).cookie(cookie(number))
}

#[test]
fn a_runtime_says_why_it_keeps_no_cookies() {
    let why = |builder: Builder| builder.workers(1).build().keeps_cookies();
    assert_eq!(why(Runtime::builder().pin_workers(true)), Err(NoCookies::NotAsked));
    assert_eq!(why(Runtime::builder().cookies(true)), Err(NoCookies::NotPinned));
    // For a single worker, the kernel reports no shared core.
    let alone = why(Runtime::builder().cookies(true).pin_workers(true)).unwrap_err();
    let expected = [NoCookies::NoSharedCore, NoCookies::NotPinned, NoCookies::Unknown];
    assert!(expected.contains(&alone), "{alone}");
}

/// Counts the polls that overlap with a poll of another cookie.
#[derive(Default)]
struct Polls {
    /// Number of tasks in the middle of a poll, by cookie.
    now: [AtomicUsize; 2],
    done: [AtomicUsize; 2],
    overlaps: AtomicUsize,
}

impl Polls {
    fn are_done(&self, many: usize) -> bool {
        self.done.iter().all(|done| done.load(Ordering::SeqCst) >= many)
    }

    fn poll(&self, own: usize) {
        self.now[own].fetch_add(1, Ordering::SeqCst);
        for _ in 0..2_000 {
            let other = self.now[1 - own].load(Ordering::SeqCst);
            self.overlaps.fetch_add(other, Ordering::SeqCst);
        }
        self.now[own].fetch_sub(1, Ordering::SeqCst);
        self.done[own].fetch_add(1, Ordering::SeqCst);
    }
}

/// Without preemption a poll never makes way in the middle. So nothing overlaps once both tasks are there: a task that
/// is forced idle begins when the other task's poll is over.
#[test]
fn polls_of_two_cookies_never_overlap_where_tasks_yield() {
    ends(|| {
        let Some(runtime) = core_of(Runtime::builder().preempt(false)) else { return };
        let polls = Arc::new(Polls::default());
        runtime.block_on(async {
            let tasks = [0, 1].map(|own| {
                let polls = polls.clone();
                on(own, own as u32 + 1).spawn(async move {
                    while !polls.are_done(20) {
                        polls.poll(own);
                        yield_now().await;
                    }
                    // Both tasks are there now. The end of the first causes no overlap.
                    let before = polls.overlaps.load(Ordering::SeqCst);
                    while !polls.are_done(2_000) {
                        polls.poll(own);
                        yield_now().await;
                    }
                    polls.overlaps.load(Ordering::SeqCst) - before
                })
            });
            for task in tasks {
                assert_eq!(task.await.unwrap(), 0, "polls overlap");
            }
        });
    });
}

/// Number of checks by each of two tasks, which take it about ten slices.
const LOOKS: usize = 100_000;

/// Runs two tasks that compute in one poll each. Returns how often one of them found that the other one checked last,
/// and the number of checks.
fn alternations(runtime: &Runtime, numbers: [u32; 2]) -> (usize, usize) {
    let (last, found) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let looks = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let tasks = [0, 1].map(|own| {
        let (last, found, looks) = (last.clone(), found.clone(), looks.clone());
        on(own, numbers[own]).spawn_on(
            // The loop does not call the C library, in which a task has grace periods.
            async move {
                while looks.iter().any(|looks| looks.load(Ordering::Relaxed) < LOOKS) {
                    if last.swap(own, Ordering::Relaxed) != own {
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                    looks[own].fetch_add(1, Ordering::Relaxed);
                    // Otherwise one task has the cache line for many checks at a time.
                    (0..1_000).for_each(|step| _ = black_box(step));
                }
            },
            runtime.handle(),
        )
    });
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    let looks = looks.iter().map(|looks| looks.load(Ordering::Relaxed)).sum();
    (found.load(Ordering::Relaxed), looks)
}

#[test]
fn two_cookies_that_compute_take_turns() {
    ends(|| {
        let Some(runtime) = core() else { return };
        let (found, looks) = alternations(&runtime, [1, 2]);
        eprintln!("{found} of {looks} looks found the other beside");
        assert!(found > 2, "both computed");
        assert!(found < looks / 20, "{found} of {looks} looks found the other beside");
    });
}

/// Two polls that wait for each other end only if they are polled at the same time.
#[test]
fn tasks_of_one_cookie_run_side_by_side() {
    ends(|| {
        let Some(runtime) = core_of(Runtime::builder().preempt(false)) else { return };
        for number in [0, 1] {
            let here = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let tasks = [0, 1].map(|own| {
                let here = here.clone();
                on(own, number).spawn_on(
                    async move {
                        here[own].store(true, Ordering::SeqCst);
                        while !here[1 - own].load(Ordering::SeqCst) {
                            spin_loop();
                        }
                    },
                    runtime.handle(),
                )
            });
            runtime.block_on(async {
                for task in tasks {
                    task.await.unwrap();
                }
            });
        }
    });
}

/// The time of each second that real-time tasks of a CPU have. The hog is the only one of its runtime.
const RT_BUDGET: Duration = ms(950);

/// A real-time task that computes on CPU 0 in one poll, until it is told to end. It calls nothing: while other tasks
/// have its CPU, the runtime would take it for a task that waits in a system call, and it would lose the core.
struct Hog {
    begun: Instant,
    over: Flag,
    ended: Flag,
    task: JoinHandle<()>,
    rounds: Arc<AtomicUsize>,
    thread: i32,
    /// How often the thread had slept in the kernel when the task had begun.
    slept: u64,
}

impl Hog {
    fn start(runtime: &Runtime, number: u32) -> Hog {
        let (begun, over, ended) = (Instant::now(), Flag::default(), Flag::default());
        let rounds = Arc::new(AtomicUsize::new(0));
        let (ends, has_ended, counts) = (over.clone(), ended.clone(), rounds.clone());
        let (tell, thread) = channel();
        let computes = async move {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            while !ends.is_set() {
                (0..1_000).for_each(|step| _ = black_box(step));
                counts.fetch_add(1, Ordering::SeqCst);
            }
            has_ended.set();
        };
        let task = on(0, number).fifo(50).spawn_on(computes, runtime.handle());
        let thread = thread.recv().unwrap();
        let mut hog = Hog { begun, over, ended, task, rounds, thread, slept: 0 };
        hog.goes_on();
        hog.slept = hog.slept();
        hog
    }

    /// Waits until it has computed for some more milliseconds.
    fn goes_on(&self) {
        let rounds = self.rounds.load(Ordering::SeqCst) + 20_000;
        until(|| self.rounds.load(Ordering::SeqCst) >= rounds);
    }

    /// Returns how often the thread has slept in the kernel, for example for a page of the program.
    fn slept(&self) -> u64 {
        let status = format!("/proc/self/task/{}/status", self.thread);
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    /// Asserts that a task of another cookie was not polled beside it. A task that sleeps in the kernel makes way. Where
    /// a busy machine has taken so long that real-time tasks may have been throttled since, the task may have been polled
    /// then.
    fn assert_kept_off(&self, polled: bool) {
        let excused = || self.slept() > self.slept || self.begun.elapsed() >= RT_BUDGET;
        assert!(!polled || excused(), "it was polled beside the hog");
    }

    fn stop(self, runtime: &Runtime) {
        self.over.set();
        runtime.block_on(self.task).unwrap();
    }
}

/// Returns the CPU time of all threads of one CPU of the runtime.
fn used_by_threads_of(cpu: usize) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = format!("runyard-{cpu}");
    let named = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let ours = tasks.filter(|task| named(&task.path()));
    let tids = ours.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    tids.filter_map(|tid| ClockId::from_raw(!tid << 3 | 6).now().ok()).map(Duration::from).sum()
}

/// The threads of the other tests have other names.
#[test]
fn a_worker_that_is_forced_idle_sleeps() {
    ends(|| {
        let Some(runtime) = with_names(Runtime::builder()) else { return };
        let hog = Hog::start(&runtime, 1);
        let waits = on(1, 2).spawn_on(async {}, runtime.handle());
        let before = [0, 1].map(used_by_threads_of);
        let used = |cpu: usize| used_by_threads_of(cpu) - before[cpu];
        until(|| used(0) > ms(300));
        let (ran, spent) = (used(0), used(1));
        hog.assert_kept_off(waits.is_finished());
        assert!(
            hog.begun.elapsed() >= RT_BUDGET || spent < ran / 10,
            "{spent:?} while the core ran for {ran:?}"
        );
        eprintln!("{spent:?} of {ran:?}");
        hog.stop(&runtime);
        runtime.block_on(waits).unwrap();
    });
}

/// Counts the events in which a CPU is forced idle.
#[derive(Debug, Default)]
struct Forced(Mutex<Vec<(usize, Option<u32>)>>);

impl Observer for Forced {
    fn event(&self, event: &Event) {
        if let What::ForcedIdle { cookie } = event.what {
            self.0.lock().unwrap().push((event.cpu.index(), cookie.map(Cookie::get)));
        }
    }
}

#[test]
fn a_task_waits_while_the_core_runs_another_cookie() {
    ends(|| {
        let observer = Arc::new(Forced::default());
        let Some(runtime) = core_of(Runtime::builder().observer(observer.clone())) else { return };
        let hog = Hog::start(&runtime, 1);
        let (ended, begun) = (hog.ended.clone(), hog.begun);
        let after_hog = async move { ended.is_set() || begun.elapsed() >= RT_BUDGET };
        let waits = on(1, 2).spawn_on(after_hog, runtime.handle());
        hog.goes_on();
        hog.assert_kept_off(waits.is_finished());
        hog.stop(&runtime);
        assert!(runtime.block_on(waits).unwrap(), "it was polled beside the hog");
        // The observer is called some time after an event.
        until(|| observer.0.lock().unwrap().contains(&(1, Some(1))));
    });
}

#[test]
fn a_task_whose_cookie_is_changed_runs_beside_the_core() {
    ends(|| {
        for by_group in [false, true] {
            let Some(runtime) = core() else { return };
            let tenant = runtime.group("tenant").cookie(cookie(1)).create().unwrap();
            let hog = Hog::start(&runtime, 1);
            let polled = Flag::default();
            let sets = polled.clone();
            let waits = on(1, if by_group { 0 } else { 2 });
            let waits = waits.spawn_on(async move { sets.set() }, runtime.handle());
            hog.goes_on();
            hog.assert_kept_off(polled.is_set());
            match by_group {
                true => waits.task().set_group(&tenant),
                false => waits.task().set_cookie(cookie(1)),
            }
            polled.wait();
            assert!(!hog.ended.is_set());
            hog.stop(&runtime);
            runtime.block_on(waits).unwrap();
        }
    });
}

/// A task that blocks in the kernel with its slot is detected, and makes way.
#[test]
fn a_task_that_blocks_unseen_makes_way_for_another_cookie() {
    ends(|| {
        let Some(runtime) = core() else { return };
        let begun = Flag::default();
        let begins = begun.clone();
        let (send, receive) = channel();
        let sleeps = async move {
            begins.set();
            receive.recv().unwrap();
        };
        let sleeper = on(0, 1).fifo(50).spawn_on(sleeps, runtime.handle());
        begun.wait();
        let other = on(1, 2).spawn_on(async {}, runtime.handle());
        runtime.block_on(other).unwrap();
        send.send(()).unwrap();
        runtime.block_on(sleeper).unwrap();
    });
}

/// Tasks of five cookies and two groups yield, wait for time, for each other, and for outside threads in `blocking`,
/// and change their attributes. There are more of them than there is room for at the start.
#[test]
fn nothing_is_lost_where_everybody_has_a_cookie() {
    for preempts in [true, false] {
        ends(move || {
            let Some(runtime) = core_of(Runtime::builder().preempt(preempts)) else { return };
            let group =
                |name: &str, number| runtime.group(name).cookie(cookie(number)).create().unwrap();
            let groups = [group("a", 6), group("b", 0)];
            let done = Arc::new(AtomicU32::new(0));
            let counted = done.clone();
            runtime.block_on(async move {
                let mut set = JoinSet::new();
                for nth in 0..3_000_u32 {
                    let (done, groups) = (counted.clone(), groups.clone());
                    let builder = Task::builder().cookie(cookie(nth % 5)).nice((nth % 7) as i8);
                    let builder = match nth % 3 {
                        0 => builder,
                        nth => builder.group(&groups[nth as usize - 1]),
                    };
                    let builder = if nth % 50 == 7 { builder.fifo(9) } else { builder };
                    set.add(builder.spawn(async move {
                        lives(nth, &groups).await;
                        done.fetch_add(1, Ordering::SeqCst);
                    }));
                }
                while let Some(ended) = set.join_next().await {
                    ended.unwrap();
                }
            });
            assert_eq!(done.load(Ordering::SeqCst), 3_000);
        });
    }
}

async fn lives(nth: u32, groups: &[runyard::Group; 2]) {
    for step in 0..8 {
        match (nth + step) % 8 {
            0 => time::sleep(ms(1)).await,
            1 if nth.is_multiple_of(40) => blocking(|| thread::sleep(ms(1))),
            2 => {
                let (send, mut receive) = mpsc::channel(1);
                let child = spawn(async move { send.send(7).await });
                assert_eq!(receive.recv().await, Some(7));
                child.await.unwrap().unwrap();
            }
            3 if nth.is_multiple_of(100) => {
                let (send, receive) = oneshot::channel();
                let outside = thread::spawn(move || send.send(()));
                receive.await.unwrap();
                outside.join().unwrap().unwrap();
            }
            4 => Task::current().set_cookie(cookie((nth + step) % 4)),
            5 => Task::current().set_group(groups.get(nth as usize % 3)),
            6 if nth.is_multiple_of(64) => spawn_blocking(|| common::spin(ms(2))).await.unwrap(),
            7 if nth.is_multiple_of(10) => common::spin(Duration::from_micros(300)),
            _ => yield_now().await,
        }
    }
}
