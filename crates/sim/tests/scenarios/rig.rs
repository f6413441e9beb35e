//! The rig of these tests: a small machine that runs a scenario, the record of its events, and assertions that fail
//! with a picture of them.
//!
//! Every run verifies the invariants (`check`). Every run is also checked against the [`Ledger`], which derives the
//! allowed sequences from the events alone.

use crate::late;
use crate::ledger::Ledger;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::features::Switched;
use runyard_engine::limits::Limit;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{Collector, TaskTotals, Totals, timeline};
use runyard_sim::{Check, Observer, Options, Outcome, Sim, Violation};
use runyard_workload::log::Row;
use runyard_workload::scenario::{
    Costs, GroupChange, MutexKind, Preemption, SpecId, TaskAttr, Timed, TimedChange,
};
use runyard_workload::{DeadlinePolicy, Overrides, Scenario, parse};
use std::fmt::Debug;

/// No costs, so that a scenario's times are those of its text.
pub const FREE: Costs = Costs::FREE;

pub fn us(n: u64) -> Time {
    Time::ZERO + Nanos::from_micros(n)
}

pub fn ms(n: u64) -> Time {
    Time::ZERO + Nanos::from_millis(n)
}

/// A machine and the way to run it. The defaults are one CPU and no costs.
#[derive(Clone, Debug)]
pub struct World {
    cpus: usize,
    costs: Option<Costs>,
    over: Overrides,
    options: Options,
    /// Changes beside those of the text.
    timeline: Vec<Timed>,
    hand_over: bool,
}

/// Returns a world with one CPU, no costs, and seed 1.
pub fn world() -> World {
    let options =
        Options { seed: 1, check: Check::Full, log: true, explain: true, ..Options::default() };
    let (over, timeline) = (Overrides::default(), Vec::new());
    World { cpus: 1, costs: Some(FREE), over, options, timeline, hand_over: false }
}

impl World {
    pub fn cpus(mut self, cpus: usize) -> World {
        self.cpus = cpus;
        self
    }

    /// Sets the costs, which are zero by default.
    pub fn costs(mut self, costs: Costs) -> World {
        self.costs = Some(costs);
        self
    }

    /// Uses the costs of the text, or the default costs. They spread only if the text says so.
    pub fn costs_of_the_text(mut self) -> World {
        self.costs = None;
        self
    }

    /// Sets the duration; otherwise a run lasts until all tasks have ended.
    pub fn millis(mut self, n: u64) -> World {
        self.over.duration = Some(Nanos::from_millis(n));
        self
    }

    pub fn seed(mut self, seed: u64) -> World {
        self.options.seed = seed;
        self
    }

    /// Sets a number or a switch, as `--set` does.
    pub fn set(mut self, setting: &str) -> World {
        self.over.settings.push(setting.parse().unwrap());
        self
    }

    /// Sets features by `NAME` or `NO_NAME`, separated by blanks.
    pub fn features(mut self, names: &str) -> World {
        let features = names.split_whitespace().map(|name| name.parse::<Switched>().unwrap());
        self.over.features.extend(features);
        self
    }

    /// Turns rt-app's log off.
    pub fn unlogged(mut self) -> World {
        self.options.log = false;
        self
    }

    pub fn hint_delay(mut self, delay: Nanos) -> World {
        self.options.hint_delay = delay;
        self
    }

    /// Takes `cpu` offline or online at `at`.
    pub fn hotplug(self, at: Time, cpu: u16, online: bool) -> World {
        self.change(at, TimedChange::Cpu { cpu: CpuId(cpu), online })
    }

    fn change(mut self, at: Time, change: TimedChange) -> World {
        self.timeline.push(Timed { at: at.since(Time::ZERO), change });
        self
    }

    /// Changes the limit of the group with this number at `at`: runtime and period in milliseconds.
    pub fn relimit(self, at: Time, group: u32, limit: Option<(u64, u64)>) -> World {
        let of = |(runtime, period)| {
            let (runtime, period) = (Nanos::from_millis(runtime), Nanos::from_millis(period));
            Limit::new(runtime, period, Nanos::ZERO, false).unwrap()
        };
        let change = GroupChange { weight: None, limit: Some(limit.map(of)) };
        self.change(at, TimedChange::Group { group: GroupId(group), change })
    }

    /// Makes mutexes hand over that would otherwise barge.
    pub fn hand_over(mut self) -> World {
        self.hand_over = true;
        self
    }

    /// Turns tasks of SCHED_DEADLINE into SCHED_FIFO tasks.
    pub fn deadline_as_fifo(mut self) -> World {
        self.over.deadline = DeadlinePolicy::AsFifo;
        self
    }

    /// Runs the thread objects `tasks` with mutexes without priority inheritance.
    #[track_caller]
    pub fn run(self, tasks: &str) -> Run {
        self.run_text(&format!("{{'tasks': {{{tasks}}}}}"))
    }

    /// Runs the thread objects `tasks` with mutexes with priority inheritance.
    #[track_caller]
    pub fn run_inheriting(self, tasks: &str) -> Run {
        self.run_text(&format!("{{'global': {{'pi_enabled': true}}, 'tasks': {{{tasks}}}}}"))
    }

    /// Runs the whole scenario `text`.
    #[track_caller]
    pub fn run_text(self, text: &str) -> Run {
        let run = self.run_broken(text);
        run.is("violations", run.outcome.violations.as_slice(), &[]);
        run
    }

    /// Runs the whole scenario `text`, which may violate invariants.
    #[track_caller]
    pub fn run_broken(mut self, text: &str) -> Run {
        if !text.contains("'machine'") && !text.contains("\"machine\"") {
            self.over.cpus = Some(self.cpus);
        }
        let parsed = parse("test.json", text, &self.over);
        let mut scenario = parsed.unwrap_or_else(|error| panic!("{error}\n{text}")).scenario;
        let mut costs = self.costs.unwrap_or(scenario.machine.costs);
        if self.costs.is_none() && !text.contains("jitter_ns") {
            (costs.jitter, costs.timer_spread) = (Nanos::ZERO, Nanos::ZERO);
        }
        scenario.machine.costs = costs;
        let barging = scenario.objects.mutexes.iter_mut().filter(|(_, it)| *it == MutexKind::Barge);
        barging.filter(|_| self.hand_over).for_each(|(_, kind)| *kind = MutexKind::HandOver);
        scenario.timeline.append(&mut self.timeline);
        scenario.timeline.sort_by_key(|timed| timed.at);
        let mut record = Record::default();
        let sim = Sim::new(&scenario, self.options.clone(), &mut record).unwrap();
        let outcome = sim.run();
        let Record { events, told, rows, asked } = record;
        let run = Run { events, rows, asked, told, outcome, scenario };
        run.is("violations reported", &run.told, &run.outcome.violations);
        if !may_overdraw(&run.scenario) {
            Ledger::of(&run).hold(&run);
        }
        late::hold(&run);
        run
    }
}

/// Returns whether a task may use its CPU after its budget is over: in the kernel, unless it is always preempted there.
fn may_overdraw(scenario: &Scenario) -> bool {
    let relimits = |timed: &Timed| matches!(&timed.change, TimedChange::Group { change, .. } if change.limit.is_some());
    let limits = scenario.timeline.iter().any(relimits)
        || scenario.groups.iter().any(|group| group.spec.limit.is_some());
    (limits || scenario.config().rt_runtime.is_some())
        && scenario.calls_kernel()
        && scenario.machine.preemption != Preemption::Full
}

/// The record of an observer.
#[derive(Debug, Default)]
struct Record {
    events: Vec<Event>,
    told: Vec<Violation>,
    rows: Vec<Row>,
    asked: Vec<(usize, TaskId, TaskAttr)>,
}

impl Observer for &mut Record {
    fn asks(&mut self, task: TaskId, _: SpecId, attr: &TaskAttr) {
        self.asked.push((self.events.len(), task, attr.clone()));
    }

    fn event(&mut self, event: &Event) {
        self.events.push(*event);
    }

    fn row(&mut self, row: &Row) {
        self.rows.push(row.clone());
    }

    fn violation(&mut self, violation: &Violation) {
        self.told.push(violation.clone());
    }
}

/// A stretch of one task on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
}

/// Returns a [`Stretch`] with times in microseconds.
pub fn on(cpu: u16, from: u64, to: u64) -> Stretch {
    Stretch { cpu, from: us(from), to: us(to) }
}

/// A completed run.
#[derive(Debug)]
pub struct Run {
    pub scenario: Scenario,
    pub events: Vec<Event>,
    pub rows: Vec<Row>,
    /// The attributes requested for each task, and the number of events before.
    pub asked: Vec<(usize, TaskId, TaskAttr)>,
    pub outcome: Outcome,
    told: Vec<Violation>,
}

/// The number of events of a long run that a picture shows.
const DRAWN: usize = 500;

impl Run {
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "expectations are written as values")]
    pub fn is<T: PartialEq<U> + Debug, U: Debug>(&self, what: &str, got: T, want: U) {
        assert!(got == want, "{what}: {got:?}, not {want:?}\n{}", self.picture());
    }

    #[track_caller]
    pub fn holds(&self, holds: bool, what: &str) {
        assert!(holds, "{what}\n{}", self.picture());
    }

    fn picture(&self) -> String {
        let last = &self.events[self.events.len().saturating_sub(DRAWN)..];
        timeline(last, &|task: TaskId| self.outcome.tasks[task.index()].name.clone())
    }

    pub fn end(&self) -> Time {
        self.outcome.end
    }

    /// Returns the task of this name, or else the first one of the thread of this name.
    #[track_caller]
    pub fn task(&self, name: &str) -> TaskId {
        let tasks = &self.outcome.tasks;
        let at = tasks.iter().position(|task| task.name == name);
        let at = at.or_else(|| tasks.iter().position(|task| task.thread == name));
        TaskId(at.unwrap_or_else(|| panic!("no task is called {name}")) as u64)
    }

    /// Returns the times at which the task reached a step of its only or first phase.
    #[track_caller]
    pub fn at_step(&self, name: &str, step: u32) -> Vec<Time> {
        self.at_step_of(name, 0, step)
    }

    #[track_caller]
    pub fn at_step_of(&self, name: &str, phase: u32, step: u32) -> Vec<Time> {
        let what = What::Step { task: self.task(name), phase, step };
        self.times(|event| event.what == what)
    }

    /// Returns the times of the events for which `is` holds.
    pub fn times(&self, is: impl Fn(&Event) -> bool) -> Vec<Time> {
        self.events.iter().filter(|event| is(event)).map(|event| event.at).collect()
    }

    /// Returns the time at which a task ended.
    #[track_caller]
    pub fn exit(&self, name: &str) -> Time {
        let left = Some((self.task(name), Left::Exited));
        let exits =
            self.times(|event| matches!(event.what, What::Switch { prev, .. } if prev == left));
        self.is(&format!("ends of {name}"), exits.len(), 1);
        exits[0]
    }

    /// Returns the time at which the task executed for the first time.
    #[track_caller]
    pub fn start(&self, name: &str) -> Time {
        let stretches = self.stretches(name);
        self.holds(!stretches.is_empty(), &format!("{name} executes"));
        stretches[0].from
    }

    /// Returns the stretches in which the task executed. Adjacent stretches without another task between them are
    /// joined.
    #[track_caller]
    pub fn stretches(&self, name: &str) -> Vec<Stretch> {
        let it = self.task(name);
        let mut open: Option<(u16, Time)> = None;
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut close = |open: &mut Option<(u16, Time)>, to: Time| {
            let Some((cpu, from)) = open.take().filter(|&(_, from)| from < to) else { return };
            match stretches.last_mut() {
                Some(last) if last.cpu == cpu && last.to == from => last.to = to,
                _ => stretches.push(Stretch { cpu, from, to }),
            }
        };
        for event in &self.events {
            let here = open.is_some_and(|(cpu, _)| cpu == event.cpu.0);
            match event.what {
                What::Exec { task, .. } if task == it => {
                    close(&mut open, event.at);
                    open = Some((event.cpu.0, event.at));
                }
                What::Exec { .. } | What::Overhead | What::Idle | What::ForcedIdle { .. }
                    if here =>
                {
                    close(&mut open, event.at);
                }
                _ => {}
            }
        }
        close(&mut open, self.end());
        stretches
    }

    /// Returns the time that the task executed.
    #[track_caller]
    pub fn ran(&self, name: &str) -> Nanos {
        let spans = self.stretches(name).into_iter().map(|stretch| stretch.to.since(stretch.from));
        spans.fold(Nanos::ZERO, |sum, span| sum + span)
    }

    /// Returns the part of `whole` that the task executed, in per cent.
    #[track_caller]
    pub fn share(&self, name: &str, whole: Nanos) -> f64 {
        self.ran(name).0 as f64 * 100.0 / whole.0 as f64
    }

    /// Returns the CPUs on which the task executed, in the order of its first arrival there.
    #[track_caller]
    pub fn cpus_of(&self, name: &str) -> Vec<u16> {
        let mut cpus = Vec::new();
        for Stretch { cpu, .. } in self.stretches(name) {
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
        cpus
    }

    pub fn totals(&self) -> Totals {
        let mut collector = Collector::default();
        self.events.iter().for_each(|event| collector.event(event));
        collector.finish(self.end())
    }

    #[track_caller]
    pub fn account(&self, name: &str) -> TaskTotals {
        self.totals().task(self.task(name)).cloned().unwrap_or_default()
    }

    /// Returns the number of timer interrupts of a CPU.
    pub fn interrupts(&self, cpu: u16) -> usize {
        self.times(|event| event.cpu.0 == cpu && event.what == What::TimerInterrupt).len()
    }
}
