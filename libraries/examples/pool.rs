//! The lateness of a heartbeat beside a saturated pool of rayon's.
//!
//! ```text
//! cargo run --profile dist -p runyard-libraries --example pool [ROUNDS]
//! ```
//!
//! A SCHED_FIFO task sleeps for 2 ms repeatedly, on a runtime that has all CPUs. Beside it a pool computes, with a
//! thread for each CPU. Its threads are rayon's own, or tasks of the runtime. The kinds of threads take turns within
//! each round. The output has the median, the minimum and the maximum over the rounds: of each round's p50 and p99, and
//! of the jobs that the pool did in a second.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use runyard::rayon::{ThreadPool, pool};
use runyard::{Allocator, Runtime, Task, time};
use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// With this allocator, the runtime preempts no task that holds the allocator's lock.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

const ROUNDS: usize = 9;
const BEATS: usize = 1_000;
const BEAT: Duration = Duration::from_millis(2);
/// The number of jobs in a batch for the pool, and the number of steps in each job. A job takes about 100 us.
const JOBS: u64 = 256;
const STEPS: u32 = 100_000;

type Failure = Box<dyn Error + Send + Sync>;

/// The kind of threads that the pool has.
#[derive(Clone, Copy)]
enum Side {
    /// There is no pool.
    Alone,
    Threads,
    Tasks,
    DemotedTasks,
}

const SIDES: [(&str, Side); 4] = [
    ("alone", Side::Alone),
    ("rayon's threads", Side::Threads),
    ("tasks", Side::Tasks),
    ("tasks at nice 19", Side::DemotedTasks),
];

fn main() -> Result<(), Failure> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |text| text.parse())?;
    let mut all = SIDES.map(|_| Vec::new());
    for _ in 0..rounds.max(1) {
        for (nth, (_, side)) in SIDES.into_iter().enumerate() {
            all[nth].push(measure(side)?);
        }
    }
    println!(
        "                         late by p50 us           p99 us                   jobs a second"
    );
    for ((name, _), rounds) in SIDES.into_iter().zip(all) {
        print!("{name:<18}");
        for figure in 0..3 {
            let mut values: Vec<_> = rounds.iter().map(|round| round[figure]).collect();
            values.sort_by(f64::total_cmp);
            let [least, middle, most] = [0.0, 0.5, 1.0].map(|part| at(&values, part));
            print!("  {middle:9.1} [{least:.1}-{most:.1}]");
        }
        println!();
    }
    Ok(())
}

/// Returns the p50 and the p99 of the heartbeat's lateness, in microseconds, and the number of jobs done in a second.
fn measure(side: Side) -> Result<[f64; 3], Failure> {
    let runtime = Runtime::new();
    let pool = make(&runtime, side)?;
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    let late = thread::scope(|scope| {
        if let Some(pool) = &pool {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    pool.install(|| (0..JOBS).into_par_iter().for_each(|_| job(&done)));
                }
            });
        }
        let late = runtime.block_on(Task::builder().fifo(1).spawn_on(beats(), runtime.handle()));
        stop.store(true, Ordering::Relaxed);
        late
    })?;
    let rate = done.into_inner() as f64 / began.elapsed().as_secs_f64();
    Ok([at(&late, 0.5), at(&late, 0.99), rate])
}

fn make(runtime: &Runtime, side: Side) -> Result<Option<ThreadPool>, Failure> {
    let _guard = runtime.enter();
    Ok(match side {
        Side::Alone => None,
        Side::Threads => Some(ThreadPoolBuilder::new().build()?),
        Side::Tasks => Some(pool(0, Task::builder())?),
        Side::DemotedTasks => Some(pool(0, Task::builder().nice(19))?),
    })
}

fn job(done: &AtomicU64) {
    for step in 0..STEPS {
        black_box(step);
    }
    done.fetch_add(1, Ordering::Relaxed);
}

/// Returns the lateness of each beat, in microseconds, in ascending order.
async fn beats() -> Vec<f64> {
    let mut late = Vec::with_capacity(BEATS);
    for _ in 0..BEATS {
        let due = Instant::now() + BEAT;
        time::sleep_until(due).await;
        late.push(due.elapsed().as_secs_f64() * 1e6);
    }
    late.sort_by(f64::total_cmp);
    late
}

/// Returns the quantile `part` of the sorted figures.
fn at(figures: &[f64], part: f64) -> f64 {
    figures[((figures.len() - 1) as f64 * part) as usize]
}
