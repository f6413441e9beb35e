//! What a CPU has to do, as the others see it.

use crate::attr::{RtPrio, Weight};
use crate::limits::Pools;
use crate::run_queue::RunQueue;

/// What the others decide on. A snapshot: stale as soon as it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLoad {
    /// What is most important here.
    pub importance: Importance,
    /// The most important task that waits and could go elsewhere.
    pub pushable: Option<RtPrio>,
    /// Tasks that have the budget to run, the running one included.
    pub nr_running: u32,
    /// Fair tasks, the running one included.
    pub nr_fair: u32,
    /// Those of them that are SCHED_IDLE or below a group that is as good as that
    /// ([`Groups::counts_as_idle`](crate::group::Groups::counts_as_idle)); the kernel's
    /// `idle_h_nr_running` of a CPU.
    pub nr_idle: u32,
    /// A group gives these idle tasks normal weight, so normal tasks must wait for them.
    pub idle_is_heavy: bool,
    /// A normal task waits here and would run at once on a CPU with only light idle tasks.
    pub pressed: bool,
    /// The sum of the fair entities' weights.
    pub load: u64,
}

impl CpuLoad {
    /// Whether there are SCHED_IDLE tasks here and nobody else, so that a normal task would run at
    /// once and nearly always (`sched_idle_cpu`). Unlike the kernel's, this looks at their weight as
    /// well: SCHED_IDLE tasks alone in a group of normal weight stand in the way as any do.
    #[must_use]
    pub fn is_sched_idle(&self) -> bool {
        self.nr_idle > 0 && self.nr_idle == self.nr_running && !self.idle_is_heavy
    }
}

/// How important the work of a CPU is, from the point of view of a real-time task that looks for
/// one: it may go where it is more important than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// Nothing real-time.
    Normal,
    /// A real-time task runs or waits.
    Rt(RtPrio),
    /// Takes no real-time task: offline, or its real-time tasks wait for their budget.
    Closed,
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Who could run: a CPU that has real-time tasks without budget has room for others.
    pub(super) fn nr_running(&self) -> u32 {
        let rt = if self.rt.is_throttled() { 0 } else { self.rt.nr() };
        rt + self.fair.root().nr_tasks
    }

    /// The snapshot that others decide on.
    #[inline]
    #[must_use]
    pub fn load(&self) -> CpuLoad {
        let throttled = self.rt.is_throttled();
        let closed = !self.online || throttled;
        let importance = match self.rt.highest() {
            _ if closed => Importance::Closed,
            Some(prio) => Importance::Rt(prio),
            None => Importance::Normal,
        };
        let root = self.fair.root();
        let (nr_fair, nr_idle) = (root.nr_tasks, root.nr_idle_tasks);
        let nr_running = if throttled { nr_fair } else { self.rt.nr() + nr_fair };
        let idle_is_heavy = self.idle_is_heavy();
        let others = nr_running - nr_idle + u32::from(idle_is_heavy);
        CpuLoad {
            importance,
            pushable: self.rt.best_pushable().filter(|_| !closed && !self.is_serving()),
            nr_running,
            nr_fair,
            nr_idle,
            idle_is_heavy,
            pressed: nr_fair > nr_idle && others > 1,
            load: root.load,
        }
    }

    /// Whether [`RunQueue::load`] is certain to be `last`, as there is nothing real-time, nor was then, and
    /// as much fair work. That costs less than to look; most switches leave it so.
    #[inline]
    #[must_use]
    pub fn still_has(&self, last: &CpuLoad) -> bool {
        let was_normal = last.importance == Importance::Normal;
        let is_normal = self.online && self.rt.is_empty() && !self.rt.is_throttled();
        let root = self.fair.root();
        let still = was_normal
            && is_normal
            && (root.nr_tasks, root.nr_idle_tasks) == (last.nr_fair, last.nr_idle)
            && (root.load, self.idle_is_heavy()) == (last.load, last.idle_is_heavy);
        debug_assert!(!still || self.load() == *last, "the load is what it was");
        still
    }

    fn idle_is_heavy(&self) -> bool {
        let light = u64::from(self.fair.root().nr_idle_tasks * Weight::IDLE.get());
        self.fair.idle_load() > light
    }
}
