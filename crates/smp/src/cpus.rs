//! The CPUs of a machine, and the ways in which tasks move between them.
//!
//! The ways are in files above this one, each with methods of [`Cpus`]: `carry`, `react`, `rt`, `balance`, `relieve`,
//! `beside` (a task for a thread that is forced idle), `limits` (budget that was given back), and `wake` (the choice of
//! a CPU).

use crate::cpu::{Cpu, OneCpu, Queue, Unshared};
use crate::groups::GroupTable;
use crate::host::{Controlled, Effects, kick_if};
use crate::progress::Balance;
use crate::sight::Sight;
use crate::sync::Arc;
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::RunQueue;
use runyard_engine::time::Time;

/// The CPUs of a machine.
#[derive(Debug)]
pub struct Cpus<W> {
    pub(crate) sight: Sight,
    cpus: Box<[Cpu<W>]>,
}

impl<W: Controlled> Cpus<W> {
    /// Returns idle CPUs, all online.
    pub(crate) fn new(config: Arc<Config>, groups: Arc<GroupTable>) -> Cpus<W> {
        let (topology, features) = (config.topology, config.features);
        let queue = |cpu| RunQueue::new(cpu, config.clone(), groups.clone());
        let queues: Vec<Queue<W>> = topology.iter().map(queue).collect();
        let starts = match features.has(Feature::BatchDispatch) {
            true => queues.iter().filter_map(|rq| rq.queues().start()).collect(),
            false => Box::default(),
        };
        let balances = topology.iter().map(|cpu| Balance::new(cpu, topology, features));
        let cpus = queues.into_iter().zip(balances).map(|(rq, balance)| Cpu::new(rq, balance));
        let cpus = Cpus { cpus: cpus.collect(), sight: Sight::new(config, groups, starts) };
        cpus.all().for_each(|cpu| cpu.open());
        cpus
    }

    /// Returns one of the CPUs.
    #[inline]
    pub(crate) fn of(&self, cpu: CpuId) -> OneCpu<'_, W> {
        self.cpus[cpu.index()].with_sight(&self.sight, cpu)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = OneCpu<'_, W>> {
        self.sight.config.topology.iter().map(|cpu| self.of(cpu))
    }

    pub(crate) fn unshared(&mut self, cpu: CpuId) -> Unshared<'_, W> {
        self.cpus[cpu.index()].unshared(&self.sight.hints, cpu)
    }

    /// Changes the run queue of `cpu` under its lock, and does what follows for this CPU and for others.
    pub(crate) fn act<R>(
        &self,
        now: Time,
        cpu: CpuId,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> R {
        let (result, delta) = self.of(cpu).change(fx, f);
        kick_if(delta.resched, cpu, fx);
        self.react(now, cpu, delta, fx);
        result
    }
}
