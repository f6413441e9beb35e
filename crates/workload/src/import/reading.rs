//! What the readers of all formats find in a recording: records, and what is odd about it, with places.
//!
//! The clock of a recorder may jump, and tools put lines with a time of 0 before the others. A machine without any event
//! for [`LONGEST_GAP_NS`] does not exist, so the recording is cut there, and the part with the most events is kept.

use super::record::{Record, What};
use super::records::Records;
use crate::diagnostic::{Diagnostic, Place};
use crate::overrides::Window;

/// The number of oddities of one kind that are reported.
pub(super) const TOLD: usize = 10;

/// The longest time without an event, in nanoseconds: a minute.
const LONGEST_GAP_NS: u64 = 60 * 1_000_000_000;

/// The formats that differ in the places of their records, and in what one does about an event that is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    /// Lines, of any recorder.
    #[default]
    Text,
    /// Packets of Perfetto.
    Perfetto,
}

/// The content of a recording.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Its name in diagnostics.
    pub(super) file: String,
    pub(super) format: Format,
    /// The records, which are in the order of time after [`Reading::finish`].
    pub(super) records: Records,
    /// The number of invalid lines or events, and the first of them.
    pub(super) skipped: u64,
    pub(super) faults: Vec<Diagnostic>,
    /// The number of lines or events of the scheduler, and of the invalid ones among them.
    pub(super) scheduler: u64,
    pub(super) unread: u64,
    /// The number of events that the recorder reports as lost. A gap of unknown size counts as one.
    pub(super) lost: u64,
    /// The first oddities that are no invalid lines, with their places.
    pub(super) notes: Vec<Diagnostic>,
    /// Where the recording breaks off, if it does.
    pub(super) broken: Option<Diagnostic>,
    /// The number of CPUs that the recorder names.
    pub(super) cpus: u32,
    /// The recorded kernel, as `uname -r` prints it.
    pub(super) release: Option<String>,
    /// The wanted part, counted from the first event of the scheduler, and the time of that event.
    part: Window,
    begins: Option<u64>,
    /// The number of records outside of it, and whether the last one is.
    pub(super) outside: u64,
    is_outside: bool,
}

impl Reading {
    pub(super) fn new(file: &str, part: Window) -> Reading {
        let is_outside = part.from.is_some();
        Reading { file: file.to_owned(), part, is_outside, ..Reading::default() }
    }

    /// Returns whether all of the recording is wanted.
    pub(super) fn is_all_wanted(&self) -> bool {
        self.part == Window::default()
    }

    /// Takes a record if it is in the wanted part. Returns whether it is.
    pub(super) fn take(&mut self, record: &Record<'_>) -> bool {
        if self.begins.is_none() && !matches!(record.what, What::Other | What::Begins(_)) {
            self.begins = Some(record.at);
        }
        let Window { from, until } = self.part;
        let is_wanted = match self.begins {
            None => from.is_none(),
            Some(begins) => {
                from.is_none_or(|from| record.at >= begins.saturating_add(from.0))
                    && until.is_none_or(|until| record.at <= begins.saturating_add(until.0))
            }
        };
        self.is_outside = !is_wanted;
        match is_wanted {
            true => self.records.push(record),
            false => self.outside += 1,
        }
        is_wanted
    }

    /// Returns what is wrong at a column of a line, or in a packet. Both are counted from 1.
    pub(super) fn at(&self, place: u32, column: usize, what: impl Into<String>) -> Diagnostic {
        let (file, what) = (self.file.clone(), what.into());
        let place = match self.format {
            Format::Text => Place::Text { file, line: place as usize, column },
            Format::Perfetto => Place::Packet { file, packet: place },
        };
        Diagnostic { place, what }
    }

    /// Returns what is wrong with the recording as a whole.
    pub(super) fn nowhere(&self, what: impl Into<String>) -> Diagnostic {
        nowhere(&self.file, what)
    }

    /// Counts an invalid line or event.
    pub(super) fn skip(&mut self, place: u32, column: usize, what: &str) {
        self.skipped += 1;
        if self.faults.len() < TOLD {
            self.faults.push(self.at(place, column, what));
        }
    }

    /// Counts lost events, unless they are outside of the wanted part. `what` tells of them.
    pub(super) fn lose(&mut self, place: u32, events: u64, what: impl Into<String>) {
        if !self.is_outside {
            self.lost = self.lost.saturating_add(events);
            self.note(place, what);
        }
    }

    pub(super) fn note(&mut self, place: u32, what: impl Into<String>) {
        if self.notes.len() < TOLD {
            self.notes.push(self.at(place, 1, what));
        }
    }

    /// Sorts the records, and cuts them where the clock jumps.
    pub(super) fn finish(&mut self) {
        // Records of several CPUs may be merged out of order. Those with equal times keep their order.
        self.records.sort();
        self.keep_longest();
    }

    /// Keeps the longest part of the records that no long gap divides.
    fn keep_longest(&mut self) {
        let parts = self.records.parts(LONGEST_GAP_NS);
        let Some(longest) = parts.iter().rev().max_by_key(|part| part.len()).cloned() else {
            return;
        };
        for part in parts.into_iter().filter(|part| *part != longest) {
            let (number, first) = (part.len(), self.records.get(part.start));
            let near = if part.start < longest.start { longest.start } else { longest.end - 1 };
            let seconds = first.at.abs_diff(self.records.get(near).at) / 1_000_000_000;
            let what = format!(
                "the clock jumps: {number} events, {seconds} s from the others, are left out"
            );
            let place = first.place;
            self.note(place, what);
        }
        self.records.keep(longest);
    }

    /// Returns the place of the first record of a SCHED_DEADLINE task.
    pub(super) fn first_deadline(&self) -> Option<u32> {
        let first = self.records.iter().filter(Record::names_deadline);
        first.map(|record| record.place).min()
    }

    /// Returns whether a record is a switch, and whether one is a wake-up.
    pub(super) fn has(&self) -> (bool, bool) {
        let has = |is: fn(&What<'_>) -> bool| self.records.iter().any(|record| is(&record.what));
        let is_wakeup = |what: &What<'_>| matches!(what, What::Waking(_) | What::Wakeup(_));
        (has(|what| matches!(what, What::Switch { .. })), has(is_wakeup))
    }
}

/// Returns what is wrong with a file as a whole.
pub(super) fn nowhere(file: &str, what: impl Into<String>) -> Diagnostic {
    let place = Place::Text { file: file.to_owned(), line: 1, column: 1 };
    Diagnostic { place, what: what.into() }
}
