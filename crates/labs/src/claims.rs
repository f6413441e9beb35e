//! The claims of the founding documents beside the measured figures: as JSON and as a table.

use runyard_report::table;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
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

/// The outcome of a claim: one of six words. In JSON it is the fields `verdict` (the word), `why` (the reason of the last
/// three), and `holds`: true or false for the first two, otherwise null.
///
/// A bound that is kept proves something only if it can be broken. So there are three words for a bound that is kept:
/// it *holds*, or its scenario was *fitted* to the published figure, or both runs are the *same by construction*. Each of
/// these claims *fails* if its bound is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The claim holds, and it could fail.
    Holds,
    /// The claim does not hold.
    Fails,
    /// The figure is shown without a bound.
    Shown,
    /// The bound is kept, with this parameter, which was chosen so that the figure comes out.
    Fitted(&'static str),
    /// The bound is kept, as it must be: the mechanism has nothing to do, for this reason.
    SameByConstruction(&'static str),
    /// The claim has a bound, but its measurement says nothing about it, for this reason.
    NotJudged(Unjudged),
}

/// The reason why a claim was not judged. Its text is a part of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unjudged {
    /// Others had this share of the CPUs, in per cent.
    Others(u8),
    /// The kernel does not count who has the CPUs. Nobody knows then whether a failure is the fault of others.
    Uncounted,
    /// The machine has fewer CPUs than the claim is about, which are so many.
    FewerCpus(u8),
    /// The kernel makes no task groups for this process.
    NoGroups,
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

    /// The outcome of a claim with a bound that this parameter was chosen for.
    #[must_use]
    pub fn fitted(so: bool, parameter: &'static str) -> ClaimVerdict {
        if so { ClaimVerdict::Fitted(parameter) } else { ClaimVerdict::Fails }
    }

    /// The outcome of a claim whose mechanism has nothing to do, for this reason.
    #[must_use]
    pub fn same(so: bool, why: &'static str) -> ClaimVerdict {
        if so { ClaimVerdict::SameByConstruction(why) } else { ClaimVerdict::Fails }
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
            _ => None,
        }
    }

    /// Whether the claim has a bound that was not judged.
    fn is_open(self) -> bool {
        matches!(self, ClaimVerdict::NotJudged(_))
    }

    /// The reason for a word that says less than "holds".
    fn why(self) -> Option<String> {
        match self {
            ClaimVerdict::Fitted(why) | ClaimVerdict::SameByConstruction(why) => {
                Some(why.to_owned())
            }
            ClaimVerdict::NotJudged(why) => Some(why.to_string()),
            ClaimVerdict::Holds | ClaimVerdict::Fails | ClaimVerdict::Shown => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "fails",
            ClaimVerdict::Shown => "shown",
            ClaimVerdict::Fitted(_) => "fitted",
            ClaimVerdict::SameByConstruction(_) => "same by construction",
            ClaimVerdict::NotJudged(_) => "not judged",
        }
    }

    fn cell(self) -> &'static str {
        if self.fails() { "FAILS" } else { self.word() }
    }
}

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unjudged::Others(percent) => write!(f, "others had {percent} % of the CPUs"),
            Unjudged::Uncounted => write!(f, "the kernel does not count who has the CPUs"),
            Unjudged::FewerCpus(cpus) => write!(f, "fewer than {cpus} CPUs"),
            Unjudged::NoGroups => write!(f, "the kernel makes no task groups for this process"),
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
        Fields { verdict: self.word(), why: self.why(), holds: self.holds() }.serialize(serializer)
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
        self.all().filter(|claim| claim.verdict.is_open()).count()
    }

    fn all(&self) -> impl Iterator<Item = &Claim> {
        self.experiments.iter().flat_map(|experiment| &experiment.claims)
    }
}

impl Experiment {
    /// The claims as a table that ends with a line end. Below it stands how many claims have each word, and why claims
    /// have a word that says less than "holds".
    #[must_use]
    pub fn table(&self) -> String {
        let header = ["claim", "published: before", "after", "here: before", "after", "so"];
        let mut table = table(&header, 1);
        table.add_rows(self.claims.iter().map(Claim::row));
        let reason = |claim: &Claim| Some((claim.verdict.word(), claim.verdict.why()?));
        let reasons: BTreeSet<_> = self.claims.iter().filter_map(reason).collect();
        let reasons = reasons.into_iter().map(|(word, why)| format!("{word}: {why}\n"));
        table.trim_fmt() + "\n" + &self.counts() + "\n" + &reasons.collect::<String>()
    }

    /// The number of claims with each word: `7 claims: 5 holds, 2 shown`.
    fn counts(&self) -> String {
        let mut words = BTreeMap::new();
        for claim in &self.claims {
            *words.entry(claim.verdict.cell()).or_insert(0) += 1;
        }
        let words: Vec<_> = words.iter().map(|(word, number)| format!("{number} {word}")).collect();
        format!("{} claims: {}", self.claims.len(), words.join(", "))
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
        assert!(experiment.table().ends_with("  shown\n2 claims: 1 holds, 1 shown\n"));
        let claims = Claims::new(vec![experiment]);
        assert!(claims.hold() && claims.not_judged() == 0);
        let json = serde_json::to_string(&claims).unwrap();
        assert!(json.contains(r#""verdict":"shown","holds":null}"#), "{json}");
    }

    #[test]
    fn a_bound_that_is_kept_by_choice_or_by_necessity_is_no_proof_and_can_be_broken() {
        let (fitted, same) = (ClaimVerdict::fitted, ClaimVerdict::same);
        for verdict in [fitted(false, "the period"), same(false, "nobody asks")] {
            assert_eq!(verdict, ClaimVerdict::Fails);
        }
        let claims = [fitted(true, "the period"), same(true, "nobody asks")].map(claim).to_vec();
        let experiment = Experiment { name: "a".to_owned(), host: "sim".to_owned(), claims };
        let table = experiment.table();
        assert!(table.contains("\nfitted: the period\nsame by construction: nobody asks\n"));
        let claims = Claims::new(vec![experiment]);
        assert!(claims.hold() && claims.not_judged() == 0);
        let json = serde_json::to_string(&claims).unwrap();
        assert!(json.contains(r#""verdict":"fitted","why":"the period","holds":null}"#), "{json}");
    }

    #[test]
    fn what_was_not_judged_has_its_reason_once_in_text_and_in_each_claim_of_json() {
        let why = ClaimVerdict::NotJudged(Unjudged::Others(40));
        let claims = [ClaimVerdict::Holds, why, why].map(claim).to_vec();
        let experiment = Experiment { name: "a".to_owned(), host: "live".to_owned(), claims };
        let table = experiment.table();
        let end = "  not judged\n3 claims: 1 holds, 2 not judged\n\
                   not judged: others had 40 % of the CPUs\n";
        assert!(table.ends_with(end), "{table}");
        let claims = Claims::new(vec![experiment]);
        assert!(claims.hold(), "it is no failure");
        assert_eq!(claims.not_judged(), 2);
        let json = serde_json::to_string(&claims).unwrap();
        let fields = r#""verdict":"not judged","why":"others had 40 % of the CPUs","holds":null}"#;
        assert_eq!(json.matches(fields).count(), 2, "{json}");
    }
}
