//! Waking and starting tasks, and on which CPU: pure choices over hints, repaired by refusal and
//! balancing.

use crate::machine::{Controlled, Effects, Machine, Moving, TaskOf, apply_pending};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::{Enqueue, Importance};
use runyard_engine::task::Task;
use runyard_engine::time::Time;
use runyard_engine::topology::Level;

/// At how many CPUs a new task looks when none is idle.
const CPUS_LOOKED_AT: usize = 64;

impl<W: Controlled> Machine<W> {
    /// Makes a blocked task runnable, and tells on which CPU unless that refuses it. Its affinity
    /// has a CPU of this machine.
    pub fn wake(&self, now: Time, mut task: TaskOf<W>, fx: &mut impl Effects<W>) -> CpuId {
        apply_pending(&mut task);
        let to = self.select_cpu(&task);
        self.place(now, task, to, fx)
    }

    /// As [`Machine::wake`], by a task that runs on `waker` and is about to block (`WF_SYNC` of the
    /// kernel): if it is alone there, the woken task goes there too, where what they share is near,
    /// and no other CPU has to be woken. Its host must see to it that both do not stay there for
    /// long while another CPU is idle.
    pub fn wake_sync(
        &self,
        now: Time,
        mut task: TaskOf<W>,
        waker: CpuId,
        fx: &mut impl Effects<W>,
    ) -> CpuId {
        apply_pending(&mut task);
        let to = if self.suits(&task, waker) { waker } else { self.select_cpu(&task) };
        self.place(now, task, to, fx)
    }

    /// As [`Machine::wake_sync`], for a new task: to an idle CPU if there is one and somebody waits
    /// on `waker` already, else near who spawns it. An idle CPU takes its part later.
    pub fn spawn_sync(
        &self,
        now: Time,
        mut task: TaskOf<W>,
        waker: CpuId,
        fx: &mut impl Effects<W>,
    ) -> CpuId {
        let affinity = &task.attr().affinity;
        let idle = || self.hints.idle.ring(affinity, 0..self.cpus.len(), waker).next();
        let to = match self.suits(&task, waker) {
            true => waker,
            false => idle().unwrap_or_else(|| self.usable_or_any(&task, waker)),
        };
        task.set_cpu(to);
        self.place(now, task, to, fx)
    }

    fn place(&self, now: Time, task: TaskOf<W>, to: CpuId, fx: &mut impl Effects<W>) -> CpuId {
        let from = task.cpu();
        self.arrive(now, Moving::new(task, from, to, Enqueue::Woken), fx);
        to
    }

    /// Makes a new task runnable, near the CPU that its [`Task::set_cpu`] names; tells where.
    pub fn spawn(&self, now: Time, mut task: TaskOf<W>, fx: &mut impl Effects<W>) -> CpuId {
        let near = self.select_cpu_for_new(&task);
        task.set_cpu(near);
        self.wake(now, task, fx)
    }

    /// An idle CPU that could take somebody from `cpu`, as far as is known without locks.
    #[must_use]
    pub fn idle_cpu_for(&self, cpu: CpuId) -> Option<CpuId> {
        self.hints
            .idle
            .ring(&self.all, 0..self.cpus.len(), cpu)
            .next()
            .filter(|_| self.is_wanted(cpu))
    }

    /// Where a woken task goes.
    ///
    /// Real-time, with `RT_PUSH`: to its last CPU, unless what runs there is real-time and either
    /// as important or cannot leave; then to the least important CPU, if there is one below it
    /// (`select_task_rq_rt` of 6.12). A normal task that is preempted waits with a warm cache; a
    /// real-time one that is preempted goes elsewhere at once.
    ///
    /// Others: to the last CPU if it is idle, else to an idle one of its node, else to the last.
    pub(crate) fn select_cpu(&self, task: &Task<W>) -> CpuId {
        let last = self.usable_or_any(task, task.cpu());
        if let Some(prio) = task.rt_prio()
            && self.has(Feature::RtPush)
        {
            let there = self.hints.levels.of(last);
            let busy = match there.level {
                Importance::Rt(running) => there.pinned || running >= prio,
                Importance::Closed => true,
                Importance::Normal => false,
            };
            return Some(last)
                .filter(|_| !busy)
                .or_else(|| self.find_lowest(task, prio, last))
                .unwrap_or(last);
        }
        let affinity = &task.attr().affinity;
        if self.hints.idle.contains(last) {
            return last;
        }
        let node = self.config.topology.span(last, Level::Node);
        self.hints.idle.ring(affinity, node, last).next().unwrap_or(last)
    }

    /// Whether a fair task may wait on `waker`, where nobody is but the fair task that wakes it.
    pub(crate) fn suits(&self, task: &Task<W>, waker: CpuId) -> bool {
        let alone = || self.hints.counts(waker).nr_fair == 1;
        let normal = || self.hints.levels.of(waker).level == Importance::Normal;
        task.rt_prio().is_none() && task.attr().affinity.contains(waker) && alone() && normal()
    }

    /// Where a new task goes: to the nearest idle CPU of the machine, else to the least loaded of
    /// some, starting after the CPU it comes from.
    pub(crate) fn select_cpu_for_new(&self, task: &Task<W>) -> CpuId {
        let from = self.usable_or_any(task, task.cpu());
        let affinity = &task.attr().affinity;
        let n = self.cpus.len();
        let node = self.config.topology.span(from, Level::Node);
        let next = CpuId::at((from.index() + 1) % n);
        let idle = |range| self.hints.idle.ring(affinity, range, from).next();
        idle(node).or_else(|| idle(0..n)).unwrap_or_else(|| {
            let some = self.hints.online.ring(affinity, 0..n, next).take(CPUS_LOOKED_AT);
            let load = |cpu: CpuId| (self.hints.counts(cpu).nr_fair, self.hints.load(cpu));
            some.min_by_key(|&cpu| load(cpu)).unwrap_or(from)
        })
    }

    /// `cpu` if the task may run there now, else the next such CPU, else `cpu` all the same.
    fn usable_or_any(&self, task: &Task<W>, cpu: CpuId) -> CpuId {
        let affinity = &task.attr().affinity;
        if affinity.contains(cpu) && self.hints.online.contains(cpu) {
            return cpu;
        }
        self.hints.online.ring(affinity, 0..self.cpus.len(), cpu).next().unwrap_or(cpu)
    }
}
