//! Every heuristic as a named switch, so that before and after are one flag and one path apart.

use std::fmt;
use std::str::FromStr;

/// One switch. The name on the outside is the kernel's convention: `RT_PUSH`, `NO_RT_PUSH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Feature {
    /// A CPU with waiting real-time tasks sends them away, and wake-up placement knows real-time.
    RtPush,
    /// A CPU that lowers its priority fetches waiting real-time tasks.
    RtPull,
    /// A waiting real-time task that cannot be pushed does not hide those behind it.
    RtPushPastStuck,
    /// Fair tasks move from busy CPUs to less busy ones.
    LoadBalance,
    /// Weights are compared only between CPUs that have no room left, and SCHED_IDLE tasks are
    /// balanced by the time that others leave them.
    IdleLoadBalance,
    /// No CPU in a deep sleep is woken for SCHED_IDLE work. Off unless asked for.
    PowerSavings,
    /// A woken task may preempt the running one when it is fairer so.
    WakeupPreemption,
    /// A sleeper is credited half of the latency period instead of all of it.
    GentleFairSleepers,
    /// Latency nice says who waits least among fair tasks, and no task is kept from preempting by
    /// its weight.
    LatencyNice,
    /// Task groups are held to their limits.
    HardLimits,
    /// A CPU may use what the others leave of a group's runtime; without it each has its own part.
    RuntimeShare,
    /// An idle CPU runs every timer whose window is open.
    GreedyTimers,
    /// The fair algorithm is EEVDF, not CFS. Off unless asked for.
    Eevdf,
    /// The running task keeps the CPU against its equals for as long as it asked for, or as the kernel's rule says (EEVDF).
    RunToParity,
    /// A woken task that wants less at a time than the running one does not wait for the end of that one's turn (EEVDF).
    PreemptShort,
    /// The time for which a task asked before it changed its CPU is due when it was (EEVDF).
    PlaceRelDeadline,
    /// A task that sleeps while it owes its queue something stays there until that is worked off (EEVDF). Off unless
    /// asked for, and in the runtime always.
    DelayDequeue,
    /// A part of each CPU is kept for fair tasks where real-time ones would have all of it. Off unless asked for, and in
    /// the runtime always.
    FairServer,
    /// A CPU with room takes tasks by their number, and loads are compared only where there is none: the balance of Linux
    /// 5.5 and later. Off unless asked for.
    BalanceByRoom,
    /// A CPU that is about to idle balances the less often, by a draw, the less often it has found something
    /// (`BALANCE_BY_ROOM`). Off unless asked for.
    NiRandom,
    /// A group's share of a CPU goes by averages of its loads, not by those of the moment. Off unless asked for, and in
    /// the runtime always.
    Pelt,
    /// A woken task looks at the fewer CPUs for an idle one the more the CPUs of its node are used (`PELT`). Off unless asked for.
    SisUtil,
    /// The runtime polls the first tasks of a queue one after the other for one decision
    /// ([`Features::of_runtime`]). Simulators decide for each poll, whether it is on or off.
    BatchDispatch,
    /// Of the fair tasks of two hardware threads of a core, latency nice says which decides what the core runs
    /// (`LATENCY_NICE`; patch 7 of the founding document). It matters where tasks have cookies.
    CoreLatency,
}

impl Feature {
    /// Every feature, in the order in which they are shown.
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

    /// The name outside the program.
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

/// A setting of all switches; by default all are on but those that say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u32);

/// What is off unless asked for.
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

    /// The features of a runtime unless something else is said: all of a simulator, and those that a simulator ignores.
    #[must_use]
    pub fn of_runtime() -> Features {
        Features::default().with(Feature::BatchDispatch)
    }

    /// These features as a runtime has them. It makes room for its tasks in advance, and a task may leave a ghost on each
    /// CPU; it throttles real-time tasks on every kernel; and a task has no room for its averages.
    #[must_use]
    pub fn in_runtime(self) -> Features {
        let never = [Feature::DelayDequeue, Feature::FairServer, Feature::Pelt];
        never.into_iter().fold(self, Features::without)
    }

    /// Whether `feature` is on.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.0 >> feature as u8 & 1 == 1
    }

    /// Turns `switch.feature` on or off.
    pub fn set(&mut self, switch: Switched) {
        let bit = 1 << switch.feature as u8;
        self.0 = if switch.on { self.0 | bit } else { self.0 & !bit };
    }

    /// These features with `feature` off.
    #[must_use]
    pub fn without(mut self, feature: Feature) -> Features {
        self.set(Switched { feature, on: false });
        self
    }

    /// These features with `feature` on.
    #[must_use]
    pub fn with(mut self, feature: Feature) -> Features {
        self.set(Switched { feature, on: true });
        self
    }

    /// The names as the kernel shows them: `RT_PUSH NO_RT_PULL ...`.
    pub fn names(self) -> impl Iterator<Item = String> {
        Feature::ALL
            .into_iter()
            .map(move |feature| Switched { feature, on: self.has(feature) }.to_string())
    }
}

/// A feature and what to do with it, as written by a user: `NAME` or `NO_NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The switch.
    pub feature: Feature,
    /// Its new position.
    pub on: bool,
}

/// As it is written.
impl fmt::Display for Switched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.on { "" } else { "NO_" }, self.feature.name())
    }
}

/// No feature has this name.
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
