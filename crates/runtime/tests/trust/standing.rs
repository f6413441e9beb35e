//! If the kernel does not run a worker, other workers take the tasks that wait for it.
//!
//! The worker of CPU 0 is bound to its CPU of the machine, and has the lowest importance for the kernel there, beside
//! threads that spin. So it runs at most now and then. Each test checks on which CPU of the machine tasks ran.

use crate::child::within;
use crate::common::{ms, until};
use nix::time::ClockId;
use runyard::{JoinHandle, Runtime, Task, TaskBuilder};
use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;

/// Number of threads that spin on the CPU.
const SPINNERS: usize = 3;
/// Number of tasks.
const TASKS: usize = 10;
/// Number of tasks that the other worker must run. The worker that mostly stands still may run some itself.
const MOST: usize = TASKS / 2;
/// The time of the spinning threads after which the worker beside them stands still.
const STANDS_STILL: Duration = ms(5);
/// The lowest importance that an ordinary thread can have for the kernel.
const LEAST: i32 = 19;

/// Returns the numbers of the threads that are named after CPU 0.
fn threads_of_cpu_0() -> impl Iterator<Item = Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "runyard-0")
    };
    let ours = tasks.filter(move |task| named(&task.path()));
    ours.filter_map(|task| Pid::from_raw(task.file_name().to_str()?.parse().ok()?))
}

/// Threads that spin.
struct Crowd {
    over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
    numbers: Vec<Pid>,
}

impl Crowd {
    /// Returns the CPU time that they have used.
    fn used(&self) -> Duration {
        used(self.numbers.iter().copied())
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Makes threads spin where the worker of CPU 0 is bound, from now on until the end. The worker is less important than
/// they are. Seen failing without the wait for the last of them: ten tasks were over before the first thread spun.
fn crowd() -> Crowd {
    let bound = threads_of_cpu_0().map(|thread| {
        setpriority_process(Some(thread), LEAST).expect("any thread may lower its own importance");
        sched_getaffinity(Some(thread)).expect("it lives")
    });
    let bound = bound.last().expect("there are workers");
    assert_eq!(bound.count(), 1, "the workers are pinned");
    let (over, (tell, told)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let spins = |stop: Arc<AtomicBool>, tell: mpsc::Sender<Pid>, bound: CpuSet| {
        move || {
            sched_setaffinity(Some(gettid()), &bound).expect("a worker is there, too");
            tell.send(gettid()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
    };
    let spawn = |_| thread::spawn(spins(over.clone(), tell.clone(), bound));
    let threads = (0..SPINNERS).map(spawn).collect();
    Crowd { over, threads, numbers: told.iter().take(SPINNERS).collect() }
}

/// Returns the CPU time that these threads have used.
fn used(threads: impl Iterator<Item = Pid>) -> Duration {
    // The clock of a thread, as the kernel numbers them.
    let clock = |thread: Pid| ClockId::from_raw(!thread.as_raw_nonzero().get() << 3 | 6);
    threads.map(|thread| Duration::from(clock(thread).now().unwrap())).sum()
}

fn pinned() -> Option<Runtime> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    (cpus > 1).then(|| Runtime::builder().workers(2).pin_workers(true).build())
}

fn spawn_on_0<F>(runtime: &Runtime, builder: TaskBuilder, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let (task,) = runtime.block_on(async { (builder.affinity([0]).spawn(future),) });
    task
}

/// Runs tasks that each wait on CPU 0 for a message, and report where they received it. The messages are sent one by
/// one.
///
/// The kernel owes a thread that had less than its share up to two slices, and runs it at once as long as it does,
/// whatever its importance. Then the worker of CPU 0 does not stand still, and a task that runs there tells nothing. Seen
/// failing when such tasks counted, beside other work: 0 of 10 ran elsewhere, since the worker was owed 6 ms.
fn sleepers(builder: fn() -> TaskBuilder) {
    let Some(runtime) = pinned() else { return };
    let waiting = Arc::new(AtomicUsize::new(0));
    let first = runtime.block_on(async {
        Task::builder().affinity([0]).spawn(async { sched_getcpu() }).await.unwrap()
    });
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (word, heard) = oneshot::channel();
            let waits = waiting.clone();
            let waits = async move {
                waits.fetch_add(1, Ordering::SeqCst);
                heard.await.unwrap();
                sched_getcpu()
            };
            (word, spawn_on_0(&runtime, builder(), waits))
        })
        .collect();
    until(|| waiting.load(Ordering::SeqCst) == TASKS);
    tasks.iter().for_each(|(_, task)| task.task().set_affinity([0, 1]));
    let crowd = crowd();
    let mut judged = Vec::new();
    for (word, task) in tasks {
        let before = crowd.used();
        word.send(()).unwrap();
        let is_elsewhere = runtime.block_on(task).unwrap() != first;
        if is_elsewhere || crowd.used() - before > STANDS_STILL {
            judged.push(is_elsewhere);
        }
    }
    crowd.end();
    let (ran, all) = (judged.iter().filter(|&&it| it).count(), judged.len());
    assert!(2 * ran >= all, "{ran} of {all} ran elsewhere");
}

/// Seen failing: 0 of 10, because the woken worker did not run.
#[test]
fn who_is_woken_where_nobody_runs_runs_elsewhere() {
    within(ms(60_000), "standing::who_is_woken_where_nobody_runs_runs_elsewhere", || {
        sleepers(Task::builder);
    });
}

/// Seen failing: 1 of 10.
#[test]
fn a_real_time_task_that_is_woken_where_nobody_runs_runs_elsewhere() {
    let name = "standing::a_real_time_task_that_is_woken_where_nobody_runs_runs_elsewhere";
    within(ms(60_000), name, || sleepers(|| Task::builder().fifo(50)));
}

/// Other tasks wait behind one in the middle of its poll. They run elsewhere before any thread of that CPU has run.
/// Seen failing: 0 of 10.
#[test]
fn who_waits_behind_a_task_that_stands_still_runs_elsewhere() {
    let name = "standing::who_waits_behind_a_task_that_stands_still_runs_elsewhere";
    within(ms(60_000), name, || {
        let Some(runtime) = pinned() else { return };
        let (over, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stop, begins) = (over.clone(), begun.clone());
        let hog = async move {
            begins.store(1 + sched_getcpu(), Ordering::SeqCst);
            while !stop.load(Ordering::Relaxed) {
                spin_loop();
            }
        };
        let hog = spawn_on_0(&runtime, Task::builder(), hog);
        until(|| begun.load(Ordering::SeqCst) > 0);
        let first = begun.load(Ordering::SeqCst) - 1;
        // All spares exist by then, so no thread of that name starts later.
        thread::sleep(ms(10));
        let crowd = crowd();
        let answers_elsewhere = || {
            let before = used(threads_of_cpu_0());
            let task = spawn_on_0(&runtime, Task::builder(), async { sched_getcpu() });
            task.task().set_affinity([0, 1]);
            runtime.block_on(task).unwrap() != first && used(threads_of_cpu_0()) == before
        };
        let ran = (0..TASKS).filter(|_| answers_elsewhere()).count();
        over.store(true, Ordering::Relaxed);
        crowd.end();
        runtime.block_on(hog).unwrap();
        assert!(ran >= MOST, "{ran} of {TASKS} ran elsewhere");
    });
}
