//! The state of a worker, for the picture of a runtime that hangs: atomics only.

use super::Worker;
use crate::os::sync::Ordering;
use std::fmt;

impl Worker {
    pub(crate) fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (id, tid, cpu) = (self.id.0, self.tid().0, self.cpu());
        let (owns, runs) = (self.owns(), self.part.is_here.load(Ordering::Acquire));
        let polls = self.poll.place().is_some();
        let wants = self.part.in_kernel.wants_slot();
        let since = self.baton.stopped_since().unwrap_or(0);
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
