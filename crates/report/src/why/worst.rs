//! The worst wake-ups of one task.

use super::cause::Cause;
use super::judge::Piece;
use super::record::{Did, Who};
use super::reports::{RanReport, WorstReport};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};

/// The number of tasks that are named among those that ran meanwhile.
const NAMED: usize = 8;

/// A long wait.
#[derive(Clone, Debug)]
pub(crate) struct Bad {
    pub(crate) since: Time,
    pub(crate) latency: Nanos,
    pub(crate) cpu: CpuId,
    pub(crate) cause: Option<Cause>,
    /// The tasks that ran, the longest first.
    pub(crate) ran: Box<[(Who, u64)]>,
    pub(crate) others: u64,
}

/// The waits, the longest first; of two equal ones the earlier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worst(Vec<Bad>);

impl Worst {
    /// Whether a wait of this latency is among the `most` worst.
    #[inline]
    pub(crate) fn takes(&self, latency: Nanos, most: usize) -> bool {
        self.0.len() < most || self.0.last().is_some_and(|last| latency > last.latency)
    }

    pub(crate) fn add(&mut self, bad: Bad, most: usize) {
        let place = self.0.partition_point(|it| it.latency >= bad.latency);
        self.0.truncate(most - 1);
        self.0.insert(place.min(self.0.len()), bad);
    }

    pub(crate) fn all(&self) -> &[Bad] {
        &self.0
    }

    /// # Panics
    /// If they are not in order, the first is not the longest of all, or the running tasks sum to more than the
    /// latency.
    pub(crate) fn check(&self, longest: Option<Nanos>) {
        let sorted = |it: &[Bad]| it[0].latency >= it[1].latency;
        assert!(self.0.windows(2).all(sorted), "the longest is first: {self:?}");
        assert_eq!(self.0.first().map(|it| it.latency), longest, "the first is the longest of all");
        for it in &self.0 {
            let ran: u64 = it.ran.iter().map(|&(_, span)| span).sum();
            assert_eq!(ran + it.others, it.latency.0, "the parts of a wait are all of it: {it:?}");
        }
    }
}

impl Bad {
    /// The wait of `task` from `since` in these pieces, which are in order and no longer than its latency. `ran` is a
    /// buffer.
    pub(crate) fn new(
        task: Who,
        (since, latency): (Time, Nanos),
        cpu: CpuId,
        (pieces, ran): (&[Piece], &mut Vec<(Who, u64)>),
    ) -> Bad {
        let mut sums = [0; Cause::ALL.len()];
        ran.clear();
        for piece in pieces {
            let span = piece.to.since(piece.from).0;
            if let Some(cause) = piece.cause {
                sums[cause.broad() as usize] += span;
            }
            if let Some(Did::Exec { task: other, .. }) = piece.did
                && other != task
            {
                ran.push((other, span));
            }
        }
        merge(ran);
        ran.truncate(NAMED);
        let named: u64 = ran.iter().map(|&(_, span)| span).sum();
        let told = pieces.iter().filter_map(|piece| piece.cause.map(Cause::broad));
        // The first of the causes with the most time. A wait without a latency has none.
        let cause = told.min_by_key(|&cause| (std::cmp::Reverse(sums[cause as usize]), cause));
        let others = latency.0 - named;
        Bad { since, latency, cpu, cause, ran: ran.as_slice().into(), others }
    }

    /// The form for reports, with these names of tasks.
    pub(crate) fn report(&self, name: &dyn Fn(TaskId) -> String) -> WorstReport {
        let ran = |&(task, ns): &(Who, u64)| RanReport { task: name(TaskId(task.into())), ns };
        WorstReport {
            at_ns: self.since.0,
            latency_ns: self.latency.0,
            cpu: self.cpu.index(),
            cause: self.cause,
            ran: self.ran.iter().map(ran).collect(),
            others_ns: self.others,
        }
    }
}

/// Joins the entries of each task; the longest come first.
fn merge(ran: &mut Vec<(Who, u64)>) {
    ran.sort_unstable_by_key(|&(task, _)| task);
    ran.dedup_by(|again, kept| {
        let same = again.0 == kept.0;
        kept.1 += if same { again.1 } else { 0 };
        same
    });
    ran.sort_unstable_by_key(|&(task, span)| (std::cmp::Reverse(span), task));
}
