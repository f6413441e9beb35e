//! The machine that the hosts run on, as its kernel describes it.

pub use crate::cpus::cpus;
use runyard_engine::time::Nanos;

/// The unit of `/proc/stat`, on every Linux (`USER_HZ`).
const STAT_UNIT: Nanos = Nanos::from_millis(10);

/// How long threads of this process have been ready to run and had no CPU of the machine's, and how
/// long the machine itself had none of its host's. Zero, where the kernel does not say.
#[must_use]
pub fn taken() -> Nanos {
    let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let number = |text: &str, at| text.split_whitespace().nth(at).and_then(|n| n.parse().ok());
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| number(&text(thread.path().join("schedstat")), 1));
    // cpu user nice system idle iowait irq softirq steal
    let stolen = number(&text("/proc/stat".into()), 8).unwrap_or(0);
    Nanos(waited.sum::<u64>() + stolen * STAT_UNIT.0)
}

/// How many times the threads of this process that exist now gave up their CPU by themselves: each
/// time a thread had nothing to do. `None`, where the kernel does not say.
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

/// The number behind `name` and a colon at the beginning of a line, as the kernel tells of threads.
pub(crate) fn number_of(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name)?.1.trim().parse().ok()
}
