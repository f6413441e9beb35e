//! The reaction to a published change of a run queue: the second half of *publish, then look* in [`crate::machine`].

use crate::cpu::Delta;
use crate::cpus::Cpus;
use crate::host::{Controlled, Effects, kick_if};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::time::Time;

impl<W: Controlled> Cpus<W> {
    /// Publishes the state that `cpu` held back, and reacts to it.
    pub fn publish_held_back(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let one = self.of(cpu);
        let delta = one.publish(&mut one.lock());
        self.react(now, cpu, delta, fx);
        kick_if(delta.resched, cpu, fx);
    }

    /// Reacts to the published change `delta`: acts on changes that the other side of *publish, then look* may have
    /// missed. Returns whether there was a cause to push or pull.
    #[inline]
    pub(crate) fn react(
        &self,
        now: Time,
        cpu: CpuId,
        delta: Delta,
        fx: &mut impl Effects<W>,
    ) -> bool {
        let has_cause = delta.lowered || delta.pushable || delta.refilled;
        has_cause && self.push_and_pull(now, cpu, delta, fx)
    }

    #[inline(never)]
    fn push_and_pull(&self, now: Time, cpu: CpuId, delta: Delta, fx: &mut impl Effects<W>) -> bool {
        let pull = delta.lowered && self.sight.has(Feature::RtPull);
        let push = delta.pushable && self.sight.has(Feature::RtPush);
        if pull {
            self.pull(now, cpu, fx);
        }
        if push {
            self.push(now, cpu, fx);
        }
        if delta.refilled {
            self.refill_others(now, cpu, fx);
        }
        pull || push
    }
}
