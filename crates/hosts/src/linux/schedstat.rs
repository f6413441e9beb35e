//! The kernel's counters of the whole machine, during a run: the difference of `/proc/schedstat` at its end and at its
//! beginning.
//!
//! Most counters stand still while `kernel.sched_schedstats` is 0, as it is by default. A run as root turns it on, and
//! sets it to its old value at the end. Other programs are in the counts too.

use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::difference;
use std::fs;

const COUNTERS: &str = "/proc/schedstat";
const SWITCH: &str = "/proc/sys/kernel/sched_schedstats";

/// The counters at the beginning of a run.
#[derive(Debug)]
pub struct Schedstat {
    before: String,
    /// Whether the counters were off, and are to be so again.
    _switched: Option<Switched>,
}

/// Counters that are on until this value is dropped.
#[derive(Debug)]
struct Switched;

impl Schedstat {
    /// Turns the counters on if they are off, and reads them.
    ///
    /// # Errors
    /// If the kernel has none.
    pub fn begin() -> Result<Schedstat, Failure> {
        let _switched = switch_on();
        Ok(Schedstat { before: read()?, _switched })
    }

    /// The counts since the beginning, in the kernel's own version of the format.
    ///
    /// # Errors
    /// If the kernel's version of the format is unknown, or its CPUs have changed.
    pub fn end(self) -> Result<String, Failure> {
        let since = difference(&self.before, &read()?);
        since.map_err(|why| Failure::Refused(format!("linux: {COUNTERS}: {why}")))
    }
}

fn read() -> Result<String, Failure> {
    fs::read_to_string(COUNTERS).map_err(|error| {
        Failure::Refused(format!(
            "linux: --schedstat: {COUNTERS}: {error}; a kernel has it if it was built with CONFIG_SCHEDSTATS"
        ))
    })
}

/// Turns the counters on, if they are off.
fn switch_on() -> Option<Switched> {
    let is_off = fs::read_to_string(SWITCH).is_ok_and(|value| value.trim() == "0");
    if !is_off {
        return None;
    }
    match fs::write(SWITCH, "1") {
        Ok(()) => Some(Switched),
        Err(error) => {
            say(format_args!(
                "warning: kernel.sched_schedstats is 0 and cannot be set ({error}): of the counters of \
                 {COUNTERS} only the last three of each CPU move"
            ));
            None
        }
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SWITCH, "0") {
            say(format_args!("warning: kernel.sched_schedstats stays 1: {error}"));
        }
    }
}
