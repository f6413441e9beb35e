//! A thread that is given a slot wakes where the thread was that gives it.
//!
//! The kernel wakes a thread on the CPU where it slept last. By now another worker may run there: then both share that
//! CPU until the kernel's balancer sees it, while the CPU of the thread that gave its slot and sleeps stands empty. So
//! that thread, which knows where it is, binds the other to this CPU before it wakes it. The other unbinds itself before
//! it does anything else: whatever foreign code starts inherits the CPUs of its thread. An idle worker may bind itself
//! before it sleeps ([`crate::crew::homes`]).
//!
//! ```text
//!  sleeper  sleeps:  AWAKE -> HELD; word := WAITS, or binds itself; word := STEERED
//!           wakes:   any -> HELD; unbinds itself, if that was STEERED; word := AWAKE
//!  steerer  WAITS elsewhere -> HELD; binds the sleeper; word := STEERED; wakes it
//!  keeper   STEERED -> HELD; unbinds the sleeper; word := AWAKE
//!  a task's affinity   any -> HELD; binds the thread; word := as it was, but AWAKE for STEERED
//! ```
//!
//! A thread that is stopped may be let go at any moment, by others than the steerer, and a task may be given an affinity
//! while it is stopped. So the word is a lock as well: the thread that holds it may say where the sleeper runs. It is held
//! for the length of two system calls, and each that finds it held lets others run and looks again.
//!
//! Invariants, modelled in loom: a thread in foreign code is not steered, and is not being steered; a thread that is
//! bound for a task stays so.

use crate::os::sync::{AtomicU32, Ordering};
use crate::os::wait::let_others_run;

/// Whether a thread sleeps, and where; and whether it is bound for its waking.
#[derive(Debug)]
pub(crate) struct Steering(AtomicU32);

const AWAKE: u32 = 0;
/// Another thread, or this one, is about to bind it.
const HELD: u32 = 1;
/// It is bound to where it is to wake, and is to unbind itself.
const STEERED: u32 = 2;
/// It sleeps on the CPU of this number less this, and may be steered.
const WAITS: u32 = 3;

impl Steering {
    /// Of a thread that is awake.
    pub(crate) fn new() -> Steering {
        Steering(AtomicU32::new(AWAKE))
    }

    /// The thread, which calls this on that CPU, is about to sleep.
    pub(crate) fn sleeps(&self, cpu: u32) {
        self.hold();
        self.release(WAITS + cpu);
    }

    /// The thread, which calls this, is about to sleep, and binds itself if `bind` can: whether it did. It is not steered.
    pub(crate) fn sleeps_bound(&self, bind: impl FnOnce() -> bool) -> bool {
        let word = self.hold();
        let is_bound = bind();
        self.release(if is_bound { STEERED } else { word });
        is_bound
    }

    /// The thread, which calls this, is awake. It is to `unbind` itself if it was steered.
    pub(crate) fn wakes(&self, unbind: impl FnOnce()) {
        if self.hold() == STEERED {
            unbind();
        }
        self.release(AWAKE);
    }

    /// If the thread sleeps, other than on the CPU `unless`, `bind` is to bind it to where it is to wake,
    /// and says whether it did.
    pub(crate) fn steer(&self, unless: Option<u32>, bind: impl FnOnce() -> bool) {
        let word = self.0.load(Ordering::SeqCst);
        let stays = unless.is_some_and(|cpu| word == WAITS + cpu);
        if word >= WAITS && !stays && self.change(word, HELD) {
            self.release(if bind() { STEERED } else { word });
        }
    }

    /// If the thread is bound to where it is to wake, and does not come, `unbind` is to unbind it. Whether it was.
    pub(crate) fn free(&self, unbind: impl FnOnce()) -> bool {
        let is_bound = self.change(STEERED, HELD);
        if is_bound {
            unbind();
            self.release(AWAKE);
        }
        is_bound
    }

    /// The thread is bound for a task, or that ends: meanwhile it is not steered, and what `bind` does is not undone.
    pub(crate) fn bind_for_task(&self, bind: impl FnOnce()) {
        let word = self.hold();
        bind();
        self.release(if word == STEERED { AWAKE } else { word });
    }

    /// What the word was.
    fn hold(&self) -> u32 {
        loop {
            let word = self.0.load(Ordering::SeqCst);
            if word != HELD && self.change(word, HELD) {
                return word;
            }
            // For the length of two system calls.
            let_others_run();
        }
    }

    fn release(&self, word: u32) {
        self.0.store(word, Ordering::SeqCst);
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Each was seen to fail: with a `steer` that stores where it should compare and swap, with a `steer` that binds
    //! without holding the word, with a `wakes` that does not wait while the word is held, and the last two with a
    //! `bind_for_task` that does not hold it.

    use super::*;
    use crate::os::sync::{Arc, AtomicBool};
    use loom::thread;

    /// Where a thread may run.
    const EVERYWHERE: u32 = 0;
    const STEERED_TO: u32 = 1;
    const OF_ITS_TASK: u32 = 2;

    /// A thread that sleeps on CPU 0, and may be steered to CPU 1.
    struct World {
        steering: Steering,
        /// One of those.
        runs: AtomicU32,
        /// Whether the thread is bound for its task.
        is_bound: AtomicBool,
        in_foreign_code: AtomicBool,
    }

    impl World {
        fn steer(&self) {
            self.steering.steer(Some(1), || {
                let may = !self.is_bound.load(Ordering::SeqCst);
                if may {
                    self.is_asleep();
                    let before = self.runs.swap(STEERED_TO, Ordering::SeqCst);
                    assert_eq!(
                        before, EVERYWHERE,
                        "nobody is steered twice, or away from its task's CPUs"
                    );
                    self.is_asleep();
                }
                may
            });
        }

        fn is_asleep(&self) {
            assert!(!self.in_foreign_code.load(Ordering::SeqCst), "nobody is steered there");
        }

        /// The task in the middle of which the thread is stopped is given an affinity.
        fn bind(&self) {
            self.steering.bind_for_task(|| {
                self.runs.store(OF_ITS_TASK, Ordering::SeqCst);
                self.is_bound.store(true, Ordering::SeqCst);
            });
        }

        /// Sleeps, and is woken at any moment.
        fn sleep(&self) {
            self.steering.sleeps(0);
            thread::yield_now();
            self.wakes();
        }

        /// Sleeps bound, and is woken at any moment.
        fn sleep_bound(&self) {
            let is_bound = self.steering.sleeps_bound(|| {
                let may = !self.is_bound.load(Ordering::SeqCst);
                if may {
                    self.runs.store(STEERED_TO, Ordering::SeqCst);
                }
                may
            });
            assert!(is_bound, "nobody has bound it");
            thread::yield_now();
            self.wakes();
        }

        /// The keeper unbinds it.
        fn free(&self) {
            let _ = self.steering.free(|| {
                self.is_asleep();
                let before = self.runs.swap(EVERYWHERE, Ordering::SeqCst);
                assert_eq!(before, STEERED_TO, "only one that was bound is unbound");
                self.is_asleep();
            });
        }

        fn wakes(&self) {
            self.steering.wakes(|| {
                let before = self.runs.swap(EVERYWHERE, Ordering::SeqCst);
                assert_eq!(before, STEERED_TO, "a thread unbinds itself only if it was steered");
            });
            self.in_foreign_code.store(true, Ordering::SeqCst);
            assert_ne!(self.runs.load(Ordering::SeqCst), STEERED_TO, "nobody is steered there");
            self.in_foreign_code.store(false, Ordering::SeqCst);
        }
    }

    fn check(model: impl Fn(Arc<World>) + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let world = Arc::new(World {
                steering: Steering::new(),
                runs: AtomicU32::new(EVERYWHERE),
                is_bound: AtomicBool::new(false),
                in_foreign_code: AtomicBool::new(false),
            });
            model(world.clone());
            let is_bound = world.is_bound.load(Ordering::SeqCst);
            let runs = world.runs.load(Ordering::SeqCst);
            assert_eq!(runs, if is_bound { OF_ITS_TASK } else { EVERYWHERE }, "in the end");
        });
    }

    /// Others do these things, while this thread does its own.
    fn among(world: &Arc<World>, others: &[fn(&World)], own: impl FnOnce()) {
        let start = |&act: &fn(&World)| {
            let world = world.clone();
            thread::spawn(move || act(&world))
        };
        let others: Vec<_> = others.iter().map(start).collect();
        own();
        others.into_iter().for_each(|other| other.join().unwrap());
    }

    #[test]
    fn a_thread_that_is_let_go_while_it_is_steered_is_not_bound_in_foreign_code() {
        check(|world| among(&world, &[World::steer], || world.sleep()));
    }

    #[test]
    fn a_thread_that_sleeps_again_is_steered_again() {
        check(|world| {
            among(&world, &[World::steer], || {
                world.sleep();
                world.sleep();
            });
        });
    }

    #[test]
    fn of_two_steerers_one_binds() {
        check(|world| among(&world, &[World::steer, World::steer], || world.sleep()));
    }

    #[test]
    fn a_thread_that_is_bound_for_its_task_as_it_is_steered_stays_so() {
        check(|world| {
            world.steering.sleeps(0);
            among(&world, &[World::steer], || world.bind());
            world.wakes();
        });
    }

    #[test]
    fn a_thread_that_sleeps_bound_is_unbound_once_as_it_wakes() {
        check(|world| among(&world, &[World::free, World::steer], || world.sleep_bound()));
    }

    #[test]
    fn a_steered_thread_that_is_bound_for_its_task_as_it_wakes_stays_so() {
        check(|world| {
            world.steering.sleeps(0);
            world.steer();
            among(&world, &[World::bind], || world.wakes());
        });
    }
}
