//! Core scheduling in the simulator: the events about forced idle CPUs, and the invariants of cores.
//!
//! - `core-cookies`: no core executes tasks of two cookies at a time. A thread that another thread kicked continues
//!   until the kick arrives. So after a decision, cookies may overlap for at most the longest duration of a kick
//!   ([`CostModel::longest_kick`]). A task in the kernel that [gives way later](crate::giveway) does not count: cookies
//!   separate tasks in user mode (`Documentation/admin-guide/hw-vuln/core-scheduling.rst`).
//! - `core-forced-idle`: while a thread is forced idle, its core runs a task with the cookie that the thread idles for.
//! - `core-order`: no real-time task waits on a core that runs only less important tasks.
//!
//! The last two are checked when a decision has taken effect on all threads of the core. The run queue itself has the
//! invariant that no task which may run waits on a forced idle thread.
//!
//! [`CostModel::longest_kick`]: crate::cost::CostModel::longest_kick

use crate::cores::{Cores, Seen};
use crate::cpu::Doing;
use crate::sim::Sim;
use runyard_engine::attr::Cookie;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::Importance;
use runyard_engine::task::Task;

impl Sim<'_> {
    /// Reports that a CPU is idle, or forced idle.
    pub(crate) fn tell_idle(&mut self, cpu: CpuId) {
        let forced = self.machine.cpu(cpu).forced_idle();
        let what = forced.map_or(What::Idle, |cookie| What::ForcedIdle { cookie });
        if let Some(cores) = &mut self.cores {
            cores.told[cpu.index()] = forced;
        }
        self.tell(cpu, what);
    }

    /// Returns whether an idle CPU was last reported with another reason for idling.
    pub(crate) fn idles_otherwise(&self, cpu: CpuId) -> bool {
        let told = |cores: &Cores| cores.told[cpu.index()] != self.machine.cpu(cpu).forced_idle();
        self.cores.as_ref().is_some_and(told)
    }

    /// Returns whether all threads of a CPU's core are idle, or `true` without core scheduling.
    pub(crate) fn is_whole_core_idle(&self, cpu: CpuId) -> bool {
        let idles = |cpu: CpuId| {
            self.cpus[cpu.index()].doing == Doing::Idle
                && self.machine.cpu(cpu).forced_idle().is_none()
        };
        self.cores.as_ref().is_none_or(|cores| cores.threads_of(cpu).all(idles))
    }

    /// Marks the siblings of each touched thread as touched.
    pub(crate) fn touch_siblings(&mut self) {
        let Some(cores) = &self.cores else { return };
        for at in 0..self.watch.touched.len() {
            let cpu = self.watch.touched[at];
            cores.threads_of(cpu).for_each(|thread| self.watch.note(thread));
        }
    }

    pub(crate) fn check_cores(&mut self) {
        let Some(cores) = &self.cores else { return };
        let threads = cores.topology.threads();
        let all: Vec<_> = cores.topology.iter().step_by(threads).collect();
        all.into_iter().for_each(|first| self.check_core(first));
    }

    /// Checks the cores with a touched thread. All threads of such a core are touched.
    pub(crate) fn check_cores_of(&mut self, touched: &[CpuId]) {
        let Some(cores) = &self.cores else { return };
        let threads = cores.topology.threads();
        let firsts = touched.iter().copied().filter(|cpu| cpu.index() % threads == 0);
        firsts.collect::<Vec<_>>().into_iter().for_each(|first| self.check_core(first));
    }

    fn check_core(&mut self, first: CpuId) {
        let Some(cores) = &self.cores else { return };
        let (threads, nth) = (cores.topology.threads(), first.index() / cores.topology.threads());
        let all: Vec<_> = cores.threads_of(first).collect();
        let executes = |&&cpu: &&CpuId| {
            matches!(self.cpus[cpu.index()].doing, Doing::Exec(_)) && !self.lets_wait(cpu)
        };
        let mut cookies = all.iter().filter(executes).filter_map(|&cpu| self.running_cookie(cpu));
        let one = cookies.next();
        let mixed = cookies.any(|cookie| Some(cookie) != one);
        let was = cores.seen[nth];
        let now = Seen { runs: self.machine.sight().core_runs(first), mixed, since: was.since };
        let since = if now == was { was.since } else { self.now };
        if let Some(cores) = &mut self.cores {
            cores.seen[nth] = Seen { since, ..now };
        }
        let settled = all.iter().all(|&cpu| self.is_settled(cpu));
        if mixed && (settled || self.now.since(since) > self.costs.longest_kick()) {
            let last = first.index() + threads - 1;
            let what = format!("CPUs {first} to {last} execute several cookies since {since}");
            self.violate("core-cookies", what);
        }
        if settled {
            self.check_forced_idle(&all);
            self.check_core_order(&all);
        }
    }

    fn check_forced_idle(&mut self, all: &[CpuId]) {
        for &cpu in all {
            let Some(by) = self.machine.cpu(cpu).forced_idle() else { continue };
            let mut running = all.iter().filter_map(|&cpu| self.running_cookie(cpu)).peekable();
            let wrong = running.peek().is_none() || running.any(|cookie| cookie != by);
            if wrong {
                let what =
                    format!("CPU {cpu} is forced idle by {by:?}, which its core does not run");
                self.violate("core-forced-idle", what);
            }
        }
    }

    fn check_core_order(&mut self, all: &[CpuId]) {
        let prio = |task: &Task<_>| task.class().push_prio();
        let inspect = |cpu| {
            self.machine.cpu(cpu).inspect(|rq| {
                let closed = rq.classes().load().importance == Importance::Closed;
                let best = rq.queues().competing().filter_map(|(_, task)| prio(task)).max();
                (
                    rq.tasks().curr().and_then(prio),
                    best.filter(|_| !closed),
                    rq.classes().is_serving(),
                )
            })
        };
        let seen: Vec<_> = all.iter().map(|&cpu| inspect(cpu)).collect();
        let runs = seen.iter().filter_map(|&(runs, ..)| runs).max();
        let waits = seen.iter().filter_map(|&(_, best, _)| best).max();
        let serves = seen.iter().any(|&(.., serves)| serves);
        if waits > runs && !serves {
            let what = format!("core of CPU {} runs {runs:?} while {waits:?} waits", all[0]);
            self.violate("core-order", what);
        }
    }

    /// Returns the cookie of a CPU's task, which may be none. Returns `None` if the CPU has no task.
    fn running_cookie(&self, cpu: CpuId) -> Option<Option<Cookie>> {
        self.machine.cpu(cpu).inspect(|rq| Some(rq.site().cookie_of(rq.tasks().curr()?)))
    }

    fn is_settled(&self, cpu: CpuId) -> bool {
        let own = &self.cpus[cpu.index()];
        let switching = matches!(own.doing, Doing::Overhead(_));
        let due = || self.machine.cpu(cpu).resched().is_due();
        own.is_settled() && !switching && !due()
    }
}
