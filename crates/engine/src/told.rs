//! What is told of each feature to those who ask for the list: a sentence, where it comes from, and which kernels have it.

use crate::features::Feature;
use crate::kernel::{Kernel, Model};

/// What is told of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it does, in a sentence.
    pub what: &'static str,
    /// Where it comes from: a file of the kernel, or a page of the documentation.
    pub source: &'static str,
}

const FEATURES_H: &str = "kernel/sched/features.h";
const RT_C: &str = "kernel/sched/rt.c";
const FAIR_C: &str = "kernel/sched/fair.c";

/// A row for each feature, in the order of [`Feature::ALL`].
const ALL: [(Feature, &str, &str); 24] = [
    (
        Feature::RtPush,
        "A CPU sends waiting real-time tasks away, and wake-up placement knows real-time.",
        RT_C,
    ),
    (Feature::RtPull, "A CPU that lowers its priority fetches waiting real-time tasks.", RT_C),
    (
        Feature::RtPushPastStuck,
        "A waiting real-time task that cannot be pushed does not hide those behind it.",
        "docs/design/real-time.md",
    ),
    (Feature::LoadBalance, "Fair tasks move from busy CPUs to less busy ones.", FAIR_C),
    (
        Feature::IdleLoadBalance,
        "SCHED_IDLE tasks are balanced by the time that others leave them.",
        "docs/design/balance.md",
    ),
    (
        Feature::PowerSavings,
        "No CPU in a deep sleep is woken for SCHED_IDLE work.",
        "docs/design/balance.md",
    ),
    (
        Feature::WakeupPreemption,
        "A woken task may preempt the running one when it is fairer so.",
        FEATURES_H,
    ),
    (
        Feature::GentleFairSleepers,
        "CFS credits a sleeper half of the latency period instead of all of it.",
        FEATURES_H,
    ),
    (
        Feature::LatencyNice,
        "Latency nice says who waits least among fair tasks.",
        "docs/design/latency-nice.md",
    ),
    (Feature::HardLimits, "Task groups are held to their limits.", "CONFIG_CFS_BANDWIDTH"),
    (
        Feature::RuntimeShare,
        "A CPU may use what the others leave of a group's runtime.",
        "docs/design/hard-limits.md",
    ),
    (
        Feature::GreedyTimers,
        "An idle CPU runs every timer whose window is open.",
        "docs/design/timers.md",
    ),
    (Feature::Eevdf, "The fair algorithm is EEVDF, not CFS.", FAIR_C),
    (
        Feature::RunToParity,
        "The running task keeps the CPU against its equals for its slice, or as the kernel's rule says.",
        FEATURES_H,
    ),
    (
        Feature::PreemptShort,
        "A woken task with a shorter slice does not wait for the end of the running one's turn.",
        FEATURES_H,
    ),
    (
        Feature::PlaceRelDeadline,
        "A task that changes its CPU keeps the rest of its deadline.",
        FEATURES_H,
    ),
    (
        Feature::DelayDequeue,
        "A task that sleeps while it owes its queue something stays there until that is worked off.",
        FEATURES_H,
    ),
    (
        Feature::FairServer,
        "A part of each CPU is kept for fair tasks where real-time ones would have all of it.",
        "kernel/sched/deadline.c",
    ),
    (
        Feature::BalanceByRoom,
        "A CPU with room takes tasks by their number; loads are compared only where there is none.",
        FAIR_C,
    ),
    (
        Feature::NiRandom,
        "A CPU that is about to idle balances the less often the less often it found something.",
        FEATURES_H,
    ),
    (
        Feature::Pelt,
        "A group's share of a CPU goes by averages of its loads, not by those of the moment.",
        "kernel/sched/pelt.c",
    ),
    (
        Feature::SisUtil,
        "A woken task looks at the fewer CPUs for an idle one the more those of its node are used.",
        FEATURES_H,
    ),
    (
        Feature::BatchDispatch,
        "The runtime polls the first tasks of a queue for one decision; simulators ignore it.",
        "docs/design/dispatch.md",
    ),
    (
        Feature::CoreLatency,
        "Latency nice says which thread of a core decides what the core runs, if tasks have cookies.",
        "docs/design/core-scheduling.md",
    ),
];

impl Feature {
    /// What is told of it.
    #[must_use]
    pub fn told(self) -> Told {
        let (_, what, source) = ALL[self as usize];
        Told { what, source }
    }

    /// The kernels that have it on, as they are.
    pub fn kernels(self) -> impl Iterator<Item = Kernel> {
        let released = Kernel::ALL.into_iter().filter(|kernel| kernel.release().is_some());
        released.filter(move |&kernel| Model::named(kernel).features().has(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_told_in_a_sentence_of_its_own() {
        for (at, feature) in Feature::ALL.into_iter().enumerate() {
            let told = feature.told();
            assert!(told.what.ends_with('.') && told.what.len() > 20, "{feature:?}");
            assert!(!told.source.is_empty());
            assert_eq!(ALL[at].0, feature);
            let alike = |other: &Feature| other.told().what == told.what;
            assert_eq!(Feature::ALL.iter().position(alike), Some(at), "{feature:?}");
        }
    }

    #[test]
    fn kernels_are_those_that_have_it() {
        let names = |feature: Feature| feature.kernels().map(Kernel::name).collect::<Vec<_>>();
        assert_eq!(names(Feature::Eevdf), ["6.6", "6.12", "6.18"]);
        assert_eq!(names(Feature::GentleFairSleepers), ["6.1"]);
        assert_eq!(names(Feature::LatencyNice), [""; 0]);
    }
}
