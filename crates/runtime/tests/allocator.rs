//! What the runtime's own allocator promises: it keeps errno, and a child of a task may call it too. At the end of its
//! sections a worker acts on requests.

#[path = "trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;
#[path = "forks/children.rs"]
mod children;
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use child::within;
use common::{ms, signal_everybody, workers};
use nix::sys::signal::Signal;
use runyard::trial::{interrupt_by, interruptions};
use runyard::{Task, spawn, time};
use std::fs::File;
use std::hint::black_box;
use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();

/// Allocates and frees until `end`. Returns how often errno changed meanwhile.
fn losses(end: Instant) -> usize {
    let failed = || File::open("/no/such/file").map(drop).unwrap_err().raw_os_error();
    let mut lost = 0;
    while Instant::now() < end {
        let before = failed();
        for size in 0..200 {
            drop(black_box(vec![0_u8; size * 40]));
            if Error::last_os_error().raw_os_error() != before {
                lost += 1;
                assert_eq!(failed(), before);
            }
        }
    }
    lost
}

/// Seen failing: tens of losses, EINTR and EAGAIN of the wait at the end of a section.
#[test]
fn the_allocator_keeps_errno() {
    within(ms(60_000), "the_allocator_keeps_errno", || {
        interrupt_by(Signal::SIGUSR2 as i32);
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let storm = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                signal_everybody(Signal::SIGUSR2);
                thread::sleep(Duration::from_micros(300));
            }
        });
        let end = Instant::now() + ms(3_000);
        let lost = workers(1).block_on(async {
            let ticks = async {
                let mut interval = time::interval(Duration::from_micros(230));
                loop {
                    interval.tick().await;
                }
            };
            let ticker = Task::builder().fifo(99).spawn(ticks);
            let busy = [0; 2].map(|_| spawn(async move { losses(end) }));
            let mut lost = 0;
            for task in busy {
                lost += task.await.unwrap();
            }
            ticker.task().abort();
            lost
        });
        over.store(true, Ordering::Relaxed);
        storm.join().unwrap();
        assert!(interruptions() > 100, "the threads were interrupted");
        assert_eq!(lost, 0, "errno was lost");
    });
}
