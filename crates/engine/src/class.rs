//! The classes of tasks, as the kernel's `struct sched_class`. The class of a task is the mechanism
//! that schedules it: the real-time class has SCHED_FIFO and SCHED_RR, the fair class has
//! SCHED_OTHER, SCHED_BATCH and SCHED_IDLE. As in the kernel, SCHED_IDLE is no class of its own: it
//! is a weight in the fair class.
//!
//! The user asks for a policy. The class follows from it, and from the priority that the task
//! inherits: with such a priority it is real-time, whatever its policy.
//!
//! A class has duties, and `docs/design/classes.md` lists all of them. This file has those that
//! concern the class alone. `run_queue/class` has those of one CPU, and the crate above has the
//! choice of a CPU. Each duty matches [`Class`] without a wildcard, so a new class does not compile
//! until it has answered each of them. All other code calls a duty and matches no class.
//!
//! Rejected: a trait with a type for each class. A run queue would choose the type by a match all
//! the same, and trait objects cost an indirect call for each duty.

use crate::attr::{Policy, RtPrio};
use crate::time::Nanos;
use std::iter::successors;

/// The class of a task. Classes are ordered by importance: a task of a later variant precedes tasks
/// of earlier ones, and within the real-time class the priority decides.
///
/// ```
/// use runyard_engine::attr::{Nice, Policy, RtPrio};
/// use runyard_engine::class::Class;
///
/// assert_eq!(Policy::Normal(Nice::ZERO).class(), Class::Fair);
/// assert_eq!(Policy::Idle.class(), Class::Fair);
/// assert_eq!(Policy::Fifo(RtPrio::MIN).class(), Class::Rt(RtPrio::MIN));
/// assert!(Class::Fair < Class::Rt(RtPrio::MIN));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Tasks share a CPU in proportion to their weights (`fair_sched_class`).
    Fair,
    /// The task with the highest priority has the CPU (`rt_sched_class`).
    Rt(RtPrio),
}

impl Class {
    /// Returns the classes in the order in which a CPU asks them for a task (`for_each_class`).
    #[inline(always)]
    pub(crate) fn all() -> impl Iterator<Item = Class> {
        successors(Some(Class::Rt(RtPrio::MAX)), |class| class.below())
    }

    /// Returns the class that a CPU asks after this one. A class to which none leads is never asked.
    #[inline(always)]
    const fn below(self) -> Option<Class> {
        match self {
            Class::Rt(_) => Some(Class::Fair),
            Class::Fair => None,
        }
    }

    /// Returns whether the mechanisms of the fair class apply: it has an entity with a vruntime in a
    /// fair queue, is balanced by load, and can be in a batch.
    #[inline]
    #[must_use]
    pub const fn is_fair(self) -> bool {
        match self {
            Class::Fair => true,
            Class::Rt(_) => false,
        }
    }

    /// Returns whether the budget of a CPU for real-time tasks (`rt_runtime`) bounds it.
    #[inline]
    #[must_use]
    pub const fn has_rt_budget(self) -> bool {
        match self {
            Class::Fair => false,
            Class::Rt(_) => true,
        }
    }

    /// Returns the priority by which CPUs push and pull its waiting tasks; `None` if they do not.
    ///
    /// ```
    /// use runyard_engine::attr::RtPrio;
    /// use runyard_engine::class::Class;
    ///
    /// assert_eq!(Class::Rt(RtPrio::MAX).push_prio(), Some(RtPrio::MAX));
    /// assert_eq!(Class::Fair.push_prio(), None);
    /// ```
    #[inline]
    #[must_use]
    pub const fn push_prio(self) -> Option<RtPrio> {
        match self {
            Class::Fair => None,
            Class::Rt(prio) => Some(prio),
        }
    }

    /// Returns the priority that a task of this class lends to the tasks for which it waits; `None`
    /// if they inherit nothing.
    #[inline]
    #[must_use]
    pub const fn lent_prio(self) -> Option<RtPrio> {
        match self {
            Class::Fair => None,
            Class::Rt(prio) => Some(prio),
        }
    }

    /// Returns the class of a task that would have this one, but inherits the priority `boost`.
    ///
    /// ```
    /// use runyard_engine::attr::RtPrio;
    /// use runyard_engine::class::Class;
    ///
    /// assert_eq!(Class::Fair.boosted(Some(RtPrio::MIN)), Class::Rt(RtPrio::MIN));
    /// assert_eq!(Class::Rt(RtPrio::MAX).boosted(Some(RtPrio::MIN)), Class::Rt(RtPrio::MAX));
    /// ```
    #[inline]
    #[must_use]
    pub fn boosted(self, boost: Option<RtPrio>) -> Class {
        match self {
            Class::Fair => boost.map_or(Class::Fair, Class::Rt),
            Class::Rt(own) => Class::Rt(boost.map_or(own, |boost| boost.max(own))),
        }
    }

    /// Returns the slack of the timers of a task that asks for the slack `asked`. A real-time task
    /// has none.
    #[inline]
    #[must_use]
    pub const fn slack(self, asked: Nanos) -> Nanos {
        match self {
            Class::Fair => asked,
            Class::Rt(_) => Nanos::ZERO,
        }
    }
}

impl Policy {
    /// Returns the class of a task with this policy that inherits no priority.
    #[inline]
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Policy::Fifo(prio) | Policy::RoundRobin(prio) => Class::Rt(prio),
            Policy::Normal(_) | Policy::Batch(_) | Policy::Idle => Class::Fair,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_asks_more_important_classes_first() {
        assert!(Class::all().is_sorted_by(|before, after| before > after));
        assert_eq!(Class::all().last(), Some(Class::Fair));
    }
}
