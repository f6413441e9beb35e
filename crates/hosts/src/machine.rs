//! The machine that the hosts run on, as its kernel describes it.

pub use crate::cpus::cpus;
use crate::stat::Stat;
use runyard_engine::time::Nanos;
use std::path::Path;

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
    Nanos(waited.sum()) + Nanos(Stat::now(None).stolen_ns)
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
