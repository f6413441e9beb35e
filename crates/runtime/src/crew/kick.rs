//! Kicks: how a CPU whose slot has an owner, busy or asleep, learns that it has to schedule.

use crate::os;
use crate::protocol::handoff::Ring;
use crate::shared::Shared;
use crate::task::Job;
use runyard_engine::attr::Cookie;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::limits::Throttling;
use runyard_engine::time::VTime;
use runyard_smp::machine::Effects;

/// Asks the owner of a slot to schedule, unless the owner is the caller and will schedule anyway.
pub(crate) fn ring(shared: &Shared, cpu: CpuId) {
    if let Some(paused) = &shared.paused {
        return paused.kick(cpu);
    }
    if shared.here(|own| own.serves(cpu)) == Some(true) {
        return;
    }
    let slot = shared.slot(cpu);
    match slot.request() {
        Ring::Nothing => {}
        Ring::Signal(_) if !shared.preemption.is_on => {}
        Ring::Signal(owner) => {
            let is_here = shared.here(|own| own.id) == Some(owner);
            shared.worker(owner).into_iter().for_each(|owner| owner.call(is_here));
        }
        // The owner is the caller itself: it checks when its turn in the driver is over.
        Ring::Bell(owner) if shared.here(|own| own.id) == Some(owner) => {}
        Ring::Bell(_) => {
            shared.driver.for_workers().into_iter().for_each(|own| own.ring());
            is_woken(shared);
        }
        Ring::Wake => {
            os::futex::wake(&slot.bed);
            is_woken(shared);
        }
    }
}

/// Notes that a sleeping worker is woken.
fn is_woken(shared: &Shared) {
    if shared.pins() || shared.cpus.homes.are_kept(os::thread::now) {
        // The kernel may not bring it to another CPU.
        shared.crew.keeper.somebody_runs();
    }
}

/// The effects of machine calls: a CPU that must switch is kicked at once.
pub(crate) struct KickNow<'a>(pub(crate) &'a Shared);

impl Effects<Job> for KickNow<'_> {
    fn kick(&mut self, cpu: CpuId) {
        ring(self.0, cpu);
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.0.tell_at_once(cpu, || throttling.into());
    }

    fn forced_idle(&mut self, cpu: CpuId, by: Option<Cookie>) {
        self.0.tell_at_once(cpu, || What::ForcedIdle { cookie: by });
    }

    fn first_outside(&mut self, cpu: CpuId) -> Option<VTime> {
        self.0.first_newcomer(cpu)
    }
}

/// Effects as [`KickNow`], except that the CPU of the calling worker is not kicked at once, because the worker's poll
/// probably ends soon.
pub(crate) struct DeferOwnKick<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) own: CpuId,
    pub(crate) kicked: bool,
}

impl Effects<Job> for DeferOwnKick<'_> {
    fn kick(&mut self, cpu: CpuId) {
        if cpu == self.own {
            self.kicked = true;
        } else {
            ring(self.shared, cpu);
        }
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.shared.tell_at_once(cpu, || throttling.into());
    }

    fn first_outside(&mut self, cpu: CpuId) -> Option<VTime> {
        self.shared.first_newcomer(cpu)
    }
}

impl Shared {
    /// If no thread drives, wakes a sleeping worker or the driver's thread to do so. May be called in a signal handler.
    pub(crate) fn see_to_driver(&self) {
        let Some(own) = self.driver.for_workers().filter(|own| own.is_free()) else { return };
        if !self.wake_driver() {
            own.call();
        }
    }

    /// Wakes a sleeping worker that could drive. Returns whether there was one. May be called in a signal handler.
    pub(crate) fn wake_driver(&self) -> bool {
        let mut cpus = self.machine.config().topology.iter();
        let asleep = cpus.find(|&cpu| self.slot(cpu).is_asleep());
        asleep.into_iter().for_each(|cpu| ring(self, cpu));
        asleep.is_some()
    }
}
