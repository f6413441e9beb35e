//! Conditions on a comparison: `p99(chains.request.latency) > +10%` fails if the metric rises by more than ten per cent.
//!
//! A condition is about the ratio of each pair of runs. It fails only if the whole interval is beyond the bound. The
//! intervals of all conditions of a comparison have 95 % confidence together. Ratios are compared by their logarithms:
//! of two equal sides that differ by chance the ratios are as often a half as a double, and per cent are then +25 % in
//! the mean.

use crate::metric::Metric;
use runyard_report::statistics::{pairs_needed, pairs_to_decide, shift_of};
use runyard_report::{Asked, metric_title};
use serde::Serialize;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The numbers of seeds that a comparison may have.
pub const SEEDS: RangeInclusive<u64> = 1..=1000;

/// A condition: a metric, `>` or `<`, and a change in per cent.
///
/// ```
/// use runyard_sweep::Condition;
///
/// let condition: Condition = "p99(chains.request.latency) > +10%".parse().unwrap();
/// assert_eq!(condition.to_string(), "p99(chains.request.latency) > +10%");
/// assert!("machine.switches = 3".parse::<Condition>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    metric: Metric,
    is_above: bool,
    percent: f64,
}

/// The result of a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The condition.
    pub condition: String,
    /// The change of the metric in per cent (the Hodges-Lehmann estimate over pairs of runs), if it is known.
    pub percent: Option<f64>,
    /// The lower end of its interval; `None` with too few pairs.
    pub lo: Option<f64>,
    /// The upper end of its interval.
    pub hi: Option<f64>,
    /// The conclusion.
    pub is: Is,
    /// The number of seeds that would decide, if the condition is undecided; `None` if it is above the greatest one of
    /// [`SEEDS`].
    pub seeds_needed: Option<usize>,
}

/// The conclusion about a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    /// The whole interval is beyond the bound.
    Failed,
    /// No part of the interval is beyond the bound.
    Kept,
    /// The bound is within the interval, or there are too few seeds for an interval.
    Undecided,
}

impl Condition {
    /// The metric.
    #[must_use]
    pub fn metric(&self) -> &Metric {
        &self.metric
    }

    /// The result by these values of the metric, as one of `conditions` in a comparison.
    pub(super) fn outcome(&self, asked: &Asked, conditions: usize) -> Outcome {
        let [before, after] = &asked.sides;
        let pairs = before.iter().zip(after).filter_map(|(before, after)| (*before).zip(*after));
        let changes: Vec<f64> = pairs.map(|(before, after)| log_ratio(before, after)).collect();
        let shift = shift_of(&changes, conditions);
        let interval = shift.and_then(|shift| shift.interval);
        // Turned round, so that beyond the bound is always above it.
        let sign = if self.is_above { 1.0 } else { -1.0 };
        let ends = interval.map(|(low, high)| [low * sign, high * sign]);
        let bound = libm::log1p(self.percent / 100.0);
        let is = match ends {
            Some(ends) if ends.iter().all(|&end| end > bound * sign) => Is::Failed,
            Some(ends) if ends.iter().all(|&end| end <= bound * sign) => Is::Kept,
            _ => Is::Undecided,
        };
        let needed = match (is, shift) {
            (Is::Undecided, Some(shift)) if interval.is_some() => {
                pairs_to_decide(&shift, bound, changes.len())
            }
            (Is::Undecided, _) => Some(pairs_needed(conditions)),
            _ => None,
        };
        let known = |it: f64| Some(100.0 * libm::expm1(it)).filter(|it| it.is_finite());
        Outcome {
            condition: self.to_string(),
            percent: shift.and_then(|shift| known(shift.estimate)),
            lo: interval.and_then(|(low, _)| known(low)),
            hi: interval.and_then(|(_, high)| known(high)),
            is,
            seeds_needed: needed.filter(|&seeds| seeds as u64 <= *SEEDS.end()),
        }
    }
}

/// The logarithm of `after` over `before`. A change from nothing or to nothing is greater than all others.
fn log_ratio(before: f64, after: f64) -> f64 {
    /// It stands for infinity, and has means with others of both signs.
    const FAR: f64 = 1e4;
    if after == before { 0.0 } else { libm::log(after / before).clamp(-FAR, FAR) }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let than = if self.is_above { '>' } else { '<' };
        write!(f, "{} {than} {:+}%", self.metric, self.percent)
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong = |rest: &str, what: &str| {
            let before = &text[..text.len() - rest.len()];
            format!("1:{}: {what}", before.chars().count() + 1)
        };
        // A name in quotes may have such a sign too, but a bound has none.
        let at = text
            .rfind(['>', '<'])
            .ok_or_else(|| wrong("", "> or < is missing, as in p99(chains.web.latency) > +10%"))?;
        let bound = text[at + 1..].trim_start();
        let percent = bound.trim_end().strip_suffix('%').and_then(|it| it.trim_end().parse().ok());
        let percent = percent
            .filter(|percent: &f64| percent.is_finite() && *percent > -100.0)
            .ok_or_else(|| wrong(bound, "a change in per cent is expected, as +10% or -5%"))?;
        let metric = text[..at].trim().parse();
        let metric = metric.map_err(|what: String| wrong(text.trim_start(), &what))?;
        Ok(Condition { metric, is_above: text[at..].starts_with('>'), percent })
    }
}

/// A line without its end.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = match self.is {
            Is::Failed => "failed",
            Is::Kept => "kept",
            Is::Undecided => "undecided",
        };
        write!(f, "{is}: {}", metric_title(&self.condition))?;
        match (self.percent, self.lo.zip(self.hi)) {
            (Some(percent), Some((low, high))) => {
                write!(f, ": {percent:+.1} %, interval {low:+.1} to {high:+.1} %")?;
            }
            (Some(percent), None) => write!(f, ": {percent:+.1} %")?,
            (None, _) => {}
        }
        match (self.is, self.seeds_needed) {
            (Is::Undecided, Some(seeds)) => write!(f, "; {seeds} seeds would decide"),
            (Is::Undecided, None) => write!(f, "; more than {} seeds would decide", SEEDS.end()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of a condition on twenty pairs, whose changes are around `percent`, up to nine points away.
    fn said(condition: &str, percent: f64) -> String {
        let after =
            (0..20).map(|run| Some(1000.0 + 10.0 * percent + f64::from(run % 10 * 20 - 90)));
        let sides = [vec![Some(1000.0); 20], after.collect()];
        let condition: Condition = condition.parse().unwrap();
        condition.outcome(&Asked { sides, ..Asked::default() }, 1).to_string()
    }

    #[test]
    fn a_condition_fails_only_if_the_whole_interval_is_beyond_its_bound() {
        for (condition, percent, expected) in [
            (
                "machine.switches > +10%",
                20.0,
                "failed: machine.switches > +10%: +19.9 %, interval ",
            ),
            ("machine.switches>10%", 3.0, "kept: machine.switches > +10%: +"),
            ("machine.switches > +10%", 11.0, "undecided: machine.switches > +10%: +1"),
            ("machine.switches < -10 %", -20.0, "failed: machine.switches < -10%: -20."),
            ("machine.switches < -10%", 20.0, "kept: "),
            ("machine.switches > -10%", 0.0, "failed: "),
        ] {
            let said = said(condition, percent);
            assert!(said.starts_with(expected), "{said}");
            assert_eq!(said.contains("seeds would decide"), expected.starts_with('u'), "{said}");
        }
        assert!(
            said("machine.switches > 10%", 10.0).ends_with("more than 1000 seeds would decide")
        );
    }

    #[test]
    fn few_pairs_and_zeros_decide_nothing() {
        let condition: Condition = "machine.switches > 10%".parse().unwrap();
        let of = |before: f64, after: f64, pairs: usize| {
            let sides = [vec![Some(before); pairs], vec![Some(after); pairs]];
            condition.outcome(&Asked { sides, ..Asked::default() }, 2)
        };
        let few = of(1.0, 2.0, 6);
        assert_eq!((few.is, few.seeds_needed), (Is::Undecided, Some(7)), "of two conditions");
        assert_eq!(of(1.0, 2.0, 7).is, Is::Failed);
        assert_eq!(of(0.0, 0.0, 7).is, Is::Kept);
        let from_nothing = of(0.0, 2.0, 7);
        assert_eq!((from_nothing.is, from_nothing.percent), (Is::Failed, None));
        assert_eq!(from_nothing.to_string(), "failed: machine.switches > +10%");
        assert_eq!(of(0.0, 0.0, 0).is, Is::Undecided);
    }

    #[test]
    fn equal_sides_that_differ_by_chance_do_not_fail() {
        let side =
            |first: usize| (first..first + 30).map(|run| Some([1.0, 4.0][run % 2])).collect();
        let condition: Condition = "machine.switches > +20%".parse().unwrap();
        let outcome =
            condition.outcome(&Asked { sides: [side(0), side(1)], ..Asked::default() }, 1);
        assert_eq!((outcome.is, outcome.percent), (Is::Kept, Some(0.0)), "{outcome}");
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for (text, what) in [
            ("machine.switches", "1:17: > or < is missing"),
            ("machine.switches > 10", "1:20: a change in per cent is expected"),
            ("machine.switches > inf%", "1:20: a change in per cent is expected"),
            ("machine.switches < -100%", "1:20: a change in per cent is expected"),
            ("machine.switches >", "1:19: a change in per cent is expected"),
            ("", "1:1: > or < is missing"),
            (" machines.switches > 10%", "1:2: there is no kind of figure \"machines\""),
        ] {
            let said = text.parse::<Condition>().unwrap_err();
            assert!(said.starts_with(what), "{said}");
        }
        let quoted = "share(tasks.\"a > b\") > +10%";
        assert_eq!(quoted.parse::<Condition>().unwrap().to_string(), quoted);
    }
}
