//! Balancing of fair tasks over the levels of the topology: which CPU balances when, and does what
//! [`runyard_engine::balance`] chose. It never moves a real-time task.
//!
//! A CPU balances in three cases ([`IdleKind`]), the nearest level first in each:
//!
//! - *At a tick*, from time to time, a busy CPU balances for its CPU group (`rebalance_domains`).
//! - *Newly idle*, a CPU looks for one task before it goes idle.
//! - *Idle* CPUs have no tick. A busy CPU that has tasks waiting, or neighbours where there is more
//!   room, kicks one of them, which then balances for all of them (`nohz_idle_balance`).
//!
//! With `IDLE_LOAD_BALANCE` nobody compares CPU groups to find a task for a CPU that has nothing to
//! do: there is room for it, whatever weighs what. A CPU that becomes idle asks the CPUs that say that
//! somebody waits, the busiest of a few nearest ones first; and a CPU on which tasks wait gives them,
//! at its tick, one after the other to CPUs that could run them at once. What either costs does not
//! grow with the machine but for the words of a mask. A task that could not be given is not the next one
//! that is looked at, so none is left out for ever.

use crate::host::{Controlled, Effects, Moving, kick_if, mark_away};
use crate::machine::Machine;
use crate::progress::{LEVELS, Outcome};
use crate::sync::Ordering;
use runyard_engine::balance::power::FULL_POWER;
use runyard_engine::balance::survey::{BalanceVerdict, Survey};
use runyard_engine::balance::{
    Balanced, CpuGroup, Domain, Found, IdleKind, Imbalance, MAX_INTERVAL_PER_CPU, Measure, Pass,
    Seen, power_of_cpu, queue_rank,
};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::Enqueue;
use runyard_engine::run_queue::{FairPull, LoadAverages, MAX_LOOKED_AT, NotPulled, RunQueue};
use runyard_engine::task::Task;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Level;
use std::cmp::Reverse;

/// How many CPUs a search asks at each level.
const CPUS_ASKED: usize = 16;

/// How often the idle CPUs are asked to balance at most, and a CPU looks again for where to send tasks
/// that wait, after it found nothing: a jiffy at the 250 Hz of most distributions.
const IDLE_BALANCE_INTERVAL: Nanos = Nanos::from_millis(4);

/// What it costs a CPU that is about to idle to look at another, by the later rules.
const LOOKED_AT: Nanos = Nanos::from_micros(2);

/// How many tasks are moved in a pass at most (`sched_nr_migrate`).
const MAX_MOVED: u32 = 32;

/// In how many rounds in sequence a CPU tries some of its waiting tasks to give one away, so that its
/// lock is not held for long.
const MAX_GIVE_AWAY_ROUNDS: u32 = 8;

/// Of how many CPUs with nothing but pinned tasks a pass finds out.
const MAX_TRIED: usize = 4;

/// The domains, by the places of their first CPUs, that one idle CPU after the other found in balance.
#[derive(Clone, Copy, Debug, Default)]
struct Known([Option<usize>; LEVELS]);

impl Known {
    fn is_in_balance(&self, level: Level, first: usize) -> bool {
        self.0[level as usize] == Some(first)
    }
}

/// A CPU that balances now.
#[derive(Clone, Copy, Debug)]
struct Balancer {
    now: Time,
    cpu: CpuId,
    idle_kind: IdleKind,
}

/// A pass of one CPU at one level.
#[derive(Clone, Copy, Debug)]
struct Site {
    now: Time,
    cpu: CpuId,
    level: Level,
    pass: Pass,
    /// The CPU sleeps deep, and is not to be woken for SCHED_IDLE tasks.
    spares: bool,
}

impl Site {
    fn measuring(self, measure: Measure) -> Site {
        Site { pass: Pass { measure, ..self.pass }, ..self }
    }

    fn report<W>(self, fx: &mut impl Effects<W>, found: Found) {
        let Pass { measure, idle_kind, .. } = self.pass;
        fx.balanced(self.cpu, Balanced { level: self.level, idle_kind, measure, found });
    }
}

/// CPUs from which nothing can be pulled, in one pass.
#[derive(Clone, Copy, Debug, Default)]
struct Tried([Option<CpuId>; MAX_TRIED]);

impl Tried {
    fn has(&self, cpu: CpuId) -> bool {
        self.0.contains(&Some(cpu))
    }

    fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// `false` if there is no room for another.
    fn add(&mut self, cpu: CpuId) -> bool {
        let free = self.0.iter_mut().find(|tried| tried.is_none());
        free.map(|tried| *tried = Some(cpu)).is_some()
    }
}

impl<W: Controlled> Machine<W> {
    /// What a CPU without work does for balance, being about to idle or kicked in its sleep. Says
    /// whether it found work.
    pub(crate) fn balance_without_work(
        &self,
        now: Time,
        cpu: CpuId,
        newly: bool,
        fx: &mut impl Effects<W>,
    ) -> bool {
        let due = || match newly {
            true => !self.hints.overloaded.is_empty(),
            false => self.hints.idle_balance_due.swap(false, Ordering::AcqRel),
        };
        if !self.hints.online.contains(cpu) || !due() {
            return false;
        }
        match newly {
            true => self.balance_newly_idle(now, cpu, fx),
            false => self.balance_idle_cpus(now, cpu, fx),
        }
    }

    /// What a busy CPU does for balance at a tick; `is_due`, whether a pass may be.
    pub(crate) fn balance_tick(
        &self,
        now: Time,
        cpu: CpuId,
        is_due: bool,
        fx: &mut impl Effects<W>,
    ) {
        if !self.has(Feature::LoadBalance) {
            return;
        }
        if is_due {
            let balancer = Balancer { now, cpu, idle_kind: IdleKind::Busy };
            self.rebalance_domains(balancer, &mut Known::default(), fx);
        }
        let gives = self.has(Feature::IdleLoadBalance);
        let waits = self.hints.overloaded.contains(cpu);
        if waits && gives {
            self.give_away(now, cpu, fx);
        }
        if waits && !gives || is_due && self.is_crowded(cpu) {
            self.kick_idle_balancer(now, cpu, fx);
        }
    }

    fn balance_newly_idle(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        // This one is busy again soon. What it would take has something in the caches of its CPU, or, by the later rule, it
        // would look for a part of that time (`max_newidle_lb_cost`).
        let avg_idle = self.inspect(cpu, RunQueue::avg_idle);
        let by_room = self.has(Feature::BalanceByRoom);
        if !by_room && avg_idle < self.config.migration_cost {
            return false;
        }
        if self.has(Feature::IdleLoadBalance) {
            let cost = LOOKED_AT.0 * CPUS_ASKED.min(self.cpus.len()) as u64;
            return avg_idle.0 >= cost && self.search_overloaded(now, cpu, fx);
        }
        let mut cost = 0;
        for &(level, domain) in &self.domains {
            cost += LOOKED_AT.0 * self.config.topology.span(cpu, level).len() as u64;
            if by_room && avg_idle.0 < cost {
                return false;
            }
            let pass = Pass { measure: Measure::All, idle_kind: IdleKind::NewlyIdle, domain };
            if self.newly_idle_pass(Site { now, cpu, level, pass, spares: false }, fx) {
                return true;
            }
        }
        false
    }

    /// A pass of a CPU that is about to idle, unless a draw is against it. Says whether it found work.
    fn newly_idle_pass(&self, site: Site, fx: &mut impl Effects<W>) -> bool {
        let (cpu, level) = (site.cpu, site.level);
        let stands_for = match self.has(Feature::NiRandom) {
            true => self.with_balance(cpu, |balance| balance.draws_to_balance(level)),
            false => Some(1),
        };
        let Some(tries) = stands_for else { return false };
        let moved = matches!(self.pass(site, fx), Outcome::Moved(_));
        let successes = if moved { tries } else { 0 };
        self.with_balance(cpu, |balance| balance.of(level).note_newly_idle(successes));
        moved
    }

    /// What a balancing CPU sees of another. By the rules of 5.5 it is what was there lately, not at the moment.
    pub(crate) fn seen(&self, now: Time, cpu: CpuId, measure: Measure) -> Seen {
        let full = power_of_cpu(self.config.topology, self.config.features);
        let seen = self.hints.seen(now, cpu, full, measure);
        let lately = self.has(Feature::BalanceByRoom) && self.has(Feature::Pelt);
        if !lately || measure != Measure::All {
            return seen;
        }
        let LoadAverages { load, runnable, util } = self.hints.averages(now, cpu);
        Seen { load, runnable, util, ..seen }
    }

    /// Balances for every idle CPU, until the one that does it has work itself. Says whether it has.
    fn balance_idle_cpus(&self, now: Time, own: CpuId, fx: &mut impl Effects<W>) -> bool {
        let mut known = Known::default();
        let mut idle = self.hints.idle.ring(&self.all, 0..self.cpus.len(), own);
        idle.any(|cpu| {
            let balancer = Balancer { now, cpu, idle_kind: IdleKind::Idle };
            self.rebalance_domains(balancer, &mut known, fx) && cpu == own
        })
    }

    /// Sends a task that waits on `cpu` to a CPU that could run it at once: one that is idle, the
    /// nearest; or, if it is not of the SCHED_IDLE class, one that has only tasks of that.
    fn give_away(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let soaks = self.hints.pressed.contains(cpu) && !self.hints.sched_idle.is_empty();
        let due = || self.with_balance(cpu, |balance| balance.next_give_away) <= now;
        if self.hints.idle.is_empty() && !soaks || !due() {
            return;
        }
        let waiting = self.hints.counts(cpu).nr_fair;
        let level = (0..waiting.div_ceil(MAX_LOOKED_AT).min(MAX_GIVE_AWAY_ROUNDS)).find_map(|_| {
            let mut level = None;
            let (given, resched) = self.detach(cpu, fx, |rq| {
                let given = rq.give_fair(now, |task, idle_class| {
                    let (to, near) = self.find_room(now, cpu, task, idle_class)?;
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
        self.with_balance(cpu, |balance| balance.next_give_away = now + wait);
        self.report_search(cpu, IdleKind::Busy, level, fx);
    }

    /// Where a fair task that waits on `cpu` could run at once, and how near that is.
    fn find_room(
        &self,
        now: Time,
        cpu: CpuId,
        task: &Task<W>,
        idle_class: bool,
    ) -> Option<(CpuId, Level)> {
        let affinity = &task.attr().affinity;
        let soaks = !idle_class && self.hints.pressed.contains(cpu);
        let cookie = self.cookie_of(task);
        let wakes = |idle: &CpuId| !idle_class || !self.sleeps_deep(now, *idle);
        let room = |&(level, _): &(Level, Domain)| {
            let span = self.config.topology.span(cpu, level);
            let idle = || {
                let mut idle = self.hints.idle.ring(affinity, span.clone(), cpu);
                idle.find(|to| wakes(to) && self.gains_at(*to, cpu, cookie))
            };
            let soaker = || {
                let some = self.hints.sched_idle.ring(affinity, span.clone(), cpu);
                let few = |&to: &CpuId| self.hints.counts(to).nr_fair;
                some.take(CPUS_ASKED).min_by_key(few)
            };
            Some((if soaks { idle().or_else(soaker) } else { idle() }?, level))
        };
        self.domains.iter().find_map(room)
    }

    /// Takes one task that waits anywhere for a CPU that is about to idle; of the nearest from one
    /// with many. Says whether there is one. After a search in vain there is none for some time: who
    /// waits by then is given away at a tick.
    fn search_overloaded(&self, now: Time, to: CpuId, fx: &mut impl Effects<W>) -> bool {
        if now < self.with_balance(to, |balance| balance.next_search) {
            return false;
        }
        let pull = FairPull {
            to,
            measure: Measure::All,
            max_load: u64::MAX,
            hot: false,
            eligible: false,
            runs: self.core_runs(to),
        };
        let found = self.try_overloaded(to, |from| self.pull_one(now, from, pull, fx).is_ok());
        if found.is_none() {
            let next = now + IDLE_BALANCE_INTERVAL;
            self.with_balance(to, |balance| balance.next_search = next);
        }
        self.report_search(to, IdleKind::NewlyIdle, found, fx);
        found.is_some()
    }

    /// Tries CPUs that have tasks waiting, nearest level first, until one gives a task, and tells the
    /// level: of the nearest few that with most tasks, then the others of them.
    fn try_overloaded(&self, cpu: CpuId, mut gives: impl FnMut(CpuId) -> bool) -> Option<Level> {
        let found = self.domains.iter().find(|&&(level, _)| {
            let span = self.config.topology.span(cpu, level);
            let some = || {
                let waiting = self.hints.overloaded.ring(&self.all, span.clone(), cpu);
                waiting.filter(|&it| it != cpu).take(CPUS_ASKED)
            };
            let tasks = |it: CpuId| self.hints.counts(it).nr_fair;
            let most = some().max_by_key(|&it| (tasks(it), Reverse(it)));
            most.is_some_and(|most| gives(most) || some().filter(|&it| it != most).any(&mut gives))
        });
        found.map(|&(level, _)| level)
    }

    /// Reports a search; one in vain came to the widest level.
    fn report_search(
        &self,
        cpu: CpuId,
        idle_kind: IdleKind,
        level: Option<Level>,
        fx: &mut impl Effects<W>,
    ) {
        let measure = Measure::All;
        let found = level.map_or(Found::Nothing, |_| Found::Tasks(1));
        if let Some(level) = level.or(self.domains.last().map(|&(level, _)| level)) {
            fx.balanced(cpu, Balanced { level, idle_kind, measure, found });
        }
    }

    /// Balances a CPU at each level that is due and not known to be in balance, as long as it is the
    /// one to do it for its CPU group. Tells whether something was moved to it.
    fn rebalance_domains(
        &self,
        balancer: Balancer,
        known: &mut Known,
        fx: &mut impl Effects<W>,
    ) -> bool {
        let Balancer { now, cpu, mut idle_kind } = balancer;
        let mut moved = false;
        let due = self.due_levels(balancer);
        let spares = idle_kind == IdleKind::Idle && self.sleeps_deep(now, cpu);
        for &(level, domain) in self.domains.iter().filter(|(level, _)| due[*level as usize]) {
            let pass = Pass { measure: Measure::All, idle_kind, domain };
            let site = Site { now, cpu, level, pass, spares };
            if !self.should_balance(cpu, level) {
                self.note(site, Outcome::Balanced);
                break;
            }
            if level == Level::Node {
                self.refresh_idle_scan(now, cpu);
            }
            let span = self.config.topology.span(cpu, level).start;
            if known.is_in_balance(level, span) {
                self.note(site, Outcome::Balanced);
                continue;
            }
            match self.balance_level(site, fx) {
                Outcome::Moved(_) => (moved, idle_kind) = (true, IdleKind::Busy),
                // Another idle CPU compares the same CPU groups, unless they are of several CPUs.
                Outcome::Balanced if !domain.spreads && idle_kind == IdleKind::Idle => {
                    known.0[level as usize] = Some(span);
                }
                _ => {}
            }
        }
        moved
    }

    /// At how many CPUs of its node a woken task looks for an idle one, until the next balance there: the fewer the more they
    /// are used, and none from 85 % on (`update_idle_cpu_scan`).
    fn refresh_idle_scan(&self, now: Time, cpu: CpuId) {
        if !self.has(Feature::SisUtil) {
            return;
        }
        const PCT: u64 = 117;
        let node = self.config.topology.span(cpu, Level::Node);
        let (first, cpus) = (CpuId::at(node.start), node.len() as u64);
        let util = |cpu| self.hints.averages(now, CpuId::at(cpu)).util.min(FULL_POWER);
        let used = node.map(util).sum::<u64>() / cpus;
        let taken = (used * used * PCT * PCT / (10_000 * FULL_POWER)).min(FULL_POWER);
        let scan = (FULL_POWER - taken) * cpus / FULL_POWER;
        self.hints.set_idle_scan(first, scan as u32);
    }

    /// The levels whose time has come, which begins anew.
    fn due_levels(&self, Balancer { now, cpu, idle_kind }: Balancer) -> [bool; LEVELS] {
        let most = Nanos(MAX_INTERVAL_PER_CPU.0 * self.cpus.len() as u64);
        self.with_balance(cpu, |balance| {
            let (mut due, mut next_balance) = ([false; LEVELS], Time::MAX);
            for &(level, domain) in &self.domains {
                let progress = balance.of(level);
                let factor = if idle_kind == IdleKind::Busy { domain.busy_factor } else { 1 };
                let interval = Nanos(progress.interval.0 * factor);
                // So that busy CPUs at several levels are not due at the same ticks (`get_sd_balance_interval`).
                let sooner = domain.by_room && idle_kind == IdleKind::Busy;
                let interval =
                    if sooner { interval.saturating_sub(self.config.tick) } else { interval };
                let interval = interval.min(most).max(self.config.tick);
                if progress.last + interval <= now {
                    progress.last = now;
                    due[level as usize] = true;
                }
                let crowded = if domain.spreads { IDLE_BALANCE_INTERVAL } else { interval };
                next_balance = next_balance.min(progress.last + interval).min(now + crowded);
            }
            balance.next_balance = next_balance;
            due
        })
    }

    /// Whether `cpu` balances for its CPU group: its first idle CPU does, or one with SCHED_IDLE
    /// tasks only, or its first.
    fn should_balance(&self, cpu: CpuId, level: Level) -> bool {
        let group = self.config.topology.group(cpu, level);
        let (hints, first) = (&self.hints, CpuId::at(group.start));
        let mut who = hints.idle.ring(&self.all, group.clone(), first).next();
        if self.has(Feature::IdleLoadBalance) {
            who = who.or_else(|| hints.sched_idle.ring(&self.all, group.clone(), first).next());
        }
        who.or_else(|| hints.online.ring(&self.all, group, first).next()) == Some(cpu)
    }

    /// A pass for each measure, until one moves something. What was found to be wrong first counts for
    /// the next time.
    fn balance_level(&self, site: Site, fx: &mut impl Effects<W>) -> Outcome {
        let mut outcome = Outcome::Balanced;
        let measures = Pass::measures(self.config.features, site.pass.domain);
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
        // A running task of one measure is left alone: nobody who waits would gain by its going.
        if let Outcome::Failed(from, Some(measure)) = outcome
            && takes_running
        {
            self.active_balance(site, from, measure, fx);
        }
        outcome
    }

    fn note(&self, site: Site, outcome: Outcome) -> bool {
        self.with_balance(site.cpu, |balance| {
            // The next pass may be due sooner than it was.
            balance.next_balance = Time::ZERO;
            balance.of(site.level).note(outcome, site.pass.domain)
        })
    }

    /// Has the running task of `from` preempted and sent here (`active_load_balance_cpu_stop`).
    fn active_balance(&self, site: Site, from: CpuId, measure: Measure, fx: &mut impl Effects<W>) {
        let Site { now, cpu, level, pass, .. } = site;
        let (given, _) = self.detach(from, fx, |rq| rq.give_curr(now, cpu, measure));
        match given {
            Ok(resched) => {
                kick_if(resched, from, fx);
                site.report(fx, Found::Running);
                let tries = pass.domain.cache_nice_tries + 1;
                self.with_balance(cpu, |it| it.of(level).failed = tries);
            }
            Err(NotPulled::Pinned) => {
                self.note(site, Outcome::Pinned);
            }
            Err(NotPulled::Nobody | NotPulled::NotNow) => {}
        }
    }

    /// Compares the CPU groups of a level, and pulls from the busiest what is too much there.
    fn pass(&self, site: Site, fx: &mut impl Effects<W>) -> Outcome {
        let outcome = self.compare(site, fx);
        site.report(fx, outcome.found());
        outcome
    }

    fn compare(&self, site: Site, fx: &mut impl Effects<W>) -> Outcome {
        let mut tried = Tried::default();
        loop {
            let BalanceVerdict::Pull(first, imbalance) = self.survey(site, &tried) else {
                return if tried.is_empty() { Outcome::Balanced } else { Outcome::Pinned };
            };
            if site.spares && imbalance == Imbalance::Any {
                return Outcome::Balanced;
            }
            let Some(from) = self.busiest_queue(site, first, imbalance, &tried) else {
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

    /// What to pull from which CPU group, which is named by the place of its first CPU.
    fn survey(&self, site: Site, tried: &Tried) -> BalanceVerdict<usize> {
        let Site { now, cpu, level, pass, .. } = site;
        let topology = self.config.topology;
        let (size, span) = (topology.group_size(level), topology.span(cpu, level));
        let group = |first: usize| {
            let mut group = CpuGroup::default();
            for cpu in (first..first + size).map(CpuId::at) {
                if self.hints.online.contains(cpu) && !tried.has(cpu) {
                    group.add(self.seen(now, cpu, pass.measure), pass.measure);
                }
            }
            group
        };
        let own = topology.group(cpu, level).start;
        let mut survey = Survey::new(pass, group(own));
        for first in (own + size..span.end).step_by(size).chain((span.start..own).step_by(size)) {
            survey.add(first, group(first));
        }
        survey.decide()
    }

    /// The CPU of a CPU group from which to pull.
    fn busiest_queue(
        &self,
        Site { now, level, pass, .. }: Site,
        first: usize,
        imbalance: Imbalance,
        tried: &Tried,
    ) -> Option<CpuId> {
        let topology = self.config.topology;
        let measure = pass.measure;
        let rank = |cpu| queue_rank(self.seen(now, cpu, measure), measure, imbalance);
        (first..first + topology.group_size(level))
            .map(CpuId::at)
            .filter(|&cpu| self.hints.online.contains(cpu) && !tried.has(cpu))
            .filter_map(|cpu| Some((rank(cpu)?, Reverse(cpu))))
            .max()
            .map(|(_, Reverse(cpu))| cpu)
    }

    /// Pulls waiting tasks until the imbalance is gone or none is left that fits.
    fn pull_fair(
        &self,
        Site { now, cpu, level, pass, .. }: Site,
        from: CpuId,
        imbalance: Imbalance,
        fx: &mut impl Effects<W>,
    ) -> Result<u32, NotPulled> {
        let failed = self.with_balance(cpu, |balance| balance.of(level).failed);
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
            // Who fails again and again becomes less choosy (6.12, `detach_tasks`).
            left = left.saturating_mul(1 << failed.min(u64::BITS - 1));
        }
        // Threads of a core share their caches.
        let shares = by_room && level == Level::Smt;
        let hot = shares || failed > pass.domain.cache_nice_tries;
        let eligible = by_room
            && self.config.rules.pulls_eligible
            && failed == 0
            && self.hints.counts(cpu).nr_fair > 0;
        // A whole task must fit, and not half of it.
        let fits = |left: u64| if by_room { left / 2 } else { left };
        let (measure, runs) = (imbalance.measure(pass.measure), self.core_runs(cpu));
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

    /// Takes one waiting task from `from`; the load that went.
    fn pull_one(
        &self,
        now: Time,
        from: CpuId,
        pull: FairPull,
        fx: &mut impl Effects<W>,
    ) -> Result<u64, NotPulled> {
        let (taken, resched) = self
            .detach(from, fx, |rq| rq.detach_fair(now, pull).inspect(|(task, _)| mark_away(task)));
        kick_if(resched, from, fx);
        let (task, load) = taken?;
        self.migrate(now, Moving::new(task, from, pull.to, Enqueue::Moved), fx);
        Ok(load)
    }

    /// An idle CPU has no tick: a busy one sees for it that it could help, unless somebody did lately.
    fn kick_idle_balancer(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let next = &self.hints.next_idle_balance;
        if now.0 < next.load(Ordering::Acquire) {
            return;
        }
        let mut idle = self.hints.idle.ring(&self.all, 0..self.cpus.len(), cpu);
        let important = self.hints.pressed.contains(cpu);
        if let Some(idle) = idle.find(|&idle| important || !self.sleeps_deep(now, idle)) {
            next.store((now + IDLE_BALANCE_INTERVAL).0, Ordering::Release);
            self.hints.idle_balance_due.store(true, Ordering::Release);
            fx.kick(idle);
        }
    }

    /// Whether the CPU group of `cpu` at some level has several busy CPUs while another might have
    /// none.
    fn is_crowded(&self, cpu: CpuId) -> bool {
        let topology = self.config.topology;
        let crowded = |&(level, domain): &(Level, Domain)| {
            let own = topology.group(cpu, level);
            let idle = |range| self.hints.idle.ring(&self.all, range, cpu);
            domain.spreads
                && idle(own.clone()).count() + 1 < own.len()
                && idle(topology.span(cpu, level)).any(|idle| !own.contains(&idle.index()))
        };
        self.domains.iter().any(crowded)
    }

    /// Whether `cpu` is idle for so long that it is not to be woken for SCHED_IDLE tasks.
    pub(crate) fn sleeps_deep(&self, now: Time, cpu: CpuId) -> bool {
        let deep = |since| now.since(since) >= self.config.deep_sleep;
        self.has(Feature::PowerSavings) && self.hints.idle_since(cpu).is_some_and(deep)
    }
}
