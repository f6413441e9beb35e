//! The invariants that span CPUs, checked after every event under `check`.
//!
//! The engine's own are asserted by [`runyard_smp::machine::Machine::check`] and panic: they are
//! bugs there. What a policy promises is reported instead, with its time: a scenario with a feature
//! switched off may well break it, and is then not held to it.
//!
//! What was decided but has not taken effect yet does not count against anybody: a CPU is compared
//! when its kicks have arrived, nothing is on its way to it, and what it has to say is known.

use crate::cpu::Doing;
use crate::program::Waiting;
use crate::sim::{Observer, Sim};
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::limits::LATEST_REFILL;
use runyard_engine::run_queue::{Importance, RunQueue};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Window;

/// How many violations a run keeps; the first tell most.
const MAX_VIOLATIONS: usize = 16;

/// How long a CPU may idle, or have nothing but SCHED_IDLE tasks, while always somebody waits (in the
/// second case a normal task) that may run there: the busy CPU's next tick sends a task there, and one
/// that finds none looks again after 4 ms.
const IDLE_WHILE_WAITING: Nanos = Nanos::from_millis(20);

/// A CPU idles, and somebody waits elsewhere that may run there, this task the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waste {
    task: TaskId,
    since: Time,
}

/// A fair task that waits, and where it may run.
struct Waiter {
    task: TaskId,
    /// It waits for tasks of its kind.
    normal: bool,
    cpus: CpuSet,
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// When.
    pub at: Time,
    /// What was wrong.
    pub what: String,
}

impl<O: Observer> Sim<'_, O> {
    pub(crate) fn check(&mut self) {
        self.machine.check();
        self.check_population();
        self.check_current();
        if let Some(what) = self.objects.check() {
            self.violate("no-lost-wakeup", what);
        }
        let features = self.scenario.features;
        let balanced = [Feature::RtPush, Feature::RtPull, Feature::RtPushPastStuck];
        if balanced.into_iter().all(|feature| features.has(feature)) {
            self.check_rt_affinity();
        }
        let balanced = [Feature::LoadBalance, Feature::IdleLoadBalance];
        if balanced.into_iter().all(|feature| features.has(feature))
            && !features.has(Feature::PowerSavings)
        {
            self.check_wasted_cpus();
        }
        self.check_budgets();
    }

    /// No group is throttled for long while its pool has budget: a CPU hears of a new period by an
    /// interrupt of its own, and of what others give back from one that did not need it, after all
    /// others at the latest.
    fn check_budgets(&mut self) {
        let errands = self.cpus.len() as u64 * self.costs.longest_errand().0;
        let patience = self.costs.longest_timer_latency() + Nanos(errands) + LATEST_REFILL;
        for nth in 1..self.stranded.len() {
            let group = GroupId(nth as u32);
            let waits = self.machine.waits_in_vain(self.now, group);
            let since = self.stranded[nth].filter(|_| waits.is_some()).unwrap_or(self.now);
            self.stranded[nth] = waits.map(|_| since);
            if let Some(cpu) = waits
                && self.now.since(since) > patience
            {
                let path = &self.scenario.groups[nth].path;
                let what =
                    format!("{path} is throttled on CPU {cpu} with budget left since {since}");
                self.violate("no-stranded-budget", what);
            }
        }
    }

    /// No CPU idles for long while fair tasks wait that may run there, whatever weighs what; nor has it
    /// nothing but SCHED_IDLE tasks while normal ones wait for each other.
    fn check_wasted_cpus(&mut self) {
        let waiting = self.waiting_fair_tasks();
        let tick = self.machine.config().tick;
        let patience =
            IDLE_WHILE_WAITING + Nanos(2 * tick.0) + Nanos(8 * self.options.hint_delay.0);
        for at in 0..self.cpus.len() {
            let cpu = &self.cpus[at];
            let (online, load) = self.machine.inspect(cpu.id, |rq| (rq.is_online(), rq.load()));
            // Whatever is decided about it: a kick that is of no use comes again and again.
            let knows = online && cpu.inbound == 0 && !cpu.silent;
            let idle = knows && cpu.doing == Doing::Idle;
            let soaks = knows && load.is_sched_idle();
            let wants = |it: &&Waiter| (idle || soaks && it.normal) && it.cpus.contains(cpu.id);
            let since = cpu.waste.map_or(self.now, |waste| waste.since);
            let waste = waiting.iter().find(wants).map(|it| Waste { task: it.task, since });
            self.cpus[at].waste = waste;
            if let Some(Waste { task, since }) = waste
                && self.now.since(since) > patience
            {
                let name = &self.tasks[task.index()].name;
                let does = if load.nr_running == 0 { "idles" } else { "has SCHED_IDLE tasks only" };
                let what = format!("CPU {at} {does} while {name} waits since {since}");
                self.violate("no-wasted-cpu", what);
            }
        }
    }

    /// Fair tasks that wait in a run queue.
    fn waiting_fair_tasks(&self) -> Vec<Waiter> {
        let mut waiting = Vec::new();
        for cpu in &self.cpus {
            self.machine.inspect(cpu.id, |rq| {
                let curr = rq.curr().map(|task| task.id);
                let tasks = || rq.competing().map(|(_, task)| task);
                let idle_class =
                    |it: &Task<_>| it.rt_prio().is_none() && self.machine.counts_as_idle(it.attr());
                // Who waits for the turn of a light SCHED_IDLE task would do so anywhere.
                let others = tasks().filter(|&it| !idle_class(it)).count();
                let pressed = others > 1 || rq.load().idle_is_heavy;
                let fair = tasks().filter(|it| Some(it.id) != curr && it.rt_prio().is_none());
                waiting.extend(fair.map(|it| Waiter {
                    task: it.id,
                    normal: pressed && !idle_class(it),
                    cpus: it.attr().affinity.clone(),
                }));
            });
        }
        waiting
    }

    /// Every live task is in exactly one place: blocked, in a run queue, or on its way.
    fn check_population(&self) {
        let blocked = self.tasks.iter().filter(|task| task.parked.is_some()).count();
        let inbound: u32 = self.cpus.iter().map(|cpu| cpu.inbound).sum();
        let queued: usize =
            self.cpus.iter().map(|cpu| self.machine.inspect(cpu.id, |rq| rq.tasks().count())).sum();
        assert_eq!(blocked + inbound as usize + queued, self.alive, "no task is lost");
        for task in &self.tasks {
            let waits = !matches!(task.waiting, Waiting::Nothing);
            assert!(!waits || !task.done, "{} is over and waits for nothing", task.name);
        }
    }

    /// A CPU runs whom its run queue says, and is idle only if nobody is there.
    fn check_current(&mut self) {
        for at in 0..self.cpus.len() {
            let cpu = &self.cpus[at];
            let (curr, queued) = self
                .machine
                .inspect(cpu.id, |rq| (rq.curr().map(|task| task.id), rq.competing().count()));
            assert_eq!(cpu.task(), curr, "CPU {at} runs whom its queue says");
            let late = self.costs.longest_timer_latency();
            let overdue = |&expiry: &Time| expiry + late < self.now;
            let overdue = self.machine.next_expiry(cpu.id).filter(overdue);
            assert_eq!(overdue, None, "CPU {at} takes its interrupts in time");
            let first = self.machine.inspect(cpu.id, RunQueue::first_timer);
            assert!(cpu.programmed <= first, "CPU {at} is interrupted for its first timer");
            let throttled =
                self.machine.inspect(cpu.id, |rq| rq.load().level == Importance::Closed);
            if cpu.doing == Doing::Idle && cpu.is_settled() && queued > 0 && !throttled {
                let what = format!("CPU {at} idles while {queued} tasks wait there");
                self.violate("work-conservation", what);
            }
        }
    }

    /// No CPU in a waiting real-time task's affinity runs anything less important.
    fn check_rt_affinity(&mut self) {
        let running: Vec<_> = self.cpus.iter().map(|cpu| self.settled_importance(cpu.id)).collect();
        let mut found = None;
        for cpu in self.cpus.iter().filter(|cpu| cpu.is_settled()) {
            self.machine.inspect(cpu.id, |rq| {
                if rq.load().level == Importance::Closed {
                    return;
                }
                let curr = rq.curr().map(|task| task.id);
                for (_, task) in rq.competing().filter(|(_, task)| Some(task.id) != curr) {
                    let Some(prio) = task.rt_prio() else { continue };
                    let prio = Importance::Rt(prio);
                    let beaten = |cpu: &CpuId| running[cpu.index()].is_some_and(|run| run < prio);
                    if let Some(on) = task.attr().affinity.iter().find(beaten) {
                        found = Some((task.id, cpu.id, on));
                    }
                }
            });
        }
        if let Some((task, waits, on)) = found {
            let what = format!(
                "{} waits on CPU {waits} while CPU {on}, which it may use, runs {:?}",
                self.tasks[task.index()].name,
                self.cpus[on.index()].task().map(|id| &self.tasks[id.index()].name),
            );
            self.violate("rt-weak-affinity", what);
        }
    }

    /// How important the task is that a CPU runs; `None` if it is unsettled or takes no real-time task.
    fn settled_importance(&self, cpu: CpuId) -> Option<Importance> {
        let open = self.machine.inspect(cpu, |rq| rq.load().level != Importance::Closed);
        let settled = open && self.cpus[cpu.index()].is_settled();
        settled.then(|| {
            let prio = self.machine.inspect(cpu, |rq| rq.curr().and_then(Task::rt_prio));
            prio.map_or(Importance::Normal, Importance::Rt)
        })
    }

    /// A timer is run within its window.
    pub(crate) fn verify_expiry(&mut self, task: TaskId, window: Window) {
        if self.now < window.soft || self.now > window.hard + self.costs.longest_timer_latency() {
            let name = &self.tasks[task.index()].name;
            let what = format!("the timer of {name} for {window:?} is run at {}", self.now);
            self.violate("timer-window", what);
        }
    }

    /// Ends the run: it cannot go on in a way that means anything.
    pub(crate) fn stop(&mut self, invariant: &'static str, what: String) {
        self.violate(invariant, what);
        self.stopped = true;
    }

    fn violate(&mut self, invariant: &'static str, what: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            let violation = Violation { invariant, at: self.now, what };
            self.observer.violation(&violation);
            self.violations.push(violation);
        }
    }
}
