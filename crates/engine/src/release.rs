//! The names of kernels, without their contents.
//!
//! A name stands for one point release, since rules change within a stable series: 6.18.9 and
//! 6.18.35 check wake-ups differently.

/// A kernel that a user can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kernel {
    /// 6.1.192, the last long-term kernel with CFS as its fair class.
    V6_1,
    /// 6.6.63, the first one with EEVDF.
    V6_6,
    /// 6.12.117.
    V6_12,
    /// 6.18.15, of Debian's backports: 6.18 before lags were bounded by the longest queued slice.
    V6_18_15,
    /// 6.18.35.
    V6_18,
    /// The starting point of a founding document.
    Experiment(Experiment),
}

/// A founding document, named by its experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// Real-time push and pull.
    RtMigrate,
    /// The balance of SCHED_IDLE tasks.
    IdleBalance,
    /// Latency nice.
    LatencyNice,
    /// The hard limits of task groups.
    HardLimits,
    /// The greedy walk of timers.
    GreedyTimers,
}

impl Kernel {
    /// Every kernel, in display order.
    pub const ALL: [Kernel; 10] = [
        Kernel::V6_1,
        Kernel::V6_6,
        Kernel::V6_12,
        Kernel::V6_18_15,
        Kernel::V6_18,
        Kernel::Experiment(Experiment::RtMigrate),
        Kernel::Experiment(Experiment::IdleBalance),
        Kernel::Experiment(Experiment::LatencyNice),
        Kernel::Experiment(Experiment::HardLimits),
        Kernel::Experiment(Experiment::GreedyTimers),
    ];

    /// Returns the external name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kernel::V6_1 => "6.1",
            Kernel::V6_6 => "6.6",
            Kernel::V6_12 => "6.12",
            Kernel::V6_18_15 => "6.18.15",
            Kernel::V6_18 => "6.18",
            Kernel::Experiment(Experiment::RtMigrate) => "rt-migrate",
            Kernel::Experiment(Experiment::IdleBalance) => "idle-balance",
            Kernel::Experiment(Experiment::LatencyNice) => "latency-nice",
            Kernel::Experiment(Experiment::HardLimits) => "hard-limits",
            Kernel::Experiment(Experiment::GreedyTimers) => "greedy-timers",
        }
    }

    /// Returns the release of the source; `None` for an experiment.
    #[must_use]
    pub fn release(self) -> Option<&'static str> {
        match self {
            Kernel::V6_1 => Some("6.1.192"),
            Kernel::V6_6 => Some("6.6.63"),
            Kernel::V6_12 => Some("6.12.117"),
            Kernel::V6_18_15 => Some("6.18.15"),
            Kernel::V6_18 => Some("6.18.35"),
            Kernel::Experiment(_) => None,
        }
    }
}
