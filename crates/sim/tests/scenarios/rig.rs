//! The rig of these tests: a small machine on which a scenario runs, what happened there, and
//! assertions that fail with a picture of it.
//!
//! Every run is one under `check`, and every run is held to the [`Ledger`], which knows from the
//! events alone what may follow what.

use crate::late;
use crate::ledger::Ledger;
use runyard_engine::attr::{Attr, GroupId};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::features::Switched;
use runyard_engine::limits::Limit;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{Collector, TaskTotals, Totals, timeline};
use runyard_sim::{Check, Hotplug, Observer, Options, Outcome, Relimit, Sim, Violation};
use runyard_workload::log::Row;
use runyard_workload::scenario::{Costs, MutexKind, SpecId};
use runyard_workload::{DeadlinePolicy, Overrides, Scenario, parse};
use std::fmt::Debug;

/// Nothing costs anything, so that a scenario's times are those of its text.
pub const FREE: Costs = Costs::FREE;

pub fn us(n: u64) -> Time {
    Time::ZERO + Nanos::from_micros(n)
}

pub fn ms(n: u64) -> Time {
    Time::ZERO + Nanos::from_millis(n)
}

/// A machine and how to run it. One CPU and no costs, unless said.
#[derive(Clone, Debug)]
pub struct World {
    cpus: usize,
    costs: Option<Costs>,
    over: Overrides,
    options: Options,
    hand_over: bool,
}

/// One CPU, no costs, seed 1.
pub fn world() -> World {
    let options =
        Options { seed: 1, check: Check::Full, log: true, explain: true, ..Options::default() };
    World { cpus: 1, costs: Some(FREE), over: Overrides::default(), options, hand_over: false }
}

impl World {
    pub fn cpus(mut self, cpus: usize) -> World {
        self.cpus = cpus;
        self
    }

    /// What things cost; nothing, if nothing is said.
    pub fn costs(mut self, costs: Costs) -> World {
        self.costs = Some(costs);
        self
    }

    /// What things cost is as the text or the default has it.
    pub fn costs_of_the_text(mut self) -> World {
        self.costs = None;
        self
    }

    /// How long to run; else until all tasks have ended.
    pub fn millis(mut self, n: u64) -> World {
        self.over.duration = Some(Nanos::from_millis(n));
        self
    }

    pub fn seed(mut self, seed: u64) -> World {
        self.options.seed = seed;
        self
    }

    /// `NAME` or `NO_NAME`, separated by blanks.
    pub fn features(mut self, names: &str) -> World {
        let features = names.split_whitespace().map(|name| name.parse::<Switched>().unwrap());
        self.over.features.extend(features);
        self
    }

    /// Nobody asks for rt-app's log.
    pub fn unlogged(mut self) -> World {
        self.options.log = false;
        self
    }

    pub fn hint_delay(mut self, delay: Nanos) -> World {
        self.options.hint_delay = delay;
        self
    }

    /// CPU `cpu` leaves service at `at`, or comes back into it.
    pub fn hotplug(mut self, at: Time, cpu: u16, online: bool) -> World {
        self.options.hotplug.push(Hotplug { at, cpu: CpuId(cpu), online });
        self
    }

    /// The group of this number gets another limit at `at`: runtime and period in milliseconds.
    pub fn relimit(mut self, at: Time, group: u32, limit: Option<(u64, u64)>) -> World {
        let of = |(runtime, period)| {
            let (runtime, period) = (Nanos::from_millis(runtime), Nanos::from_millis(period));
            Limit::new(runtime, period, Nanos::ZERO, false).unwrap()
        };
        self.options.relimits.push(Relimit { at, group: GroupId(group), limit: limit.map(of) });
        self
    }

    /// Mutexes hand over that would barge.
    pub fn hand_over(mut self) -> World {
        self.hand_over = true;
        self
    }

    /// Tasks of SCHED_DEADLINE are SCHED_FIFO ones.
    pub fn deadline_as_fifo(mut self) -> World {
        self.over.deadline = DeadlinePolicy::AsFifo;
        self
    }

    /// Runs the thread objects `tasks` with mutexes that do not inherit.
    #[track_caller]
    pub fn run(self, tasks: &str) -> Run {
        self.run_text(&format!("{{'tasks': {{{tasks}}}}}"))
    }

    /// Runs the thread objects `tasks` with mutexes that inherit.
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

    /// Runs the whole scenario `text`, in which invariants may break.
    #[track_caller]
    pub fn run_broken(mut self, text: &str) -> Run {
        if !text.contains("'machine'") && !text.contains("\"machine\"") {
            self.over.cpus = Some(self.cpus);
        }
        let parsed = parse("test.json", text, &self.over);
        let mut scenario = parsed.unwrap_or_else(|error| panic!("{error}\n{text}")).scenario;
        scenario.machine.costs = self.costs.unwrap_or(scenario.machine.costs);
        let barging = scenario.objects.mutexes.iter_mut().filter(|(_, it)| *it == MutexKind::Barge);
        barging.filter(|_| self.hand_over).for_each(|(_, kind)| *kind = MutexKind::HandOver);
        let mut record = Record::default();
        let sim = Sim::new(&scenario, self.options.clone(), &mut record).unwrap();
        let outcome = sim.run();
        let hotplug = !self.options.hotplug.is_empty();
        let Record { events, told, rows, asked } = record;
        let run = Run { events, rows, asked, told, outcome, scenario, hotplug };
        run.is("violations told", &run.told, &run.outcome.violations);
        Ledger::of(&run).hold(&run);
        late::hold(&run);
        run
    }
}

/// What an observer is told.
#[derive(Debug, Default)]
struct Record {
    events: Vec<Event>,
    told: Vec<Violation>,
    rows: Vec<Row>,
    asked: Vec<(usize, TaskId, Attr)>,
}

impl Observer for &mut Record {
    fn asks(&mut self, task: TaskId, _: SpecId, attr: &Attr) {
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

/// A stretch of executing one task on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
}

/// Shorthand for a [`Stretch`] in microseconds.
pub fn on(cpu: u16, from: u64, to: u64) -> Stretch {
    Stretch { cpu, from: us(from), to: us(to) }
}

/// A run that is over.
#[derive(Debug)]
pub struct Run {
    pub scenario: Scenario,
    pub events: Vec<Event>,
    pub rows: Vec<Row>,
    /// What was asked for which task, and after how many events.
    pub asked: Vec<(usize, TaskId, Attr)>,
    pub outcome: Outcome,
    /// Whether CPUs came and went.
    pub hotplug: bool,
    told: Vec<Violation>,
}

/// How many events of a long run a picture shows.
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

    #[track_caller]
    pub fn task(&self, name: &str) -> TaskId {
        let at = self.outcome.tasks.iter().position(|task| task.name == name);
        TaskId(at.unwrap_or_else(|| panic!("no task is called {name}")) as u64)
    }

    /// When the task arrived at a step of its only or first phase, each time.
    #[track_caller]
    pub fn at_step(&self, name: &str, step: u32) -> Vec<Time> {
        self.at_step_of(name, 0, step)
    }

    #[track_caller]
    pub fn at_step_of(&self, name: &str, phase: u32, step: u32) -> Vec<Time> {
        let what = What::Step { task: self.task(name), phase, step };
        self.times(|event| event.what == what)
    }

    /// When the events for which `is` holds happened.
    pub fn times(&self, is: impl Fn(&Event) -> bool) -> Vec<Time> {
        self.events.iter().filter(|event| is(event)).map(|event| event.at).collect()
    }

    /// When a task ended.
    #[track_caller]
    pub fn exit(&self, name: &str) -> Time {
        let left = Some((self.task(name), Left::Exited));
        let exits =
            self.times(|event| matches!(event.what, What::Switch { prev, .. } if prev == left));
        self.is(&format!("ends of {name}"), exits.len(), 1);
        exits[0]
    }

    /// When the task got its first instruction.
    #[track_caller]
    pub fn start(&self, name: &str) -> Time {
        let stretches = self.stretches(name);
        self.holds(!stretches.is_empty(), &format!("{name} executes"));
        stretches[0].from
    }

    /// The stretches in which the task executed, those that follow one another without anybody
    /// else in one.
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

    /// How long the task executed.
    #[track_caller]
    pub fn ran(&self, name: &str) -> Nanos {
        let spans = self.stretches(name).into_iter().map(|stretch| stretch.to.since(stretch.from));
        spans.fold(Nanos::ZERO, |sum, span| sum + span)
    }

    /// How much of `whole` the task executed, in per cent.
    #[track_caller]
    pub fn share(&self, name: &str, whole: Nanos) -> f64 {
        self.ran(name).0 as f64 * 100.0 / whole.0 as f64
    }

    /// The CPUs on which the task executed, each as it first came there.
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

    /// How many timer interrupts a CPU took.
    pub fn interrupts(&self, cpu: u16) -> usize {
        self.times(|event| event.cpu.0 == cpu && event.what == What::TimerInterrupt).len()
    }
}
