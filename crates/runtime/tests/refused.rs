//! If the kernel refuses a resource that preemption needs, tasks are not preempted, and everything else works.

use runyard::{Runtime, Task, spawn, time};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

#[test]
fn h29_without_timers_polls_end_by_themselves() {
    // A POSIX timer counts as a pending signal (timer_create(2)).
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Sigpending, none).unwrap();
    Runtime::builder().workers(1).build().block_on(async {
        let hog = spawn(async {
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(50) {}
            Instant::now()
        });
        time::sleep(Duration::from_millis(5)).await;
        let important = Task::builder().fifo(50).spawn(async { Instant::now() });
        let (ended, ran) = (hog.await.unwrap(), important.await.unwrap());
        assert!(ran >= ended, "no task was stopped");
    });
}
