//! The switches: each heuristic can be turned off by name, so that a comparison differs in one flag
//! and one path.

use std::fmt;
use std::str::FromStr;

/// A switch. Its external name follows the kernel's convention: `RT_PUSH`, `NO_RT_PUSH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Feature {
    /// A CPU with waiting real-time tasks pushes them away, and the placement of wake-ups considers
    /// real-time priorities.
    RtPush,
    /// A CPU whose priority drops pulls waiting real-time tasks.
    RtPull,
    /// A waiting real-time task that cannot be pushed does not block the push of those behind it.
    RtPushPastStuck,
    /// Fair tasks move from busy CPUs to less busy ones.
    LoadBalance,
    /// Weights are compared only between CPUs that have no room left. SCHED_IDLE tasks are balanced
    /// by the time that other tasks leave them.
    IdleLoadBalance,
    /// No CPU in a deep sleep is woken for SCHED_IDLE work. Off by default.
    PowerSavings,
    /// A woken task may preempt the running one if that is fairer.
    WakeupPreemption,
    /// A sleeper is credited half of the latency period instead of all of it.
    GentleFairSleepers,
    /// Latency nice determines which fair tasks wait least, and no weight keeps a task from
    /// preempting.
    LatencyNice,
    /// Limits of task groups are enforced.
    HardLimits,
    /// A CPU may use the part of a group's runtime that others leave; without this each CPU has its
    /// own part.
    RuntimeShare,
    /// An idle CPU runs every timer whose window is open.
    GreedyTimers,
    /// The fair algorithm is EEVDF, not CFS. Off by default.
    Eevdf,
    /// The running task keeps the CPU against its equals for the slice that it requested, or by the
    /// rule of the kernel (EEVDF).
    RunToParity,
    /// A woken task with a shorter slice than the running one does not wait for the end of the
    /// running turn (EEVDF).
    PreemptShort,
    /// A task that changes its CPU keeps the deadline of its current slice (EEVDF).
    PlaceRelDeadline,
    /// A task that sleeps with a debt to its queue stays there until the debt is worked off
    /// (EEVDF). Off by default, and always off in the runtime.
    DelayDequeue,
    /// A part of each CPU is reserved for fair tasks against real-time tasks that would use all of
    /// it. Off by default, and always off in the runtime.
    FairServer,
    /// A CPU with room takes tasks by their number, and loads are compared only where there is no
    /// room: the balance of Linux 5.5 and later. Off by default.
    BalanceByRoom,
    /// A CPU that is about to idle balances at random, less often if it rarely found a task
    /// (`BALANCE_BY_ROOM`). Off by default.
    NiRandom,
    /// A group's share of a CPU follows averages of its loads, not the current ones. Off by
    /// default, and always off in the runtime.
    Pelt,
    /// A woken task searches fewer CPUs for an idle one if the CPUs of its node are used more
    /// (`PELT`). Off by default.
    SisUtil,
    /// The runtime polls the first tasks of a queue one after the other for one decision
    /// ([`Features::of_runtime`]). Simulators decide for each poll, whether this is on or off.
    BatchDispatch,
    /// Between fair tasks of two hardware threads of a core, latency nice affects which one decides
    /// for the core (`LATENCY_NICE`; patch 7 of the founding document). It matters where tasks have
    /// cookies.
    CoreLatency,
}

impl Feature {
    /// Every feature, in display order.
    pub const ALL: [Feature; 24] = [
        Feature::RtPush,
        Feature::RtPull,
        Feature::RtPushPastStuck,
        Feature::LoadBalance,
        Feature::IdleLoadBalance,
        Feature::PowerSavings,
        Feature::WakeupPreemption,
        Feature::GentleFairSleepers,
        Feature::LatencyNice,
        Feature::HardLimits,
        Feature::RuntimeShare,
        Feature::GreedyTimers,
        Feature::Eevdf,
        Feature::RunToParity,
        Feature::PreemptShort,
        Feature::PlaceRelDeadline,
        Feature::DelayDequeue,
        Feature::FairServer,
        Feature::BalanceByRoom,
        Feature::NiRandom,
        Feature::Pelt,
        Feature::SisUtil,
        Feature::BatchDispatch,
        Feature::CoreLatency,
    ];

    /// Returns the external name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Feature::RtPush => "RT_PUSH",
            Feature::RtPull => "RT_PULL",
            Feature::RtPushPastStuck => "RT_PUSH_PAST_STUCK",
            Feature::LoadBalance => "LOAD_BALANCE",
            Feature::IdleLoadBalance => "IDLE_LOAD_BALANCE",
            Feature::PowerSavings => "POWER_SAVINGS",
            Feature::WakeupPreemption => "WAKEUP_PREEMPTION",
            Feature::GentleFairSleepers => "GENTLE_FAIR_SLEEPERS",
            Feature::LatencyNice => "LATENCY_NICE",
            Feature::HardLimits => "HARD_LIMITS",
            Feature::RuntimeShare => "RUNTIME_SHARE",
            Feature::GreedyTimers => "GREEDY_TIMERS",
            Feature::Eevdf => "EEVDF",
            Feature::RunToParity => "RUN_TO_PARITY",
            Feature::PreemptShort => "PREEMPT_SHORT",
            Feature::PlaceRelDeadline => "PLACE_REL_DEADLINE",
            Feature::DelayDequeue => "DELAY_DEQUEUE",
            Feature::FairServer => "FAIR_SERVER",
            Feature::BalanceByRoom => "BALANCE_BY_ROOM",
            Feature::NiRandom => "NI_RANDOM",
            Feature::Pelt => "PELT",
            Feature::SisUtil => "SIS_UTIL",
            Feature::BatchDispatch => "BATCH_DISPATCH",
            Feature::CoreLatency => "CORE_LATENCY",
        }
    }
}

/// A setting of all switches. By default all are on, except those documented as off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u32);

/// The features that are off by default.
const OFF: [Feature; 9] = [
    Feature::PowerSavings,
    Feature::Eevdf,
    Feature::DelayDequeue,
    Feature::FairServer,
    Feature::BalanceByRoom,
    Feature::NiRandom,
    Feature::Pelt,
    Feature::SisUtil,
    Feature::BatchDispatch,
];

impl Default for Features {
    fn default() -> Features {
        let all = Features((1 << Feature::ALL.len()) - 1);
        OFF.into_iter().fold(all, Features::without)
    }
}

impl Features {
    /// All switches off.
    pub(crate) const NONE: Features = Features(0);

    /// Returns the default features of a runtime: those of a simulator, and those that a simulator
    /// ignores.
    #[must_use]
    pub fn of_runtime() -> Features {
        Features::default().with(Feature::BatchDispatch)
    }

    /// Returns these features without those that a runtime cannot have. A runtime makes room for
    /// its tasks in advance, and a task may leave a ghost on each CPU. It throttles real-time tasks
    /// with every kernel. And its tasks have no room for averages.
    #[must_use]
    pub fn in_runtime(self) -> Features {
        let never = [Feature::DelayDequeue, Feature::FairServer, Feature::Pelt];
        never.into_iter().fold(self, Features::without)
    }

    /// Returns whether `feature` is on.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.0 >> feature as u8 & 1 == 1
    }

    /// Turns `switch.feature` on or off.
    pub fn set(&mut self, switch: Switched) {
        let bit = 1 << switch.feature as u8;
        self.0 = if switch.on { self.0 | bit } else { self.0 & !bit };
    }

    /// Returns these features with `feature` off.
    #[must_use]
    pub fn without(mut self, feature: Feature) -> Features {
        self.set(Switched { feature, on: false });
        self
    }

    /// Returns these features with `feature` on.
    #[must_use]
    pub fn with(mut self, feature: Feature) -> Features {
        self.set(Switched { feature, on: true });
        self
    }

    /// Returns the names in the kernel's form: `RT_PUSH NO_RT_PULL ...`.
    pub fn names(self) -> impl Iterator<Item = String> {
        Feature::ALL
            .into_iter()
            .map(move |feature| Switched { feature, on: self.has(feature) }.to_string())
    }
}

/// A feature and its new position, as a user writes it: `NAME` or `NO_NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The switch.
    pub feature: Feature,
    /// Its new position.
    pub on: bool,
}

/// The written form.
impl fmt::Display for Switched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.on { "" } else { "NO_" }, self.feature.name())
    }
}

/// The error for a name that no feature has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFeature(pub String);

impl fmt::Display for UnknownFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Feature::ALL.iter().map(|feature| feature.name()).collect();
        write!(f, "unknown feature {:?}; known are {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownFeature {}

impl FromStr for Switched {
    type Err = UnknownFeature;

    fn from_str(text: &str) -> Result<Switched, UnknownFeature> {
        let (name, on) = text.strip_prefix("NO_").map_or((text, true), |name| (name, false));
        Feature::ALL
            .into_iter()
            .find(|feature| feature.name() == name)
            .map(|feature| Switched { feature, on })
            .ok_or_else(|| UnknownFeature(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_on_until_it_is_switched_off() {
        let mut features = Features::default();
        let off: Vec<_> = Feature::ALL.into_iter().filter(|&it| !features.has(it)).collect();
        assert_eq!(off, OFF);
        features.set("NO_RT_PULL".parse().unwrap());
        assert!(!features.has(Feature::RtPull) && features.has(Feature::RtPush));
        features.set("RT_PULL".parse().unwrap());
        assert_eq!(features, Features::default());
    }

    #[test]
    fn an_unknown_feature_names_the_known_ones() {
        let error = "NO_SUCH".parse::<Switched>().unwrap_err();
        assert!(error.to_string().contains("RT_PUSH"), "{error}");
    }
}
