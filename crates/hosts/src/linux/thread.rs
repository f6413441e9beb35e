//! Tasks as kernel threads.
//!
//! All threads that exist from the start are made and set up before the run begins. A gate then gives them the run's
//! beginning, a moment in the future, and each sleeps until its own start.

use super::call;
use super::cgroup::Tree;
use super::ground::Ground;
use super::kernel::{Counts, Figures, Outcome, apply};
use super::park::block_on;
use crate::clock::nanos;
use crate::play::{Asked, NewTask, Stage, World, play};
use crate::sync::{Arc, AtomicUsize, Changed, Mutex, OnceLock, Ordering, lock};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_workload::import::BEGINS;
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, gettid, sched_yield};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::future::{Future, ready};
use std::io::Write;
use std::thread::{self, JoinHandle};

/// The time from the opening of the gate to the beginning of the run: a part for the machine, and a part for each
/// thread that passes. A thread reads its counters then, which takes 0.5 ms on an emulated CPU.
const PREPARATION: Nanos = Nanos::from_millis(2);
const PASSAGE: Nanos = Nanos::from_micros(500);
/// The time between the naps of two threads before the beginning.
const APART: Nanos = Nanos::from_micros(200);

/// The file of the kernel's trace for notes of programs.
const TRACE_MARKER: &str = "/sys/kernel/tracing/trace_marker";

/// The stack of a task, which spins and sleeps and makes no deep calls.
const STACK_BYTES: usize = 256 << 10;

/// The areas of memory that a thread maps: two stacks, each with its guard. And a generous number for everything else.
const MAPS_OF_A_THREAD: usize = 4;
const OTHER_MAPS: usize = 1_024;

/// The longest thread name that the kernel keeps, in bytes.
const NAME_BYTES: usize = 15;

/// Runs `tasks`, the first tasks of `world`, to the end of the run, and returns its results.
pub(super) fn run(world: &Arc<World>, tasks: Vec<NewTask>, ground: Ground) -> Outcome {
    let crew = Crew {
        world: world.clone(),
        ground,
        begin: OnceLock::new(),
        gate: Mutex::new(0),
        arrival: Changed::default(),
        passage: Changed::default(),
        threads: Mutex::new(Vec::new()),
        alive: AtomicUsize::new(0),
        most: most_threads(),
    };
    let threads = Threads(Arc::new(crew));
    let nr_threads = tasks.len();
    let prepared = if world.scenario.calls_kernel() { call::prepare() } else { Ok(()) };
    match prepared.and_then(|()| tasks.into_iter().try_for_each(|task| threads.make(task, true))) {
        Ok(()) => threads.0.open(nr_threads),
        Err(why) => {
            // The existing threads pass the gate, to see that the run is over.
            world.refuse(why);
            threads.0.open(0);
        }
    }
    world.wait(|| threads.now());
    let figures = threads.0.join();
    let limits = threads.0.ground.groups.as_ref().map(Tree::stats);
    Outcome { end: world.ended(), figures, limits }
}

/// The host for tasks as kernel threads.
#[derive(Clone)]
struct Threads(Arc<Crew>);

struct Crew {
    world: Arc<World>,
    ground: Ground,
    /// The time of the kernel's clock at which the run begins.
    begin: OnceLock<Nanos>,
    /// The number of threads that are set up and wait for that time.
    gate: Mutex<usize>,
    arrival: Changed,
    passage: Changed,
    threads: Mutex<Vec<(TaskId, JoinHandle<Figures>)>>,
    /// The number of threads, and the largest allowed number.
    alive: AtomicUsize,
    most: usize,
}

impl Threads {
    /// Makes the thread of a task. An `early` thread waits at the gate.
    fn make(&self, new: NewTask, early: bool) -> Result<(), String> {
        let (threads, task, name) = (self.clone(), new.task, new.name.clone());
        if self.0.alive.fetch_add(1, Ordering::Relaxed) >= self.0.most {
            return Err(format!("{name}: the kernel maps no more than {} threads", self.0.most));
        }
        let thread = thread::Builder::new().name(thread_name(&name)).stack_size(STACK_BYTES);
        // No other thread joins this thread before it is in the list.
        let mut list = lock(&self.0.threads);
        let made = thread.spawn(move || threads.live(new, early));
        let made = made.map_err(|error| format!("{name}: the kernel makes no thread: {error}"))?;
        list.push((task, made));
        Ok(())
    }

    /// The life of a thread.
    fn live(&self, new: NewTask, early: bool) -> Figures {
        let (crew, world) = (&self.0, &self.0.world);
        if let Some(seat) = &new.seat {
            seat.thread.store(gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
        }
        if let Err(why) = apply(&new.asked, None, &crew.ground) {
            world.refuse(format!("{}: {why}", new.name));
        }
        let nth = if early { crew.pass_gate() } else { 0 };
        let counts = Counts::read();
        crew.nap(nth);
        let stats = block_on(play(self.clone(), world.clone(), new));
        crew.alive.fetch_sub(1, Ordering::Relaxed);
        counts.figures(stats)
    }
}

impl Stage for Threads {
    fn now(&self) -> Time {
        let begin = self.0.begin.get().copied().unwrap_or(Nanos::MAX);
        Time(now().saturating_sub(begin).0)
    }

    fn sleep_until(&self, at: Time, _: Nanos) -> impl Future<Output = ()> + Send {
        let begin = self.0.begin.get().copied().unwrap_or(Nanos::ZERO);
        // No other thread can wake this one. Where the run may be stopped, it has to check now and then.
        if let Some(nap) = self.0.world.nap() {
            while at.since(self.now()) > nap && !self.0.world.is_stopped() {
                sleep(begin + Nanos((self.now() + nap).0));
            }
        }
        if !self.0.world.is_stopped() {
            sleep(begin + Nanos(at.0));
        }
        ready(())
    }

    fn yield_now(&self) -> impl Future<Output = ()> + Send {
        sched_yield();
        ready(())
    }

    fn work_in_kernel(&self, span: Nanos) -> Option<Nanos> {
        call::work(span)
    }

    fn apply(&self, new: &Asked, old: &Asked) -> Result<(), String> {
        apply(new, Some(old), &self.0.ground)
    }

    fn start(&self, new: NewTask) -> Result<(), String> {
        self.make(new, false)
    }
}

impl Crew {
    /// Waits until `nr_threads` are at the gate, sets the beginning of the run, and lets them pass.
    fn open(&self, nr_threads: usize) {
        let mut here = lock(&self.gate);
        while *here < nr_threads {
            here = self.arrival.wait(here);
        }
        let passages = Nanos((PASSAGE.0 + APART.0) * nr_threads as u64);
        mark_begin(*self.begin.get_or_init(|| now() + PREPARATION + passages));
        drop(here);
        self.passage.tell_all();
    }

    /// Waits until the gate opens. Returns how many threads came before this one, itself included.
    fn pass_gate(&self) -> usize {
        let mut here = lock(&self.gate);
        *here += 1;
        let nth = *here;
        self.arrival.tell_all();
        while self.begin.get().is_none() {
            here = self.passage.wait(here);
        }
        nth
    }

    /// Sleeps until shortly before the beginning, at another moment than the other threads. A thread that sleeps alone
    /// keeps nothing of what its preparation took from others, or they from it: as in the simulator, it begins without
    /// a lag.
    fn nap(&self, nth: usize) {
        if let Some(begin) = self.begin.get() {
            sleep(begin.saturating_sub(Nanos(APART.0 * nth as u64)));
        }
    }

    /// Waits for all threads, including those that are forked meanwhile. Returns their figures, in the order of the
    /// tasks.
    fn join(&self) -> Vec<Figures> {
        let mut figures = Vec::new();
        while let Some((task, thread)) = { lock(&self.threads).pop() } {
            figures.resize_with(figures.len().max(task.index() + 1), Figures::default);
            match thread.join() {
                Ok(did) => figures[task.index()] = did,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        figures
    }
}

/// Notes in the kernel's trace when the run begins, by CLOCK_MONOTONIC in nanoseconds. What a recording has before that is the
/// preparation. Without a trace, or the right to write into it, there is no note.
fn mark_begin(at: Nanos) {
    let _ = std::fs::OpenOptions::new()
        .write(true)
        .open(TRACE_MARKER)
        .and_then(|mut marker| marker.write_all(format!("{BEGINS}{}", at.0).as_bytes()));
}

/// Sleeps until this time of the kernel's clock.
fn sleep(at: Nanos) {
    let at =
        Timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 };
    while clock_nanosleep_absolute(ClockId::Monotonic, &at) == Err(Errno::INTR) {}
}

fn now() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// The number of threads that this process may have. The standard library aborts if it cannot map a new thread's second
/// stack, the one for signals.
fn most_threads() -> usize {
    let maps = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let maps = maps.and_then(|maps| maps.trim().parse().ok());
    maps.map_or(usize::MAX, |maps: usize| maps.saturating_sub(OTHER_MAPS) / MAPS_OF_A_THREAD)
}

/// The part of a task's name that the kernel keeps.
fn thread_name(name: &str) -> String {
    let name: String = name.chars().filter(|&c| c != '\0').collect();
    let end = (0..=NAME_BYTES.min(name.len())).rfind(|&at| name.is_char_boundary(at));
    name[..end.unwrap_or(0)].to_owned()
}
