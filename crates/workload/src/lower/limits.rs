//! The keys of a task group that make its limit.
//!
//! The kernel keeps period and burst of a group that has no runtime, so that one file can lift a limit and set it
//! again. So a `runtime` of -1 may stand beside all of these keys. Without any `runtime`, a `burst` or a `per_cpu`
//! belongs to a missing limit and causes a warning.

use super::warnings::Warnings;
use crate::diagnostic::Fault;
use crate::json::{Member, Node};
use runyard_engine::limits::{BadLimit, Limit};
use runyard_engine::time::Nanos;

/// The runtime of a group without a limit (`cpu.cfs_quota_us`).
const NONE: i64 = -1;
/// The largest number of microseconds that fits into a number of nanoseconds.
const MAX_MICROS: i64 = i64::MAX / 1_000;

/// The keys of a group's limit, each with its place.
#[derive(Default)]
pub(super) struct LimitKeys<'v> {
    pub(super) runtime: Option<(Node<'v>, Option<Nanos>)>,
    pub(super) period: Option<(Node<'v>, Nanos)>,
    pub(super) burst: Option<(Member<'v>, Nanos)>,
    pub(super) per_cpu: Option<(Member<'v>, bool)>,
}

impl<'v> LimitKeys<'v> {
    /// Reads `cpu.max`: a quota or "max", and a period.
    pub(super) fn read_max(&mut self, member: Member<'v>) -> Result<(), Fault> {
        let value = member.value;
        let expected = || value.expected("a quota and a period, \"50000 100000\" or \"max\"");
        let text = match value.is_number() {
            true => value.source().into(),
            false => value.text().map_err(|_| expected())?,
        };
        let mut words = text.split_whitespace();
        let (quota, period) = (words.next().ok_or_else(expected)?, words.next());
        let micros = |word: &str| {
            let plain = word.bytes().all(|byte| byte.is_ascii_digit());
            let micros = word.parse().ok().filter(|&micros| plain && micros <= MAX_MICROS as u64);
            micros.map(Nanos::from_micros).ok_or_else(expected)
        };
        let quota = if quota == "max" { None } else { Some(micros(quota)?) };
        if words.next().is_some() {
            return Err(expected());
        }
        self.runtime = Some((value, quota));
        self.period = period.map(|period| Ok((value, micros(period)?))).transpose()?;
        Ok(())
    }

    /// Returns whether no key is given.
    pub(super) fn is_empty(&self) -> bool {
        let given = self.runtime.is_some() || self.period.is_some();
        !given && self.burst.is_none() && self.per_cpu.is_none()
    }

    /// Returns the limit of these keys. An error has the place of the wrong key.
    pub(super) fn limit(&self, warnings: &mut Warnings) -> Result<Option<Limit>, Fault> {
        let period = self.period.map_or(Limit::PERIOD, |(_, period)| period);
        let Some((_, Some(runtime))) = self.runtime else {
            if !Limit::PERIODS.contains(&period) {
                return Err(self.fault(BadLimit::Period));
            }
            self.warn_if_forgotten(warnings);
            return Ok(None);
        };
        let burst = self.burst.map_or(Nanos::ZERO, |(_, burst)| burst);
        let per_cpu = self.per_cpu.is_some_and(|(_, per_cpu)| per_cpu);
        Limit::new(runtime, period, burst, per_cpu).map(Some).map_err(|why| self.fault(why))
    }

    /// Returns the error of a wrong limit at one of the given keys. An absent key has a valid default, so it is never
    /// at fault.
    fn fault(&self, why: BadLimit) -> Fault {
        self.fault_or(why, Fault::NOWHERE)
    }

    /// Returns the same for keys that change a limit. A key that is not given may be at fault. The error then has the
    /// place `change`.
    pub(super) fn fault_or(&self, why: BadLimit, change: usize) -> Fault {
        let at = match why {
            BadLimit::Period => self.period.map(|(value, _)| value.at()),
            BadLimit::Runtime => self.runtime.map(|(value, _)| value.at()),
            BadLimit::Burst => self.burst.map(|(member, _)| member.value.at()),
            _ => None,
        };
        Fault::new(at.unwrap_or(change), why.to_string())
    }

    fn warn_if_forgotten(&self, warnings: &mut Warnings) {
        if self.runtime.is_some() {
            return;
        }
        let burst = self.burst.map(|(member, _)| member);
        let per_cpu = self.per_cpu.filter(|&(_, asked)| asked).map(|(member, _)| member);
        for member in burst.into_iter().chain(per_cpu) {
            warnings.once(member, "has no effect on a task group without a `runtime`");
        }
    }
}

/// Reads a runtime; -1 is none.
pub(super) fn runtime(value: Node<'_>) -> Result<Option<Nanos>, Fault> {
    let micros = value.integer("microseconds, or -1 for no limit", NONE..=MAX_MICROS)?;
    Ok(u64::try_from(micros).ok().map(Nanos::from_micros))
}

/// Reads a period or a burst.
pub(super) fn span(value: Node<'_>) -> Result<Nanos, Fault> {
    value.checked("microseconds", 0..=MAX_MICROS, |micros| {
        u64::try_from(micros).ok().map(Nanos::from_micros)
    })
}
