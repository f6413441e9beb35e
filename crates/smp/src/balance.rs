//! Balancing of fair tasks over the levels of the topology: who looks when, and does what
//! [`runyard_engine::balance`] chose. It never moves a real-time task.
//!
//! Moments, nearest level first in each:
//!
//! - *At a tick*, from time to time, a busy CPU balances for its CPU group (`rebalance_domains`).
//! - *Newly idle*, a CPU looks for one task before it goes idle.
//! - *Idle* CPUs have no tick. A busy CPU that has tasks waiting, or neighbours where there is more
//!   room, kicks one of them, which then balances for all of them (`nohz_idle_balance`).
//!
//! With `IDLE_LOAD_BALANCE` a CPU that has nothing to do does not compare CPU groups to find a
//! waiting task: there is room for it, so whoever has one waiting may give it. It asks the CPUs that
//! say so, the busiest of a few nearest ones first; what that costs does not grow with the machine.
//! If affinities keep it from those, it goes on with the next few at the next occasion, so that none
//! is left out for ever. A CPU with nothing but SCHED_IDLE tasks is asked by the one on which a
//! normal task waits, which has a tick, as the other may not.

use crate::machine::{Controlled, Effects, Machine, Moving, kick_if, leaves};
use crate::mask::Mask;
use crate::sync::Ordering;
use runyard_engine::balance::{
    Balanced, CpuGroup, Domain, Found, Imbalance, MAX_INTERVAL_PER_CPU, MAX_PINNED_INTERVAL,
    Measure, Moment, Pass, Survey, Verdict, power_of_cpu, queue_rank,
};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::Enqueue;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::{Level, Topology};
use runyard_engine::{FairPull, Stays};
use std::cmp::Reverse;

/// How many CPUs a search asks at each level, besides the best.
const CPUS_ASKED: usize = 16;

/// How often the idle CPUs are asked to balance at most, and a CPU on which normal tasks wait looks
/// for one with SCHED_IDLE tasks only: a jiffy at the 250 Hz of most distributions.
const IDLE_BALANCE_INTERVAL: Nanos = Nanos::from_millis(4);

/// How many tasks are moved in a pass at most (`sched_nr_migrate`).
const MAX_MOVED: u32 = 32;

/// How often an imbalance is doubled at most because nothing fitted into it. A task of which an
/// eighth fits makes things worse, but then it is another's turn: three equal tasks on two CPUs
/// rotate.
const MAX_RELAXED: u32 = 2;

/// Of how many CPUs with nothing but pinned tasks a pass finds out.
const MAX_TRIED: usize = 4;

/// How many levels there are at most.
const LEVELS: usize = 3;

/// (l) When a CPU balances next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Balance {
    levels: [Progress; LEVELS],
    /// When a busy CPU looks at the above again, at a tick.
    next_look: Time,
    /// When a CPU on which normal tasks wait looks for one with SCHED_IDLE tasks only again.
    next_relief: Time,
    /// From where a search goes on after it was of no use with the best.
    cursor: CpuId,
}

/// How a level goes for one CPU.
#[derive(Clone, Copy, Debug)]
struct Progress {
    last: Time,
    interval: Nanos,
    /// Passes without success in sequence.
    failed: u32,
}

/// A pass of one CPU at one level.
#[derive(Clone, Copy, Debug)]
struct Site {
    now: Time,
    cpu: CpuId,
    level: Level,
    pass: Pass,
}

impl Site {
    fn measuring(self, measure: Measure) -> Site {
        Site { pass: Pass { measure, ..self.pass }, ..self }
    }

    fn tell<W>(self, fx: &mut impl Effects<W>, found: Found) {
        let Pass { measure, moment, .. } = self.pass;
        fx.balanced(self.cpu, Balanced { level: self.level, moment, measure, found });
    }
}

/// What came of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Balanced,
    Moved(u32),
    /// What should be moved may not run here.
    Pinned,
    /// Something should be moved and could not, from this CPU.
    Failed(CpuId, Measure),
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

impl Outcome {
    fn found(self) -> Found {
        match self {
            Outcome::Balanced => Found::Balance,
            Outcome::Moved(tasks) => Found::Tasks(tasks),
            Outcome::Pinned => Found::Pinned,
            Outcome::Failed(..) => Found::Nothing,
        }
    }
}

impl Balance {
    pub(crate) fn new(topology: Topology) -> Balance {
        let progress = |level| {
            let interval = Domain::of(level, topology).min_interval;
            Progress { last: Time::ZERO, interval, failed: 0 }
        };
        let levels = [Level::Smt, Level::Node, Level::Machine].map(progress);
        Balance { levels, next_look: Time::ZERO, next_relief: Time::ZERO, cursor: CpuId(0) }
    }

    /// Whether something may be due at this tick of a busy CPU.
    pub(crate) fn looks(&self, now: Time) -> bool {
        self.next_look <= now
    }

    fn of(&mut self, level: Level) -> &mut Progress {
        &mut self.levels[level as usize]
    }
}

impl Progress {
    /// What a pass means for the next ones; whether a running task is to be taken.
    fn note(&mut self, outcome: Outcome, Pass { moment, domain, .. }: Pass) -> bool {
        let longer = Nanos(self.interval.0 * 2);
        match outcome {
            Outcome::Moved(_) => (self.failed, self.interval) = (0, domain.min_interval),
            Outcome::Balanced if self.interval < domain.max_interval => {
                (self.failed, self.interval) = (0, longer);
            }
            Outcome::Balanced => self.failed = 0,
            Outcome::Pinned => {
                self.failed = 0;
                self.interval = longer.min(MAX_PINNED_INTERVAL);
            }
            Outcome::Failed(..) => {
                self.failed += u32::from(moment != Moment::NewlyIdle);
                self.interval = domain.min_interval;
            }
        }
        self.failed > domain.cache_nice_tries + 2
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
        if newly && self.hints.overloaded.is_empty() || !self.hints.online.contains(cpu) {
            return false;
        }
        match newly {
            true => self.balance_newly_idle(now, cpu, fx),
            false => self.balance_idle_cpus(now, cpu, fx),
        }
    }

    /// What a busy CPU does for balance at a tick; `looks`, whether a pass may be due.
    pub(crate) fn balance_tick(
        &self,
        now: Time,
        cpu: CpuId,
        looks: bool,
        fx: &mut impl Effects<W>,
    ) {
        if !self.has(Feature::LoadBalance) {
            return;
        }
        if looks {
            self.rebalance(now, cpu, Moment::Busy, fx);
        }
        if self.hints.overloaded.contains(cpu) {
            self.help_with(now, cpu, fx);
        } else if looks && self.is_crowded(cpu) {
            self.kick_an_idle_cpu(now, cpu, fx);
        }
    }

    fn balance_newly_idle(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        // What it would take has something in the caches of its CPU, and this one is busy again soon.
        let short = self.inspect(cpu, |rq| rq.avg_idle() < self.config.migration_cost);
        if short {
            return false;
        }
        if self.has(Feature::IdleLoadBalance) {
            let pull = FairPull { hot: false, ..anything(cpu, Measure::All) };
            return self.search(now, Moment::NewlyIdle, pull, fx);
        }
        self.domains.iter().any(|&(level, domain)| {
            let pass = Pass { measure: Measure::All, moment: Moment::NewlyIdle, domain };
            matches!(self.pass(Site { now, cpu, level, pass }, fx), Outcome::Moved(_))
        })
    }

    /// Balances for every idle CPU. Says whether the one that does it has work now.
    fn balance_idle_cpus(&self, now: Time, own: CpuId, fx: &mut impl Effects<W>) -> bool {
        let searches = self.has(Feature::IdleLoadBalance);
        let mut found = false;
        for cpu in self.hints.idle.ring(&self.all, 0..self.cpus.len(), own) {
            let wanted = match self.sleeps_deep(now, cpu) && cpu != own {
                true => Measure::Normal,
                false => Measure::All,
            };
            let moved = searches && self.search(now, Moment::Idle, anything(cpu, wanted), fx)
                || self.rebalance(now, cpu, Moment::Idle, fx);
            found |= moved && cpu == own;
        }
        found
    }

    /// Gives a normal task that waits on `cpu` to a CPU that has nothing but SCHED_IDLE tasks, which
    /// need not do anything for it; of the nearest to one with few.
    fn relieve(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let few = |to| Reverse(self.hints.counts(to).nr_fair);
        let found = self.ask(&self.hints.sched_idle, cpu, few, |to| {
            self.fetch(now, cpu, anything(to, Measure::Normal), fx).is_ok()
        });
        self.tell_search(cpu, (Moment::Busy, Measure::Normal), found, fx);
    }

    /// Takes one task that waits anywhere for a CPU that could run it at once; of the nearest from
    /// one with many. Says whether there is one.
    fn search(&self, now: Time, moment: Moment, pull: FairPull, fx: &mut impl Effects<W>) -> bool {
        let mask = match pull.measure {
            Measure::Normal => &self.hints.pressed,
            Measure::All | Measure::Idle => &self.hints.overloaded,
        };
        if mask.is_empty() {
            return false;
        }
        let many = |from| self.hints.counts(from).nr_fair;
        let gives = |from| self.fetch(now, from, pull, fx).is_ok();
        let found = self.ask(mask, pull.to, many, gives);
        self.tell_search(pull.to, (moment, pull.measure), found, fx);
        found.is_some()
    }

    /// Asks CPUs of `mask`, nearest level first, until one agrees, and tells the level: of the nearest
    /// few the best, then a few from where asking ended last time, so that none is left out for ever.
    fn ask<K: Ord>(
        &self,
        mask: &Mask,
        cpu: CpuId,
        rank: impl Fn(CpuId) -> K,
        mut agrees: impl FnMut(CpuId) -> bool,
    ) -> Option<Level> {
        let cursor = self.with_balance(cpu, |balance| balance.cursor);
        let mut last = None;
        let found = self.domains.iter().find(|&&(level, _)| {
            let span = self.config.topology.span(cpu, level);
            let some = |start| {
                let others = mask.ring(&self.all, span.clone(), start).filter(|&it| it != cpu);
                others.take(CPUS_ASKED)
            };
            let best = some(cpu).max_by_key(|&other| (rank(other), Reverse(other)));
            best.is_some_and(|best| {
                agrees(best)
                    || some(cursor).filter(|&it| it != best).any(|other| {
                        last = Some(other);
                        agrees(other)
                    })
            })
        });
        if let Some(last) = last {
            let next = CpuId::at((last.index() + 1) % self.cpus.len());
            self.with_balance(cpu, |balance| balance.cursor = next);
        }
        found.map(|&(level, _)| level)
    }

    /// Tells of a search; one that found nobody came to the widest level.
    fn tell_search(
        &self,
        cpu: CpuId,
        (moment, measure): (Moment, Measure),
        level: Option<Level>,
        fx: &mut impl Effects<W>,
    ) {
        let found = level.map_or(Found::Nothing, |_| Found::Tasks(1));
        if let Some(level) = level.or(self.domains.last().map(|&(level, _)| level)) {
            fx.balanced(cpu, Balanced { level, moment, measure, found });
        }
    }

    /// Balances `cpu` at each level that is due, as long as it is the one to do it for its CPU
    /// group. Says whether something was moved to it.
    fn rebalance(&self, now: Time, cpu: CpuId, moment: Moment, fx: &mut impl Effects<W>) -> bool {
        let (mut moved, mut moment) = (false, moment);
        let due = self.due_levels(now, cpu, moment);
        for &(level, domain) in self.domains.iter().filter(|(level, _)| due[*level as usize]) {
            let pass = Pass { measure: Measure::All, moment, domain };
            let site = Site { now, cpu, level, pass };
            if !self.is_designated(cpu, level) {
                self.note(site, Outcome::Balanced);
                break;
            }
            if domain.serialize && self.hints.serialized.swap(true, Ordering::AcqRel) {
                continue;
            }
            if self.balance_level(site, fx) {
                (moved, moment) = (true, Moment::Busy);
            }
            if domain.serialize {
                self.hints.serialized.store(false, Ordering::Release);
            }
        }
        moved
    }

    /// The levels whose time has come, which begins anew.
    fn due_levels(&self, now: Time, cpu: CpuId, moment: Moment) -> [bool; LEVELS] {
        let most = Nanos(MAX_INTERVAL_PER_CPU.0 * self.cpus.len() as u64);
        self.with_balance(cpu, |balance| {
            let (mut due, mut next_look) = ([false; LEVELS], Time::MAX);
            for &(level, domain) in &self.domains {
                let progress = balance.of(level);
                let factor = if moment == Moment::Busy { domain.busy_factor } else { 1 };
                let interval = Nanos(progress.interval.0 * factor).min(most).max(self.config.tick);
                if progress.last + interval <= now {
                    progress.last = now;
                    due[level as usize] = true;
                }
                let crowded = if domain.spreads { IDLE_BALANCE_INTERVAL } else { interval };
                next_look = next_look.min(progress.last + interval).min(now + crowded);
            }
            balance.next_look = next_look;
            due
        })
    }

    /// Whether `cpu` balances for its CPU group: its first idle CPU does, or one with SCHED_IDLE
    /// tasks only, or its first.
    fn is_designated(&self, cpu: CpuId, level: Level) -> bool {
        let group = self.config.topology.group(cpu, level);
        let (hints, first) = (&self.hints, CpuId::at(group.start));
        let mut who = hints.idle.ring(&self.all, group.clone(), first).next();
        if self.has(Feature::IdleLoadBalance) {
            who = who.or_else(|| hints.sched_idle.ring(&self.all, group.clone(), first).next());
        }
        who.or_else(|| hints.online.ring(&self.all, group, first).next()) == Some(cpu)
    }

    /// A pass for each measure, until one moves something; says whether one does. What was found
    /// to be wrong first counts for the next time.
    fn balance_level(&self, site: Site, fx: &mut impl Effects<W>) -> bool {
        let mut outcome = Outcome::Balanced;
        for measure in Pass::measures(self.config.features, site.pass.domain) {
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
        if let Outcome::Failed(from, measure @ Measure::All) = outcome
            && takes_running
        {
            self.take_running(site, from, measure, fx);
        }
        matches!(outcome, Outcome::Moved(_))
    }

    fn note(&self, site: Site, outcome: Outcome) -> bool {
        self.with_balance(site.cpu, |balance| {
            // The next pass may be due sooner than it was.
            balance.next_look = Time::ZERO;
            balance.of(site.level).note(outcome, site.pass)
        })
    }

    /// Active balance: has the running task of `from` preempted and sent here.
    fn take_running(&self, site: Site, from: CpuId, measure: Measure, fx: &mut impl Effects<W>) {
        let Site { now, cpu, level, pass } = site;
        let (given, _) = self.take(from, fx, |rq| rq.give_curr(now, cpu, measure));
        match given {
            Ok(resched) => {
                kick_if(resched, from, fx);
                site.tell(fx, Found::Running);
                let tries = pass.domain.cache_nice_tries + 1;
                self.with_balance(cpu, |it| it.of(level).failed = tries);
            }
            Err(Stays::Pinned) => {
                self.note(site, Outcome::Pinned);
            }
            Err(Stays::Nobody | Stays::NotNow) => {}
        }
    }

    /// Compares the CPU groups of a level, and pulls from the busiest what is too much there.
    fn pass(&self, site: Site, fx: &mut impl Effects<W>) -> Outcome {
        let outcome = self.compare(site, fx);
        site.tell(fx, outcome.found());
        outcome
    }

    fn compare(&self, site: Site, fx: &mut impl Effects<W>) -> Outcome {
        let mut tried = Tried::default();
        loop {
            let Verdict::Pull(first, imbalance) = self.survey(site, &tried) else {
                return if tried.is_empty() { Outcome::Balanced } else { Outcome::Pinned };
            };
            let Some(from) = self.busiest_queue(site, first, imbalance, &tried) else {
                return Outcome::Balanced;
            };
            match self.pull_fair(site, from, imbalance, fx) {
                Ok(moved) => return Outcome::Moved(moved),
                Err(Stays::Pinned) if tried.add(from) => {}
                Err(Stays::Pinned) => return Outcome::Pinned,
                Err(Stays::Nobody | Stays::NotNow) => {
                    return Outcome::Failed(from, imbalance.measure(site.pass.measure));
                }
            }
        }
    }

    /// What to pull from which CPU group, which is named by the place of its first CPU.
    fn survey(&self, site: Site, tried: &Tried) -> Verdict<usize> {
        let Site { now, cpu, level, pass } = site;
        let topology = self.config.topology;
        let (size, span) = (topology.group_size(level), topology.span(cpu, level));
        let full = power_of_cpu(topology);
        let group = |first: usize| {
            let mut group = CpuGroup::default();
            for cpu in (first..first + size).map(CpuId::at) {
                if self.hints.online.contains(cpu) && !tried.has(cpu) {
                    group.add(self.hints.seen(now, cpu, full, pass.measure), pass.measure);
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
        let (full, measure) = (power_of_cpu(topology), pass.measure);
        let rank = |cpu| queue_rank(self.hints.seen(now, cpu, full, measure), measure, imbalance);
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
        Site { now, cpu, level, pass }: Site,
        from: CpuId,
        imbalance: Imbalance,
        fx: &mut impl Effects<W>,
    ) -> Result<u32, Stays> {
        let failed = self.with_balance(cpu, |balance| balance.of(level).failed);
        let (mut left, most) = match imbalance {
            Imbalance::Load(load) if pass.moment == Moment::NewlyIdle => (load, 1),
            Imbalance::Load(load) => (load, MAX_MOVED),
            Imbalance::Waiting | Imbalance::Any => (u64::MAX, 1),
        };
        if pass.measure != Measure::All {
            // Who fails again and again becomes less choosy (6.12, `detach_tasks`).
            left = left.saturating_mul(1 << failed.min(MAX_RELAXED));
        }
        let hot = failed > pass.domain.cache_nice_tries;
        let measure = imbalance.measure(pass.measure);
        let mut moved = 0;
        while moved < most && left > 0 {
            match self.fetch(now, from, FairPull { to: cpu, measure, max_load: left, hot }, fx) {
                Ok(load) => left = left.saturating_sub(load.max(1)),
                Err(stays) if moved == 0 => return Err(stays),
                Err(_) => break,
            }
            moved += 1;
        }
        Ok(moved)
    }

    /// Takes one waiting task from `from`; the load that went.
    fn fetch(
        &self,
        now: Time,
        from: CpuId,
        pull: FairPull,
        fx: &mut impl Effects<W>,
    ) -> Result<u64, Stays> {
        let (taken, resched) =
            self.take(from, fx, |rq| rq.detach_fair(now, pull).inspect(|(task, _)| leaves(task)));
        kick_if(resched, from, fx);
        let (task, load) = taken?;
        self.send(now, Moving::new(task, from, pull.to, Enqueue::Moved), fx);
        Ok(load)
    }

    /// Has somebody do what waits on `cpu`: a CPU that is idle; and if it waits still, one with
    /// SCHED_IDLE tasks only.
    fn help_with(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let kicked = self.kick_an_idle_cpu(now, cpu, fx);
        let normal = self.has(Feature::IdleLoadBalance) && self.hints.pressed.contains(cpu);
        if kicked || !normal || self.hints.sched_idle.is_empty() {
            return;
        }
        let due = self.with_balance(cpu, |balance| {
            let due = balance.next_relief <= now;
            if due {
                balance.next_relief = now + IDLE_BALANCE_INTERVAL;
            }
            due
        });
        if due {
            self.relieve(now, cpu, fx);
        }
    }

    /// An idle CPU has no tick: a busy one sees for it that it could help. Says whether it kicked one;
    /// it does not if somebody did lately.
    fn kick_an_idle_cpu(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        let next = &self.hints.next_idle_balance;
        if now.0 < next.load(Ordering::Acquire) {
            return false;
        }
        let mut idle = self.hints.idle.ring(&self.all, 0..self.cpus.len(), cpu);
        let important = self.hints.pressed.contains(cpu);
        let Some(idle) = idle.find(|&idle| important || !self.sleeps_deep(now, idle)) else {
            return false;
        };
        next.store((now + IDLE_BALANCE_INTERVAL).0, Ordering::Release);
        fx.kick(idle);
        true
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

/// Any one task of the measure, for a CPU that has room for it.
fn anything(to: CpuId, measure: Measure) -> FairPull {
    FairPull { to, measure, max_load: u64::MAX, hot: true }
}
