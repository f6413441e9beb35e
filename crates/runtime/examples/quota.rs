//! Measures what the number of workers does under the CPU quota of the process's control group.
//!
//! ```text
//! cargo run -p runyard --example quota [SECONDS [ROUNDS]]
//! ```
//!
//! A SCHED_FIFO task wants to run every 2 ms. Beside it four tasks compute for 50 ms in each poll. Turns with one worker
//! and with two follow each other. A turn reports how late the FIFO task was (each period from its planned moment), and
//! how much the four tasks computed. A ratio is the median of the ratios within a round, with the range over the rounds.
//!
//! The quota is the one of the control group in which this program runs. For one and a half CPUs (control groups v1):
//!
//! ```text
//! mkdir /sys/fs/cgroup/cpu/limited
//! echo 150000 > /sys/fs/cgroup/cpu/limited/cpu.cfs_quota_us
//! echo $$ > /sys/fs/cgroup/cpu/limited/cgroup.procs
//! ```

use runyard::{Runtime, Task, time, yield_now};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(2);
const HOGS: usize = 4;
const POLL: Duration = Duration::from_millis(50);

/// Steps between two readings of the clock, some microseconds.
const STEPS: u64 = 2_000;

/// Length of a turn. `ROUNDS` is the number of rounds.
const SECONDS: f64 = 3.0;
const ROUNDS: usize = 7;

/// The result of a turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    p50: Duration,
    p99: Duration,
    /// Millions of steps of the four tasks in a second.
    work: f64,
}

async fn computes(over: Arc<AtomicBool>, steps: Arc<AtomicU64>) {
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        while began.elapsed() < POLL && !over.load(Ordering::Relaxed) {
            (0..STEPS).for_each(|step| _ = black_box(step));
            steps.fetch_add(STEPS, Ordering::Relaxed);
        }
        yield_now().await;
    }
}

/// Returns how late each period began, in order of lateness.
async fn heartbeat(length: Duration) -> Vec<Duration> {
    let began = Instant::now();
    let mut late = Vec::new();
    for nth in 1.. {
        let planned = began + PERIOD * nth;
        if planned > began + length {
            break;
        }
        time::sleep_until(planned).await;
        late.push(planned.elapsed());
    }
    late.sort_unstable();
    late
}

fn turn(workers: usize, length: Duration) -> Turn {
    let runtime = Runtime::builder().workers(workers).build();
    let (over, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let start = |_| runtime.spawn(computes(over.clone(), steps.clone()));
    let hogs: Vec<_> = (0..HOGS).map(start).collect();
    let began = Instant::now();
    let beats = Task::builder().fifo(50).spawn_on(heartbeat(length), runtime.handle());
    let late = runtime.block_on(beats).unwrap();
    let work = steps.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64() / 1e6;
    over.store(true, Ordering::Relaxed);
    for hog in hogs {
        runtime.block_on(hog).unwrap();
    }
    let at = |percent: usize| late[late.len() * percent / 100];
    Turn { p50: at(50), p99: at(99), work }
}

/// Returns the median and the range.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_unstable_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("{:.3} [{least:.3}-{most:.3}]", values[values.len() / 2])
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |usual: f64| arguments.next().map_or(Ok(usual), |text| text.parse());
    let (Ok(seconds), Ok(rounds)) = (argument(SECONDS), argument(ROUNDS as f64)) else {
        eprintln!("usage: quota [SECONDS [ROUNDS]]");
        std::process::exit(2);
    };
    let length = Duration::try_from_secs_f64(seconds.clamp(0.1, 600.0)).expect("it is in range");
    match Runtime::new().snapshot().quota {
        Some(quota) => println!("quota: {quota}"),
        None => println!("no quota"),
    }
    let round = |_| [turn(1, length), turn(2, length)];
    let rounds: Vec<_> = (0..rounds.clamp(1.0, 1_000.0) as usize).map(round).collect();
    println!("workers  p50, ms  p99, ms  millions of steps/s");
    let of = |column: fn(&Turn) -> f64, nth: usize| {
        spread(rounds.iter().map(|round| column(&round[nth])).collect())
    };
    let columns: [fn(&Turn) -> f64; 3] = [
        |turn| turn.p50.as_secs_f64() * 1e3,
        |turn| turn.p99.as_secs_f64() * 1e3,
        |turn| turn.work,
    ];
    for nth in 0..2 {
        let cells = columns.map(|column| of(column, nth));
        println!("{}  {}", nth + 1, cells.join("  "));
    }
    let ratios = columns
        .map(|column| spread(rounds.iter().map(|[one, two]| column(two) / column(one)).collect()));
    println!("ratio  {}", ratios.join("  "));
}
