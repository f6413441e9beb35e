//! The hardware threads of a core, each of which is slower while its siblings are busy (`machine.smt`).
//!
//! The rest of a task's step is work, measured as the time that it takes on a core of its own. Speeds are whole
//! millionths and remainders are kept. So a step ends at the first nanosecond at which its work is done, however often
//! its speed has changed. A CPU is busy while it executes a task or works for the scheduler. The scheduler's own work
//! takes the same time at any speed. The engine charges time, not work, as a kernel does.
//!
//! Invariant: between two events each thread has the speed that follows from the number of busy threads of its core.

use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;
use runyard_engine::topology::{Level, Topology};

/// The speed of a thread on an otherwise idle core.
const FULL: u64 = 1_000_000;

/// The cores of a machine and the speeds of their threads.
#[derive(Debug)]
pub(crate) struct Smt {
    topology: Topology,
    /// The speed of each thread of a core, by the number of busy threads less one.
    speeds: Vec<u64>,
    threads: Vec<Thread>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    busy: bool,
    /// The work done since the last step began that is less than a nanosecond, in millionths of one.
    rest: u64,
}

impl Smt {
    /// Returns the cores of a machine on which a thread with one busy sibling has `busy_speed` millionths of its core's
    /// speed. Returns `None` if no thread has a sibling.
    pub(crate) fn new(busy_speed: u32, topology: Topology) -> Option<Smt> {
        let nr_threads = topology.span(CpuId(0), Level::Smt).len();
        let threads = vec![Thread::default(); topology.cpus()];
        (nr_threads > 1).then(|| Smt {
            topology,
            speeds: (1..=nr_threads as u64).map(|busy| speed(busy_speed.into(), busy)).collect(),
            threads,
        })
    }

    /// Returns the threads of a CPU's core, itself included.
    pub(crate) fn core(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        self.topology.span(cpu, Level::Smt).map(CpuId::at)
    }

    pub(crate) fn is_busy(&self, cpu: CpuId) -> bool {
        self.threads[cpu.index()].busy
    }

    pub(crate) fn set_busy(&mut self, cpu: CpuId, busy: bool) {
        self.threads[cpu.index()].busy = busy;
    }

    /// Returns the time that this work takes on a CPU at its current speed.
    pub(crate) fn time_for(&self, cpu: CpuId, work: Nanos) -> Nanos {
        let wanted = u128::from(work.0) * u128::from(FULL);
        let left = wanted.saturating_sub(self.threads[cpu.index()].rest.into());
        Nanos(u64::try_from(left.div_ceil(self.speed(cpu).into())).unwrap_or(u64::MAX))
    }

    /// Returns the work that a CPU did in this time at its current speed.
    pub(crate) fn work_in(&mut self, cpu: CpuId, span: Nanos) -> Nanos {
        let speed = self.speed(cpu);
        let thread = &mut self.threads[cpu.index()];
        let did = u128::from(span.0) * u128::from(speed) + u128::from(thread.rest);
        thread.rest = (did % u128::from(FULL)) as u64;
        Nanos((did / u128::from(FULL)) as u64)
    }

    /// Drops the work below a nanosecond when another task gets the CPU.
    pub(crate) fn forget_rest(&mut self, cpu: CpuId) {
        self.threads[cpu.index()].rest = 0;
    }

    fn speed(&self, cpu: CpuId) -> u64 {
        let busy = self.core(cpu).filter(|&cpu| self.is_busy(cpu)).count();
        self.speeds[busy.max(1) - 1]
    }
}

/// Returns the speed of each of `busy` threads: `one` for two, its square for four, its cube for eight. Between these
/// numbers the speed of a core is interpolated.
fn speed(one: u64, busy: u64) -> u64 {
    let of_power = |doublings: u32| (0..doublings).fold(FULL, |speed, _| speed * one / FULL);
    let doublings = busy.ilog2();
    let (below, above) = (1 << doublings, 2 << doublings);
    let core = |threads: u64, doublings| threads * of_power(doublings);
    let (low, high) = (core(below, doublings), core(above, doublings + 1));
    let at = busy - below;
    (low * (below - at) + high * at) / below / busy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_core_are_the_slower_the_more_are_busy() {
        let speeds = |one| [1, 2, 3, 4, 6, 8].map(|busy| speed(one, busy));
        // Two threads have 1.2 of a core, four have 1.44, and three have the mean of the two.
        assert_eq!(speeds(600_000), [1_000_000, 600_000, 440_000, 360_000, 264_000, 216_000]);
        assert_eq!(speeds(1_000_000), [1_000_000; 6]);
    }

    #[test]
    fn work_takes_the_least_time_in_which_it_is_done_and_no_part_of_it_is_lost() {
        let mut smt = Smt::new(700_000, "1x1x2".parse().unwrap()).unwrap();
        let [one, other] = [CpuId(0), CpuId(1)];
        smt.set_busy(one, true);
        assert_eq!(smt.time_for(one, Nanos(10)), Nanos(10));
        smt.set_busy(other, true);
        assert_eq!(smt.time_for(one, Nanos(10)), Nanos(15), "10 / 0.7 is 14.3");
        assert_eq!(smt.work_in(one, Nanos(15)), Nanos(10), "10.5");
        assert_eq!(smt.time_for(one, Nanos(4)), Nanos(5), "3.5 / 0.7");
        let did: u64 = (0..10).map(|_| smt.work_in(one, Nanos(1)).0).sum();
        assert_eq!(did, 7, "0.5 and 7");
        smt.forget_rest(one);
        assert_eq!(smt.time_for(one, Nanos(7)), Nanos(10));
    }

    #[test]
    fn cores_of_one_thread_share_nothing() {
        assert!(Smt::new(600_000, "1x4".parse().unwrap()).is_none());
    }
}
