//! The tables of `docs/figures/fidelity.md`: the CPU time and the latencies in each scenario of `scenarios/fidelity`,
//! the assertions of the kernel's own selftests about them, and the effects of task groups' limits.

use std::collections::BTreeMap;
use std::path::Path;

use super::Options;
use super::judge::{ENOUGH_WAKEUPS, Measure, ratio};
use super::rig::Rig;
use serde_json::Value;

use crate::limits::{self, Limited};
use crate::median::median;
use crate::selftests::{self, CASES, Usage};
use crate::workspace::{self, Outcome};

/// The figures of one run.
#[derive(Debug, Default)]
struct Run {
    threads: BTreeMap<String, Figures>,
    usage: Usage,
    limited: Limited,
    /// The migrations of all tasks.
    migrations: f64,
}

/// The figures of one thread object's tasks on one host.
#[derive(Debug, Default)]
struct Figures {
    /// The share of each instance in per cent of one CPU, the largest first.
    shares: Vec<f64>,
    /// The median wake-up latencies of instances with enough wake-ups, in nanoseconds.
    wakeups: Vec<f64>,
}

/// Runs the wanted scenarios and prints the tables.
pub(super) fn run(options: &Options) -> Outcome {
    let folder = workspace::root().join("scenarios/fidelity");
    let there = |name: &&String| folder.join(format!("{name}.json")).is_file();
    if let Some(name) = options.only.iter().find(|name| !there(name)) {
        return Err(format!("{} has no {name}.json", folder.display()).into());
    }
    let rig = Rig::new(&options.feature, options.kernel.as_deref())?;
    let machine = rig.machine()?;
    println!("simulated with {machine}\n");
    println!(
        "| scenario | CPU shares apart, points | wake-up p50: kernel | simulated | ratio | | \
         migrations: kernel | simulated |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut scenarios: Vec<_> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
    scenarios.retain(|scenario| scenario.is_file());
    scenarios.sort();
    let (mut selftests, mut limited) = (Vec::new(), Vec::new());
    for scenario in &scenarios {
        let name = scenario.file_stem().ok_or("a scenario has a name")?.to_string_lossy();
        if !options.only.is_empty() && !options.only.iter().any(|only| *only == name) {
            continue;
        }
        let (kernel, simulated) = both(&rig, scenario, &machine, options.repeat)?;
        println!("{}", row(&name, &kernel, &simulated));
        if let Some(case) = CASES.iter().position(|case| case.scenario == name) {
            selftests.push((case, CASES[case].row(&middle(&kernel), &simulated.usage)));
        }
        let kernel: Vec<_> = kernel.into_iter().map(|run| run.limited).collect();
        limited.extend(limits::rows(&name, &kernel, &simulated.limited));
    }
    selftests.sort();
    println!("\n{}", selftests::HEAD);
    selftests.iter().for_each(|(_, row)| println!("{row}"));
    println!("\n{}", limits::HEAD);
    limited.iter().for_each(|row| println!("{row}"));
    Ok(())
}

/// The median of each usage over the runs, if all runs have it.
fn middle(runs: &[Run]) -> Usage {
    let names = runs.first().into_iter().flat_map(|run| run.usage.keys());
    let of = |name| runs.iter().map(|run| run.usage.get(name).copied()).collect::<Option<Vec<_>>>();
    names.filter_map(|name| Some((name.clone(), median(of(name)?)?))).collect()
}

/// Runs a scenario on the kernel, several times, and in the simulator.
fn both(rig: &Rig, scenario: &Path, machine: &str, repeat: usize) -> Outcome<(Vec<Run>, Run)> {
    let text = std::fs::read_to_string(scenario)?;
    let simulated = Run::of(&rig.simulate(&text, machine, &[])?)?;
    let kernel = (0..repeat).map(|_| Run::of(&rig.run("linux", scenario, &[])?));
    Ok((kernel.collect::<Outcome<_>>()?, simulated))
}

impl Run {
    /// The figures of each thread object in a report, and of each existing task group.
    fn of(report: &Value) -> Outcome<Run> {
        let duration = report["duration_ns"].as_f64().ok_or("a run takes time")?;
        let share = |of: &Value| Some(of["runtime_ns"].as_f64()? / duration * 100.0);
        let mut all = BTreeMap::<String, Figures>::new();
        let (mut usage, mut limited) = (Usage::new(), Limited::new());
        let mut migrations = 0.0;
        for group in report["groups"].as_array().into_iter().flatten() {
            let path = group["path"].as_str().unwrap_or_default().to_owned();
            limited.extend(limits::figures(group, duration).map(|of| (path.clone(), of)));
            usage.extend(share(group).map(|share| (path, share)));
        }
        for task in report["tasks"].as_array().into_iter().flatten() {
            let thread = task["thread"].as_str().or(task["name"].as_str()).unwrap_or_default();
            let figures = all.entry(thread.to_owned()).or_default();
            figures.shares.push(share(task).unwrap_or(0.0));
            *usage.entry(thread.to_owned()).or_default() += share(task).unwrap_or(0.0);
            migrations += task["migrations"].as_f64().unwrap_or(0.0);
            if task["wakeups"].as_u64() >= Some(ENOUGH_WAKEUPS) {
                figures.wakeups.extend(task["wakeup_latency"]["p50_ns"].as_f64());
            }
        }
        all.values_mut().for_each(|figures| figures.shares.sort_by(|a, b| b.total_cmp(a)));
        Ok(Run { threads: all, usage, limited, migrations })
    }
}

/// A row of the table: the largest distances.
fn row(name: &str, kernel: &[Run], simulated: &Run) -> String {
    let mut apart = 0.0_f64;
    let mut worst = None::<(f64, f64, f64)>;
    for (thread, ours) in &simulated.threads {
        for (at, share) in ours.shares.iter().enumerate() {
            let theirs = median(kernel.iter().map(|run| run.threads[thread].shares[at]));
            apart = apart.max((share - theirs.unwrap_or(0.0)).abs());
        }
        let wakeup = |of: &Figures| median(of.wakeups.iter().copied());
        let theirs = median(kernel.iter().flat_map(|run| wakeup(&run.threads[thread])));
        if let (Some(ours), Some(theirs)) = (wakeup(ours), theirs) {
            let ratio = ratio(ours, theirs);
            if worst.is_none_or(|(_, _, worst)| ratio > worst) {
                worst = Some((theirs, ours, ratio));
            }
        }
    }
    let (shares, wakeups) = (Measure::Share.goal(), Measure::P50.goal());
    let holds = apart <= shares && worst.is_none_or(|(.., ratio)| ratio <= wakeups);
    let verdict = if holds { "holds" } else { "**differs**" };
    let wakeups = worst.map_or("- | - | -".to_owned(), |(theirs, ours, ratio)| {
        format!("{:.1} us | {:.1} us | {ratio:.2}", theirs / 1e3, ours / 1e3)
    });
    let theirs = median(kernel.iter().map(|run| run.migrations)).unwrap_or(0.0);
    let ours = simulated.migrations;
    format!("| {name} | {apart:.1} | {wakeups} | {verdict} | {theirs:.0} | {ours:.0} |")
}
