//! All waits of a task in a part of the run, by cause and by those who caused them.

use super::cause::Cause;
use super::judge::Piece;
use super::record::{Did, Who, who};
use crate::names::Names;
use runyard_engine::attr::GroupId;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// The time that one task or task group caused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlameReport {
    /// The cause.
    pub cause: Cause,
    /// The task that executed on the CPU meanwhile; `None` if none did.
    pub task: Option<String>,
    /// The task group whose budget was used up; `None` if that is not the cause.
    pub group: Option<String>,
    /// The time.
    pub ns: u64,
}

/// The sums of a task's waits in a part of the run.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) task: TaskId,
    pub(super) span: Range<Time>,
    sums: BTreeMap<(Cause, Option<Who>, Option<GroupId>), u64>,
}

impl Told {
    pub(super) fn new(task: TaskId, span: Range<Time>) -> Told {
        Told { task, span, sums: BTreeMap::new() }
    }

    /// Adds a wait of the task.
    pub(super) fn add(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            let (from, to) = (piece.from.max(self.span.start), piece.to.min(self.span.end));
            let Some(cause) = piece.cause.filter(|_| from < to) else { continue };
            let executes = match piece.did {
                Some(Did::Exec { task, .. }) if piece.group.is_none() => Some(task),
                _ => None,
            };
            let by = executes.filter(|&task| task != who(self.task));
            *self.sums.entry((cause, by, piece.group)).or_default() += to.since(from).0;
        }
    }

    /// The sums, the longest first.
    pub(super) fn report(&self, names: &dyn Names) -> Vec<BlameReport> {
        let report =
            |(&(cause, task, group), &ns): (&(Cause, Option<Who>, Option<GroupId>), &u64)| {
                let task = task.map(|task| names.task(TaskId(task.into())));
                BlameReport { cause, task, group: group.map(|group| names.group(group)), ns }
            };
        let mut all: Vec<_> = self.sums.iter().map(report).collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.ns));
        all
    }
}
