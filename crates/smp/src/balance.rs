//! Balancing of fair tasks over the levels of the topology.
//!
//! In a pass, [`runyard_engine::balance`] chooses the moves. This file decides which CPU balances at which time, chooses the
//! moves of a search and of a gift, and carries all of them out. It moves no real-time task, except with `RT_BALANCE`
//! ([`Cpus::balance_rt`]): then each pass and each search begins with those.
//!
//! A CPU balances in three cases ([`IdleKind`]). In each case it begins with the nearest level.
//!
//! - *At a tick*, from time to time, a busy CPU balances for its CPU group (`rebalance_domains`).
//! - *Newly idle*, a CPU looks for one task before it goes idle.
//! - *Idle* CPUs have no tick. A busy CPU kicks one of them if tasks wait on it or if its neighbours have more room.
//!   The kicked CPU then balances for all idle CPUs (`nohz_idle_balance`).
//!
//! With `IDLE_LOAD_BALANCE`, a CPU without work finds a task without a comparison of CPU groups, because it has room
//! for any task. A CPU that becomes idle pulls from an overloaded CPU. Among a few of the nearest ones it tries the
//! busiest first. A CPU with waiting tasks gives them away at its tick, one at a time, to CPUs that can run them at
//! once. It gives those of a forced idle thread of its core away too, which has no tick. Apart from the words of a CPU
//! mask, neither cost grows with the machine. A task that could not be given away is not the first candidate of the next
//! round, so no task starves.

use crate::cpus::Cpus;
use crate::host::{Controlled, Effects, Moving, kick_if, mark_away};
use crate::progress::{IDLE_BALANCE_INTERVAL, LEVELS, Outcome};
use crate::site::{CPUS_ASKED, Site, Tried};
use crate::sync::Ordering;
use runyard_engine::balance::survey::BalanceVerdict;
use runyard_engine::balance::{Found, IdleKind, Imbalance, Measure, Pass};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::Enqueue;
use runyard_engine::run_queue::{FairPull, MAX_LOOKED_AT, NotPulled};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Level;

/// The estimated cost for a newly idle CPU to examine one other CPU, under the later rules.
const LOOKED_AT: Nanos = Nanos::from_micros(2);

/// The largest number of tasks that one pass moves (`sched_nr_migrate`).
const MAX_MOVED: u32 = 32;

/// The largest number of rounds in which a CPU tries to give one of its waiting tasks away. Several short rounds keep
/// the hold time of its lock short.
const MAX_GIVE_AWAY_ROUNDS: u32 = 8;

/// For each level, the place of the first CPU of the domain that an earlier idle CPU found in balance.
#[derive(Clone, Copy, Debug, Default)]
struct Known([Option<usize>; LEVELS]);

impl Known {
    fn is_in_balance(&self, level: Level, first: usize) -> bool {
        self.0[level as usize] == Some(first)
    }
}

/// A CPU that balances now, and its reason.
#[derive(Clone, Copy, Debug)]
struct Balancer {
    now: Time,
    cpu: CpuId,
    idle_kind: IdleKind,
}

impl<W: Controlled> Cpus<W> {
    /// Balances for a CPU without work, which is either newly idle or was kicked while idle. Returns whether it found
    /// work.
    pub(crate) fn balance_without_work(
        &self,
        now: Time,
        cpu: CpuId,
        newly: bool,
        fx: &mut impl Effects<W>,
    ) -> bool {
        if !self.sight.hints.online.contains(cpu) || self.sight.is_isolated(cpu) {
            return false;
        }
        match newly {
            true => {
                self.search_rt(now, cpu, fx)
                    || !self.sight.hints.overloaded.is_empty()
                        && self.balance_newly_idle(now, cpu, fx)
            }
            false => {
                self.sight.hints.idle_balance_due.swap(false, Ordering::AcqRel)
                    && self.balance_idle_cpus(now, cpu, fx)
            }
        }
    }

    /// Balances for a busy CPU at a tick. `is_due` says whether a pass may be due.
    pub(crate) fn balance_tick(
        &self,
        now: Time,
        cpu: CpuId,
        is_due: bool,
        fx: &mut impl Effects<W>,
    ) {
        if !self.sight.has(Feature::LoadBalance) || self.sight.is_isolated(cpu) {
            return;
        }
        if is_due {
            let balancer = Balancer { now, cpu, idle_kind: IdleKind::Busy };
            self.rebalance_domains(balancer, &mut Known::default(), fx);
        }
        let gives = self.sight.has(Feature::IdleLoadBalance);
        let waits = self.sight.hints.overloaded.contains(cpu);
        if waits && gives {
            self.give_away(now, cpu, fx);
        }
        if gives && let Some(cores) = &self.sight.cores {
            // A forced idle thread has no tick.
            let stands = |&thread: &CpuId| {
                self.sight.hints.overloaded.contains(thread)
                    && self.of(thread).forced_idle().is_some()
            };
            cores.siblings(cpu).filter(stands).for_each(|thread| self.give_away(now, thread, fx));
        }
        let rt_waits =
            self.sight.has(Feature::RtBalance) && self.sight.hints.pushable.contains(cpu);
        if waits && !gives || rt_waits || is_due && self.sight.is_crowded(cpu) {
            self.sight.kick_idle_balancer(now, cpu, fx);
        }
    }

    fn balance_newly_idle(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        // A short average idle time means that the CPU is busy again soon. A pulled task would then only lose its warm
        // cache. Under the later rule, the search itself must also fit into the idle time (`max_newidle_lb_cost`).
        let avg_idle = self.of(cpu).inspect(|rq| rq.classes().idle().average());
        let by_room = self.sight.has(Feature::BalanceByRoom);
        if !by_room && avg_idle < self.sight.config.migration_cost {
            return false;
        }
        if self.sight.has(Feature::IdleLoadBalance) {
            let cost = LOOKED_AT.0 * CPUS_ASKED.min(self.sight.nr_cpus()) as u64;
            return avg_idle.0 >= cost && self.search_overloaded(now, cpu, fx);
        }
        let mut cost = 0;
        for site in self.sight.newly_idle_sites(now, cpu) {
            cost += LOOKED_AT.0 * self.sight.config.topology.span(cpu, site.level).len() as u64;
            if by_room && avg_idle.0 < cost {
                return false;
            }
            if self.newly_idle_pass(site, fx) {
                return true;
            }
        }
        false
    }

    /// Takes waiting real-time tasks for a newly idle CPU (`RT_BALANCE`). They have no warm caches to lose (`task_hot` of
    /// 2.6.24), so it does not matter how long the CPU will idle. Returns whether it found one.
    fn search_rt(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        self.sight.some_rt_waits()
            && self.sight.newly_idle_sites(now, cpu).any(|site| self.balance_rt(site, fx) > 0)
    }

    /// Runs one pass for a newly idle CPU, unless the random draw skips it. Returns whether it found work.
    fn newly_idle_pass(&self, site: Site<'_>, fx: &mut impl Effects<W>) -> bool {
        let (cpu, level) = (site.cpu, site.level);
        let stands_for = match self.sight.has(Feature::NiRandom) {
            true => self.of(cpu).balance(|balance| balance.draws_to_balance(level)),
            false => Some(1),
        };
        let Some(tries) = stands_for else { return false };
        let moved = matches!(self.pass(site, fx), Outcome::Moved(_));
        let successes = if moved { tries } else { 0 };
        self.of(cpu).balance(|balance| balance.of(level).note_newly_idle(successes));
        moved
    }

    /// Balances for every idle CPU until `own`, which does this work, has a task itself. Returns whether it has one.
    fn balance_idle_cpus(&self, now: Time, own: CpuId, fx: &mut impl Effects<W>) -> bool {
        let mut known = Known::default();
        let idle = self.sight.hints.idle.ring(&self.sight.all, 0..self.sight.nr_cpus(), own);
        idle.filter(|&cpu| !self.sight.is_isolated(cpu)).any(|cpu| {
            let balancer = Balancer { now, cpu, idle_kind: IdleKind::Idle };
            self.rebalance_domains(balancer, &mut known, fx) && cpu == own
        })
    }

    /// Sends a task that waits on `cpu` to a CPU that can run it at once. The nearest idle CPU is preferred. A task
    /// outside the SCHED_IDLE class can also go to a CPU that has only SCHED_IDLE tasks.
    fn give_away(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let soaks =
            self.sight.hints.pressed.contains(cpu) && !self.sight.hints.sched_idle.is_empty();
        let due = || self.of(cpu).balance(|balance| balance.next_give_away) <= now;
        if self.sight.hints.idle.is_empty() && !soaks || !due() {
            return;
        }
        let waiting = self.sight.hints.counts(cpu).nr_fair;
        let level = (0..waiting.div_ceil(MAX_LOOKED_AT).min(MAX_GIVE_AWAY_ROUNDS)).find_map(|_| {
            let mut level = None;
            let (given, resched) = self.of(cpu).detach(fx, |rq| {
                let given = rq.at(now).give_fair(|task, idle_class| {
                    let (to, near) = self.sight.find_room(now, cpu, task, idle_class)?;
                    level = Some(near);
                    Some(to)
                });
                given.inspect(|(task, _)| mark_away(task))
            });
            kick_if(resched, cpu, fx);
            let (task, to) = given?;
            self.migrate(now, Moving::new(task, cpu, to, Enqueue::Moved), fx);
            level
        });
        let wait = if level.is_some() { Nanos::ZERO } else { IDLE_BALANCE_INTERVAL };
        self.of(cpu).balance(|balance| balance.next_give_away = now + wait);
        self.sight.report_search(cpu, IdleKind::Busy, level, fx);
    }

    /// Pulls one waiting task to a CPU that is about to idle, from a nearby CPU with many tasks. Returns whether it
    /// found one. After a search without result, the next search is delayed. A tick of the overloaded CPU gives its
    /// waiting tasks away in the meantime.
    fn search_overloaded(&self, now: Time, to: CpuId, fx: &mut impl Effects<W>) -> bool {
        if now < self.of(to).balance(|balance| balance.next_search) {
            return false;
        }
        let pull = FairPull {
            to,
            measure: Measure::All,
            max_load: u64::MAX,
            hot: false,
            eligible: false,
            runs: self.sight.core_runs(to),
        };
        let found =
            self.sight.try_overloaded(to, |from| self.pull_one(now, from, pull, fx).is_ok());
        if found.is_none() {
            let next = now + IDLE_BALANCE_INTERVAL;
            self.of(to).balance(|balance| balance.next_search = next);
        }
        self.sight.report_search(to, IdleKind::NewlyIdle, found, fx);
        found.is_some()
    }

    /// Balances a CPU at each level that is due and not yet known to be in balance. It stops at the first level where
    /// another CPU balances for the CPU group. Returns whether a task moved to this CPU.
    fn rebalance_domains(
        &self,
        balancer: Balancer,
        known: &mut Known,
        fx: &mut impl Effects<W>,
    ) -> bool {
        let Balancer { now, cpu, mut idle_kind } = balancer;
        let mut moved = false;
        let due = self.of(cpu).balance(|balance| balance.begin_due(&self.sight, now, idle_kind));
        let spares = idle_kind == IdleKind::Idle && self.sight.sleeps_deep(now, cpu);
        for &(level, domain) in self.sight.domains.iter().filter(|(level, _)| due[*level as usize])
        {
            let pass = Pass { measure: Measure::All, idle_kind, domain };
            let site = Site { sight: &self.sight, now, cpu, level, pass, spares };
            if !self.sight.should_balance(cpu, level) {
                self.note(site, Outcome::Balanced);
                break;
            }
            if level == Level::Node {
                self.sight.refresh_idle_scan(now, cpu);
            }
            let taken = self.balance_rt(site, fx);
            if taken > 0 {
                // A real-time task weighs more than any fair one, so the imbalance is gone.
                self.note(site, Outcome::Moved(taken));
                (moved, idle_kind) = (true, IdleKind::Busy);
                continue;
            }
            let first = self.sight.first_of_domain(cpu, level);
            if known.is_in_balance(level, first) {
                self.note(site, Outcome::Balanced);
                continue;
            }
            match self.balance_level(site, fx) {
                Outcome::Moved(_) => (moved, idle_kind) = (true, IdleKind::Busy),
                // Other idle CPUs compare the same CPU groups, unless the groups have several CPUs each.
                Outcome::Balanced if !domain.spreads && idle_kind == IdleKind::Idle => {
                    known.0[level as usize] = Some(first);
                }
                _ => {}
            }
        }
        moved
    }

    /// Runs one pass for each measure until a pass moves a task. If none does, the first imbalance found counts for the
    /// next time.
    fn balance_level(&self, site: Site<'_>, fx: &mut impl Effects<W>) -> Outcome {
        let mut outcome = Outcome::Balanced;
        let measures = Pass::measures(self.sight.config.features, site.pass.domain);
        for measure in measures.filter(|&it| it == Measure::Normal || !site.spares) {
            let found = self.pass(site.measuring(measure), fx);
            let moved = matches!(found, Outcome::Moved(_));
            if moved || outcome == Outcome::Balanced {
                outcome = found;
            }
            if moved {
                break;
            }
        }
        let takes_running = self.note(site, outcome);
        // Without a measure, the running task stays: no waiting task would gain if it left.
        if let Outcome::Failed(from, Some(measure)) = outcome
            && takes_running
        {
            self.active_balance(site, from, measure, fx);
        }
        outcome
    }

    fn note(&self, site: Site<'_>, outcome: Outcome) -> bool {
        self.of(site.cpu).balance(|balance| {
            // The next pass may now be due earlier than before.
            balance.next_balance = Time::ZERO;
            balance.of(site.level).note(outcome, site.pass.domain)
        })
    }

    /// Preempts the running task of `from` and sends it to the balancing CPU (`active_load_balance_cpu_stop`).
    fn active_balance(
        &self,
        site: Site<'_>,
        from: CpuId,
        measure: Measure,
        fx: &mut impl Effects<W>,
    ) {
        let Site { now, cpu, level, pass, .. } = site;
        let (given, _) = self.of(from).detach(fx, |rq| rq.at(now).give_curr(cpu, measure));
        match given {
            Ok(resched) => {
                kick_if(resched, from, fx);
                site.report(fx, Found::Running);
                let tries = pass.domain.cache_nice_tries + 1;
                self.of(cpu).balance(|it| it.of(level).failed = tries);
            }
            Err(NotPulled::Pinned) => {
                self.note(site, Outcome::Pinned);
            }
            Err(NotPulled::Nobody | NotPulled::NotNow) => {}
        }
    }

    /// Compares the CPU groups of a level, and pulls the excess from the busiest one.
    fn pass(&self, site: Site<'_>, fx: &mut impl Effects<W>) -> Outcome {
        let outcome = self.compare(site, fx);
        site.report(fx, outcome.found());
        outcome
    }

    fn compare(&self, site: Site<'_>, fx: &mut impl Effects<W>) -> Outcome {
        let mut tried = Tried::default();
        loop {
            let BalanceVerdict::Pull(first, imbalance) = site.survey(&tried) else {
                return if tried.is_empty() { Outcome::Balanced } else { Outcome::Pinned };
            };
            if site.spares && imbalance == Imbalance::Any {
                return Outcome::Balanced;
            }
            let Some(from) = site.busiest_queue(first, imbalance, &tried) else {
                return Outcome::Balanced;
            };
            match self.pull_fair(site, from, imbalance, fx) {
                Ok(moved) => return Outcome::Moved(moved),
                Err(NotPulled::Pinned) if tried.add(from) => {}
                Err(NotPulled::Pinned) => return Outcome::Pinned,
                Err(NotPulled::Nobody | NotPulled::NotNow) => {
                    let measure = imbalance.measure(site.pass.measure);
                    let by_load = site.pass.by_room() && matches!(imbalance, Imbalance::Load(_));
                    let takes_running = measure == Measure::All && !by_load;
                    return Outcome::Failed(from, takes_running.then_some(measure));
                }
            }
        }
    }

    /// Pulls waiting tasks until the imbalance is gone or no task is left that fits.
    fn pull_fair(
        &self,
        Site { now, cpu, level, pass, .. }: Site<'_>,
        from: CpuId,
        imbalance: Imbalance,
        fx: &mut impl Effects<W>,
    ) -> Result<u32, NotPulled> {
        let failed = self.of(cpu).balance(|balance| balance.of(level).failed);
        let (mut left, most) = match imbalance {
            Imbalance::Load(load) if pass.idle_kind == IdleKind::NewlyIdle => (load, 1),
            Imbalance::Load(load) => (load, MAX_MOVED),
            Imbalance::Tasks(tasks) if pass.idle_kind != IdleKind::NewlyIdle => {
                (u64::MAX, u32::try_from(tasks).map_or(MAX_MOVED, |tasks| tasks.min(MAX_MOVED)))
            }
            Imbalance::Waiting | Imbalance::Any | Imbalance::Tasks(_) => (u64::MAX, 1),
        };
        let by_room = pass.by_room();
        if pass.measure != Measure::All || by_room {
            // Repeated failures raise the load that a pull accepts (6.12, `detach_tasks`).
            left = left.saturating_mul(1 << failed.min(u64::BITS - 1));
        }
        // The hardware threads of a core share their caches.
        let shares = by_room && level == Level::Smt;
        let hot = shares || failed > pass.domain.cache_nice_tries;
        let eligible = by_room
            && self.sight.config.rules.pulls_eligible
            && failed == 0
            && self.sight.hints.counts(cpu).nr_fair > 0;
        // The engine compares half of a task's load with this limit. By these rules its whole load must fit.
        let fits = |left: u64| if by_room { left / 2 } else { left };
        let (measure, runs) = (imbalance.measure(pass.measure), self.sight.core_runs(cpu));
        let mut moved = 0;
        while moved < most && left > 0 {
            match self.pull_one(
                now,
                from,
                FairPull { to: cpu, measure, max_load: fits(left), hot, eligible, runs },
                fx,
            ) {
                Ok(load) => left = left.saturating_sub(load.max(1)),
                Err(stays) if moved == 0 => return Err(stays),
                Err(_) => break,
            }
            moved += 1;
        }
        Ok(moved)
    }

    /// Takes one waiting task from `from`, and returns its load.
    fn pull_one(
        &self,
        now: Time,
        from: CpuId,
        pull: FairPull,
        fx: &mut impl Effects<W>,
    ) -> Result<u64, NotPulled> {
        let (taken, resched) = self
            .of(from)
            .detach(fx, |rq| rq.at(now).detach_fair(pull).inspect(|(task, _)| mark_away(task)));
        kick_if(resched, from, fx);
        let (task, load) = taken?;
        self.migrate(now, Moving::new(task, from, pull.to, Enqueue::Moved), fx);
        Ok(load)
    }
}
