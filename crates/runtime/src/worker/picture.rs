//! The state of a worker, for the picture of a runtime that hangs: atomics only.

use super::Worker;
use crate::os::sync::Ordering;
use std::fmt;

impl Worker {
    pub(crate) fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (id, tid, cpu) = (self.id.0, self.tid().0, self.cpu());
        let (owns, runs) = (self.owns(), self.running.load(Ordering::Acquire));
        let polls = self.polling.load(Ordering::Relaxed) != u64::MAX;
        let wants = self.in_kernel.wants_slot();
        let since = self.baton.stopped_since().unwrap_or(0);
        let count = self.preempt_count.load(Ordering::Relaxed);
        let graces = self.graces.load(Ordering::Relaxed);
        let section = self.section.load(Ordering::Relaxed);
        write!(
            out,
            "worker {id}: thread {tid}, cpu {cpu}, owns {owns}, running {runs}, polls {polls}, "
        )?;
        write!(out, "wants a slot {wants}, stopped since {since}, preempt count {count}, ")?;
        writeln!(out, "graces {graces}, section {section}")
    }
}
