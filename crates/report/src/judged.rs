//! The verdict on each figure that is asked for: whether its difference between two sides is more than noise.
//!
//! The values of runs with one seed are pairs. Wilcoxon's signed-rank test of the differences is corrected by Holm for
//! the asked figures that differ. Figures that nobody asks for do not count, since each of them would take more seeds.

use crate::median::median;
use crate::statistics::{ALPHA, Shift, holm, pairs_needed, pairs_to_find, shift, signed_rank};
use crate::text;
use crate::units::{MetricUnit, UNKNOWN, ratio_cell};
use serde::{Serialize, Serializer};

/// The end of a line whose figure differs by no more than noise.
pub const NOISE: &str = "noise";

/// A figure that is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The metric that gives the figure.
    pub metric: String,
    /// The unit of the values.
    pub unit: MetricUnit,
    /// Whether the figure is a delay, of which less is better.
    pub is_delay: bool,
    /// The values of the runs before and after. Values at the same index are of one seed.
    pub sides: [Vec<Option<f64>>; 2],
}

/// A figure that is asked for, with the verdict on its difference.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Judged {
    /// The metric that gives the figure.
    pub metric: String,
    /// The unit: `ns`, `percent`, `fraction` or `number`.
    #[serde(serialize_with = "named")]
    pub unit: MetricUnit,
    /// Whether the figure is a delay, of which less is better.
    #[serde(skip)]
    pub is_delay: bool,
    /// The median of the runs before.
    pub before: Option<f64>,
    /// The median of the runs after.
    pub after: Option<f64>,
    /// The value after minus the value before, over pairs of runs (the Hodges-Lehmann estimate).
    pub difference: Option<f64>,
    /// The lower end of the 95 % interval of the difference; `None` with fewer than six pairs.
    pub lo: Option<f64>,
    /// Its upper end.
    pub hi: Option<f64>,
    /// The probability of such differences by chance (Wilcoxon's signed-rank test, corrected by Holm for all asked
    /// figures that differ).
    pub p: Option<f64>,
    /// The verdict; `None` if no seed has the figure on both sides.
    pub verdict: Option<Verdict>,
    /// The number of seeds that would do, if there are too few.
    pub seeds_needed: Option<usize>,
}

/// A verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The figure is equal in all pairs.
    Same,
    /// The difference is more than noise.
    Change,
    /// Chance alone often makes such differences.
    Noise,
    /// With so few seeds, the difference cannot be told from noise.
    TooFewSeeds,
}

fn named<S: Serializer>(unit: &MetricUnit, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match unit {
        MetricUnit::Span => "ns",
        MetricUnit::Percent => "percent",
        MetricUnit::Share => "fraction",
        MetricUnit::Number => "number",
    })
}

/// The differences of the pairs in which both values are known.
fn differences([before, after]: &[Vec<Option<f64>>; 2]) -> Vec<f64> {
    before.iter().zip(after).filter_map(|(before, after)| Some((*after)? - (*before)?)).collect()
}

/// The verdicts on all asked figures together.
///
/// ```
/// use runyard_report::{Asked, Verdict, judged};
///
/// let asked = |pairs: u32| Asked {
///     metric: "machine.switches".to_owned(),
///     sides: [vec![Some(7.0); 20], (0..20).map(|run| Some(f64::from(7 + run % 2 * pairs))).collect()],
///     ..Asked::default()
/// };
/// let verdicts: Vec<_> = judged(&[asked(1), asked(0)]).into_iter().map(|it| it.verdict).collect();
/// assert_eq!(verdicts, [Some(Verdict::Change), Some(Verdict::Same)]);
/// ```
#[must_use]
pub fn judged(asked: &[Asked]) -> Vec<Judged> {
    let all: Vec<Vec<f64>> = asked.iter().map(|it| differences(&it.sides)).collect();
    let chances: Vec<Option<f64>> = all
        .iter()
        .map(|pairs| pairs.iter().any(|&it| it != 0.0).then(|| signed_rank(pairs)))
        .collect();
    let mut corrected = holm(&chances.iter().copied().flatten().collect::<Vec<_>>()).into_iter();
    let tested = corrected.len();
    let judge = |((asked, differences), chance): ((&Asked, &Vec<f64>), &Option<f64>)| {
        let [before, after] = asked.sides.each_ref().map(|side| median(side.iter().flatten()));
        let pairs = differences.len();
        let p = chance.and_then(|_| corrected.next());
        let (verdict, seeds_needed) = match chance.zip(p) {
            _ if pairs == 0 => (None, None),
            None => (Some(Verdict::Same), None),
            Some((_, p)) if p < ALPHA => (Some(Verdict::Change), None),
            Some((chance, _)) if chance < ALPHA => {
                (Some(Verdict::TooFewSeeds), Some(pairs_to_find(chance, pairs, tested)))
            }
            Some(_) if pairs < pairs_needed(tested) => {
                (Some(Verdict::TooFewSeeds), Some(pairs_needed(tested)))
            }
            Some(_) => (Some(Verdict::Noise), None),
        };
        let shift = shift(differences);
        let interval = shift.and_then(|shift| shift.interval);
        Judged {
            metric: asked.metric.clone(),
            unit: asked.unit,
            is_delay: asked.is_delay,
            before,
            after,
            difference: shift.map(|Shift { estimate, .. }| estimate),
            lo: interval.map(|(low, _)| low),
            hi: interval.map(|(_, high)| high),
            p,
            verdict,
            seeds_needed,
        }
    };
    asked.iter().zip(&all).zip(&chances).map(judge).collect()
}

/// A metric, or a condition on it, as people read it: the field's name `p999` is `p99.9` in tables.
///
/// ```
/// assert_eq!(runyard_report::metric_title("p999(chains.web.latency)"), "p99.9(chains.web.latency)");
/// ```
#[must_use]
pub fn metric_title(metric: &str) -> String {
    match metric.strip_prefix("p999(") {
        Some(of) => format!("p99.9({of}"),
        None => metric.to_owned(),
    }
}

/// The titles of the columns of [`Judged::cells`].
pub(crate) const TITLES: [&str; 8] =
    ["judged", "before", "after", "ratio", "difference", "95 % interval", "p", "verdict"];

impl Judged {
    /// The texts of the columns.
    pub(crate) fn cells(&self) -> [String; 8] {
        let unknown = || UNKNOWN.to_owned();
        let value = |it: Option<f64>| it.map_or_else(unknown, |it| self.unit.shown(it));
        let away = |it: f64| self.unit.difference(it);
        // The ratio is that of thousandths.
        let whole = |it: Option<f64>| it.map(|it| (it * 1_000.0).round() as u64);
        [
            metric_title(&self.metric)
                .chars()
                .map(|it| if it.is_control() { '?' } else { it })
                .collect(),
            value(self.before),
            value(self.after),
            ratio_cell(whole(self.before), whole(self.after)),
            self.difference.map_or_else(unknown, away),
            self.lo
                .zip(self.hi)
                .map_or_else(unknown, |(low, high)| format!("{} to {}", away(low), away(high))),
            self.p.map_or_else(unknown, chance),
            self.said(),
        ]
    }

    /// The verdict in words.
    pub(crate) fn said(&self) -> String {
        match (self.verdict, self.seeds_needed) {
            (None, _) => UNKNOWN.to_owned(),
            (Some(Verdict::Same), _) => "same".to_owned(),
            (Some(Verdict::Change), _) => "change".to_owned(),
            (Some(Verdict::TooFewSeeds), Some(needed)) => {
                format!("too few seeds: {needed} would do")
            }
            (Some(Verdict::Noise | Verdict::TooFewSeeds), _) => NOISE.to_owned(),
        }
    }
}

/// A probability, for a column.
fn chance(chance: f64) -> String {
    match chance {
        it if it < 0.001 => "<0.001".to_owned(),
        it if it < 0.1 => format!("{it:.3}"),
        it => format!("{it:.2}"),
    }
}

/// A table with a line for each judged figure.
pub(crate) fn render(judged: &[Judged]) -> String {
    let mut table = text::table(&TITLES, 1);
    judged.iter().for_each(|it| {
        table.add_row(it.cells());
    });
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure whose differences are these.
    fn asked(differences: &[f64]) -> Asked {
        let after = differences.iter().map(|it| Some(100.0 + it)).collect();
        Asked { sides: [vec![Some(100.0); differences.len()], after], ..Asked::default() }
    }

    fn said(all: &[Asked]) -> Vec<String> {
        judged(all).iter().map(Judged::said).collect()
    }

    fn rising(pairs: i32) -> Vec<f64> {
        (1..=pairs).map(f64::from).collect()
    }

    #[test]
    fn only_what_is_asked_is_corrected_for() {
        // The sixth pair is against the others: p is 0.014 with ten pairs, before the correction.
        let mut mixed = rising(10);
        mixed[5] = -6.0;
        assert_eq!(said(&[asked(&mixed)]), ["change"]);
        let equal = asked(&[0.0; 10]);
        let mut many = vec![asked(&mixed), equal];
        assert_eq!(said(&many), ["change", "same"], "what is equal does not count");
        many.extend((0..4).map(|_| asked(&mixed)));
        assert_eq!(said(&many)[0], "too few seeds: 14 would do");
    }

    #[test]
    fn of_twenty_comparisons_of_equal_sides_at_most_one_has_a_change() {
        const PAIRS: i32 = 7;
        // Of equal sides, a difference has either sign with the same probability, so this takes each comparison once.
        let signed = |signs: usize| -> Vec<f64> {
            let sign = |at: usize| if signs >> at & 1 == 1 { 1.0 } else { -1.0 };
            rising(PAIRS).into_iter().enumerate().map(|(at, it)| it * sign(at)).collect()
        };
        let all = 1_usize << (2 * PAIRS);
        let changes = (0..all).filter(|signs| {
            let two = [signed(*signs), signed(signs >> PAIRS)];
            said(&two.map(|it| asked(&it))).contains(&"change".to_owned())
        });
        let changes = changes.count();
        assert!(0 < changes && 20 * changes <= all, "{changes} of {all}");
    }

    #[test]
    fn too_few_seeds_are_not_noise() {
        assert_eq!(said(&[asked(&rising(5))]), ["too few seeds: 6 would do"]);
        assert_eq!(said(&[asked(&[1.0, -1.0, 2.0])]), ["too few seeds: 6 would do"]);
        assert_eq!(said(&[asked(&rising(6))]), ["change"]);
        let noise: Vec<f64> = rising(20).into_iter().map(|it| it * (-1.0_f64).powf(it)).collect();
        assert_eq!(said(&[asked(&noise)]), ["noise"]);
        let all: Vec<Asked> = (0..33).map(|_| asked(&rising(10))).collect();
        assert_eq!(said(&all)[0], "too few seeds: 11 would do");
    }

    #[test]
    fn a_figure_that_a_side_lacks_has_no_verdict() {
        let mut one = asked(&rising(6));
        one.sides[1] = vec![None; 6];
        assert_eq!(judged(&[one])[0].cells()[1..], ["100.00", "-", "-", "-", "-", "-", "-"]);
    }
}
