//! The differences between two sides, figure by figure, for programs.

use crate::change::{Change, Changes, Row};
use crate::figure::{Figure, Unit};
use serde::Serialize;

/// A figure of two sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changed {
    /// The kind of the thing: `machine`, `latency`, `chain`, `task` or `group`.
    pub kind: &'static str,
    /// The name of the thing.
    pub name: String,
    /// The name of the figure.
    pub figure: &'static str,
    /// The unit: `ns`, `count`, or `ppm` for parts of a million.
    pub unit: &'static str,
    /// The figure before: the median of several runs, or the sum of their wake-ups and tokens.
    pub before: Figure,
    /// The figure after.
    pub after: Figure,
    /// The value after minus the value before, over pairs of runs (the Hodges-Lehmann estimate), if there are several.
    pub difference: Option<f64>,
    /// The lower end of the 95 % interval of the difference.
    pub lo: Option<f64>,
    /// Its upper end.
    pub hi: Option<f64>,
}

impl Changes {
    /// All figures.
    ///
    /// ```
    /// use runyard_report::{Changes, Report};
    ///
    /// let changes = Changes::new(&Report::default(), &Report::default());
    /// assert!(changes.figures().iter().any(|it| it.kind == "machine" && it.figure == "switches"));
    /// ```
    #[must_use]
    pub fn figures(&self) -> Vec<Changed> {
        let machine = std::slice::from_ref(&self.machine);
        let kinds = [
            ("machine", machine),
            ("latency", &self.latencies),
            ("chain", &self.chains),
            ("task", &self.tasks),
            ("group", &self.groups),
        ];
        let of = |(kind, rows): (&'static str, &[Row])| {
            let of = |row: &Row| {
                row.changes.iter().map(|it| it.changed(kind, &row.name)).collect::<Vec<_>>()
            };
            rows.iter().flat_map(of).collect::<Vec<_>>()
        };
        kinds.into_iter().flat_map(of).collect()
    }
}

impl Change {
    fn changed(&self, kind: &'static str, name: &str) -> Changed {
        let interval = self.shift.and_then(|shift| shift.interval);
        Changed {
            kind,
            name: name.to_owned(),
            figure: self.what,
            unit: match self.unit {
                Unit::Delay | Unit::Span => "ns",
                Unit::Count | Unit::Samples => "count",
                Unit::Share => "ppm",
            },
            before: self.before,
            after: self.after,
            difference: self.shift.map(|shift| shift.estimate),
            lo: interval.map(|(low, _)| low),
            hi: interval.map(|(_, high)| high),
        }
    }
}
