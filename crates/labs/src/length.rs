//! The length of an experiment.

use std::time::Duration;

/// The longest time of a short experiment on two CPUs, on each host.
const SHORT: Duration = Duration::from_secs(40);

/// The length of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// At most 40 s on two CPUs, on each host.
    Short,
    /// More runs, each with its own seed, none of which may fail.
    Soak,
}

impl Length {
    /// The longest time; a soak takes the time that it needs.
    pub(crate) fn most(self) -> Option<Duration> {
        self.pick(Some(SHORT), None)
    }

    /// `short` for a short run, `soak` for a soak.
    pub(crate) fn pick<T>(self, short: T, soak: T) -> T {
        match self {
            Length::Short => short,
            Length::Soak => soak,
        }
    }
}
