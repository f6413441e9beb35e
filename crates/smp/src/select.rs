//! The choice of a CPU for tasks that wake or start.
//!
//! A fair task that wakes goes to its last CPU or to its waker's CPU (`wake_affine`), or to a *free* CPU near that
//! (`select_idle_sibling`). A new fair task goes to the node with the most free CPUs (`find_idlest_group`). An idle CPU
//! is free. Under `IDLE_LOAD_BALANCE`, a CPU with only SCHED_IDLE tasks is free, too, for a task that does not count as
//! SCHED_IDLE itself (`sched_idle_cpu`). It is not free for a SCHED_IDLE task, which would wait there while other CPUs
//! are idle (`fd54d81c2c0e` of Linux, Feb 2026).

use crate::host::{Controlled, Effects, Moving, TaskOf, apply_pending};
use crate::machine::Machine;
use crate::sync::lock;
use runyard_engine::attr::{Attr, Cookie, LatencyNice, Policy, RtPrio};
use runyard_engine::balance::power::FULL_POWER;
use runyard_engine::balance::{Measure, Seen};
use runyard_engine::class::Class;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::group::Groups;
use runyard_engine::run_queue::{Enqueue, Importance, TaskAverages};
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
struct Seeker<'a> {
    now: Time,
    affinity: &'a CpuSet,
    weight: u64,
    /// The task counts as SCHED_IDLE, by its policy or by a group above it.
    sched_idle: bool,
    /// The CPU that wakes the task. It is awake whatever it published last.
    waker: Option<CpuId>,
    /// The task's recent load, if it is known (`PELT`).
    averages: Option<TaskAverages>,
    /// The waker has many wakees and does not draw the task to its CPU.
    wide: bool,
    cookie: Option<Cookie>,
}

impl<W: Controlled> Machine<W> {
    /// Makes a blocked task runnable. Returns the chosen CPU, which may still refuse the task. The task's affinity must
    /// contain a CPU of this machine. `waker` is the CPU on which the wake-up happens; for a timer, the CPU that it
    /// interrupts. It is `None` if the wake-up happens on no CPU of the machine.
    pub fn wake(
        &self,
        now: Time,
        task: TaskOf<W>,
        waker: Option<CpuId>,
        fx: &mut impl Effects<W>,
    ) -> CpuId {
        self.wake_where(now, task, |task| self.select_cpu(now, task, waker), fx)
    }

    /// Does the same as [`Machine::wake`] for a waker that runs on `waker` and is about to block (`WF_SYNC` of the
    /// kernel). If the waker is alone there, the woken task goes there too: the data that both share is close, and no
    /// other CPU has to wake. The host must make sure that both do not stay there for long while another CPU is idle.
    pub fn wake_sync(
        &self,
        now: Time,
        task: TaskOf<W>,
        waker: CpuId,
        fx: &mut impl Effects<W>,
    ) -> CpuId {
        let select = |task: &Task<W>| match self.suits(task, waker) {
            true => waker,
            false => self.select_cpu(now, task, None),
        };
        self.wake_where(now, task, select, fx)
    }

    /// Does the same as [`Machine::wake`] on a CPU that is awake without work. The woken task goes there if it is fair
    /// and that CPU has no task yet. No other CPU has to wake.
    pub fn wake_here(
        &self,
        now: Time,
        task: TaskOf<W>,
        waker: CpuId,
        fx: &mut impl Effects<W>,
    ) -> CpuId {
        let fits = |task: &Task<W>| {
            task.class().is_fair() && task.attr().affinity.contains(waker) && self.is_idle(waker)
        };
        let select = |task: &Task<W>| match fits(task) {
            true => waker,
            false => self.select_cpu(now, task, Some(waker)),
        };
        self.wake_where(now, task, select, fx)
    }

    fn wake_where(
        &self,
        now: Time,
        mut task: TaskOf<W>,
        select: impl FnOnce(&Task<W>) -> CpuId,
        fx: &mut impl Effects<W>,
    ) -> CpuId {
        apply_pending(&mut task);
        let to = self.where_it_sleeps(&task).unwrap_or_else(|| select(&task));
        self.place(now, task, to, fx)
    }

    /// Returns the CPU whose queue still has the place of a sleeping task (`ttwu_runnable`).
    fn where_it_sleeps(&self, task: &Task<W>) -> Option<CpuId> {
        let cpu = task.sleeps_on()?;
        self.inspect(cpu, |rq| rq.tasks().has_ghost_of(task, rq.site())).then_some(cpu)
    }

    fn place(&self, now: Time, mut task: TaskOf<W>, to: CpuId, fx: &mut impl Effects<W>) -> CpuId {
        task.wakes(now);
        let from = task.cpu();
        self.arrive(now, Moving::new(task, from, to, Enqueue::Woken), fx);
        to
    }

    /// Makes a new task runnable. Returns the chosen CPU, which may still refuse the task. `parent` is the CPU of the
    /// running task that forks it, and the new task starts near that CPU. With `None`, no task of the machine forks it,
    /// and it starts near the CPU that its [`Task::set_cpu`] names.
    pub fn spawn(
        &self,
        now: Time,
        mut task: TaskOf<W>,
        parent: Option<CpuId>,
        fx: &mut impl Effects<W>,
    ) -> CpuId {
        apply_pending(&mut task);
        if let Some(parent) = parent {
            self.fork(now, &mut task, parent);
        }
        let from = self.usable_or_any(&task, task.cpu());
        match task.class() {
            Class::Fair => {
                let to = self.select_cpu_for_new(self.seeker(now, &task, None), from);
                task.set_cpu(to);
                self.place(now, task, to, fx)
            }
            Class::Rt(_) => {
                // From there, the task continues like a woken task.
                task.set_cpu(self.least_crowded(&task, from));
                self.wake(now, task, None, fx)
            }
        }
    }

    /// Does the same as [`Machine::spawn`] for a parent that runs on `parent` and is about to block. The new task goes
    /// to its parent's CPU if the parent is alone there, else to a free CPU, else near its parent. An idle CPU pulls
    /// its share of the tasks later.
    pub fn spawn_sync(
        &self,
        now: Time,
        mut task: TaskOf<W>,
        parent: CpuId,
        fx: &mut impl Effects<W>,
    ) -> CpuId {
        apply_pending(&mut task);
        self.fork(now, &mut task, parent);
        let seeker = self.seeker(now, &task, Some(parent));
        let (hints, all) = (&self.hints, 0..self.cpus.len());
        let idle = || hints.idle.ring(seeker.affinity, all.clone(), parent).next();
        let takes = || self.takes_sched_idle(seeker).then_some(&hints.sched_idle);
        let other = || takes()?.ring(seeker.affinity, all.clone(), parent).next();
        let free = || idle().or_else(other);
        let to = match self.suits(&task, parent) {
            true => parent,
            false => free().unwrap_or_else(|| self.usable_or_any(&task, parent)),
        };
        task.set_cpu(to);
        self.place(now, task, to, fx)
    }

    /// Forks a new task from the task that runs on `parent`. A latency-sensitive child
    /// [inherits](runyard_engine::run_queue::RunQueue::fork) the parent's lead over other tasks as a disadvantage.
    fn fork(&self, now: Time, child: &mut TaskOf<W>, parent: CpuId) {
        child.set_cpu(parent);
        if child.attr().latency_nice < LatencyNice::ZERO {
            self.inspect(parent, |rq| rq.fork(now, child));
        }
    }

    /// Returns whether a task waits for `cpu`, as a hint.
    #[must_use]
    pub fn is_wanted(&self, cpu: CpuId) -> bool {
        let seen = self.hints.counts(cpu);
        let waits_for_core = || self.cores.as_ref().is_some_and(|cores| cores.is_in_episode(cpu));
        match seen.nr_fair + seen.nr_rt {
            0 => false,
            1 => waits_for_core(),
            _ => true,
        }
    }

    /// Returns whether a real-time task runs on `cpu`, as a hint.
    #[must_use]
    pub fn runs_rt(&self, cpu: CpuId) -> bool {
        matches!(self.hints.cpupri.of(cpu).importance, Importance::Rt(_))
    }

    /// Returns whether a real-time task runs or waits on `cpu`, as a hint.
    #[must_use]
    pub fn has_rt(&self, cpu: CpuId) -> bool {
        self.hints.counts(cpu).nr_rt > 0
    }

    /// Returns an idle CPU that could take a task from `cpu`, as a hint.
    #[must_use]
    pub fn idle_cpu_for(&self, cpu: CpuId) -> Option<CpuId> {
        let hints = &self.hints;
        let gives = hints.overloaded.contains(cpu) || hints.pushable.contains(cpu);
        hints.idle.ring(&self.all, 0..self.cpus.len(), cpu).next().filter(|_| gives)
    }

    /// Chooses the CPU of a woken task, or of a task that may not stay on its CPU.
    pub(crate) fn select_cpu(&self, now: Time, task: &Task<W>, waker: Option<CpuId>) -> CpuId {
        let last = self.usable_or_any(task, task.cpu());
        match task.class() {
            Class::Fair => self.select_cpu_of_woken(now, task, waker, last),
            Class::Rt(prio) => self.select_cpu_rt(task, prio, last),
        }
    }

    /// Chooses the CPU of a woken fair task, or of one that may not stay on its CPU.
    fn select_cpu_of_woken(
        &self,
        now: Time,
        task: &Task<W>,
        waker: Option<CpuId>,
        last: CpuId,
    ) -> CpuId {
        let wide = waker.is_some_and(|cpu| self.is_wide(now, task, cpu));
        // An idle last CPU is the best choice (`wake_affine_idle`), and the usual case.
        if self.hints.idle.contains(last) && !self.has(Feature::PowerSavings) {
            return last;
        }
        self.select_cpu_fair(Seeker { wide, ..self.seeker(now, task, waker) }, last)
    }

    /// Notes the wake-up, and returns whether the waker or the woken task wakes so many different tasks that the two
    /// gain nothing from a common node (`wake_wide` of 6.12). This holds if the smaller flip count is at least the
    /// number of CPUs of the node, and the larger one is at least that many times the smaller.
    fn is_wide(&self, now: Time, task: &Task<W>, waker: CpuId) -> bool {
        if !self.config.rules.wake_wide {
            return false;
        }
        let flips = lock(&self.cpus[waker.index()].queue).rq.classes_mut().note_wakee(now, task.id);
        let size = self.config.topology.span(waker, Level::Node).len() as u64;
        let both = [flips, task.wakee_flips()].map(u64::from);
        let (fewer, more) = (both[0].min(both[1]), both[0].max(both[1]));
        fewer >= size && more >= fewer * size
    }

    /// Chooses a CPU for a real-time task.
    ///
    /// With `RT_PUSH` this is the last CPU, unless a real-time task runs there that is at least as important or cannot
    /// leave. In that case it is the least important CPU, if there is one below the task's priority
    /// (`select_task_rq_rt` of 6.12). A normal task that is preempted waits with a warm cache. A real-time task that is
    /// preempted goes to another CPU at once.
    ///
    /// Without `RT_PUSH`, all tasks count as equal: the last CPU if it is idle, else an idle CPU of its node, else the
    /// last CPU.
    fn select_cpu_rt(&self, task: &Task<W>, prio: RtPrio, last: CpuId) -> CpuId {
        if !self.has(Feature::RtPush) {
            let node = self.config.topology.span(last, Level::Node);
            let mut idle = self.hints.idle.ring(&task.attr().affinity, node, last);
            return idle.next().unwrap_or(last);
        }
        let there = self.hints.cpupri.of(last);
        let busy = match there.importance {
            Importance::Rt(running) => there.pinned || running >= prio,
            Importance::Closed => true,
            Importance::Normal => false,
        };
        Some(last).filter(|_| !busy).or_else(|| self.find_lowest(task, prio, last)).unwrap_or(last)
    }

    /// Chooses a CPU for a fair task (`select_task_rq_fair`). The target is the waker's CPU or the task's last CPU. The
    /// first free CPU wins: the target, the last CPU if it is near, another CPU near the target. If none is free, the
    /// choice is the target.
    fn select_cpu_fair(&self, seeker: Seeker<'_>, last: CpuId) -> CpuId {
        let usable = |&cpu: &CpuId| {
            cpu != last && seeker.affinity.contains(cpu) && self.hints.online.contains(cpu)
        };
        let waker = seeker.waker.filter(|_| !seeker.wide).filter(usable);
        let target = waker.filter(|&cpu| self.is_affine(seeker, cpu, last)).unwrap_or(last);
        let node = self.config.topology.span(target, Level::Node);
        let free = |cpu: CpuId| self.is_free(seeker, cpu);
        if free(target) {
            return target;
        }
        if node.contains(&last.index()) && free(last) {
            return last;
        }
        if self.packs(seeker, target, last) {
            return target;
        }
        let found = match self.has(Feature::SisUtil) {
            true => self.scan(seeker, node, target, last),
            false => self
                .find_idle(seeker, node.clone(), target)
                .or_else(|| self.find_sched_idle(seeker, node, target)),
        };
        found.unwrap_or(target)
    }

    /// Returns a free CPU near a busy target (`select_idle_smt`, `select_idle_cpu`). With several threads a core, it
    /// prefers a wholly idle core, then a free sibling of the last CPU. Otherwise it scans the next CPUs, as many as
    /// `SIS_UTIL` allows.
    fn scan(
        &self,
        seeker: Seeker<'_>,
        node: Range<usize>,
        target: CpuId,
        last: CpuId,
    ) -> Option<CpuId> {
        let (hints, next) = (&self.hints, after(&node, target));
        let sibling = || {
            let core = self.config.topology.span(last, Level::Smt);
            core.map(CpuId::at).find(|&cpu| {
                cpu != last && seeker.affinity.contains(cpu) && self.is_free(seeker, cpu)
            })
        };
        let threads = self.config.topology.threads() > 1;
        let near = || self.find_whole_core(seeker, node.clone(), next).or_else(sibling);
        if let Some(cpu) = threads.then(near).flatten() {
            return Some(cpu);
        }
        let idle = hints.idle.ring(seeker.affinity, node.clone(), next);
        let suits =
            |&cpu: &CpuId| self.is_awake_for(seeker, cpu) && self.suits_core(cpu, seeker.cookie);
        let idle = idle.filter(suits).take(1);
        let takes = usize::from(self.takes_sched_idle(seeker));
        let other = hints.sched_idle.ring(seeker.affinity, node.clone(), next).take(takes);
        let distance = |cpu: &CpuId| match cpu.index().checked_sub(next.index()) {
            Some(distance) => distance,
            None => cpu.index() + node.len() - next.index(),
        };
        let nearest = idle.chain(other).min_by_key(distance)?;
        let most = hints.idle_scan(CpuId::at(node.start));
        let looked_at = || hints.online.ring(seeker.affinity, node.clone(), next).take(most);
        (distance(&nearest) < most || looked_at().any(|cpu| cpu == nearest)).then_some(nearest)
    }

    /// Returns whether a task is better off on its waker's CPU than on its last CPU (`wake_affine` of 6.12). Idle CPUs
    /// decide first. Then the loads are compared as if the task were on the waker's CPU. The load of the last CPU must
    /// exceed that by half of the imbalance that the balancer acts on.
    ///
    /// Averaged loads (`PELT` and `BALANCE_BY_ROOM`) still contain the sleeper's own load on its last CPU. Momentary
    /// loads do not, and then the task's own load is its weight, also inside a task group.
    fn is_affine(&self, seeker: Seeker<'_>, waker: CpuId, last: CpuId) -> bool {
        if self.is_idle_for(seeker, last) {
            return false;
        }
        let meets =
            |&&(level, _): &&_| self.config.topology.span(last, level).contains(&waker.index());
        let (level, domain) = self.domains.iter().find(meets).expect("they are on one machine");
        let asleep = self.hints.idle.contains(last);
        if asleep || *level < Level::Machine && self.is_idle_for(seeker, waker) {
            return true;
        }
        let [here, there] = [waker, last].map(|cpu| self.seen(seeker.now, cpu, Measure::All));
        let bias = 100 + (domain.imbalance_pct - 100) / 2;
        let lately = self.has(Feature::BalanceByRoom);
        let (own, left) = match seeker.averages.filter(|_| lately) {
            Some(averages) => (averages.load, averages.load),
            None => (seeker.weight, 0),
        };
        let there_without = there.load.saturating_sub(left);
        (here.load + own) * 100 * there.power < there_without * bias * here.power
    }

    /// Returns whether a busy CPU has room for the task, by the patch of some guests' kernels (`sched_vcpu_pack`). That
    /// patch wakes another virtual CPU only if the tasks of the busy one use much of it.
    fn packs(&self, seeker: Seeker<'_>, busy: CpuId, last: CpuId) -> bool {
        let Some((most, averages)) = self.config.packs_below.zip(seeker.averages) else {
            return false;
        };
        let there = self.hints.averages(seeker.now, busy).util;
        // The averages of the last CPU still contain the task's own utilization.
        let joining = if busy == last { 0 } else { averages.util };
        there + joining < most
    }

    /// Returns whether a fair task may wait on `waker`, where only the fair task that wakes it runs.
    pub(crate) fn suits(&self, task: &Task<W>, waker: CpuId) -> bool {
        let alone = || self.hints.counts(waker).nr_fair == 1;
        let normal = || self.hints.cpupri.of(waker).importance == Importance::Normal;
        task.class().is_fair() && task.attr().affinity.contains(waker) && alone() && normal()
    }

    /// Chooses a CPU for a new fair task that is forked on `from` (`find_idlest_group`, `find_idlest_cpu`). The node
    /// with the most free CPUs wins; among equals, the parent's node. Within it, a CPU with only SCHED_IDLE tasks is
    /// preferred to an idle one, since it need not wake. If no CPU is free, the choice is the least loaded CPU of the
    /// least loaded node.
    fn select_cpu_for_new(&self, seeker: Seeker<'_>, from: CpuId) -> CpuId {
        if seeker.sched_idle && self.has(Feature::PowerSavings) {
            let levels = [Level::Node, Level::Machine];
            let spans = levels.map(|level| self.config.topology.span(from, level));
            let awake = spans.into_iter().find_map(|span| self.find_idle(seeker, span, from));
            return awake.unwrap_or(from);
        }
        match self.roomiest_node(seeker, from) {
            Some(node) => {
                let near = near(&node, from);
                self.find_sched_idle(seeker, node.clone(), near)
                    .or_else(|| self.find_idle(seeker, node, near))
                    .unwrap_or(from)
            }
            None => self.least_loaded(seeker, self.least_loaded_node(seeker, from), from),
        }
    }

    /// Chooses a CPU for a new real-time task: the nearest idle CPU, else the CPU with the fewest fair tasks among a
    /// sample.
    fn least_crowded(&self, task: &Task<W>, from: CpuId) -> CpuId {
        let affinity = &task.attr().affinity;
        let n = self.cpus.len();
        let node = self.config.topology.span(from, Level::Node);
        let idle = |range| self.hints.idle.ring(affinity, range, from).next();
        idle(node).or_else(|| idle(0..n)).unwrap_or_else(|| {
            let next = after(&(0..n), from);
            let some = self.hints.online.ring(affinity, 0..n, next).take(CPUS_LOOKED_AT);
            let load = |cpu: CpuId| (self.hints.counts(cpu).nr_fair, self.hints.load(cpu));
            some.min_by_key(|&cpu| load(cpu)).unwrap_or(from)
        })
    }

    /// Returns the node with the most CPUs that are free for this task, if any is free. Among equals it is the nearest.
    fn roomiest_node(&self, seeker: Seeker<'_>, from: CpuId) -> Option<Range<usize>> {
        let hints = &self.hints;
        let sched_idle = self.takes_sched_idle(seeker);
        let free = |node: Range<usize>| {
            let also = match sched_idle {
                true => hints.sched_idle.count(seeker.affinity, node.clone()),
                false => 0,
            };
            hints.idle.count(seeker.affinity, node) + also
        };
        let counted = self.nodes(from).enumerate();
        let counted = counted.map(|(nth, node)| (free(node.clone()), Reverse(nth), node));
        let most = counted.max_by_key(|&(free, nth, _)| (free, nth));
        most.filter(|&(free, ..)| free > 0).map(|(.., node)| node).or_else(|| {
            // With more nodes than the bound allows, not all were examined.
            let all = 0..self.cpus.len();
            let idle = hints.idle.ring(seeker.affinity, all, from).next()?;
            Some(self.config.topology.span(idle, Level::Node))
        })
    }

    /// Returns the node with the lowest load relative to power, measured on a sample of its CPUs. The own node wins
    /// unless the difference would make the balancer act.
    fn least_loaded_node(&self, seeker: Seeker<'_>, from: CpuId) -> Range<usize> {
        let each = (CPUS_LOOKED_AT / self.nodes(from).count()).max(1);
        let load =
            |node: Range<usize>| {
                let near = near(&node, from);
                let some = self.hints.online.ring(seeker.affinity, node, near).take(each);
                let sum =
                    some.map(|cpu| self.seen(seeker.now, cpu, Measure::All)).reduce(|sum, seen| {
                        Seen { load: sum.load + seen.load, power: sum.power + seen.power, ..sum }
                    });
                sum.map(by_power)
            };
        let mut nodes = self.nodes(from);
        let own = nodes.next().expect("a CPU is on a node");
        let least = nodes.filter_map(|node| Some((load(node.clone())?, node)));
        let (own_load, least) = (load(own.clone()), least.min_by_key(|(load, _)| *load));
        match (least, self.domains.last()) {
            (Some((least, node)), Some((_, domain)))
                if own_load.is_none_or(|own| 100 * own > domain.imbalance_pct * least) =>
            {
                node
            }
            _ => own,
        }
    }

    /// Returns the CPU with the lowest load relative to power among a sample of the node.
    fn least_loaded(&self, seeker: Seeker<'_>, node: Range<usize>, from: CpuId) -> CpuId {
        let next = after(&node, from);
        let some = self.hints.online.ring(seeker.affinity, node, next).take(CPUS_LOOKED_AT);
        let load = |cpu| {
            let seen = self.seen(seeker.now, cpu, Measure::All);
            (by_power(seen), seen.nr_fair)
        };
        some.min_by_key(|&cpu| load(cpu)).unwrap_or(from)
    }

    /// Returns some nodes, as the places of their CPUs. The node of `from` comes first.
    fn nodes(&self, from: CpuId) -> impl Iterator<Item = Range<usize>> + use<W> {
        let (topology, n) = (self.config.topology, self.cpus.len());
        let own = topology.span(from, Level::Node);
        let firsts = (own.start..n).step_by(own.len()).chain((0..own.start).step_by(own.len()));
        firsts.take(CPUS_LOOKED_AT).map(move |first| first..first + own.len())
    }

    /// Returns whether a task with these attributes counts as SCHED_IDLE, by its policy or by a group above it.
    #[must_use]
    pub fn counts_as_idle(&self, attr: &Attr) -> bool {
        attr.policy == Policy::Idle || self.groups.is_below_idle(attr.group)
    }

    fn seeker<'a>(&self, now: Time, task: &'a Task<W>, waker: Option<CpuId>) -> Seeker<'a> {
        let attr = task.attr();
        let sched_idle = self.counts_as_idle(attr);
        let weight = attr.policy.weight().get().into();
        let averages = task.averages(now);
        let cookie = self.cookie_of(task);
        let affinity = &attr.affinity;
        Seeker { now, affinity, weight, sched_idle, waker, averages, wide: false, cookie }
    }

    /// Returns whether `cpu` is free for the task.
    fn is_free(&self, seeker: Seeker<'_>, cpu: CpuId) -> bool {
        let sched_idle = || self.hints.sched_idle.contains(cpu) && self.takes_sched_idle(seeker);
        self.is_idle_for(seeker, cpu) || sched_idle()
    }

    /// Returns whether `cpu` is idle and not in a sleep that this task must not disturb.
    fn is_idle_for(&self, seeker: Seeker<'_>, cpu: CpuId) -> bool {
        self.hints.idle.contains(cpu) && self.is_awake_for(seeker, cpu)
    }

    fn is_awake_for(&self, seeker: Seeker<'_>, cpu: CpuId) -> bool {
        !seeker.sched_idle || seeker.waker == Some(cpu) || !self.sleeps_deep(seeker.now, cpu)
    }

    /// Returns whether CPUs with only SCHED_IDLE tasks are free for this task.
    fn takes_sched_idle(&self, seeker: Seeker<'_>) -> bool {
        match self.has(Feature::IdleLoadBalance) {
            true => !seeker.sched_idle,
            false => self.config.rules.wakes_onto_sched_idle,
        }
    }

    /// Returns an idle CPU of a range. With several threads a core, it prefers a wholly idle core (`select_idle_core`).
    /// Otherwise it is the next idle CPU whose core matches the task's cookie.
    fn find_idle(&self, seeker: Seeker<'_>, range: Range<usize>, near: CpuId) -> Option<CpuId> {
        let hints = &self.hints;
        let spares = seeker.sched_idle && self.has(Feature::PowerSavings);
        let idle = || {
            let most = if spares { CPUS_LOOKED_AT } else { usize::MAX };
            let idle = hints.idle.ring(seeker.affinity, range.clone(), near).take(most);
            let awake = idle.filter(|&cpu| self.is_awake_for(seeker, cpu));
            awake.filter(|&cpu| self.suits_core(cpu, seeker.cookie))
        };
        let whole = match self.config.topology.threads() {
            1 => None,
            _ => self.find_whole_core(seeker, range.clone(), near),
        };
        whole.or_else(|| idle().next())
    }

    /// Returns the next idle CPU of a range whose whole core is idle (`select_idle_core`).
    fn find_whole_core(
        &self,
        seeker: Seeker<'_>,
        range: Range<usize>,
        near: CpuId,
    ) -> Option<CpuId> {
        let (hints, topology) = (&self.hints, self.config.topology);
        let is_whole = |cpu: &CpuId| {
            topology.span(*cpu, Level::Smt).all(|thread| hints.idle.contains(CpuId::at(thread)))
        };
        let idle = hints.idle.ring(seeker.affinity, range, near);
        let awake = idle.filter(|&cpu| self.is_awake_for(seeker, cpu));
        awake.take(CPUS_LOOKED_AT).find(is_whole)
    }

    /// Returns the next CPU of a range with only SCHED_IDLE tasks, if such CPUs are free for this task.
    fn find_sched_idle(
        &self,
        seeker: Seeker<'_>,
        range: Range<usize>,
        near: CpuId,
    ) -> Option<CpuId> {
        let mut some = self.hints.sched_idle.ring(seeker.affinity, range, near);
        if self.takes_sched_idle(seeker) { some.next() } else { None }
    }

    /// Returns `cpu` if the task may run there now, else the next CPU where it may run, else `cpu`.
    fn usable_or_any(&self, task: &Task<W>, cpu: CpuId) -> CpuId {
        let affinity = &task.attr().affinity;
        if affinity.contains(cpu) && self.hints.online.contains(cpu) {
            return cpu;
        }
        self.hints.online.ring(affinity, 0..self.cpus.len(), cpu).next().unwrap_or(cpu)
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
