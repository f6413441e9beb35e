//! The engine's part of a task that blocks in the kernel: it is put back into a queue exactly once.
//!
//! The slot was taken from the task's thread. The worker that took it leaves the task here, and the thread takes the
//! task when it is back in the runtime's code. A thread that was stopped before that, in a signal handler, can only say
//! that it wants a slot; then the keeper takes the task in its name. The thread may come back, or say so, before the
//! task is here.

use crate::os::sync::{AtomicBool, Mutex, Ordering, lock};

/// The place of a task while its thread blocks in the kernel.
#[derive(Debug)]
pub(crate) struct InKernel<T> {
    left: Mutex<Left<T>>,
    /// Whether the thread wants a slot again and cannot ask for one itself, so that the keeper asks. Written by the
    /// thread.
    wants_slot: AtomicBool,
}

#[derive(Debug)]
struct Left<T> {
    task: Option<T>,
    /// Whether the task's thread has come back and waits for a slot: then the worker that leaves the task wakes it.
    is_back: bool,
}

impl<T> InKernel<T> {
    pub(crate) fn new() -> InKernel<T> {
        let left = Left { task: None, is_back: false };
        InKernel { left: Mutex::new(left), wants_slot: AtomicBool::new(false) }
    }

    /// Leaves the task until its thread runs again. Called by the worker that took the slot. Returns the task if the
    /// thread runs already: then the caller wakes it.
    pub(crate) fn leave(&self, task: T) -> Option<T> {
        let mut left = lock(&self.left);
        let runs = left.is_back || self.wants_slot.load(Ordering::SeqCst);
        if runs {
            return Some(task);
        }
        left.task = Some(task);
        None
    }

    /// Marks that the thread is back in the runtime's code. Returns the task for the caller to wake. Returns `None` if
    /// the task was not left yet, or is queued already because the thread was let go.
    pub(crate) fn come_back(&self) -> Option<T> {
        let mut left = lock(&self.left);
        // This is stored even if the task was here: the slot may be given to the thread and taken again before the
        // thread knows it.
        left.is_back = true;
        left.task.take()
    }

    /// Marks that the thread owns a slot again.
    pub(crate) fn owns_again(&self) {
        lock(&self.left).is_back = false;
    }

    /// Calls `look` with the task, if it is here.
    pub(crate) fn look(&self, look: impl FnOnce(&T)) {
        if let Some(task) = &lock(&self.left).task {
            look(task);
        }
    }

    /// Returns the task, for the keeper to wake, if its thread wants a slot and cannot ask.
    pub(crate) fn take_if_wanted(&self) -> Option<T> {
        // A worker that has not yet left the task will see that it is wanted.
        lock(&self.left).task.take_if(|_| self.wants_slot())
    }

    /// Sets whether the thread wants a slot for which another thread has to ask. Returns whether that changed. May be
    /// called in a signal handler.
    pub(crate) fn want_slot(&self, wants: bool) -> bool {
        self.wants_slot.swap(wants, Ordering::SeqCst) != wants
    }

    pub(crate) fn wants_slot(&self) -> bool {
        self.wants_slot.load(Ordering::SeqCst)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::os::sync::{Arc, AtomicU32};
    use loom::thread;

    /// A task that the kernel blocked, and the number of times that it was put back into a queue.
    struct World {
        in_kernel: InKernel<()>,
        queued: AtomicU32,
        /// Whether the thread runs again.
        runs: AtomicBool,
    }

    impl World {
        fn wake(&self, task: Option<()>) {
            if task.is_some() {
                assert!(self.runs.load(Ordering::SeqCst), "a task that blocks is in no queue");
                assert_eq!(
                    self.queued.fetch_add(1, Ordering::SeqCst),
                    0,
                    "the task is queued once"
                );
            }
        }

        /// Checks the task once, as the keeper.
        fn is_looked_at(&self) {
            self.wake(self.in_kernel.take_if_wanted());
        }

        /// Returns to the runtime's code, as in `Worker::come_back`.
        fn comes_back(&self) {
            self.wake(self.in_kernel.come_back());
        }
    }

    /// Lets the thread do `does` when it runs again, while a spare leaves its task and the keeper checks; the keeper
    /// also checks once at the end.
    fn explore(does: impl Fn(&World) + Send + Sync + 'static) {
        loom::model(move || {
            let world = Arc::new(World {
                in_kernel: InKernel::new(),
                queued: AtomicU32::new(0),
                runs: AtomicBool::new(false),
            });
            let other = world.clone();
            let spare = thread::spawn(move || other.wake(other.in_kernel.leave(())));
            let other = world.clone();
            let keeper = thread::spawn(move || other.is_looked_at());
            world.runs.store(true, Ordering::SeqCst);
            does(&world);
            spare.join().unwrap();
            keeper.join().unwrap();
            world.is_looked_at();
            assert_eq!(world.queued.load(Ordering::SeqCst), 1, "the task is queued once");
            assert!(world.in_kernel.come_back().is_none(), "nothing is left");
        });
    }

    /// Seen failing: a spare that does not see that the thread is back leaves the task for ever.
    #[test]
    fn who_comes_back_is_queued_once() {
        explore(World::comes_back);
    }

    /// Seen failing: a keeper that takes a task that is not wanted queues a task that blocks; so does a spare that
    /// leaves nothing.
    #[test]
    fn who_is_stopped_without_a_slot_is_queued_once() {
        explore(|world| assert!(world.in_kernel.want_slot(true)));
    }

    /// The thread is given a slot, and loses it again before it has seen that. Seen failing: if only a thread that
    /// comes back before its task is here is known to be back, this one waits for ever.
    #[test]
    fn who_loses_a_slot_before_it_knows_of_it_is_queued_again() {
        loom::model(|| {
            let world = Arc::new(World {
                in_kernel: InKernel::new(),
                queued: AtomicU32::new(0),
                runs: AtomicBool::new(true),
            });
            let owns = Arc::new(AtomicBool::new(false));
            let (other, slot) = (world.clone(), owns.clone());
            let spare = thread::spawn(move || {
                other.wake(other.in_kernel.leave(()));
                if other.queued.swap(0, Ordering::SeqCst) == 1 {
                    slot.store(true, Ordering::SeqCst);
                    slot.store(false, Ordering::SeqCst);
                    other.wake(other.in_kernel.leave(()));
                }
            });
            world.comes_back();
            if owns.load(Ordering::SeqCst) {
                world.in_kernel.owns_again();
                // The thread cannot leave the slot as its own: it belongs to another worker.
                spare.join().unwrap();
                world.comes_back();
            } else {
                spare.join().unwrap();
            }
            assert_eq!(world.queued.load(Ordering::SeqCst), 1, "the task is queued once");
        });
    }

    /// This holds whether or not the keeper has seen that the thread wanted a slot.
    #[test]
    fn who_is_let_go_without_a_slot_and_comes_back_is_queued_once() {
        explore(|world| {
            assert!(world.in_kernel.want_slot(true));
            assert!(world.in_kernel.want_slot(false));
            world.comes_back();
        });
    }
}
