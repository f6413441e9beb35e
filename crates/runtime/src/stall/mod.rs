//! Stalls: a poll that keeps its CPU for long is reported to the program, with its backtrace.
//!
//! Here is what users see. When a poll began and how long it lasted: [`clock`]. Who looks, and calls the program:
//! [`watch`]. How the backtrace is taken: `os::stack` and `os::unwind`. Page: docs/design/watching.md.

mod clock;
mod watch;

pub(crate) use clock::PollClock;
pub(crate) use watch::{Stalls, run};

use crate::os;
use crate::os::sync::Arc;
use runyard_engine::attr::Policy;
use runyard_engine::task::TaskId;
use runyard_engine::time::Nanos;
use std::fmt;
use std::time::Duration;

/// A poll that has lasted for long: what [`Builder::on_stall`](crate::Builder::on_stall) is told.
///
/// Its `Display` is for people, and has the backtrace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StallReport {
    /// The task's number.
    pub task: TaskId,
    /// The name that it was given.
    pub name: Option<String>,
    /// The policy that was asked for it last, with its priority or nice value.
    pub policy: Policy,
    /// The path of its group, if it is in one.
    pub group: Option<String>,
    /// For how long its poll had lasted when that was seen.
    pub lasted: Duration,
    /// How much CPU time the poll had used then at the least, if the system says. The first part of a poll, a quarter of
    /// the limit or so, is not in it.
    pub used: Option<Duration>,
    /// Where the poll was at that moment, or why that is not known.
    pub backtrace: Result<StallBacktrace, NoBacktrace>,
}

/// Where a poll was: the functions in which it was, the innermost first, down to the runtime.
///
/// It ends at a function that has no unwind tables. The C library of programs that are linked with musl has none: of a
/// poll that is in one of its functions, only that function is known.
///
/// It has addresses only. `Display` looks up which functions they are, each time; that may take tens of milliseconds
/// the first time, as the program's debug information is read.
#[derive(Clone, Debug)]
pub struct StallBacktrace(Vec<usize>);

/// Why there is no backtrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoBacktrace {
    /// The runtime does not stop tasks, so it cannot interrupt this one: [`Runtime::preempts`](crate::Runtime::preempts).
    Cooperative,
    /// The poll was over before it could be interrupted.
    PollEnded,
    /// Its thread did not hear the signal within a second: it was stopped meanwhile, is deaf to the signal, or does
    /// something in the kernel that no signal interrupts.
    NotHeard,
    /// It runs on a stack that it has made itself.
    OtherStack,
}

impl StallBacktrace {
    /// The addresses in the program: first that of the instruction that was next, then return addresses.
    #[must_use]
    pub fn addresses(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for StallBacktrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, &address) in self.0.iter().enumerate() {
            // A return address is behind its call, and looked up so; the first one is no return address.
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
            NoBacktrace::Cooperative => "the runtime does not stop tasks",
            NoBacktrace::PollEnded => "the poll was over before it could be interrupted",
            NoBacktrace::NotHeard => "its thread did not hear the signal",
            NoBacktrace::OtherStack => "it runs on a stack that it has made itself",
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
            write!(f, " and has used {used:?} of CPU time at the least")?;
        }
        match &self.backtrace {
            Ok(backtrace) => write!(f, "\n{backtrace}"),
            Err(why) => write!(f, "\nno backtrace: {why}"),
        }
    }
}

/// What is to be called, and after how long.
#[derive(Clone)]
pub(crate) struct OnStall {
    after: Nanos,
    call: Arc<dyn Fn(&StallReport) + Send + Sync>,
}

/// The shortest stall: less than some waits of the kernel for a CPU.
const SHORTEST: Nanos = Nanos::from_micros(100);

impl OnStall {
    pub(crate) fn new(
        after: Duration,
        call: impl Fn(&StallReport) + Send + Sync + 'static,
    ) -> OnStall {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        OnStall { after: Nanos(after).max(SHORTEST), call: Arc::new(call) }
    }
}

impl fmt::Debug for OnStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStall").field("after", &self.after).finish_non_exhaustive()
    }
}
