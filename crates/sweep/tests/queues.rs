//! Queues of which theory knows the answer, at a load of one half and without costs: the mean time of a request from its
//! arrival to its end.
//!
//! Each queue runs with [`SEEDS`] seeds. The mean over the seeds is that of theory, within 1 % or three standard errors. By
//! default a run is short; `RUNYARD_QUEUE_SECONDS` gives the seconds of each.

use runyard_report::ChainReport;
use runyard_workload::{Overrides, parse};

const SEEDS: u64 = 10;

/// The seconds of a run, in which 4,000 requests of 1 ms come to one worker.
const SECONDS: u64 = 8;

/// A machine on which only the requests take time. Fair tasks take turns of a tick, 100 us.
const FREE: &str = r#""tick_hz": 10000, "costs": {
    "context_switch_ns": 0, "migration_ns": 0, "ipi_ns": 0, "wakeup_ns": 0, "timer_interrupt_ns": 0,
    "timer_spread_ns": 0, "jitter_ns": 0
}"#;

/// A queue.
struct Queue {
    cpus: u32,
    /// The keys of the arrivals.
    arrivals: &'static str,
    tasks: String,
    /// The mean time of a request over that of its work.
    slower: f64,
}

/// Requests for one worker, which serves them in the order of their arrival.
fn one_worker(work: &str, slower: f64) -> Queue {
    let tasks = format!(r#""worker": {{"sem_wait": "work", "run": {work}}}"#);
    Queue { cpus: 1, arrivals: r#""rate": 500, "sem_post": "work""#, tasks, slower }
}

/// Requests for workers with a CPU each.
fn workers(count: u32, arrivals: &'static str, slower: f64) -> Queue {
    let worker = |cpu| {
        format!(
            r#""worker-{cpu}": {{"cpus": [{cpu}], "sem_wait": "work", "run": {{"exponential": 1000}}}}"#
        )
    };
    let tasks = (0..count).map(worker).collect::<Vec<_>>().join(",");
    Queue { cpus: count, arrivals, tasks, slower }
}

/// Requests of 10 ms with a task each, among which fair turns share the CPU.
fn shared(work: &str) -> Queue {
    let tasks = format!(r#""request": {{"instance": 0, "loop": 1, "run": {work}}}"#);
    Queue { cpus: 1, arrivals: r#""rate": 50, "fork": "request""#, tasks, slower: 2.0 }
}

impl Queue {
    /// The report of the requests with each seed.
    fn runs(&self) -> Vec<ChainReport> {
        let seconds = std::env::var("RUNYARD_QUEUE_SECONDS").ok();
        let seconds = seconds.map_or(SECONDS, |text| text.parse().expect("a number of seconds"));
        let Queue { cpus, arrivals, tasks, .. } = self;
        let text = format!(
            r#"{{
                "machine": {{"cpus": {cpus}, "kernel": "6.18", {FREE}}}, "scheduler": {{"base_slice_us": 100}},
                "arrivals": {{"queue": {{{arrivals}}}}}, "tasks": {{{tasks}}}, "global": {{"duration": {seconds}}}
            }}"#
        );
        let parsed = parse("queue", &text, &Overrides::default());
        let scenario = parsed.unwrap_or_else(|error| panic!("{error}\n{text}")).scenario;
        let run = |seed| {
            let report = runyard_sweep::report(("queue", &scenario), seed, &|| false);
            report.unwrap().expect("no run is stopped").chains.remove(0)
        };
        (1..=SEEDS).map(run).collect()
    }

    /// Asserts that the mean time of a request is that of theory, for requests of this work in nanoseconds.
    fn holds(&self, work: f64) {
        let mean = |it: ChainReport| it.latency.mean_ns.expect("some requests ended") as f64 / work;
        let means: Vec<f64> = self.runs().into_iter().map(mean).collect();
        is_near(&means, self.slower);
    }
}

/// Asserts that the mean of these figures of single runs is the expected one.
fn is_near(runs: &[f64], expected: f64) {
    let count = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / count;
    let squares: f64 = runs.iter().map(|run| (run - mean) * (run - mean)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let (off, most) = ((mean - expected).abs(), (0.01 * expected).max(3.0 * error));
    println!("{mean:.4} +- {error:.4}, expected {expected:.4}");
    assert!(off <= most, "{mean:.4} +- {error:.4}, expected {expected:.4}");
}

/// One worker: 1 + load * E[S^2] / E[S]^2 / (2 * (1 - load)) (Pollaczek and Khinchine).
#[test]
fn one_worker_is_as_slow_as_its_work_varies() {
    one_worker("1000", 1.5).holds(1e6);
    one_worker(r#"{"exponential": 1000}"#, 2.0).holds(1e6);
    one_worker(r#"{"lognormal": [1000, 1500]}"#, 2.625).holds(1e6);
}

/// Four workers: an arrival waits with Erlang's probability of 4 / 23, for the mean of half of a request.
#[test]
fn several_workers_share_a_queue() {
    workers(4, r#""rate": 2000, "sem_post": "work""#, 1.0 + 4.0 / 23.0 / 2.0).holds(1e6);
}

/// Two workers without a queue: Erlang's share of refused requests is 1 / 5.
#[test]
fn without_a_queue_requests_are_refused() {
    let queue = workers(2, r#""rate": 1000, "sem_post": "work", "bound": 0"#, 1.0);
    let runs = queue.runs();
    let share = |it: &ChainReport| it.refused.unwrap() as f64 / it.began.unwrap() as f64;
    is_near(&runs.iter().map(share).collect::<Vec<_>>(), 0.2);
    queue.holds(1e6);
}

/// A task for each request: 1 / (1 - load), whatever the work is (processor sharing).
#[test]
fn fair_turns_are_as_slow_for_any_work() {
    shared("10000").holds(1e7);
    shared(r#"{"exponential": 10000}"#).holds(1e7);
}
