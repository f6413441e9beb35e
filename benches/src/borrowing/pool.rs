//! One number for all CPUs: what the group drew so far, which is compared with what it is granted by now.
//!
//! A CPU that runs the group draws `left / (running + 1)`, 5 ms at the most and 100 us at the least: large
//! slices while there is plenty, small ones towards the end, so that no CPU holds much while another one is
//! refused. When the group leaves the CPU, what is left of the slice is given back at once.

use super::PERIOD;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most that is drawn at once (`sched_cfs_bandwidth_slice`), and the least, in ns.
const SLICE: u64 = 5_000_000;
const LEAST: u64 = 100_000;

/// A period of a group that may use as much as one CPU.
#[derive(Clone, Debug)]
pub struct Pool {
    /// What is not drawn yet.
    left: u64,
    /// CPUs that run the group.
    running: u64,
    counts: Drawn,
}

/// What drawing took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Slices.
    pub draws: u64,
    /// Visits of the pool: one for each slice, each refusal, and what is given back.
    pub visits: u64,
    /// What was used.
    pub used: u64,
}

impl Pool {
    fn new(running: usize) -> Pool {
        Pool { left: PERIOD, running: running as u64, counts: Drawn::default() }
    }

    /// One hog on a machine of `cpus`, which moves after `moves` of running if that is given.
    #[must_use]
    pub fn hog(cpus: usize, moves: Option<u64>) -> Drawn {
        assert!(cpus > 1, "there is a CPU to move to");
        let mut pool = Pool::new(1);
        let mut moves = moves;
        while let Some(slice) = pool.draw() {
            let used = pool.counts.used;
            match moves.filter(|&at| at < used + slice) {
                None => pool.counts.used += slice,
                Some(at) => {
                    moves = None;
                    pool.counts.used = at;
                    pool.give_back(used + slice - at);
                }
            }
        }
        pool.counts
    }

    /// A hog on each of `cpus`.
    #[must_use]
    pub fn hogs(cpus: usize) -> Drawn {
        let mut pool = Pool::new(cpus);
        let mut due: BinaryHeap<_> = (0..cpus).map(|cpu| Reverse((0, cpu))).collect();
        while let Some(Reverse((now, cpu))) = due.pop() {
            match pool.draw() {
                Some(slice) => {
                    pool.counts.used += slice;
                    due.push(Reverse((now + slice, cpu)));
                }
                None => pool.running -= 1,
            }
        }
        pool.counts
    }

    /// None if nothing is left.
    fn draw(&mut self) -> Option<u64> {
        self.counts.visits += 1;
        let slice = (self.left / (self.running + 1)).clamp(LEAST, SLICE).min(self.left);
        self.left -= slice;
        self.counts.draws += u64::from(slice > 0);
        (slice > 0).then_some(slice)
    }

    fn give_back(&mut self, slice: u64) {
        self.counts.visits += 1;
        self.left += slice;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_used_wherever_the_hogs_are() {
        for drawn in [Pool::hog(24, None), Pool::hog(24, Some(77_777_777)), Pool::hogs(24)] {
            assert_eq!(drawn.used, PERIOD, "{drawn:?}");
        }
    }

    #[test]
    fn a_move_is_two_operations() {
        // A slice is given back, and its rest drawn again; sizes differ a little from then on.
        let [stays, moves] = [None, Some(PERIOD / 3)].map(|moves| Pool::hog(4, moves));
        assert!(moves.visits - stays.visits <= 3, "{stays:?} {moves:?}");
    }

    #[test]
    fn a_refusal_each_and_slices_of_the_least_size_are_the_most_that_it_takes() {
        let drawn = Pool::hogs(1_024);
        assert!(drawn.draws <= PERIOD / LEAST, "{drawn:?}");
        assert_eq!(drawn.visits, drawn.draws + 1_024);
    }
}
