//! Programs of the machine in task groups of the kernel. The kernel counts all children of this process together, so
//! the tests run one after the other, in a process of their own.

#![cfg(target_os = "linux")]

use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_hosts::linux::{Place, Refusal, run_program};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

static CHILDREN: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shell that adds until it has used some hundred milliseconds of a CPU.
fn busy() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo $i"]);
    shell
}

/// A tenth of a CPU.
fn tenth() -> Limit {
    let millis = Nanos::from_millis;
    Limit::new(millis(5), millis(50), Nanos::ZERO, false).unwrap()
}

#[test]
fn a_limited_program_is_throttled_and_a_free_one_is_not() {
    let _alone = alone();
    let limited = match run_program(&mut busy(), 1, Place::Group(Some(tenth()))) {
        Err(Refusal::NoGroups(why)) => return println!("skipped: {why}"),
        limited => limited.unwrap(),
    };
    assert_eq!(limited.said, "200000\n");
    let used = limited.user + limited.system;
    // It may use its runtime at the beginning and at the end of its time, beyond what the kernel has lent.
    let most = limited.took.0 / 10 + Nanos::from_millis(20).0;
    assert!(used > Nanos::from_millis(20) && used.0 <= most, "{limited:?}");
    assert!(limited.throttled > Some(0) && limited.throttled <= limited.periods, "{limited:?}");
    let free = run_program(&mut busy(), 1, Place::Group(None)).unwrap();
    assert_eq!(free.throttled, Some(0), "{free:?}");
    let own = run_program(&mut busy(), 1, Place::Own).unwrap();
    assert_eq!((own.throttled, own.said.as_str()), (None, "200000\n"), "{own:?}");
}

#[test]
fn a_program_that_is_missing_or_fails_says_so() {
    let _alone = alone();
    let run = |command: &mut Command| run_program(command, 1, Place::Own).unwrap_err();
    assert_eq!(run(&mut Command::new("no-such-program")), Refusal::NotInstalled);
    let failed = run(Command::new("sh").args(["-c", "echo too bad >&2; echo; exit 3"]));
    assert_eq!(failed, Refusal::Failed("exit status: 3: too bad".to_owned()));
}
