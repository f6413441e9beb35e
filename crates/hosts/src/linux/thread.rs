//! Tasks as kernel threads.
//!
//! All threads that exist from the start are made and set up before the run begins; a gate then
//! says when that is, a moment later, and each sleeps until its own start.

use super::cgroup::Tree;
use super::ground::Ground;
use super::kernel::{Counts, Figures, Outcome, apply};
use crate::clock::nanos;
use crate::play::{Asked, NewTask, Stage, World, play};
use crate::sync::{Arc, AtomicUsize, Changed, Mutex, OnceLock, Ordering, lock};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, gettid, sched_yield};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

/// How long after the gate has opened the run begins: for the machine, and for each thread that
/// has to pass.
const PREPARATION: Nanos = Nanos::from_millis(2);
const PASSAGE: Nanos = Nanos::from_micros(20);

/// The stack of a task, which spins and sleeps and calls nothing deep.
const STACK_BYTES: usize = 256 << 10;

/// How many areas of memory a thread maps: two stacks, each with its guard. And what there is
/// besides, generously.
const MAPS_OF_A_THREAD: usize = 4;
const OTHER_MAPS: usize = 1_024;

/// The longest name of a thread that the kernel keeps.
const NAME_BYTES: usize = 15;

/// Runs `tasks`, with which `world` begins, to the end of the run. What became of it.
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
    match tasks.into_iter().try_for_each(|task| threads.make(task, true)) {
        Ok(()) => threads.0.open(nr_threads),
        Err(why) => {
            // Those who are there pass, to see that all is over.
            world.refuse(why);
            threads.0.open(0);
        }
    }
    world.wait(|| threads.now());
    let figures = threads.0.join();
    let limits = threads.0.ground.groups.as_ref().map(Tree::stats);
    Outcome { end: world.ended(), figures, limits }
}

/// Kernel threads as the host of tasks.
#[derive(Clone)]
struct Threads(Arc<Crew>);

struct Crew {
    world: Arc<World>,
    ground: Ground,
    /// The time of the kernel's clock at which the run begins.
    begin: OnceLock<Nanos>,
    /// How many threads are set up and wait for that to be said.
    gate: Mutex<usize>,
    arrival: Changed,
    passage: Changed,
    threads: Mutex<Vec<(TaskId, JoinHandle<Figures>)>>,
    /// How many threads there are, and how many there may be.
    alive: AtomicUsize,
    most: usize,
}

impl Threads {
    /// Makes the thread of a task. `early` ones wait at the gate.
    fn make(&self, new: NewTask, early: bool) -> Result<(), String> {
        let (threads, task, name) = (self.clone(), new.task, new.name.clone());
        if self.0.alive.fetch_add(1, Ordering::Relaxed) >= self.0.most {
            return Err(format!("{name}: the kernel maps no more than {} threads", self.0.most));
        }
        let thread = thread::Builder::new().name(thread_name(&name)).stack_size(STACK_BYTES);
        // No other thread joins it before it is in the list.
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
        if early {
            crew.pass_gate();
        }
        let counts = Counts::read();
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
        // No other thread can wake it: where the run may be stopped, it has to look itself now and then.
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

    fn apply(&self, new: &Asked, old: &Asked) -> Result<(), String> {
        apply(new, Some(old), &self.0.ground)
    }

    fn start(&self, new: NewTask) -> Result<(), String> {
        self.make(new, false)
    }
}

impl Crew {
    /// Waits until `nr_threads` are at the gate, says when the run begins, and lets them pass.
    fn open(&self, nr_threads: usize) {
        let mut here = lock(&self.gate);
        while *here < nr_threads {
            here = self.arrival.wait(here);
        }
        let passages = Nanos(PASSAGE.0 * nr_threads as u64);
        self.begin.get_or_init(|| now() + PREPARATION + passages);
        drop(here);
        self.passage.tell_all();
    }

    fn pass_gate(&self) {
        let mut here = lock(&self.gate);
        *here += 1;
        self.arrival.tell_all();
        while self.begin.get().is_none() {
            here = self.passage.wait(here);
        }
    }

    /// Waits for all threads, those that are forked meanwhile included. What they did, in the order
    /// of the tasks.
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

/// Until the kernel's clock says that.
fn sleep(at: Nanos) {
    let at =
        Timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 };
    while clock_nanosleep_absolute(ClockId::Monotonic, &at) == Err(Errno::INTR) {}
}

fn now() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// How many threads this process may have. The standard library aborts where a new thread's second
/// stack, for signals, cannot be mapped.
fn most_threads() -> usize {
    let maps = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let maps = maps.and_then(|maps| maps.trim().parse().ok());
    maps.map_or(usize::MAX, |maps: usize| maps.saturating_sub(OTHER_MAPS) / MAPS_OF_A_THREAD)
}

/// What the kernel keeps of a task's name.
fn thread_name(name: &str) -> String {
    let name: String = name.chars().filter(|&c| c != '\0').collect();
    let end = (0..=NAME_BYTES.min(name.len())).rfind(|&at| name.is_char_boundary(at));
    name[..end.unwrap_or(0)].to_owned()
}

/// Runs a future on the calling thread, which blocks while it waits.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
