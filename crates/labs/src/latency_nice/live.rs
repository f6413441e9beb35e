//! The experiments on this machine's CPUs: cyclictest beside hackbench, and hackbench alone, on the runtime and as
//! kernel threads.
//!
//! Only the duties of a scheduler can fail. All messages arrive, whatever else the machine does. Sensitive tasks keep no
//! other task from running, if [others leave the CPUs alone](crate::quiet). Times are shown. The machine's own scheduler
//! decides when a worker of the runtime has a CPU, and it knows nothing of latency nice. Where other processes want the CPUs too, the runtime is one thread
//! for each CPU among theirs, and hackbench as kernel threads is many. Then the long waits, and with them the mean,
//! depend on the machine; the median depends on the runtime. The CPU time that the process used is shown: as kernel
//! threads, hackbench leaves CPUs idle that it fills on the runtime.
//!
//! The kernel's threads have the kernel's own means to the same end, a slice of 0.1 ms (since 6.12).

use super::cyclictest::{self, CYCLICTEST, FIGURES, LENGTH, ROUNDS};
use super::hackbench::{FAN, Hackbench, name};
use super::simulated::GROUPS;
use crate::claims::Reproduced;
use crate::figure::{percent, rounded};
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried};
use crate::rows::{self, Row, Runs, Word};
use crate::steps::{self, Host, Note};
use crate::took::{Requests, Took};
use runyard_engine::attr::Slice;
use runyard_engine::kernel;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::clock::process_cpu_time;
use runyard_hosts::machine;
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use std::time::{Duration, Instant};

/// The number of groups of hackbench for each CPU beside cyclictest, as in the document, and the largest number of
/// groups: a group is forty threads.
const GROUPS_PER_CPU: u32 = 2;
const MOST_GROUPS: u32 = 16;

/// The number of messages that a sender of one group writes to a receiver.
const LOOPS: u32 = 80;

/// The times of cyclictest beside hackbench, and of hackbench alone.
const BESIDE: Duration = Duration::from_millis(2_100);
const ALONE: Duration = Duration::from_millis(600);

/// The number of runs of `--soak`.
const SOAK_RUNS: u64 = 20;

/// Runs the experiments once on this machine, or 20 times in a soak.
///
/// # Errors
/// If the machine refuses something.
pub(crate) fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?;
    let runs = length.pick(1, SOAK_RUNS);
    let each = 4 * BESIDE + 2 * GROUPS.len() as u32 * ALONE;
    let mut course = Course::new(length, each * runs as u32 + price::TAKES, progress);
    let price = price::measured(kernel::Experiment::LatencyNice, cpus.len(), &mut course)?;
    let (alone, beside) = measured(&cpus, runs, &mut course)?;
    let mut claims = rows::claims(&beside_rows(), &beside);
    claims.extend(rows::claims(&alone_rows(), &alone));
    claims.extend(price);
    Ok(Reproduced::of("latency-nice", "live", claims, |table| {
        format!(
            "latency-nice on live: {} CPUs, cyclictest at latency nice 0 and then -20; on linux at \
             nice 0 and then with a slice of 0.1 ms\n\n{table}\n",
            cpus.len(),
        )
    }))
}

/// The settings of cyclictest beside hackbench: the host, the latency nice and the slice.
const BESIDES: [(&str, Host, i64, Option<Slice>); 4] = [
    ("cyclictest at 0, live", Host::Live, 0, None),
    ("cyclictest at -20, live", Host::Live, -20, None),
    ("cyclictest at nice 0, linux", Host::Linux, 0, None),
    ("cyclictest with a slice of 0.1 ms, linux", Host::Linux, 0, Some(Slice::MIN)),
];
const LIVE: usize = 0;
const SENSITIVE: usize = 1;
const LINUX: usize = 2;
const SLICE: usize = 3;

/// The results of cyclictest beside hackbench.
#[derive(Clone, Debug)]
struct Beside {
    took: Took,
    /// The number of hackbench's tasks, and of those that reached their second step.
    tasks: u64,
    ran: u64,
    /// The fraction of the CPUs that this process used: less than all, where the machine did not give more or where its
    /// threads waited for each other.
    used: f64,
}

/// The results of hackbench alone: the messages sent and received, and the time.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    sent: u64,
    arrived: u64,
    time: Nanos,
}

/// The runs of hackbench alone with each of [`GROUPS`], on the runtime and on Linux, and those of [`BESIDES`]. There are
/// none where the kernel takes no slice.
type Measured = (Vec<Runs<Alone>>, [Runs<Beside>; 4]);

fn measured(cpus: &[usize], runs: u64, course: &mut Course<'_>) -> Result<Measured, Failure> {
    let mut alones = vec![Vec::new(); 2 * GROUPS.len()];
    let mut besides = [const { Vec::new() }; 4];
    for seed in 1..=runs {
        // Hackbench alone takes as long as the machine makes it, and is not repeated. So it comes first.
        for (at, runs) in alones.iter_mut().enumerate() {
            let (groups, host) = (GROUPS[at / 2], [Host::Live, Host::Linux][at % 2]);
            let hackbench = Hackbench { groups, loops: Some(LOOPS / groups) };
            let what = format!("{}, {}", name(groups), ["live", "linux"][at % 2]);
            let run = course.once(&what, ALONE, || alone(hackbench, host, cpus, seed))?;
            runs.push(Tried::quiet(run));
        }
        for (runs, (what, host, nice, slice)) in besides.iter_mut().zip(BESIDES) {
            if slice.is_none() || kernel_takes(slice) {
                runs.push(course.quiet(what, BESIDE, |attempt| {
                    let seed = seed + (u64::from(attempt) << u32::BITS);
                    Beside::of((host, nice, slice), cpus, seed)
                })?);
            }
        }
    }
    Ok((alones, besides))
}

fn beside_rows() -> Vec<Row<Beside>> {
    let mut rows = Vec::new();
    for (host, [before, after]) in [("live", [LIVE, SENSITIVE]), ("linux", [LINUX, SLICE])] {
        for (which, of) in FIGURES {
            let figure = move |runs: &[&Beside]| of(&Took::sum(runs.iter().map(|run| &run.took)));
            rows.push(Row::new(format!("{which}, {host}"), "us", figure).of(before, after));
        }
        let used =
            Row::new(format!("CPU time that was used, {host}"), "%", |runs: &[&Beside]| {
                percent(least(runs, |run| run.used))
            });
        rows.push(used.of(before, after));
    }
    let mut rows: Vec<_> =
        rows.into_iter().map(|row| row.below("cyclictest beside hackbench")).collect();
    let what = "tasks of hackbench that ran beside cyclictest at -20, live";
    let ran = Row::new(what, "%", |runs: &[&Beside]| {
        percent(least(runs, |run| run.ran as f64 / run.tasks as f64))
    });
    let all = |run: &&Beside| run.ran == run.tasks;
    rows.push(
        ran.after(SENSITIVE)
            .judged_by(Word::Holds, move |sides, _| sides[SENSITIVE].iter().all(all)),
    );
    rows
}

fn least(runs: &[&Beside], of: fn(&Beside) -> f64) -> f64 {
    runs.iter().map(|run| of(run)).fold(f64::INFINITY, f64::min)
}

fn alone_rows() -> Vec<Row<Alone>> {
    let of_groups = |(at, groups): (usize, u32)| {
        let name = name(groups);
        let sum =
            |runs: &[&Alone], of: fn(&Alone) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
        let arrived = Row::new("messages that arrived, live", "%", move |runs: &[&Alone]| {
            percent(sum(runs, |run| run.arrived) as f64 / sum(runs, |run| run.sent) as f64)
        });
        let live: usize = 2 * at;
        let all = arrived.after(live).always().judged_by(Word::Holds, move |sides, _| {
            sides[live].iter().all(|run| run.arrived == run.sent)
        });
        let time = |host: usize| {
            let what = format!("time, {}", ["live", "linux"][host]);
            let millis =
                move |runs: &[&Alone]| rounded(sum(runs, |run| run.time.0) as f64 / 1e6, 2);
            Row::new(what, "ms", millis).after(live + host)
        };
        [all, time(0), time(1)].map(|row| row.below(&name))
    };
    GROUPS.into_iter().enumerate().flat_map(of_groups).collect()
}

/// The names of all rows, for the page that has them.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let beside = beside_rows().into_iter().map(|row| row.what().to_owned());
    beside.chain(price::tests::with(&alone_rows())).collect()
}

/// Whether the kernel gives a thread this slice.
fn kernel_takes(slice: Option<Slice>) -> bool {
    let asks = move || runyard::kernel::set_slice(slice.map(Slice::get));
    // The asking thread keeps the slice, so it is a thread of its own.
    std::thread::spawn(asks).join().unwrap_or(false)
}

impl Beside {
    fn of(
        (host, nice, slice): (Host, i64, Option<Slice>),
        cpus: &[usize],
        seed: u64,
    ) -> Result<Beside, Failure> {
        let threads = cpus.len() as u32;
        let groups = (GROUPS_PER_CPU * threads).min(MOST_GROUPS);
        let mut scenario = cyclictest::scenario(nice, groups).scenario()?;
        let it = &mut scenario.tasks[CYCLICTEST.index()];
        (it.instances, it.properties.slice) = (threads, slice);
        scenario.duration = Some(LENGTH);
        let (begun, used) = (Instant::now(), process_cpu_time());
        let tasks = run(scenario, (host, cpus), threads as usize, seed)?;
        let (wall, used) = (begun.elapsed().as_nanos() as f64, process_cpu_time() - used);
        let used = used.0 as f64 / (wall * cpus.len() as f64);
        let (cyclictest, hackbench) = tasks.split_at(threads as usize);
        let ran = hackbench.iter().filter(|task| task.steps > 0).count() as u64;
        let took = Took::sum(cyclictest.iter().map(|task| &task.took));
        Ok(Beside { took, tasks: hackbench.len() as u64, ran, used })
    }
}

/// The time of hackbench alone, and the number of messages that arrive.
fn alone(hackbench: Hackbench, host: Host, cpus: &[usize], seed: u64) -> Result<Alone, Failure> {
    let tasks = run(hackbench.alone().scenario()?, (host, cpus), 0, seed)?;
    let last = tasks.iter().map(|task| task.last).max().unwrap_or_default();
    // Each group has its senders first, then its receivers.
    let receivers = tasks.chunks(FAN as usize).skip(1).step_by(2).flatten();
    let arrived = receivers.map(|task| task.steps).sum();
    let sent = hackbench.messages().expect("it ends");
    Ok(Alone { sent, arrived, time: last.since(Time::ZERO) })
}

/// The notes of a task: the rounds of one of cyclictest; the number of times that it reached the second step of a round
/// (once a message, for a receiver); and its last step.
#[derive(Clone, Debug)]
struct Notes {
    rounds: Option<Requests>,
    took: Took,
    steps: u64,
    last: Time,
}

/// Runs `scenario`. Its first `threads` are cyclictest, all others are hackbench.
fn run(
    scenario: Scenario,
    on: (Host, &[usize]),
    threads: usize,
    seed: u64,
) -> Result<Vec<Notes>, Failure> {
    let notes = |nth| {
        let rounds = (nth < threads).then_some(ROUNDS);
        Notes { rounds, took: Took::default(), steps: 0, last: Time::ZERO }
    };
    let notes = (0..scenario.instances().count()).map(notes).collect();
    let note: Note<Notes> = |it, _, step, now| {
        if let Some(rounds) = &mut it.rounds {
            rounds.step(step, now, &mut it.took);
        }
        it.steps += u64::from(step == 1);
        it.last = now;
    };
    steps::noted(scenario, on, seed, (notes, note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::tests::failed;

    #[test]
    fn what_can_fail_is_that_somebody_does_not_run_or_a_message_is_lost() {
        let beside =
            |ran| Tried::quiet(Beside { took: Took::default(), tasks: 80, ran, used: 0.5 });
        let besides = |ran| {
            let runs = [vec![beside(80)], vec![beside(ran)], vec![beside(80)], vec![]];
            failed(rows::claims(&beside_rows(), &runs))
        };
        assert_eq!(besides(80), [""; 0]);
        assert_eq!(besides(79), ["tasks of hackbench that ran beside cyclictest at -20, live"]);
        let alone = |arrived| vec![Tried::quiet(Alone { sent: 400, arrived, time: Nanos(5) })];
        let mut alones = vec![alone(400); 2 * GROUPS.len()];
        alones[2] = alone(399);
        let lost = failed(rows::claims(&alone_rows(), &alones));
        assert_eq!(lost, ["hackbench of 4 groups: messages that arrived, live"]);
    }

    #[test]
    fn all_messages_arrive_on_both_hosts() {
        let cpus = machine::cpus().unwrap();
        let hackbench = Hackbench { groups: 2, loops: Some(2) };
        for host in [Host::Live, Host::Linux] {
            let alone = alone(hackbench, host, &cpus, 1).unwrap();
            assert!(alone.arrived == alone.sent && alone.time > Nanos::ZERO, "{alone:?}");
        }
    }
}
