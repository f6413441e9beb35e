//! The machine that the command runs on, as the hosts with real CPUs use it.

use crate::Failure;
use crate::output;
use runyard_engine::time::Nanos;
use runyard_report::CpuReport;
use runyard_workload::Scenario;
use rustix::thread::{CpuSet, sched_getaffinity};

/// The machine's numbers of the CPUs that a run uses: those that this process may, or the first
/// `wanted` of them.
pub(crate) fn cpus(wanted: Option<usize>) -> Result<Vec<usize>, Failure> {
    let allowed = sched_getaffinity(None)
        .map_err(|error| Failure::Refused(format!("the CPUs of this process: {error}")))?;
    let mut cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let there = cpus.len();
    if let Some(wanted) = wanted.filter(|&wanted| wanted > there) {
        return Err(Failure::input(format_args!("--cpus {wanted}: there are {there} CPUs here")));
    }
    cpus.truncate(wanted.unwrap_or(there));
    Ok(cpus)
}

/// Says that the task groups of a scenario have no effect on `host`.
pub(crate) fn warn_of_groups(host: &str, why: &str) {
    output::say(format_args!("warning: {host} makes no task groups, all tasks are in /: {why}"));
}

/// Says what else of a scenario has no effect on `host`.
pub(crate) fn warn(scenario: &Scenario, host: &str) {
    if scenario.pi_enabled {
        output::say(format_args!("warning: {host} inherits no priorities: pi_enabled is off"));
    }
}

/// A CPU of which a host knows nothing but that it is there.
pub(crate) fn unknown_cpu(cpu: usize) -> CpuReport {
    CpuReport { cpu, ..CpuReport::default() }
}

/// The unit of `/proc/stat`, on every Linux (`USER_HZ`).
const STAT_UNIT: Nanos = Nanos::from_millis(10);

/// How long threads of this process have been ready to run and had no CPU of the machine's, and how
/// long the machine itself had none of its host's. Nothing, where the kernel does not say.
pub(crate) fn taken() -> Nanos {
    let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let number = |text: &str, at| text.split_whitespace().nth(at).and_then(|n| n.parse().ok());
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| number(&text(thread.path().join("schedstat")), 1));
    // cpu user nice system idle iowait irq softirq steal
    let stolen = number(&text("/proc/stat".into()), 8).unwrap_or(0);
    Nanos(waited.sum::<u64>() + stolen * STAT_UNIT.0)
}

/// How many times the threads of this process that there are gave up their CPU by themselves: each time
/// there was nothing to do for one. Nothing, where the kernel does not say.
pub(crate) fn voluntary_switches() -> Option<u64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let count = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        number_of(&status, "voluntary_ctxt_switches")
    };
    // One that has ended meanwhile has no file.
    threads.flatten().filter_map(count).reduce(|sum, more| sum + more)
}

/// The number behind `name` and a colon at the beginning of a line, as the kernel tells of threads.
pub(crate) fn number_of(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name)?.1.trim().parse().ok()
}
