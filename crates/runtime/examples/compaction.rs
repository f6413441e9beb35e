//! Measures the latency of a service beside a background job that takes all remaining CPU time.
//!
//! ```text
//! cargo run --profile dist -p runyard --example compaction [SECONDS [ROUNDS]]
//! ```
//!
//! The service answers requests that arrive at random, independently of the answers (an open loop). Each request is a
//! task at nice 0 that computes for 300 us on average. Its latency counts from the moment at which it was due, however
//! late it was accepted. Beside it a storage engine compacts: on every CPU a task merges sorted runs, with tens of
//! milliseconds in each poll, because its code was written without regard to a scheduler. As SCHED_IDLE tasks the
//! compactions take the CPU time that the service leaves. At nice 0, the baseline, they take their share.
//!
//! The turns of a round follow each other, without compaction and with both kinds of it, and have the same requests. A
//! figure is the median over the rounds, and a ratio is the median of the ratios within a round. So other load on the
//! machine disturbs neighbouring turns alike.
//!
//! The work of a request is a span of CPU time, not a number of instructions. A neighbour that evicts the caches makes
//! every instruction slower, which no scheduler can prevent.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use runyard::{
    Allocator, Policy, Runtime, Task, TaskBuilder, spawn, time, wake_at_once, yield_now,
};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Merges and requests allocate. No task may be stopped while it holds the allocator's lock.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

/// The part of all CPUs that the requests use. Services that must be fast rarely use more.
const LOAD: f64 = 0.45;
/// CPU time of a request, on average and at most.
const MEAN_COST: Duration = Duration::from_micros(300);
const MAX_COST: Duration = Duration::from_millis(3);
/// CPU time after which a request lets other tasks run.
const POLL: Duration = Duration::from_micros(200);
/// Hash steps between two readings of the clock by a request, about 10 us.
const STEPS: u64 = 10_000;

/// Input of a compaction: 8 MiB, which take about 20 ms.
const RUNS: usize = 16;
const RUN: usize = 64 * 1024;

/// Length of a turn. `ROUNDS` is the number of rounds.
const SECONDS: f64 = 2.0;
const ROUNDS: u64 = 10;

/// The load beside the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Idle,
    Normal,
}

impl Beside {
    const ALL: [Beside; 3] = [Beside::Nothing, Beside::Idle, Beside::Normal];

    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "none",
            Beside::Idle => "SCHED_IDLE",
            Beside::Normal => "nice 0",
        }
    }

    fn task(self) -> Option<TaskBuilder> {
        match self {
            Beside::Nothing => None,
            Beside::Idle => Some(Task::builder().policy(Policy::Idle)),
            Beside::Normal => Some(Task::builder()),
        }
    }
}

/// The result of a turn. Shares are in per cent of all CPUs.
#[derive(Clone, Copy, Debug)]
struct Turn {
    requests: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    service: f64,
    compaction: f64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: f64| {
        arguments.next().map_or(otherwise, |text| text.parse().expect("SECONDS [ROUNDS]"))
    };
    let (span, rounds) = (Duration::from_secs_f64(number(SECONDS)), number(ROUNDS as f64) as u64);
    let turns: Vec<_> = (0..rounds.max(1)).map(|seed| round(span, seed)).collect();
    show(&turns);
}

/// Runs the turns of a round, and returns them in the order of [`Beside::ALL`]. Each round begins with the next turn.
fn round(span: Duration, seed: u64) -> [Turn; 3] {
    let mut order = [0, 1, 2];
    order.rotate_left((seed % 3) as usize);
    let mut turns = order.map(|nth| (nth, turn(Beside::ALL[nth], span, seed)));
    turns.sort_by_key(|&(nth, _)| nth);
    turns.map(|(_, turn)| turn)
}

/// Runs the service for `span`, on its own runtime with all CPUs.
fn turn(beside: Beside, span: Duration, seed: u64) -> Turn {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = Runtime::builder().workers(cpus).build();
    let over = Arc::new(AtomicBool::new(false));
    let compacted = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        let compactions: Vec<_> = (0..cpus)
            .filter_map(|_| Some(beside.task()?.spawn(compact(over.clone(), compacted.clone()))))
            .collect();
        // The compaction has the machine when the service starts.
        time::sleep(span / 20).await;
        let (begin, before) = (Instant::now(), compacted.load(Ordering::Relaxed));
        let answers = spawn(serve(begin, Draws::new(seed, cpus), span)).await.expect("it serves");
        let capacity = begin.elapsed().as_secs_f64() * cpus as f64;
        let percent = |nanos: u64| nanos as f64 / 1e9 / capacity * 100.0;
        let compaction = percent(compacted.load(Ordering::Relaxed) - before);
        over.store(true, Ordering::Relaxed);
        for compaction in compactions {
            compaction.await.expect("it compacts");
        }
        let service = percent(answers.iter().map(|answer| answer.computed).sum());
        let mut latencies: Vec<_> = answers.iter().map(|answer| answer.latency).collect();
        latencies.sort_unstable();
        let at = |part: f64| {
            let nth = (latencies.len() as f64 * part) as usize;
            latencies[nth.min(latencies.len() - 1)].as_secs_f64() * 1e6
        };
        let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
        Turn { requests: latencies.len() as f64, p50, p99, p999, service, compaction }
    })
}

/// The latency and the CPU time of a request, in nanoseconds.
struct Answer {
    latency: Duration,
    computed: u64,
}

/// Accepts requests for `span`, each when it is due or as soon as possible, and waits for all answers.
async fn serve(begin: Instant, mut draws: Draws, span: Duration) -> Vec<Answer> {
    let mut requests = Vec::new();
    let mut arrival = begin + draws.pause();
    while arrival < begin + span {
        time::sleep_until(arrival).slack(Duration::ZERO).await;
        let request = answer(arrival, draws.work());
        // Each request starts now, on an idle CPU or by preemption. Otherwise requests would gather on this CPU,
        // because a spawned task stays near its spawner until another CPU runs out of work.
        requests.push(wake_at_once(|| spawn(request)));
        arrival += draws.pause();
    }
    let mut answers = Vec::with_capacity(requests.len());
    for request in requests {
        answers.push(request.await.expect("a request is answered"));
    }
    answers
}

/// Computes the answer to a request, and lets other tasks run now and then.
async fn answer(arrival: Instant, work: Duration) -> Answer {
    let (mut computed, work) = (0, work.as_nanos() as u64);
    while computed < work {
        if computed > 0 {
            yield_now().await;
        }
        // A task stays on its thread, whose clock this is, only within a poll.
        let (begun, poll) = (cpu_time(), (work - computed).min(POLL.as_nanos() as u64));
        while cpu_time() - begun < poll {
            black_box((0..STEPS).fold(computed, |hash, step| (hash ^ step).wrapping_mul(0x5bd1)));
        }
        computed += cpu_time() - begun;
    }
    Answer { latency: arrival.elapsed(), computed }
}

/// Merges sorted runs into one, repeatedly. Adds the CPU time that it took.
async fn compact(over: Arc<AtomicBool>, compacted: Arc<AtomicU64>) {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let sorted = |_| {
        let mut run: Vec<_> = (0..RUN).map(|_| random.next_u64()).collect();
        run.sort_unstable();
        run
    };
    let runs: Vec<_> = (0..RUNS).map(sorted).collect();
    while !over.load(Ordering::Relaxed) {
        let mut begun = cpu_time();
        let mut level = runs.clone();
        while level.len() > 1 {
            let merged = level.chunks(2).map(|pair| {
                let merged = merge(&pair[0], &pair[1]);
                let now = cpu_time();
                compacted.fetch_add(now - std::mem::replace(&mut begun, now), Ordering::Relaxed);
                merged
            });
            level = merged.collect();
        }
        assert!(level[0].len() == RUNS * RUN && level[0].is_sorted(), "nothing is lost");
        yield_now().await;
    }
}

fn merge(one: &[u64], other: &[u64]) -> Vec<u64> {
    let mut merged = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let from = if a <= b { &mut one } else { &mut other };
        merged.extend(from.next());
    }
    merged.extend(one.chain(other));
    merged
}

/// Returns the CPU time that the calling thread has used, in nanoseconds.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The random arrivals and work of requests: a Poisson process, and exponential work.
struct Draws {
    random: Pcg64Mcg,
    pause: Duration,
}

impl Draws {
    fn new(seed: u64, cpus: usize) -> Draws {
        let pause = MEAN_COST.div_f64(LOAD * cpus as f64);
        Draws { random: Pcg64Mcg::seed_from_u64(seed), pause }
    }

    fn pause(&mut self) -> Duration {
        self.exponential(self.pause)
    }

    fn work(&mut self) -> Duration {
        self.exponential(MEAN_COST).min(MAX_COST)
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        let uniform = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-(1.0 - uniform).ln())
    }
}

fn show(turns: &[[Turn; 3]]) {
    println!(
        "{:<10}  {:>8}  {:>7}  {:>8}  {:>8}  {:>9}  {:>12}",
        "compaction", "requests", "p50 us", "p99 us", "p99.9 us", "service %", "compaction %"
    );
    for (nth, beside) in Beside::ALL.into_iter().enumerate() {
        let of = |figure: Figure| median(turns.iter().map(|round| figure(&round[nth]))).0;
        println!(
            "{:<10}  {:>8.0}  {:>7.0}  {:>8.0}  {:>8.0}  {:>9.1}  {:>12.1}",
            beside.name(),
            of(|turn| turn.requests),
            of(|turn| turn.p50),
            of(|turn| turn.p99),
            of(|turn| turn.p999),
            of(|turn| turn.service),
            of(|turn| turn.compaction),
        );
    }
    println!();
    for (nth, beside) in Beside::ALL.into_iter().enumerate().skip(1) {
        for (what, figure) in FIGURES {
            let ratios = turns.iter().map(|round| figure(&round[nth]) / figure(&round[0]));
            let (ratio, [least, greatest]) = median(ratios);
            let name = beside.name();
            println!("{what}, {name} to none: {ratio:.2} ({least:.2} to {greatest:.2})");
        }
    }
}

/// A figure of a turn.
type Figure = fn(&Turn) -> f64;

/// The figures that are compared within a round.
const FIGURES: [(&str, Figure); 2] = [("p50", |turn| turn.p50), ("p99", |turn| turn.p99)];

/// Returns the median, and the minimum and the maximum.
fn median(figures: impl Iterator<Item = f64>) -> (f64, [f64; 2]) {
    let mut sorted: Vec<_> = figures.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    ((low + high) / 2.0, [sorted[0], sorted[sorted.len() - 1]])
}
