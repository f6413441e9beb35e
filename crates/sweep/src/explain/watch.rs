//! The notes that are taken of a simulated run, from which a late task is explained.

use super::chain::Hop;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::scenario::{chains, explained};
use runyard_report::{Chains, Collector, Explanation};
use runyard_sim::Observer;
use runyard_workload::Scenario;
use runyard_workload::scenario::{SpecId, TaskAttr};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of events that are drawn. Of a longer wait the last ones are drawn.
const DRAWN: usize = 2_000;

/// How well a wait suits: it is longer, or nearer to the moment.
type Suits = (Reverse<Nanos>, Nanos);

/// The beginning of a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// The instant at which the task was woken or lost its CPU.
    pub(super) woken: Time,
    /// The task that woke it.
    pub(super) by: Option<TaskId>,
    /// The number of the arrivals whose request woke it.
    pub(super) request: Option<u32>,
    /// Its CPU was taken, or it yielded.
    pub(super) lost: bool,
    /// The wake-up is the first one of the task: its start.
    pub(super) is_start: bool,
}

/// The observer of each run.
pub(super) struct Watcher<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) accounts: Collector,
    pub(super) chains: Option<Chains>,
    /// The name of the watched tasks, and the tasks.
    named: Option<&'a str>,
    pub(super) wanted: BTreeSet<TaskId>,
    /// The moment whose nearest wait is wanted; without it the longest is.
    at: Option<Time>,
    /// The open waits of the watched tasks, by their beginnings.
    open: BTreeMap<TaskId, Time>,
    /// The watched tasks that were woken.
    started: BTreeSet<TaskId>,
    /// The last event was a request of the arrivals with this number.
    request: Option<u32>,
    /// The wanted wait so far, and how well it suits.
    best: Option<(Suits, TaskId, Time)>,
    watched: Option<(TaskId, Time)>,
    /// The beginning of the watched wait.
    pub(super) begun: Option<Begun>,
    is_over: bool,
    pub(super) events: Vec<Event>,
    /// The tasks that had the token, and the instants at which each of them ran.
    pub(super) hops: Vec<Hop>,
}

impl<'a> Watcher<'a> {
    /// Watches nothing yet.
    pub(super) fn new(scenario: &'a Scenario) -> Watcher<'a> {
        let tasks = scenario.instances().count();
        Watcher {
            scenario,
            accounts: Collector::default()
                .with_causes(tasks, explained(scenario))
                .with_waits(explained(scenario)),
            chains: None,
            named: None,
            wanted: BTreeSet::new(),
            at: None,
            open: BTreeMap::new(),
            started: BTreeSet::new(),
            request: None,
            best: None,
            watched: None,
            begun: None,
            is_over: false,
            events: Vec::new(),
            hops: Vec::new(),
        }
    }

    /// Watches the tasks of a name, optionally around a moment.
    pub(super) fn named(scenario: &'a Scenario, name: &'a str, at: Option<Time>) -> Watcher<'a> {
        let names = (0..).map(TaskId).zip(scenario.instances());
        let named = names.filter(|(_, (.., own))| own == name);
        let wanted = named.map(|(id, _)| id).collect();
        Watcher { named: Some(name), wanted, at, ..Watcher::new(scenario) }
    }

    /// Watches one wait, and sums all waits of the task.
    pub(super) fn of(scenario: &'a Scenario, (task, since): (TaskId, Time)) -> Watcher<'a> {
        let mut watcher = Watcher::new(scenario);
        watcher.watched = Some((task, since));
        watcher.wanted.insert(task);
        watcher.accounts.watch(task, since);
        watcher.accounts.tell(task, Time::ZERO..Time::MAX);
        watcher
    }

    /// Follows the chains of the scenario.
    pub(super) fn following(scenario: &'a Scenario) -> Watcher<'a> {
        Watcher { chains: chains(scenario), ..Watcher::new(scenario) }
    }

    /// The wanted wait of a run that ended at `end`.
    pub(super) fn found(mut self, end: Time) -> Option<(TaskId, Time)> {
        for (task, since) in std::mem::take(&mut self.open) {
            self.end(task, since, end);
        }
        self.best.map(|(_, task, since)| (task, since))
    }

    /// Follows the waits of the watched tasks.
    fn follow(&mut self, event: &Event) {
        match event.what {
            What::Wake { task, since, by } if self.wanted.contains(&task) => {
                let is_start = self.started.insert(task);
                let (woken, request) = (event.at, self.request);
                self.begin(task, since, Begun { woken, by, request, lost: false, is_start });
            }
            What::Switch { prev: Some((task, left)), next } if self.wanted.contains(&task) => {
                match left {
                    Left::Preempted | Left::Yielded if next != Some(task) => {
                        let (woken, lost, is_start) = (event.at, true, false);
                        let (by, request) = (None, None);
                        self.begin(task, woken, Begun { woken, by, request, lost, is_start });
                    }
                    Left::Preempted | Left::Yielded => {}
                    Left::Blocked | Left::Exited => {
                        self.open.remove(&task);
                    }
                }
            }
            What::Exec { task, .. } => {
                if let Some(since) = self.open.remove(&task) {
                    self.end(task, since, event.at);
                }
            }
            _ => {}
        }
        self.request = match event.what {
            What::Arrived { arrivals, .. } => Some(arrivals),
            _ => None,
        };
    }

    fn begin(&mut self, task: TaskId, since: Time, begun: Begun) {
        if self.open.contains_key(&task) {
            return;
        }
        self.open.insert(task, since);
        if self.watched == Some((task, since)) {
            self.begun = Some(begun);
        }
    }

    fn end(&mut self, task: TaskId, since: Time, end: Time) {
        let far = |wanted: Time| since.max(wanted).since(since.min(wanted));
        let latency = Reverse(end.since(since));
        let suits =
            self.at.map_or((latency, Nanos::ZERO), |wanted| (Reverse(Nanos::ZERO), far(wanted)));
        if self.best.is_none_or(|best| (suits, task, since) < best) {
            self.best = Some((suits, task, since));
        }
    }
}

/// The last events of a wait, on the CPUs that matter.
pub(super) fn drawn(events: &[Event], explanation: &Explanation) -> Vec<Event> {
    let parts = &explanation.parts;
    let cpus = parts.iter().flat_map(|part| part.cpu.into_iter().chain(part.free_cpu));
    let cpus: BTreeSet<_> = cpus.map(CpuId::at).collect();
    let events: Vec<_> = events.iter().filter(|event| cpus.contains(&event.cpu)).copied().collect();
    events[events.len().saturating_sub(DRAWN)..].to_vec()
}

impl Observer for &mut Watcher<'_> {
    fn event(&mut self, event: &Event) {
        self.accounts.event(event);
        if let Some(chains) = &mut self.chains {
            chains.event(event);
        }
        self.hops.iter_mut().for_each(|hop| hop.event(event));
        self.follow(event);
        let Some((task, since)) = self.watched.filter(|_| !self.is_over) else { return };
        if event.at >= since {
            self.events.push(*event);
            let runs = matches!(event.what, What::Exec { task: it, .. } if it == task);
            self.is_over = runs && self.begun.is_some();
        }
    }

    fn asks(&mut self, task: TaskId, thread: SpecId, attr: &TaskAttr) {
        let cookie = self.scenario.cookie_of(attr.cookie, attr.group);
        self.accounts.asks(task, attr, attr.effective_slack(), cookie);
        if let Some(chains) = &mut self.chains {
            chains.runs(task, thread.0);
        }
        if self.named == Some(&*self.scenario.tasks[thread.0 as usize].name) {
            self.wanted.insert(task);
        }
    }
}
