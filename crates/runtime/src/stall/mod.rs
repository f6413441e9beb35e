//! Stalls: a poll that keeps its CPU for long is reported to the program, with its backtrace.
//!
//! This file has the types that users see. [`clock`] measures how long a poll lasts. [`watch`] detects stalls and calls
//! the program. `os::stack` and `os::unwind` take the backtrace. The design is in docs/design/watching.md.

mod clock;
mod watch;

pub(crate) use clock::PollClock;
pub(crate) use watch::Stalls;

use crate::group::quota::CpuQuota;
use crate::os;
use crate::os::sync::Arc;
use runyard_engine::attr::Policy;
use runyard_engine::task::TaskId;
use runyard_engine::time::Nanos;
use std::fmt;
use std::time::Duration;

/// A report of a poll that has lasted for long, as [`Builder::on_stall`](crate::Builder::on_stall) receives it.
///
/// Its `Display` is for people, and includes the backtrace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StallReport {
    /// The task's number.
    pub task: TaskId,
    /// The task's name, if it has one.
    pub name: Option<String>,
    /// The policy that was last asked for the task, with its priority or nice value.
    pub policy: Policy,
    /// The path of its group, if it is in one.
    pub group: Option<String>,
    /// How long the poll had lasted when the stall was detected.
    pub lasted: Duration,
    /// A lower bound of the CPU time that the poll had used by then, if the system reports it. It omits the first part
    /// of the poll, about a quarter of the limit.
    pub used: Option<Duration>,
    /// The limit of CPU time of the process, if it has one: time in which the kernel stops the process counts as time of
    /// the poll.
    pub quota: Option<CpuQuota>,
    /// The functions in which the poll was at that moment, or the reason why they are unknown.
    pub backtrace: Result<StallBacktrace, NoBacktrace>,
}

/// The functions in which a poll was, the innermost first, down to the runtime.
///
/// The backtrace ends at a function without unwind tables. The C library of programs that are linked with musl has
/// none. If a poll is in one of its functions, only that function is known.
///
/// The backtrace holds only addresses. `Display` looks up their functions each time. The first time that may take tens
/// of milliseconds, because it reads the program's debug information.
#[derive(Clone, Debug)]
pub struct StallBacktrace(Vec<usize>);

/// The reason why there is no backtrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoBacktrace {
    /// The runtime does not preempt tasks, so it cannot interrupt this one:
    /// [`Runtime::preempts`](crate::Runtime::preempts).
    Cooperative,
    /// The poll was over before it could be interrupted.
    PollEnded,
    /// The thread did not handle the signal within a second. It was stopped meanwhile, has the signal blocked, or is in
    /// a part of the kernel that no signal interrupts.
    NotHeard,
    /// The task runs on a stack that it has made itself.
    OtherStack,
}

impl StallBacktrace {
    /// Returns the addresses in the program. The first is that of the next instruction, and the others are return
    /// addresses.
    #[must_use]
    pub fn addresses(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for StallBacktrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, &address) in self.0.iter().enumerate() {
            // A return address lies behind its call, and is looked up as such. The first address is not a return
            // address.
            os::symbols::describe(
                nth,
                if nth == 0 { address.wrapping_add(1) } else { address },
                f,
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for NoBacktrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoBacktrace::Cooperative => "the runtime does not preempt tasks",
            NoBacktrace::PollEnded => "the poll was over before it could be interrupted",
            NoBacktrace::NotHeard => "its thread did not handle the signal in time",
            NoBacktrace::OtherStack => "the task runs on a stack that it has made itself",
        })
    }
}

impl std::error::Error for NoBacktrace {}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.task.0)?;
        if let Some(name) = &self.name {
            write!(f, " `{name}`")?;
        }
        write!(f, " ({}", self.policy)?;
        if let Some(group) = &self.group {
            write!(f, ", group {group}")?;
        }
        write!(f, ") has been in one poll for {:?}", self.lasted)?;
        if let Some(used) = self.used {
            write!(f, " and has used at least {used:?} of CPU time")?;
        }
        if let Some(quota) = self.quota.filter(|quota| quota.stops().is_some()) {
            write!(f, "\nCPU quota: {quota}")?;
        }
        match &self.backtrace {
            Ok(backtrace) => write!(f, "\n{backtrace}"),
            Err(why) => write!(f, "\nno backtrace: {why}"),
        }
    }
}

/// The function to be called, and the time after which a poll is a stall.
#[derive(Clone)]
pub(crate) struct OnStall {
    after: Nanos,
    call: Arc<dyn Fn(&StallReport) + Send + Sync>,
}

/// The shortest time for a stall. Some waits of the kernel for a CPU are longer.
const SHORTEST: Nanos = Nanos::from_micros(100);

impl OnStall {
    pub(crate) fn new(
        after: Duration,
        call: impl Fn(&StallReport) + Send + Sync + 'static,
    ) -> OnStall {
        OnStall { after: Nanos::from(after).max(SHORTEST), call: Arc::new(call) }
    }
}

impl fmt::Debug for OnStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStall").field("after", &self.after).finish_non_exhaustive()
    }
}
