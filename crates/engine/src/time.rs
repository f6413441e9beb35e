//! Instants, spans and virtual instants. Time is always an argument: this module reads no clock.
//!
//! There are three types, so that they cannot be mixed: [`Time`] is a point on the host's clock,
//! [`Nanos`] is a span of it, and [`VTime`] is a point on the virtual clock of one fair queue,
//! where a task's time is scaled by its weight.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// An instant: nanoseconds since the host started its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// An instant on the virtual clock of one fair queue, in weighted nanoseconds.
///
/// The clock may wrap around: the virtual clock of a SCHED_IDLE task runs 341 times faster than
/// time. Instants are ordered by their signed difference. That order is total as long as all
/// compared values lie within 2^63 of each other; the members of a fair queue are far closer than
/// that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VTime(pub u64);

impl Time {
    /// The instant at which the host's clock started.
    pub const ZERO: Time = Time(0);
    /// An instant later than any that a host reaches.
    pub const MAX: Time = Time(u64::MAX);

    /// Returns the span from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub fn since(self, earlier: Time) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the first multiple of `step` that is later than this instant.
    ///
    /// # Panics
    /// If `step` is zero.
    #[must_use]
    pub fn next_multiple(self, step: Nanos) -> Time {
        assert!(step > Nanos::ZERO, "a clock does not tick every 0 ns");
        Time((self.0 / step.0 + 1) * step.0)
    }
}

impl Nanos {
    /// The span of zero.
    pub const ZERO: Nanos = Nanos(0);
    /// A span longer than any that a host measures.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Returns a span of `n` microseconds.
    #[must_use]
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// Returns a span of `n` milliseconds.
    #[must_use]
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }

    /// Returns a span of `n` seconds.
    #[must_use]
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// Returns this span less `other`; zero if `other` is longer.
    #[must_use]
    pub fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

/// The longest span that there is stands for a longer one.
impl From<Duration> for Nanos {
    fn from(span: Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl VTime {
    /// Returns the instant that is `span` weighted nanoseconds later.
    #[must_use]
    pub fn after(self, span: u64) -> VTime {
        VTime(self.0.wrapping_add(span))
    }

    /// Returns the instant that is `span` weighted nanoseconds earlier.
    #[must_use]
    pub fn before(self, span: u64) -> VTime {
        VTime(self.0.wrapping_sub(span))
    }

    /// Returns how much later this instant is than `other`; negative if it is earlier.
    #[must_use]
    pub fn diff(self, other: VTime) -> i64 {
        self.0.wrapping_sub(other.0).cast_signed()
    }
}

impl PartialOrd for VTime {
    fn partial_cmp(&self, other: &VTime) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for VTime {
    fn cmp(&self, other: &VTime) -> std::cmp::Ordering {
        self.diff(*other).cmp(&0)
    }
}

impl Add<Nanos> for Time {
    type Output = Time;
    fn add(self, span: Nanos) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    /// Returns this span less `other`.
    ///
    /// # Panics
    /// In builds with overflow checks, if `other` is longer.
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Nanos) {
        *self = *self - other;
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The unit is the largest in which the span is at least one.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{}.{:03} us", self.0 / 1_000, self.0 % 1_000),
            1_000_000..1_000_000_000 => {
                write!(f, "{}.{:03} ms", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
            }
            _ => write!(f, "{}.{:03} s", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_instants_compare_across_the_wrap() {
        let before = VTime(u64::MAX - 5);
        let after = before.after(10);
        assert_eq!(after.0, 4);
        assert!(before < after);
        assert_eq!(after.diff(before), 10);
    }

    #[test]
    fn next_multiple_is_strictly_later() {
        assert_eq!(Time(0).next_multiple(Nanos(10)), Time(10));
        assert_eq!(Time(9).next_multiple(Nanos(10)), Time(10));
        assert_eq!(Time(10).next_multiple(Nanos(10)), Time(20));
    }
}
