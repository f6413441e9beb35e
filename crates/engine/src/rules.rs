//! What the fair classes of the kernels do each in their own way. A record of rules is a value; each rule is asked
//! where its decision is made, and no other path is taken.
//!
//! Functions are those of `kernel/sched/fair.c` of the releases that [`Kernel::release`](crate::kernel::Kernel::release)
//! has. A rule that a fair class does not have is without a meaning there: CFS looks at the first three alone; placement and balance look at the last three with both.

use crate::time::Nanos;

/// The rules of a fair class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairRules {
    /// A task that is not idle preempts one that is, whatever their groups (6.1, `check_preempt_wakeup`). Else only
    /// what competes in one queue is compared, as of 6.6.
    pub idle_tasks_first: bool,
    /// A running entity that is idle and makes way for one that is not loses its turn (6.12, `check_preempt_wakeup_fair`).
    /// In 6.6 it keeps that, and may be picked again.
    pub idle_ends_turn: bool,
    /// A turn begins anew if the same task is picked again. In no kernel: `set_next_entity` is for another one
    /// (`pick_next_task_fair`).
    pub renews: bool,
    /// A fair task may ask for a slice (6.12, `__setparam_fair`, `__setscheduler_params`).
    pub takes_slices: bool,
    /// How long the running entity keeps the CPU against its equals.
    pub protects: Protects,
    /// What a woken entity with a shorter slice does to that.
    pub short: Short,
    /// A new task may preempt by its coming, whatever its slice. In 6.18.35 it may not (`check_preempt_wakeup_fair`).
    pub fork_preempts: bool,
    /// A wake-up takes out what sleeps in its place and would be picked before the woken entity (6.18.35,
    /// `check_preempt_wakeup_fair`).
    pub wakeup_drops: bool,
    /// Of two equal deadlines that of the one that waits is first (`pick_eevdf`).
    pub waiting_first: bool,
    /// Whether a switch may be asked for whenever the running entity is charged, and why (`update_curr`); `None` if the
    /// tick alone asks.
    pub off_tick: Option<Ends>,
    /// How large a lag may be.
    pub bound: LagBound,
    /// The first deadline of a new task is half a slice away (`PLACE_DEADLINE_INITIAL`). In 6.6 `enqueue_task_fair` places
    /// the task again, without that.
    pub halves_first: bool,
    /// What an entity owes is worked off while it sleeps, as if the queue were its own: the runtime's rule. In the kernels
    /// nothing works it off while the entity is out of its queue (`update_entity_lag`).
    pub works_off: bool,
    /// A group's entity wants the shortest slice that is wanted in its queue (6.12, `cfs_rq_min_slice`).
    pub shortest_of_group: bool,
    /// What becomes of the deadline of an entity that moves.
    pub moves: Deadline,
    /// What a yield costs.
    pub yields: Yields,
    /// A CPU tells the others of its average load in a group no sooner than so long after it last did: 1 ms as of 6.12
    /// (`update_tg_load_avg`).
    pub publishes_every: Nanos,
    /// A CPU with nothing but SCHED_IDLE tasks is free to every task that wakes up, also to one that is SCHED_IDLE itself
    /// (`sched_idle_cpu` in `select_idle_sibling`, since 5.4). `IDLE_LOAD_BALANCE` has a rule of its own.
    pub wakes_onto_sched_idle: bool,
    /// A waker with many wakees does not draw them to its CPU (`wake_wide`, since 3.12).
    pub wake_wide: bool,
    /// A CPU with fair tasks does not take an ineligible one at its first try (6.18, `task_is_ineligible_on_dst_cpu`).
    pub pulls_eligible: bool,
}

/// Until when the running entity is picked as long as it is eligible (`RUN_TO_PARITY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protects {
    /// Its deadline, or a slice after it was picked: the runtime's rule, in which a yield puts off no turn.
    ToSlice,
    /// Its deadline (6.6 and 6.12, `pick_eevdf`).
    ToDeadline,
    /// Its deadline, or as much time as the shortest slice in the queue (6.18, `set_protect_slice`).
    ToShortestSlice,
}

/// What comes of the wake-up of an entity that wants less at a time than the running one (`PREEMPT_SHORT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Nothing (6.6).
    Ignored,
    /// It preempts if it is next but for the turn of the running one, of which nothing is taken else: the
    /// runtime's rule.
    Preempts,
    /// If it is eligible, and its deadline is earlier or the running one is not eligible, that one's turn is over,
    /// whoever is next (6.12, `do_preempt_short`).
    Cancels,
    /// It preempts if it is next but for the turn of the running one, which lasts for the shortest slice in the queue
    /// from then on (6.18, `update_protect_slice`). So it does after every wake-up that preempts nobody.
    Shrinks,
}

/// When the running entity makes way besides at its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Never (6.6, `update_deadline`).
    AtDeadline,
    /// When its turn is over and it is not eligible (6.12, `did_preempt_short`).
    IfIneligible,
    /// When its turn is over (6.18, `update_curr`).
    Unprotected,
}

/// How large a lag may be on either side, in CPU time (`entity_lag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagBound {
    /// Two slices of its own, or a tick (6.6 and 6.12).
    TwoOwnSlices,
    /// The longest slice that is queued, and a tick (6.18).
    LongestQueued,
    /// The longest slice that was queued since the queue was empty, and a tick: the runtime's rule.
    LongestSinceEmpty,
}

/// The deadline of an entity that comes from another queue (`PLACE_REL_DEADLINE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// A slice after it is placed (6.6).
    Anew,
    /// As far away as it was (6.12).
    Kept,
    /// As far away as it was, and a slice at the most: the runtime's rule.
    KeptWithinSlice,
}

/// What a task that yields gives (`yield_task_fair`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yields {
    /// Its deadline is put off by a slice (6.6).
    PutsOff,
    /// The same, to two slices away at the most: the runtime's rule.
    PutsOffWithinTwo,
    /// The rest of what it asked for, if it is eligible (6.12).
    Forfeits,
}

impl FairRules {
    /// Those of the runtime, and of a machine of which no kernel was named.
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
        publishes_every: Nanos::ZERO,
        wakes_onto_sched_idle: false,
        wake_wide: false,
        pulls_eligible: false,
    };

    /// Those of 6.1, whose fair class is CFS.
    pub const V6_1: FairRules = FairRules {
        renews: false,
        takes_slices: false,
        wakes_onto_sched_idle: true,
        wake_wide: true,
        ..FairRules::RUNYARD
    };

    /// Those of 6.6.
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
        publishes_every: Nanos::ZERO,
        wakes_onto_sched_idle: true,
        wake_wide: true,
        pulls_eligible: false,
    };

    /// Those of 6.12.
    pub const V6_12: FairRules = FairRules {
        idle_ends_turn: true,
        takes_slices: true,
        short: Short::Cancels,
        off_tick: Some(Ends::IfIneligible),
        halves_first: true,
        shortest_of_group: true,
        moves: Deadline::Kept,
        yields: Yields::Forfeits,
        publishes_every: Nanos::from_millis(1),
        ..FairRules::V6_6
    };

    /// Those of 6.18.
    pub const V6_18: FairRules = FairRules {
        protects: Protects::ToShortestSlice,
        short: Short::Shrinks,
        fork_preempts: false,
        wakeup_drops: true,
        off_tick: Some(Ends::Unprotected),
        bound: LagBound::LongestQueued,
        pulls_eligible: true,
        ..FairRules::V6_12
    };

    /// Whether it must be known how short and how long the slices in a queue are.
    pub(crate) fn needs_extremes(&self) -> bool {
        self.protects == Protects::ToShortestSlice
            || self.bound == LagBound::LongestQueued
            || self.shortest_of_group
    }
}
