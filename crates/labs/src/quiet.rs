//! Measurements of real CPUs, repeated if others used the CPUs meanwhile, and the verdicts on claims about them.
//!
//! A live claim is judged if all others together had less than a tenth of the CPUs during its measurement. Otherwise it
//! is measured again, at most three times within the time of the experiment, and then it is not judged. Nothing else
//! makes a measurement repeat: its result plays no part.
//!
//! A claim that no other program can break is judged on any machine, by [`ClaimVerdict::of`]: no load loses a message
//! or lets a timer run early.

use crate::claims::{ClaimVerdict, Unjudged};
use crate::length::Length;
use crate::progress::Progress;
use runyard_hosts::others::Span;
use runyard_outcome::Failure;
use std::time::{Duration, Instant};

/// The least share of the CPUs that disturbs a measurement. It is well above the use of an idle desktop and above the
/// error of the kernel's counts, and well below a single busy thread on one of two CPUs.
const DISTURBS: f64 = 0.1;

/// The largest number of tries.
const TRIES: u32 = 3;

/// The effect of such a share of others on a measurement; `None` if there is none.
fn disturbance(others: Option<f64>) -> Option<Unjudged> {
    match others {
        Some(share) if share < DISTURBS => None,
        Some(share) => Some(Unjudged::Others((share * 100.0).round() as u8)),
        None => Some(Unjudged::Uncounted),
    }
}

/// The result of a measurement, and whether others disturbed it to the last try.
#[derive(Clone, Debug)]
pub(crate) struct Tried<T> {
    pub(crate) result: T,
    pub(crate) disturbed: Option<Unjudged>,
}

impl<T> Tried<T> {
    /// A result that nobody disturbed.
    pub(crate) fn quiet(result: T) -> Tried<T> {
        Tried { result, disturbed: None }
    }
}

/// The results that decide about a claim: the undisturbed ones, or all if there is none.
pub(crate) fn deciding<T>(runs: &[Tried<T>]) -> Vec<&T> {
    let results = |quiet: bool| {
        let of = runs.iter().filter(move |run| !quiet || run.disturbed.is_none());
        of.map(|run| &run.result).collect::<Vec<_>>()
    };
    Some(results(true)).filter(|some| !some.is_empty()).unwrap_or_else(|| results(false))
}

/// The verdict on a claim that holds, or does not, of the [deciding](deciding) runs. One undisturbed run is enough to
/// break it, and all are needed to keep it.
pub(crate) fn verdict<T>(runs: &[Tried<T>], holds: bool) -> ClaimVerdict {
    let quiet = runs.iter().any(|run| run.disturbed.is_none());
    match runs.iter().filter_map(|run| run.disturbed).max() {
        Some(why) if holds || !quiet => ClaimVerdict::NotJudged(why),
        _ => ClaimVerdict::of(holds),
    }
}

/// The measurements of an experiment, one after the other.
#[derive(Debug)]
pub(crate) struct Course<'p> {
    progress: &'p Progress,
    /// The instant by which the experiment should be over; a soak takes the time that it needs.
    end: Option<Instant>,
    /// The time that the coming measurements take, if each is made once.
    rest: Duration,
}

impl Course<'_> {
    /// Measurements that together take this time if each is made once.
    pub(crate) fn new(length: Length, takes: Duration, progress: &Progress) -> Course<'_> {
        let end = length.most().map(|most| Instant::now() + most);
        Course { progress, end, rest: takes }
    }

    /// Measurements that are tried once.
    pub(crate) fn of_one_try(progress: &Progress) -> Course<'_> {
        Course { progress, end: Some(Instant::now()), rest: Duration::ZERO }
    }

    /// Measures once, whatever others do: for figures that are only shown.
    pub(crate) fn once<T>(&mut self, what: &str, takes: Duration, run: impl FnOnce() -> T) -> T {
        self.progress.until(what, self.rest);
        let result = run();
        self.rest = self.rest.saturating_sub(takes);
        result
    }

    /// Measures so many runs, each with its own seed.
    pub(crate) fn runs<T>(
        &mut self,
        what: &str,
        takes: Duration,
        runs: u64,
        run: impl Fn(u64) -> Result<T, Failure>,
    ) -> Result<Vec<Tried<T>>, Failure> {
        (1..=runs).map(|seed| self.seeded(what, takes, seed, &run)).collect()
    }

    /// Measures with this seed, and in another try with a seed that no run has.
    pub(crate) fn seeded<T>(
        &mut self,
        what: &str,
        takes: Duration,
        seed: u64,
        run: impl Fn(u64) -> Result<T, Failure>,
    ) -> Result<Tried<T>, Failure> {
        self.quiet(what, takes, |attempt| run(seed + (u64::from(attempt) << u32::BITS)))
    }

    /// Measures until others leave the CPUs alone, as often as there is time. `run` gets the number of the try, from 0.
    pub(crate) fn quiet<T>(
        &mut self,
        what: &str,
        takes: Duration,
        mut run: impl FnMut(u32) -> Result<T, Failure>,
    ) -> Result<Tried<T>, Failure> {
        let (progress, end, all) = (self.progress, self.end, self.rest);
        self.rest = all.saturating_sub(takes);
        let (rest, begun) = (self.rest, Instant::now());
        tries(
            |attempt, before| {
                progress.until(&described(what, attempt, before), all);
                let span = Span::begin()?;
                let result = run(attempt)?;
                Ok((result, span.others()))
            },
            |tried| {
                let each = begun.elapsed() / tried;
                // A machine that is as slow for the others as it was for this one.
                let slow = (each.as_secs_f64() / takes.as_secs_f64()).max(1.0);
                end.is_none_or(|end| Instant::now() + each + rest.mul_f64(slow) <= end)
            },
        )
    }
}

fn described(what: &str, attempt: u32, before: Option<Unjudged>) -> String {
    match before {
        None => what.to_owned(),
        Some(why) => format!("{what}, try {} of {TRIES}, since {why}", attempt + 1),
    }
}

/// Measures until a share of others does not disturb, at most [`TRIES`] times and only while there is time for another
/// try after so many.
fn tries<T>(
    mut measure: impl FnMut(u32, Option<Unjudged>) -> Result<(T, Option<f64>), Failure>,
    is_time: impl Fn(u32) -> bool,
) -> Result<Tried<T>, Failure> {
    let (mut attempt, mut before) = (0, None);
    loop {
        let (result, others) = measure(attempt, before)?;
        let disturbed = disturbance(others);
        attempt += 1;
        if disturbed.is_none() || attempt == TRIES || !is_time(attempt) {
            return Ok(Tried { result, disturbed });
        }
        before = disturbed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Option<f64> = Some(0.4);

    /// The number of the try that counts, and why it is not judged, with these shares of others and time for so many
    /// tries.
    fn tried(shares: [Option<f64>; 3], time: u32) -> (u32, Option<Unjudged>) {
        let measure = |attempt: u32, _| Ok((attempt, shares[attempt as usize]));
        let Tried { result, disturbed } = tries(measure, |tried| tried < time).unwrap();
        (result, disturbed)
    }

    #[test]
    fn a_try_that_others_leave_alone_is_the_last() {
        let quiet = Some(0.09);
        assert_eq!(tried([quiet, BUSY, BUSY], 3), (0, None));
        assert_eq!(tried([BUSY, quiet, BUSY], 3), (1, None));
        assert_eq!(tried([BUSY, BUSY, Some(0.0)], 3), (2, None));
        assert_eq!(tried([BUSY, BUSY, Some(0.1)], 3), (2, Some(Unjudged::Others(10))));
        assert_eq!(tried([BUSY; 3], 9), (2, Some(Unjudged::Others(40))));
    }

    #[test]
    fn tries_end_with_the_time() {
        assert_eq!(tried([BUSY; 3], 1), (0, Some(Unjudged::Others(40))));
        assert_eq!(tried([BUSY; 3], 2), (1, Some(Unjudged::Others(40))));
    }

    #[test]
    fn where_nobody_counts_nothing_is_judged() {
        assert_eq!(tried([None; 3], 3), (2, Some(Unjudged::Uncounted)));
    }

    #[test]
    fn a_try_is_told_why_it_is_made() {
        let mut told = Vec::new();
        let measure = |attempt, before| {
            told.push(described("two hogs", attempt, before));
            Ok(((), BUSY.filter(|_| attempt == 0).or(Some(0.0))))
        };
        tries(measure, |_| true).unwrap();
        let again = "two hogs, try 2 of 3, since others had 40 % of the CPUs";
        assert_eq!(told, ["two hogs", again]);
    }

    #[test]
    fn a_quiet_run_decides_and_a_disturbed_one_never_does() {
        let (quiet, busy) = (None, Some(Unjudged::Others(40)));
        let of = |runs: &[(bool, Option<Unjudged>)]| {
            let run = |&(result, disturbed)| Tried { result, disturbed };
            let runs: Vec<_> = runs.iter().map(run).collect();
            verdict(&runs, deciding(&runs).into_iter().all(|&holds| holds))
        };
        let not = ClaimVerdict::NotJudged(Unjudged::Others(40));
        assert_eq!(of(&[(true, quiet), (true, quiet)]), ClaimVerdict::Holds);
        assert_eq!(of(&[(true, quiet), (false, quiet)]), ClaimVerdict::Fails);
        assert_eq!(of(&[(false, busy)]), not);
        assert_eq!(of(&[(true, busy)]), not, "what holds by chance is not judged either");
        assert_eq!(of(&[(true, quiet), (false, busy)]), not);
        assert_eq!(of(&[(false, quiet), (true, busy)]), ClaimVerdict::Fails);
    }
}
