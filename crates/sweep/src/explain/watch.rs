//! The notes that are taken of a simulated run, from which a late task is explained.

use super::chain::Hop;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::scenario::{chains, explained};
use runyard_report::{Chains, Collector, Explanation};
use runyard_sim::Observer;
use runyard_workload::Scenario;
use runyard_workload::scenario::{SpecId, TaskAttr};
use std::collections::BTreeSet;

/// The largest number of events that are drawn. Of a longer wait the last ones are drawn.
const DRAWN: usize = 2_000;

/// The observer of each run.
pub(super) struct Watcher<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) accounts: Collector,
    pub(super) chains: Option<Chains>,
    /// The name of the watched tasks, and the tasks.
    named: Option<&'a str>,
    pub(super) wanted: BTreeSet<TaskId>,
    /// The moment whose nearest wake-up is wanted.
    at: Option<Time>,
    /// The nearest wake-up so far, with its distance from the moment.
    pub(super) nearest: Option<(Nanos, TaskId, Time)>,
    watched: Option<(TaskId, Time)>,
    /// The instant at which the watched task was woken, and the task that woke it. Starting a task counts as waking it.
    pub(super) woken: Option<(Time, Option<TaskId>)>,
    pub(super) is_start: bool,
    is_over: bool,
    events: Vec<Event>,
    /// The tasks that had the token, and the instants at which each of them ran.
    pub(super) hops: Vec<Hop>,
}

impl<'a> Watcher<'a> {
    /// Watches nothing yet.
    pub(super) fn new(scenario: &'a Scenario) -> Watcher<'a> {
        let tasks = scenario.instances().count();
        Watcher {
            scenario,
            accounts: Collector::default().with_causes(tasks, explained(scenario)),
            chains: None,
            named: None,
            wanted: BTreeSet::new(),
            at: None,
            nearest: None,
            watched: None,
            woken: None,
            is_start: true,
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

    /// Watches one wake-up.
    pub(super) fn of(scenario: &'a Scenario, (task, since): (TaskId, Time)) -> Watcher<'a> {
        let mut watcher = Watcher::new(scenario);
        watcher.watched = Some((task, since));
        watcher.wanted.insert(task);
        watcher.accounts.watch(task, since);
        watcher
    }

    /// Follows the chains of the scenario.
    pub(super) fn following(scenario: &'a Scenario) -> Watcher<'a> {
        Watcher { chains: chains(scenario), ..Watcher::new(scenario) }
    }

    /// The last events of the wait, on the CPUs that matter.
    pub(super) fn drawn(&self, explanation: &Explanation) -> Vec<Event> {
        let parts = &explanation.parts;
        let cpus = parts.iter().flat_map(|part| part.cpu.into_iter().chain(part.free_cpu));
        let cpus: BTreeSet<_> = cpus.map(CpuId::at).collect();
        let on = |event: &&Event| cpus.contains(&event.cpu);
        let events: Vec<_> = self.events.iter().filter(on).copied().collect();
        events[events.len().saturating_sub(DRAWN)..].to_vec()
    }

    /// Notes the wake-ups of the watched tasks.
    fn wake(&mut self, at: Time, (task, since): (TaskId, Time), by: Option<TaskId>) {
        if !self.wanted.contains(&task) {
            return;
        }
        if let Some(wanted) = self.at {
            let due = since;
            let far = if due > wanted { due.since(wanted) } else { wanted.since(due) };
            if self.nearest.is_none_or(|(least, ..)| far < least) {
                self.nearest = Some((far, task, since));
            }
        }
        match self.watched {
            Some((watched, _)) if watched != task => {}
            Some((_, due)) if due == since => self.woken = Some((at, by)),
            _ => self.is_start &= self.woken.is_some(),
        }
    }
}

impl Observer for &mut Watcher<'_> {
    fn event(&mut self, event: &Event) {
        self.accounts.event(event);
        if let Some(chains) = &mut self.chains {
            chains.event(event);
        }
        self.hops.iter_mut().for_each(|hop| hop.event(event));
        if let What::Wake { task, since, by } = event.what {
            self.wake(event.at, (task, since), by);
        }
        let Some((task, since)) = self.watched.filter(|_| !self.is_over) else { return };
        if event.at >= since {
            self.events.push(*event);
            let runs = matches!(event.what, What::Exec { task: it, .. } if it == task);
            self.is_over = runs && self.woken.is_some();
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
