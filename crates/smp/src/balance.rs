//! Balancing of fair tasks over the levels of the topology.
//!
//! In a pass, [`runyard_engine::balance`] chooses the moves. This file decides which CPU balances at which time, chooses the
//! moves of a search and of a gift, and carries all of them out. It never moves a real-time task.
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
use runyard_engine::run_queue::{FairPull, LoadAverages, MAX_LOOKED_AT, NotPulled};
use runyard_engine::task::Task;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Level;
use std::cmp::Reverse;

/// The number of CPUs that a search examines at each level.
const CPUS_ASKED: usize = 16;

/// The shortest interval between two idle balances. It is also the time that a CPU waits after a search without result
/// before it looks again for CPUs to give waiting tasks to. One jiffy at the 250 Hz of most distributions.
const IDLE_BALANCE_INTERVAL: Nanos = Nanos::from_millis(4);

/// The estimated cost for a newly idle CPU to examine one other CPU, under the later rules.
const LOOKED_AT: Nanos = Nanos::from_micros(2);

/// The largest number of tasks that one pass moves (`sched_nr_migrate`).
const MAX_MOVED: u32 = 32;

/// The largest number of rounds in which a CPU tries to give one of its waiting tasks away. Several short rounds keep
/// the hold time of its lock short.
const MAX_GIVE_AWAY_ROUNDS: u32 = 8;

/// The largest number of CPUs that one pass can set aside because all their tasks are pinned.
const MAX_TRIED: usize = 4;

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

/// One pass of one CPU at one level.
#[derive(Clone, Copy, Debug)]
struct Site {
    now: Time,
    cpu: CpuId,
    level: Level,
    pass: Pass,
    /// The CPU sleeps deeply and must not wake for SCHED_IDLE tasks.
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

/// The CPUs from which this pass cannot pull any task.
#[derive(Clone, Copy, Debug, Default)]
struct Tried([Option<CpuId>; MAX_TRIED]);

impl Tried {
    fn has(&self, cpu: CpuId) -> bool {
        self.0.contains(&Some(cpu))
    }

    fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// Adds a CPU. Returns `false` if the list is full.
    fn add(&mut self, cpu: CpuId) -> bool {
        let free = self.0.iter_mut().find(|tried| tried.is_none());
        free.map(|tried| *tried = Some(cpu)).is_some()
    }
}

impl<W: Controlled> Machine<W> {
    /// Balances for a CPU without work, which is either newly idle or was kicked while idle. Returns whether it found
    /// work.
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

    /// Balances for a busy CPU at a tick. `is_due` says whether a pass may be due.
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
        if gives && let Some(cores) = &self.cores {
            // A forced idle thread has no tick.
            let stands = |&thread: &CpuId| {
                self.hints.overloaded.contains(thread) && self.forced_idle(thread).is_some()
            };
            cores.siblings(cpu).filter(stands).for_each(|thread| self.give_away(now, thread, fx));
        }
        if waits && !gives || is_due && self.is_crowded(cpu) {
            self.kick_idle_balancer(now, cpu, fx);
        }
    }

    fn balance_newly_idle(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        // A short average idle time means that the CPU is busy again soon. A pulled task would then only lose its warm
        // cache. Under the later rule, the search itself must also fit into the idle time (`max_newidle_lb_cost`).
        let avg_idle = self.inspect(cpu, |rq| rq.classes().idle().average());
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

    /// Runs one pass for a newly idle CPU, unless the random draw skips it. Returns whether it found work.
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

    /// Returns the state of another CPU as a balancing CPU sees it. Under the rules of 5.5 this is the recent average,
    /// not the state of the moment.
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

    /// Balances for every idle CPU until `own`, which does this work, has a task itself. Returns whether it has one.
    fn balance_idle_cpus(&self, now: Time, own: CpuId, fx: &mut impl Effects<W>) -> bool {
        let mut known = Known::default();
        let mut idle = self.hints.idle.ring(&self.all, 0..self.cpus.len(), own);
        idle.any(|cpu| {
            let balancer = Balancer { now, cpu, idle_kind: IdleKind::Idle };
            self.rebalance_domains(balancer, &mut known, fx) && cpu == own
        })
    }

    /// Sends a task that waits on `cpu` to a CPU that can run it at once. The nearest idle CPU is preferred. A task
    /// outside the SCHED_IDLE class can also go to a CPU that has only SCHED_IDLE tasks.
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
                let given = rq.at(now).give_fair(|task, idle_class| {
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

    /// Returns a CPU where a fair task that waits on `cpu` could run at once, and the level that both share.
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

    /// Pulls one waiting task to a CPU that is about to idle, from a nearby CPU with many tasks. Returns whether it
    /// found one. After a search without result, the next search is delayed. A tick of the overloaded CPU gives its
    /// waiting tasks away in the meantime.
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

    /// Tries overloaded CPUs, nearest level first, until one gives a task, and returns its level. At each level it
    /// examines a few of the nearest CPUs: first the one with the most tasks, then the others.
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

    /// Reports a search. A search without result is reported at the widest level.
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
                // Other idle CPUs compare the same CPU groups, unless the groups have several CPUs each.
                Outcome::Balanced if !domain.spreads && idle_kind == IdleKind::Idle => {
                    known.0[level as usize] = Some(span);
                }
                _ => {}
            }
        }
        moved
    }

    /// Sets the number of CPUs of a node that a wake-up scans for an idle one, until the next balance of the node. The
    /// number falls with the utilization and is zero from 85 % on (`update_idle_cpu_scan`).
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

    /// Returns the levels that are due, and restarts their intervals.
    fn due_levels(&self, Balancer { now, cpu, idle_kind }: Balancer) -> [bool; LEVELS] {
        let most = Nanos(MAX_INTERVAL_PER_CPU.0 * self.cpus.len() as u64);
        self.with_balance(cpu, |balance| {
            let (mut due, mut next_balance) = ([false; LEVELS], Time::MAX);
            for &(level, domain) in &self.domains {
                let progress = balance.of(level);
                let factor = if idle_kind == IdleKind::Busy { domain.busy_factor } else { 1 };
                let interval = Nanos(progress.interval.0 * factor);
                // The shorter interval keeps busy CPUs from being due at several levels at the same ticks
                // (`get_sd_balance_interval`).
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

    /// Returns whether `cpu` balances for its CPU group. That is the first idle CPU of the group, else the first with
    /// only SCHED_IDLE tasks, else the first online CPU.
    fn should_balance(&self, cpu: CpuId, level: Level) -> bool {
        let group = self.config.topology.group(cpu, level);
        let (hints, first) = (&self.hints, CpuId::at(group.start));
        let mut who = hints.idle.ring(&self.all, group.clone(), first).next();
        if self.has(Feature::IdleLoadBalance) {
            who = who.or_else(|| hints.sched_idle.ring(&self.all, group.clone(), first).next());
        }
        who.or_else(|| hints.online.ring(&self.all, group, first).next()) == Some(cpu)
    }

    /// Runs one pass for each measure until a pass moves a task. If none does, the first imbalance found counts for the
    /// next time.
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
        // Without a measure, the running task stays: no waiting task would gain if it left.
        if let Outcome::Failed(from, Some(measure)) = outcome
            && takes_running
        {
            self.active_balance(site, from, measure, fx);
        }
        outcome
    }

    fn note(&self, site: Site, outcome: Outcome) -> bool {
        self.with_balance(site.cpu, |balance| {
            // The next pass may now be due earlier than before.
            balance.next_balance = Time::ZERO;
            balance.of(site.level).note(outcome, site.pass.domain)
        })
    }

    /// Preempts the running task of `from` and sends it to the balancing CPU (`active_load_balance_cpu_stop`).
    fn active_balance(&self, site: Site, from: CpuId, measure: Measure, fx: &mut impl Effects<W>) {
        let Site { now, cpu, level, pass, .. } = site;
        let (given, _) = self.detach(from, fx, |rq| rq.at(now).give_curr(cpu, measure));
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

    /// Compares the CPU groups of a level, and pulls the excess from the busiest one.
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

    /// Decides how much to pull, and from which CPU group. The place of its first CPU names a CPU group.
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

    /// Returns the CPU to pull from within a CPU group.
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

    /// Pulls waiting tasks until the imbalance is gone or no task is left that fits.
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
            // Repeated failures raise the load that a pull accepts (6.12, `detach_tasks`).
            left = left.saturating_mul(1 << failed.min(u64::BITS - 1));
        }
        // The hardware threads of a core share their caches.
        let shares = by_room && level == Level::Smt;
        let hot = shares || failed > pass.domain.cache_nice_tries;
        let eligible = by_room
            && self.config.rules.pulls_eligible
            && failed == 0
            && self.hints.counts(cpu).nr_fair > 0;
        // The engine compares half of a task's load with this limit. By these rules its whole load must fit.
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

    /// Takes one waiting task from `from`, and returns its load.
    fn pull_one(
        &self,
        now: Time,
        from: CpuId,
        pull: FairPull,
        fx: &mut impl Effects<W>,
    ) -> Result<u64, NotPulled> {
        let (taken, resched) = self.detach(from, fx, |rq| {
            rq.at(now).detach_fair(pull).inspect(|(task, _)| mark_away(task))
        });
        kick_if(resched, from, fx);
        let (task, load) = taken?;
        self.migrate(now, Moving::new(task, from, pull.to, Enqueue::Moved), fx);
        Ok(load)
    }

    /// Kicks an idle CPU to balance, unless one was kicked recently. A busy CPU does this because idle CPUs have no
    /// tick.
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

    /// Returns whether the CPU group of `cpu` at some level has several busy CPUs while another group has an idle CPU.
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

    /// Returns whether `cpu` has been idle for so long that SCHED_IDLE tasks must not wake it.
    pub(crate) fn sleeps_deep(&self, now: Time, cpu: CpuId) -> bool {
        let deep = |since| now.since(since) >= self.config.deep_sleep;
        self.has(Feature::PowerSavings) && self.hints.idle_since(cpu).is_some_and(deep)
    }
}
