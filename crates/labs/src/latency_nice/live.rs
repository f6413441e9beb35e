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

use super::cyclictest::{self, CYCLICTEST, FIGURES, LENGTH, ROUNDS, took};
use super::hackbench::{FAN, Hackbench, name};
use super::simulated::{GROUPS, millis};
use crate::claims::Reproduced;
use crate::figure::percent;
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried};
use crate::rows::{self, Row, Runs, Word};
use crate::setting::{Seen, used_part};
use crate::steps::{self, Host, Note};
use crate::took::{Requests, Took};
use runyard_engine::attr::Slice;
use runyard_engine::kernel;
use runyard_engine::time::Time;
use runyard_hosts::machine;
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use std::time::Duration;

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
pub(crate) fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?;
    let runs = length.pick(1, SOAK_RUNS);
    let each = 4 * BESIDE + 2 * GROUPS.len() as u32 * ALONE;
    let mut course = Course::new(length, each * runs as u32 + price::TAKES, progress);
    let price = price::measured(kernel::Experiment::LatencyNice, cpus.len(), &mut course)?;
    let mut claims = rows::claims(&rows(), &measured(&cpus, runs, &mut course)?);
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

/// The settings before and after on each host, and the sensitive one.
const PAIRS: [(&str, [usize; 2]); 2] = [("live", [0, 1]), ("linux", [2, 3])];
const SENSITIVE: usize = 1;

/// The settings of hackbench alone come after those: each of [`GROUPS`] on each of these hosts.
const HOSTS: [(&str, Host); 2] = [("live", Host::Live), ("linux", Host::Linux)];

/// The runs of all settings. There are none where the kernel takes no slice.
fn measured(
    cpus: &[usize],
    runs: u64,
    course: &mut Course<'_>,
) -> Result<Vec<Runs<Seen>>, Failure> {
    let mut all = vec![Vec::new(); BESIDES.len() + GROUPS.len() * HOSTS.len()];
    let (besides, alones) = all.split_at_mut(BESIDES.len());
    for seed in 1..=runs {
        // Hackbench alone takes as long as the machine makes it, and is not repeated. So it comes first.
        let settings = GROUPS.into_iter().flat_map(|groups| HOSTS.map(|host| (groups, host)));
        for (runs, (groups, (host, on))) in alones.iter_mut().zip(settings) {
            let hackbench = Hackbench { groups, loops: Some(LOOPS / groups) };
            let what = format!("{}, {host}", name(groups));
            let run = course.once(&what, ALONE, || alone(hackbench, on, cpus, seed))?;
            runs.push(Tried::quiet(run));
        }
        for (runs, (what, host, nice, slice)) in besides.iter_mut().zip(BESIDES) {
            if slice.is_none() || kernel_takes(slice) {
                runs.push(
                    course.seeded(what, BESIDE, seed, |seed| {
                        beside((host, nice, slice), cpus, seed)
                    })?,
                );
            }
        }
    }
    Ok(all)
}

/// The rows of all settings.
pub(super) fn rows() -> Vec<Row<Seen>> {
    let mut rows = Vec::new();
    for (host, [before, after]) in PAIRS {
        let used = |runs: &[&Seen]| percent(least(runs, |run| run.given));
        let used = Row::new(format!("CPU time that was used, {host}"), "%", used);
        let figures = FIGURES.map(|(which, of)| took(&format!("{which}, {host}"), "us", of));
        let of_host = figures.into_iter().chain([used]).map(|row| row.of(before, after));
        rows.extend(of_host.map(|row| row.below("cyclictest beside hackbench")));
    }
    rows.push(reached("tasks of hackbench that ran beside cyclictest at -20, live", SENSITIVE));
    for (at, groups) in GROUPS.into_iter().enumerate() {
        let first = BESIDES.len() + at * HOSTS.len();
        rows.push(reached("messages that arrived, live", first).always().below(&name(groups)));
        for (nth, (host, _)) in HOSTS.into_iter().enumerate() {
            let time = Row::new(format!("time, {host}"), "ms", millis);
            rows.push(time.after(first + nth).below(&name(groups)));
        }
    }
    rows
}

/// The row that all tasks ran or all messages arrived in each run of a setting.
fn reached(what: &str, setting: usize) -> Row<Seen> {
    let part = |runs: &[&Seen]| percent(least(runs, |run| run.reached as f64 / run.all as f64));
    Row::new(what, "%", part).after(setting).judged_by(Word::Holds, move |sides, _| {
        sides[setting].iter().all(|run| run.reached == run.all)
    })
}

fn least(runs: &[&Seen], of: fn(&Seen) -> f64) -> f64 {
    runs.iter().map(|run| of(run)).fold(f64::INFINITY, f64::min)
}

/// Whether the kernel gives a thread this slice.
fn kernel_takes(slice: Option<Slice>) -> bool {
    let asks = move || runyard::kernel::set_slice(slice.map(Slice::get));
    // The asking thread keeps the slice, so it is a thread of its own.
    std::thread::spawn(asks).join().unwrap_or(false)
}

/// cyclictest, as many threads as CPUs, beside hackbench.
fn beside(
    (host, nice, slice): (Host, i64, Option<Slice>),
    cpus: &[usize],
    seed: u64,
) -> Result<Seen, Failure> {
    let threads = cpus.len();
    let groups = (GROUPS_PER_CPU * threads as u32).min(MOST_GROUPS);
    let mut scenario = cyclictest::scenario(nice, groups).scenario()?;
    let it = &mut scenario.tasks[CYCLICTEST.index()];
    (it.instances, it.properties.slice) = (threads as u32, slice);
    scenario.duration = Some(LENGTH);
    let (tasks, given) = used_part(threads, || run(scenario, (host, cpus), threads, seed));
    let tasks = tasks?;
    let (cyclictest, hackbench) = tasks.split_at(threads);
    let reached = hackbench.iter().filter(|task| task.steps > 0).count() as u64;
    let took = Took::sum(cyclictest.iter().map(|task| &task.took));
    Ok(Seen { took, all: hackbench.len() as u64, reached, given, ..Seen::default() })
}

/// The time of hackbench alone, and the number of messages that arrive.
fn alone(hackbench: Hackbench, host: Host, cpus: &[usize], seed: u64) -> Result<Seen, Failure> {
    let tasks = run(hackbench.alone().scenario()?, (host, cpus), 0, seed)?;
    let last = tasks.iter().map(|task| task.last).max().unwrap_or_default();
    // Each group has its senders first, then its receivers.
    let receivers = tasks.chunks(FAN as usize).skip(1).step_by(2).flatten();
    let reached = receivers.map(|task| task.steps).sum();
    let all = hackbench.messages().expect("it ends");
    Ok(Seen { all, reached, time: last.since(Time::ZERO), ..Seen::default() })
}

/// The notes of a task: the rounds of one of cyclictest; the number of times that it reached the second step of a round
/// (once a message, for a receiver); and its last step.
#[derive(Clone, Debug, Default)]
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
    let mut notes = vec![Notes::default(); scenario.instances().count()];
    notes[..threads].iter_mut().for_each(|it| it.rounds = Some(ROUNDS));
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
    use runyard_engine::time::Nanos;

    #[test]
    fn what_can_fail_is_that_somebody_does_not_run_or_a_message_is_lost() {
        let run = |reached| vec![Tried::quiet(Seen { all: 80, reached, ..Seen::default() })];
        let mut runs = vec![run(80); BESIDES.len() + GROUPS.len() * HOSTS.len()];
        (runs[SENSITIVE], runs[BESIDES.len() + HOSTS.len()]) = (run(79), run(79));
        let expected = [
            "tasks of hackbench that ran beside cyclictest at -20, live",
            "hackbench of 4 groups: messages that arrived, live",
        ];
        assert_eq!(failed(rows::claims(&rows(), &runs)), expected);
    }

    #[test]
    fn all_messages_arrive_on_both_hosts() {
        let cpus = machine::cpus().unwrap();
        let hackbench = Hackbench { groups: 2, loops: Some(2) };
        for (_, host) in HOSTS {
            let alone = alone(hackbench, host, &cpus, 1).unwrap();
            assert!(alone.reached == alone.all && alone.time > Nanos::ZERO, "{alone:?}");
        }
    }
}
