//! The import of recordings: a recording of a machine by perf, ftrace or Perfetto becomes a scenario.
//!
//! Each task of the recording becomes a task of the scenario. It executes as much between the same sleeps, and wakes
//! the same tasks at the same points of its own work. The decisions of the recorded scheduler are left out: the replay
//! decides which task runs where and which one waits. So one factor can be changed and everything else kept.
//!
//! `packed` unpacks a file and finds its format. `parse` reads a text, by `line` and `page`, and `perfetto` a trace of Perfetto. Both fill a
//! `reading` with `records`. `lives` follows tasks through them, `tick` finds the rate of their tick, `program` turns each life into a list
//! of events, and `write` prints those. `tally` only counts. No code here opens a file. The reasons of this design are in
//! `docs/design/import.md`.

mod figures;
mod latency;
mod line;
mod lives;
mod packed;
mod page;
mod parse;
mod perfetto;
mod program;
mod reading;
mod record;
mod recording;
mod records;
mod snapshot;
mod tally;
mod tick;
mod write;

pub use figures::{Delays, Recorded, Statistics};
pub use record::{BEGINS, Context, IDLE, Left, Named, Record, What};
pub use recording::{Imported, Recording, Wanted};
pub use records::Records;
pub use tally::{Ran, Tally, tally};

use self::reading::Reading;
use crate::diagnostic::Diagnostic;
use crate::overrides::Window;

/// Makes a scenario of the recording `text`. `file` is its name in diagnostics.
///
/// # Errors
/// If no line is valid, if less than half of the scheduler's lines are valid, if no switch is recorded, if no task runs, or
/// if a task is SCHED_DEADLINE and that is refused.
pub fn import(file: &str, text: &str) -> Result<Imported, Diagnostic> {
    Recording::read(file, text.as_bytes(), Window::default())?.import(Wanted::default())
}

/// Returns the events of a recording in the order of time. Invalid lines are skipped.
///
/// ```
/// use runyard_workload::import::{Left, What, records};
///
/// let text = "a-7 [000] d..2. 1.000005000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 \
///     prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120";
/// let records = records(text);
/// let what = records.iter().next().unwrap().what;
/// assert!(matches!(what, What::Switch { left: Left::Asleep, .. }));
/// ```
#[must_use]
pub fn records(text: &str) -> Records {
    let mut reading = Reading::new("-", Window::default());
    parse::read(&mut text.as_bytes(), None, &mut reading).expect("a text in memory can be read");
    reading.finish();
    reading.records
}

/// Does the same as [`import`] with options.
///
/// # Errors
/// As [`import`].
pub fn import_for(file: &str, text: &str, wanted: Wanted<'_>) -> Result<Imported, Diagnostic> {
    Recording::read(file, text.as_bytes(), Window::default())?.import(wanted)
}
