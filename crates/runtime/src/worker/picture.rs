//! The state of a worker, for the picture of a runtime that hangs: atomics only.

use super::Worker;
use std::fmt;

impl Worker {
    pub(crate) fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (id, tid, cpu) = (self.thread.id().0, self.thread.tid().0, self.thread.cpu());
        let (owns, runs) = (self.thread.owns(), self.part.is_here());
        let polls = self.poll.place().is_some();
        let wants = self.part.wants_slot();
        let since = self.thread.baton().stopped_since().unwrap_or(0);
        let count = self.own.count();
        let graces = self.graces.nr();
        let section = self.section.number();
        write!(
            out,
            "worker {id}: thread {tid}, cpu {cpu}, owns {owns}, running {runs}, polls {polls}, "
        )?;
        write!(out, "wants a slot {wants}, stopped since {since}, preempt count {count}, ")?;
        writeln!(out, "graces {graces}, section {section}")
    }
}
