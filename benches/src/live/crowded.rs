//! The time that tasks take to answer threads while other processes use this machine's CPUs now and then. There are
//! eight tasks, one thread for each that sends it questions, and seven processes that spin for 60 ms in every 400 ms.
//!
//! A worker whose CPU the kernel gives to another process is stopped, and so are the tasks of its queue. A runtime can
//! give these tasks to a running worker.

use super::Effort;
use super::host::{Host, Runyard, Tokio, workers};
use super::probe::{Percentiles, percentiles};
use crate::median;
use serde::Serialize;
use std::hint::black_box;
use std::io::Read;
use std::process::{Child, ChildStdin, Command, Stdio, exit};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Number of tasks, and of threads that question them.
const PAIRS: usize = 8;
/// Number of other processes. Together they need one CPU of the two.
const NEIGHBOURS: u64 = 7;
/// Length of a neighbour's spin, and its period.
const SPIN: Duration = Duration::from_millis(60);
const PERIOD: Duration = Duration::from_millis(400);
/// Time between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(1);
/// Time before answers count, in which the neighbours begin.
const WARM_UP: Duration = PERIOD;

/// The times that threads waited for answers.
#[derive(Clone, Debug, Serialize)]
pub struct Crowded {
    /// The runtime's figures: medians of all runs.
    pub runyard: Percentiles,
    /// tokio's figures: medians of all runs.
    pub tokio: Percentiles,
    /// The ratios at p50, p99, p99.9 and of the longest waits.
    pub ratios: [Ratio; 4],
}

/// The runtime's time over that of its peer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratio {
    /// The ratio of the medians.
    pub of_medians: f64,
    /// The least and the greatest ratio of two consecutive runs.
    pub range: [f64; 2],
}

/// Measures both runtimes in turns.
pub(crate) fn measure(effort: &Effort) -> Crowded {
    let mut runs = [const { Vec::new() }; 2];
    for round in 0..effort.rounds.max(1) as u64 {
        // Both runs of a round have the same neighbours.
        runs[0].push(run::<Runyard>(round, effort.span));
        runs[1].push(run::<Tokio>(round, effort.span));
    }
    let parts: [fn(&Percentiles) -> u64; 4] =
        [|it| it.p50_ns, |it| it.p99_ns, |it| it.p999_ns, |it| it.max_ns];
    let ratios = parts.map(|part| {
        let [ours, theirs] = runs.each_ref().map(|runs| runs.iter().map(part).collect::<Vec<_>>());
        let of_pairs = ours.iter().zip(&theirs).map(|(&ours, &theirs)| over(ours, theirs));
        let range = of_pairs.fold([f64::MAX, 0.0], |[least, greatest], ratio| {
            [ratio.min(least), ratio.max(greatest)]
        });
        Ratio { of_medians: over(median(ours), median(theirs)), range }
    });
    let [runyard, tokio] = runs.map(|runs| medians(&runs));
    Crowded { runyard, tokio, ratios }
}

fn over(ours: u64, theirs: u64) -> f64 {
    ours as f64 / theirs.max(1) as f64
}

fn median(values: Vec<u64>) -> u64 {
    let median = median::median(values.into_iter().map(|value| value as f64));
    median.expect("there are figures") as u64
}

fn medians(runs: &[Percentiles]) -> Percentiles {
    let of = |part: fn(&Percentiles) -> u64| median(runs.iter().map(part).collect());
    Percentiles {
        periods: of(|it| it.periods as u64) as usize,
        mean_ns: of(|it| it.mean_ns),
        p50_ns: of(|it| it.p50_ns),
        p99_ns: of(|it| it.p99_ns),
        p999_ns: of(|it| it.p999_ns),
        max_ns: of(|it| it.max_ns),
    }
}

fn run<H: Host>(round: u64, span: Duration) -> Percentiles {
    let _neighbours: Vec<_> = (0..NEIGHBOURS).map(|n| start(round * NEIGHBOURS + n)).collect();
    thread::sleep(WARM_UP);
    percentiles(ask::<H>(span))
}

/// Returns the time that each question waits for its answer, on a new runtime.
fn ask<H: Host>(span: Duration) -> Vec<Duration> {
    let host = H::start(workers());
    let (asked, tasks): (Vec<_>, Vec<_>) = (0..PAIRS)
        .map(|_| {
            let (ask, mut questions) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
            let answers = async move {
                while let Some(question) = questions.recv().await {
                    question.send(()).expect("the thread waits for it");
                }
            };
            (ask, host.spawn_from_outside(answers))
        })
        .unzip();
    let end = Instant::now() + span;
    let threads: Vec<_> =
        asked.into_iter().map(|ask| thread::spawn(move || asks(&ask, end))).collect();
    let waits = threads.into_iter().flat_map(|it| it.join().expect("it does not panic")).collect();
    host.block_on(async {
        for task in tasks {
            task.await.expect("it does not panic");
        }
    });
    waits
}

fn asks(ask: &mpsc::UnboundedSender<oneshot::Sender<()>>, end: Instant) -> Vec<Duration> {
    let mut waits = Vec::new();
    while Instant::now() < end {
        let (send, answer) = oneshot::channel();
        let asked = Instant::now();
        ask.send(send).expect("the task lives");
        answer.blocking_recv().expect("it is answered");
        waits.push(asked.elapsed());
        thread::sleep(PAUSE);
    }
    waits
}

/// A neighbour process, which ends when this value is dropped.
struct Neighbour {
    child: Child,
    /// A pipe to the neighbour. It closes however this process ends, and the neighbour ends with it.
    _stdin: ChildStdin,
}

fn start(seed: u64) -> Neighbour {
    let this = std::env::current_exe().expect("this program is somewhere");
    let mut command = Command::new(this);
    command.args(["--neighbour", &seed.to_string()]).stdin(Stdio::piped());
    let mut child = command.spawn().expect("it runs again");
    let stdin = child.stdin.take().expect("it has a pipe");
    Neighbour { child, _stdin: stdin }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it ends");
    }
}

/// Runs as a neighbour process of this program: spins now and then, from a moment that `seed` determines.
pub fn be_neighbour(seed: u64) -> ! {
    thread::spawn(|| {
        let mut nothing = [0];
        // The read returns when the process at the other end of the pipe ends.
        let _ = std::io::stdin().read(&mut nothing);
        exit(0);
    });
    let period = PERIOD.as_nanos() as u64;
    // The multiplier of Knuth's hash spreads the phases of successive neighbours.
    let phase = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % period;
    let mut next = Instant::now() + Duration::from_nanos(phase);
    loop {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        while began.elapsed() < SPIN {
            (0..1_000).for_each(|step| {
                black_box(step);
            });
        }
        next += PERIOD;
    }
}

#[cfg(test)]
mod tests {
    use super::super::within_time;
    use super::*;

    #[test]
    fn every_question_is_answered_on_both() {
        let span = Duration::from_millis(50);
        let waits = within_time(move || [ask::<Runyard>(span), ask::<Tokio>(span)]);
        assert!(waits.iter().all(|waits| waits.len() >= PAIRS), "each thread asks");
    }
}
