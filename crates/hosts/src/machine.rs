//! The machine that the hosts run on, as its kernel describes it.

pub use crate::cpus::cpus;
use runyard_engine::time::Nanos;
use std::path::Path;

/// The unit of `/proc/stat`, on every Linux (`USER_HZ`).
const STAT_UNIT: Nanos = Nanos::from_millis(10);

/// The kernel's counts since its start, over some CPUs; zero where it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) cpus: u64,
    pub(crate) idle: Nanos,
    /// The time that the host of a virtual machine took.
    pub(crate) stolen: Nanos,
}

impl Stat {
    /// The counts of all CPUs of the machine.
    pub(crate) fn now() -> Stat {
        Stat::read(&text("/proc/stat"))
    }

    /// The counts of these CPUs.
    pub(crate) fn of(cpus: &[usize]) -> Stat {
        Stat::read_of(&text("/proc/stat"), cpus)
    }

    /// Reads the text of `/proc/stat`.
    pub(crate) fn read(text: &str) -> Stat {
        let cpus = lines(text).count().saturating_sub(1) as u64;
        lines(text)
            .find(|(of, _)| of.is_empty())
            .map_or(Stat::default(), |(_, line)| Stat { cpus, ..Stat::counts(line) })
    }

    /// Reads the lines of these CPUs.
    pub(crate) fn read_of(text: &str, cpus: &[usize]) -> Stat {
        let of = |cpu: &str| cpu.parse().is_ok_and(|cpu| cpus.contains(&cpu));
        let counts = lines(text).filter(|(cpu, _)| of(cpu)).map(|(_, line)| Stat::counts(line));
        counts.fold(Stat::default(), |sum, one| Stat {
            cpus: sum.cpus + 1,
            idle: sum.idle + one.idle,
            stolen: sum.stolen + one.stolen,
        })
    }

    /// Reads a line, for one CPU or for all.
    fn counts(line: &str) -> Stat {
        // cpu user nice system idle iowait irq softirq steal
        let ticks = |at| Nanos(number(line, at).unwrap_or(0) * STAT_UNIT.0);
        Stat { cpus: 1, idle: ticks(4) + ticks(5), stolen: ticks(8) }
    }
}

/// The lines of `/proc/stat` about CPUs, each with the number of its CPU; that of all CPUs has none.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (name, _) = line.split_once(' ')?;
        Some((name.strip_prefix("cpu")?, line))
    })
}

/// The release of the running kernel, as `uname -r` prints it; `None` where it is unknown.
pub(crate) fn release() -> Option<String> {
    Some(text("/proc/sys/kernel/osrelease").trim().to_owned()).filter(|said| !said.is_empty())
}

/// The text of a file of the kernel's; empty if there is no such file.
fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The number at this position among the words of a text.
fn number(text: &str, at: usize) -> Option<u64> {
    text.split_whitespace().nth(at)?.parse().ok()
}

/// The time that threads of this process were ready to run and had no CPU of the machine, and the time that the
/// machine's host had none for it. Zero where the kernel does not provide them.
#[must_use]
pub fn taken() -> Nanos {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| number(&text(thread.path().join("schedstat")), 1));
    Nanos(waited.sum()) + Stat::now().stolen
}

/// The number of times that the present threads of this process gave up their CPU by themselves, because they had
/// nothing to do. `None` where the kernel does not provide it.
#[must_use]
pub fn voluntary_switches() -> Option<u64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let count = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        number_of(&status, "voluntary_ctxt_switches")
    };
    // A thread that has ended meanwhile has no file.
    threads.flatten().filter_map(count).reduce(|sum, more| sum + more)
}

/// The number after `name` and a colon at the beginning of a line, as in the kernel's files about threads.
pub(crate) fn number_of(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name)?.1.trim().parse().ok()
}
