//! A program of the machine, such as `make`, in a task group of the kernel.
//!
//! A thread of this process enters the group and starts the program there. A new process is in the group of the thread
//! that starts it, in both versions of the kernel's interface. So no code of ours runs in the new process before the
//! program. Its children are in the group too.
//!
//! The kernel counts the CPU time and the switches of the processes that were waited for, the program's own children
//! included. A process that the program leaves behind is not counted.

use super::cgroup::Tree;
use crate::program::{Finished, Place, Refusal};
use runyard::kernel::{ChildUsage, children};
use runyard_engine::attr::GroupId;
use runyard_engine::limits::Limit;
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::Nanos;
use runyard_workload::scenario::TaskGroup;
use std::io::{self, ErrorKind};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// The group of the program, below the root of the run.
const GROUP: GroupId = GroupId(1);

/// Runs a program to its end, with an empty standard input. The kernel limits all CPUs together: a limit for each CPU
/// is multiplied by `cpus`. The caller runs one program at a time and no other children, since the kernel counts all
/// children of this process together.
///
/// # Errors
/// If the program is missing, cannot be put into the group, or does not exit with 0.
///
/// # Examples
/// ```
/// use runyard_hosts::linux::{Place, Refusal, run_program};
/// use std::process::Command;
///
/// let said = run_program(Command::new("echo").arg("hello"), 1, Place::Own)?.said;
/// assert_eq!(said, "hello\n");
/// let missing = run_program(&mut Command::new("no-such-program"), 1, Place::Own);
/// assert_eq!(missing.unwrap_err(), Refusal::NotInstalled);
/// # Ok::<(), Refusal>(())
/// ```
pub fn run_program(command: &mut Command, cpus: usize, place: Place) -> Result<Finished, Refusal> {
    let tree = match place {
        Place::Own => None,
        Place::Group(limit) => Some(Tree::make(&groups(limit), cpus).map_err(Refusal::NoGroups)?),
    };
    let before = children();
    let ran = std::thread::scope(|scope| {
        let starts = || start(command, tree.as_ref());
        let failed = |_| Err(Refusal::Failed("its thread ended".to_owned()));
        scope.spawn(starts).join().unwrap_or_else(failed)
    });
    let (took, said) = ran?;
    let used = since(before, children());
    let stat = tree.map(|tree| tree.stats()[GROUP.index()]).unwrap_or_default();
    Ok(Finished {
        took,
        user: used.user,
        system: used.system,
        switches: used.switches,
        periods: stat.nr_periods,
        throttled: stat.nr_throttled,
        said,
    })
}

/// The reason why the kernel makes no groups for a run on so many CPUs.
pub(crate) fn refuses_groups(cpus: usize) -> Option<String> {
    Tree::make(&groups(None), cpus).err()
}

/// The root of the run, and the program's group.
fn groups(limit: Option<Limit>) -> [TaskGroup; 2] {
    let group = |path: &str, spec| TaskGroup { path: path.to_owned(), spec, cpuset: None };
    let program = GroupSpec { limit, ..GroupSpec::ROOT };
    [group("/", GroupSpec::ROOT), group("/program", program)]
}

/// Enters the group and runs the program there.
fn start(command: &mut Command, tree: Option<&Tree>) -> Result<(Nanos, String), Refusal> {
    if let Some(tree) = tree {
        tree.enter(Some(GROUP)).map_err(Refusal::NoGroups)?;
    }
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().map_err(|error| refusal(&error))?;
    let took = Nanos::from(began.elapsed());
    Ok((took, said(&output)?))
}

fn refusal(error: &io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::NotFound => Refusal::NotInstalled,
        _ => Refusal::Failed(error.to_string()),
    }
}

/// The text of a program that exited with 0.
fn said(output: &Output) -> Result<String, Refusal> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    if output.status.success() {
        return Ok(said);
    }
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(Refusal::Failed(format!("{}: {last}", output.status)))
}

fn since(before: ChildUsage, after: ChildUsage) -> ChildUsage {
    ChildUsage {
        user: after.user.saturating_sub(before.user),
        system: after.system.saturating_sub(before.system),
        switches: after.switches.saturating_sub(before.switches),
    }
}
