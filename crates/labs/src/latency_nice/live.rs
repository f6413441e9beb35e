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

use super::cyclictest::{self, PERIOD, Stretch};
use super::hackbench::{FAN, Hackbench};
use super::rounds::Rounds;
use super::shipped::{CYCLICTEST, latency_nice};
use super::throughput;
use crate::claims::{Claim, ClaimVerdict, Experiment, Reproduced};
use crate::figure::{Figure, percent};
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried, deciding, verdict};
use runyard_engine::attr::{LatencyNice, Slice};
use runyard_engine::kernel;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::clock::process_cpu_time;
use runyard_hosts::linux::Ground;
use runyard_hosts::play::{Plan, Watch};
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_hosts::{linux, live, machine};
use runyard_outcome::Failure;
use runyard_report::Histogram;
use runyard_workload::Scenario;
use std::fmt::Write as _;
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
pub fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?;
    let runs = length.pick(1, SOAK_RUNS);
    let each = 4 * BESIDE + 2 * throughput::GROUPS.len() as u32 * ALONE;
    let mut course = Course::new(length, each * runs as u32 + price::TAKES, progress);
    let price = price::measured(kernel::Experiment::LatencyNice, cpus.len(), &mut course)?;
    let measured = LiveFigures::of(&cpus, runs, &mut course)?;
    let (name, host) = ("latency-nice".to_owned(), "live".to_owned());
    let mut claims = measured.claims();
    claims.extend(price::claims(&price));
    let experiment = Experiment { name, host, claims };
    let text = format!(
        "latency-nice on live: {} CPUs, cyclictest at latency nice 0 and then -20; on linux at \
         nice 0 and then with a slice of 0.1 ms\n\n{}\n{}\n{}\n{}",
        cpus.len(),
        experiment.table(),
        cyclictest::text(&measured.latencies()),
        measured.times(),
        price::text(&price)
    );
    Ok(Reproduced { experiment, text })
}

/// The host of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Live,
    Linux,
}

/// The results of the runs.
#[derive(Clone, Debug)]
struct LiveFigures {
    /// The results on the runtime at 0 and at -20, and on Linux without a slice and, where it takes one, with a slice.
    beside: [Vec<Tried<Beside>>; 4],
    /// The results of hackbench alone, for each of [`throughput::GROUPS`].
    alone: Vec<Alone>,
}

/// The results of cyclictest beside hackbench.
#[derive(Clone, Debug)]
struct Beside {
    latency: Histogram,
    /// The number of hackbench's tasks, and of those that reached their second step.
    tasks: u64,
    ran: u64,
    /// The fraction of the CPUs that this process used: less than all, where the machine did not give more or where its
    /// threads waited for each other.
    used: f64,
}

/// The results of hackbench alone: the messages sent and received on the runtime, and the times there and on Linux.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    sent: u64,
    arrived: u64,
    live: Nanos,
    linux: Nanos,
}

impl LiveFigures {
    fn of(cpus: &[usize], runs: u64, course: &mut Course<'_>) -> Result<LiveFigures, Failure> {
        let mut measured = LiveFigures {
            beside: [const { Vec::new() }; 4],
            alone: vec![Alone::default(); throughput::GROUPS.len()],
        };
        let zero = latency_nice(0);
        let cases = [
            ("cyclictest at 0, live", Host::Live, zero, None),
            ("cyclictest at -20, live", Host::Live, latency_nice(-20), None),
            ("cyclictest at nice 0, linux", Host::Linux, zero, None),
            ("cyclictest with a slice of 0.1 ms, linux", Host::Linux, zero, Some(Slice::MIN)),
        ];
        for seed in 1..=runs {
            // Hackbench alone takes as long as the machine makes it, and is not repeated. So it comes first.
            for (sum, groups) in measured.alone.iter_mut().zip(throughput::GROUPS) {
                let hackbench = throughput::size(groups, LOOPS);
                let name = throughput::name(groups);
                let run = |host| move || alone(hackbench, host, cpus, seed);
                let (time, arrived) =
                    course.once(&format!("{name}, live"), ALONE, run(Host::Live))?;
                sum.live += time;
                sum.arrived += arrived;
                sum.sent += hackbench.messages().expect("it ends");
                sum.linux += course.once(&format!("{name}, linux"), ALONE, run(Host::Linux))?.0;
            }
            for (runs, (what, host, nice, slice)) in measured.beside.iter_mut().zip(cases) {
                if slice.is_none() || kernel_takes(slice) {
                    runs.push(course.quiet(what, BESIDE, |attempt| {
                        let seed = seed + (u64::from(attempt) << u32::BITS);
                        Beside::of((host, nice, slice), cpus, seed)
                    })?);
                }
            }
        }
        Ok(measured)
    }

    /// The latencies of a case in all runs, if there is one.
    fn latency(&self, at: usize) -> Option<Histogram> {
        let latencies = self.beside[at].iter().map(|run| run.result.latency.clone());
        latencies.reduce(|mut sum, one| {
            sum.merge(&one);
            sum
        })
    }

    /// The least CPU time that was used in a run of a case.
    fn used(&self, at: usize) -> Option<f64> {
        self.beside[at].iter().map(|run| run.result.used).min_by(f64::total_cmp)
    }

    fn claims(&self) -> Vec<Claim> {
        let claim = |what: &str, unit, before, after, verdict| {
            Figure { what, unit, before: None, after: None }.claim(before, after, verdict)
        };
        let mut claims = Vec::new();
        for (host, at) in [("live", 0), ("linux", 2)] {
            for (which, of) in cyclictest::FIGURES {
                let what = format!("cyclictest beside hackbench: {which}, {host}");
                let [before, after] = [at, at + 1].map(|at| self.latency(at).as_ref().map(of));
                claims.push(claim(&what, "us", before, after, ClaimVerdict::Shown));
            }
            let what = format!("cyclictest beside hackbench: CPU time that was used, {host}");
            let [before, after] = [at, at + 1].map(|at| self.used(at).map(percent));
            claims.push(claim(&what, "%", before, after, ClaimVerdict::Shown));
        }
        let sensitive = &self.beside[1];
        let part = |run: &Beside| run.ran as f64 / run.tasks as f64;
        let ran = deciding(sensitive).into_iter().map(part).min_by(f64::total_cmp);
        let what = "tasks of hackbench that ran beside cyclictest at -20, live";
        let all = verdict(sensitive, ran == Some(1.0));
        claims.push(claim(what, "%", None, ran.map(percent), all));
        for (groups, alone) in throughput::GROUPS.into_iter().zip(&self.alone) {
            let name = throughput::name(groups);
            let arrived = alone.arrived as f64 / alone.sent as f64;
            let all = ClaimVerdict::of(alone.arrived == alone.sent);
            let what = format!("{name}: messages that arrived, live");
            claims.push(claim(&what, "%", None, Some(percent(arrived)), all));
            for (host, time) in [("live", alone.live), ("linux", alone.linux)] {
                let what = format!("{name}: time, {host}");
                let time = Some(throughput::millis(time));
                claims.push(claim(&what, "ms", None, time, ClaimVerdict::Shown));
            }
        }
        claims
    }

    fn latencies(&self) -> Vec<(String, Histogram)> {
        let names = ["live, latency nice 0", "live, -20", "linux, nice 0", "linux, slice 0.1 ms"];
        let each = names.iter().enumerate();
        each.filter_map(|(at, &name)| Some((name.to_owned(), self.latency(at)?))).collect()
    }

    /// The times of hackbench on both hosts, one line each.
    fn times(&self) -> String {
        let mut text = format!("{:<24}  {:>9}  {:>9}\n", "hackbench, ms", "live", "linux");
        for (groups, alone) in throughput::GROUPS.into_iter().zip(&self.alone) {
            let [live, linux] = [alone.live, alone.linux].map(throughput::millis);
            let _ = writeln!(text, "{:<24}  {live:>9.2}  {linux:>9.2}", throughput::name(groups));
        }
        text
    }
}

/// Whether the kernel gives a thread this slice.
fn kernel_takes(slice: Option<Slice>) -> bool {
    let asks = move || runyard::kernel::set_slice(slice.map(Slice::get));
    // The asking thread keeps the slice, so it is a thread of its own.
    std::thread::spawn(asks).join().unwrap_or(false)
}

impl Beside {
    fn of(
        (host, nice, slice): (Host, LatencyNice, Option<Slice>),
        cpus: &[usize],
        seed: u64,
    ) -> Result<Beside, Failure> {
        let threads = cpus.len() as u32;
        let groups = (GROUPS_PER_CPU * threads).min(MOST_GROUPS);
        let mut scenario = cyclictest::scenario(nice, groups);
        let it = &mut scenario.tasks[CYCLICTEST.index()];
        (it.instances, it.properties.slice) = (threads, slice);
        scenario.duration = Some(Stretch::SHORT.end());
        let (begun, used) = (Instant::now(), process_cpu_time());
        let watched = run(scenario, (host, cpus), threads as usize, seed)?;
        let (wall, used) = (begun.elapsed().as_nanos() as f64, process_cpu_time() - used);
        let used = used.0 as f64 / (wall * cpus.len() as f64);
        let rounds = watched.cyclictest.iter().map(|rounds| lock(rounds).clone());
        let latency = Rounds::sum(rounds).expect("there is a CPU").latency;
        let tasks = watched.hackbench.len() as u64;
        let ran = watched.hackbench.iter().filter(|task| lock(task).steps > 0).count() as u64;
        Ok(Beside { latency, tasks, ran, used })
    }
}

/// The time of hackbench alone, and the number of messages that arrive.
fn alone(
    hackbench: Hackbench,
    host: Host,
    cpus: &[usize],
    seed: u64,
) -> Result<(Nanos, u64), Failure> {
    let watched = run(throughput::scenario(hackbench), (host, cpus), 0, seed)?;
    let tasks: Vec<_> = watched.hackbench.iter().map(|task| *lock(task)).collect();
    let last = tasks.iter().map(|task| task.last).max().unwrap_or_default();
    // Each group has its senders first, then its receivers.
    let receivers = tasks.chunks(FAN as usize).skip(1).step_by(2).flatten();
    Ok((last.since(Time::ZERO), receivers.map(|task| task.steps).sum()))
}

/// Runs `scenario`. Its first `threads` are cyclictest, all others are hackbench.
fn run(
    scenario: Scenario,
    (host, cpus): (Host, &[usize]),
    threads: usize,
    seed: u64,
) -> Result<Arc<Watched>, Failure> {
    let rounds = || Mutex::new(Rounds::new(PERIOD, PERIOD, Stretch::SHORT.from()));
    let others = scenario.instances().count() - threads;
    let watched = Arc::new(Watched {
        cyclictest: (0..threads).map(|_| rounds()).collect(),
        hackbench: (0..others).map(|_| Mutex::default()).collect(),
    });
    let plan = Plan { watch: Some(watched.clone()), ..Plan::new(scenario, seed) };
    match host {
        Host::Live => drop(live::run(plan, cpus.len(), Arc::new(Mutex::new(())))?),
        Host::Linux => drop(linux::run(plan, Ground::new(cpus.to_vec()))?),
    }
    Ok(watched)
}

/// Notes the steps of tasks, each under a lock of its own.
#[derive(Debug)]
struct Watched {
    cyclictest: Vec<Mutex<Rounds>>,
    hackbench: Vec<Mutex<Noted>>,
}

/// The notes about a task of hackbench: the number of times that it reached the second step of a round (once a message,
/// for a receiver), and its last step.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    steps: u64,
    last: Time,
}

impl Watch for Watched {
    fn step(&self, task: TaskId, step: usize, now: Time) {
        if let Some(rounds) = self.cyclictest.get(task.index()) {
            return lock(rounds).step(step, now);
        }
        let mut noted = lock(&self.hackbench[task.index() - self.cyclictest.len()]);
        noted.steps += u64::from(step == 1);
        noted.last = now;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn quiet(beside: &Beside) -> Tried<Beside> {
        Tried { result: beside.clone(), disturbed: None }
    }

    fn measured() -> LiveFigures {
        let mut latency = Histogram::default();
        latency.record(Nanos::from_micros(7));
        let beside = Beside { latency, tasks: 80, ran: 80, used: 0.5 };
        let time = Nanos::from_millis(5);
        let alone = Alone { sent: 400, arrived: 400, live: time, linux: time };
        LiveFigures {
            beside: [vec![quiet(&beside)], vec![quiet(&beside)], vec![quiet(&beside)], vec![]],
            alone: vec![alone; throughput::GROUPS.len()],
        }
    }

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let mut claims = measured().claims();
        claims.extend(price::tests::named());
        claims
    }

    fn failed(measured: &LiveFigures) -> Vec<String> {
        let claims = measured.claims().into_iter();
        claims.filter(|claim| claim.verdict.fails()).map(|claim| claim.what).collect()
    }

    #[test]
    fn what_can_fail_is_that_somebody_does_not_run_or_a_message_is_lost() {
        assert_eq!(failed(&measured()), [""; 0]);
        let mut starved = measured();
        starved.beside[1][0].result.ran = 79;
        assert_eq!(
            failed(&starved),
            ["tasks of hackbench that ran beside cyclictest at -20, live"]
        );
        let mut lost = measured();
        lost.alone[1].arrived = 399;
        assert_eq!(failed(&lost), ["hackbench of 4 groups: messages that arrived, live"]);
    }

    #[test]
    fn a_kernel_without_slices_leaves_their_figures_open() {
        let claims = measured().claims();
        let of = |host: &str| claims.iter().find(|claim| claim.what.ends_with(host)).unwrap();
        assert_eq!(
            (of("mean latency, live").after, of("mean latency, linux").after),
            (Some(7.0), None)
        );
        assert_eq!(measured().latencies().len(), 3);
    }

    #[test]
    fn all_messages_arrive_on_both_hosts() {
        let cpus = machine::cpus().unwrap();
        let hackbench = Hackbench { groups: 2, loops: Some(2) };
        for host in [Host::Live, Host::Linux] {
            let (time, arrived) = alone(hackbench, host, &cpus, 1).unwrap();
            assert_eq!(Some(arrived), hackbench.messages(), "{host:?}");
            assert!(time > Nanos::ZERO);
        }
    }
}
