//! The length of an experiment.

/// The length of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// At most 40 s on two CPUs, on each host.
    Short,
    /// More runs, each with its own seed, none of which may fail.
    Soak,
}

impl Length {
    /// `short` for a short run, `soak` for a soak.
    pub(crate) fn pick<T>(self, short: T, soak: T) -> T {
        match self {
            Length::Short => short,
            Length::Soak => soak,
        }
    }
}
