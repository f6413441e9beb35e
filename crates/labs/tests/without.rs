//! Claims about a mechanism fail without it.
//!
//! In virtual time at least three claims of each experiment fail. Each live claim about a mechanism fails if others leave
//! the CPUs alone; otherwise it is not judged, and it never holds. The live tests measure real CPUs, so they run one after
//! the other, and no other test of this crate beside them.

#![cfg(target_os = "linux")]

use runyard_engine::kernel::Experiment as Document;
use runyard_labs::{
    Claim, ClaimVerdict, Length, Progress, build_without_limit, live_without, simulated_without,
};
use runyard_outcome::Failure;
use std::sync::{Mutex, PoisonError};

/// The runtime does not stop a test's task inside the allocator.
#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();

static CPUS: Mutex<()> = Mutex::new(());

fn live(document: Document) -> Result<Vec<Claim>, Failure> {
    live_without(document, &Progress::new(Length::Short))
}

/// Checks the claims of this kind.
#[track_caller]
fn none_holds(
    without: impl FnOnce() -> Result<Vec<Claim>, Failure>,
    is_meant: fn(&Claim) -> bool,
    number: usize,
) {
    let _alone = CPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let claims = without().unwrap();
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
    none_holds(|| live(Document::RtMigrate), |claim| claim.verdict != ClaimVerdict::Shown, 2);
}

#[test]
fn without_hard_limits_groups_take_what_they_want() {
    none_holds(|| live(Document::HardLimits), |_| true, 3);
}

#[test]
fn without_a_limit_a_build_takes_all_cpus() {
    let is_held = |claim: &Claim| {
        let about = ["450 of 500 ms on each CPU: CPU time, of what", "each CPU: throttled"];
        about.iter().any(|what| claim.what.contains(what))
    };
    none_holds(build_without_limit, is_held, 4);
}

#[test]
fn without_slack_no_wakeups_are_saved() {
    let about_slack = |claim: &Claim| claim.what.starts_with("no slack, then 10 ms");
    none_holds(|| live(Document::GreedyTimers), about_slack, 1);
}

/// Checks that at least three of an experiment's claims fail in virtual time. The CPUs are used by one test at a time.
#[track_caller]
fn three_fail(document: Document) {
    let _alone = CPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let claims = simulated_without(document).unwrap();
    let failed: Vec<_> = claims.iter().filter(|claim| claim.verdict.fails()).collect();
    for claim in &failed {
        println!("{}: {:?} {}, {:?}", claim.what, claim.after, claim.unit, claim.verdict);
    }
    assert!(failed.len() >= 3, "{claims:#?}");
}

#[test]
fn without_push_and_pull_simulated_threads_wait_for_less_important_ones() {
    three_fail(Document::RtMigrate);
}

#[test]
fn without_the_balancer_cpus_stay_idle_beside_waiting_tasks() {
    three_fail(Document::IdleBalance);
}

#[test]
fn without_latency_nice_who_is_sensitive_waits_as_others_do() {
    three_fail(Document::LatencyNice);
}

#[test]
fn without_hard_limits_simulated_groups_take_what_they_want() {
    three_fail(Document::HardLimits);
}

#[test]
fn without_the_greedy_walk_timers_interrupt_busy_cpus() {
    three_fail(Document::GreedyTimers);
}
