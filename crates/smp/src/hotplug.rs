//! CPU hotplug: CPUs leave service and return to it.

use crate::host::{Controlled, Effects, kick_if, mark_away};
use crate::machine::Machine;
use crate::sync::Arc;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;

impl<W: Controlled> Machine<W> {
    /// Takes `cpu` out of service. Its tasks move to other CPUs, and its timers stay and are still served. The machine
    /// must keep another CPU online.
    pub fn offline(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        self.sight().hints.online.set(cpu, false);
        let (resched, _) = self.cpu(cpu).change(fx, |rq| rq.at(now).set_online(false));
        kick_if(resched, cpu, fx);
        self.rescale(now, fx);
        loop {
            let (task, _) = self.cpu(cpu).change(fx, |rq| rq.evict(now).inspect(mark_away));
            let Some(task) = task else { return };
            self.cpus.migrate_away(now, task, cpu, fx);
        }
    }

    /// Takes `cpu` into service again.
    pub fn online(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let (_, delta) = self.cpu(cpu).change(fx, |rq| rq.at(now).set_online(true));
        // The mask follows the run queue. In the other order, a CPU that reads the mask and is still refused would
        // retry for ever.
        self.sight().hints.online.set(cpu, true);
        self.cpus.react(now, cpu, delta, fx);
        fx.kick(cpu);
        self.rescale(now, fx);
    }

    /// Adapts the fair class's spans, the offsets of latency nice, and the parts of limits to the number of online
    /// CPUs. Of two concurrent calls, the last one compares all CPUs again.
    fn rescale(&self, now: Time, fx: &mut impl Effects<W>) {
        self.groups().rescale(now, || self.sight().nr_online());
        let config = self.config().with_online(self.sight().nr_online());
        let known = |cpu| self.cpu(cpu).inspect(|rq| rq.site().config() == &config);
        if self.config().topology.iter().all(known) {
            return;
        }
        let config = Arc::new(config);
        for cpu in self.config().topology.iter() {
            // The configuration before is freed here, without the lock.
            let (_before, delta) =
                self.cpu(cpu).change(fx, |rq| rq.at(now).set_config(Arc::clone(&config)));
            kick_if(delta.resched, cpu, fx);
        }
    }
}
