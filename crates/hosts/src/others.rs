//! The use of this process's CPUs by others: other processes, the kernel's own threads, and other guests of the
//! machine's host.
//!
//! The kernel counts the time for which each CPU was idle (`/proc/stat`), and the CPU time of this process. Others had
//! the rest. Stolen time is a part of it. Only the CPUs that this process may use count: use of the other CPUs takes
//! nothing from it. The CPU time of child processes counts as that of others.
//!
//! Idle time is taken and not busy time, since most kernels only sample the running thread, at each tick. A thread that
//! runs for some hundred microseconds whenever this process changes threads is rarely seen then. The unit of the file
//! is 10 ms a CPU, so spans of half a second and more are measured to some 2 % of the CPUs.

use crate::clock::process_cpu_time;
use crate::machine::cpus;
use crate::stat::Stat;
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use std::time::Instant;

/// A span of time in which the use by others is measured. It begins when this is made.
#[derive(Debug)]
pub struct Span {
    cpus: Vec<usize>,
    began: Instant,
    own: Nanos,
    stat: Stat,
}

impl Span {
    /// Begins a span.
    ///
    /// # Errors
    /// If the kernel does not provide the CPUs of this process.
    pub fn begin() -> Result<Span, Failure> {
        let cpus = cpus()?;
        let stat = Stat::now(Some(&cpus));
        Ok(Span { cpus, began: Instant::now(), own: process_cpu_time(), stat })
    }

    /// The fraction of this process's CPUs that others have had since the beginning; `None` where the kernel does not
    /// count it.
    #[must_use]
    pub fn others(&self) -> Option<f64> {
        let own = process_cpu_time().saturating_sub(self.own);
        let wall = Nanos::from(self.began.elapsed());
        share(self.stat, Stat::now(Some(&self.cpus)), own, wall)
    }
}

/// The share of others between two counts, with the time of this process and the length of the span.
fn share(then: Stat, now: Stat, own: Nanos, wall: Nanos) -> Option<f64> {
    // Some containers show a file of zeros. No CPU that somebody counts has never been idle.
    let counts = now.idle_ns > 0;
    let all = Nanos(wall.0 * now.cpus);
    let others = all.saturating_sub(Nanos(now.idle_ns.saturating_sub(then.idle_ns)) + own);
    counts.then(|| others.0 as f64 / all.0.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    const THEN: &str = "\
cpu  600 20 100 2000 20 5 5 10 0 0
cpu0 100 10 30 500 10 1 1 4 0 0
cpu1 200 10 40 700 10 2 2 5 0 0
cpu2 300 0 30 800 0 2 2 1 0 0
intr 7 8
";

    /// The share between [`THEN`] and `now`, on CPUs 0 and 1 in one second.
    fn of(now: &str, own: u64) -> Option<f64> {
        let [then, now] = [THEN, now].map(|text| Stat::read(text, Some(&[0, 1])));
        share(then, now, Nanos::from_millis(own), Nanos::from_secs(1))
    }

    #[test]
    fn others_had_what_was_neither_idle_nor_ours() {
        // CPU 0 was idle for 450 ms and waited for 50, CPU 1 was never idle, and CPU 2 is not ours.
        let now = "\
cpu  999 99 999 9999 99 99 99 99 0 0
cpu0 130 15 40 545 15 2 2 7 0 0
cpu1 300 10 40 700 10 2 2 5 0 0
cpu2 999 0 30 800 0 2 2 1 0 0
";
        assert_eq!(of(now, 500), Some(0.5));
        assert_eq!(of(now, 1_400), Some(0.05));
        assert_eq!(of(now, 1_600), Some(0.0), "idle time has a coarse unit");
    }

    #[test]
    fn where_the_kernel_does_not_count_nothing_is_known() {
        assert_eq!(of("", 0), None);
        assert_eq!(of("cpu 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\n", 0), None);
    }

    const LONG_ENOUGH: Duration = Duration::from_millis(600);

    #[test]
    fn busy_children_are_others() {
        let loops = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let span = Span::begin().unwrap();
        let mut children: Vec<_> = span.cpus.iter().map(|_| loops()).collect();
        std::thread::sleep(LONG_ENOUGH);
        let others = span.others().expect("a machine that runs tests counts");
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // Other tests of this process may take a part meanwhile.
        assert!(others > 0.1, "{others}");
    }

    #[test]
    fn what_this_process_uses_is_its_own() {
        let span = Span::begin().unwrap();
        let end = Instant::now() + LONG_ENOUGH;
        while Instant::now() < end {}
        let used = process_cpu_time().saturating_sub(span.own);
        let others = span.others().expect("a machine that runs tests counts");
        // Others may do anything meanwhile, but all together have no more than all CPUs.
        let own = used.0 as f64 / (span.began.elapsed().as_nanos() as f64 * span.cpus.len() as f64);
        assert!(own > 0.0 && others + own < 1.1, "{others} {own}");
    }
}
