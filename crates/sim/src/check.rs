//! The invariants that span CPUs, each verified over the whole machine. `touched` decides when each is verified.
//!
//! [`runyard_smp::machine::Machine::check`] asserts the engine's own invariants and panics, since a violation is a bug
//! there. A violated guarantee of a policy is reported with its time instead. A scenario without the feature behind a
//! guarantee may well violate it, and is then not checked for it.
//!
//! A decision that has not taken effect yet is not a violation. A CPU is compared once its kicks have arrived, no task
//! is on its way to it, and its state is published.

use crate::cpu::Doing;
use crate::program::{Todo, Waiting};
use crate::sim::{Sim, Violation};
use crate::watch::{Takes, Waiter, Waste};
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::limits::bandwidth::SLACK_PERIOD;
use runyard_engine::limits::{LATEST_REFILL, Pools};
use runyard_engine::run_queue::Importance;
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Window;

/// The largest number of violations that a run keeps. The first ones are the most useful.
const MAX_VIOLATIONS: usize = 16;

/// The number of looks for which a CPU may idle while a fair task that may run there always waits. It also bounds the
/// time with only SCHED_IDLE tasks while a normal task waits. The busy CPU sends a task at its next tick. A tick without
/// a destination looks again after [`LOOKS_AGAIN`], at a tick.
const LOOKS: u64 = 5;
const LOOKS_AGAIN: Nanos = Nanos::from_millis(4);

/// The most by which work takes longer beside busy threads of the core, of which there are at most four.
const SLOWEST: u64 = 4;

/// A real-time task that waits although another CPU could run it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beaten {
    task: TaskId,
    waits: CpuId,
    on: CpuId,
}

impl Sim<'_> {
    pub(crate) fn check(&mut self) {
        self.machine.check();
        self.check_population();
        for at in 0..self.cpus.len() {
            self.check_current(CpuId::at(at));
            self.check_debts(CpuId::at(at));
        }
        self.check_objects();
        if self.promises_rt_affinity() {
            self.check_rt_affinity();
        }
        if self.promises_no_waste() {
            self.check_wasted_cpus();
        }
        for nth in 1..self.stranded.len() {
            self.check_budget(GroupId(nth as u32));
        }
        self.check_cores();
    }

    pub(crate) fn check_objects(&mut self) {
        if let Some(what) = self.objects.check() {
            self.violate("no-lost-wakeup", what);
        }
    }

    /// With cookies there is no such guarantee: a task that a core excludes waits, whatever other cores run.
    pub(crate) fn promises_rt_affinity(&self) -> bool {
        let features = [Feature::RtPush, Feature::RtPull, Feature::RtPushPastStuck];
        let has = |feature| self.scenario.features.has(feature);
        self.cores.is_none() && features.into_iter().all(has)
    }

    pub(crate) fn promises_no_waste(&self) -> bool {
        let has = |feature| self.scenario.features.has(feature);
        has(Feature::LoadBalance) && has(Feature::IdleLoadBalance) && !has(Feature::PowerSavings)
    }

    /// Checks that a group is not throttled for long while its pool has budget. A CPU detects a new period by an
    /// interrupt of its own. Budget that another CPU gives back reaches it after all other CPUs at the latest. Under the
    /// kernel's control, budget that was given back waits for a timer.
    pub(crate) fn check_budget(&mut self, group: GroupId) {
        let errands = self.cpus.len() as u64 * self.costs.longest_errand().0;
        let latency = self.costs.longest_timer_latency() + Nanos(errands);
        let bandwidth = self.machine.groups().has_bandwidth(group);
        let (waits, patience, invariant) = if bandwidth {
            let waits = self.machine.waits_beside_slice(self.now, group);
            (waits, latency + SLACK_PERIOD, "slack-is-handed-out")
        } else {
            let waits = self.machine.waits_in_vain(self.now, group);
            (waits, latency + LATEST_REFILL, "no-stranded-budget")
        };
        let stranded = &mut self.stranded[group.index()];
        let since = stranded.filter(|_| waits.is_some()).unwrap_or(self.now);
        *stranded = waits.map(|_| since);
        if let Some(cpu) = waits
            && self.now.since(since) > patience
        {
            let path = &self.scenario.groups[group.index()].path;
            let what = format!("{path} is throttled on CPU {cpu} with budget left since {since}");
            self.violate(invariant, what);
        }
    }

    /// Checks that groups under the kernel's control used no more CPU time on `cpu` than they drew, apart from the time
    /// from the end of their budget to the tick that notices it, the rest of a system call, and the switch. A system
    /// call takes up to [`SLOWEST`] times its work where threads share a core.
    pub(crate) fn check_debts(&mut self, cpu: CpuId) {
        if !self.scenario.features.has(Feature::CfsBandwidth) {
            return;
        }
        let todo = self.cpus[cpu.index()].curr.as_ref().map(|curr| curr.todo);
        if let Some(Todo::Kernel(left)) = todo {
            self.watch.longest_stay = self.watch.longest_stay.max(left);
        }
        let tick = self.machine.config().tick;
        let latency = self.costs.longest_timer_latency() + self.costs.longest_errand();
        let most = tick + latency + Nanos(SLOWEST * self.watch.longest_stay.0);
        for nth in 1..self.scenario.groups.len() {
            let group = GroupId(nth as u32);
            let owed = self.machine.cpu(cpu).inspect(|rq| rq.queues().owed(group));
            if owed > most {
                let path = &self.scenario.groups[nth].path;
                let what = format!("{path} owes {owed} on CPU {cpu}, more than {most}");
                self.violate("debt-is-bounded", what);
            }
        }
    }

    /// Checks that no CPU idles for long while fair tasks wait that may run there, whatever the weights. A CPU may also
    /// not have only SCHED_IDLE tasks for long while normal tasks wait for each other.
    fn check_wasted_cpus(&mut self) {
        let mut waiting = Vec::new();
        for cpu in &self.cpus {
            self.waiting_on(cpu.id, &mut waiting);
        }
        for at in 0..self.cpus.len() {
            let cpu = CpuId::at(at);
            let takes = self.takes(cpu);
            let waiter = waiting.iter().find(|waiter| takes.wants(cpu, waiter));
            self.note_waste(cpu, waiter);
            self.check_waste(cpu);
        }
    }

    /// Records that `waiter` waits although `cpu` should have it.
    pub(crate) fn note_waste(&mut self, cpu: CpuId, waiter: Option<&Waiter>) {
        let since = self.watch.waste[cpu.index()].map_or(self.now, |waste| waste.since);
        let waste = waiter.map(|it| Waste { task: it.task, on: it.on, since });
        self.watch.waste[cpu.index()] = waste;
    }

    pub(crate) fn check_waste(&mut self, cpu: CpuId) {
        let tick = self.machine.config().tick;
        let looks = Nanos(LOOKS * LOOKS_AGAIN.0.next_multiple_of(tick.0));
        let patience = looks + Nanos(2 * tick.0) + Nanos(8 * self.options.hint_delay.0);
        if let Some(Waste { task, since, .. }) = self.watch.waste[cpu.index()]
            && self.now.since(since) > patience
        {
            let name = &self.tasks[task.index()].name;
            let idles = self.takes(cpu) == Takes::Anybody;
            let does = if idles { "idles" } else { "has SCHED_IDLE tasks only" };
            let what = format!("CPU {cpu} {does} while {name} waits since {since}");
            self.violate("no-wasted-cpu", what);
        }
    }

    /// Returns the kind of tasks that a CPU should pull.
    pub(crate) fn takes(&self, cpu: CpuId) -> Takes {
        let own = &self.cpus[cpu.index()];
        let (online, load) =
            self.machine.cpu(cpu).inspect(|rq| (rq.site().is_online(), rq.classes().load()));
        // Pending kicks do not matter here: a kick without effect repeats again and again.
        if !online || own.inbound > 0 || own.silent {
            return Takes::Nobody;
        }
        match own.doing {
            // The cookie that its core runs may exclude every task.
            Doing::Idle if !self.is_whole_core_idle(cpu) => Takes::Nobody,
            Doing::Idle => Takes::Anybody,
            _ if load.is_sched_idle() => Takes::Normal,
            _ => Takes::Nobody,
        }
    }

    /// Adds the fair tasks that wait in the run queue of a CPU to `waiting`.
    pub(crate) fn waiting_on(&self, cpu: CpuId, waiting: &mut Vec<Waiter>) {
        self.machine.cpu(cpu).inspect(|rq| {
            let curr = rq.tasks().curr().map(|task| task.id);
            let tasks = || rq.queues().competing().map(|(_, task)| task);
            let idle_class = |it: &Task<_>| {
                it.class().is_fair() && self.machine.sight().counts_as_idle(it.attr())
            };
            // A task that waits for the turn of a light SCHED_IDLE task would wait on any CPU.
            let others = tasks().filter(|&it| !idle_class(it)).count();
            let pressed = others > 1 || rq.classes().load().idle_is_heavy;
            let fair = tasks().filter(|it| Some(it.id) != curr && it.class().is_fair());
            waiting.extend(fair.map(|it| Waiter {
                task: it.id,
                on: cpu,
                normal: pressed && !idle_class(it),
                // No load balance takes it from an isolated CPU, and none leads out of its root domain.
                cpus: match self.machine.sight().is_isolated(cpu) {
                    true => CpuSet::only(cpu),
                    false => self.machine.sight().within(cpu, &it.attr().affinity).into_owned(),
                },
            }));
        });
    }

    /// Checks that every live task is in exactly one place: blocked, in a run queue, or on its way.
    fn check_population(&self) {
        let blocked = self.tasks.iter().filter(|task| task.parked.is_some()).count();
        assert_eq!(blocked, self.blocked, "the blocked tasks are counted");
        let inbound: u32 = self.cpus.iter().map(|cpu| cpu.inbound).sum();
        let queued: usize = self.cpus.iter().map(|cpu| self.queued_on(cpu.id)).sum();
        assert_eq!(blocked + inbound as usize + queued, self.alive, "no task is lost");
        for task in &self.tasks {
            let waits = !matches!(task.waiting, Waiting::Nothing);
            assert!(!waits || !task.done, "{} is over and waits for nothing", task.name);
        }
    }

    /// Returns the number of tasks in the run queue of a CPU.
    pub(crate) fn queued_on(&self, cpu: CpuId) -> usize {
        self.machine.cpu(cpu).inspect(|rq| rq.tasks().iter().count())
    }

    /// Checks that a CPU runs the current task of its run queue, and that it idles only if no task waits there.
    pub(crate) fn check_current(&mut self, on: CpuId) {
        let cpu = &self.cpus[on.index()];
        let (curr, first, closed) = self.machine.cpu(on).inspect(|rq| {
            let closed = rq.classes().load().importance == Importance::Closed;
            (rq.tasks().curr().map(|task| task.id), rq.first_timer(), closed)
        });
        assert_eq!(cpu.task(), curr, "CPU {on} runs the task of its queue");
        let late = self.costs.longest_timer_latency();
        // An expiry may lie in the past when it is set: that of the fair server, when a forced idle CPU that was about to
        // switch is forced idle again. The hardware is then set to the present.
        let set = Some(cpu.programmed).filter(|&set| set <= self.now).unwrap_or(Time::ZERO);
        let overdue = |&expiry: &Time| expiry.max(set) + late < self.now;
        let overdue = self.machine.sight().next_expiry(on).filter(overdue);
        assert_eq!(overdue, None, "CPU {on} takes its interrupts in time at {}", self.now);
        assert!(cpu.programmed <= first, "CPU {on} is interrupted for its first timer");
        let forced = self.machine.cpu(on).forced_idle().is_some();
        if cpu.doing == Doing::Idle && cpu.is_settled() && !closed && !forced {
            let queued = self.machine.cpu(on).inspect(|rq| rq.queues().competing().count());
            if queued > 0 {
                let what = format!("CPU {on} idles while {queued} tasks wait there");
                self.violate("work-conservation", what);
            }
        }
    }

    /// Checks that no CPU in the affinity of a waiting real-time task runs a less important task.
    fn check_rt_affinity(&mut self) {
        let running: Vec<_> = self.cpus.iter().map(|cpu| self.settled_importance(cpu.id)).collect();
        let beaten = self.cpus.iter().filter_map(|cpu| {
            self.beaten_on(cpu.id, |prio, cpus| {
                cpus.iter().find(|on| running[on.index()].is_some_and(|run| run < prio))
            })
        });
        if let Some(beaten) = beaten.last() {
            self.tell_of_beaten(beaten);
        }
    }

    /// Returns a real-time task that waits on a CPU although another CPU could run it. `find` searches that CPU by the
    /// task's importance and affinity. Among several such tasks it is the last. A task that waits because its CPU
    /// serves fair tasks is not entitled to another CPU.
    pub(crate) fn beaten_on(
        &self,
        cpu: CpuId,
        find: impl Fn(Importance, &CpuSet) -> Option<CpuId>,
    ) -> Option<Beaten> {
        if !self.cpus[cpu.index()].is_settled() {
            return None;
        }
        self.machine.cpu(cpu).inspect(|rq| {
            if rq.classes().load().importance == Importance::Closed || rq.classes().is_serving() {
                return None;
            }
            let curr = rq.tasks().curr().map(|task| task.id);
            let waiting = rq.queues().competing().filter(|(_, task)| Some(task.id) != curr);
            let beaten = waiting.filter_map(|(_, task)| {
                let affinity = self.machine.sight().within(cpu, &task.attr().affinity);
                let on = find(Importance::Rt(task.class().push_prio()?), &affinity)?;
                Some(Beaten { task: task.id, waits: cpu, on })
            });
            beaten.last()
        })
    }

    pub(crate) fn tell_of_beaten(&mut self, Beaten { task, waits, on }: Beaten) {
        let what = format!(
            "{} waits on CPU {waits} while CPU {on}, which it may use, runs {:?}",
            self.tasks[task.index()].name,
            self.cpus[on.index()].task().map(|id| &self.tasks[id.index()].name),
        );
        self.violate("rt-weak-affinity", what);
    }

    /// Returns the importance of the running task of a CPU. `None` if the CPU is unsettled, takes no real-time task, or
    /// serves fair tasks first.
    pub(crate) fn settled_importance(&self, cpu: CpuId) -> Option<Importance> {
        let open = self.machine.cpu(cpu).inspect(|rq| {
            rq.classes().load().importance != Importance::Closed && !rq.classes().is_serving()
        });
        let settled = open && self.cpus[cpu.index()].is_settled();
        settled.then(|| {
            let prio = self
                .machine
                .cpu(cpu)
                .inspect(|rq| rq.tasks().curr().and_then(|task| task.class().push_prio()));
            prio.map_or(Importance::Normal, Importance::Rt)
        })
    }

    /// Checks that a timer runs within its window.
    pub(crate) fn verify_expiry(&mut self, task: TaskId, window: Window) {
        if self.now < window.soft || self.now > window.hard + self.costs.longest_timer_latency() {
            let name = &self.tasks[task.index()].name;
            let what = format!("the timer of {name} for {window:?} is run at {}", self.now);
            self.violate("timer-window", what);
        }
    }

    /// Ends a run that cannot continue meaningfully.
    pub(crate) fn stop(&mut self, invariant: &'static str, what: String) {
        self.violate(invariant, what);
        self.stopped = true;
    }

    pub(crate) fn violate(&mut self, invariant: &'static str, what: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            let violation = Violation { invariant, at: self.now, what };
            self.observer.violation(&violation);
            self.violations.push(violation);
        }
    }
}
