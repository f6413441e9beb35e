//! The price of borrowing: the document's passes beside the engine's pool.
//!
//! A task group may use as much as one CPU has, and one hog on one CPU wants all of that. In the document each CPU has its
//! part of the budget. A CPU that has used its part up locks every other CPU and takes an equal part of the rest there. So
//! n CPUs leave it `1 - 1/n` of what is left at each pass. Here the budget is a pool, from which a CPU draws. Both are
//! computed from the rules alone; the pool is the engine's.

use super::setting::{CPUS, PERIOD};
use crate::claims::{Claim, ClaimVerdict};
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::Limit;
use runyard_engine::limits::pool::{Part, Pool};
use runyard_engine::time::{Nanos, Time};

/// The part of the group's budget that the hog's CPU is to have.
const MOST: f64 = 0.9;

/// The least factor by which the pool is cheaper on the document's machine.
const CHEAPER: u64 = 10;

/// The locks of other CPUs by which a CPU of so many collects the budget in passes.
fn by_passes(cpus: u32) -> u64 {
    let n = f64::from(cpus);
    let (mut own, mut passes) = (1.0 / n, 0);
    while own < MOST {
        own += (1.0 - own) / n;
        passes += 1;
    }
    passes * u64::from(cpus - 1)
}

/// The draws by which a CPU gets as much from the pool.
fn by_draws(cpus: u32) -> u64 {
    let limit = Limit::new(PERIOD, PERIOD, Nanos::ZERO, false).expect("the kernel takes it");
    let part = Part { quota: PERIOD, burst: Nanos::ZERO, of_cpu: PERIOD };
    let cpu = CpuId::at(0);
    let mut pool = Pool::new(limit, part, (cpu, cpus as usize), 0, (Time::ZERO, Nanos::ZERO));
    let mut draws = 0;
    while (pool.used().0 as f64) < MOST * PERIOD.0 as f64 {
        let mut grant = pool.draw(Time::ZERO, cpu, false);
        grant.charge(grant.drawn());
        let waiting = pool.give_back(Time::ZERO, grant);
        assert_eq!(waiting, None, "no other CPU is throttled");
        draws += 1;
    }
    draws
}

pub(super) fn claim() -> Claim {
    let (passes, draws) = (by_passes(CPUS), by_draws(CPUS));
    let what = format!("1 hog has 90 % of a CPU's budget on {CPUS} CPUs: passes, and a pool");
    let verdict = ClaimVerdict::of(draws * CHEAPER <= passes);
    Claim::of(what, "locks", [Some(passes as f64), Some(draws as f64)], verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_grow_with_the_square_of_the_cpus_and_draws_do_not() {
        assert_eq!([4, 24].map(by_passes), [24, 1_242]);
        let [few, many] = [256, 1_024].map(by_passes);
        assert!(many > 15 * few, "{few} {many}");
        assert_eq!(by_draws(4), by_draws(1_024));
    }
}
