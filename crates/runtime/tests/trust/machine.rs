//! Effects of the machine on a thread that is stopped anywhere: on its stack, its registers and its waits.

use crate::child::within;
use crate::common::{ms, signal_everybody, spin, under_a_storm, workers};
use nix::sys::signal::Signal;
use nix::time::ClockId;
use runyard::{Runtime, trial};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Returns words that differ from register to register, and from task to task.
fn words(seed: u64) -> trial::Vectors {
    std::array::from_fn(|nth| (seed << 32 | nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Rounds of about 100 microseconds.
const ROUNDS: u64 = 200_000;

/// Keeps the CPU for `span`, with these words in its vector registers all the time.
fn hold(seed: u64, span: Duration) {
    let (words, began) = (words(seed), Instant::now());
    while began.elapsed() < span {
        assert!(trial::hold_in_vectors(&words, ROUNDS) == words, "registers have other values");
    }
}

/// Bytes of stack that are left. A signal's frame takes up to 12 KiB, and without optimisation the handler takes some
/// more.
const LEFT: usize = 32 << 10;

/// Calls itself until only that much is left of the stack, and computes there.
fn at_the_end_of_the_stack(seed: u64) -> usize {
    let frame = black_box([seed; 64]);
    let left = trial::stack_left();
    if left > LEFT {
        return at_the_end_of_the_stack(seed).min(left) + frame[1] as usize - seed as usize;
    }
    hold(seed, ms(50));
    left
}

#[test]
fn h10_who_has_little_stack_left_is_stopped_there() {
    within(ms(60_000), "machine::h10_who_has_little_stack_left_is_stopped_there", || {
        let runtime = Runtime::builder().workers(1).stack_size(256 << 10).build();
        under_a_storm(|| {
            let tasks =
                (0..6).map(|seed| runtime.spawn(async move { at_the_end_of_the_stack(seed) }));
            for task in tasks.collect::<Vec<_>>() {
                let left = runtime.block_on(task).unwrap();
                assert!((LEFT - 4_096..=LEFT).contains(&left), "{left} bytes were left");
            }
        });
    });
}

#[test]
fn h11_vector_registers_outlive_a_stop() {
    within(ms(60_000), "machine::h11_vector_registers_outlive_a_stop", || {
        let runtime = workers(2);
        under_a_storm(|| {
            let tasks = (0..8).map(|seed| runtime.spawn(async move { hold(seed, ms(300)) }));
            for task in tasks.collect::<Vec<_>>() {
                runtime.block_on(task).unwrap();
            }
        });
    });
}

/// Returns the CPU time of the calling thread.
fn used() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().unwrap().into()
}

/// `io_uring` can end the futex wait of a thread that waits in the runtime's handler, without reason. Most
/// containers refuse a ring, so a signal does that here. The runtime's handler does not block it while it waits, and
/// its own handler has no `SA_RESTART`.
#[test]
fn h14_who_is_stopped_goes_on_when_its_turn_comes_and_not_before() {
    let name = "machine::h14_who_is_stopped_goes_on_when_its_turn_comes_and_not_before";
    within(ms(60_000), name, || {
        trial::interrupt_by(Signal::SIGTRAP as i32);
        let runtime = workers(1);
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let interrupter = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Stopped threads receive it too: the runtime's handler does not block the signals of faults.
                signal_everybody(Signal::SIGTRAP);
                thread::sleep(ms(1));
            }
        });
        let began = Instant::now();
        let hogs = (0..4).map(|_| {
            runtime.spawn(async {
                let before = used();
                spin(ms(500));
                used() - before
            })
        });
        let used = hogs.collect::<Vec<_>>().into_iter().map(|hog| runtime.block_on(hog).unwrap());
        let used: Duration = used.sum();
        let elapsed = began.elapsed();
        // If two ran at a time, they would use twice the time of one CPU.
        assert!(used < elapsed.mul_f64(1.2), "the one worker used {used:?} in {elapsed:?}");
        over.store(true, Ordering::Relaxed);
        interrupter.join().unwrap();
        let times = trial::interruptions();
        assert!(times > 100, "{times} interruptions");
    });
}
