//! A program of the machine in a task group of the kernel: where it runs, and what comes of it.

use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;

/// The place where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The command's own group.
    Own,
    /// A new group of the default weight, below a group of the run. Without a limit it may use all CPUs.
    Group(Option<Limit>),
}

/// The results of a program that ended well.
#[derive(Clone, Debug)]
pub struct Finished {
    /// From its start to its end.
    pub took: Nanos,
    /// CPU time in its own code, its children included.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// How often its processes gave a CPU away or lost it.
    pub switches: u64,
    /// The periods of its group that had begun; `None` in the command's own group, and if the kernel does not count.
    pub periods: Option<u64>,
    /// The periods in which its group had used up its limit; `None` as above.
    pub throttled: Option<u64>,
    /// Its standard output, and then its standard error.
    pub said: String,
}

/// The reason why a program has no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such program is on the path.
    NotInstalled,
    /// The kernel makes no groups for this process; the text says why.
    NoGroups(String),
    /// The program did not start, or it failed; the text says how.
    Failed(String),
}
