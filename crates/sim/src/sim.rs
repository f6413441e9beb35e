//! The simulator: one thread, virtual time, the machine that real CPUs use.
//!
//! A calendar of events drives everything (`calendar`). A CPU is idle, busy for the scheduler,
//! or executes its task (`cpu`); a task is a program that is interpreted whenever its CPU
//! executes it (`program`, `steps`). What the machine asks of other CPUs takes
//! time here as it does on hardware: a kick is an interrupt that arrives later, a task that moves is
//! between run queues for a while and seen by nobody, and what a CPU has to say can be held back.
//! So the paths that repair what stale hints broke are not dead code here.
//!
//! Nothing depends on anything but scenario, options and seed: each task, each CPU's costs and the
//! order of simultaneous events draw from generators of their own, so that a policy that changes
//! who runs first does not change how long anybody works.

use crate::calendar::{Calendar, Due};
use crate::cores::Cores;
use crate::cost::CostModel;
use crate::cpu::{Cpu, Doing};
use crate::program::{FIRST_CPU, NewProgram, Program};
use crate::smt::Smt;
use crate::watch::{Check, Watch};
use runyard_engine::attr::{Attr, Cookie, GroupId, LatencyNice, Policy};
use runyard_engine::balance::Balanced;
use runyard_engine::config::BadConfig;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::limits::Throttling;
use runyard_engine::limits::{Limit, Usage, UsageOnCpu};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::{Effects, Machine, Moving, Work};
use runyard_workload::draw::{Stream, stream};
use runyard_workload::log::{Log, Row};
use runyard_workload::objects::{self, Objects, Undone};
use runyard_workload::scenario::{Scenario, SpecId};
use std::collections::BTreeMap;

/// A machine of so many CPUs does not fit into the caches, and it pays to [read ahead](crate::ahead). Of fewer, that
/// depends on what else is in the caches.
const READS_AHEAD_FROM: usize = 2_048;

/// How a scenario is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// All random draws follow from it.
    pub seed: u64,
    /// Whether to verify the invariants.
    pub check: Check,
    /// Tell the observer of every round of every task.
    pub log: bool,
    /// Tell the observer what explains why tasks wait: [`What::Moved`], [`What::PassedOver`].
    pub explain: bool,
    /// Hold back what a CPU says of itself, each time for a random part of this span.
    pub hint_delay: Nanos,
    /// CPUs that leave service, or come back into it.
    pub hotplug: Vec<Hotplug>,
    /// Limits that change meanwhile.
    pub relimits: Vec<Relimit>,
}

/// A CPU leaves service, or comes back into it. CPU 0 stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotplug {
    /// When.
    pub at: Time,
    /// Which; one that the machine does not have, and CPU 0, are ignored.
    pub cpu: CpuId,
    /// Whether it comes.
    pub online: bool,
}

/// A task group gets another limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relimit {
    /// When.
    pub at: Time,
    /// Which, other than the root.
    pub group: GroupId,
    /// What it may use from then on.
    pub limit: Option<Limit>,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When it ended.
    pub end: Time,
    /// The tasks by [`TaskId`]: those of the scenario in file order, then those that were forked.
    pub tasks: Vec<Simulated>,
    /// Invariants that did not hold, the first few.
    pub violations: Vec<Violation>,
    /// What limits did to the groups that have one.
    pub limits: BTreeMap<GroupId, Limited>,
    /// Waits in vain and resumptions that found nobody.
    pub left: Undone,
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

/// What its limit did to a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// In all.
    pub usage: Usage,
    /// On each CPU where it was.
    pub on: Vec<(CpuId, UsageOnCpu)>,
}

/// A task that was simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// Its name: that of its thread object, numbered if there are several.
    pub name: String,
    /// The name of the thread object whose program it runs.
    pub thread: String,
    /// The policy with which it began.
    pub policy: Policy,
    /// The task group with which it began.
    pub group: GroupId,
    /// The latency nice with which it began.
    pub latency_nice: LatencyNice,
    /// The cookie with which it began, its own or that of its task group.
    pub cookie: Option<Cookie>,
    /// How often it came to its timer after the next period had begun.
    pub missed: u64,
    /// How much later than asked its timers might expire when it began.
    pub slack: Nanos,
}

/// A simulation.
#[derive(Debug)]
pub struct Sim<'s, O> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) machine: Machine<Work<()>>,
    pub(crate) now: Time,
    pub(crate) calendar: Calendar,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Program<'s>>,
    pub(crate) objects: Objects,
    /// Whether a mutex inherits.
    pub(crate) inherits: bool,
    pub(crate) costs: CostModel,
    /// The CPU on which the machine is being called; a kick of that CPU needs no interrupt.
    pub(crate) here: Option<CpuId>,
    pub(crate) fx: Asked,
    /// Tasks on their way, by number, and the numbers that are free.
    pub(crate) carried: Vec<Option<Moving<Work<()>>>>,
    free_numbers: Vec<u32>,
    /// How many forks each thread object has had.
    pub(crate) forks: Vec<u32>,
    pub(crate) options: Options,
    pub(crate) violations: Vec<Violation>,
    /// Since when a group is throttled somewhere though its pool has budget.
    pub(crate) stranded: Vec<Option<Time>>,
    pub(crate) alive: usize,
    /// Tasks whose boxes are with their programs.
    pub(crate) blocked: usize,
    pub(crate) watch: Watch,
    /// The run cannot go on.
    pub(crate) stopped: bool,
    pub(crate) observer: O,
    /// The machine is larger than the caches.
    pub(crate) reads_ahead: bool,
    /// Where threads of a core share it.
    pub(crate) smt: Option<Smt>,
    /// Where the threads of a core decide together, and what was told of them.
    pub(crate) cores: Option<Cores>,
}

/// Who is told what happens. Any function of an event is one.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event);

    /// A task exists, or is to be scheduled otherwise from now on: it runs the program of `thread`, and this is asked for it.
    fn asks(&mut self, task: TaskId, thread: SpecId, attr: &Attr) {
        let _ = (task, thread, attr);
    }

    /// A round of a phase is over, of a run whose [`Options::log`] is set.
    fn row(&mut self, row: &Row) {
        let _ = row;
    }

    /// An invariant did not hold after the last event.
    fn violation(&mut self, violation: &Violation) {
        let _ = violation;
    }
}

impl<F: FnMut(&Event)> Observer for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// What the machine asked for in a call.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    kicks: Vec<CpuId>,
    moving: Vec<Moving<Work<()>>>,
    silent: Vec<CpuId>,
    balanced: Vec<(CpuId, Balanced)>,
    throttlings: Vec<(CpuId, Throttling)>,
    /// CPUs that are forced idle because of another cookie than before.
    forced: Vec<CpuId>,
    hold_back: bool,
    keeps_touched: bool,
    /// CPUs whose run queues may have changed, some of them several times.
    pub(crate) touched: Vec<CpuId>,
}

impl Asked {
    fn is_empty(&self) -> bool {
        self.kicks.is_empty()
            && self.moving.is_empty()
            && self.silent.is_empty()
            && self.balanced.is_empty()
            && self.throttlings.is_empty()
            && self.forced.is_empty()
    }
}

impl Effects<Work<()>> for Asked {
    fn kick(&mut self, cpu: CpuId) {
        self.kicks.push(cpu);
    }

    fn carry(&mut self, moving: Moving<Work<()>>) -> Option<Moving<Work<()>>> {
        self.moving.push(moving);
        None
    }

    fn balanced(&mut self, cpu: CpuId, balanced: Balanced) {
        self.balanced.push((cpu, balanced));
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.throttlings.push((cpu, throttling));
    }

    fn forced_idle(&mut self, cpu: CpuId, _: Option<Cookie>) {
        self.forced.push(cpu);
    }

    fn touched(&mut self, cpu: CpuId) {
        if self.keeps_touched {
            self.touched.push(cpu);
        }
    }

    fn hold_back(&mut self, cpu: CpuId) -> bool {
        if self.hold_back {
            self.silent.push(cpu);
        }
        self.hold_back
    }
}

impl<'s, O: Observer> Sim<'s, O> {
    /// A machine with the tasks of `scenario`, none of which has begun. `observer` is told of
    /// every event.
    ///
    /// # Errors
    /// If the scenario's machine contradicts itself.
    pub fn new(
        scenario: &'s Scenario,
        options: Options,
        observer: O,
    ) -> Result<Sim<'s, O>, BadConfig> {
        let config = scenario.config();
        let cores = Cores::new(&config);
        let topology = config.topology;
        let groups: Vec<_> = scenario.groups.iter().map(|group| group.spec).collect();
        let watch = Watch::new(options.check, topology.cpus());
        let mut sim = Sim {
            scenario,
            machine: Machine::new(config, &groups)?,
            now: Time::ZERO,
            calendar: Calendar::new(topology.cpus(), stream(options.seed, Stream::Order)),
            cpus: topology.iter().map(Cpu::new).collect(),
            tasks: Vec::new(),
            objects: Objects::new(&scenario.objects),
            inherits: scenario.objects.inherit(),
            costs: CostModel::new(scenario.machine.costs, topology, options.seed),
            here: None,
            fx: Asked {
                hold_back: options.hint_delay > Nanos::ZERO,
                keeps_touched: options.check == Check::Touched,
                ..Asked::default()
            },
            carried: Vec::new(),
            free_numbers: Vec::new(),
            forks: vec![0; scenario.tasks.len()],
            options,
            violations: Vec::new(),
            stranded: vec![None; groups.len()],
            alive: 0,
            blocked: 0,
            watch,
            stopped: false,
            observer,
            reads_ahead: topology.cpus() >= READS_AHEAD_FROM,
            cores,
            smt: scenario.machine.smt.and_then(|busy_speed| Smt::new(busy_speed, topology)),
        };
        sim.enter_beginning();
        Ok(sim)
    }

    /// Runs to the end: of the duration, of all tasks, or of all hope that one goes on.
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.outcome()
    }

    /// What the run came to so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let names = |task: &Program<'_>| Simulated {
            name: task.name.clone(),
            thread: task.spec.name.clone(),
            policy: task.began.policy,
            group: task.began.group,
            latency_nice: task.began.latency_nice,
            cookie: task.began.cookie,
            missed: task.missed,
            slack: task.began.slack,
        };
        Outcome {
            end: self.now,
            tasks: self.tasks.iter().map(names).collect(),
            violations: self.violations.clone(),
            limits: self.limits(),
            left: self.left(),
        }
    }

    fn left(&self) -> Undone {
        let tasks: Vec<_> = self.tasks.iter().map(Program::left).collect();
        objects::left(self.scenario, &tasks, &self.objects, |mutex| self.objects.owner(mutex))
    }

    fn limits(&self) -> BTreeMap<GroupId, Limited> {
        let groups = (1..self.scenario.groups.len()).map(|at| GroupId(at as u32));
        let limited = groups.filter(|&group| self.machine.was_limited(group));
        let of = |group| {
            let on = |cpu| Some((cpu, self.machine.usage_on(self.now, group, cpu)?));
            let cpus = self.machine.config().topology.iter();
            Limited {
                usage: self.machine.usage(self.now, group),
                on: cpus.filter_map(on).collect(),
            }
        };
        limited.map(|group| (group, of(group))).collect()
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Runs one event; `false` after the last.
    pub fn step(&mut self) -> bool {
        if self.calendar.look() && self.reads_ahead {
            self.read_ahead();
        }
        let Some((at, due)) = self.calendar.next() else { return false };
        debug_assert!(at >= self.now, "time does not run back");
        if !self.still_holds(at, due) {
            return true;
        }
        if self.options.check != Check::No {
            return self.step_checked(at, due);
        }
        self.now = at;
        self.happen(due);
        self.goes_on()
    }

    /// Whether there is anything to wait for.
    pub(crate) fn goes_on(&self) -> bool {
        let unfinished = self.alive > 0 || self.scenario.duration.is_some();
        unfinished && !self.stopped
    }

    /// Whether an entry of the calendar still means anything. Time does not go on for one that does
    /// not: a run ends with the last thing that happened.
    fn still_holds(&mut self, at: Time, due: Due) -> bool {
        match due {
            Due::Interrupt(cpu) => self.has_interrupt(cpu, at),
            Due::Done(cpu, ticket) => self.cpus[cpu.index()].honours(ticket),
            _ => true,
        }
    }

    pub(crate) fn happen(&mut self, due: Due) {
        match due {
            Due::Interrupt(cpu) => self.interrupt(cpu),
            Due::Kick(cpu) => self.kicked(cpu),
            Due::Done(cpu, _) => self.done(cpu),
            Due::Arrive(number) => self.arrive(number),
            Due::Publish(cpu) => {
                self.cpus[cpu.index()].silent = false;
                self.watch.note(cpu);
                self.machine.publish_held_back(self.now, cpu, &mut self.fx);
                self.carry_out();
            }
            Due::Start(task) => self.begin(None, task, self.now),
            Due::Hotplug(cpu, online) => self.hotplug(cpu, online),
            Due::Relimit(nth) => self.relimit(nth as usize),
            Due::End => self.stopped = true,
        }
    }

    fn enter_beginning(&mut self) {
        for (id, nth, name) in self.scenario.instances() {
            let mut draws = stream(self.options.seed, Stream::Task(id, nth));
            let spec = &self.scenario.tasks[id.0 as usize];
            let (delay, attr) =
                (spec.delay.sample(&mut draws), spec.first_attr(self.machine.all()));
            let task = self.create(NewProgram { id, name, attr, delay, draws });
            self.calendar.enter(Time::ZERO + delay, Due::Start(task));
        }
        for Hotplug { at, cpu, online } in self.options.hotplug.clone() {
            if cpu.index() < self.cpus.len() && cpu != FIRST_CPU {
                self.calendar.enter(at, Due::Hotplug(cpu, online));
            }
        }
        for (nth, &Relimit { at, .. }) in self.options.relimits.iter().enumerate() {
            self.calendar.enter(at, Due::Relimit(nth as u32));
        }
        if let Some(duration) = self.scenario.duration {
            self.calendar.enter(Time::ZERO + duration, Due::End);
        }
    }

    /// A task that has not begun.
    pub(crate) fn create(&mut self, new: NewProgram) -> TaskId {
        let task = TaskId(self.tasks.len() as u64);
        let (thread, attr) = (new.id, new.attr.clone());
        self.observer.asks(task, thread, &attr);
        let mut program = Program::new(self.scenario, new);
        let work = Work { control: program.control.clone(), work: () };
        program.parked = Some(Task::new(task, attr, work));
        program.log = self.options.log.then(|| Box::new(Log::new(task, self.scenario)));
        self.tasks.push(program);
        self.alive += 1;
        self.blocked += 1;
        self.tell(FIRST_CPU, What::Spawn { task });
        task
    }

    /// A task begins: it becomes runnable for the first time, near the CPU that begins it.
    pub(crate) fn begin(&mut self, on: Option<CpuId>, task: TaskId, since: Time) {
        let program = &mut self.tasks[task.index()];
        program.started = true;
        let parked = program.parked.take().expect("a task that has not begun is parked");
        self.blocked -= 1;
        let cpu = self.machine.spawn(self.now, parked, on, &mut self.fx);
        let by = on.and_then(|on| self.cpus[on.index()].task());
        self.tell(cpu, What::Wake { task, since, by });
        let here = std::mem::replace(&mut self.here, on);
        self.carry_out();
        self.here = here;
        self.explain(task, cpu);
    }

    fn arrive(&mut self, number: u32) {
        let moving = self.carried[number as usize].take().expect("who arrives was on its way");
        self.free_numbers.push(number);
        self.cpus[moving.to.index()].inbound -= 1;
        self.watch.note(moving.to);
        let (task, to) = (moving.task().id, moving.to);
        self.machine.arrive(self.now, moving, &mut self.fx);
        self.carry_out();
        self.explain(task, to);
    }

    fn hotplug(&mut self, cpu: CpuId, online: bool) {
        if online {
            self.machine.online(self.now, cpu, &mut self.fx);
        } else {
            self.machine.offline(self.now, cpu, &mut self.fx);
        }
        self.carry_out();
    }

    fn relimit(&mut self, nth: usize) {
        let Relimit { group, limit, .. } = self.options.relimits[nth];
        self.machine.set_limit(self.now, group, limit, &mut self.fx);
        self.carry_out();
        // Who is held back, and by that keeps others waiting, may be another than before.
        for at in 0..self.tasks.len() {
            if !self.tasks[at].holds.is_empty() {
                self.disinherit(TaskId(at as u64));
            }
        }
    }

    /// Enters into the calendar what the machine asked for.
    #[inline]
    pub(crate) fn carry_out(&mut self) {
        if self.fx.is_empty() {
            return;
        }
        let Asked {
            mut kicks,
            mut moving,
            mut silent,
            mut balanced,
            mut throttlings,
            mut forced,
            hold_back,
            keeps_touched,
            touched,
        } = std::mem::take(&mut self.fx);
        for (cpu, throttling) in throttlings.drain(..) {
            self.tell(cpu, throttling.into());
        }
        for (cpu, balanced) in balanced.drain(..) {
            self.tell(cpu, What::Balanced(balanced));
        }
        for cpu in forced.drain(..) {
            if self.cpus[cpu.index()].doing == Doing::Idle {
                self.tell_idle(cpu);
            }
        }
        for cpu in kicks.drain(..) {
            self.watch.note(cpu);
            let target = &mut self.cpus[cpu.index()];
            if self.here == Some(cpu) {
                target.resched = true;
            } else if !target.kick_in_flight {
                target.kick_in_flight = true;
                let at = self.now + self.costs.ipi(cpu);
                self.calendar.enter(at, Due::Kick(cpu));
            }
        }
        moving.drain(..).for_each(|moving| self.carry(moving));
        for cpu in silent.drain(..) {
            self.watch.note(cpu);
            let source = &mut self.cpus[cpu.index()];
            if !std::mem::replace(&mut source.silent, true) {
                let at = self.now + self.costs.part_of(cpu, self.options.hint_delay);
                self.calendar.enter(at, Due::Publish(cpu));
            }
        }
        // The buffers are used again.
        self.fx = Asked {
            kicks,
            moving,
            silent,
            balanced,
            throttlings,
            forced,
            hold_back,
            keeps_touched,
            touched,
        };
    }

    fn carry(&mut self, moving: Moving<Work<()>>) {
        let to = moving.to;
        if self.options.explain {
            self.tell(to, What::Moved { task: moving.task().id });
        }
        self.cpus[to.index()].inbound += 1;
        self.watch.note(to);
        let number = self.free_numbers.pop().unwrap_or_else(|| {
            self.carried.push(None);
            self.carried.len() as u32 - 1
        });
        self.carried[number as usize] = Some(moving);
        let at = self.now + self.costs.migration(to);
        self.calendar.enter(at, Due::Arrive(number));
    }

    #[inline]
    pub(crate) fn tell(&mut self, cpu: CpuId, what: What) {
        self.watch.note(cpu);
        self.observer.event(&Event { at: self.now, cpu, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_workload::{Overrides, parse};

    #[test]
    fn the_calendar_has_no_more_than_a_few_events_of_each_cpu() {
        let text = r#"{
            "machine": {"cpus": 4}, "global": {"duration": 2},
            "tasks": {"hog": {"instance": 9, "run": 10000000}, "tick": {"run": 30, "sleep": 300}},
        }"#;
        let scenario = parse("-", text, &Overrides::default()).unwrap().scenario;
        let mut sim = Sim::new(&scenario, Options::default(), |_: &Event| {}).unwrap();
        let mut most = 0;
        while sim.step() {
            most = most.max(sim.calendar.len());
        }
        assert!(most < 40, "{most} events");
    }
}
