//! `runyard reproduce`: repeats the founding experiments, before and after, beside the published figures.
//!
//! Each experiment gives [claims](Claims). The printed text and the JSON are views of them.

use crate::exit::Done;
use crate::folder::takes_files;
use crate::interrupt;
use crate::output;
use crate::progress;
use clap::{Args, ValueEnum};
use runyard_engine::kernel::Experiment as Document;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_labs::{Claims, Length, Progress, Reproduced};
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The arguments of `runyard reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The experiments; all of them if none is named.
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<Name>,
    /// The host; otherwise each host, one after the other.
    #[arg(long, value_enum)]
    host: Option<Host>,
    /// Make more runs, each with its own seed, none of which may fail. rt-migrate: as many as the original on `sim`, 20
    /// on `live`. idle-balance: 20. latency-nice: 20 times as many. hard-limits: 10. greedy-timers: as long as the
    /// original on `sim`; 5 on `live`.
    #[arg(long)]
    soak: bool,
    /// Exit with code 1 also if a claim was not judged, because others used the CPUs.
    #[arg(long)]
    strict: bool,
    /// Print only the claims, as JSON on standard output.
    #[arg(long)]
    json: bool,
    /// Also write `reproduce.json` and the text of each experiment into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    RtMigrate,
    IdleBalance,
    LatencyNice,
    HardLimits,
    GreedyTimers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Host {
    /// In virtual time.
    Sim,
    /// On this machine's CPUs, on the runyard runtime.
    Live,
}

impl Name {
    /// All experiments, in the order of their documents. They run in this order.
    const ALL: [Name; 5] = [
        Name::RtMigrate,
        Name::IdleBalance,
        Name::LatencyNice,
        Name::HardLimits,
        Name::GreedyTimers,
    ];

    /// The document that it repeats.
    fn document(self) -> Document {
        match self {
            Name::RtMigrate => Document::RtMigrate,
            Name::IdleBalance => Document::IdleBalance,
            Name::LatencyNice => Document::LatencyNice,
            Name::HardLimits => Document::HardLimits,
            Name::GreedyTimers => Document::GreedyTimers,
        }
    }
}

impl Host {
    /// All hosts, in the order in which an experiment uses them.
    const ALL: [Host; 2] = [Host::Sim, Host::Live];
}

/// The form and the place in which results are shown.
#[derive(Clone, Debug)]
struct Shown {
    json: bool,
    strict: bool,
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let length = if arguments.soak { Length::Soak } else { Length::Short };
    if let Some(folder) = &arguments.out {
        prepare(folder).map_err(|error| refused(folder, &error))?;
    }
    let wanted = &arguments.experiments;
    let reproduced = Arc::new(Mutex::new(Vec::new()));
    let Arguments { json, strict, ref out, .. } = *arguments;
    let shown = Shown { json, strict, out: out.clone() };
    let (so_far, interrupted) = (reproduced.clone(), shown.clone());
    interrupt::on_signal(move || {
        say("interrupted: what is shown was done by then");
        interrupted.show(take(&so_far))
    });
    for name in Name::ALL.iter().filter(|name| wanted.is_empty() || wanted.contains(name)) {
        for host in Host::ALL {
            if arguments.host.is_some_and(|only| only != host) {
                continue;
            }
            let one = match watched(*name, host, length) {
                // The experiment does not exist on this host, and the user did not name the host.
                Err(Failure::Refused(why)) if arguments.host.is_none() => {
                    say(why);
                    continue;
                }
                one => one?,
            };
            if !json {
                output::report(|out| out.write_all(one.text.as_bytes()))?;
            }
            lock(&reproduced).push(one);
        }
    }
    shown.show(take(&reproduced))
}

/// Runs an experiment, and shows its progress meanwhile.
fn watched(name: Name, host: Host, length: Length) -> Result<Reproduced, Failure> {
    let progress = Progress::new(length);
    let title = format!("{} on {}", word(&name), word(&host));
    let _shown = progress::of_experiment(title, progress.clone());
    match host {
        Host::Sim => runyard_labs::simulated(name.document(), length, &progress),
        Host::Live => runyard_labs::live(name.document(), length, &progress),
    }
}

/// The word of an argument on the command line.
fn word(of: &impl ValueEnum) -> String {
    of.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned())
}

/// Takes the results, which are shown once.
fn take(reproduced: &Mutex<Vec<Reproduced>>) -> Vec<Reproduced> {
    std::mem::take(&mut lock(reproduced))
}

impl Shown {
    /// Shows everything but the texts, which were shown one by one.
    fn show(&self, reproduced: Vec<Reproduced>) -> Result<Done, Failure> {
        let (experiments, texts): (Vec<_>, Vec<_>) = reproduced
            .into_iter()
            .map(|Reproduced { experiment, text }| (experiment, text))
            .unzip();
        let claims = Claims::new(experiments);
        if let Some(folder) = &self.out {
            write(folder, &claims, &texts).map_err(|error| refused(folder, &error))?;
        }
        if self.json {
            output::report(|out| out.write_all(json(&claims).as_bytes()))?;
        }
        Ok(self.outcome(&claims))
    }

    fn outcome(&self, claims: &Claims) -> Done {
        let not_judged = claims.not_judged();
        if self.strict && not_judged > 0 {
            say(format_args!("--strict: claims that were not judged: {not_judged}"));
            return Done::Broken;
        }
        if claims.hold() { Done::Well } else { Done::Broken }
    }
}

fn json(claims: &Claims) -> String {
    serde_json::to_string_pretty(claims).expect("claims are plain data") + "\n"
}

fn refused(folder: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("{}: {error}", folder.display()))
}

/// Makes the folder, and checks before anything runs that files can be made in it.
fn prepare(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    takes_files(folder)
}

/// Writes the claims, and the text of each experiment.
fn write(folder: &Path, claims: &Claims, texts: &[String]) -> io::Result<()> {
    for (experiment, text) in claims.experiments.iter().zip(texts) {
        std::fs::write(folder.join(format!("{}-{}.txt", experiment.name, experiment.host)), text)?;
    }
    std::fs::write(folder.join("reproduce.json"), json(claims))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_labs::{Claim, ClaimVerdict, Experiment, Unjudged};

    /// The outcome of claims with these verdicts.
    fn outcome(strict: bool, verdicts: &[ClaimVerdict]) -> Done {
        let claim = |&verdict: &ClaimVerdict| Claim {
            what: String::new(),
            unit: String::new(),
            published_before: None,
            published_after: None,
            before: None,
            after: None,
            verdict,
        };
        let claims = verdicts.iter().map(claim).collect();
        let experiment = Experiment { name: String::new(), host: String::new(), claims };
        Shown { json: true, strict, out: None }.outcome(&Claims::new(vec![experiment]))
    }

    #[test]
    fn what_was_not_judged_is_a_failure_only_if_the_user_is_strict() {
        use ClaimVerdict::{Fails, Holds, NotJudged, Shown};
        let not_judged = NotJudged(Unjudged::Others(40));
        for (verdicts, plain, strict) in [
            ([Holds, Shown], Done::Well, Done::Well),
            ([Holds, Fails], Done::Broken, Done::Broken),
            ([Holds, not_judged], Done::Well, Done::Broken),
            ([Fails, not_judged], Done::Broken, Done::Broken),
        ] {
            assert_eq!([false, true].map(|it| outcome(it, &verdicts)), [plain, strict]);
        }
    }
}
