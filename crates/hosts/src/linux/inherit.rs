//! The lock of what the tasks of a run share, which no task keeps for long.
//!
//! A task that is preempted with the lock would stop every other task as long as its CPU is busy. The figures of the
//! scenario would then show the command's own priority inversion. So the lock is the kernel's, with priority
//! inheritance: its owner runs with the best priority among the tasks that wait for it. The kernel lends real-time
//! priorities only. So a fair task becomes real-time for its wait, and is fair again once it has given the lock back. The
//! word is the kernel's: 0, or the owner's thread number, with a flag while others wait
//! ([futex(2)](https://man7.org/linux/man-pages/man2/futex.2.html)).

use super::park::wake_together;
use crate::play::Section;
use crate::sync::{AtomicU32, Ordering};
use runyard::kernel::ahead_of_fair;
use rustix::io::Errno;
use rustix::thread::futex::{Flags, lock_pi, unlock_pi};
use rustix::thread::gettid;
use std::task::Waker;

/// The number of looks at a taken lock before a wait in the kernel: on another CPU, its owner needs about a microsecond.
const LOOKS: u32 = 100;

/// The lock. The data that it protects has a lock of its own, which is always free.
#[derive(Debug, Default)]
pub(super) struct Lock(AtomicU32);

thread_local! {
    /// The number of this thread.
    static OWN: u32 = gettid().as_raw_nonzero().get().unsigned_abs();
}

impl Section for Lock {
    fn run(&self, access: &mut dyn FnMut()) {
        let own = OWN.with(|&own| own);
        if self.try_lock(own) {
            access();
            return self.unlock(own);
        }
        ahead_of_fair(|| {
            let locked = self.wait();
            access();
            if locked {
                self.unlock(own);
            }
        });
    }

    fn wake(&self, woken: Vec<Waker>) {
        wake_together(woken);
    }
}

impl Lock {
    /// Takes the lock if its owner gives it back meanwhile, or if it has none.
    fn try_lock(&self, own: u32) -> bool {
        (0..LOOKS).any(|_| {
            let free = self.0.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
            if free.is_err() {
                std::hint::spin_loop();
            }
            free.is_ok()
        })
    }

    /// Waits for the lock; `false` on a kernel without such locks.
    fn wait(&self) -> bool {
        loop {
            match lock_pi(&self.0, Flags::PRIVATE, None) {
                Ok(()) => return true,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn unlock(&self, own: u32) {
        if self.0.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            unlock_pi(&self.0, Flags::PRIVATE).expect("the owner gives the lock back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, Mutex};

    #[test]
    fn one_at_a_time_has_it() {
        let (lock, sum) = (Arc::new(Lock::default()), Arc::new(Mutex::new(0)));
        let add = |(lock, sum): (Arc<Lock>, Arc<Mutex<u32>>)| {
            let add = || *sum.try_lock().expect("nobody else is here") += 1;
            (0..10_000).for_each(|_| lock.run(&mut || add()));
        };
        let threads: Vec<_> = (0..4)
            .map(|_| (lock.clone(), sum.clone()))
            .map(|shared| std::thread::spawn(move || add(shared)))
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*sum.lock().unwrap(), 40_000);
    }
}
