//! What limits do to task groups, by this machine's kernel and in the simulator: the third table of `cargo
//! xtask fidelity`.

use serde_json::Value;
use std::collections::BTreeMap;

use crate::median::median;

/// How far apart the CPU time of a group may be, in points of one CPU.
const GOAL: f64 = 3.0;

/// The groups of a run that have limits, by path.
pub(crate) type Limited = BTreeMap<String, Figures>;

/// What a limit did to a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// What it ran, in per cent of one CPU.
    share: f64,
    /// Periods in which it was throttled, of those in which it wanted something.
    throttled: f64,
    periods: f64,
    /// How long it was throttled in each second, summed over CPUs, in ms.
    waited: f64,
}

/// Of a group of a report on a run of so many ns; `None` if it has no limit, or none that is heeded.
pub(crate) fn figures(group: &Value, duration: f64) -> Option<Figures> {
    let of = |key: &str| group[key].as_f64();
    let _ = group["limit"].as_object()?;
    Some(Figures {
        share: of("runtime_ns")? / duration * 100.0,
        throttled: of("nr_throttled")?,
        periods: of("nr_periods").filter(|&periods| periods > 0.0)?,
        waited: of("throttled_ns")? / duration * 1e3,
    })
}

/// The head of the table.
pub(crate) const HEAD: &str = "\
| scenario | group | CPU, %: kernel | simulated | throttled in periods: kernel | simulated | \
ms a second: kernel | simulated | |
|---|---|---|---|---|---|---|---|---|";

/// The rows of a scenario: of the kernel the medians over its runs.
pub(crate) fn rows(scenario: &str, kernel: &[Limited], simulated: &Limited) -> Vec<String> {
    let row = |(path, ours): (&String, &Figures)| {
        let of = |figure: fn(&Figures) -> f64| {
            // A limit that the kernel did not take is in none of its runs.
            median(kernel.iter().filter_map(|run| run.get(path)).map(figure))
        };
        let theirs = Figures {
            share: of(|of| of.share)?,
            throttled: of(|of| of.throttled)?,
            periods: of(|of| of.periods)?,
            waited: of(|of| of.waited)?,
        };
        Some(theirs.row(scenario, path, ours))
    };
    simulated.iter().filter_map(row).collect()
}

impl Figures {
    fn row(&self, scenario: &str, path: &str, ours: &Figures) -> String {
        let holds = (self.share - ours.share).abs() <= GOAL
            && (self.throttled == 0.0) == (ours.throttled == 0.0);
        let verdict = if holds { "holds" } else { "**differs**" };
        let periods = |of: &Figures| format!("{:.0} of {:.0}", of.throttled, of.periods);
        format!(
            "| {scenario} | {path} | {:.1} | {:.1} | {} | {} | {:.0} | {:.0} | {verdict} |",
            self.share,
            ours.share,
            periods(self),
            periods(ours),
            self.waited,
            ours.waited
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A report's group that ran so much of a second.
    fn group(runtime_ms: u64, throttled: u64) -> Value {
        json!({
            "path": "/a", "runtime_ns": runtime_ms * 1_000_000, "nr_periods": 10,
            "nr_throttled": throttled, "throttled_ns": 5_000_000 * throttled,
            "limit": {"runtime_ns": 1, "period_ns": 1},
        })
    }

    fn limited(group: &Value) -> Limited {
        figures(group, 1e9).into_iter().map(|figures| ("/a".to_owned(), figures)).collect()
    }

    fn verdict(kernel: &Value, simulated: &Value) -> Option<bool> {
        let rows = rows("limit", &[limited(kernel)], &limited(simulated));
        rows.first().map(|row| row.ends_with("| holds |"))
    }

    #[test]
    fn a_row_holds_if_as_much_was_used_and_both_were_throttled_or_neither() {
        assert_eq!(verdict(&group(200, 9), &group(225, 4)), Some(true));
        assert_eq!(verdict(&group(200, 9), &group(235, 9)), Some(false));
        assert_eq!(verdict(&group(200, 0), &group(200, 1)), Some(false));
        assert_eq!(verdict(&group(200, 0), &group(200, 0)), Some(true));
    }

    #[test]
    fn who_has_no_limit_has_no_row() {
        let mut free = group(200, 9);
        free["limit"] = Value::Null;
        assert_eq!(verdict(&free, &group(200, 9)), None);
        let mut unknown = group(200, 9);
        unknown["nr_throttled"] = Value::Null;
        assert_eq!(figures(&unknown, 1e9), None);
    }

    #[test]
    fn figures_are_shown_in_their_units() {
        let rows = rows("limit-hog", &[limited(&group(200, 9))], &limited(&group(201, 10)));
        let row = "| limit-hog | /a | 20.0 | 20.1 | 9 of 10 | 10 of 10 | 45 | 50 | holds |";
        assert_eq!(rows, [row]);
    }
}
