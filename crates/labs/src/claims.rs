//! What the founding documents claim, beside what was measured: as JSON and as a table.

use runyard_report::table;
use serde::{Serialize, Serializer};

/// All experiments of one call, as scripts read them (`runyard.reproduce/1`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claims {
    schema: &'static str,
    /// In the order in which they ran.
    pub experiments: Vec<Experiment>,
}

/// The claims of one experiment on one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: String,
    /// `sim` or `live`.
    pub host: String,
    /// What it claims.
    pub claims: Vec<Claim>,
}

/// A figure that a founding document gives, and the one that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// What the figure is.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// The document's, without the mechanism; `None` if it gives none.
    pub published_before: Option<f64>,
    /// The document's, with it.
    pub published_after: Option<f64>,
    /// The measured one, without the mechanism; `None` if that was not measured.
    pub before: Option<f64>,
    /// The measured one, with it.
    pub after: Option<f64>,
    /// Whether what is claimed is so.
    #[serde(rename = "holds")]
    pub verdict: ClaimVerdict,
}

/// What a claim comes to. Scripts read whether it holds, and it does unless it fails: where
/// nothing is claimed, nothing can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// What is claimed is so.
    Holds,
    /// It is not.
    Fails,
    /// The figure is shown and no bound is claimed: a time on a machine that others use as well.
    Shown,
}

/// An experiment that was run on a host.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// Its claims.
    pub experiment: Experiment,
    /// What a person wants to see of it; ends with a line end.
    pub text: String,
}

impl ClaimVerdict {
    /// Of a claim that is so, or not.
    #[must_use]
    pub fn of(so: bool) -> ClaimVerdict {
        if so { ClaimVerdict::Holds } else { ClaimVerdict::Fails }
    }

    /// Whether nothing that is claimed is wrong.
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
    /// Those of `experiments`.
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
