//! What a CPU sees of the machine when it balances: whether it is its turn, where tasks wait, and where there is room.
//! [`crate::balance`] acts on it. It sees the CPUs of its own root domain only.
//!
//! Accepted inaccuracy: the number of CPUs that a wake-up scans is that of a node (`SIS_UTIL`), also where a partition
//! has a part of the node. The kernel has one number for each partition.

use crate::host::Effects;
use crate::progress::IDLE_BALANCE_INTERVAL;
use crate::sight::Sight;
use crate::sync::Ordering;
use runyard_engine::balance::power::FULL_POWER;
use runyard_engine::balance::survey::{BalanceVerdict, Survey};
use runyard_engine::balance::{
    Balanced, CpuGroup, Domain, Found, IdleKind, Imbalance, Measure, Pass, queue_rank,
};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::limits::Pools;
use runyard_engine::task::Task;
use runyard_engine::time::Time;
use runyard_engine::topology::Level;
use std::cmp::Reverse;

/// The number of CPUs that a search examines at each level.
pub(crate) const CPUS_ASKED: usize = 16;

/// The largest number of CPUs that one pass can set aside because all their tasks are pinned.
const MAX_TRIED: usize = 4;

/// One pass of one CPU at one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) sight: &'a Sight,
    pub(crate) now: Time,
    pub(crate) cpu: CpuId,
    pub(crate) level: Level,
    pub(crate) pass: Pass,
    /// The CPU sleeps deeply and must not wake for SCHED_IDLE tasks.
    pub(crate) spares: bool,
}

impl<'a> Site<'a> {
    pub(crate) fn measuring(self, measure: Measure) -> Site<'a> {
        Site { pass: Pass { measure, ..self.pass }, ..self }
    }

    pub(crate) fn report<W>(self, fx: &mut impl Effects<W>, found: Found) {
        let Pass { measure, idle_kind, .. } = self.pass;
        fx.balanced(self.cpu, Balanced { level: self.level, idle_kind, measure, found });
    }

    /// Decides how much to pull, and from which CPU group. The place of its first CPU names a CPU group.
    #[inline(always)]
    pub(crate) fn survey(self, tried: &Tried) -> BalanceVerdict<usize> {
        let Site { sight, cpu, level, pass, .. } = self;
        let topology = sight.config.topology;
        let (size, span) = (topology.group_size(level), topology.span(cpu, level));
        let own = topology.group(cpu, level).start;
        let mut survey = Survey::new(pass, self.group(own, size, tried));
        for first in (own + size..span.end).step_by(size).chain((span.start..own).step_by(size)) {
            survey.add(first, self.group(first, size, tried));
        }
        survey.decide()
    }

    /// Returns the state of the `size` CPUs from `first` on.
    #[inline(always)]
    fn group(self, first: usize, size: usize, tried: &Tried) -> CpuGroup {
        let Site { sight, now, pass, .. } = self;
        let (mut group, peers) = (CpuGroup::default(), sight.peers(self.cpu));
        for cpu in (first..first + size).map(CpuId::at) {
            if sight.hints.online.contains(cpu) && peers.contains(cpu) && !tried.has(cpu) {
                group.add(sight.seen(now, cpu, pass.measure), pass.measure);
            }
        }
        group
    }

    /// Returns the CPU to pull from within a CPU group.
    pub(crate) fn busiest_queue(
        self,
        first: usize,
        imbalance: Imbalance,
        tried: &Tried,
    ) -> Option<CpuId> {
        let Site { sight, now, level, pass, .. } = self;
        let topology = sight.config.topology;
        let (measure, peers) = (pass.measure, sight.peers(self.cpu));
        let rank = |cpu| queue_rank(sight.seen(now, cpu, measure), measure, imbalance);
        (first..first + topology.group_size(level))
            .map(CpuId::at)
            .filter(|&cpu| sight.hints.online.contains(cpu) && peers.contains(cpu))
            .filter(|&cpu| !tried.has(cpu))
            .filter_map(|cpu| Some((rank(cpu)?, Reverse(cpu))))
            .max()
            .map(|(_, Reverse(cpu))| cpu)
    }
}

/// The CPUs from which this pass cannot pull any task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried([Option<CpuId>; MAX_TRIED]);

impl Tried {
    pub(crate) fn has(&self, cpu: CpuId) -> bool {
        self.0.contains(&Some(cpu))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// Adds a CPU. Returns `false` if the list is full.
    pub(crate) fn add(&mut self, cpu: CpuId) -> bool {
        let free = self.0.iter_mut().find(|tried| tried.is_none());
        free.map(|tried| *tried = Some(cpu)).is_some()
    }
}

impl Sight {
    /// Returns the passes of a newly idle CPU, nearest level first.
    pub(crate) fn newly_idle_sites(&self, now: Time, cpu: CpuId) -> impl Iterator<Item = Site<'_>> {
        self.domains.iter().map(move |&(level, domain)| {
            let pass = Pass { measure: Measure::All, idle_kind: IdleKind::NewlyIdle, domain };
            Site { sight: self, now, cpu, level, pass, spares: false }
        })
    }

    /// Returns a CPU where a fair task that waits on `cpu` could run at once, and the level that both share.
    pub(crate) fn find_room(
        &self,
        now: Time,
        cpu: CpuId,
        task: &Task<impl Sized>,
        idle_class: bool,
    ) -> Option<(CpuId, Level)> {
        let affinity = &self.within(cpu, &task.attr().affinity);
        let soaks = !idle_class && self.hints.pressed.contains(cpu);
        let cookie = self.cookie_of(task);
        let wakes = |idle: CpuId| !idle_class || !self.sleeps_deep(now, idle);
        let runs_on = |to: CpuId| !self.groups.is_throttled_on(task.queue_group(), to);
        let room = |&(level, _): &(Level, Domain)| {
            let span = self.config.topology.span(cpu, level);
            let idle = || {
                let mut idle = self.hints.idle.ring(affinity, span.clone(), cpu);
                idle.find(|&to| wakes(to) && self.gains_at(to, cpu, cookie) && runs_on(to))
            };
            let soaker = || {
                let some = self.hints.sched_idle.ring(affinity, span.clone(), cpu);
                let few = |&to: &CpuId| self.hints.counts(to).nr_fair;
                some.take(CPUS_ASKED).filter(|&to| runs_on(to)).min_by_key(few)
            };
            Some((if soaks { idle().or_else(soaker) } else { idle() }?, level))
        };
        self.domains.iter().find_map(room)
    }

    /// Tries overloaded CPUs, nearest level first, until one gives a task, and returns its level. At each level it
    /// examines a few of the nearest CPUs: first the one with the most tasks, then the others.
    pub(crate) fn try_overloaded(
        &self,
        cpu: CpuId,
        mut gives: impl FnMut(CpuId) -> bool,
    ) -> Option<Level> {
        let found = self.domains.iter().find(|&&(level, _)| {
            let span = self.config.topology.span(cpu, level);
            let some = || {
                let waiting = self.hints.overloaded.ring(self.peers(cpu), span.clone(), cpu);
                waiting.filter(|&it| it != cpu).take(CPUS_ASKED)
            };
            let tasks = |it: CpuId| self.hints.counts(it).nr_fair;
            let most = some().max_by_key(|&it| (tasks(it), Reverse(it)));
            most.is_some_and(|most| gives(most) || some().filter(|&it| it != most).any(&mut gives))
        });
        found.map(|&(level, _)| level)
    }

    /// Reports a search. A search without result is reported at the widest level.
    pub(crate) fn report_search<W>(
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

    /// Sets the number of CPUs of a node that a wake-up scans for an idle one, until the next balance of the node. The
    /// number falls with the utilization and is zero from 85 % on (`update_idle_cpu_scan`).
    pub(crate) fn refresh_idle_scan(&self, now: Time, cpu: CpuId) {
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

    /// Returns the place of the first CPU of a domain, within the root domain of `cpu`.
    pub(crate) fn first_of_domain(&self, cpu: CpuId, level: Level) -> usize {
        let (mut span, peers) = (self.config.topology.span(cpu, level), self.peers(cpu));
        span.find(|&it| peers.contains(CpuId::at(it))).unwrap_or(cpu.index())
    }

    /// Returns whether `cpu` balances for its CPU group. That is the first idle CPU of the group, else the first with
    /// only SCHED_IDLE tasks, else the first online CPU.
    pub(crate) fn should_balance(&self, cpu: CpuId, level: Level) -> bool {
        let group = self.config.topology.group(cpu, level);
        let (hints, peers, first) = (&self.hints, self.peers(cpu), CpuId::at(group.start));
        let mut who = hints.idle.ring(peers, group.clone(), first).next();
        if self.has(Feature::IdleLoadBalance) {
            who = who.or_else(|| hints.sched_idle.ring(peers, group.clone(), first).next());
        }
        who.or_else(|| hints.online.ring(peers, group, first).next()) == Some(cpu)
    }

    /// Kicks an idle CPU to balance, unless one was kicked recently. A busy CPU does this because idle CPUs have no
    /// tick.
    pub(crate) fn kick_idle_balancer<W>(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let next = &self.hints.next_idle_balance;
        if now.0 < next.load(Ordering::Acquire) {
            return;
        }
        let mut idle = self.hints.idle.ring(&self.all, 0..self.nr_cpus(), cpu);
        let important = self.hints.pressed.contains(cpu);
        let balances =
            |idle| !self.is_isolated(idle) && (important || !self.sleeps_deep(now, idle));
        if let Some(idle) = idle.find(|&idle| balances(idle)) {
            next.store((now + IDLE_BALANCE_INTERVAL).0, Ordering::Release);
            self.hints.idle_balance_due.store(true, Ordering::Release);
            fx.kick(idle);
        }
    }

    /// Returns whether the CPU group of `cpu` at some level has several busy CPUs while another group has an idle CPU.
    pub(crate) fn is_crowded(&self, cpu: CpuId) -> bool {
        let (topology, peers) = (self.config.topology, self.peers(cpu));
        let crowded = |&(level, domain): &(Level, Domain)| {
            let own = topology.group(cpu, level);
            let idle = |range| self.hints.idle.ring(peers, range, cpu);
            let cpus = || own.clone().filter(|&cpu| peers.contains(CpuId::at(cpu))).count();
            domain.spreads
                && idle(own.clone()).count() + 1 < cpus()
                && idle(topology.span(cpu, level)).any(|idle| !own.contains(&idle.index()))
        };
        self.domains.iter().any(crowded)
    }
}
