//! The load of a CPU, as other CPUs see it.

use crate::attr::RtPrio;
use crate::limits::Pools;
use crate::run_queue::class::Classes;

/// The data by which other CPUs decide. It is a snapshot, stale as soon as it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLoad {
    /// The highest importance of a task on this CPU.
    pub importance: Importance,
    /// The most important task that waits and could go elsewhere.
    pub pushable: Option<RtPrio>,
    /// The number of tasks that have the budget to run, the running one included.
    pub nr_running: u32,
    /// The number of fair tasks, the running one included.
    pub nr_fair: u32,
    /// The number of fair tasks that are SCHED_IDLE or below a group that counts as idle
    /// ([`Groups::counts_as_idle`](crate::group::Groups::counts_as_idle)); the kernel's
    /// `idle_h_nr_running` of a CPU.
    pub nr_idle: u32,
    /// Whether these idle tasks are in a group of normal weight, so that normal tasks must wait for them.
    pub idle_is_heavy: bool,
    /// Whether a normal task waits here that would run at once on a CPU with only light idle tasks.
    pub pressed: bool,
    /// The sum of the weights of the fair entities.
    pub load: u64,
}

impl CpuLoad {
    /// Returns whether this CPU has only SCHED_IDLE tasks, so that a normal task would run at once
    /// and nearly always (`sched_idle_cpu`). Unlike the kernel, this considers their weight as
    /// well: SCHED_IDLE tasks in a group of normal weight delay a normal task like any other.
    #[must_use]
    pub fn is_sched_idle(&self) -> bool {
        self.nr_idle > 0 && self.nr_idle == self.nr_running && !self.idle_is_heavy
    }
}

/// The importance of a CPU's work, compared with a real-time task that needs a CPU: the task may go
/// to a CPU where it is more important than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// No real-time task.
    Normal,
    /// The priority of a real-time task that runs or waits.
    Rt(RtPrio),
    /// The CPU takes no real-time task: it is offline, or its real-time tasks wait for their
    /// budget.
    Closed,
}

impl<P, G: Pools> Classes<P, G> {
    /// Returns the snapshot by which other CPUs decide.
    #[inline]
    #[must_use]
    pub fn load(&self) -> CpuLoad {
        let throttled = self.queues.rt.is_throttled();
        let closed = !self.queues.site.is_online() || throttled;
        let importance = match self.queues.rt.highest() {
            _ if closed => Importance::Closed,
            Some(prio) => Importance::Rt(prio),
            None => Importance::Normal,
        };
        let root = self.queues.fair.root();
        let (nr_fair, nr_idle) = (root.nr_tasks, root.nr_idle_tasks);
        let nr_running = if throttled { nr_fair } else { self.queues.rt.nr() + nr_fair };
        let idle_is_heavy = self.queues.fair.idle_is_heavy();
        let others = nr_running - nr_idle + u32::from(idle_is_heavy);
        CpuLoad {
            importance,
            pushable: self.queues.rt.best_pushable().filter(|_| !closed && !self.is_serving()),
            nr_running,
            nr_fair,
            nr_idle,
            idle_is_heavy,
            pressed: nr_fair > nr_idle && others > 1,
            load: root.load,
        }
    }

    /// Returns whether [`Classes::load`] is certain to equal `last`: there is no real-time task,
    /// there was none then, and the fair load is the same. This costs less than the snapshot, and
    /// most switches leave the load unchanged.
    #[inline]
    #[must_use]
    pub fn still_has(&self, last: &CpuLoad) -> bool {
        let was_normal = last.importance == Importance::Normal;
        let is_normal = self.queues.site.is_online()
            && self.queues.rt.is_empty()
            && !self.queues.rt.is_throttled();
        let root = self.queues.fair.root();
        let still = was_normal
            && is_normal
            && (root.nr_tasks, root.nr_idle_tasks) == (last.nr_fair, last.nr_idle)
            && (root.load, self.queues.fair.idle_is_heavy()) == (last.load, last.idle_is_heavy);
        debug_assert!(!still || self.load() == *last, "the load is unchanged");
        still
    }
}
