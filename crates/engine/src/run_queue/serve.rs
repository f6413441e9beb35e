//! The part of a run queue in the [fair server](crate::run_queue::server): it reports to the server
//! which class had the CPU, and asks it which class goes first.
//!
//! Invariants ([`RunQueue::check`]): while the server runs, a fair task runs or a switch is due.
//! The server is not off while the root queue of an online CPU has an entity. It has at most its
//! budget.

use crate::ensure::ensure;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::run_queue::server::Server;
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns whether fair tasks precede real-time tasks here.
    #[inline]
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.server.as_ref().is_some_and(Server::runs)
    }

    /// Returns when the server begins to run, if fair tasks wait for that.
    #[inline]
    pub(super) fn server_due(&self) -> Option<Time> {
        self.server.as_ref().and_then(|server| self.due_of(server))
    }

    #[inline(never)]
    fn due_of(&self, server: &Server) -> Option<Time> {
        let due = server.due()?;
        let keeps_off = match self.tasks.running() {
            Some(curr) => !self.tasks.task(curr).class().is_fair(),
            // A switch that is due handles this.
            None => self.forced_idle().is_some() && !self.resched,
        };
        (keeps_off && self.fair.root().nr > 0).then_some(due)
    }

    /// Starts the server, if the first fair task may have come.
    pub(super) fn start_server(&mut self) {
        let Some(server) = &mut self.server else { return };
        if self.fair.root().nr == 0 || !self.site.is_online() {
            return;
        }
        if let Some(since) = self.idle_since {
            server.idle(self.site.clock(), since, false, self.site.config());
        }
        if server.is_off() {
            server.start(self.site.clock(), self.site.config());
            // This also applies to an idle CPU: the task may leave again before it is picked. The
            // pick then stops the server.
            let runs_fair = self.tasks.running_fair().is_some();
            self.resched_anew(self.is_serving() && !runs_fair);
        }
    }

    pub(super) fn stop_server(&mut self) {
        if let Some(server) = &mut self.server {
            server.stop();
        }
    }

    /// Charges the server after a fair task ran.
    #[inline]
    pub(super) fn charge_server(&mut self, span: Nanos) {
        if let Some(server) = &mut self.server {
            let spent = server.charge(self.site.clock(), span, self.site.config());
            self.resched_anew(spent);
        }
    }

    /// Ends the idle time of the server, if the CPU was idle and a task can be picked. The pick may
    /// take a fair task because of this.
    #[inline]
    pub(super) fn end_idle_of_server(&mut self) {
        let waits = self.fair.root().nr > 0;
        if let Some(since) = self.idle_since.filter(|_| waits || self.rt.nr() > 0)
            && let Some(server) = &mut self.server
        {
            server.idle(self.site.clock(), since, waits, self.site.config());
        }
    }

    /// Runs the server's timer after a real-time task ran until now.
    #[inline]
    pub(super) fn expire_server(&mut self) {
        let waits = self.fair.root().nr > 0;
        if let Some(server) = &mut self.server {
            let begins = server.expire(self.site.clock(), waits, self.site.config());
            self.resched_anew(begins);
        }
    }

    pub(super) fn check_server(&self) {
        let Some(server) = &self.server else { return };
        let fair_runs = self.tasks.running_fair().is_some();
        let serves = fair_runs || self.resched || !self.is_serving() || self.is_kept_off();
        ensure!(self, serves, "a fair task runs while the server does");
        let watches = !server.is_off() || self.fair.root().nr == 0 || !self.site.is_online();
        ensure!(self, watches, "the server is not off while fair tasks are here");
        let within = server.is_within_budget(self.site.config());
        ensure!(self, within, "the server has at most its budget: {server:?}");
    }
}
