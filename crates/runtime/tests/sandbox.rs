//! What a sandbox refuses after the start of a runtime ends nothing, and what no longer holds is told.

#[path = "trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;

use nix::unistd::{Uid, setuid};
use runyard::{Runtime, Task, spawn, time};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// The system calls that a sandbox refuses after the start, and whether preemption ends with that. Without the others the
/// runtime goes on as before.
const REFUSED: [(&str, i64, bool); 9] = [
    ("timer_settime", nix::libc::SYS_timer_settime, true),
    ("tgkill", nix::libc::SYS_tgkill, true),
    ("membarrier", nix::libc::SYS_membarrier, false),
    ("sched_setaffinity", nix::libc::SYS_sched_setaffinity, false),
    ("sched_setattr", nix::libc::SYS_sched_setattr, false),
    ("setpriority", nix::libc::SYS_setpriority, false),
    ("getrusage", nix::libc::SYS_getrusage, false),
    ("sigaltstack", nix::libc::SYS_sigaltstack, false),
    ("timer_create", nix::libc::SYS_timer_create, false),
];

/// The number of a user without rights.
const NOBODY: u32 = 65_534;

/// Refuses one system call to all threads of the process.
fn refuse(call: i64, error: i32) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter_all_threads};
    let (refuses, allows) = (SeccompAction::Errno(error as u32), SeccompAction::Allow);
    let filter = SeccompFilter::new(
        [(call, Vec::new())].into(),
        allows,
        refuses,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter_all_threads(&program).unwrap();
}

/// Tasks that are stopped, lock, block and end, while a thread outside of the runtime locks as well.
fn program(runtime: &Runtime) {
    let mutex = std::sync::Arc::new(runyard::sync::Mutex::new(0_u64));
    let end = Instant::now() + Duration::from_millis(300);
    let outside = mutex.clone();
    let locks = std::thread::spawn(move || {
        while Instant::now() < end {
            *outside.blocking_lock() += 1;
            std::thread::sleep(Duration::from_micros(300));
        }
    });
    runtime.block_on(async {
        let beat = Task::builder().fifo(50).spawn(async move {
            let mut interval = time::interval(Duration::from_millis(1));
            while Instant::now() < end {
                interval.tick().await;
            }
        });
        let busy: Vec<_> = (0..4)
            .map(|_| {
                let mutex = mutex.clone();
                spawn(async move {
                    while Instant::now() < end {
                        let began = Instant::now();
                        while began.elapsed() < Duration::from_millis(3) {}
                        *mutex.lock().await += 1;
                        drop(std::hint::black_box(vec![0_u8; 1_000]));
                    }
                })
            })
            .collect();
        let blocks = runyard::spawn_blocking(|| std::thread::sleep(Duration::from_millis(20)));
        for task in busy.into_iter().chain([beat, blocks]) {
            task.await.unwrap();
        }
    });
    locks.join().unwrap();
}

/// Seen failing: without `membarrier` the process was aborted, and without `timer_settime` nothing was said.
#[test]
fn what_a_sandbox_refuses_later_ends_nothing_and_is_told() {
    for (name, call, ends_preemption) in REFUSED {
        for error in [nix::libc::EPERM, nix::libc::ENOSYS] {
            let test = "what_a_sandbox_refuses_later_ends_nothing_and_is_told";
            // The separate process runs one pair, which it finds in its environment.
            let pair = format!("{name} {error}");
            if std::env::var("RUNYARD_REFUSED").is_ok_and(|asked| asked != pair) {
                continue;
            }
            let variable = format!("RUNYARD_REFUSED={pair}");
            let end = child::run(Duration::from_secs(30), &["env", &variable], test, || {
                let runtime = Runtime::builder().workers(2).build();
                program(&runtime);
                refuse(call, error);
                program(&runtime);
                // The thread that tells looks once a second while nobody runs.
                std::thread::sleep(Duration::from_millis(if ends_preemption { 1_200 } else { 0 }));
                assert_eq!(runtime.preempts(), !ends_preemption, "{name}");
            });
            let Some(end) = end else { return };
            assert!(end.status.is_some_and(|status| status.success()), "{pair}: {}", end.said);
            assert_eq!(end.said.contains("no longer preempted"), ends_preemption, "{}", end.said);
        }
    }
}

/// After `setuid` the kernel shows some files of `/proc` to root only.
#[test]
fn after_setuid_all_goes_on_and_what_is_found_later_is_told() {
    let test = "after_setuid_all_goes_on_and_what_is_found_later_is_told";
    let end = child::run(Duration::from_secs(30), &[], test, || {
        let runtime = Runtime::builder().workers(2).build();
        program(&runtime);
        if let Err(error) = setuid(Uid::from_raw(NOBODY)) {
            return eprintln!("not tried: setuid: {error}");
        }
        program(&runtime);
        // The thread that tells looks once a second while nobody runs.
        std::thread::sleep(Duration::from_millis(1_200));
        assert!(runtime.preempts());
    });
    let Some(end) = end else { return };
    assert!(end.status.is_some_and(|status| status.success()), "{}", end.said);
    let said = ["a thread that waits for a stopped one is found later", "not tried"];
    assert!(said.iter().any(|said| end.said.contains(said)), "{}", end.said);
}
