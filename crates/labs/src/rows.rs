//! Rows of an experiment: each is a figure before and after, beside the published figures, with its bound and its word.
//!
//! A row says what it shows of the runs of which settings. The same rows serve every host, and they have their names
//! without a run.

use crate::claims::{Claim, ClaimVerdict};
use crate::quiet::{self, Tried, deciding};

/// The runs of one setting.
pub(crate) type Runs<S> = Vec<Tried<S>>;

/// The runs of all settings that a row may use: for each setting, those that decide.
pub(crate) type Sides<'r, S> = [Vec<&'r S>];

type Figure<S> = Box<dyn Fn(&Sides<'_, S>, usize) -> Option<f64> + Send + Sync>;
type Kept<S> = Box<dyn Fn(&Sides<'_, S>, [f64; 2]) -> bool + Send + Sync>;

/// A row.
pub(crate) struct Row<S> {
    what: String,
    unit: &'static str,
    published: [Option<f64>; 2],
    /// The settings before and after, by their numbers; `None` where the row has no figure.
    sides: [Option<usize>; 2],
    figure: Figure<S>,
    bound: Bound<S>,
    /// Whether the row is judged whatever others do on the CPUs, by all runs.
    is_always: bool,
}

/// The bound of a row.
enum Bound<S> {
    /// There is none, or nobody can judge it.
    Open(ClaimVerdict),
    Kept(Word, Kept<S>),
}

/// The word for a bound that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Holds,
    Fitted(&'static str),
    Same(&'static str),
}

impl<S> Row<S> {
    /// A row that shows this figure of the runs of the first setting and of those of the second.
    pub(crate) fn new<R: Into<Option<f64>>>(
        what: impl Into<String>,
        unit: &'static str,
        figure: impl Fn(&[&S]) -> R + Send + Sync + 'static,
    ) -> Row<S> {
        Row::beside(what, unit, move |sides, side| match &sides[side][..] {
            [] => None,
            runs => figure(runs).into(),
        })
    }

    /// The same, where the figure of a setting depends on the runs of others. It gets all, and the number of the setting.
    pub(crate) fn beside(
        what: impl Into<String>,
        unit: &'static str,
        figure: impl Fn(&Sides<'_, S>, usize) -> Option<f64> + Send + Sync + 'static,
    ) -> Row<S> {
        Row {
            what: what.into(),
            unit,
            published: [None; 2],
            sides: [Some(0), Some(1)],
            figure: Box::new(figure),
            bound: Bound::Open(ClaimVerdict::Shown),
            is_always: false,
        }
    }

    /// The row with these settings before and after.
    pub(crate) fn of(self, before: usize, after: usize) -> Row<S> {
        Row { sides: [Some(before), Some(after)], ..self }
    }

    /// The row without a figure before.
    pub(crate) fn after(self, setting: usize) -> Row<S> {
        Row { sides: [None, Some(setting)], ..self }
    }

    /// The row with published figures, before and after.
    pub(crate) fn published(
        self,
        before: impl Into<Option<f64>>,
        after: impl Into<Option<f64>>,
    ) -> Row<S> {
        Row { published: [before.into(), after.into()], ..self }
    }

    /// The row with a bound of its figures before and after. A figure that is missing is NaN.
    pub(crate) fn holds(self, bound: impl Fn(f64, f64) -> bool + Send + Sync + 'static) -> Row<S> {
        self.judged(Word::Holds, bound)
    }

    /// The same with the word for a bound that is kept.
    pub(crate) fn judged(
        self,
        word: Word,
        bound: impl Fn(f64, f64) -> bool + Send + Sync + 'static,
    ) -> Row<S> {
        self.judged_by(word, move |_, [before, after]| bound(before, after))
    }

    /// The same with a bound that asks the runs themselves for more.
    pub(crate) fn judged_by(
        self,
        word: Word,
        bound: impl Fn(&Sides<'_, S>, [f64; 2]) -> bool + Send + Sync + 'static,
    ) -> Row<S> {
        Row { bound: Bound::Kept(word, Box::new(bound)), ..self }
    }

    /// The row with a verdict that no figure decides.
    pub(crate) fn open(self, verdict: ClaimVerdict) -> Row<S> {
        Row { bound: Bound::Open(verdict), ..self }
    }

    /// The row with a bound that no other program can break.
    pub(crate) fn always(self) -> Row<S> {
        Row { is_always: true, ..self }
    }

    /// The row with this before its name.
    pub(crate) fn below(self, name: &str) -> Row<S> {
        Row { what: format!("{name}: {}", self.what), ..self }
    }

    /// The name.
    #[cfg(test)]
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// The claim about the runs of all settings. One that has a bound and no figure is only shown.
    pub(crate) fn claim(&self, runs: &[Runs<S>]) -> Claim {
        let used = |runs| if self.is_always { all(runs) } else { deciding(runs) };
        let sides: Vec<_> = runs.iter().map(|runs| used(&runs[..])).collect();
        let figures = self.sides.map(|side| (self.figure)(&sides, side?));
        let verdict = match &self.bound {
            Bound::Open(verdict) => *verdict,
            Bound::Kept(..) if figures[1].is_none() => ClaimVerdict::Shown,
            Bound::Kept(word, kept) => {
                let kept = kept(&sides, figures.map(|figure| figure.unwrap_or(f64::NAN)));
                let measured = self.sides[1].and_then(|side| runs.get(side));
                match measured.filter(|_| !self.is_always) {
                    Some(runs) => word.of(quiet::verdict(runs, kept)),
                    None => word.of(ClaimVerdict::of(kept)),
                }
            }
        };
        Claim::of(&self.what, self.unit, figures, verdict).beside(self.published)
    }
}

impl Word {
    /// The verdict with this word, if its bound is kept.
    fn of(self, verdict: ClaimVerdict) -> ClaimVerdict {
        match (verdict, self) {
            (ClaimVerdict::Holds, Word::Fitted(parameter)) => ClaimVerdict::Fitted(parameter),
            (ClaimVerdict::Holds, Word::Same(why)) => ClaimVerdict::SameByConstruction(why),
            _ => verdict,
        }
    }
}

/// The results of all runs.
fn all<S>(runs: &[Tried<S>]) -> Vec<&S> {
    runs.iter().map(|run| &run.result).collect()
}

/// The claims of all rows about these runs.
pub(crate) fn claims<S>(rows: &[Row<S>], runs: &[Runs<S>]) -> Vec<Claim> {
    rows.iter().map(|row| row.claim(runs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Unjudged;

    /// A row with the sum of the runs' figures, which may rise to this.
    fn at_most(most: f64) -> Row<f64> {
        Row::new("sum", "us", |runs| runs.iter().copied().sum::<f64>())
            .holds(move |_, after| after <= most)
    }

    fn quiet(figures: &[f64]) -> Runs<f64> {
        figures.iter().map(|&figure| Tried::quiet(figure)).collect()
    }

    #[test]
    fn a_bound_is_of_the_figures_that_are_shown() {
        let claim = at_most(3.0).published(None, 2.0).claim(&[quiet(&[9.0]), quiet(&[1.0, 2.0])]);
        assert_eq!((claim.before, claim.after), (Some(9.0), Some(3.0)));
        assert_eq!((claim.published_before, claim.published_after), (None, Some(2.0)));
        assert_eq!(claim.verdict, ClaimVerdict::Holds);
        assert!(at_most(2.9).claim(&[quiet(&[9.0]), quiet(&[1.0, 2.0])]).verdict.fails());
    }

    #[test]
    fn a_bound_that_is_broken_fails_whatever_the_word_for_a_kept_one() {
        for (word, kept) in [
            (Word::Fitted("the period"), ClaimVerdict::Fitted("the period")),
            (Word::Same("nobody asks"), ClaimVerdict::SameByConstruction("nobody asks")),
        ] {
            let row = at_most(0.0).judged(word, |before, after| after <= before);
            assert_eq!(row.claim(&[quiet(&[2.0]), quiet(&[2.0])]).verdict, kept);
            assert!(row.claim(&[quiet(&[2.0]), quiet(&[3.0])]).verdict.fails());
        }
    }

    #[test]
    fn what_was_measured_as_nothing_fails_and_what_was_not_measured_is_shown() {
        let nothing = at_most(1.0).claim(&[vec![], quiet(&[f64::NAN])]);
        assert!(nothing.verdict.fails());
        let missing = at_most(1.0).claim(&[quiet(&[1.0]), vec![]]);
        assert_eq!((missing.after, missing.verdict), (None, ClaimVerdict::Shown));
    }

    #[test]
    fn a_row_that_others_disturbed_is_judged_only_if_nobody_can_break_it() {
        let runs = [vec![], vec![Tried { result: 5.0, disturbed: Some(Unjudged::Others(40)) }]];
        let not = ClaimVerdict::NotJudged(Unjudged::Others(40));
        assert_eq!(at_most(1.0).claim(&runs).verdict, not);
        assert!(at_most(1.0).always().claim(&runs).verdict.fails());
    }

    #[test]
    fn a_figure_may_need_the_runs_of_other_settings() {
        let row = Row::beside("times the first", "times", |sides: &Sides<'_, f64>, side| {
            Some(sides[side][0] / sides[0][0])
        });
        let runs = [2.0, 6.0, 8.0].map(|figure| quiet(&[figure]));
        let claim = row.below("a part").of(1, 2).claim(&runs);
        assert_eq!(
            (&*claim.what, claim.before, claim.after),
            ("a part: times the first", Some(3.0), Some(4.0))
        );
    }
}
