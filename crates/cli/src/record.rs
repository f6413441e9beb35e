//! The records of a simulation's events: accounts; under `--check` a picture of the moment at which the first invariant
//! broke; all events if a trace is wanted.

use runyard_engine::event::Event;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_outcome::scenario::chains;
use runyard_report::{Chains, Collector, Kept, Names, timeline};
use runyard_sim::{Observer, Violation};
use runyard_workload::Scenario;
use runyard_workload::log::Row;
use runyard_workload::scenario::{SpecId, TaskAttr};
use std::collections::VecDeque;

/// The number of events before a violation that are drawn: some tens of switches.
const EVENTS_DRAWN: usize = 200;

/// The observer of a run.
#[derive(Debug)]
pub(crate) struct Recorder<'s> {
    scenario: &'s Scenario,
    pub(crate) accounts: Collector,
    /// The accounts of chains, if the scenario has chains.
    pub(crate) chains: Option<Chains>,
    /// rt-app's log, if one is asked for.
    pub(crate) rows: Vec<Row>,
    /// The last events before the first violation; kept only if violations are looked for.
    last: Option<VecDeque<Event>>,
    broken: bool,
    /// All events, if a trace is wanted.
    pub(crate) kept: Option<Kept>,
}

impl<'s> Recorder<'s> {
    pub(crate) fn new(
        scenario: &'s Scenario,
        accounts: Collector,
        kept: Option<Kept>,
        check: bool,
    ) -> Recorder<'s> {
        let last = check.then(|| VecDeque::with_capacity(EVENTS_DRAWN));
        Recorder {
            scenario,
            accounts,
            chains: chains(scenario),
            rows: Vec::new(),
            last,
            broken: false,
            kept,
        }
    }

    /// Draws the events before the first violation, if there was one.
    pub(crate) fn picture(&self, names: &dyn Names) -> Option<String> {
        let last = self.last.as_ref().filter(|_| self.broken)?;
        let events: Vec<_> = last.iter().copied().collect();
        Some(timeline(&events, names))
    }
}

impl Observer for &mut Recorder<'_> {
    #[inline]
    fn event(&mut self, event: &Event) {
        self.accounts.event(event);
        if let Some(chains) = &mut self.chains {
            chains.event(event);
        }
        if let Some(kept) = &mut self.kept {
            kept.push(event);
        }
        let Some(last) = self.last.as_mut().filter(|_| !self.broken) else { return };
        if last.len() == EVENTS_DRAWN {
            last.pop_front();
        }
        last.push_back(*event);
    }

    fn counts_from(&mut self, at: Time) {
        self.accounts.count_from(at);
        self.chains.iter_mut().for_each(|chains| chains.count_from(at));
    }

    fn asks(&mut self, task: TaskId, thread: SpecId, attr: &TaskAttr) {
        if let Some(chains) = &mut self.chains {
            chains.runs(task, thread.0);
        }
        self.accounts.runs(task, thread.0);
        let cookie = self.scenario.cookie_of(attr.cookie, attr.group);
        self.accounts.asks(task, attr, attr.effective_slack(), cookie);
    }

    fn row(&mut self, row: &Row) {
        self.rows.push(row.clone());
    }

    fn violation(&mut self, _: &Violation) {
        self.broken = true;
    }
}
