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
    /// This program is not on the path. A package has it, by its name in Debian.
    NotInstalled(&'static str, &'static str),
    /// This program is on the path and fails.
    DoesNotRun(&'static str),
    /// Without a limit the program uses hardly more CPU time than the limit allows.
    NeedsLess,
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

    /// The word, and the reason for one that says less than "holds".
    fn told(self) -> (&'static str, Option<String>) {
        match self {
            ClaimVerdict::Holds => ("holds", None),
            ClaimVerdict::Fails => ("fails", None),
            ClaimVerdict::Shown => ("shown", None),
            ClaimVerdict::Fitted(why) => ("fitted", Some(why.to_owned())),
            ClaimVerdict::SameByConstruction(why) => ("same by construction", Some(why.to_owned())),
            ClaimVerdict::NotJudged(why) => ("not judged", Some(why.to_string())),
        }
    }

    fn cell(self) -> &'static str {
        if self.fails() { "FAILS" } else { self.told().0 }
    }
}

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unjudged::Others(percent) => write!(f, "others had {percent} % of the CPUs"),
            Unjudged::Uncounted => write!(f, "the kernel does not count who has the CPUs"),
            Unjudged::FewerCpus(cpus) => write!(f, "fewer than {cpus} CPUs"),
            Unjudged::NoGroups => write!(f, "the kernel makes no task groups for this process"),
            Unjudged::NotInstalled(program, package) => {
                write!(f, "{program} is not installed (package {package})")
            }
            Unjudged::DoesNotRun(program) => write!(f, "{program} does not run here"),
            Unjudged::NeedsLess => {
                write!(f, "without a limit the program uses hardly more than the limit allows")
            }
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
        let (verdict, why) = self.told();
        let is_judged = matches!(self, ClaimVerdict::Holds | ClaimVerdict::Fails);
        let holds = is_judged.then(|| !self.fails());
        Fields { verdict, why, holds }.serialize(serializer)
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
        let is_open = |claim: &&Claim| matches!(claim.verdict, ClaimVerdict::NotJudged(_));
        self.all().filter(is_open).count()
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
        let told: BTreeSet<_> = self.claims.iter().map(|claim| claim.verdict.told()).collect();
        let reasons =
            told.into_iter().filter_map(|(word, why)| Some(format!("{word}: {}\n", why?)));
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

impl Reproduced {
    /// An experiment with these claims on a host. `text` gets the table of the claims.
    pub(crate) fn of(
        name: &str,
        host: &str,
        claims: Vec<Claim>,
        text: impl FnOnce(&str) -> String,
    ) -> Reproduced {
        let experiment = Experiment { name: name.to_owned(), host: host.to_owned(), claims };
        let text = text(&experiment.table());
        Reproduced { experiment, text }
    }
}

impl Claim {
    /// A claim without published figures, with those that were measured before and after.
    pub(crate) fn of(
        what: impl Into<String>,
        unit: &str,
        [before, after]: [Option<f64>; 2],
        verdict: ClaimVerdict,
    ) -> Claim {
        Claim {
            what: what.into(),
            unit: unit.to_owned(),
            published_before: None,
            published_after: None,
            before,
            after,
            verdict,
        }
    }

    /// The same claim beside the published figures.
    pub(crate) fn beside(self, [before, after]: [Option<f64>; 2]) -> Claim {
        Claim { published_before: before, published_after: after, ..self }
    }

    /// The claim about the number of runs, each with its claims, in which all of them hold.
    pub(crate) fn of_runs(what: String, runs: impl Iterator<Item = Vec<Claim>>) -> Claim {
        let hold: Vec<_> =
            runs.map(|claims| claims.iter().all(|claim| !claim.verdict.fails())).collect();
        let good = hold.iter().filter(|&&holds| holds).count();
        Claim::of(what, "runs", [None, Some(good as f64)], ClaimVerdict::of(good == hold.len()))
    }

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
pub(crate) mod tests {
    use super::*;

    /// The names of the claims that fail.
    pub(crate) fn failed(claims: impl IntoIterator<Item = Claim>) -> Vec<String> {
        let failed = claims.into_iter().filter(|claim| claim.verdict.fails());
        failed.map(|claim| claim.what).collect()
    }

    fn claim(verdict: ClaimVerdict) -> Claim {
        let claim = Claim::of("latest start", "us", [None, Some(55.5)], verdict);
        claim.beside([Some(20_041.0), Some(61.0)])
    }

    /// An experiment with claims of these verdicts.
    fn experiment(verdicts: &[ClaimVerdict]) -> Experiment {
        let claims = verdicts.iter().copied().map(claim).collect();
        Experiment { name: "a".to_owned(), host: "live".to_owned(), claims }
    }

    #[test]
    fn one_bad_run_of_many_fails() {
        let runs = |verdicts: &[ClaimVerdict]| {
            let claim =
                Claim::of_runs("runs".to_owned(), verdicts.iter().map(|&it| vec![claim(it)]));
            (claim.after, claim.verdict)
        };
        use ClaimVerdict::{Fails, Holds, Shown};
        assert_eq!(runs(&[Holds, Shown]), (Some(2.0), Holds));
        assert_eq!(runs(&[Holds, Fails, Holds]), (Some(2.0), Fails));
    }

    #[test]
    fn claims_are_read_by_scripts_and_people() {
        let why = ClaimVerdict::NotJudged(Unjudged::Others(40));
        for (verdict, end, fields) in [
            (ClaimVerdict::Holds, "2 holds\n", r#""verdict":"holds","holds":true}"#),
            (ClaimVerdict::Fails, "2 FAILS\n", r#""verdict":"fails","holds":false}"#),
            (ClaimVerdict::Shown, "2 shown\n", r#""verdict":"shown","holds":null}"#),
            (
                ClaimVerdict::Fitted("the period"),
                "2 fitted\nfitted: the period\n",
                r#""verdict":"fitted","why":"the period","holds":null}"#,
            ),
            (
                ClaimVerdict::SameByConstruction("nobody asks"),
                "2 same by construction\nsame by construction: nobody asks\n",
                r#""verdict":"same by construction","why":"nobody asks","holds":null}"#,
            ),
            (
                why,
                "2 not judged\nnot judged: others had 40 % of the CPUs\n",
                r#""verdict":"not judged","why":"others had 40 % of the CPUs","holds":null}"#,
            ),
        ] {
            let experiment = experiment(&[verdict, verdict]);
            let table = experiment.table();
            assert!(table.contains("latest start, us") && table.contains("20041"), "{table}");
            assert!(table.ends_with(&format!("\n2 claims: {end}")), "{table}");
            let claims = Claims::new(vec![experiment]);
            assert_eq!(claims.hold(), verdict != ClaimVerdict::Fails);
            assert_eq!(claims.not_judged(), if verdict == why { 2 } else { 0 });
            let json = serde_json::to_string(&claims).unwrap();
            let start = r#"{"schema":"runyard.reproduce/1","experiments":[{"name":"a""#;
            assert!(json.starts_with(start), "{json}");
            let fields = format!(r#""before":null,"after":55.5,{fields}"#);
            assert_eq!(json.matches(&fields).count(), 2, "{json}");
        }
    }
}
