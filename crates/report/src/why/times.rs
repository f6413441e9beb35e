//! The nanoseconds of waiting by cause.

use super::cause::Cause;
use serde::de::Deserializer;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// A time for each cause. In JSON it is an object with the names of the causes; the slack of timers is left out, since a
/// task that is not woken yet does not wait.
///
/// ```
/// use runyard_report::{Cause, CauseTimes};
///
/// let mut waits = CauseTimes::default();
/// waits[Cause::Throttled] += 70;
/// waits[Cause::Turn] += 30;
/// assert_eq!(waits.total(), 100);
/// assert_eq!(waits.longest(), [(Cause::Throttled, 70), (Cause::Turn, 30)]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseTimes([u64; Cause::ALL.len()]);

impl CauseTimes {
    /// No time.
    pub const NONE: CauseTimes = CauseTimes([0; Cause::ALL.len()]);

    /// The sum over all causes, in nanoseconds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The causes with some time, in nanoseconds, the longest first.
    #[must_use]
    pub fn longest(&self) -> Vec<(Cause, u64)> {
        let mut some: Vec<_> = self.iter().filter(|&(_, time)| time > 0).collect();
        some.sort_by_key(|&(cause, time)| (std::cmp::Reverse(time), cause));
        some
    }

    /// Adds the times of another one.
    pub fn add(&mut self, other: &CauseTimes) {
        self.0.iter_mut().zip(other.0).for_each(|(all, one)| *all += one);
    }

    /// Subtracts the times of an earlier state of this one.
    pub(crate) fn since(mut self, earlier: &CauseTimes) -> CauseTimes {
        self.0.iter_mut().zip(earlier.0).for_each(|(all, one)| *all -= one);
        self
    }

    fn iter(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().zip(self.0)
    }
}

impl Index<Cause> for CauseTimes {
    type Output = u64;

    fn index(&self, cause: Cause) -> &u64 {
        &self.0[cause as usize]
    }
}

impl IndexMut<Cause> for CauseTimes {
    fn index_mut(&mut self, cause: Cause) -> &mut u64 {
        &mut self.0[cause as usize]
    }
}

impl Serialize for CauseTimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let slack = self[Cause::TimerSlack] > 0;
        let told = |cause| slack || cause != Cause::TimerSlack;
        let mut map = serializer.serialize_map(Some(Cause::ALL.len() - usize::from(!slack)))?;
        for (cause, time) in self.iter().filter(|&(cause, _)| told(cause)) {
            map.serialize_entry(cause.entry().name, &time)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for CauseTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CauseTimes, D::Error> {
        let mut times = CauseTimes::default();
        for (cause, time) in BTreeMap::<Cause, u64>::deserialize(deserializer)? {
            times[cause] = time;
        }
        Ok(times)
    }
}
