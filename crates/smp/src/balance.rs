//! Balancing of fair tasks: a basic form, over the levels of the topology. It never moves a
//! real-time task.
//!
//! Three moments. A CPU that is about to idle takes one waiting task from the busiest of some
//! overloaded CPUs, nearest first. A busy CPU, at a tick, from time to time takes load from a CPU
//! that has clearly more. And since an idle CPU has no tick, a busy CPU with tasks waiting kicks
//! an idle one, which then balances for itself.

use crate::machine::{Controlled, Effects, Machine, Moving, kick_if, leaves};
use crate::sync::Ordering;
use runyard_engine::FairPull;
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::Enqueue;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Level;

/// How many overloaded CPUs a balancing CPU compares at each level. A bound keeps the cost of
/// going idle independent of the size of the machine; the ring starts at the CPU itself, so that
/// different CPUs look at different ones.
const CPUS_COMPARED: usize = 16;

/// A busy CPU balances at a level once in this many milliseconds for each CPU of the level
/// (`busy_factor` of 6.12).
const BUSY_FACTOR: u64 = 16;

/// By how many per cent a CPU's load must exceed the own one to be worth balancing
/// (`imbalance_pct` of 6.12).
const IMBALANCE_PCT: u64 = 117;

/// How often at most a busy CPU asks an idle one to balance.
const IDLE_KICK_INTERVAL: Nanos = Nanos::from_millis(4);

/// When a CPU balances next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Balance {
    next: [Time; 3],
    next_kick: Time,
}

impl<W: Controlled> Machine<W> {
    /// A CPU that has nothing to do takes one waiting task. Says whether it found one.
    pub(crate) fn balance_idle(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) -> bool {
        if !self.hints.online.contains(cpu) {
            return false;
        }
        let any = FairPull { to: cpu, max_load: u64::MAX };
        self.config.topology.levels().any(|level| {
            self.busiest(cpu, level).is_some_and(|from| self.fetch(now, from, any, fx).is_some())
        })
    }

    /// What a busy CPU does for balance at a tick.
    pub(crate) fn balance_tick(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        if !self.has(Feature::LoadBalance) {
            return;
        }
        for level in self.config.topology.levels() {
            let span = self.config.topology.span(cpu, level).len() as u64;
            let interval = Nanos::from_millis(BUSY_FACTOR * span);
            let due = self.with_balance(cpu, |balance| {
                let next = &mut balance.next[level as usize];
                let due = *next <= now;
                if due {
                    *next = now + interval;
                }
                due
            });
            if due {
                self.balance_busy(now, cpu, level, fx);
            }
        }
        self.kick_an_idle_cpu(now, cpu, fx);
    }

    fn balance_busy(&self, now: Time, cpu: CpuId, level: Level, fx: &mut impl Effects<W>) {
        let Some(from) = self.busiest(cpu, level) else { return };
        let load = |cpu: CpuId| self.cpus[cpu.index()].load.load(Ordering::Acquire);
        let (theirs, own) = (load(from), load(cpu));
        if theirs.saturating_mul(100) <= own.saturating_mul(IMBALANCE_PCT) {
            return;
        }
        let mut wanted = (theirs - own) / 2;
        while let Some(moved) = self.fetch(now, from, FairPull { to: cpu, max_load: wanted }, fx) {
            wanted = wanted.saturating_sub(moved.max(1));
            if wanted == 0 {
                return;
            }
        }
    }

    /// The overloaded CPU with the most fair tasks among the nearest few of the level.
    fn busiest(&self, cpu: CpuId, level: Level) -> Option<CpuId> {
        let span = self.config.topology.span(cpu, level);
        let some = self.hints.overloaded.ring(&self.all, span, cpu).filter(|&from| from != cpu);
        let busy = |from: CpuId| self.cpus[from.index()].nr_fair.load(Ordering::Acquire);
        some.take(CPUS_COMPARED).max_by_key(|&from| (busy(from), std::cmp::Reverse(from)))
    }

    /// Takes one task from `from`; the load that went.
    fn fetch(
        &self,
        now: Time,
        from: CpuId,
        pull: FairPull,
        fx: &mut impl Effects<W>,
    ) -> Option<u64> {
        let (taken, resched) =
            self.take(from, fx, |rq| rq.detach_fair(now, pull).inspect(|(task, _)| leaves(task)));
        kick_if(resched, from, fx);
        let (task, load) = taken?;
        self.send(now, Moving::new(task, from, pull.to, Enqueue::Moved), fx);
        Some(load)
    }

    fn kick_an_idle_cpu(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        if !self.hints.overloaded.contains(cpu) {
            return;
        }
        let n = self.cpus.len();
        let Some(idle) = self.hints.idle.ring(&self.all, 0..n, cpu).next() else { return };
        let due = self.with_balance(cpu, |balance| {
            let due = balance.next_kick <= now;
            if due {
                balance.next_kick = now + IDLE_KICK_INTERVAL;
            }
            due
        });
        if due {
            fx.kick(idle);
        }
    }
}
