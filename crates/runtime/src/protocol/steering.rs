//! Steering: a thread that is given a slot wakes on the CPU of the thread that gives it.
//!
//! The kernel wakes a thread on the CPU where it slept last. By then another worker may run there. Both share that CPU
//! until the kernel's balancer sees it, while the CPU of the thread that gave its slot away and sleeps is idle. So that
//! thread, which knows its own CPU, binds the other thread to this CPU before it wakes it. The other thread unbinds
//! itself before it does anything else, since all threads and programs that foreign code starts inherit the CPUs of its
//! thread. An idle worker may bind itself before it sleeps ([`crate::crew::homes`]).
//!
//! ```text
//!  sleeper  sleeps:  AWAKE -> HELD; word := WAITS, or binds itself; word := STEERED
//!           wakes:   any -> HELD; unbinds itself, if the word was STEERED; word := AWAKE
//!  steerer  WAITS elsewhere -> HELD; binds the sleeper; word := STEERED; wakes it
//!  keeper   STEERED -> HELD; unbinds the sleeper; word := AWAKE
//!  a task's affinity   any -> HELD; binds the thread; word := the word before, but AWAKE instead of STEERED
//! ```
//!
//! A stopped thread may be let go at any moment by threads other than the steerer, and a task may be given an affinity
//! while it is stopped. So the word is a lock as well: the thread that holds it may set the CPUs of the sleeper. It is
//! held for two system calls. A thread that finds it held lets other threads run and tries again. It may have been stopped
//! with a lock of the program's allocator, so the holder neither allocates nor frees.
//!
//! Invariants, modelled in loom: a thread in foreign code is not steered, and is not being steered; a thread that is
//! bound for a task stays bound.

use crate::os::local::steering;
use crate::os::sync::{AtomicU32, Ordering};
use crate::os::wait::let_others_run;

/// The state of a thread's sleep: whether it sleeps, on which CPU, and whether it is bound for its waking.
#[derive(Debug)]
pub(crate) struct Steering(AtomicU32);

const AWAKE: u32 = 0;
/// A thread, which may be this one, is about to bind it.
const HELD: u32 = 1;
/// It is bound to the CPU where it is to wake, and has to unbind itself.
const STEERED: u32 = 2;
/// The word minus this is the CPU on which it sleeps; it may be steered.
const WAITS: u32 = 3;

impl Steering {
    /// Makes the state of a thread that is awake.
    pub(crate) fn new() -> Steering {
        Steering(AtomicU32::new(AWAKE))
    }

    /// Marks that the calling thread is about to sleep on this CPU.
    pub(crate) fn sleeps(&self, cpu: u32) {
        self.hold();
        self.release(WAITS + cpu);
    }

    /// Marks that the calling thread is about to sleep, and binds it if `bind` can. Returns whether it is bound. It is
    /// not steered then.
    pub(crate) fn sleeps_bound(&self, bind: impl FnOnce() -> bool) -> bool {
        let word = self.hold();
        let is_bound = steering(bind);
        self.release(if is_bound { STEERED } else { word });
        is_bound
    }

    /// Marks that the calling thread is awake. Calls `unbind` if it was steered.
    pub(crate) fn wakes(&self, unbind: impl FnOnce()) {
        if self.hold() == STEERED {
            steering(unbind);
        }
        self.release(AWAKE);
    }

    /// Calls `bind` if the thread sleeps on another CPU than `unless`. `bind` binds it to the CPU where it is to wake,
    /// and returns whether it did. Returns whether the thread is to wake there.
    pub(crate) fn steer(&self, unless: Option<u32>, bind: impl FnOnce() -> bool) -> bool {
        let word = self.0.load(Ordering::SeqCst);
        if unless.is_some_and(|cpu| word == WAITS + cpu) {
            return true;
        }
        let is_free = word >= WAITS && self.change(word, HELD);
        let is_bound = is_free && steering(bind);
        if is_free {
            self.release(if is_bound { STEERED } else { word });
        }
        is_bound
    }

    /// Calls `unbind` if the thread is bound for its waking and does not come. Returns whether it was bound.
    pub(crate) fn free(&self, unbind: impl FnOnce()) -> bool {
        let is_bound = self.change(STEERED, HELD);
        if is_bound {
            steering(unbind);
            self.release(AWAKE);
        }
        is_bound
    }

    /// Calls `bind` with whether the thread is bound for its waking. `bind` binds it for a task or ends that, or renews
    /// its binding within other CPUs of the process. The thread is not steered meanwhile, and the binding is not undone.
    pub(crate) fn bind_for_task(&self, bind: impl FnOnce(bool)) {
        let word = self.hold();
        steering(|| bind(word == STEERED));
        self.release(if word == STEERED { AWAKE } else { word });
    }

    /// Holds the word. Returns its former value.
    fn hold(&self) -> u32 {
        loop {
            let word = self.0.load(Ordering::SeqCst);
            if word != HELD && self.change(word, HELD) {
                return word;
            }
            // Another thread holds it, for two system calls.
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
    //! Each model was seen failing: with a `steer` that stores instead of comparing and swapping, with a `steer` that
    //! binds without holding the word, with a `wakes` that does not wait while the word is held, and the last two with
    //! a `bind_for_task` that does not hold it.

    use super::*;
    use crate::os::sync::{Arc, AtomicBool};
    use loom::thread;

    /// The CPUs on which a thread may run.
    const EVERYWHERE: u32 = 0;
    const STEERED_TO: u32 = 1;
    const OF_ITS_TASK: u32 = 2;
    /// All CPUs of the process, after code outside has changed these.
    const EVERYWHERE_NOW: u32 = 3;

    /// A thread that sleeps on CPU 0, and may be steered to CPU 1.
    struct World {
        steering: Steering,
        /// The CPUs on which the thread may run: one of the values above.
        runs: AtomicU32,
        /// The CPUs on which the process may run: one of the two values above.
        everywhere: AtomicU32,
        /// Whether the thread is bound for its task.
        is_bound: AtomicBool,
        in_foreign_code: AtomicBool,
    }

    impl World {
        fn steer(&self) {
            let _ = self.steering.steer(Some(1), || {
                let may = !self.is_bound.load(Ordering::SeqCst);
                if may {
                    self.is_asleep();
                    let before = self.runs.swap(STEERED_TO, Ordering::SeqCst);
                    assert!(
                        [EVERYWHERE, EVERYWHERE_NOW].contains(&before),
                        "no thread is steered twice, or off its task's CPUs"
                    );
                    self.is_asleep();
                }
                may
            });
        }

        fn is_asleep(&self) {
            assert!(
                !self.in_foreign_code.load(Ordering::SeqCst),
                "no thread in foreign code is steered"
            );
        }

        /// Gives an affinity to the task in the middle of which the thread is stopped.
        fn bind(&self) {
            self.steering.bind_for_task(|_| {
                self.runs.store(OF_ITS_TASK, Ordering::SeqCst);
                self.is_bound.store(true, Ordering::SeqCst);
            });
        }

        /// The process may run on other CPUs from now on. Visits the thread after that, as the maker.
        fn changes(&self) {
            self.everywhere.store(EVERYWHERE_NOW, Ordering::SeqCst);
            self.steering.bind_for_task(|_| {
                if !self.is_bound.load(Ordering::SeqCst) {
                    self.runs.store(EVERYWHERE_NOW, Ordering::SeqCst);
                }
            });
        }

        /// Lets the thread run on all CPUs of the process. Returns those on which it ran.
        fn unbind(&self) -> u32 {
            let everywhere = self.everywhere.load(Ordering::SeqCst);
            self.runs.swap(everywhere, Ordering::SeqCst)
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
            assert!(is_bound, "the thread is bound");
            thread::yield_now();
            self.wakes();
        }

        /// Unbinds the thread, as the keeper.
        fn free(&self) {
            let _ = self.steering.free(|| {
                self.is_asleep();
                assert_eq!(self.unbind(), STEERED_TO, "only a bound thread is unbound");
                self.is_asleep();
            });
        }

        fn wakes(&self) {
            self.steering.wakes(|| {
                assert_eq!(
                    self.unbind(),
                    STEERED_TO,
                    "a thread unbinds itself only if it was steered"
                );
            });
            self.in_foreign_code.store(true, Ordering::SeqCst);
            assert_ne!(
                self.runs.load(Ordering::SeqCst),
                STEERED_TO,
                "no thread in foreign code is steered"
            );
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
                everywhere: AtomicU32::new(EVERYWHERE),
                is_bound: AtomicBool::new(false),
                in_foreign_code: AtomicBool::new(false),
            });
            model(world.clone());
            let is_bound = world.is_bound.load(Ordering::SeqCst);
            let runs = world.runs.load(Ordering::SeqCst);
            let everywhere = world.everywhere.load(Ordering::SeqCst);
            assert_eq!(runs, if is_bound { OF_ITS_TASK } else { everywhere }, "in the end");
        });
    }

    /// Runs `others`, each on a thread of its own, while this thread runs `own`.
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
    fn a_thread_that_wakes_as_the_cpus_of_the_process_change_gets_the_new_ones() {
        check(|world| {
            world.steering.sleeps(0);
            world.steer();
            among(&world, &[World::changes], || world.wakes());
        });
    }

    #[test]
    fn a_thread_that_is_steered_as_the_cpus_of_the_process_change_gets_the_new_ones() {
        check(|world| {
            world.steering.sleeps(0);
            among(&world, &[World::changes], || world.steer());
            world.wakes();
        });
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
