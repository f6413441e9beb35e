//! The choice of a CPU for tasks that wake or start.
//!
//! A fair task that wakes goes to its last CPU or to its waker's CPU (`wake_affine`), or to a *free* CPU near that
//! (`select_idle_sibling`). A new fair task goes to the node with the most free CPUs (`find_idlest_group`). An idle CPU
//! is free. Under `IDLE_LOAD_BALANCE`, a CPU with only SCHED_IDLE tasks is free, too, for a task that does not count as
//! SCHED_IDLE itself (`sched_idle_cpu`). It is not free for a SCHED_IDLE task, which would wait there while other CPUs
//! are idle (`fd54d81c2c0e` of Linux, Feb 2026).

use crate::sight::Sight;
use runyard_engine::attr::{Cookie, RtPrio};
use runyard_engine::balance::power::FULL_POWER;
use runyard_engine::balance::{Measure, Seen};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::run_queue::{Importance, TaskAverages};
use runyard_engine::task::Task;
use runyard_engine::time::Time;
use runyard_engine::topology::Level;
use std::cmp::Reverse;
use std::ops::Range;

/// The largest number of CPUs, and of nodes, that a choice examines one by one. It keeps the cost of a choice from
/// growing with the machine.
const CPUS_LOOKED_AT: usize = 64;

/// A fair task that needs a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeker<'a> {
    sight: &'a Sight,
    now: Time,
    affinity: &'a CpuSet,
    weight: u64,
    /// The task counts as SCHED_IDLE, by its policy or by a group above it.
    sched_idle: bool,
    /// The CPU that wakes the task. It is awake whatever it published last.
    waker: Option<CpuId>,
    /// The task's recent load, if it is known (`PELT`).
    averages: Option<TaskAverages>,
    cookie: Option<Cookie>,
}

impl<'a> Seeker<'a> {
    pub(crate) fn new<W>(
        sight: &'a Sight,
        now: Time,
        task: &'a Task<W>,
        waker: Option<CpuId>,
    ) -> Seeker<'a> {
        Seeker::within(sight, now, task, waker, &task.attr().affinity)
    }

    /// Returns the same for a task that may only use a part of its affinity.
    pub(crate) fn within<W>(
        sight: &'a Sight,
        now: Time,
        task: &'a Task<W>,
        waker: Option<CpuId>,
        affinity: &'a CpuSet,
    ) -> Seeker<'a> {
        let attr = task.attr();
        Seeker {
            sight,
            now,
            affinity,
            weight: attr.policy.weight().get().into(),
            sched_idle: sight.counts_as_idle(attr),
            waker,
            averages: task.averages(now),
            cookie: sight.cookie_of(task),
        }
    }

    /// Chooses a CPU for a fair task (`select_task_rq_fair`). The target is the waker's CPU or the task's last CPU. The
    /// first free CPU wins: the target, the last CPU if it is near, another CPU near the target. If none is free, the
    /// choice is the target. A `wide` waker has many wakees and does not draw the task to its CPU.
    #[inline(always)]
    pub(crate) fn select_cpu(&self, last: CpuId, wide: bool) -> CpuId {
        let usable = |&cpu: &CpuId| {
            cpu != last && self.affinity.contains(cpu) && self.sight.hints.online.contains(cpu)
        };
        let waker = self.waker.filter(|_| !wide).filter(usable);
        let target = waker.filter(|&cpu| self.is_affine(cpu, last)).unwrap_or(last);
        let node = self.sight.config.topology.span(target, Level::Node);
        let free = |cpu: CpuId| self.is_free(cpu);
        if free(target) {
            return target;
        }
        if node.contains(&last.index()) && free(last) {
            return last;
        }
        if self.packs(target, last) {
            return target;
        }
        let found = match self.sight.has(Feature::SisUtil) {
            true => self.scan(node, target, last),
            false => {
                self.find_idle(node.clone(), target).or_else(|| self.find_sched_idle(node, target))
            }
        };
        found.unwrap_or(target)
    }

    /// Returns a free CPU near a busy target (`select_idle_smt`, `select_idle_cpu`). With several threads a core, it
    /// prefers a wholly idle core, then a free sibling of the last CPU. Otherwise it scans the next CPUs, as many as
    /// `SIS_UTIL` allows.
    fn scan(&self, node: Range<usize>, target: CpuId, last: CpuId) -> Option<CpuId> {
        let (hints, next) = (&self.sight.hints, after(&node, target));
        let sibling = || {
            let core = self.sight.config.topology.span(last, Level::Smt);
            core.map(CpuId::at)
                .find(|&cpu| cpu != last && self.affinity.contains(cpu) && self.is_free(cpu))
        };
        let threads = self.sight.config.topology.threads() > 1;
        let near = || self.find_whole_core(node.clone(), next).or_else(sibling);
        if let Some(cpu) = threads.then(near).flatten() {
            return Some(cpu);
        }
        let idle = hints.idle.ring(self.affinity, node.clone(), next);
        let suits =
            |&cpu: &CpuId| self.is_awake_for(cpu) && self.sight.suits_core(cpu, self.cookie);
        let idle = idle.filter(suits).take(1);
        let takes = usize::from(self.takes_sched_idle());
        let other = hints.sched_idle.ring(self.affinity, node.clone(), next).take(takes);
        let distance = |cpu: &CpuId| match cpu.index().checked_sub(next.index()) {
            Some(distance) => distance,
            None => cpu.index() + node.len() - next.index(),
        };
        let nearest = idle.chain(other).min_by_key(distance)?;
        let most = hints.idle_scan(CpuId::at(node.start));
        let looked_at = || hints.online.ring(self.affinity, node.clone(), next).take(most);
        (distance(&nearest) < most || looked_at().any(|cpu| cpu == nearest)).then_some(nearest)
    }

    /// Returns whether a task is better off on its waker's CPU than on its last CPU (`wake_affine` of 6.12). Idle CPUs
    /// decide first. Then the loads are compared as if the task were on the waker's CPU. The load of the last CPU must
    /// exceed that by half of the imbalance that the balancer acts on.
    ///
    /// Averaged loads (`PELT` and `BALANCE_BY_ROOM`) still contain the sleeper's own load on its last CPU. Momentary
    /// loads do not, and then the task's own load is its weight, also inside a task group.
    fn is_affine(&self, waker: CpuId, last: CpuId) -> bool {
        if self.is_idle_for(last) {
            return false;
        }
        let meets = |&&(level, _): &&_| {
            self.sight.config.topology.span(last, level).contains(&waker.index())
        };
        let (level, domain) =
            self.sight.domains.iter().find(meets).expect("they are on one machine");
        let asleep = self.sight.hints.idle.contains(last);
        if asleep || *level < Level::Machine && self.is_idle_for(waker) {
            return true;
        }
        let [here, there] = [waker, last].map(|cpu| self.sight.seen(self.now, cpu, Measure::All));
        let bias = 100 + (domain.imbalance_pct - 100) / 2;
        let lately = self.sight.has(Feature::BalanceByRoom);
        let (own, left) = match self.averages.filter(|_| lately) {
            Some(averages) => (averages.load, averages.load),
            None => (self.weight, 0),
        };
        let there_without = there.load.saturating_sub(left);
        (here.load + own) * 100 * there.power < there_without * bias * here.power
    }

    /// Returns whether a busy CPU has room for the task, by the patch of some guests' kernels (`sched_vcpu_pack`). That
    /// patch wakes another virtual CPU only if the tasks of the busy one use much of it.
    fn packs(&self, busy: CpuId, last: CpuId) -> bool {
        let Some((most, averages)) = self.sight.config.packs_below.zip(self.averages) else {
            return false;
        };
        let there = self.sight.hints.averages(self.now, busy).util;
        // The averages of the last CPU still contain the task's own utilization.
        let joining = if busy == last { 0 } else { averages.util };
        there + joining < most
    }

    /// Chooses a CPU for a new fair task that is forked on `from` (`find_idlest_group`, `find_idlest_cpu`). The node
    /// with the most free CPUs wins; among equals, the parent's node. Within it, a CPU with only SCHED_IDLE tasks is
    /// preferred to an idle one, since it need not wake. If no CPU is free, the choice is the least loaded CPU of the
    /// least loaded node.
    pub(crate) fn select_cpu_of_new(&self, from: CpuId) -> CpuId {
        if self.sched_idle && self.sight.has(Feature::PowerSavings) {
            let levels = [Level::Node, Level::Machine];
            let spans = levels.map(|level| self.sight.config.topology.span(from, level));
            let awake = spans.into_iter().find_map(|span| self.find_idle(span, from));
            return awake.unwrap_or(from);
        }
        match self.roomiest_node(from) {
            Some(node) => {
                let near = near(&node, from);
                self.find_sched_idle(node.clone(), near)
                    .or_else(|| self.find_idle(node, near))
                    .unwrap_or(from)
            }
            None => self.least_loaded(self.least_loaded_node(from), from),
        }
    }

    /// Returns the node with the most CPUs that are free for this task, if any is free. Among equals it is the nearest.
    fn roomiest_node(&self, from: CpuId) -> Option<Range<usize>> {
        let hints = &self.sight.hints;
        let sched_idle = self.takes_sched_idle();
        let free = |node: Range<usize>| {
            let also = match sched_idle {
                true => hints.sched_idle.count(self.affinity, node.clone()),
                false => 0,
            };
            hints.idle.count(self.affinity, node) + also
        };
        let counted = self.nodes(from).enumerate();
        let counted = counted.map(|(nth, node)| (free(node.clone()), Reverse(nth), node));
        let most = counted.max_by_key(|&(free, nth, _)| (free, nth));
        most.filter(|&(free, ..)| free > 0).map(|(.., node)| node).or_else(|| {
            // With more nodes than the bound allows, not all were examined.
            let all = 0..self.sight.nr_cpus();
            let idle = hints.idle.ring(self.affinity, all, from).next()?;
            Some(self.sight.config.topology.span(idle, Level::Node))
        })
    }

    /// Returns the node with the lowest load relative to power, measured on a sample of its CPUs. The own node wins
    /// unless the difference would make the balancer act.
    fn least_loaded_node(&self, from: CpuId) -> Range<usize> {
        let each = (CPUS_LOOKED_AT / self.nodes(from).count()).max(1);
        let load = |node: Range<usize>| {
            let near = near(&node, from);
            let some = self.sight.hints.online.ring(self.affinity, node, near).take(each);
            let sum =
                some.map(|cpu| self.sight.seen(self.now, cpu, Measure::All)).reduce(|sum, seen| {
                    Seen { load: sum.load + seen.load, power: sum.power + seen.power, ..sum }
                });
            sum.map(by_power)
        };
        let mut nodes = self.nodes(from);
        let own = nodes.next().expect("a CPU is on a node");
        let least = nodes.filter_map(|node| Some((load(node.clone())?, node)));
        let (own_load, least) = (load(own.clone()), least.min_by_key(|(load, _)| *load));
        match (least, self.sight.domains.last()) {
            (Some((least, node)), Some((_, domain)))
                if own_load.is_none_or(|own| 100 * own > domain.imbalance_pct * least) =>
            {
                node
            }
            _ => own,
        }
    }

    /// Returns the CPU with the lowest load relative to power among a sample of the node.
    fn least_loaded(&self, node: Range<usize>, from: CpuId) -> CpuId {
        let next = after(&node, from);
        let some = self.sight.hints.online.ring(self.affinity, node, next).take(CPUS_LOOKED_AT);
        let load = |cpu| {
            let seen = self.sight.seen(self.now, cpu, Measure::All);
            (by_power(seen), seen.nr_fair)
        };
        some.min_by_key(|&cpu| load(cpu)).unwrap_or(from)
    }

    /// Returns some nodes, as the places of their CPUs. The node of `from` comes first.
    fn nodes(&self, from: CpuId) -> impl Iterator<Item = Range<usize>> + use<> {
        let (topology, n) = (self.sight.config.topology, self.sight.nr_cpus());
        let own = topology.span(from, Level::Node);
        let firsts = (own.start..n).step_by(own.len()).chain((0..own.start).step_by(own.len()));
        firsts.take(CPUS_LOOKED_AT).map(move |first| first..first + own.len())
    }

    /// Returns a free CPU of the machine, the next one from `near` on. An idle one is preferred.
    pub(crate) fn find_free(&self, near: CpuId) -> Option<CpuId> {
        let (hints, all) = (&self.sight.hints, 0..self.sight.nr_cpus());
        let idle = hints.idle.ring(self.affinity, all.clone(), near).next();
        idle.or_else(|| self.find_sched_idle(all, near))
    }

    /// Returns whether `cpu` is free for the task.
    fn is_free(&self, cpu: CpuId) -> bool {
        let sched_idle = || self.sight.hints.sched_idle.contains(cpu) && self.takes_sched_idle();
        self.is_idle_for(cpu) || sched_idle()
    }

    /// Returns whether `cpu` is idle and not in a sleep that this task must not disturb.
    fn is_idle_for(&self, cpu: CpuId) -> bool {
        self.sight.hints.idle.contains(cpu) && self.is_awake_for(cpu)
    }

    fn is_awake_for(&self, cpu: CpuId) -> bool {
        !self.sched_idle || self.waker == Some(cpu) || !self.sight.sleeps_deep(self.now, cpu)
    }

    /// Returns whether CPUs with only SCHED_IDLE tasks are free for this task.
    fn takes_sched_idle(&self) -> bool {
        match self.sight.has(Feature::IdleLoadBalance) {
            true => !self.sched_idle,
            false => self.sight.config.rules.wakes_onto_sched_idle,
        }
    }

    /// Returns an idle CPU of a range. With several threads a core, it prefers a wholly idle core (`select_idle_core`).
    /// Otherwise it is the next idle CPU whose core matches the task's cookie.
    #[inline(always)]
    fn find_idle(&self, range: Range<usize>, near: CpuId) -> Option<CpuId> {
        let hints = &self.sight.hints;
        let spares = self.sched_idle && self.sight.has(Feature::PowerSavings);
        let idle = || {
            let most = if spares { CPUS_LOOKED_AT } else { usize::MAX };
            let idle = hints.idle.ring(self.affinity, range.clone(), near).take(most);
            let awake = idle.filter(|&cpu| self.is_awake_for(cpu));
            awake.filter(|&cpu| self.sight.suits_core(cpu, self.cookie))
        };
        let whole = match self.sight.config.topology.threads() {
            1 => None,
            _ => self.find_whole_core(range.clone(), near),
        };
        whole.or_else(|| idle().next())
    }

    /// Returns the next idle CPU of a range whose whole core is idle (`select_idle_core`).
    fn find_whole_core(&self, range: Range<usize>, near: CpuId) -> Option<CpuId> {
        let (hints, topology) = (&self.sight.hints, self.sight.config.topology);
        let is_whole = |cpu: &CpuId| {
            topology.span(*cpu, Level::Smt).all(|thread| hints.idle.contains(CpuId::at(thread)))
        };
        let idle = hints.idle.ring(self.affinity, range, near);
        let awake = idle.filter(|&cpu| self.is_awake_for(cpu));
        awake.take(CPUS_LOOKED_AT).find(is_whole)
    }

    /// Returns the next CPU of a range with only SCHED_IDLE tasks, if such CPUs are free for this task.
    #[inline(always)]
    fn find_sched_idle(&self, range: Range<usize>, near: CpuId) -> Option<CpuId> {
        let mut some = self.sight.hints.sched_idle.ring(self.affinity, range, near);
        if self.takes_sched_idle() { some.next() } else { None }
    }
}

impl Sight {
    /// Chooses a CPU for a real-time task.
    ///
    /// With `RT_PUSH` this is the last CPU, unless a real-time task runs there that is at least as important or cannot
    /// leave. In that case it is the least important CPU, if there is one below the task's priority
    /// (`select_task_rq_rt` of 6.12). A normal task that is preempted waits with a warm cache. A real-time task that is
    /// preempted goes to another CPU at once. To spare its warm cache, `RT_WAKE_ELSEWHERE` avoids a CPU that runs any
    /// real-time task.
    ///
    /// Without `RT_PUSH`, all tasks count as equal: the last CPU if it is idle, else an idle CPU of its node, else the
    /// last CPU.
    pub(crate) fn select_cpu_rt(
        &self,
        task: &Task<impl Sized>,
        prio: RtPrio,
        last: CpuId,
    ) -> CpuId {
        if !self.has(Feature::RtPush) {
            let node = self.config.topology.span(last, Level::Node);
            let affinity = self.within(last, &task.attr().affinity);
            let mut idle = self.hints.idle.ring(&affinity, node, last);
            return idle.next().unwrap_or(last);
        }
        let there = self.hints.cpupri.of(last);
        let busy = match there.importance {
            Importance::Rt(running) => {
                there.pinned || running >= prio || self.has(Feature::RtWakeElsewhere)
            }
            Importance::Closed => true,
            Importance::Normal => false,
        };
        Some(last).filter(|_| !busy).or_else(|| self.find_lowest(task, prio, last)).unwrap_or(last)
    }

    /// Returns whether a fair task may wait on `waker`, where only the fair task that wakes it runs.
    pub(crate) fn suits(&self, task: &Task<impl Sized>, waker: CpuId) -> bool {
        let alone = || self.hints.counts(waker).nr_fair == 1;
        let normal = || self.hints.cpupri.of(waker).importance == Importance::Normal;
        task.class().is_fair() && task.attr().affinity.contains(waker) && alone() && normal()
    }

    /// Chooses a CPU for a new real-time task: the nearest idle CPU, else the CPU with the fewest fair tasks among a
    /// sample.
    pub(crate) fn least_crowded(&self, task: &Task<impl Sized>, from: CpuId) -> CpuId {
        let affinity = &task.attr().affinity;
        let n = self.nr_cpus();
        let node = self.config.topology.span(from, Level::Node);
        let idle = |range| self.hints.idle.ring(affinity, range, from).next();
        idle(node).or_else(|| idle(0..n)).unwrap_or_else(|| {
            let next = after(&(0..n), from);
            let some = self.hints.online.ring(affinity, 0..n, next).take(CPUS_LOOKED_AT);
            let load = |cpu: CpuId| (self.hints.counts(cpu).nr_fair, self.hints.load(cpu));
            some.min_by_key(|&cpu| load(cpu)).unwrap_or(from)
        })
    }
}

/// Returns `cpu` if it is in the range, else the first CPU of the range.
fn near(range: &Range<usize>, cpu: CpuId) -> CpuId {
    if range.contains(&cpu.index()) { cpu } else { CpuId::at(range.start) }
}

/// Returns the CPU after `cpu` if it is in the range, else the first CPU of the range.
fn after(range: &Range<usize>, cpu: CpuId) -> CpuId {
    let next = cpu.index() + 1;
    CpuId::at(if range.contains(&next) { next } else { range.start })
}

/// Returns the load relative to power.
fn by_power(seen: Seen) -> u64 {
    seen.load * FULL_POWER / seen.power.max(1)
}
