//! What is started in a task is as if it were started elsewhere.

use crate::child::{run, within};
use crate::common::{ms, workers};
use runyard::{blocking, spawn};
use rustix::process::Signal;
use signal_hook::consts::{SIGTERM, SIGUSR1};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What a thread or a process says of itself: the signals that it blocks and ignores, and its CPUs.
fn traits(status: &str) -> Vec<String> {
    let names = ["SigBlk:", "SigIgn:", "Cpus_allowed_list:"];
    let lines = status.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    lines.map(str::to_owned).collect()
}

fn of_a_thread() -> Vec<String> {
    let read = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
    traits(&thread::spawn(read).join().unwrap())
}

fn of_a_program() -> Vec<String> {
    let output = Command::new("cat").arg("/proc/self/status").output().unwrap();
    traits(&String::from_utf8(output.stdout).unwrap())
}

fn slack() -> String {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    std::fs::read_to_string(format!("/proc/{thread}/timerslack_ns")).unwrap()
}

/// Seen failing: `SigBlk` was `fffffffe3fbbfa07`, and the CPUs were one.
#[test]
fn threads_and_programs_of_a_task_are_as_elsewhere() {
    within(ms(20_000), "leaks::threads_and_programs_of_a_task_are_as_elsewhere", || {
        let elsewhere = (of_a_thread(), of_a_program());
        workers(2).block_on(async {
            let there = spawn(async { (of_a_thread(), of_a_program()) }).await.unwrap();
            assert_eq!(there, elsewhere);
        });
    });
}

/// Seen failing: 1.
#[test]
fn a_task_sees_the_parallelism_of_the_process() {
    let elsewhere = thread::available_parallelism().unwrap();
    workers(2).block_on(async {
        let there = spawn(async { thread::available_parallelism().unwrap() }).await.unwrap();
        assert_eq!(there, elsewhere);
    });
}

/// Seen failing: 1 ns instead of 50,000.
#[test]
fn a_task_has_the_timer_slack_of_the_process() {
    let elsewhere = slack();
    // Whichever worker it is on: each is idle in between.
    workers(2).block_on(async {
        for _ in 0..20 {
            assert_eq!(spawn(async { slack() }).await.unwrap(), elsewhere);
            runyard::time::sleep(ms(1)).await;
        }
    });
}

/// Seen failing: it ends by itself after 10 s, deaf to SIGTERM.
#[test]
fn a_program_of_a_task_hears_that_it_is_to_end() {
    within(ms(8_000), "leaks::a_program_of_a_task_hears_that_it_is_to_end", || {
        for in_blocking in [false, true] {
            workers(1).block_on(async {
                let start = || Command::new("sleep").arg("10").spawn().unwrap();
                let started =
                    spawn(async move { if in_blocking { blocking(start) } else { start() } });
                let mut program = started.await.unwrap();
                let id = rustix::process::Pid::from_child(&program);
                rustix::process::kill_process(id, Signal::TERM).unwrap();
                assert!(!program.wait().unwrap().success());
            });
        }
    });
}

/// Seen failing: it was swallowed, and the process ended well.
#[test]
fn a_signal_that_a_task_raises_ends_the_process() {
    let name = "leaks::a_signal_that_a_task_raises_ends_the_process";
    let end = run(ms(10_000), &[], name, || {
        workers(1).block_on(async {
            spawn(async { signal_hook::low_level::raise(SIGTERM).unwrap() }).await.unwrap();
        });
    });
    if let Some(end) = end {
        assert_eq!(end.signal(), Some(SIGTERM), "{:?}\n{}", end.status, end.said);
    }
}

/// Seen failing: the handler did not run before the call had returned, nor later.
#[test]
fn a_signal_that_a_task_raises_is_handled_at_once() {
    within(ms(10_000), "leaks::a_signal_that_a_task_raises_is_handled_at_once", || {
        let heard = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR1, heard.clone()).unwrap();
        workers(1).block_on(async {
            let there = spawn(async move {
                signal_hook::low_level::raise(SIGUSR1).unwrap();
                heard.load(Ordering::SeqCst)
            });
            assert!(there.await.unwrap());
        });
    });
}
