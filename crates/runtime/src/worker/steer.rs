//! The CPUs to which a thread is bound: those of the task that it polls, or the one where it is to wake. It is
//! [steered](crate::protocol::steering) by other threads and steers them; [`crate::crew::homes`] has the places where
//! threads sleep.
//!
//! Outside of polls a thread has the same settings as any other thread of the process, since all threads and programs
//! that a task starts inherit them.

use super::thread::Thread;
use crate::crew::host_cpus::{Adopted, Given, HostCpus};
use crate::os;
use crate::task::Cell;
use runyard_engine::cpu::CpuId;

impl Thread {
    /// Waits for its baton by `wait`, and may be steered meanwhile. May be called in a signal handler.
    pub(super) fn asleep<R>(&self, wait: impl FnOnce() -> R) -> R {
        if self.crew().cpus().pins() {
            return wait();
        }
        self.binding.steering.sleeps(os::thread::current_cpu());
        let result = wait();
        self.binding.steering.wakes(|| self.unbind_home());
        if self.owns() {
            let (slot, homes) = (self.cpu(), self.crew().cpus().homes());
            self.leave_others(homes.follows(slot, os::thread::current_cpu(), os::thread::now));
        }
        result
    }

    /// Waits for work by `wait`, with its slot: bound, if the kernel would wake it beside another worker.
    pub(super) fn asleep_at_home(&self, wait: impl FnOnce()) {
        let (slot, homes) = (self.cpu(), self.crew().cpus().homes());
        if self.crew().cpus().pins() {
            return wait();
        }
        let slept_on = os::thread::current_cpu();
        homes.leaves(slot);
        if homes.are_kept(os::thread::now)
            && let Some(home) = self.crew().cpus().home_of(slot, slept_on)
            && self.binding.steering.sleeps_bound(|| self.binds_to(home))
        {
            wait();
            self.binding.steering.wakes(|| self.unbind_home());
            return homes.comes(slot, os::thread::current_cpu());
        }
        wait();
        self.leave_others(homes.woke(slot, slept_on, os::thread::current_cpu(), os::thread::now));
    }

    /// Moves the calling thread, which owns a slot, to the CPU where it should have woken, if it runs beside another
    /// owner. The kernel would see that only after a millisecond or more.
    fn leave_others(&self, to: Option<u32>) {
        let Some(to) = to else { return };
        if self.binding.steering.sleeps_bound(|| self.binds_to(to)) {
            self.binding.steering.wakes(|| self.unbind_home());
        } else {
            self.note_place();
        }
    }

    /// Notes the CPU on which this thread runs, if it has a slot.
    pub(super) fn note_place(&self) {
        if !self.crew().cpus().pins() && self.owns() {
            self.crew().cpus().homes().comes(self.cpu(), os::thread::current_cpu());
        }
    }

    /// Steers `other`, to which this thread is about to give its slot before it sleeps: `other` is to wake here, or at
    /// home. Does nothing if it is bound for a task, or by foreign code. May be called in a signal handler.
    pub(super) fn steer(&self, other: &Thread) {
        if self.crew().cpus().pins() {
            return;
        }
        let (cpu, homes) = (os::thread::current_cpu(), self.crew().cpus().homes());
        let (home, unless) = match homes.are_kept(os::thread::now) {
            false => (cpu, Some(cpu)),
            // Without this the kernel would not even wake it where it sleeps, as this thread is still there.
            true => (self.crew().cpus().home_of(self.cpu(), cpu).unwrap_or(cpu), None),
        };
        if other.binding.steering.steer(unless, || other.binds_to(home)) {
            // Until it runs, others that are about to sleep must not take its CPU for a free one, nor this one for its.
            homes.comes(self.cpu(), home);
        }
    }

    /// Binds the thread of this worker to a CPU, unless it is bound for a task, or by foreign code. Returns whether it
    /// did.
    fn binds_to(&self, cpu: u32) -> bool {
        let cpus = self.crew().cpus();
        let may = !self.binding.is_for_task() && cpus.has(cpu) && cpus.are_of(self.tid());
        let is_bound = may && os::thread::bind_to_one(self.tid(), cpu);
        if is_bound {
            self.binding.note_home(cpu);
        }
        is_bound
    }

    /// Ends the binding to the CPU where the thread was to wake.
    fn unbind_home(&self) {
        self.crew().cpus().unbind(self.tid(), self.binding.home());
    }

    /// Unbinds this worker, for the keeper: it was called, and does not come. If it was bound, no worker is bound for a
    /// time.
    pub(crate) fn does_not_come(&self) {
        if self.binding.steering.free(|| self.unbind_home()) {
            self.crew().cpus().homes().does_not_come(os::thread::now());
        }
    }

    /// Binds the thread to the CPUs of the task that it is about to poll or to go on with, if those are not all.
    #[inline]
    pub(super) fn bind_for(&self, cell: &Cell) {
        if cell.has_affinity() || self.binding.is_for_task() {
            self.follow(Some(cell));
        }
    }

    /// Lets the thread run on all CPUs of the process, after a poll.
    #[inline]
    pub(super) fn unbind(&self) {
        if self.binding.is_for_task() {
            self.follow(None);
        }
    }

    /// Binds the thread to the CPUs that the task in whose poll it is has now asked for. A pinned thread is not changed.
    pub(crate) fn follow(&self, cell: Option<&Cell>) {
        let cpus = self.crew().cpus();
        if !cpus.pins() {
            let bind = |has: Given<'_>, given: Given<'_>| cpus.bind(self.tid(), has, given);
            self.binding.follow(|| cell.and_then(Cell::affinity), bind);
        }
    }

    /// Binds the thread to the CPU of another slot, if workers are bound, and runs `moves` before it is bound again.
    pub(super) fn pin(&self, before: Given<'_>, slot: CpuId, moves: impl FnOnce()) {
        let cpus = self.crew().cpus();
        if !cpus.pins() {
            return moves();
        }
        self.binding.pin(before, |has| {
            let is_ours = cpus.bind(self.tid(), has, Given::Slot(slot));
            moves();
            is_ours
        });
    }

    /// Gives the thread its CPUs again, after those of the process have changed. Called by the maker.
    pub(crate) fn renew_binding(&self, adopted: &Adopted) {
        self.binding.renew(|has, given| {
            let (has, given) = match self.crew().cpus().pins() {
                true => (Given::Slot(self.cpu()), Given::Slot(self.cpu())),
                false => (has, given),
            };
            !self.has_thread() || HostCpus::renew(self.tid(), adopted, has, given)
        });
    }
}
