//! The [fair server](crate::run_queue::server) of a CPU, if the CPU has one. A CPU without one never lets fair tasks go
//! first.

use crate::config::Config;
use crate::ensure::ensure;
use crate::run_queue::server::Server;
use crate::time::{Nanos, Time};
use std::fmt::Display;

/// The bandwidth reserved for fair tasks, under
/// [`Feature::FairServer`](crate::features::Feature::FairServer).
#[derive(Debug)]
pub(super) struct FairServer(Option<Server>);

impl FairServer {
    pub(super) fn new(on: bool) -> FairServer {
        FairServer(on.then(Server::new))
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether fair tasks precede real-time tasks here.
    #[inline]
    pub(super) fn is_serving(&self) -> bool {
        self.0.as_ref().is_some_and(Server::runs)
    }

    /// Returns when its state changes by the passing of time alone.
    pub(super) fn due(&self) -> Option<Time> {
        self.0.as_ref()?.due()
    }

    /// Starts, because there is a fair task; before, the CPU was perhaps idle. Returns whether fair
    /// tasks go first because of this.
    #[inline]
    pub(super) fn start(&mut self, now: Time, idle_since: Option<Time>, config: &Config) -> bool {
        let Some(server) = &mut self.0 else { return false };
        if let Some(since) = idle_since {
            server.idle(now, since, false, config);
        }
        let starts = server.is_off();
        if starts {
            server.start(now, config);
        }
        starts && server.runs()
    }

    pub(super) fn stop(&mut self) {
        if let Some(server) = &mut self.0 {
            server.stop();
        }
    }

    /// Charges it after a fair task ran. Returns whether fair tasks no longer go first.
    #[inline]
    pub(super) fn charge(&mut self, now: Time, span: Nanos, config: &Config) -> bool {
        self.0.as_mut().is_some_and(|server| server.charge(now, span, config))
    }

    /// Ends its idle time, if the CPU was idle and a task can be picked. The pick may take a fair
    /// task because of this.
    #[inline]
    pub(super) fn end_idle(&mut self, now: Time, since: Time, waits: bool, config: &Config) {
        if let Some(server) = &mut self.0 {
            server.idle(now, since, waits, config);
        }
    }

    /// Makes the state change that is due; `waits` says whether a fair task is there. Returns
    /// whether fair tasks go first from now on.
    #[inline]
    pub(super) fn expire(&mut self, now: Time, waits: bool, config: &Config) -> bool {
        self.0.as_mut().is_some_and(|server| server.expire(now, waits, config))
    }

    /// Asserts that it is not off while fair tasks `wait`, and has at most its budget.
    ///
    /// # Panics
    /// If not, with `picture`.
    pub(super) fn check(&self, wait: bool, config: &Config, picture: &dyn Display) {
        let Some(server) = &self.0 else { return };
        let watches = !server.is_off() || !wait;
        ensure!(picture, watches, "the server is not off while fair tasks are here");
        let within = server.is_within_budget(config);
        ensure!(picture, within, "the server has at most its budget: {server:?}");
    }
}
