//! Tasks that wake and tasks that start. [`crate::select`] chooses their CPUs.

use crate::cpus::Cpus;
use crate::host::{Controlled, Effects, Moving, TaskOf, apply_pending};
use crate::machine::Machine;
use crate::select::Seeker;
use runyard_engine::attr::LatencyNice;
use runyard_engine::class::Class;
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::Enqueue;
use runyard_engine::task::Task;
use runyard_engine::time::Time;
use runyard_engine::topology::Level;

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
        self.wake_where(now, task, |task| self.cpus.select_cpu(now, task, waker), fx)
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
        let select = |task: &Task<W>| match self.sight().suits(task, waker) {
            true => waker,
            false => self.cpus.select_cpu(now, task, None),
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
            task.class().is_fair()
                && task.attr().affinity.contains(waker)
                && self.sight().is_idle(waker)
        };
        let select = |task: &Task<W>| match fits(task) {
            true => waker,
            false => self.cpus.select_cpu(now, task, Some(waker)),
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
        self.cpu(cpu).inspect(|rq| rq.tasks().has_ghost_of(task, rq.site())).then_some(cpu)
    }

    fn place(&self, now: Time, mut task: TaskOf<W>, to: CpuId, fx: &mut impl Effects<W>) -> CpuId {
        task.wakes(now);
        let from = task.cpu();
        self.cpus.arrive(now, Moving::new(task, from, to, Enqueue::Woken), fx);
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
        let from = self.sight().usable_or_any(&task, task.cpu());
        match task.class() {
            Class::Fair => {
                let to = Seeker::new(self.sight(), now, &task, None).select_cpu_of_new(from);
                task.set_cpu(to);
                self.place(now, task, to, fx)
            }
            Class::Rt(_) => {
                // From there, the task continues like a woken task.
                task.set_cpu(self.sight().least_crowded(&task, from));
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
        let free = || Seeker::new(self.sight(), now, &task, Some(parent)).find_free(parent);
        let to = match self.sight().suits(&task, parent) {
            true => parent,
            false => free().unwrap_or_else(|| self.sight().usable_or_any(&task, parent)),
        };
        task.set_cpu(to);
        self.place(now, task, to, fx)
    }

    /// Forks a new task from the task that runs on `parent`. A latency-sensitive child
    /// [inherits](runyard_engine::run_queue::RunQueue::fork) the parent's lead over other tasks as a disadvantage.
    fn fork(&self, now: Time, child: &mut TaskOf<W>, parent: CpuId) {
        child.set_cpu(parent);
        if child.attr().latency_nice < LatencyNice::ZERO {
            self.cpu(parent).inspect(|rq| rq.fork(now, child));
        }
    }
}

impl<W: Controlled> Cpus<W> {
    /// Chooses the CPU of a woken task, or of a task that may not stay on its CPU.
    pub(crate) fn select_cpu(&self, now: Time, task: &Task<W>, waker: Option<CpuId>) -> CpuId {
        let last = self.sight.usable_or_any(task, task.cpu());
        match task.class() {
            Class::Fair => self.select_cpu_of_woken(now, task, waker, last),
            Class::Rt(prio) => self.sight.select_cpu_rt(task, prio, last),
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
        if self.sight.hints.idle.contains(last) && !self.sight.has(Feature::PowerSavings) {
            return last;
        }
        // No domain leads from an isolated CPU to another one (`select_task_rq_fair`).
        if self.sight.is_isolated(last) {
            return last;
        }
        let affinity = self.sight.within(last, &task.attr().affinity);
        Seeker::within(&self.sight, now, task, waker, &affinity).select_cpu(last, wide)
    }

    /// Notes the wake-up, and returns whether the waker or the woken task wakes so many different tasks that the two
    /// gain nothing from a common node (`wake_wide` of 6.12). This holds if the smaller flip count is at least the
    /// number of CPUs of the node, and the larger one is at least that many times the smaller.
    fn is_wide(&self, now: Time, task: &Task<W>, waker: CpuId) -> bool {
        if !self.sight.config.rules.wake_wide {
            return false;
        }
        let flips = self.of(waker).lock().rq.classes_mut().note_wakee(now, task.id);
        let size = self.sight.config.topology.span(waker, Level::Node).len() as u64;
        let both = [flips, task.wakee_flips()].map(u64::from);
        let (fewer, more) = (both[0].min(both[1]), both[0].max(both[1]));
        fewer >= size && more >= fewer * size
    }
}
