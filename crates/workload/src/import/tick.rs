//! The rate of a recorded machine's tick.
//!
//! A fair task loses its CPU to one that waits when the tick finds that its turn is over, and the tick charges a task
//! that goes on. So these times lie on a grid. The rate is the lowest usual one whose grid most of them lie on. A grid of
//! 1 ms contains one of 4 ms, so the highest rate would fit as well. Each CPU's grid may begin elsewhere.
//!
//! In the recordings of `docs/design/import.md` at least 87 in 100 of the times lie within a twentieth of a millisecond of
//! their grid, and at most 44 on that of a lower rate.

use super::record::{Record, What};
use std::collections::BTreeMap;

/// The rates that kernels are built with, in hertz.
const RATES: [u32; 4] = [100, 250, 300, 1_000];

/// The width of a bin, in nanoseconds. A time lies on the grid if it is in the fullest two adjacent bins.
const BIN_NS: u64 = 50_000;

/// The smallest number of times that tell a rate.
const LEAST: u64 = 10;

/// The part of the times that lie on the grid of the rate, in per cent.
const ON_GRID: u64 = 75;

/// A charge with another record of its CPU this near belongs to that, in nanoseconds: a wake-up and a switch charge too.
const ALONE_NS: u64 = 20_000;

/// The times at which the tick may have charged a task or ended its turn, with their CPUs.
#[derive(Debug, Default)]
pub(super) struct Beats {
    all: Vec<(u32, u64)>,
    /// For each CPU, its last record, and whether that may be a charge by the tick.
    last: BTreeMap<u32, (u64, bool)>,
}

impl Beats {
    /// Notes a record that comes next in time.
    pub(super) fn see(&mut self, record: &Record<'_>) {
        let (cpu, at) = (record.cpu, record.at);
        let last = self.last.get(&cpu).copied();
        let alone = last.is_none_or(|(last, _)| at - last > ALONE_NS);
        if let Some((charge, true)) = last
            && alone
        {
            self.all.push((cpu, charge));
        }
        let is_charge = matches!(record.what, What::Charged { .. });
        self.last.insert(cpu, (at, alone && is_charge));
    }

    /// Notes a switch from a task that could have gone on to one that had waited.
    pub(super) fn turn_ends(&mut self, record: &Record<'_>) {
        self.all.push((record.cpu, record.at));
    }

    /// Returns the rate of the tick in hertz, if these times tell it.
    pub(super) fn rate(&self) -> Option<u32> {
        let count = self.all.len() as u64;
        let fits = |&rate: &u32| on_grid(&self.all, rate) * 100 >= count * ON_GRID;
        RATES.into_iter().find(fits).filter(|_| count >= LEAST)
    }
}

/// Returns the number of times that lie on the grid of this rate.
fn on_grid(beats: &[(u32, u64)], rate: u32) -> u64 {
    let period = 1_000_000_000 / u64::from(rate);
    let bins = period.div_ceil(BIN_NS);
    let mut filled: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for &(cpu, at) in beats {
        *filled.entry((cpu, at % period / BIN_NS)).or_default() += 1;
    }
    let mut fullest: BTreeMap<u32, u64> = BTreeMap::new();
    for (&(cpu, bin), &count) in &filled {
        let next = filled.get(&(cpu, (bin + 1) % bins)).copied().unwrap_or(0);
        let most = fullest.entry(cpu).or_default();
        *most = (*most).max(count + next);
    }
    fullest.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns times on the grids of two CPUs, that begin apart, and every fifth time anywhere.
    fn beats(rate: u32) -> Beats {
        let period = 1_000_000_000 / u64::from(rate);
        let beat = |nth: u64| {
            let cpu = (nth % 2) as u32;
            let off = if nth.is_multiple_of(5) { nth * 777_777 } else { u64::from(cpu) * 333_000 };
            (cpu, 5_000_000_000 + (nth * 3 + nth * nth % 7) * period + off)
        };
        Beats { all: (0..40).map(beat).collect(), ..Beats::default() }
    }

    #[test]
    fn the_rate_is_the_lowest_whose_grid_most_times_lie_on() {
        for rate in RATES {
            assert_eq!(beats(rate).rate(), Some(rate));
        }
    }

    #[test]
    fn few_times_and_times_on_no_grid_tell_nothing() {
        let mut few = beats(250);
        few.all.truncate(LEAST as usize - 1);
        assert_eq!(few.rate(), None);
        let all = (0..100).map(|nth| (0, nth * nth * 61_803)).collect();
        assert_eq!(Beats { all, ..Beats::default() }.rate(), None);
    }
}
