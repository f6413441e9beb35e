//! Each CPU has its part, and borrows of the others (`do_balance_runtime` of `rt.c`, Linux 6.12).
//!
//! At a tick a CPU is charged. One that used more than it has locks each other CPU in turn and takes 1/n of
//! what is left there, until it has a whole period; if that does not do, the group is throttled there. When
//! the period is over it tries once more, and what it used beyond what it has is carried over. What was
//! taken stays taken.

use super::{ENOUGH, PERIOD};

/// Ticks at 1000 Hz, in ns.
const TICK: u64 = 1_000_000;

/// A machine, and the parts of a group that may use as much as one CPU.
#[derive(Clone, Debug)]
pub struct Passes {
    cpus: Vec<Cpu>,
    counts: Borrowed,
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// What it may use in a period.
    runtime: u64,
    /// What it used of that.
    used: u64,
    throttled: bool,
}

/// What borrowing took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Borrowed {
    /// Walks over the other CPUs.
    pub passes: u64,
    /// Locks of other CPUs taken in them.
    pub locks: u64,
    /// Ticks that went by.
    pub ticks: u64,
}

impl Borrowed {
    /// The time that went by.
    #[must_use]
    pub fn seconds(self) -> String {
        format!("{:.1} s", (self.ticks * TICK) as f64 / 1e9)
    }
}

impl Passes {
    /// Nothing was used and nothing borrowed.
    #[must_use]
    pub fn new(cpus: usize) -> Passes {
        let part = Cpu { runtime: PERIOD / cpus as u64, used: 0, throttled: false };
        Passes { cpus: vec![part; cpus], counts: Borrowed::default() }
    }

    /// A hog on `cpu`, at the beginning of a period, until it has enough of the budget.
    pub fn hog(&mut self, cpu: usize) -> Borrowed {
        self.counts = Borrowed::default();
        self.cpus.iter_mut().for_each(|cpu| cpu.used = 0);
        let enough = self.budget() * ENOUGH / 100;
        while self.cpus[cpu].runtime < enough {
            self.counts.ticks += 1;
            self.tick(cpu);
            if (self.counts.ticks * TICK).is_multiple_of(PERIOD) {
                self.next_period(cpu);
            }
        }
        self.counts
    }

    /// A hog on each CPU, for so many periods: what the last one took.
    pub fn hogs(&mut self, periods: u32) -> Borrowed {
        for _ in 0..periods {
            self.counts = Borrowed::default();
            for _ in 0..PERIOD / TICK {
                self.counts.ticks += 1;
                (0..self.cpus.len()).for_each(|cpu| self.tick(cpu));
            }
            (0..self.cpus.len()).for_each(|cpu| self.next_period(cpu));
        }
        self.counts
    }

    /// What is on other CPUs than `cpu`.
    #[must_use]
    pub fn elsewhere(&self, cpu: usize) -> u64 {
        self.budget() - self.cpus[cpu].runtime
    }

    fn budget(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.runtime).sum()
    }

    /// The hog of `at` was charged for a tick, unless it is throttled.
    fn tick(&mut self, at: usize) {
        if self.cpus[at].throttled {
            return;
        }
        self.cpus[at].used += TICK;
        self.borrow_if_short(at);
        let cpu = &mut self.cpus[at];
        cpu.throttled = cpu.used > cpu.runtime;
    }

    fn next_period(&mut self, at: usize) {
        if self.cpus[at].throttled {
            self.borrow_if_short(at);
        }
        let cpu = &mut self.cpus[at];
        cpu.used -= cpu.used.min(cpu.runtime);
        cpu.throttled &= cpu.used >= cpu.runtime;
    }

    fn borrow_if_short(&mut self, at: usize) {
        if self.cpus[at].used <= self.cpus[at].runtime {
            return;
        }
        self.counts.passes += 1;
        let cpus = self.cpus.len() as u64;
        let mut mine = self.cpus[at].runtime;
        for (nth, other) in self.cpus.iter_mut().enumerate() {
            if nth == at {
                continue;
            }
            self.counts.locks += 1;
            let spare = other.runtime.saturating_sub(other.used) / cpus;
            let taken = spare.min(PERIOD - mine);
            other.runtime -= taken;
            mine += taken;
            if mine == PERIOD {
                break;
            }
        }
        self.cpus[at].runtime = mine;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many passes collect 90 % on one CPU: each leaves (n - 1)/n of what is elsewhere.
    fn expected(cpus: usize) -> u64 {
        let n = cpus as f64;
        let left = (1.0 - ENOUGH as f64 / 100.0) * n / (n - 1.0);
        (left.ln() / (1.0 - 1.0 / n).ln()).ceil() as u64
    }

    #[test]
    fn passes_are_as_many_as_the_rule_says() {
        for cpus in [4, 24, 256] {
            let took = Passes::new(cpus).hog(0);
            assert_eq!(took.passes, expected(cpus), "{cpus} CPUs");
            assert_eq!(took.locks, took.passes * (cpus as u64 - 1));
        }
        assert_eq!(expected(24), 54);
    }

    #[test]
    fn what_is_borrowed_is_not_made() {
        let mut passes = Passes::new(24);
        let budget = passes.budget();
        passes.hog(3);
        assert_eq!(passes.budget(), budget);
        assert!(passes.elsewhere(3) <= budget / 10 && passes.elsewhere(4) > budget / 2);
    }

    #[test]
    fn nothing_is_borrowed_where_nothing_is_left_and_all_try() {
        let took = Passes::new(24).hogs(2);
        assert!(took.locks >= 24 * 23, "{took:?}");
    }
}
