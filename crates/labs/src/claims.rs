//! The claims of the founding documents beside the measured figures: as JSON and as a table.

use runyard_report::table;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;

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
    #[serde(flatten)]
    pub verdict: ClaimVerdict,
}

/// The outcome of a claim. In JSON it is the fields `verdict`, `why` if it was not judged, and `holds`: true, false or,
/// if nothing was judged, null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The claim holds.
    Holds,
    /// The claim does not hold.
    Fails,
    /// The figure is shown without a bound: a time on a machine that other programs use as well.
    Shown,
    /// The claim has a bound, but its measurement says nothing about it, for this reason.
    NotJudged(Disturbed),
}

/// The reason why a claim was not judged. Its text is a part of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbed {
    /// Others had this share of the CPUs, in per cent.
    Others(u8),
    /// The kernel does not count who has the CPUs. Nobody knows then whether a failure is the fault of others.
    Uncounted,
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

    /// Whether the claim was judged and does not hold.
    #[must_use]
    pub fn fails(self) -> bool {
        self == ClaimVerdict::Fails
    }

    /// Whether the claim holds; `None` if nothing was judged.
    fn holds(self) -> Option<bool> {
        match self {
            ClaimVerdict::Holds => Some(true),
            ClaimVerdict::Fails => Some(false),
            ClaimVerdict::Shown | ClaimVerdict::NotJudged(_) => None,
        }
    }

    /// The reason why the claim was not judged.
    fn why(self) -> Option<Disturbed> {
        match self {
            ClaimVerdict::NotJudged(why) => Some(why),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "fails",
            ClaimVerdict::Shown => "shown",
            ClaimVerdict::NotJudged(_) => "not judged",
        }
    }

    fn cell(self) -> &'static str {
        match self {
            ClaimVerdict::Fails => "FAILS",
            ClaimVerdict::Shown => "-",
            other => other.name(),
        }
    }
}

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disturbed::Others(percent) => write!(f, "others had {percent} % of the CPUs"),
            Disturbed::Uncounted => write!(f, "the kernel does not count who has the CPUs"),
        }
    }
}

impl Serialize for ClaimVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields {
            verdict: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            why: Option<String>,
            holds: Option<bool>,
        }
        let why = self.why().map(|why| why.to_string());
        Fields { verdict: self.name(), why, holds: self.holds() }.serialize(serializer)
    }
}

impl Claims {
    /// The claims of `experiments`.
    #[must_use]
    pub fn new(experiments: Vec<Experiment>) -> Claims {
        Claims { schema: "runyard.reproduce/1", experiments }
    }

    /// Whether no claim fails.
    #[must_use]
    pub fn hold(&self) -> bool {
        !self.all().any(|claim| claim.verdict.fails())
    }

    /// The number of claims that were not judged.
    #[must_use]
    pub fn not_judged(&self) -> usize {
        self.all().filter(|claim| claim.verdict.why().is_some()).count()
    }

    fn all(&self) -> impl Iterator<Item = &Claim> {
        self.experiments.iter().flat_map(|experiment| &experiment.claims)
    }
}

impl Experiment {
    /// The claims as a table that ends with a line end. Below it stands why claims were not judged.
    #[must_use]
    pub fn table(&self) -> String {
        let header = ["claim", "published: before", "after", "here: before", "after", "so"];
        let mut table = table(&header, 1);
        table.add_rows(self.claims.iter().map(Claim::row));
        let reasons: BTreeSet<_> =
            self.claims.iter().filter_map(|claim| claim.verdict.why()).collect();
        let reasons = reasons.into_iter().map(|why| format!("not judged: {why}\n"));
        table.trim_fmt() + "\n" + &reasons.collect::<String>()
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
        for fields in [r#""verdict":"holds","holds":true}"#, r#""verdict":"fails","holds":false}"#]
        {
            assert!(json.contains(&format!(r#""before":null,"after":55.5,{fields}"#)), "{json}");
        }
    }

    #[test]
    fn a_figure_without_a_bound_cannot_fail() {
        let claims = [ClaimVerdict::Holds, ClaimVerdict::Shown].map(claim).to_vec();
        let experiment = Experiment { name: "a".to_owned(), host: "live".to_owned(), claims };
        assert!(experiment.table().lines().last().unwrap().ends_with(" -"));
        let claims = Claims::new(vec![experiment]);
        assert!(claims.hold() && claims.not_judged() == 0);
        let json = serde_json::to_string(&claims).unwrap();
        assert!(json.contains(r#""verdict":"shown","holds":null}"#), "{json}");
    }

    #[test]
    fn what_was_not_judged_has_its_reason_once_in_text_and_in_each_claim_of_json() {
        let why = ClaimVerdict::NotJudged(Disturbed::Others(40));
        let claims = [ClaimVerdict::Holds, why, why].map(claim).to_vec();
        let experiment = Experiment { name: "a".to_owned(), host: "live".to_owned(), claims };
        let table = experiment.table();
        let last: Vec<_> = table.lines().rev().take(2).collect();
        assert_eq!(last[0], "not judged: others had 40 % of the CPUs");
        assert!(last[1].ends_with("  not judged"), "{table}");
        let claims = Claims::new(vec![experiment]);
        assert!(claims.hold(), "it is no failure");
        assert_eq!(claims.not_judged(), 2);
        let json = serde_json::to_string(&claims).unwrap();
        let fields = r#""verdict":"not judged","why":"others had 40 % of the CPUs","holds":null}"#;
        assert_eq!(json.matches(fields).count(), 2, "{json}");
    }
}
