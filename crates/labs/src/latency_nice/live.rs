//! The experiments on this machine's CPUs: cyclictest beside hackbench, and hackbench alone, on the runtime and as
//! kernel threads.
//!
//! Only the duties of a scheduler can fail, whatever else the machine does: all messages arrive, and sensitive tasks
//! keep no other task from running. Times are shown. The machine's own scheduler decides when a worker of the runtime
//! has a CPU, and it knows nothing of latency nice. Where other processes want the CPUs too, the runtime is one thread
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
use crate::progress;
use runyard_engine::attr::{LatencyNice, Slice};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::Failure;
use runyard_hosts::clock::process_cpu_time;
use runyard_hosts::linux::Ground;
use runyard_hosts::play::{Plan, Watch};
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_hosts::{linux, live, machine};
use runyard_report::Histogram;
use runyard_workload::Scenario;
use std::fmt::Write as _;
use std::time::Instant;

/// The number of groups of hackbench for each CPU beside cyclictest, as in the document, and the largest number of
/// groups: a group is forty threads.
const GROUPS_PER_CPU: u32 = 2;
const MOST_GROUPS: u32 = 16;

/// The number of messages that a sender of one group writes to a receiver.
const LOOPS: u32 = 80;

/// The number of runs of `--soak`.
const SOAK_RUNS: u64 = 20;

/// Runs the experiments once on this machine, or 20 times in a soak.
///
/// # Errors
/// If the machine refuses something.
pub fn live(length: Length) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?;
    let runs = length.pick(1, SOAK_RUNS);
    let measured = LiveFigures::of(&cpus, runs)?;
    let (name, host) = ("latency-nice".to_owned(), "live".to_owned());
    let experiment = Experiment { name, host, claims: measured.claims() };
    let text = format!(
        "latency-nice on live: {} CPUs, cyclictest at latency nice 0 and then -20; on linux at \
         nice 0 and then with a slice of 0.1 ms\n\n{}\n{}\n{}\n",
        cpus.len(),
        experiment.table(),
        cyclictest::text(&measured.latencies()),
        measured.times()
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
    beside: [Option<Beside>; 4],
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
    fn of(cpus: &[usize], runs: u64) -> Result<LiveFigures, Failure> {
        let bar = progress::bar("runs", runs * (4 + 2 * throughput::GROUPS.len() as u64));
        let mut measured = LiveFigures {
            beside: [const { None }; 4],
            alone: vec![Alone::default(); throughput::GROUPS.len()],
        };
        let zero = latency_nice(0);
        let cases = [
            (Host::Live, zero, None),
            (Host::Live, latency_nice(-20), None),
            (Host::Linux, zero, None),
            (Host::Linux, zero, Some(Slice::MIN)),
        ];
        for seed in 1..=runs {
            for (sum, (host, nice, slice)) in measured.beside.iter_mut().zip(cases) {
                if slice.is_none() || kernel_takes(slice) {
                    let one = Beside::of((host, nice, slice), cpus, seed)?;
                    *sum = Some(match sum.take() {
                        Some(sum) => sum.and(&one),
                        None => one,
                    });
                }
                bar.inc(1);
            }
            for (sum, groups) in measured.alone.iter_mut().zip(throughput::GROUPS) {
                let hackbench = throughput::size(groups, LOOPS);
                let (time, arrived) = alone(hackbench, Host::Live, cpus, seed)?;
                sum.live += time;
                sum.arrived += arrived;
                sum.sent += hackbench.messages().expect("it ends");
                bar.inc(1);
                sum.linux += alone(hackbench, Host::Linux, cpus, seed)?.0;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(measured)
    }

    fn claims(&self) -> Vec<Claim> {
        let claim = |what: &str, unit, before, after, verdict| {
            Figure { what, unit, before: None, after: None }.claim(before, after, verdict)
        };
        let latency = |at: usize| self.beside[at].as_ref().map(|beside| &beside.latency);
        let mut claims = Vec::new();
        for (host, at) in [("live", 0), ("linux", 2)] {
            for (which, of) in cyclictest::FIGURES {
                let what = format!("cyclictest beside hackbench: {which}, {host}");
                let [before, after] = [at, at + 1].map(|at| latency(at).map(of));
                claims.push(claim(&what, "us", before, after, ClaimVerdict::Shown));
            }
            let what = format!("cyclictest beside hackbench: CPU time that was used, {host}");
            let used = |at: usize| Some(percent(self.beside[at].as_ref()?.used));
            claims.push(claim(&what, "%", used(at), used(at + 1), ClaimVerdict::Shown));
        }
        let ran = self.beside[1].as_ref().map(|beside| beside.ran as f64 / beside.tasks as f64);
        let what = "tasks of hackbench that ran beside cyclictest at -20, live";
        claims.push(claim(what, "%", None, ran.map(percent), ClaimVerdict::of(ran == Some(1.0))));
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
        let each = names.iter().zip(&self.beside);
        let known = each.filter_map(|(name, beside)| Some((name, beside.as_ref()?)));
        known.map(|(&name, beside)| (name.to_owned(), beside.latency.clone())).collect()
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

    /// Adds another run. Of the CPU time used, the less counts.
    fn and(mut self, other: &Beside) -> Beside {
        self.latency.merge(&other.latency);
        let (tasks, ran) = (self.tasks + other.tasks, self.ran + other.ran);
        Beside { tasks, ran, used: self.used.min(other.used), ..self }
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
mod tests {
    use super::*;

    fn measured() -> LiveFigures {
        let mut latency = Histogram::default();
        latency.record(Nanos::from_micros(7));
        let beside = Beside { latency, tasks: 80, ran: 80, used: 0.5 };
        let time = Nanos::from_millis(5);
        let alone = Alone { sent: 400, arrived: 400, live: time, linux: time };
        LiveFigures {
            beside: [Some(beside.clone()), Some(beside.clone()), Some(beside), None],
            alone: vec![alone; throughput::GROUPS.len()],
        }
    }

    fn failed(measured: &LiveFigures) -> Vec<String> {
        let claims = measured.claims().into_iter();
        claims.filter(|claim| !claim.verdict.holds()).map(|claim| claim.what).collect()
    }

    #[test]
    fn what_can_fail_is_that_somebody_does_not_run_or_a_message_is_lost() {
        assert_eq!(failed(&measured()), [""; 0]);
        let mut starved = measured();
        starved.beside[1].as_mut().unwrap().ran = 79;
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
