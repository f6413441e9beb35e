//! The records of a recording, without its text.
//!
//! A gigabyte of text has seven million records, each with up to three names. Names repeat, so each is kept once, and a
//! record has 64 bytes.

use super::record::{Context, Left, Named, Record, What};
use std::collections::BTreeMap;

/// The events of a recording, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Records {
    all: Vec<Kept>,
    names: Names,
}

impl Records {
    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns one record.
    pub(super) fn get(&self, nth: usize) -> Record<'_> {
        self.all[nth].record(&self.names)
    }

    /// Returns the records in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Record<'_>> + ExactSizeIterator {
        self.from(0)
    }

    /// Returns the records from the `nth` on.
    pub(super) fn from(
        &self,
        nth: usize,
    ) -> impl DoubleEndedIterator<Item = Record<'_>> + ExactSizeIterator {
        self.all[nth..].iter().map(|kept| kept.record(&self.names))
    }

    pub(super) fn push(&mut self, record: &Record<'_>) {
        let kept = Kept::new(record, &mut self.names);
        self.all.push(kept);
    }

    /// Takes what a line of its call chain says of the last record: that it is of an interrupt, or, as long as no line
    /// says so, that it is not.
    pub(super) fn last_is_called(&mut self, by_interrupt: bool) {
        match self.all.last_mut() {
            Some(last) if by_interrupt => last.context = Context::Interrupt,
            Some(last) if last.context == Context::Unknown => last.context = Context::Task,
            _ => {}
        }
    }

    /// Gives the running task of each record that has no name for it one of `names`, by its number.
    pub(super) fn name_running(&mut self, names: &BTreeMap<u32, String>) {
        let Records { all, names: known } = self;
        for (tid, name) in all.iter_mut().filter_map(|kept| kept.who.as_mut()) {
            if known.get(*name).is_empty()
                && let Some(told) = names.get(tid)
            {
                *name = known.id(told);
            }
        }
    }

    /// Puts the records in the order of time. Those of equal times keep their order.
    pub(super) fn sort(&mut self) {
        self.all.sort_by_key(|kept| kept.at);
    }

    /// Returns the ranges of records that no gap longer than this divides, in nanoseconds.
    pub(super) fn parts(&self, longest_gap: u64) -> Vec<std::ops::Range<usize>> {
        let parts = self.all.chunk_by(|one, next| next.at - one.at <= longest_gap);
        let mut begin = 0;
        let range = |part: &[Kept]| {
            begin += part.len();
            begin - part.len()..begin
        };
        parts.map(range).collect()
    }

    /// Keeps only these records.
    pub(super) fn keep(&mut self, part: std::ops::Range<usize>) {
        self.all.truncate(part.end);
        self.all.drain(..part.start);
    }
}

/// The number of a name.
type NameId = u32;

/// Each name once.
#[derive(Clone, Debug, Default)]
struct Names {
    all: Vec<String>,
    ids: BTreeMap<String, NameId>,
}

impl Names {
    fn id(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = NameId::try_from(self.all.len()).expect("there is no room for so many names");
        self.all.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    fn get(&self, id: NameId) -> &str {
        &self.all[id as usize]
    }
}

/// A [`Record`] with numbers in place of names.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: u64,
    place: u32,
    cpu: u32,
    who: Option<(u32, NameId)>,
    context: Context,
    resched: bool,
    what: KeptWhat,
}

#[derive(Clone, Copy, Debug)]
struct KeptTask {
    comm: NameId,
    tid: u32,
    prio: i32,
}

/// A [`What`] with numbers in place of names.
#[derive(Clone, Copy, Debug)]
enum KeptWhat {
    Switch { prev: KeptTask, left: Left, next: KeptTask },
    Waking(KeptTask),
    Wakeup(KeptTask),
    New(KeptTask),
    Charged { tid: u32, nanos: Halves },
    Begins(Halves),
    Other,
}

/// A number of 64 bits in halves, which needs no gap before it.
#[derive(Clone, Copy, Debug)]
struct Halves([u32; 2]);

impl From<u64> for Halves {
    fn from(whole: u64) -> Halves {
        Halves([(whole >> 32) as u32, whole as u32])
    }
}

impl From<Halves> for u64 {
    fn from(Halves([high, low]): Halves) -> u64 {
        u64::from(high) << 32 | u64::from(low)
    }
}

impl Kept {
    fn new(record: &Record<'_>, names: &mut Names) -> Kept {
        let Record { place, at, cpu, who, context, resched, what } = *record;
        let mut task = |task: Named<'_>| KeptTask {
            comm: names.id(task.comm),
            tid: task.tid,
            prio: task.prio,
        };
        let what = match what {
            What::Switch { prev, left, next } => {
                KeptWhat::Switch { prev: task(prev), left, next: task(next) }
            }
            What::Waking(woken) => KeptWhat::Waking(task(woken)),
            What::Wakeup(woken) => KeptWhat::Wakeup(task(woken)),
            What::New(woken) => KeptWhat::New(task(woken)),
            What::Charged { tid, nanos } => KeptWhat::Charged { tid, nanos: nanos.into() },
            What::Begins(at) => KeptWhat::Begins(at.into()),
            What::Other => KeptWhat::Other,
        };
        let who = who.map(|(tid, comm)| (tid, names.id(comm)));
        Kept { at, place, cpu, who, context, resched, what }
    }

    fn record<'t>(&self, names: &'t Names) -> Record<'t> {
        let Kept { at, place, cpu, who, context, resched, what } = *self;
        let task =
            |task: KeptTask| Named { comm: names.get(task.comm), tid: task.tid, prio: task.prio };
        let what = match what {
            KeptWhat::Switch { prev, left, next } => {
                What::Switch { prev: task(prev), left, next: task(next) }
            }
            KeptWhat::Waking(woken) => What::Waking(task(woken)),
            KeptWhat::Wakeup(woken) => What::Wakeup(task(woken)),
            KeptWhat::New(woken) => What::New(task(woken)),
            KeptWhat::Charged { tid, nanos } => What::Charged { tid, nanos: nanos.into() },
            KeptWhat::Begins(at) => What::Begins(at.into()),
            KeptWhat::Other => What::Other,
        };
        let who = who.map(|(tid, comm)| (tid, names.get(comm)));
        Record { place, at, cpu, who, context, resched, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small() {
        assert_eq!(std::mem::size_of::<Kept>(), 64);
    }
}
