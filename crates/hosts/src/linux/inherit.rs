//! A kernel lock with priority inheritance: its owner runs with the best priority among the tasks that wait for it.
//!
//! A task of low priority that was preempted with the world's lock would otherwise stop every other task as long as its
//! CPU is busy. The figures of the scenario would then show the command's own priority inversion. The word is the
//! kernel's: 0, or the owner's thread number, with a flag while others wait
//! ([futex(2)](https://man7.org/linux/man-pages/man2/futex.2.html)).

use crate::play::Section;
use crate::sync::{AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, lock_pi, unlock_pi};
use rustix::thread::gettid;

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
        let locked = self.lock(own);
        access();
        if locked && self.0.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed).is_err()
        {
            unlock_pi(&self.0, Flags::PRIVATE).expect("the owner gives the lock back");
        }
    }
}

impl Lock {
    /// Takes the lock; `false` on a kernel without such locks.
    fn lock(&self, own: u32) -> bool {
        if self.0.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return true;
        }
        loop {
            match lock_pi(&self.0, Flags::PRIVATE, None) {
                Ok(()) => return true,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return false,
            }
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
