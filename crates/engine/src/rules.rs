//! The rules in which the fair classes of the kernels differ. A set of rules is a value: each rule
//! is read where its decision is made, and there is no other path.
//!
//! The functions are those of `kernel/sched/fair.c` of the releases in
//! [`Kernel::release`](crate::kernel::Kernel::release). A rule has no meaning in a fair class that
//! lacks its mechanism. CFS reads only the first three and `buddies`; placement, balance and limits
//! read the last six with both classes.

use crate::time::Nanos;

/// The rules of a fair class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairRules {
    /// A task that is not idle preempts one that is, whatever their groups (6.1,
    /// `check_preempt_wakeup`). Otherwise only entities that compete in one queue are compared, as
    /// since 6.6.
    pub idle_tasks_first: bool,
    /// A running idle entity that makes way for one that is not idle loses its turn (6.12,
    /// `check_preempt_wakeup_fair`). In 6.6 it keeps the turn, and may be picked again.
    pub idle_ends_turn: bool,
    /// A turn begins anew if the same task is picked again. No kernel does this: `set_next_entity`
    /// is only called for another entity (`pick_next_task_fair`).
    pub renews: bool,
    /// A fair task may request a slice (6.12, `__setparam_fair`, `__setscheduler_params`).
    pub takes_slices: bool,
    /// The protection of the running entity against its equals.
    pub protects: Protects,
    /// The effect of a woken entity with a shorter slice on that protection.
    pub short: Short,
    /// A new task may preempt when it comes, whatever its slice. In 6.18.35 it may not
    /// (`check_preempt_wakeup_fair`).
    pub fork_preempts: bool,
    /// A wake-up drops entities that sleep in their place and would be picked before the woken one
    /// (6.18.35, `check_preempt_wakeup_fair`).
    pub wakeup_drops: bool,
    /// Of two equal deadlines that of the waiting entity is first (`pick_eevdf`).
    pub waiting_first: bool,
    /// The condition under which a charge of the running entity may ask for a switch
    /// (`update_curr`); `None` if only the tick asks.
    pub off_tick: Option<Ends>,
    /// The bound of a lag.
    pub bound: LagBound,
    /// The first deadline of a new task is half a slice away (`PLACE_DEADLINE_INITIAL`). In 6.6
    /// `enqueue_task_fair` places the task again, without that.
    pub halves_first: bool,
    /// The debt of an entity is worked off while it sleeps, as if the queue were its own: the rule
    /// of the runtime. In the kernels the debt stays while the entity is out of its queue
    /// (`update_entity_lag`).
    pub works_off: bool,
    /// A group's entity requests the shortest slice in its queue (6.12, `cfs_rq_min_slice`).
    pub shortest_of_group: bool,
    /// The deadline of an entity that moves.
    pub moves: Deadline,
    /// The cost of a yield.
    pub yields: Yields,
    /// The condition under which a pick prefers the buddy of a queue (`next`, `last`).
    pub buddies: Buddies,
    /// The shortest interval at which a CPU publishes its average load in a group: 1 ms since 6.12
    /// (`update_tg_load_avg`).
    pub publishes_every: Nanos,
    /// A CPU with only SCHED_IDLE tasks is free for every task that wakes up, even a SCHED_IDLE one
    /// (`sched_idle_cpu` in `select_idle_sibling`, since 5.4). `IDLE_LOAD_BALANCE` has a rule of
    /// its own.
    pub wakes_onto_sched_idle: bool,
    /// A real-time task that is alone on its CPU makes it overloaded until it runs there, so that
    /// others look at the CPU when they pull (`enqueue_pushable_task` sets `rto_mask` since 6.7).
    /// By the earlier rule, and that of the founding series, it takes a second real-time task.
    pub lone_rt_overloads: bool,
    /// A waker with many wakees does not pull them to its CPU (`wake_wide`, since 3.12).
    pub wake_wide: bool,
    /// A CPU with fair tasks does not take an ineligible one at its first try (6.18,
    /// `task_is_ineligible_on_dst_cpu`).
    pub pulls_eligible: bool,
    /// Periods of limited groups begin at random times, so that their timers interleave (since 6.4,
    /// `init_cfs_bandwidth`). Before, they began at multiples of their length. For
    /// [`Feature::CfsBandwidth`](crate::features::Feature::CfsBandwidth), as are the next two.
    pub interleaves_periods: bool,
    /// A queue that is throttled while it is empty counts as throttled from then on. Since 6.6 it
    /// counts from its first task on (`throttle_cfs_rq`, `enqueue_entity`).
    pub counts_empty_throttling: bool,
    /// A throttled queue stays where it is, and each of its tasks leaves on its own, at its return to
    /// user mode (since 6.18, `throttle_cfs_rq_work`). Before, the queue leaves with all its tasks.
    pub throttles_tasks: bool,
}

/// The point until which the running entity is picked as long as it is eligible (`RUN_TO_PARITY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protects {
    /// Its deadline, or a slice after it was picked: the rule of the runtime, in which a yield does
    /// not extend a turn.
    ToSlice,
    /// Its deadline (6.6 and 6.12, `pick_eevdf`).
    ToDeadline,
    /// Its deadline, or the shortest slice in the queue after it was picked (6.18,
    /// `set_protect_slice`).
    ToShortestSlice,
}

/// The effect of waking an entity with a shorter slice than the running one (`PREEMPT_SHORT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// No effect (6.6).
    Ignored,
    /// It preempts if it is next, apart from the running turn, which is otherwise unchanged: the
    /// rule of the runtime.
    Preempts,
    /// The running turn ends if the woken entity is eligible, and either its deadline is earlier or
    /// the running one is not eligible. It need not be the next entity (6.12, `do_preempt_short`).
    Cancels,
    /// It preempts if it is next, apart from the running turn. A wake-up that does not preempt
    /// limits that turn to the shortest slice in the queue (6.18, `update_protect_slice`).
    Shrinks,
}

/// The time at which the running entity makes way, other than its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Never (6.6, `update_deadline`).
    AtDeadline,
    /// When its turn is over and it is not eligible (6.12, `did_preempt_short`).
    IfIneligible,
    /// When its turn is over (6.18, `update_curr`).
    Unprotected,
}

/// The bound of a lag on either side, in CPU time (`entity_lag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagBound {
    /// Two slices of its own, or a tick (6.6, 6.12 and 6.18.15).
    TwoOwnSlices,
    /// The longest queued slice, and a tick (6.18).
    LongestQueued,
    /// The longest slice that was queued since the queue was empty, and a tick: the rule of the
    /// runtime.
    LongestSinceEmpty,
}

/// The deadline of an entity that comes from another queue (`PLACE_REL_DEADLINE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// A slice after its place (6.6).
    Anew,
    /// As far away as before (6.12).
    Kept,
    /// As far away as before, and at most a slice: the rule of the runtime.
    KeptWithinSlice,
}

/// The cost of a yield (`yield_task_fair`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yields {
    /// Its deadline moves back by a slice (6.6).
    PutsOff,
    /// The same, to at most two slices away: the rule of the runtime.
    PutsOffWithinTwo,
    /// The rest of its slice, if it is eligible (6.12).
    Forfeits,
}

/// The condition under which a pick prefers the buddy of a queue: a member that is warm in the
/// caches, though another one is first. The group that a task left to sleep or to end is one, if
/// others stay in it (`set_next_buddy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buddies {
    /// It never does: the rule of the runtime, and of 6.6, where `NEXT_BUDDY` is off
    /// (`pick_next_entity`).
    Ignored,
    /// The buddy is ahead of the first member by the wake-up granularity at most. Buddies are also a
    /// woken member that preempts, and in long queues the preempted task (6.1, `pick_next_entity`,
    /// `check_preempt_wakeup`). For CFS.
    NearFirst,
    /// The buddy is eligible (`PICK_BUDDY` of 6.12, `pick_next_entity`). For EEVDF.
    Eligible,
    /// The same. While the buddy is eligible, a wake-up check takes it for the next member, too
    /// (6.18, `pick_eevdf`). For EEVDF.
    EligibleAtWakeups,
}

impl FairRules {
    /// The rules of the runtime, and of a machine without a named kernel.
    pub const RUNYARD: FairRules = FairRules {
        idle_tasks_first: true,
        idle_ends_turn: true,
        renews: true,
        takes_slices: true,
        protects: Protects::ToSlice,
        short: Short::Preempts,
        fork_preempts: true,
        wakeup_drops: false,
        waiting_first: false,
        off_tick: None,
        bound: LagBound::LongestSinceEmpty,
        halves_first: true,
        works_off: true,
        shortest_of_group: false,
        moves: Deadline::KeptWithinSlice,
        yields: Yields::PutsOffWithinTwo,
        buddies: Buddies::Ignored,
        publishes_every: Nanos::ZERO,
        wakes_onto_sched_idle: false,
        wake_wide: false,
        pulls_eligible: false,
        lone_rt_overloads: false,
        interleaves_periods: true,
        counts_empty_throttling: false,
        throttles_tasks: false,
    };

    /// The rules of 6.1, with CFS as its fair class.
    pub const V6_1: FairRules = FairRules {
        renews: false,
        takes_slices: false,
        buddies: Buddies::NearFirst,
        wakes_onto_sched_idle: true,
        wake_wide: true,
        interleaves_periods: false,
        counts_empty_throttling: true,
        ..FairRules::RUNYARD
    };

    /// The rules of 6.6.
    pub const V6_6: FairRules = FairRules {
        idle_tasks_first: false,
        idle_ends_turn: false,
        renews: false,
        takes_slices: false,
        protects: Protects::ToDeadline,
        short: Short::Ignored,
        fork_preempts: true,
        wakeup_drops: false,
        waiting_first: true,
        off_tick: Some(Ends::AtDeadline),
        bound: LagBound::TwoOwnSlices,
        halves_first: false,
        works_off: false,
        shortest_of_group: false,
        moves: Deadline::Anew,
        yields: Yields::PutsOff,
        buddies: Buddies::Ignored,
        publishes_every: Nanos::ZERO,
        wakes_onto_sched_idle: true,
        wake_wide: true,
        pulls_eligible: false,
        lone_rt_overloads: false,
        interleaves_periods: true,
        counts_empty_throttling: false,
        throttles_tasks: false,
    };

    /// The rules of 6.12.
    pub const V6_12: FairRules = FairRules {
        lone_rt_overloads: true,
        idle_ends_turn: true,
        takes_slices: true,
        short: Short::Cancels,
        off_tick: Some(Ends::IfIneligible),
        halves_first: true,
        shortest_of_group: true,
        moves: Deadline::Kept,
        yields: Yields::Forfeits,
        buddies: Buddies::Eligible,
        publishes_every: Nanos::from_millis(1),
        ..FairRules::V6_6
    };

    /// The rules of 6.18, which are those of the default model.
    pub const V6_18: FairRules = FairRules {
        protects: Protects::ToShortestSlice,
        short: Short::Shrinks,
        fork_preempts: false,
        wakeup_drops: true,
        off_tick: Some(Ends::Unprotected),
        bound: LagBound::LongestQueued,
        buddies: Buddies::EligibleAtWakeups,
        pulls_eligible: true,
        throttles_tasks: true,
        ..FairRules::V6_12
    };

    /// The rules of 6.18.15. The bound of a lag is that of 6.12: measured, as with the later bound
    /// five times as many decisions of this kernel differ (`docs/design/laboratory.md`).
    pub const V6_18_15: FairRules = FairRules { bound: LagBound::TwoOwnSlices, ..FairRules::V6_18 };

    /// Returns whether the shortest and the longest slice in a queue must be known.
    pub(crate) fn needs_extremes(&self) -> bool {
        self.protects == Protects::ToShortestSlice
            || self.bound == LagBound::LongestQueued
            || self.shortest_of_group
    }
}
