//! The summary of many scenarios: percentiles of the distances, and the part of them within the goal.

use std::fmt;

use serde_json::{Map, Value, json};

use super::judge::{Measure, Sample};

/// The figures of one measure, on one of the two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    /// The median distance. Infinite if more than half of the entries are misses.
    pub(super) p50: Option<f64>,
    /// The ninetieth percentile of the distances.
    pub(super) p90: Option<f64>,
    /// The part of the entries within the measure's goal, in per cent.
    pub(super) within: Option<f64>,
}

/// The numbers of entries, and of those within the goal, on each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) itself: (u64, u64),
    pub(super) simulated: (u64, u64),
}

impl Tally {
    pub(super) fn of<'s>(measure: Measure, samples: impl IntoIterator<Item = &'s Sample>) -> Tally {
        let mut tally = Tally::default();
        let count = |into: &mut (u64, u64), apart: Option<f64>| {
            into.0 += u64::from(apart.is_some_and(|apart| apart <= measure.goal()));
            into.1 += u64::from(apart.is_some());
        };
        for sample in samples {
            count(&mut tally.itself, sample.itself);
            sample.simulated.iter().for_each(|&apart| count(&mut tally.simulated, apart));
        }
        tally
    }

    pub(super) fn add(&mut self, other: Tally) {
        let add = |into: &mut (u64, u64), more: (u64, u64)| {
            into.0 += more.0;
            into.1 += more.1;
        };
        add(&mut self.itself, other.itself);
        add(&mut self.simulated, other.simulated);
    }

    /// The part within the goal simulated, minus that on the kernel itself, in points. It is mostly below zero.
    pub(super) fn difference(self) -> Option<f64> {
        Some(percent(self.simulated)? - percent(self.itself)?)
    }
}

/// A part in per cent.
fn percent((some, all): (u64, u64)) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64 * 100.0)
}

/// The figures of the kernel beside itself, and of the simulator beside the kernel.
pub(super) fn figures(measure: Measure, samples: &[&Sample]) -> [Figure; 2] {
    let tally = Tally::of(measure, samples.iter().copied());
    let figure = |apart: Vec<f64>, within| Figure {
        p50: percentile(apart.clone(), 50),
        p90: percentile(apart, 90),
        within: percent(within),
    };
    let itself = samples.iter().filter_map(|sample| sample.itself).collect();
    let simulated = samples.iter().filter_map(|sample| sample.mean()).collect();
    [figure(itself, tally.itself), figure(simulated, tally.simulated)]
}

/// The smallest entry that so many per cent of the entries do not exceed.
pub(super) fn percentile(mut entries: Vec<f64>, of_a_hundred: usize) -> Option<f64> {
    entries.sort_by(f64::total_cmp);
    let rank = (entries.len() * of_a_hundred).div_ceil(100).max(1);
    entries.get(rank - 1).copied()
}

/// The figures of these measures as JSON: those of the simulator, and in `itself` those of the kernel.
pub(super) fn fields<'s>(
    measures: &[Measure],
    samples: impl Fn(Measure) -> Vec<&'s Sample>,
) -> Map<String, Value> {
    let (mut fields, mut itself) = (Map::new(), Map::new());
    for &measure in measures {
        let [kernel, simulated] = figures(measure, &samples(measure));
        fields.insert(measure.field().to_owned(), simulated.json(measure));
        itself.insert(measure.field().to_owned(), kernel.json(measure));
    }
    fields.insert("itself".to_owned(), itself.into());
    fields
}

/// The cells of a table.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |figure: Option<f64>, digits| match figure {
            None => "-".to_owned(),
            Some(f64::INFINITY) => "miss".to_owned(),
            Some(figure) => format!("{figure:.digits$}"),
        };
        write!(f, "{} | {} | {}", cell(self.p50, 2), cell(self.p90, 2), cell(self.within, 0))
    }
}

impl Figure {
    /// Unknown and infinite figures are null.
    fn json(self, measure: Measure) -> Value {
        let number = |figure: Option<f64>| figure.map(|figure| (figure * 1e3).round() / 1e3);
        let within = format!("within_{}", measure.goal());
        json!({"p50": number(self.p50), "p90": number(self.p90), within: number(self.within)})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISS: f64 = f64::INFINITY;

    fn sample(itself: Option<f64>, a: Option<f64>, b: Option<f64>) -> Sample {
        Sample { itself, simulated: [a, b] }
    }

    /// The ratios of four tasks. The last woke up too seldom in B, and simulated.
    fn samples() -> [Sample; 4] {
        [
            sample(Some(1.5), Some(1.0), Some(2.0)),
            sample(Some(2.0), Some(1.0), Some(4.0)),
            sample(Some(5.0), Some(3.0), Some(4.0)),
            sample(Some(MISS), Some(MISS), None),
        ]
    }

    #[test]
    fn a_percentile_is_one_of_the_entries() {
        let of = |hundredth| percentile(vec![4.0, 1.0, 3.0, 2.0], hundredth);
        assert_eq!([0, 25, 26, 50, 90, 100].map(of), [1.0, 1.0, 2.0, 2.0, 4.0, 4.0].map(Some));
        assert_eq!(percentile(vec![], 50), None);
    }

    #[test]
    fn what_is_within_counts_both_runs_of_the_kernel() {
        let samples = samples();
        let [itself, simulated] = figures(Measure::P99, &samples.each_ref());
        // The entries 1.5 and 2 of four.
        assert_eq!(itself, Figure { p50: Some(2.0), p90: Some(MISS), within: Some(50.0) });
        // The means 1.5, 2.5, 3.5 and a miss; within the goal are 1, 2 and 1 of seven entries.
        let within = Some(3.0 / 7.0 * 100.0);
        assert_eq!(simulated, Figure { p50: Some(2.5), p90: Some(MISS), within });
        let tally = Tally::of(Measure::P99, &samples);
        assert_eq!(tally, Tally { itself: (2, 4), simulated: (3, 7) });
        let difference = tally.difference().expect("both have entries");
        assert!((difference - (300.0 / 7.0 - 50.0)).abs() < 1e-9, "{difference}");
    }

    #[test]
    fn the_json_has_the_fields_that_scripts_read() {
        let samples = samples();
        let fields = Value::from(fields(&Measure::ALL, |_| samples.each_ref().to_vec()));
        assert_eq!(fields["p99_ratio"], json!({"p50": 2.5, "p90": null, "within_2": 42.857}));
        assert_eq!(
            fields["itself"]["share_points"],
            json!({"p50": 2.0, "p90": null, "within_3": 50.0})
        );
        let none = Value::from(super::fields(&Measure::ALL, |_| vec![]));
        assert_eq!(
            none["itself"]["migrations_ratio"],
            json!({"p50": null, "p90": null, "within_2": null})
        );
    }
}
