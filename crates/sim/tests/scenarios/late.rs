//! The causes of late tasks. Each report of the worst wake-ups is compared with a naive walk over all events, and
//! scenarios show each cause where it is obvious.

use crate::rig::{Run, world};
use runyard_engine::attr::{Cookie, GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Level;
use runyard_report::{
    Cause, Collector, Explained, RanReport, Report, RunInfo, TaskInfo, WorstReport,
};
use runyard_workload::scenario::{Costs, TaskAttr};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The record may have dropped a part of a wait with more events.
const REMEMBERED: usize = 1_000;
/// The number of events that the report walks for all waits together before it walks a part of a wait only.
const WALKED: usize = 1 << 17;
/// The number of events that the naive walk examines for one run: all events of a short run.
const PATIENCE: usize = 100_000;

/// Compares the report of the worst wake-ups with the events.
pub fn hold(run: &Run) {
    let report = report(run);
    crate::waits::hold(run, &report);
    let mut waits = waits(run);
    let walked: usize = waits.values().map(|waits| walked(waits)).sum();
    let mut patience = if walked < WALKED { PATIENCE } else { 0 };
    for (at, task) in report.tasks.iter().enumerate() {
        let waits = waits.remove(&TaskId(at as u64)).unwrap_or_default();
        let longest = waits.iter().map(Wait::latency).max();
        assert_eq!(task.worst.first().map(|it| it.latency_ns), longest, "{}", task.name);
        let mut waits: Vec<_> = waits.into_iter().map(|it| (Reverse(it.latency()), it)).collect();
        waits.sort_by_key(|(latency, _)| *latency);
        assert_eq!(task.worst.len(), waits.len().min(10), "{}", task.name);
        for (told, (_, wait)) in task.worst.iter().zip(waits) {
            assert_eq!((told.at_ns, told.latency_ns), (wait.since.0, wait.latency()));
            if wait.last < patience && wait.last - wait.first < REMEMBERED {
                patience -= wait.last;
                let naive = Naive::new(run, &wait).judge();
                run.is(&format!("{} waits", task.name), told, &naive);
            }
        }
    }
}

/// Returns the number of events in those waits of a task that were among its ten longest when they ended.
fn walked(waits: &[Wait]) -> usize {
    let mut longest = Vec::new();
    let mut events = 0;
    for wait in waits {
        let place = longest.partition_point(|&latency| latency >= wait.latency());
        if place < 10 {
            longest.insert(place, wait.latency());
            longest.truncate(10);
            events += wait.last - wait.first;
        }
    }
    events
}

/// Returns the report of a run.
pub fn report(run: &Run) -> Report {
    report_by(run, Collector::default())
}

/// Returns the report of a run whose events go to a collector.
pub fn report_by(run: &Run, collector: Collector) -> Report {
    let scenario = &run.scenario;
    let explained = Explained {
        cpus: scenario.machine.topology.cpus(),
        threads: threads(run),
        parents: scenario.groups.iter().map(|group| Some(group.spec.parent)).collect(),
    };
    let tasks = scenario.instances().count();
    let mut collector = collector.with_causes(tasks, explained.clone()).with_waits(explained);
    let mut asked = run.asked.iter().peekable();
    for (nth, event) in run.events.iter().enumerate() {
        while let Some((_, task, attr)) = asked.next_if(|(at, ..)| *at <= nth) {
            let cookie = scenario.cookie_of(attr.cookie, attr.group);
            collector.asks(*task, attr, attr.effective_slack(), cookie);
        }
        collector.event(event);
    }
    collector.check();
    let tasks = run.outcome.tasks.iter().zip(0..).map(|(task, id)| TaskInfo {
        id: TaskId(id),
        name: task.name.clone(),
        thread: task.thread.clone(),
        policy: task.policy,
        latency_nice: 0,
        group: GroupId::ROOT,
        cookie: None,
        slack: task.slack,
        missed: None,
    });
    let root = runyard_report::GroupInfo { path: "/".to_owned(), ..Default::default() };
    let info = RunInfo {
        cpus: scenario.machine.topology.cpus(),
        tasks: tasks.collect(),
        groups: vec![root; scenario.groups.len()],
        ..RunInfo::default()
    };
    Report::new(info, &collector.finish(run.end()))
}

/// Returns the number of threads of a core that heed cookies; 1 if none do.
pub fn threads(run: &Run) -> usize {
    let has_cookies = !run.scenario.cookies.is_empty();
    if has_cookies { run.scenario.machine.topology.threads() } else { 1 }
}

/// A wait that ended, by the numbers of its events.
struct Wait {
    task: TaskId,
    since: Time,
    first: usize,
    last: usize,
    end: Time,
}

impl Wait {
    fn latency(&self) -> u64 {
        self.end.since(self.since).0
    }
}

/// Returns the waits of each task, in order. In the simulator a woken task sleeps before.
fn waits(run: &Run) -> BTreeMap<TaskId, Vec<Wait>> {
    let (mut waits, mut woken) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::new());
    for (nth, event) in run.events.iter().enumerate() {
        match event.what {
            What::Wake { task, since, .. } => {
                woken.insert(task, (nth, since));
            }
            What::Exec { task, .. } => {
                if let Some((first, since)) = woken.remove(&task) {
                    let wait = Wait { task, since, first, last: nth, end: event.at };
                    waits.entry(task).or_default().push(wait);
                }
            }
            _ => {}
        }
    }
    waits
}

/// The activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doing {
    Idle,
    Forced,
    /// Scheduler work; the flag says whether the CPU was idle before.
    Overhead(bool),
    Exec(TaskId, Policy),
}

#[derive(Clone, Debug)]
pub struct Cpu {
    pub doing: Doing,
    /// The task that executes, or that executed before the scheduler's work.
    pub exec: Option<(TaskId, Policy)>,
    pub throttled: BTreeSet<GroupId>,
}

impl Cpu {
    pub fn idle() -> Cpu {
        Cpu { doing: Doing::Idle, exec: None, throttled: BTreeSet::new() }
    }
}

/// A naive walk over the events of a wait.
struct Naive<'r> {
    run: &'r Run,
    wait: &'r Wait,
    attr: &'r TaskAttr,
    cookies: BTreeMap<TaskId, Option<u32>>,
    policy: Policy,
    cpus: Vec<Cpu>,
    on: CpuId,
    /// The time of its arrival, and whether the walk has passed it.
    came: Time,
    settled: bool,
    /// A CPU that it may use has been free since it came to a busy one.
    stays: bool,
    /// The CPUs of which a switch is due.
    due: BTreeSet<usize>,
    in_flight: bool,
    last: Option<TaskId>,
    passed_over: bool,
    chosen: bool,
}

pub fn importance(policy: Policy) -> i32 {
    match policy {
        Policy::Idle => -1,
        Policy::Normal(_) | Policy::Batch(_) => 0,
        Policy::Fifo(prio) | Policy::RoundRobin(prio) => prio.get().into(),
    }
}

impl<'r> Naive<'r> {
    fn new(run: &'r Run, wait: &'r Wait) -> Naive<'r> {
        let scenario = &run.scenario;
        let known = || run.asked.iter().take_while(|(at, ..)| *at <= wait.last);
        let own = known().filter(|(_, task, _)| *task == wait.task).last().unwrap();
        let cookie = |attr: &TaskAttr| scenario.cookie_of(attr.cookie, attr.group).map(Cookie::get);
        let What::Exec { policy, .. } = run.events[wait.last].what else { panic!("it executes") };
        Naive {
            run,
            wait,
            attr: &own.2,
            cookies: known().map(|(_, task, attr)| (*task, cookie(attr))).collect(),
            policy,
            cpus: vec![Cpu::idle(); scenario.machine.topology.cpus()],
            on: CpuId(0),
            came: Time::MAX,
            settled: false,
            stays: false,
            due: BTreeSet::new(),
            in_flight: false,
            last: None,
            passed_over: false,
            chosen: false,
        }
    }

    fn judge(mut self) -> WorstReport {
        let (run, wait) = (self.run, self.wait);
        let woken = &run.events[wait.first];
        let mut spans: BTreeMap<Cause, u64> = BTreeMap::new();
        let mut ran: BTreeMap<TaskId, u64> = BTreeMap::new();
        let mut add = |cause, span: Nanos| {
            if span > Nanos::ZERO {
                *spans.entry(cause).or_default() += span.0;
            }
        };
        let by_timer = matches!(woken.what, What::Wake { by: None, .. });
        let fair = self.attr.policy.class().is_fair();
        let slack = if by_timer && fair { self.attr.slack } else { Nanos::ZERO };
        let allowed = woken.at.since(wait.since).min(slack);
        add(Cause::TimerSlack, allowed);
        add(Cause::Cost, woken.at.since(wait.since) - allowed);
        let mut now = woken.at;
        for (nth, event) in run.events[..=wait.last].iter().enumerate() {
            if nth > wait.first && event.at > now {
                self.settle();
                let span = event.at.since(now);
                add(self.cause(), span);
                if let Doing::Exec(task, _) = self.cpus[self.on.index()].doing
                    && !self.in_flight
                {
                    *ran.entry(task).or_default() += span.0;
                }
                now = event.at;
            }
            self.event(event, nth);
        }
        let mut ran: Vec<_> = ran.into_iter().collect();
        ran.sort_by_key(|&(task, span)| (Reverse(span), task));
        ran.truncate(8);
        let name = |task: TaskId| run.outcome.tasks[task.index()].name.clone();
        let sum: u64 = ran.iter().map(|&(_, span)| span).sum();
        WorstReport {
            at_ns: wait.since.0,
            latency_ns: wait.latency(),
            cpu: woken.cpu.index(),
            cause: spans
                .into_iter()
                .min_by_key(|&(cause, span)| (Reverse(span), cause))
                .map(|it| it.0),
            ran: ran.into_iter().map(|(task, ns)| RanReport { task: name(task), ns }).collect(),
            others_ns: wait.latency() - sum,
        }
    }

    fn event(&mut self, event: &Event, nth: usize) {
        if self.came < event.at {
            self.settle();
        }
        let cpu = event.cpu.index();
        match event.what {
            What::Exec { task, policy } => {
                let before = self.cpus[cpu].exec.map(|(task, _)| task);
                if !self.settled && event.cpu == self.on && before != Some(task) {
                    self.passed_over = false;
                }
                if before != Some(task) {
                    self.due.remove(&cpu);
                }
                self.cpus[cpu].doing = Doing::Exec(task, policy);
                self.cpus[cpu].exec = Some((task, policy));
                if self.settled && event.cpu == self.on && self.last.replace(task) != Some(task) {
                    (self.chosen, self.passed_over) = (true, false);
                }
            }
            What::Overhead => {
                let idle = !matches!(self.cpus[cpu].doing, Doing::Exec(..));
                self.cpus[cpu].doing = Doing::Overhead(idle);
            }
            What::Idle | What::ForcedIdle { .. } => {
                let idle = event.what == What::Idle;
                self.cpus[cpu].doing = if idle { Doing::Idle } else { Doing::Forced };
                self.cpus[cpu].exec = None;
                if self.settled && event.cpu == self.on {
                    self.last = None;
                }
            }
            What::SwitchDue => {
                self.due.insert(cpu);
            }
            What::Landed { task } if task == self.wait.task => {
                self.come(event);
                self.in_flight = false;
            }
            What::Throttled { group } => {
                self.cpus[cpu].throttled.insert(group);
            }
            What::Unthrottled { group } => {
                self.cpus[cpu].throttled.remove(&group);
            }
            What::PassedOver { task } => {
                let here = event.cpu == self.on && nth > self.wait.first;
                self.passed_over |= here && task == self.wait.task;
            }
            What::Wake { .. } if nth == self.wait.first => self.come(event),
            What::Moved { task } if nth > self.wait.first && task == self.wait.task => {
                self.come(event);
                self.in_flight = true;
            }
            _ => {}
        }
        let turns = matches!(
            event.what,
            What::Exec { .. } | What::Overhead | What::Idle | What::ForcedIdle { .. }
        );
        if self.settled && turns {
            let some = self.free().any(|cpu| self.may_use(cpu));
            self.stays &= some;
        }
    }

    fn come(&mut self, event: &Event) {
        (self.on, self.came, self.settled) = (event.cpu, event.at, false);
        (self.passed_over, self.chosen) = (false, false);
    }

    /// Marks that all events at the time of its arrival have been seen.
    fn settle(&mut self) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let here = &self.cpus[self.on.index()];
        self.last = here.exec.map(|(task, _)| task);
        let is_free = match here.doing {
            Doing::Idle => true,
            Doing::Exec(_, policy) => importance(policy) < importance(self.policy),
            Doing::Forced | Doing::Overhead(_) => false,
        };
        let some = self.free().any(|cpu| self.may_use(cpu));
        self.stays = !is_free && some;
    }

    /// Returns the free CPUs but for its own.
    fn elsewhere(&self) -> impl Iterator<Item = usize> + '_ {
        self.free().filter(|&cpu| cpu != self.on.index())
    }

    fn may_use(&self, cpu: usize) -> bool {
        self.attr.affinity.contains(CpuId::at(cpu))
    }

    /// Returns the CPUs that run a less important task, or none.
    fn free(&self) -> impl Iterator<Item = usize> + '_ {
        let own = importance(self.policy);
        let heeds = threads(self.run) > 1;
        let topology = self.run.scenario.machine.topology;
        let is_idle = |cpu: usize| self.cpus[cpu].doing == Doing::Idle;
        (0..self.cpus.len()).filter(move |&cpu| match (self.cpus[cpu].doing, self.cpus[cpu].exec) {
            (Doing::Idle, _) => !heeds || topology.span(CpuId::at(cpu), Level::Smt).all(is_idle),
            (Doing::Exec(..) | Doing::Overhead(false), Some((_, policy))) => {
                importance(policy) < own
            }
            _ => false,
        })
    }

    fn cause(&self) -> Cause {
        let here = &self.cpus[self.on.index()];
        let own = importance(self.policy);
        let throttled = |group: &GroupId| match *group {
            GroupId::ROOT => own > 0,
            group => own <= 0 && self.is_below(group),
        };
        if self.in_flight {
            return Cause::Cost;
        }
        if here.throttled.iter().any(throttled) {
            return Cause::Throttled;
        }
        let (task, other) = match here.doing {
            Doing::Forced => return Cause::CoreCookie,
            Doing::Idle | Doing::Overhead(_) => return Cause::Cost,
            Doing::Exec(..) if self.due.contains(&self.on.index()) => return Cause::Cost,
            Doing::Exec(task, policy) => (task, importance(policy)),
        };
        let differs = threads(self.run) > 1 && self.cookies[&task] != self.cookies[&self.wait.task];
        match () {
            () if differs && (self.passed_over || other < own) => Cause::CoreCookie,
            () if other < own && !self.passed_over && !self.chosen => Cause::Cost,
            () if self.elsewhere().any(|cpu| self.may_use(cpu)) => match self.stays {
                true => Cause::Placement,
                false => Cause::Balance,
            },
            () if self.elsewhere().next().is_some() => Cause::Affinity,
            () if self.passed_over => Cause::ProtectedSlice,
            () => Cause::Important,
        }
    }

    fn is_below(&self, group: GroupId) -> bool {
        let groups = &self.run.scenario.groups;
        let mut at = self.attr.group;
        while at != group {
            if at == GroupId::ROOT {
                return false;
            }
            at = groups[at.index()].spec.parent;
        }
        true
    }
}

/// Returns the cause of the worst wake-up of `task`.
#[track_caller]
fn cause_of(run: &Run, task: &str) -> Option<Cause> {
    let report = report(run);
    let task = report.tasks.iter().find(|it| it.name == task).expect("it is there");
    task.worst[0].cause
}

/// A task of 1 ms wants CPU 0, where another task is. The cause names the reason.
#[test]
fn each_cause_is_told_where_it_is_the_obvious_one() {
    let waiter =
        "'t': {'loop': 1, 'delay': 1000, 'policy': 'SCHED_FIFO', 'priority': 5, 'run': 100";
    let busy = |name: &str, more: &str| format!("'{name}': {{'loop': 1, 'run': 5000, {more}}}, ");
    let first = busy("x", "'policy': 'SCHED_FIFO', 'priority': 9");
    let cause = |cpus, tasks: &str| {
        let run = world().cpus(cpus).features("NO_RT_PUSH NO_RT_PULL").run(tasks);
        cause_of(&run, "t")
    };
    assert_eq!(cause(1, &format!("{first}{waiter}}}")), Some(Cause::Important));
    let bound = format!("{first}{waiter}, 'cpus': [0]}}");
    assert_eq!(cause(2, &bound), Some(Cause::Affinity));

    let slack =
        world().cpus(1).run("'t': {'loop': 2, 'sleep': 1000, 'timer_slack': 300, 'run': 100}");
    assert_eq!(cause_of(&slack, "t"), Some(Cause::TimerSlack));

    let costs = Costs { context_switch: Nanos(7_000), ..Costs::FREE };
    let cost = world().cpus(1).costs(costs).run("'t': {'loop': 1, 'delay': 10, 'run': 100}");
    assert_eq!(cause_of(&cost, "t"), Some(Cause::Cost));
}

/// The task precedes the running one in the order, but does not preempt a task within its slice.
#[test]
fn a_slice_that_is_protected_is_told() {
    let text = "{'machine': {'cpus': 1, 'kernel': '6.12'}, 'tasks': {
        'batch': {'instance': 3, 'run': 5000, 'sleep': 1000},
        'web': {'run': 300, 'timer': {'ref': 'unique', 'period': 5000}}}}";
    let report = report(&world().costs_of_the_text().millis(1_000).run_text(text));
    let worst = report.tasks.iter().flat_map(|task| &task.worst);
    let causes: Vec<_> = worst.filter_map(|it| it.cause).collect();
    assert!(causes.contains(&Cause::ProtectedSlice), "{causes:?}");
}

#[test]
fn a_throttled_group_is_told() {
    let text = "{'machine': {'cpus': 1}, 'groups': {'/g': {'runtime': 1000, 'period': 10000}},
        'tasks': {'x': {'loop': 1, 'group': '/g', 'run': 3000},
                  't': {'loop': 1, 'group': '/g', 'delay': 3000, 'run': 100},
                  'other': {'loop': 1, 'run': 3000}}}";
    let run = world().run_text(text);
    assert_eq!(cause_of(&run, "t"), Some(Cause::Throttled));
}

/// The task that executed before the CPU went idle does not count. If the CPU executes that task again, it was chosen.
#[test]
fn a_cpu_that_was_idle_has_switched() {
    let costs = Costs { idle_exit: Nanos::from_micros(500), ..Costs::FREE };
    let text = "{'groups': {'/g': {'latency_nice': -20, 'runtime': 1000, 'period': 5000}},
        'tasks': {'x': {'group': '/g', 'policy': 'SCHED_IDLE', 'cpus': [0], 'run': 100000},
                  't': {'delay': 5000, 'loop': 1, 'run': 100}}}";
    let stays = "NO_LOAD_BALANCE NO_IDLE_LOAD_BALANCE";
    let run = world().cpus(2).costs(costs).features(stays).millis(10).run_text(text);
    assert_eq!(cause_of(&run, "t"), Some(Cause::Placement));
}

#[test]
fn a_cookie_of_the_core_is_told() {
    let text = "{'machine': {'topology': '1x1x2', 'kernel': '6.18'}, 'tasks': {
        'x': {'loop': 1, 'cookie': 'x', 'policy': 'SCHED_FIFO', 'priority': 9, 'cpus': [0], 'run': 5000},
        't': {'loop': 1, 'cookie': 't', 'delay': 1000, 'cpus': [1], 'run': 100}}}";
    let run = world().run_text(text);
    assert_eq!(cause_of(&run, "t"), Some(Cause::CoreCookie));
}

/// Wake-ups stay on a busy CPU while another is idle, and balancing is off.
#[test]
fn what_was_free_at_the_placement_and_what_became_free_later_are_told_apart() {
    let placed = "{'machine': {'topology': '2x1'}, 'features': ['NO_LOAD_BALANCE', 'NO_IDLE_LOAD_BALANCE'],
        'tasks': {'x': {'loop': 1, 'delay': 1000, 'policy': 'SCHED_FIFO', 'priority': 9, 'cpus': [0], 'run': 5000},
                  't': {'loop': 2, 'phases': {'a': {'cpus': [0], 'run': 100}, 'b': {'cpus': [0, 1], 'sleep': 2000, 'run': 100}}}}}";
    let run = world().run_text(placed);
    assert_eq!(cause_of(&run, "t"), Some(Cause::Placement));
    let later = placed.replace(
        "'t': {",
        "'y': {'loop': 1, 'cpus': [1], 'policy': 'SCHED_FIFO', 'priority': 9, 'run': 2500}, 't': {",
    );
    let run = world().run_text(&later);
    assert_eq!(cause_of(&run, "t"), Some(Cause::Balance));
}
