//! Core scheduling in the simulator: what is told of CPUs that are forced idle, and the invariants of cores.
//!
//! - `core-cookies`: no core executes tasks of two cookies at a time. A thread that another one called runs on until its kick has
//!   come: so the cookies overlap for as long as a kick takes after a decision at the most ([`CostModel::longest_kick`]).
//! - `core-forced-idle`: while a thread is forced idle, its core runs a task, which is of the cookie that the thread is idle for.
//! - `core-order`: no real-time task waits on a core of which all that runs is less important.
//!
//! The last two are compared when what was decided has taken effect on all threads of the core. That no task waits on a thread that is
//! forced idle and may run there is an invariant of its run queue.
//!
//! [`CostModel::longest_kick`]: crate::cost::CostModel::longest_kick

use crate::cores::{Cores, Seen};
use crate::cpu::Doing;
use crate::sim::{Observer, Sim};
use runyard_engine::attr::Cookie;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::{Importance, Resched};
use runyard_engine::task::Task;

impl<O: Observer> Sim<'_, O> {
    /// Tells that a CPU is idle, or forced idle; nothing if that was said already.
    pub(crate) fn tell_idle(&mut self, cpu: CpuId) {
        let forced = self.machine.forced_idle(cpu);
        let what = forced.map_or(What::Idle, |cookie| What::ForcedIdle { cookie });
        if let Some(cores) = &mut self.cores {
            cores.told[cpu.index()] = forced;
        }
        self.tell(cpu, what);
    }

    /// Whether a CPU that idles was said to idle for another reason.
    pub(crate) fn idles_otherwise(&self, cpu: CpuId) -> bool {
        let told = |cores: &Cores| cores.told[cpu.index()] != self.machine.forced_idle(cpu);
        self.cores.as_ref().is_some_and(told)
    }

    /// Whether no thread of the core of a CPU does anything, if the threads of a core decide together.
    pub(crate) fn is_whole_core_idle(&self, cpu: CpuId) -> bool {
        let idles = |cpu: CpuId| {
            self.cpus[cpu.index()].doing == Doing::Idle && self.machine.forced_idle(cpu).is_none()
        };
        self.cores.as_ref().is_none_or(|cores| cores.threads_of(cpu).all(idles))
    }

    /// What touches a thread touches its core.
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

    /// Checks the cores of which a thread was touched; all their threads are among those.
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
        let executes = |&&cpu: &&CpuId| matches!(self.cpus[cpu.index()].doing, Doing::Exec(_));
        let mut cookies = all.iter().filter(executes).filter_map(|&cpu| self.running_cookie(cpu));
        let one = cookies.next();
        let mixed = cookies.any(|cookie| Some(cookie) != one);
        let was = cores.seen[nth];
        let now = Seen { runs: self.machine.core_runs(first), mixed, since: was.since };
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
            let Some(by) = self.machine.forced_idle(cpu) else { continue };
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
        let inspect = |cpu| {
            self.machine.inspect(cpu, |rq| {
                let closed = rq.load().importance == Importance::Closed;
                let best = rq.competing().filter_map(|(_, task)| task.rt_prio()).max();
                (rq.curr().and_then(Task::rt_prio), best.filter(|_| !closed), rq.is_serving())
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

    /// The cookie of the task that a CPU has, which may be none; `None` if it has no task.
    fn running_cookie(&self, cpu: CpuId) -> Option<Option<Cookie>> {
        self.machine.inspect(cpu, |rq| Some(rq.cookie_of(rq.curr()?)))
    }

    fn is_settled(&self, cpu: CpuId) -> bool {
        let own = &self.cpus[cpu.index()];
        let switching = matches!(own.doing, Doing::Overhead(_));
        let due = || self.machine.resched(cpu) == Resched::Yes;
        own.is_settled() && !switching && !due()
    }
}
