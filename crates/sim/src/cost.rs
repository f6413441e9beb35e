//! The costs of the machine's own work. Each CPU draws them from a generator of its own.

use rand_pcg::Pcg64Mcg;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;
use runyard_workload::draw::below;
use runyard_workload::draw::{Stream, stream};
use runyard_workload::scenario::{Costs, SystemCalls};

#[derive(Debug)]
pub(crate) struct CostModel {
    costs: Costs,
    draws: Vec<Pcg64Mcg>,
}

impl CostModel {
    pub(crate) fn new(costs: Costs, topology: Topology, seed: u64) -> CostModel {
        let draws = topology.iter().map(|cpu| stream(seed, Stream::Cost(cpu))).collect();
        CostModel { costs, draws }
    }

    pub(crate) fn context_switch(&mut self, cpu: CpuId) -> Nanos {
        self.draw(cpu, self.costs.context_switch)
    }

    pub(crate) fn migration(&mut self, cpu: CpuId) -> Nanos {
        self.draw(cpu, self.costs.migration)
    }

    pub(crate) fn ipi(&mut self, cpu: CpuId) -> Nanos {
        self.draw(cpu, self.costs.ipi)
    }

    /// Returns the longest duration of a kick.
    pub(crate) fn longest_kick(&self) -> Nanos {
        self.costs.ipi + self.costs.jitter
    }

    pub(crate) fn wakeup(&mut self, cpu: CpuId) -> Nanos {
        self.draw(cpu, self.costs.wakeup)
    }

    pub(crate) fn timer_interrupt(&mut self, cpu: CpuId) -> Nanos {
        self.draw(cpu, self.costs.timer_interrupt)
    }

    /// Returns the delay from the time for which a timer was set to its interrupt.
    pub(crate) fn timer_latency(&mut self, cpu: CpuId) -> Nanos {
        self.draw_if_any(cpu, self.costs.timer_latency)
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
        let Costs { context_switch, ipi, wakeup, timer_interrupt, idle_exit, jitter, .. } =
            self.costs;
        let all = [context_switch, ipi, wakeup, timer_interrupt, idle_exit];
        Nanos(4 * all.into_iter().map(|cost| cost.0 + jitter.0).sum::<u64>())
    }

    pub(crate) fn idle_exit(&mut self, cpu: CpuId) -> Nanos {
        self.draw_if_any(cpu, self.costs.idle_exit)
    }

    /// Returns the costs of system calls.
    pub(crate) fn system_calls(&self) -> SystemCalls {
        self.costs.system_calls
    }

    /// Returns a random part of `span`.
    pub(crate) fn part_of(&mut self, cpu: CpuId, span: Nanos) -> Nanos {
        Nanos(below(&mut self.draws[cpu.index()], span.0 + 1))
    }

    fn draw_if_any(&mut self, cpu: CpuId, cost: Nanos) -> Nanos {
        if cost == Nanos::ZERO { cost } else { self.draw(cpu, cost) }
    }

    fn draw(&mut self, cpu: CpuId, cost: Nanos) -> Nanos {
        match self.costs.jitter {
            Nanos::ZERO => cost,
            jitter => cost + self.part_of(cpu, jitter),
        }
    }
}
