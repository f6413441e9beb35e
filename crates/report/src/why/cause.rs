//! The causes of waits. A cause is one entry of the table below: its name in JSON, its rule in the reference, its
//! remedy in the guide, and its words in stories and pages follow from the entry. An entry without a field does not compile.

use serde::{Deserialize, Serialize};

/// The texts about a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name in JSON.
    pub name: &'static str,
    /// The condition under which it is the cause, in words that follow "the task waits, and".
    pub rule: &'static str,
    /// What helps against it, in Markdown, for the guide.
    pub remedy: &'static str,
    /// The cause as a clause, for pages and for the sum of a story.
    pub phrase: &'static str,
    /// The end of a story's line about the CPU where the task waited. `{free}` stands for a CPU that was free.
    pub(crate) part: &'static str,
}

/// Makes the enum and its table from the entries.
macro_rules! causes {
    ($($variant:ident { name: $name:literal, rule: $rule:literal, $($field:ident: $value:expr,)* })*) => {
        /// The cause of a task's wait. If several causes apply at an instant, the one that is listed first counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Cause {
            $(#[doc = concat!("The task waits, and ", $rule, ".")] #[serde(rename = $name)] $variant,)*
        }

        impl Cause {
            /// Every cause, in the order in which they count.
            pub const ALL: [Cause; [$($name),*].len()] = [$(Cause::$variant),*];
        }

        /// An entry for each cause, in the order of [`Cause::ALL`].
        static ENTRIES: [Entry; Cause::ALL.len()] = [$(Entry { name: $name, rule: $rule, $($field: $value),* }),*];
    };
}

causes! {
    TimerSlack {
        name: "timer_slack",
        rule: "it is not woken yet: its timer may expire later than it was due",
        remedy: "a smaller `timer_slack` of the task",
        phrase: "the slack of its timer, which may expire so much later",
        part: "",
    }
    Migration {
        name: "migration",
        rule: "it is on its way from one run queue to another",
        remedy: "a larger `scheduler.migration_cost_us`, fewer CPUs in `cpus`",
        phrase: "it was on its way to another CPU",
        part: ": the task was on its way there",
    }
    Throttled {
        name: "throttled",
        rule: "its group, or a group above that, has no budget left on its CPU",
        remedy: "a larger `runtime`, a shorter `period`, a `burst`",
        phrase: "its task group had no budget left there",
        part: ": its task group was throttled there",
    }
    RtThrottled {
        name: "rt_throttled",
        rule: "it is a real-time task, and these have no budget left on its CPU",
        remedy: "a larger `scheduler.rt_runtime_us`, fewer real-time tasks on one CPU",
        phrase: "all real-time tasks had no budget left there",
        part: ": real-time tasks were throttled there",
    }
    Kernel {
        name: "kernel",
        rule: "its CPU is to switch, and goes on with a task that is in the kernel or may run until the next tick",
        remedy: "the machine's [`preemption`](../reference/machine.md#preemption), shorter system calls",
        phrase: "the running task was in the kernel, or was to give way only later",
        part: ", which did not give way yet",
    }
    CoreCookie {
        name: "core_cookie",
        rule: "its CPU is forced idle, or runs a task that comes after it, because the core runs another cookie",
        remedy: "fewer cookies on one core; see [core scheduling](../design/core-scheduling.md)",
        phrase: "its core ran tasks of another cookie",
        part: ": the core ran another cookie",
    }
    Cost {
        name: "cost",
        rule: "its CPU does the scheduler's work, leaves its idle state, or has not switched yet",
        remedy: "the machine's `costs`, its idle states, fewer interrupts, its [`preemption`](../reference/machine.md#preemption)",
        phrase: "the scheduler's own work",
        part: "",
    }
    Placement {
        name: "placement",
        rule: "a CPU that it may use was free when it came to a busy one, and one has been since",
        remedy: "see [balance](../design/balance.md)",
        phrase: "it was put on a busy CPU while another one was free",
        part: ", though {free} was free when it was put here",
    }
    Balance {
        name: "balance",
        rule: "a CPU that it may use is free, and none was at some moment before",
        remedy: "see [balance](../design/balance.md)",
        phrase: "a CPU that became free did not take it",
        part: ", though {free} became free and did not take it",
    }
    Affinity {
        name: "affinity",
        rule: "a CPU is free that it may not use, and none that it may use",
        remedy: "more CPUs in `cpus`",
        phrase: "only CPUs were free on which it may not run",
        part: "; {free} was free, where it may not run",
    }
    ProtectedSlice {
        name: "protected_slice",
        rule: "its CPU runs a fair task that comes after it in the order, until the end of its slice",
        remedy: "a shorter `scheduler.base_slice_us`, a `slice` or `latency_nice` of the task",
        phrase: "the running task comes after it, but its slice is protected",
        part: ", which comes after it but keeps its slice",
    }
    Turn {
        name: "turn",
        rule: "its CPU runs a fair task that comes before it in the order, or as long as it is its turn",
        remedy: "a [nice value, a weight](../reference/language.md#threads-and-phases), a shorter `scheduler.base_slice_us`, more CPUs",
        phrase: "it was the turn of other fair tasks",
        part: ", whose turn it was",
    }
    Preempted {
        name: "preempted",
        rule: "it lost its CPU, which runs a task that the policy puts first",
        remedy: "a [priority](../reference/language.md#threads-and-phases), fewer such tasks",
        phrase: "a task that the policy puts first took its CPU",
        part: ", which took its CPU",
    }
    Important {
        name: "important",
        rule: "it was woken, and its CPU runs a task that the policy puts first",
        remedy: "a [nice value, a priority](../reference/language.md#threads-and-phases), fewer such tasks",
        phrase: "the policy puts first what ran",
        part: ", which comes first",
    }
}

impl Cause {
    /// The texts about it.
    ///
    /// ```
    /// assert_eq!(runyard_report::Cause::ProtectedSlice.entry().name, "protected_slice");
    /// ```
    #[must_use]
    pub fn entry(self) -> &'static Entry {
        &ENTRIES[self as usize]
    }

    /// The cause under which the worst wake-ups of a task count it.
    pub(crate) fn broad(self) -> Cause {
        match self {
            Cause::RtThrottled => Cause::Throttled,
            Cause::Turn | Cause::Preempted => Cause::Important,
            Cause::Migration | Cause::Kernel => Cause::Cost,
            Cause::TimerSlack
            | Cause::Throttled
            | Cause::CoreCookie
            | Cause::Cost
            | Cause::Placement
            | Cause::Balance
            | Cause::Affinity
            | Cause::ProtectedSlice
            | Cause::Important => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_texts_of_its_own() {
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            let Entry { name, rule, phrase, .. } = *cause.entry();
            assert_eq!(serde_json::to_string(&cause).unwrap(), format!("\"{name}\""));
            let alike =
                |other: &Entry| other.name == name || other.rule == rule || other.phrase == phrase;
            assert_eq!(ENTRIES.iter().position(alike), Some(at), "{cause:?}");
        }
    }
}
