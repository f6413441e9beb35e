//! The description of each feature in the list of features: a sentence, its source, and the kernels
//! that have it.

use crate::features::Feature;
use crate::kernel::{Kernel, Model};

/// The description of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its effect, in a sentence.
    pub what: &'static str,
    /// Its source: a file of the kernel, or a page of the documentation.
    pub source: &'static str,
}

const FEATURES_H: &str = "kernel/sched/features.h";
const RT_C: &str = "kernel/sched/rt.c";
const FAIR_C: &str = "kernel/sched/fair.c";

/// A row for each feature, in the order of [`Feature::ALL`].
const ALL: [(Feature, &str, &str); 24] = [
    (
        Feature::RtPush,
        "A CPU pushes waiting real-time tasks away; wake-up placement considers their priorities.",
        RT_C,
    ),
    (Feature::RtPull, "A CPU whose priority drops pulls waiting real-time tasks.", RT_C),
    (
        Feature::RtPushPastStuck,
        "A waiting real-time task that cannot be pushed does not block those behind it.",
        "docs/design/real-time.md",
    ),
    (Feature::LoadBalance, "Fair tasks move from busy CPUs to less busy ones.", FAIR_C),
    (
        Feature::IdleLoadBalance,
        "SCHED_IDLE tasks are balanced by the CPU time that other tasks leave them.",
        "docs/design/balance.md",
    ),
    (
        Feature::PowerSavings,
        "No CPU in a deep sleep is woken for SCHED_IDLE work.",
        "docs/design/balance.md",
    ),
    (
        Feature::WakeupPreemption,
        "A woken task may preempt the running one if that is fairer.",
        FEATURES_H,
    ),
    (
        Feature::GentleFairSleepers,
        "CFS credits a sleeper half of the latency period instead of all of it.",
        FEATURES_H,
    ),
    (
        Feature::LatencyNice,
        "Latency nice determines which fair tasks wait least.",
        "docs/design/latency-nice.md",
    ),
    (Feature::HardLimits, "The limits of task groups are enforced.", "CONFIG_CFS_BANDWIDTH"),
    (
        Feature::RuntimeShare,
        "A CPU may use the part of a group's runtime that other CPUs leave.",
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
        "The running task keeps the CPU against its equals for its slice, or by the kernel's rule.",
        FEATURES_H,
    ),
    (
        Feature::PreemptShort,
        "A woken task with a shorter slice does not wait for the end of the running turn.",
        FEATURES_H,
    ),
    (
        Feature::PlaceRelDeadline,
        "A task that changes its CPU keeps the rest of its deadline.",
        FEATURES_H,
    ),
    (
        Feature::DelayDequeue,
        "A task that sleeps with a debt to its queue stays there until the debt is worked off.",
        FEATURES_H,
    ),
    (
        Feature::FairServer,
        "A part of each CPU is reserved for fair tasks against real-time tasks.",
        "kernel/sched/deadline.c",
    ),
    (
        Feature::BalanceByRoom,
        "A CPU with room takes tasks by their number; loads matter only where there is no room.",
        FAIR_C,
    ),
    (
        Feature::NiRandom,
        "A CPU that is about to idle balances less often if it rarely found a task.",
        FEATURES_H,
    ),
    (
        Feature::Pelt,
        "A group's share of a CPU follows averages of its loads, not the current loads.",
        "kernel/sched/pelt.c",
    ),
    (
        Feature::SisUtil,
        "A woken task searches fewer CPUs for an idle one if those of its node are used more.",
        FEATURES_H,
    ),
    (
        Feature::BatchDispatch,
        "The runtime polls the first tasks of a queue for one decision; simulators ignore it.",
        "docs/design/dispatch.md",
    ),
    (
        Feature::CoreLatency,
        "Latency nice affects which thread decides for its core, if tasks have cookies.",
        "docs/design/core-scheduling.md",
    ),
];

impl Feature {
    /// Returns its description.
    #[must_use]
    pub fn told(self) -> Told {
        let (_, what, source) = ALL[self as usize];
        Told { what, source }
    }

    /// Returns the kernels that have it on, unchanged.
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
