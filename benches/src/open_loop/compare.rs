//! Compares, for each point, the p99 slowdown of each side of the runtime with that of the same side of another build,
//! and with tokio. The input is the JSON that this program prints, several runs of each build.
//!
//! A point is as good as another if the median of its rounds is at most the greatest round of the other: one build may
//! show in another run a value that the other build shows in one of three. Beside a saturated point, a point is as good
//! if it is saturated no more, because a quantile of a growing queue depends on the length of the run.

use super::{Mix, Point, Side};
use crate::live::rates::median;
use crate::live::table::table;
use clap::ValueEnum;
use serde::Deserialize;

/// The points of several runs of one build.
#[derive(Clone, Debug, Default)]
pub struct Told {
    points: Vec<Point>,
}

impl Told {
    /// Adds a run in printed JSON. Rounds of a known point are appended to that point.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not this program's output.
    pub fn add(&mut self, json: &str) -> serde_json::Result<()> {
        #[derive(Deserialize)]
        struct Run {
            points: Vec<Point>,
        }
        let run: Run = serde_json::from_str(json)?;
        for point in run.points {
            match self.points.iter_mut().find(|known| known.is_like(&point)) {
                Some(known) => known.rounds.extend(point.rounds),
                None => self.points.push(point),
            }
        }
        Ok(())
    }

    fn find(&self, mix: Mix, side: Side, load: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.is_at(mix, side, load))
    }
}

impl Point {
    fn is_at(&self, mix: Mix, side: Side, load: f64) -> bool {
        (self.mix, self.side) == (mix, side) && (self.load - load).abs() < f64::EPSILON
    }

    fn is_like(&self, other: &Point) -> bool {
        self.is_at(other.mix, other.side, other.load)
    }

    /// Returns the median, the least and the greatest p99 of the rounds, or `None` if a round has none.
    fn p99(&self) -> Option<[f64; 3]> {
        let mut all: Vec<_> =
            self.rounds.iter().map(|round| round.all.p99).collect::<Option<_>>()?;
        let middle = (!all.is_empty()).then(|| median(&mut all))?;
        Some([middle, all[0], all[all.len() - 1]])
    }
}

/// Returns a table of the runtime's points in `after`, each beside the same point in `before` and that of tokio. The
/// table takes tokio's point from `after` first.
#[must_use]
pub fn compare(before: &Told, after: &Told) -> String {
    let head = ["mix", "side", "load", "p99 after", "p99 before", "", "p99 tokio", ""];
    let runyard = after.points.iter().filter(|point| {
        matches!(point.side, Side::RunyardFair | Side::RunyardRt | Side::RunyardLatencyNice)
    });
    let row = |point: &Point| {
        let same = before.find(point.mix, point.side, point.load);
        let tokio = [after, before].map(|it| it.find(point.mix, Side::Tokio, point.load));
        let tokio = tokio.into_iter().flatten().next();
        let [mix, side] = [name(&point.mix), name(&point.side)];
        let load = format!("{:.2}", point.load);
        let [own, before, tokio_p99] = [Some(point), same, tokio].map(figure);
        let [to_before, to_tokio] = [same, tokio].map(|other| verdict(point, other).to_owned());
        [mix, side, load, own, before, to_before, tokio_p99, to_tokio]
    };
    table(head, runyard.map(row))
}

/// Formats the median, and the least and the greatest round.
fn figure(point: Option<&Point>) -> String {
    let Some((point, [median, least, greatest])) = point.and_then(|it| Some((it, it.p99()?)))
    else {
        return "-".to_owned();
    };
    let saturated = if point.is_saturated() { ", saturated" } else { "" };
    format!("{median:.1} ({least:.1}..{greatest:.1}){saturated}")
}

fn verdict(point: &Point, other: Option<&Point>) -> &'static str {
    let Some(other) = other else { return "" };
    match (point.is_saturated(), other.is_saturated(), point.p99(), other.p99()) {
        (_, _, None, _) | (_, _, _, None) => "",
        (true, false, ..) => "WORSE",
        (_, true, ..) => "as good",
        (_, _, Some([own, ..]), Some([.., greatest])) if own <= greatest => "as good",
        _ => "WORSE",
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("every value has a name").get_name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a run with one point of a side; `p99` is `null` or a number.
    fn run(side: &str, achieved: f64, p99: &str) -> String {
        let slowdowns = format!(r#"{{"count": 10, "p50": 1.0, "p99": {p99}, "p999": null}}"#);
        format!(
            r#"{{"schema": "runyard.open-loop/1", "points": [{{"mix": "B1", "side": "{side}", "load": 0.5,
                "rounds": [{{"achieved": {achieved}, "all": {slowdowns}, "short": {slowdowns}}}]}}]}}"#
        )
    }

    fn told(runs: &[String]) -> Told {
        let mut told = Told::default();
        runs.iter().for_each(|run| told.add(run).expect("it is a run"));
        told
    }

    fn of(side: &str, p99s: [&str; 3]) -> Vec<String> {
        p99s.map(|p99| run(side, 1.0, p99)).to_vec()
    }

    #[test]
    fn a_point_is_as_good_as_the_greatest_round_of_another() {
        let after = told(
            &[of("runyard-fair", ["9.0", "5.0", "6.0"]), of("tokio", ["4.0", "3.0", "5.0"])]
                .concat(),
        );
        let before = told(&of("runyard-fair", ["4.0", "6.5", "3.0"]));
        let text = compare(&before, &after);
        let words: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let figures =
            ["6.0", "(5.0..9.0)", "4.0", "(3.0..6.5)", "as", "good", "4.0", "(3.0..5.0)", "WORSE"];
        assert_eq!(words[..3], ["B1", "runyard-fair", "0.50"], "{text}");
        assert_eq!(words[3..], figures, "{text}");
    }

    #[test]
    fn a_queue_that_grows_is_worse_than_one_that_does_not() {
        let [grows, keeps_up] = [0.9, 1.0].map(|part| told(&[run("runyard-rt", part, "7.0")]));
        assert!(compare(&keeps_up, &grows).contains("WORSE"));
        assert!(compare(&grows, &keeps_up).contains("as good"));
        let none = told(&[run("runyard-rt", 1.0, "null")]);
        assert!(!compare(&none, &keeps_up).contains("good"));
    }
}
