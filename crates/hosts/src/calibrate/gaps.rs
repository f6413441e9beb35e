//! The cost of a tick on a CPU that computes: the gap that it leaves in a thread that reads the clock continuously.

use crate::cpus;
use runyard_outcome::Failure;
use std::time::{Duration, Instant};

/// The time for which the clock is read.
const SPAN: Duration = Duration::from_millis(200);

/// The median, over all tick periods, of the longest gap in each, on one CPU. Each period has one tick. Other
/// interrupts of the thread are rarer.
pub(super) fn of_a_tick(cpu: usize, tick_hz: u32) -> Result<Duration, Failure> {
    let reads = move || {
        cpus::stay_on(cpu)?;
        Ok(longest(SPAN, Duration::from_secs(1) / tick_hz))
    };
    let gaps = std::thread::spawn(reads).join();
    let mut gaps = gaps.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    gaps.sort_unstable();
    Ok(gaps.get(gaps.len() / 2).copied().unwrap_or_default())
}

/// The longest time between two readings of the clock in each `tick` of `span`, minus the shortest of all.
fn longest(span: Duration, tick: Duration) -> Vec<Duration> {
    let (begin, mut gaps) = (Instant::now(), Vec::new());
    let (mut last, mut shortest) = (begin, Duration::MAX);
    while last - begin < span {
        let (end, mut longest) = (last + tick, Duration::ZERO);
        while last < end {
            let now = Instant::now();
            longest = longest.max(now - last);
            shortest = shortest.min(now - last);
            last = now;
        }
        gaps.push(longest);
    }
    gaps.into_iter().map(|gap| gap.saturating_sub(shortest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tick_has_its_longest_gap() {
        let gaps = longest(Duration::from_millis(20), Duration::from_millis(4));
        assert!((1..=5).contains(&gaps.len()), "{gaps:?}");
    }
}
