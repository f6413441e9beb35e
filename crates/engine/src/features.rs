//! The switches: each heuristic can be turned off by name, so that a comparison differs in one flag
//! and one path.
//!
//! A feature is one entry of the table below. The enum and its documentation, the names, the
//! defaults, the features of each kernel, and the list of `runyard features` follow from the
//! entries. An entry without a field does not compile.

use self::Position::{NeverInRuntime, Off, On, OnInRuntime};
use crate::release::Experiment::{
    self, GreedyTimers, HardLimits, IdleBalance, LatencyNice, RtMigrate,
};
use crate::release::Kernel::{self, V6_1, V6_6, V6_12, V6_18, V6_18_15};
use std::fmt;
use std::str::FromStr;

/// The description of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The external name.
    pub name: &'static str,
    /// Its effect, in a sentence.
    pub what: &'static str,
    /// Its source: a file of the kernel, or a page of the documentation.
    pub source: &'static str,
    /// The kernels that have it on, unchanged. A mechanism that a kernel has without a switch is on.
    pub kernels: &'static [Kernel],
    /// The founding document that adds it.
    pub document: Option<Experiment>,
    /// Its position where no kernel is named and no switch is set.
    pub default: Position,
}

impl Entry {
    /// Returns whether it is a founding mechanism that no kernel has.
    pub(crate) fn is_founding(&self) -> bool {
        self.default == Position::On && self.kernels.is_empty()
    }
}

/// The position of a switch, in a simulator and in a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// On in both.
    On,
    /// Off in both.
    Off,
    /// On in a runtime. It has no effect in a simulator, where it is off.
    OnInRuntime,
    /// Off in both, and a runtime cannot turn it on. The string tells the user of its
    /// replacement there.
    NeverInRuntime(&'static str),
}

const EVERY: &[Kernel] = &[V6_1, V6_6, V6_12, V6_18_15, V6_18];
const SINCE_6_6: &[Kernel] = &[V6_6, V6_12, V6_18_15, V6_18];
const SINCE_6_12: &[Kernel] = &[V6_12, V6_18_15, V6_18];
const NONE: &[Kernel] = &[];
const BEFORE_RT_PUSH: &[Kernel] = &[Kernel::Experiment(RtMigrate)];

/// Makes the enum and its table from the entries.
macro_rules! features {
    ($($variant:ident { name: $name:literal, what: $what:literal, $($field:ident: $value:expr,)* })*) => {
        /// A switch. Its external name follows the kernel's convention: `RT_PUSH`, `NO_RT_PUSH`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Feature {
            $(#[doc = concat!("`", $name, "`: ", $what)] $variant,)*
        }

        impl Feature {
            /// Every feature, in display order.
            pub const ALL: [Feature; [$($name),*].len()] = [$(Feature::$variant),*];
        }

        /// An entry for each feature, in the order of [`Feature::ALL`].
        static ENTRIES: [Entry; Feature::ALL.len()] =
            [$(Entry { name: $name, what: $what, $($field: $value),* }),*];
    };
}

features! {
    RtPush {
        name: "RT_PUSH",
        what: "A CPU pushes waiting real-time tasks away; wake-up placement considers their \
               priorities.",
        source: "kernel/sched/rt.c",
        kernels: EVERY,
        document: Some(RtMigrate),
        default: On,
    }
    RtPull {
        name: "RT_PULL",
        what: "A CPU whose priority drops pulls waiting real-time tasks.",
        source: "kernel/sched/rt.c",
        kernels: EVERY,
        document: Some(RtMigrate),
        default: On,
    }
    RtPushPastStuck {
        name: "RT_PUSH_PAST_STUCK",
        what: "A waiting real-time task that cannot be pushed does not block those behind it.",
        source: "docs/design/real-time.md",
        kernels: NONE,
        document: Some(RtMigrate),
        default: On,
    }
    LoadBalance {
        name: "LOAD_BALANCE",
        what: "Fair tasks move from busy CPUs to less busy ones.",
        source: "kernel/sched/fair.c",
        kernels: EVERY,
        document: None,
        default: On,
    }
    IdleLoadBalance {
        name: "IDLE_LOAD_BALANCE",
        what: "SCHED_IDLE tasks are balanced by the CPU time that other tasks leave them.",
        source: "docs/design/balance.md",
        kernels: NONE,
        document: Some(IdleBalance),
        default: On,
    }
    PowerSavings {
        name: "POWER_SAVINGS",
        what: "No CPU in a deep sleep is woken for SCHED_IDLE work.",
        source: "docs/design/balance.md",
        kernels: NONE,
        document: None,
        default: Off,
    }
    WakeupPreemption {
        name: "WAKEUP_PREEMPTION",
        what: "A woken task may preempt the running one if that is fairer.",
        source: "kernel/sched/features.h",
        kernels: EVERY,
        document: None,
        default: On,
    }
    GentleFairSleepers {
        name: "GENTLE_FAIR_SLEEPERS",
        what: "CFS credits a sleeper half of the latency period instead of all of it.",
        source: "kernel/sched/features.h",
        kernels: &[V6_1],
        document: None,
        default: On,
    }
    LatencyNice {
        name: "LATENCY_NICE",
        what: "Latency nice determines which fair tasks wait least.",
        source: "docs/design/latency-nice.md",
        kernels: NONE,
        document: Some(LatencyNice),
        default: On,
    }
    HardLimits {
        name: "HARD_LIMITS",
        what: "The limits of task groups are enforced.",
        source: "CONFIG_CFS_BANDWIDTH",
        kernels: EVERY,
        document: Some(HardLimits),
        default: On,
    }
    RuntimeShare {
        name: "RUNTIME_SHARE",
        what: "In the founding pool, a CPU may use the part of a group's runtime that other CPUs \
               leave.",
        source: "docs/design/hard-limits.md",
        kernels: NONE,
        document: Some(HardLimits),
        default: On,
    }
    CfsBandwidth {
        name: "CFS_BANDWIDTH",
        what: "Limits of groups without per_cpu follow the kernel's bandwidth control; those with \
               it, the founding pool.",
        source: "kernel/sched/fair.c",
        kernels: EVERY,
        document: None,
        default: NeverInRuntime("groups with limits share the founding pool"),
    }
    GreedyTimers {
        name: "GREEDY_TIMERS",
        what: "An idle CPU runs every timer whose window is open.",
        source: "docs/design/timers.md",
        kernels: NONE,
        document: Some(GreedyTimers),
        default: On,
    }
    Eevdf {
        name: "EEVDF",
        what: "The fair algorithm is EEVDF, not CFS.",
        source: "kernel/sched/fair.c",
        kernels: SINCE_6_6,
        document: None,
        default: Off,
    }
    RunToParity {
        name: "RUN_TO_PARITY",
        what: "The running task keeps the CPU against its equals for its slice, or by the \
               kernel's rule.",
        source: "kernel/sched/features.h",
        kernels: SINCE_6_6,
        document: None,
        default: On,
    }
    PreemptShort {
        name: "PREEMPT_SHORT",
        what: "A woken task with a shorter slice does not wait for the end of the running turn.",
        source: "kernel/sched/features.h",
        kernels: SINCE_6_12,
        document: None,
        default: On,
    }
    PlaceRelDeadline {
        name: "PLACE_REL_DEADLINE",
        what: "A task that changes its CPU keeps the rest of its deadline.",
        source: "kernel/sched/features.h",
        kernels: SINCE_6_12,
        document: None,
        default: On,
    }
    DelayDequeue {
        name: "DELAY_DEQUEUE",
        what: "A task that sleeps with a debt to its queue stays there until the debt is worked \
               off.",
        source: "kernel/sched/features.h",
        kernels: SINCE_6_12,
        document: None,
        default: NeverInRuntime("no task sleeps in its place"),
    }
    FairServer {
        name: "FAIR_SERVER",
        what: "A part of each CPU is reserved for fair tasks against real-time tasks.",
        source: "kernel/sched/deadline.c",
        kernels: SINCE_6_12,
        document: None,
        default: NeverInRuntime("real-time tasks are throttled instead"),
    }
    BalanceByRoom {
        name: "BALANCE_BY_ROOM",
        what: "A CPU with room takes tasks by their number; loads matter only where there is no \
               room.",
        source: "kernel/sched/fair.c",
        kernels: EVERY,
        document: None,
        default: Off,
    }
    NiRandom {
        name: "NI_RANDOM",
        what: "A CPU that is about to idle balances less often if it rarely found a task.",
        source: "kernel/sched/features.h",
        kernels: &[V6_1, V6_12, V6_18_15, V6_18],
        document: None,
        default: Off,
    }
    Pelt {
        name: "PELT",
        what: "A group's share of a CPU follows averages of its loads, not the current loads.",
        source: "kernel/sched/pelt.c",
        kernels: EVERY,
        document: None,
        default: NeverInRuntime("the shares of groups go by the loads of the moment"),
    }
    SisUtil {
        name: "SIS_UTIL",
        what: "A woken task searches fewer CPUs for an idle one if those of its node are used \
               more.",
        source: "kernel/sched/features.h",
        kernels: EVERY,
        document: None,
        default: Off,
    }
    BatchDispatch {
        name: "BATCH_DISPATCH",
        what: "The runtime polls the first tasks of a queue for one decision; simulators ignore \
               it.",
        source: "docs/design/dispatch.md",
        kernels: NONE,
        document: None,
        default: OnInRuntime,
    }
    CoreLatency {
        name: "CORE_LATENCY",
        what: "Latency nice affects which thread decides for its core, if tasks have cookies.",
        source: "docs/design/core-scheduling.md",
        kernels: NONE,
        document: Some(LatencyNice),
        default: On,
    }
    RtBalance {
        name: "RT_BALANCE",
        what: "A CPU that balances takes waiting real-time tasks first, as before push and pull.",
        source: "docs/design/real-time.md",
        kernels: BEFORE_RT_PUSH,
        document: None,
        default: Off,
    }
    RtWakeElsewhere {
        name: "RT_WAKE_ELSEWHERE",
        what: "A woken real-time task avoids a CPU that runs a less important real-time task.",
        source: "docs/design/real-time.md",
        kernels: NONE,
        document: None,
        default: Off,
    }
}

impl Feature {
    /// Returns its description.
    ///
    /// ```
    /// use runyard_engine::features::Feature;
    ///
    /// assert_eq!(Feature::Pelt.entry().source, "kernel/sched/pelt.c");
    /// ```
    #[must_use]
    pub fn entry(self) -> &'static Entry {
        &ENTRIES[self as usize]
    }

    /// Returns the external name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

/// The number of words of a set.
const WORDS: usize = Feature::ALL.len().div_ceil(u64::BITS as usize);

/// A setting of all switches: one bit for each. By default each has the position in its [entry](Entry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features([u64; WORDS]);

impl Default for Features {
    fn default() -> Features {
        Features::of(|entry| entry.default == On)
    }
}

impl Features {
    /// All switches off.
    pub(crate) const NONE: Features = Features([0; WORDS]);

    /// Returns the features whose entries `are_on`.
    pub(crate) fn of(are_on: impl Fn(&Entry) -> bool) -> Features {
        let on = Feature::ALL.into_iter().filter(|feature| are_on(feature.entry()));
        on.fold(Features::NONE, Features::with)
    }

    /// Returns the default features of a runtime: those of a simulator, and those that a simulator
    /// ignores.
    #[must_use]
    pub fn of_runtime() -> Features {
        Features::of(|entry| matches!(entry.default, On | OnInRuntime))
    }

    /// Returns these features without those that a runtime cannot have. A runtime makes room for
    /// its tasks in advance, and a task may leave a ghost on each CPU. It throttles real-time tasks
    /// with every kernel. And its tasks have no room for averages.
    #[must_use]
    pub fn in_runtime(self) -> Features {
        let never = |it: &Feature| matches!(it.entry().default, NeverInRuntime(_));
        Feature::ALL.into_iter().filter(never).fold(self, Features::without)
    }

    /// The word of a feature, and its bit there.
    #[inline]
    const fn place(feature: Feature) -> (usize, u64) {
        let at = feature as usize;
        (at / u64::BITS as usize, 1 << (at % u64::BITS as usize))
    }

    /// Returns whether `feature` is on.
    #[inline]
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        let (word, bit) = Features::place(feature);
        self.0[word] & bit != 0
    }

    /// Turns `switch.feature` on or off.
    pub fn set(&mut self, switch: Switched) {
        let (word, bit) = Features::place(switch.feature);
        let word = &mut self.0[word];
        *word = if switch.on { *word | bit } else { *word & !bit };
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
        features.set("NO_RT_PULL".parse().unwrap());
        assert!(!features.has(Feature::RtPull) && features.has(Feature::RtPush));
        features.set("RT_PULL".parse().unwrap());
        assert_eq!(features, Features::default());
    }

    #[test]
    fn a_set_knows_each_of_its_features() {
        for on in Feature::ALL {
            let one = Features::NONE.with(on);
            assert!(Feature::ALL.into_iter().all(|it| one.has(it) == (it == on)), "{on:?}");
            assert_eq!(one.without(on), Features::NONE);
        }
    }

    #[test]
    fn each_feature_has_a_name_and_a_sentence_of_its_own() {
        for (at, feature) in Feature::ALL.into_iter().enumerate() {
            let Entry { name, what, source, .. } = feature.entry();
            assert!(what.ends_with('.') && what.len() > 20 && !source.is_empty(), "{feature:?}");
            let alike = |other: &Entry| other.name == *name || other.what == *what;
            assert_eq!(ENTRIES.iter().position(alike), Some(at), "{feature:?}");
        }
    }

    #[test]
    fn a_runtime_has_what_it_can() {
        let differs = |features: Features, from: Features| {
            let differs = |&it: &Feature| features.has(it) != from.has(it);
            Feature::ALL.into_iter().filter(differs).collect::<Vec<_>>()
        };
        assert_eq!(differs(Features::of_runtime(), Features::default()), [Feature::BatchDispatch]);
        let all = Feature::ALL.into_iter().fold(Features::NONE, Features::with);
        let never =
            [Feature::CfsBandwidth, Feature::DelayDequeue, Feature::FairServer, Feature::Pelt];
        assert_eq!(differs(all.in_runtime(), all), never);
    }

    #[test]
    fn an_unknown_feature_names_the_known_ones() {
        let error = "NO_SUCH".parse::<Switched>().unwrap_err();
        assert!(error.to_string().contains("RT_PUSH"), "{error}");
    }
}
