//! Kicks: how a CPU whose slot has an owner, busy or asleep, learns that it has to schedule.

use crate::os;
use crate::protocol::handoff::Ring;
use crate::shared::Scheduler;
use crate::task::Job;
use runyard_engine::attr::Cookie;
use runyard_engine::balance::Balanced;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::limits::Throttling;
use runyard_engine::time::VTime;
use runyard_smp::machine::Effects;

/// Asks the owner of a slot to schedule, unless the owner is the caller and will schedule anyway.
pub(crate) fn ring(scheduler: &Scheduler, cpu: CpuId) {
    if let Some(paused) = scheduler.paused() {
        return paused.kick(cpu);
    }
    if let Some(single) = scheduler.single() {
        return single.ring();
    }
    if scheduler.here(|it| it.own.serves() && it.thread.cpu() == cpu) == Some(true) {
        return;
    }
    let slot = scheduler.crew().slot(cpu);
    match slot.request() {
        Ring::Nothing => {}
        Ring::Signal(_) if !scheduler.crew().preemption.is_on => {}
        Ring::Signal(owner) => {
            let is_here = scheduler.here(|it| it.thread.id()) == Some(owner);
            scheduler.crew().threads.worker(owner).into_iter().for_each(|owner| {
                owner.poll.call(&owner.thread, scheduler.machine(), is_here);
            });
        }
        // The owner is the caller itself: it checks when its turn in the driver is over.
        Ring::Bell(owner) if scheduler.here(|it| it.thread.id()) == Some(owner) => {}
        Ring::Bell(_) => {
            scheduler.driver().for_workers().into_iter().for_each(|own| own.ring());
            is_woken(scheduler);
        }
        Ring::Wake => {
            os::futex::wake(&slot.bed);
            is_woken(scheduler);
        }
    }
}

/// Notes that a sleeping worker is woken.
fn is_woken(scheduler: &Scheduler) {
    if scheduler.crew().cpus.pins() || scheduler.crew().cpus.homes().are_kept(os::thread::now) {
        // The kernel may not bring it to another CPU.
        scheduler.crew().keeper.somebody_runs();
    }
}

/// The effects of machine calls: a CPU that must switch is kicked at once.
pub(crate) struct KickNow<'a>(pub(crate) &'a Scheduler);

impl Effects<Job> for KickNow<'_> {
    fn kick(&mut self, cpu: CpuId) {
        ring(self.0, cpu);
    }

    fn balanced(&mut self, cpu: CpuId, balanced: Balanced) {
        self.0.tell_at_once(cpu, || What::Balanced(balanced));
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.0.tell_at_once(cpu, || throttling.into());
    }

    fn forced_idle(&mut self, cpu: CpuId, by: Option<Cookie>) {
        self.0.tell_at_once(cpu, || What::ForcedIdle { cookie: by });
    }

    fn first_outside(&mut self, cpu: CpuId) -> Option<VTime> {
        self.0.dispatch().first_newcomer(cpu)
    }
}

/// Effects as [`KickNow`], except that the CPU of the calling worker is not kicked at once, because the worker's poll
/// probably ends soon.
pub(crate) struct DeferOwnKick<'a> {
    pub(crate) scheduler: &'a Scheduler,
    pub(crate) own: CpuId,
    pub(crate) kicked: bool,
}

impl Effects<Job> for DeferOwnKick<'_> {
    fn kick(&mut self, cpu: CpuId) {
        if cpu == self.own {
            self.kicked = true;
        } else {
            ring(self.scheduler, cpu);
        }
    }

    fn balanced(&mut self, cpu: CpuId, balanced: Balanced) {
        self.scheduler.tell_at_once(cpu, || What::Balanced(balanced));
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.scheduler.tell_at_once(cpu, || throttling.into());
    }

    fn first_outside(&mut self, cpu: CpuId) -> Option<VTime> {
        self.scheduler.dispatch().first_newcomer(cpu)
    }
}

impl Scheduler {
    /// If no thread drives, wakes a sleeping worker or the driver's thread to do so. May be called in a signal handler.
    pub(crate) fn see_to_driver(&self) {
        let Some(own) = self.driver().for_workers().filter(|own| own.is_free()) else { return };
        if !self.wake_driver() {
            own.call();
        }
    }

    /// Wakes a sleeping worker that could drive. Returns whether there was one. May be called in a signal handler.
    pub(crate) fn wake_driver(&self) -> bool {
        let mut cpus = self.machine().config().topology.iter();
        let asleep = cpus.find(|&cpu| self.crew().slot(cpu).is_asleep());
        asleep.into_iter().for_each(|cpu| ring(self, cpu));
        asleep.is_some()
    }
}
