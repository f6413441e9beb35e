//! The simulator: one thread, virtual time, and the machine that real CPUs use.
//!
//! A calendar of events drives the run (`calendar`). A CPU is idle, works for the scheduler, or executes its task
//! (`cpu`). A task is a program, which is interpreted while its CPU executes it (`program`, `steps`). The effects of a
//! CPU on others take time, as on hardware. A kick is an interrupt that arrives later. A migrating task is between run
//! queues for a while, where no CPU sees it. The published state of a CPU can be held back. So the paths that repair
//! decisions on stale hints are exercised here.
//!
//! A run depends only on scenario, options and seed. Each task, each CPU's costs, and the order of simultaneous events
//! draw from separate generators. So a policy that changes the order of tasks does not change the duration of any
//! task's work.

use crate::arrivals::Requests;
use crate::calendar::{Calendar, Due};
use crate::cores::Cores;
use crate::cost::CostModel;
use crate::cpu::{Cpu, Doing};
use crate::program::{FIRST_CPU, NewProgram, Program};
use crate::smt::Smt;
use crate::watch::{Check, Watch};
use crate::window::{Limited, Window};
use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Policy};
use runyard_engine::balance::Balanced;
use runyard_engine::config::BadConfig;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::event::{Event, What};
use runyard_engine::limits::Throttling;
use runyard_engine::run_queue::Resched;
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::{Effects, Machine, Moving, Work};
use runyard_workload::cpusets::Cpusets;
use runyard_workload::draw::{Stream, stream};
use runyard_workload::log::{Log, Row};
use runyard_workload::objects::{self, Objects, Undone};
use runyard_workload::scenario::{Preemption, Scenario, SpecId, TaskAttr};
use std::collections::BTreeMap;
use std::fmt;

/// The number of CPUs from which a machine does not fit into the caches, so that it pays to [read ahead](crate::ahead).
/// For fewer CPUs that depends on other contents of the caches.
const READS_AHEAD_FROM: usize = 2_048;

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The seed of all random draws.
    pub seed: u64,
    /// The invariants to verify.
    pub check: Check,
    /// Whether to report every round of every task to the observer.
    pub log: bool,
    /// Whether to report the events that explain why tasks wait: [`What::Moved`], [`What::Landed`],
    /// [`What::SwitchDue`], [`What::PassedOver`].
    pub explain: bool,
    /// The longest delay of a CPU's published state. Each delay is a random part of it.
    pub hint_delay: Nanos,
}

/// The result of a run. Of a run with a [`Scenario::from`], the effects of limits and the missed periods count from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The time at which the run ended.
    pub end: Time,
    /// The tasks by [`TaskId`]: those of the scenario in file order, then the forked ones.
    pub tasks: Vec<Simulated>,
    /// The first few violated invariants.
    pub violations: Vec<Violation>,
    /// The effects of limits on the groups that have one.
    pub limits: BTreeMap<GroupId, Limited>,
    /// The waits that never ended, and the resumptions without a suspended task.
    pub left: Undone,
    /// The number of times that a CPU became overloaded with real-time tasks, or no longer was.
    pub overload_changes: u64,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: &'static str,
    /// The time of the violation.
    pub at: Time,
    /// A description of the violation.
    pub what: String,
}

/// A simulated task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// The name: that of its thread object, with a number if there are several tasks.
    pub name: String,
    /// The name of the thread object whose program it runs.
    pub thread: String,
    /// The policy at its begin.
    pub policy: Policy,
    /// The task group at its begin.
    pub group: GroupId,
    /// The latency nice at its begin.
    pub latency_nice: LatencyNice,
    /// The cookie at its begin, its own or that of its task group.
    pub cookie: Option<Cookie>,
    /// The number of times that it reached its timer after the next period had begun.
    pub missed: u64,
    /// The largest delay of its timers at its begin.
    pub slack: Nanos,
}

/// A simulation.
#[derive(Debug)]
pub struct Sim<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) machine: Machine<Work<()>>,
    /// The CPUs on which the tasks of each group may run.
    pub(crate) cpusets: Cpusets,
    pub(crate) now: Time,
    pub(crate) calendar: Calendar,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Program<'s>>,
    pub(crate) objects: Objects,
    /// Some mutex has priority inheritance.
    pub(crate) inherits: bool,
    pub(crate) costs: CostModel,
    /// The CPU that calls the machine now. A kick of that CPU needs no interrupt.
    pub(crate) here: Option<CpuId>,
    pub(crate) fx: Asked,
    /// The migrating tasks by number, and the free numbers.
    pub(crate) carried: Vec<Option<Moving<Work<()>>>>,
    free_numbers: Vec<u32>,
    /// The number of forks of each thread object.
    pub(crate) forks: Vec<u32>,
    pub(crate) options: Options,
    pub(crate) violations: Vec<Violation>,
    /// The time since when a group is throttled somewhere although its pool has budget.
    pub(crate) stranded: Vec<Option<Time>>,
    pub(crate) alive: usize,
    /// The number of changes of the timeline that will start tasks.
    pub(crate) starts_left: usize,
    /// The requests from outside.
    pub(crate) requests: Requests<'s>,
    /// The number of times that the instances of a thread object began, for those that the timeline starts.
    pub(crate) lives: BTreeMap<u32, u32>,
    /// The number of tasks whose boxes are with their programs.
    pub(crate) blocked: usize,
    pub(crate) watch: Watch,
    /// The run cannot continue.
    pub(crate) stopped: bool,
    pub(crate) window: Window,
    /// Not a type parameter: the loop is then compiled once, here, and not in each crate that observes it.
    pub(crate) observer: Box<dyn Observer + 's>,
    /// The machine is larger than the caches.
    pub(crate) reads_ahead: bool,
    /// The speeds of hardware threads that share a core.
    pub(crate) smt: Option<Smt>,
    /// The state of cores with core scheduling, and the last reports about them.
    pub(crate) cores: Option<Cores>,
    /// The tasks that a tick finds passed over. It is empty between ticks.
    pub(crate) passed_over: Vec<TaskId>,
}

/// The receiver of a run's events. Any function of an event is one.
pub trait Observer {
    /// Receives an event.
    fn event(&mut self, event: &Event);

    /// Receives the attributes of a task when it is created and when they change. The task runs the program of
    /// `thread`.
    fn asks(&mut self, task: TaskId, thread: SpecId, attr: &TaskAttr) {
        let _ = (task, thread, attr);
    }

    /// Receives the log of a phase's round at its end, in a run with [`Options::log`].
    fn row(&mut self, row: &Row) {
        let _ = row;
    }

    /// Receives the beginning of the part of the run that reports count, if it is not the run's: between the events before
    /// it and the others.
    fn counts_from(&mut self, at: Time) {
        let _ = at;
    }

    /// Receives an invariant that did not hold after the last event.
    fn violation(&mut self, violation: &Violation) {
        let _ = violation;
    }
}

impl fmt::Debug for dyn Observer + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl<F: FnMut(&Event)> Observer for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// The effects that the machine requested in a call.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// The CPUs that switch, and how soon. With [`Resched::No`] only the next interrupt may be due earlier.
    kicks: Vec<(CpuId, Resched)>,
    moving: Vec<Moving<Work<()>>>,
    silent: Vec<CpuId>,
    balanced: Vec<(CpuId, Balanced)>,
    throttlings: Vec<(CpuId, Throttling)>,
    /// The CPUs that are forced idle because of another cookie than before.
    forced: Vec<CpuId>,
    hold_back: bool,
    keeps_touched: bool,
    /// The CPUs with a possibly changed run queue. A CPU may appear several times.
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
        self.kicks.push((cpu, Resched::Yes));
    }

    fn kick_lazily(&mut self, cpu: CpuId) {
        self.kicks.push((cpu, Resched::Lazy));
    }

    fn kick_in_user_mode(&mut self, cpu: CpuId) {
        self.kicks.push((cpu, Resched::InUserMode));
    }

    fn timer_set(&mut self, cpu: CpuId) {
        self.kicks.push((cpu, Resched::No));
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

impl<'s> Sim<'s> {
    /// Returns a simulation of the tasks of `scenario`, none of which has begun. `observer` receives every event.
    ///
    /// # Errors
    /// If the scenario's machine contradicts itself.
    pub fn new(
        scenario: &'s Scenario,
        options: Options,
        observer: impl Observer + 's,
    ) -> Result<Sim<'s>, BadConfig> {
        let config = scenario.config();
        let cores = Cores::new(&config);
        let topology = config.topology;
        let groups: Vec<_> = scenario.groups.iter().map(|group| group.spec).collect();
        let levels = (0..).take(groups.len()).map(|group| scenario.levels_of(GroupId(group)));
        let levels = levels.collect();
        let watch = Watch::new(options.check, topology.cpus());
        let requests = Requests::new(&scenario.arrivals, options.seed);
        let mut sim = Sim {
            scenario,
            cpusets: scenario.cpusets(CpuSet::first(topology.cpus())),
            machine: Machine::new(config, &groups)?,
            now: Time::ZERO,
            calendar: Calendar::new(topology.cpus(), stream(options.seed, Stream::Order)),
            cpus: topology.iter().map(Cpu::new).collect(),
            tasks: Vec::new(),
            objects: Objects::new(&scenario.objects),
            inherits: scenario.objects.inherit(),
            costs: CostModel::new(scenario.machine.costs, levels, topology, options.seed),
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
            starts_left: 0,
            requests,
            lives: BTreeMap::new(),
            blocked: 0,
            watch,
            stopped: false,
            window: Window::new(scenario.from),
            observer: Box::new(observer),
            reads_ahead: topology.cpus() >= READS_AHEAD_FROM,
            cores,
            passed_over: Vec::new(),
            smt: scenario.machine.smt.and_then(|busy_speed| Smt::new(busy_speed, topology)),
        };
        sim.enter_beginning();
        Ok(sim)
    }

    /// Runs to the end: that of the duration, that of the last task, or the point from which no task can continue.
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.outcome()
    }

    /// Returns the result of the run so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let names = |(id, task): (usize, &Program<'_>)| Simulated {
            name: task.name.clone(),
            thread: task.spec.name.clone(),
            policy: task.began.policy,
            group: task.began.group,
            latency_nice: task.began.latency_nice,
            cookie: task.began.cookie,
            missed: task.missed - self.window.missed_before(id),
            slack: task.began.slack,
        };
        Outcome {
            end: self.now,
            tasks: self.tasks.iter().enumerate().map(names).collect(),
            violations: self.violations.clone(),
            limits: self.window.limits_within(self.limits()),
            left: self.left(),
            overload_changes: self
                .machine
                .config()
                .topology
                .iter()
                .map(|cpu| self.machine.cpu(cpu).overload_changes())
                .sum(),
        }
    }

    fn left(&self) -> Undone {
        let tasks: Vec<_> = self.tasks.iter().map(Program::left).collect();
        objects::left(self.scenario, &tasks, &self.objects, |mutex| self.objects.owner(mutex))
    }

    fn limits(&self) -> BTreeMap<GroupId, Limited> {
        let groups = (1..self.scenario.groups.len()).map(|at| GroupId(at as u32));
        let limited = groups.filter(|&group| self.machine.groups().was_limited(group));
        let of = |group| {
            let on = |cpu| Some((cpu, self.machine.cpu(cpu).usage(self.now, group)?));
            let cpus = self.machine.config().topology.iter();
            Limited {
                usage: self.machine.usage(self.now, group),
                on: cpus.filter_map(on).collect(),
            }
        };
        limited.map(|group| (group, of(group))).collect()
    }

    /// Returns the virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Runs one event. Returns `false` after the last.
    pub fn step(&mut self) -> bool {
        if self.calendar.look() && self.reads_ahead {
            self.read_ahead();
        }
        let Some((at, due)) = self.calendar.next() else { return false };
        debug_assert!(at >= self.now, "time does not run back");
        if !self.still_holds(at, due) {
            return true;
        }
        if at >= self.window.opens {
            self.open_window();
        }
        if self.options.check != Check::No {
            return self.step_checked(at, due);
        }
        self.now = at;
        self.happen(due);
        self.goes_on()
    }

    /// Notes the counts of the machine, before the first event of the part that counts.
    #[cold]
    fn open_window(&mut self) {
        self.now = self.window.opens;
        let missed = self.tasks.iter().map(|task| task.missed).collect();
        self.window = Window::open(missed, self.limits());
        self.observer.counts_from(self.now);
    }

    /// Returns whether there is an event to wait for.
    pub(crate) fn goes_on(&self) -> bool {
        let comes = self.alive > 0 || self.starts_left > 0 || self.requests.come();
        let unfinished = comes || self.scenario.duration.is_some();
        unfinished && !self.stopped
    }

    /// Returns whether an entry of the calendar is still valid. An invalid entry does not advance the time, so a run
    /// ends with the last event that took place.
    fn still_holds(&mut self, at: Time, due: Due) -> bool {
        match due {
            Due::Interrupt(cpu) => self.has_interrupt(cpu, at),
            Due::Done(cpu, ticket) => self.cpus[cpu.index()].honours(ticket),
            // A task that was stopped during its delay has begun, so that it could end.
            Due::Start(task) => !self.tasks[task.index()].started,
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
                self.machine.cpus().publish_held_back(self.now, cpu, &mut self.fx);
                self.carry_out();
            }
            Due::Start(task) => self.begin(None, task, self.now),
            Due::Change(nth) => self.make_change(nth),
            Due::Request(nth) => self.take_request(nth),
            Due::End => self.stopped = true,
        }
    }

    fn enter_beginning(&mut self) {
        self.enter_instances();
        (0..self.scenario.arrivals.len()).for_each(|nth| self.enter_next_request(nth as u32));
        if let Some(duration) = self.scenario.duration {
            self.calendar.enter(Time::ZERO + duration, Due::End);
        }
    }

    /// Creates a task that does not exist for the scheduler yet.
    pub(crate) fn create(&mut self, new: NewProgram) -> TaskId {
        let task = TaskId(self.tasks.len() as u64);
        let (thread, attr) = (new.id, new.attr.clone());
        self.observer.asks(task, thread, &attr);
        let mut program = Program::new(self.scenario, new);
        program.log = self.options.log.then(|| Box::new(Log::new(task, self.scenario)));
        self.tasks.push(program);
        task
    }

    /// Makes a created task exist, blocked until it begins.
    pub(crate) fn spawn(&mut self, task: TaskId) {
        let program = &mut self.tasks[task.index()];
        program.spawned = true;
        let work = Work { control: program.control.clone(), work: () };
        program.parked = Some(Task::new(task, program.attr.attr.clone(), work));
        self.alive += 1;
        self.blocked += 1;
        self.tell(FIRST_CPU, What::Spawn { task });
    }

    /// Begins a task: makes it runnable for the first time, near the CPU that begins it.
    pub(crate) fn begin(&mut self, on: Option<CpuId>, task: TaskId, since: Time) {
        let program = &mut self.tasks[task.index()];
        program.started = true;
        let mut parked = program.parked.take().expect("a task that has not begun is parked");
        if on.is_none() {
            parked.set_slept();
        }
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
        let moving = self.carried[number as usize].take().expect("an arriving task was on its way");
        self.free_numbers.push(number);
        self.cpus[moving.to.index()].inbound -= 1;
        self.watch.note(moving.to);
        let (task, to) = (moving.task().id, moving.to);
        if self.options.explain {
            self.tell(to, What::Landed { task });
        }
        self.machine.cpus().arrive(self.now, moving, &mut self.fx);
        self.carry_out();
        self.program_server(to);
        self.explain(task, to);
    }

    /// Enters the effects that the machine requested into the calendar.
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
        for (cpu, asked) in kicks.drain(..) {
            self.watch.note(cpu);
            let resched = match asked {
                Resched::No => {
                    self.program_timer(cpu);
                    continue;
                }
                Resched::Lazy if self.preemption() != Preemption::Lazy => Resched::Yes,
                asked => asked,
            };
            let target = &mut self.cpus[cpu.index()];
            // The CPU itself has asked for a switch at its task's return to user mode.
            let waits = matches!(resched, Resched::Lazy | Resched::InUserMode);
            if self.here == Some(cpu) || waits {
                target.resched = target.resched.max(resched);
                if self.here != Some(cpu) {
                    // No switch follows that would do so.
                    self.program_timer(cpu);
                    self.explain_due(cpu);
                }
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
                let at = self.now + self.costs.hint_delay(cpu, self.options.hint_delay);
                self.calendar.enter(at, Due::Publish(cpu));
            }
        }
        // The buffers are reused.
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
