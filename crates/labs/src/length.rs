//! How long an experiment takes.

/// How long an experiment takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// At most 40 s on two cores, on each host.
    Short,
    /// More runs, each with its own seed, none of which may fail.
    Soak,
}

impl Length {
    /// The first for a short run, the second for a soak.
    pub(crate) fn pick<T>(self, short: T, soak: T) -> T {
        match self {
            Length::Short => short,
            Length::Soak => soak,
        }
    }
}
