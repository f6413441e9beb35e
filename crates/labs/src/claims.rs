//! The claims of the founding documents beside the measured figures: as JSON and as a table.

use runyard_report::table;
use serde::{Serialize, Serializer};

/// All experiments of one call, as scripts read them (`runyard.reproduce/1`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claims {
    schema: &'static str,
    /// The experiments, in the order in which they ran.
    pub experiments: Vec<Experiment>,
}

/// The claims of one experiment on one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// The experiment's name on the command line.
    pub name: String,
    /// `sim` or `live`.
    pub host: String,
    /// Its claims.
    pub claims: Vec<Claim>,
}

/// A published figure of a founding document, and the measured figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The meaning of the figure.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// The published figure without the mechanism; `None` if the document gives none.
    pub published_before: Option<f64>,
    /// The published figure with the mechanism.
    pub published_after: Option<f64>,
    /// The measured figure without the mechanism; `None` if it was not measured.
    pub before: Option<f64>,
    /// The measured figure with the mechanism.
    pub after: Option<f64>,
    /// Whether the claim holds.
    #[serde(rename = "holds")]
    pub verdict: ClaimVerdict,
}

/// The outcome of a claim. Scripts read whether it holds. A figure without a bound cannot fail, so it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The claim holds.
    Holds,
    /// The claim does not hold.
    Fails,
    /// The figure is shown without a bound: a time on a machine that other programs use as well.
    Shown,
}

/// An experiment that was run on a host.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// Its claims.
    pub experiment: Experiment,
    /// The text for a person; it ends with a line end.
    pub text: String,
}

impl ClaimVerdict {
    /// The outcome of a claim with a bound.
    #[must_use]
    pub fn of(so: bool) -> ClaimVerdict {
        if so { ClaimVerdict::Holds } else { ClaimVerdict::Fails }
    }

    /// Whether the claim has not failed.
    #[must_use]
    pub fn holds(self) -> bool {
        self != ClaimVerdict::Fails
    }

    fn cell(self) -> &'static str {
        match self {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "FAILS",
            ClaimVerdict::Shown => "-",
        }
    }
}

impl Serialize for ClaimVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(self.holds())
    }
}

impl Claims {
    /// The claims of `experiments`.
    #[must_use]
    pub fn new(experiments: Vec<Experiment>) -> Claims {
        Claims { schema: "runyard.reproduce/1", experiments }
    }

    /// Whether every claim holds.
    #[must_use]
    pub fn hold(&self) -> bool {
        let mut claims = self.experiments.iter().flat_map(|experiment| &experiment.claims);
        claims.all(|claim| claim.verdict.holds())
    }
}

impl Experiment {
    /// The claims as a table that ends with a line end.
    #[must_use]
    pub fn table(&self) -> String {
        let header = ["claim", "published: before", "after", "here: before", "after", "so"];
        let mut table = table(&header, 1);
        table.add_rows(self.claims.iter().map(Claim::row));
        table.trim_fmt() + "\n"
    }
}

impl Claim {
    fn row(&self) -> Vec<String> {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
        vec![
            format!("{}, {}", self.what, self.unit),
            figure(self.published_before),
            figure(self.published_after),
            figure(self.before),
            figure(self.after),
            self.verdict.cell().to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(verdict: ClaimVerdict) -> Claim {
        Claim {
            what: "latest start".to_owned(),
            unit: "us".to_owned(),
            published_before: Some(20_041.0),
            published_after: Some(61.0),
            before: None,
            after: Some(55.5),
            verdict,
        }
    }

    #[test]
    fn claims_are_read_by_scripts_and_people() {
        let claims = [ClaimVerdict::Holds, ClaimVerdict::Fails].map(claim).to_vec();
        let experiment = Experiment { name: "a".to_owned(), host: "sim".to_owned(), claims };
        let table = experiment.table();
        assert!(table.contains("latest start, us") && table.contains("20041"), "{table}");
        assert!(table.contains("holds") && table.contains("FAILS"), "{table}");
        let claims = Claims::new(vec![experiment]);
        assert!(!claims.hold());
        let json = serde_json::to_string(&claims).unwrap();
        assert!(json.starts_with(r#"{"schema":"runyard.reproduce/1","experiments":[{"name":"a""#));
        assert!(json.contains(r#""before":null,"after":55.5,"holds":true"#), "{json}");
    }

    #[test]
    fn a_figure_without_a_bound_cannot_fail() {
        let claims = [ClaimVerdict::Holds, ClaimVerdict::Shown].map(claim).to_vec();
        let experiment = Experiment { name: "a".to_owned(), host: "live".to_owned(), claims };
        assert!(experiment.table().lines().last().unwrap().ends_with(" -"));
        let claims = Claims::new(vec![experiment]);
        assert!(claims.hold());
        assert!(!serde_json::to_string(&claims).unwrap().contains("false"));
    }
}
