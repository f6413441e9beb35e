//! Each live claim about a mechanism fails without the mechanism, if others leave the CPUs alone. Otherwise it is not
//! judged. It never holds.
//!
//! The tests measure real CPUs, so they run one after the other, and no other test of this crate beside them.

#![cfg(target_os = "linux")]

use runyard_labs::{Claim, ClaimVerdict, Length, Progress, greedy_timers, hard_limits, rt_migrate};
use runyard_outcome::Failure;
use std::sync::{Mutex, PoisonError};

/// The runtime does not stop a test's task inside the allocator.
#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();

static CPUS: Mutex<()> = Mutex::new(());

/// Checks the claims of this kind.
#[track_caller]
fn none_holds(
    without: fn(&Progress) -> Result<Vec<Claim>, Failure>,
    is_meant: fn(&Claim) -> bool,
    number: usize,
) {
    let _alone = CPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let claims = without(&Progress::new(Length::Short)).unwrap();
    let claims: Vec<_> = claims.into_iter().filter(is_meant).collect();
    assert_eq!(claims.len(), number);
    for claim in claims {
        println!("{}: {:?} {}, {:?}", claim.what, claim.after, claim.unit, claim.verdict);
        let so = claim.verdict;
        assert!(matches!(so, ClaimVerdict::Fails | ClaimVerdict::NotJudged(_)), "{claim:?}");
    }
}

#[test]
fn without_push_and_pull_important_threads_wait_for_others() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
        return; // There is nowhere to push to.
    }
    none_holds(rt_migrate::live_without, |claim| claim.verdict != ClaimVerdict::Shown, 2);
}

#[test]
fn without_hard_limits_groups_take_what_they_want() {
    none_holds(hard_limits::live_without, |_| true, 3);
}

#[test]
fn without_slack_no_wakeups_are_saved() {
    let about_slack = |claim: &Claim| claim.what.starts_with("no slack, then 10 ms");
    none_holds(greedy_timers::live_without, about_slack, 1);
}
