//! `cargo xtask same`: checks that the simulator behaves as at another commit.
//!
//! A change of form must not change any decision. This step builds the command at that commit and at the working tree,
//! runs many scenarios on both, and compares their output byte for byte. Only the field `engine.wall_ns` may differ.
//! The scenarios are those of the tree, and random ones from a seed.

mod builds;
mod compare;

use std::fmt;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use clap::Args;

use crate::dice::Dice;
use crate::draw::{self, SHAPES, Wishes};
use crate::workspace::{self, Outcome, program, root};
use builds::Programs;
use compare::Cleaned;

/// The features with which every scenario runs with every seed: both fair algorithms.
const ORDERS: [&[&str]; 2] = [&["EEVDF"], &["NO_EEVDF"]];

/// The features with which a scenario of the tree runs in addition, with the first seed: each algorithm without some
/// other features, since their "before" must not change either.
const WITHOUT: [&[&str]; 2] = [
    &["EEVDF", "NO_LATENCY_NICE", "NO_RUNTIME_SHARE", "NO_RT_PULL", "NO_WAKEUP_PREEMPTION"],
    &["NO_EEVDF", "NO_HARD_LIMITS", "NO_GREEDY_TIMERS", "NO_RT_PUSH", "NO_IDLE_LOAD_BALANCE"],
];

/// The features of random scenarios. An older commit knows no newer ones.
const FEATURES: [&str; 12] = [
    "NO_RT_PUSH",
    "NO_RT_PULL",
    "NO_RT_PUSH_PAST_STUCK",
    "NO_LOAD_BALANCE",
    "NO_IDLE_LOAD_BALANCE",
    "POWER_SAVINGS",
    "NO_WAKEUP_PREEMPTION",
    "NO_GENTLE_FAIR_SLEEPERS",
    "NO_LATENCY_NICE",
    "NO_HARD_LIMITS",
    "NO_RUNTIME_SHARE",
    "NO_GREEDY_TIMERS",
];

const SEEDS: [u64; 2] = [1, 2];

/// The scenarios that run shorter than they ask, by name. At full length they take seconds of real time or write traces
/// of up to a gigabyte.
const SHORTENED: [(&str, &str); 8] = [
    ("greedy-timers", "3s"),
    ("large", "2ms"),
    ("latency-nice", "100ms"),
    ("noisy-neighbour", "2s"),
    ("probes", "3s"),
    ("tenants", "10s"),
    ("touch-latency", "10s"),
    ("web-tier", "2s"),
];

/// The file with the report from standard output.
const REPORT: &str = "report.json";
/// The file with the trace.
const TRACE: &str = "trace.txt";
/// The file with standard error: warnings and errors.
const SAID: &str = "stderr.txt";

/// The compared files of a run, and the compared part of each line.
const COMPARED: [(&str, Cleaned); 3] =
    [(REPORT, compare::without_wall), (TRACE, compare::whole), (SAID, compare::whole)];

/// The options of the comparison.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The commit to compare with
    #[arg(long, value_name = "REV")]
    pub against: String,
    /// The number of parallel runs; by default as many as there are CPUs
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Seed of the random scenarios
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// The number of random scenarios
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub random: u64,
    /// Compare traces and warnings, which have all decisions, and no reports: a report may have new fields
    #[arg(long)]
    pub traces: bool,
    /// Only scenarios whose path contains this
    pub filter: Option<String>,
}

/// A scenario with its options, run once on each side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Case {
    /// The path of the scenario, relative to the root if it is below.
    scenario: String,
    /// The options of `runyard sim`.
    options: Vec<String>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scenario, self.options.join(" "))
    }
}

/// Builds both commands, runs all cases on both, and reports the differences.
pub fn run(options: &Options) -> Outcome {
    let folder = workspace::target("same")?;
    let scenarios = scenarios(options, &folder.join("random"))?;
    let cases: Vec<_> = scenarios.iter().flat_map(|scenario| cases(scenario)).collect();
    if cases.is_empty() {
        return Err("no scenario has such a path".into());
    }
    let programs = builds::both(&options.against, &folder)?;
    let cpus = || thread::available_parallelism().ok();
    let jobs = options.jobs.or_else(cpus).map_or(1, NonZeroUsize::get);
    let compared = &COMPARED[usize::from(options.traces)..];
    let judge =
        |job, case: &Case| differs(case, &programs, &folder.join(format!("job-{job}")), compared);
    let differing = in_parallel(&cases, jobs, &judge)?;
    conclude(&differing, cases.len(), &programs)
}

fn conclude(differing: &[String], runs: usize, programs: &Programs) -> Outcome {
    if differing.is_empty() {
        println!("{runs} runs: none differs");
        return Ok(());
    }
    for what in differing {
        println!("{what}");
    }
    let Programs { before, after } = programs;
    println!("before: {} sim ...", before.display());
    println!("after:  {} sim ...", after.display());
    Err(format!("{} of {runs} runs differ", differing.len()).into())
}

/// The paths of the scenarios: those of the tree, and the random ones, which this writes.
fn scenarios(options: &Options, random: &Path) -> Outcome<Vec<String>> {
    let mut paths = committed(&root().join("scenarios"))?;
    fs::create_dir_all(random)?;
    let features = FEATURES.map(str::to_owned);
    let (shapes, features) = (&SHAPES, &features);
    let wishes =
        Wishes { shapes, features, kernels: &[""], wild: false, scale: 1, changes_within: None };
    for index in 0..options.random {
        let path = random.join(format!("{}-{index}.json", options.seed));
        fs::write(&path, draw::scenario(&mut Dice::new(options.seed, index), &wishes).0)?;
        paths.push(path);
    }
    let short = |path: &PathBuf| path.strip_prefix(root()).unwrap_or(path).display().to_string();
    let named = |path: &String| options.filter.as_ref().is_none_or(|part| path.contains(part));
    Ok(paths.iter().map(short).filter(named).collect())
}

/// The scenarios in `folder` and below it, in the order of their paths.
fn committed(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(committed(&path)?);
        } else if path.extension().is_some_and(|end| end == "json") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The cases of `scenario`. A random scenario also has features of its own.
fn cases(scenario: &str) -> Vec<Case> {
    let seeds = |order| SEEDS.map(|seed| case(scenario, order, seed));
    let mut all: Vec<_> = ORDERS.into_iter().flat_map(seeds).collect();
    if scenario.starts_with("scenarios/") {
        all.extend(WITHOUT.map(|features| case(scenario, features, SEEDS[0])));
    }
    all
}

fn case(scenario: &str, features: &[&str], seed: u64) -> Case {
    let mut options = vec!["--seed".to_owned(), seed.to_string()];
    let mut option = |name: &str, value: &str| options.extend([name.into(), value.into()]);
    features.iter().for_each(|feature| option("--feature", feature));
    let named = |(name, _): &&(&str, &str)| {
        Path::new(scenario).file_stem().is_some_and(|stem| stem == *name)
    };
    if let Some((_, span)) = SHORTENED.iter().find(named) {
        option("--duration", span);
    }
    Case { scenario: scenario.to_owned(), options }
}

/// The results of `judge` for the cases that differ, in their order. Its argument is the number of the job, from 0.
fn in_parallel(
    cases: &[Case],
    jobs: usize,
    judge: &(impl Fn(usize, &Case) -> Outcome<Option<String>> + Sync),
) -> Outcome<Vec<String>> {
    // A boxed error cannot leave its thread.
    let part = |job: usize| -> Result<Vec<(usize, String)>, String> {
        let mut found = Vec::new();
        for (index, case) in cases.iter().enumerate().skip(job).step_by(jobs) {
            let judged = judge(job, case).map_err(|error| format!("{case}: {error}"))?;
            found.extend(judged.map(|what| (index, format!("{case}: {what}"))));
        }
        Ok(found)
    };
    let part = &part;
    let parts: Result<Vec<_>, String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || part(job))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a job panicked")).collect()
    });
    let mut found = parts?.concat();
    found.sort();
    Ok(found.into_iter().map(|(_, what)| what).collect())
}

/// The first difference between the two runs of `case`, whose files are in `folder`.
fn differs(
    case: &Case,
    programs: &Programs,
    folder: &Path,
    compared: &[(&str, Cleaned)],
) -> Outcome<Option<String>> {
    let [before, after] = ["before", "after"].map(|side| folder.join(side));
    let codes = [play(case, &programs.before, &before)?, play(case, &programs.after, &after)?];
    let found = first_difference(codes, [&before, &after], compared)?;
    fs::remove_dir_all(folder)?;
    Ok(found)
}

/// Runs `case` with its files in `folder`. Returns the exit code, or `None` if a signal ended it.
///
/// A refused scenario shows nothing, so it is an error.
fn play(case: &Case, binary: &Path, folder: &Path) -> Outcome<Option<i32>> {
    fs::create_dir_all(folder)?;
    let mut command = program(binary);
    command.args(["sim", &case.scenario, "--json", "--trace"]).arg(folder.join(TRACE));
    command.args(&case.options);
    command.stdout(File::create(folder.join(REPORT))?);
    command.stderr(File::create(folder.join(SAID))?);
    let code = command.status()?.code();
    if code == Some(2) {
        let said = fs::read_to_string(folder.join(SAID))?;
        return Err(format!("{} refuses it: {}", binary.display(), said.trim()).into());
    }
    Ok(code)
}

fn first_difference(
    codes: [Option<i32>; 2],
    [before, after]: [&Path; 2],
    compared: &[(&str, Cleaned)],
) -> Outcome<Option<String>> {
    if codes[0] != codes[1] {
        let [before, after] = codes.map(|code| code.map_or("a signal".into(), code_named));
        return Ok(Some(format!("it ended with {before}, now with {after}")));
    }
    for (name, cleaned) in compared {
        if let Some(found) = compare::files(&before.join(name), &after.join(name), *cleaned)? {
            return Ok(Some(format!("{name}, {found}")));
        }
    }
    Ok(None)
}

fn code_named(code: i32) -> String {
    format!("exit code {code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_of_the_tree_runs_with_both_orders_and_without_features() {
        let all = cases("scenarios/tenants.json");
        let shown: Vec<_> = all.iter().map(ToString::to_string).collect();
        let first = "scenarios/tenants.json --seed 1 --feature EEVDF --duration 10s";
        assert_eq!(shown[0], first);
        assert_eq!(all.len(), SEEDS.len() * ORDERS.len() + WITHOUT.len());
        assert!(shown.iter().any(|case| case.contains("--feature NO_HARD_LIMITS")));
        assert_eq!(cases("target/same/random/1-0.json").len(), SEEDS.len() * ORDERS.len());
    }

    #[test]
    fn what_is_shortened_is_there() {
        for (name, _) in SHORTENED {
            assert!(root().join(format!("scenarios/{name}.json")).is_file(), "{name}");
        }
    }

    #[test]
    fn every_case_is_judged_once_and_told_in_its_order() {
        let cases: Vec<_> = (0..7).map(|n| case(&n.to_string(), &[], n)).collect();
        let odd = |_, case: &Case| {
            let number: u64 = case.scenario.parse()?;
            Ok((number % 2 == 1).then(|| "odd".to_owned()))
        };
        let expected = ["1 --seed 1: odd", "3 --seed 3: odd", "5 --seed 5: odd"];
        assert_eq!(in_parallel(&cases, 3, &odd).unwrap(), expected);
        let fails = |_, _: &Case| Err("no".into());
        assert!(in_parallel(&cases, 3, &fails).unwrap_err().to_string().ends_with(": no"));
    }
}
