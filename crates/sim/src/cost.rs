//! The costs of the machine's own work.
//!
//! Two runs with one seed draw the same, whatever the policy: the n-th cost of a kind on a CPU, and the n-th system
//! call of a task. So a policy with one more switch does not change what interrupts cost, or another CPU.

use rand_pcg::Pcg64Mcg;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;
use runyard_workload::draw::{Draw, below};
use runyard_workload::draw::{Stream, stream};
use runyard_workload::scenario::{Costs, Step};

/// A kind of cost, with a generator of its own on each CPU.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// How long the CPU's published state is held back.
    Hint,
    Switch,
    Migration,
    Ipi,
    Wakeup,
    Interrupt,
    Latency,
    IdleExit,
    Wait,
    WakeCall,
}

/// The number of kinds.
const KINDS: usize = Kind::WakeCall as usize + 1;

#[derive(Debug)]
pub(crate) struct CostModel {
    costs: Costs,
    /// The number of groups that a task of each group is in.
    levels: Vec<usize>,
    draws: Vec<[Pcg64Mcg; KINDS]>,
}

impl CostModel {
    /// The costs of a machine with task groups, of which `levels` has the number that a task of each is in.
    pub(crate) fn new(
        costs: Costs,
        levels: Vec<usize>,
        topology: Topology,
        seed: u64,
    ) -> CostModel {
        let kinds = |cpu| std::array::from_fn(|kind| stream(seed, Stream::Cost(cpu, kind as u32)));
        CostModel { costs, levels, draws: topology.iter().map(kinds).collect() }
    }

    pub(crate) fn context_switch(&mut self, cpu: CpuId) -> Nanos {
        self.draw(cpu, Kind::Switch, self.costs.context_switch)
    }

    pub(crate) fn migration(&mut self, cpu: CpuId) -> Nanos {
        self.draw(cpu, Kind::Migration, self.costs.migration)
    }

    pub(crate) fn ipi(&mut self, cpu: CpuId) -> Nanos {
        let cost = self.draw(cpu, Kind::Ipi, self.costs.ipi);
        cost + self.spread(cpu, Kind::Ipi, self.costs.ipi_spread)
    }

    /// Returns the longest duration of a kick.
    pub(crate) fn longest_kick(&self) -> Nanos {
        self.costs.ipi + self.costs.jitter + Costs::longest_spread(self.costs.ipi_spread)
    }

    /// Returns the cost of a wake-up, of a task of `group` if it is fair.
    pub(crate) fn wakeup(&mut self, cpu: CpuId, group: Option<GroupId>) -> Nanos {
        let of_fair = |group: GroupId| self.fair_wakeup(self.levels[group.index()]);
        let cost = group.map_or(self.costs.wakeup, of_fair);
        self.draw(cpu, Kind::Wakeup, cost)
    }

    fn fair_wakeup(&self, levels: usize) -> Nanos {
        let Costs { wakeup, wakeup_fair, wakeup_level, .. } = self.costs;
        wakeup + wakeup_fair + Nanos(wakeup_level.0 * levels as u64)
    }

    /// Returns the cost of a timer interrupt.
    pub(crate) fn timer_interrupt(&mut self, cpu: CpuId) -> Nanos {
        let cost = self.draw(cpu, Kind::Interrupt, self.costs.timer_interrupt);
        cost + self.spread(cpu, Kind::Interrupt, self.costs.timer_spread)
    }

    /// Returns the delay from the time for which a timer was set to its interrupt.
    pub(crate) fn timer_latency(&mut self, cpu: CpuId) -> Nanos {
        self.draw_if_any(cpu, Kind::Latency, self.costs.timer_latency)
    }

    /// Returns the longest delay of a timer interrupt.
    pub(crate) fn longest_timer_latency(&self) -> Nanos {
        match self.costs.timer_latency {
            Nanos::ZERO => Nanos::ZERO,
            latency => latency + self.costs.jitter,
        }
    }

    /// Returns a bound on the time from a request to another CPU to its completion, if that CPU has some other work to
    /// do first.
    pub(crate) fn longest_errand(&self) -> Nanos {
        let Costs { context_switch, idle_exit, idle_exit_spread, jitter, .. } = self.costs;
        let wakeup = self.fair_wakeup(self.levels.iter().copied().max().unwrap_or(0));
        let work = context_switch + wakeup + idle_exit + Nanos(3 * jitter.0);
        let interrupts = self.longest_kick()
            + self.costs.longest_interrupt()
            + Costs::longest_spread(idle_exit_spread);
        Nanos(4 * (work + interrupts).0)
    }

    pub(crate) fn idle_exit(&mut self, cpu: CpuId) -> Nanos {
        let cost = self.draw_if_any(cpu, Kind::IdleExit, self.costs.idle_exit);
        cost + self.spread(cpu, Kind::IdleExit, self.costs.idle_exit_spread)
    }

    /// Returns the time of the system call of `step`, drawn from the generator of its task, or zero if it has none.
    pub(crate) fn system_call(&self, draws: &mut Pcg64Mcg, step: &Step) -> Call {
        let cost = self.costs.system_calls.of(step);
        cost.map_or(Call::NONE, |cost| Call::of(cost, with_jitter(draws, cost, self.costs.jitter)))
    }

    /// Returns the time of a system call that waits for another task. Whether a task waits is a matter of policy, so
    /// the draw is the CPU's.
    pub(crate) fn wait(&mut self, cpu: CpuId) -> Call {
        let cost = self.costs.system_calls.lock;
        Call::of(cost, self.draw_if_any(cpu, Kind::Wait, cost))
    }

    /// Returns the time of a system call before the wake-up that it makes.
    pub(crate) fn wake_call(&mut self, cpu: CpuId) -> Nanos {
        self.draw_if_any(cpu, Kind::WakeCall, self.costs.system_calls.wake)
    }

    /// Returns how long a CPU's published state is held back: a random part of `span`.
    pub(crate) fn hint_delay(&mut self, cpu: CpuId, span: Nanos) -> Nanos {
        Nanos(below(self.draws_of(cpu, Kind::Hint), span.0 + 1))
    }

    /// Returns a part that is exponential, since an interrupt meets cold caches or the machine's host now and then.
    fn spread(&mut self, cpu: CpuId, kind: Kind, mean: Nanos) -> Nanos {
        if mean == Nanos::ZERO {
            return mean;
        }
        let drawn = Draw::Exponential(mean).sample(self.draws_of(cpu, kind));
        drawn.min(Costs::longest_spread(mean))
    }

    fn draw_if_any(&mut self, cpu: CpuId, kind: Kind, cost: Nanos) -> Nanos {
        if cost == Nanos::ZERO { cost } else { self.draw(cpu, kind, cost) }
    }

    fn draw(&mut self, cpu: CpuId, kind: Kind, cost: Nanos) -> Nanos {
        let jitter = self.costs.jitter;
        with_jitter(self.draws_of(cpu, kind), cost, jitter)
    }

    fn draws_of(&mut self, cpu: CpuId, kind: Kind) -> &mut Pcg64Mcg {
        &mut self.draws[cpu.index()][kind as usize]
    }
}

/// The time that a system call takes before its effect and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) enters: Nanos,
    pub(crate) returns: Nanos,
}

impl Call {
    const NONE: Call = Call { enters: Nanos::ZERO, returns: Nanos::ZERO };

    /// Splits the time that was drawn for a call of this cost: half of the cost comes after the effect, the rest before.
    fn of(cost: Nanos, drawn: Nanos) -> Call {
        let returns = Nanos(cost.0 / 2);
        Call { enters: drawn - returns, returns }
    }
}

/// Draws from `cost..=cost + jitter`.
fn with_jitter(draws: &mut Pcg64Mcg, cost: Nanos, jitter: Nanos) -> Nanos {
    match jitter {
        Nanos::ZERO => cost,
        jitter => cost + Nanos(below(draws, jitter.0 + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(seed: u64) -> CostModel {
        CostModel::new(Costs::default(), vec![0], Topology::flat(2).expect("two CPUs"), seed)
    }

    const CPU: CpuId = CpuId(1);

    #[test]
    fn a_cost_of_one_kind_does_not_move_those_of_another_or_of_another_cpu() {
        let (mut plain, mut busy) = (model(3), model(3));
        for nth in 0..100_u16 {
            for _ in 0..nth % 3 {
                busy.context_switch(CPU);
                busy.wakeup(CPU, None);
                busy.timer_interrupt(CpuId(0));
            }
            assert_eq!(plain.timer_interrupt(CPU), busy.timer_interrupt(CPU));
            assert_eq!(plain.ipi(CPU), busy.ipi(CPU));
        }
    }

    #[test]
    fn an_interrupt_is_longer_by_an_exponential_time() {
        let mut model = model(1);
        let least = Costs::default().timer_interrupt;
        let mut all: Vec<_> = (0..10_000).map(|_| (model.timer_interrupt(CPU) - least).0).collect();
        all.sort_unstable();
        let mean = all.iter().sum::<u64>() / 10_000;
        let near = |got: u64, want: u64| got.abs_diff(want) * 20 < want;
        assert!(near(mean, 3_450), "{mean}");
        assert!(near(all[5_000], 2_440), "{}", all[5_000]);
        let longest = model.costs.longest_interrupt() - least;
        assert!(all[9_999] <= longest.0, "{}", all[9_999]);
    }
}
