//! `cargo xtask fidelity`: how near the simulator is to the kernel on this machine.
//!
//! Each scenario of `scenarios/fidelity` runs on `linux` and on `sim` with as many CPUs. What this
//! machine's timers and idle CPUs cost is measured before, by two scenarios that are not among them,
//! and is the only thing that the simulator is told. Prints the tables of `docs/fidelity.md`: who had
//! how much and how soon, what of it the kernel's own selftests would assert, and what limits of task groups did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::figures::median;
use crate::limits::{self, Limited};
use crate::selftests::{self, CASES, Usage};
use crate::workspace::{self, Outcome, cargo, program};

/// How far apart CPU shares may be, in points of one CPU, and wake-up medians, as a ratio.
const SHARE_GOAL: f64 = 3.0;
const WAKEUP_GOAL: f64 = 2.0;

/// A median of fewer wake-ups says nothing.
const ENOUGH_WAKEUPS: u64 = 50;

/// A real-time task that sleeps where others compute, and where nobody does.
const ON_BUSY_CPUS: &str = r#"{"global": {"duration": 2}, "tasks": {"probe": {"policy": "SCHED_FIFO",
    "delay": 300, "timer": {"ref": "unique", "period": 2000}, "run": 100},
    "hog": {"instance": HOGS, "run": 1000}}}"#;
const ON_IDLE_CPUS: &str = r#"{"global": {"duration": 2}, "tasks": {"probe": {"policy": "SCHED_FIFO",
    "delay": 300, "timer": {"ref": "unique", "period": 2000}, "run": 100}}}"#;

/// How to compare.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How often each scenario runs on the kernel; the median counts
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub repeat: usize,
    /// Only these scenarios, by the names of their files
    #[arg(value_name = "SCENARIO")]
    pub only: Vec<String>,
}

/// What one run says.
#[derive(Debug, Default)]
struct Run {
    threads: BTreeMap<String, Figures>,
    usage: Usage,
    limited: Limited,
    /// Of all tasks.
    migrations: f64,
}

/// What one host says of the tasks of one thread object.
#[derive(Debug, Default)]
struct Figures {
    /// Percent of one CPU, of each instance, the largest first.
    shares: Vec<f64>,
    /// Medians of the instances that woke up often enough, in nanoseconds.
    wakeups: Vec<f64>,
}

/// What `machine.costs` of a scenario has to say of this machine, by the median of so many runs of
/// the release build.
pub(crate) fn costs(repeat: usize) -> Outcome<String> {
    Rig::new()?.costs(repeat)
}

struct Rig {
    runyard: PathBuf,
    folder: PathBuf,
    cpus: usize,
}

/// Runs everything that is wanted and prints the tables.
pub fn run(options: &Options) -> Outcome {
    let folder = workspace::root().join("scenarios/fidelity");
    let there = |name: &&String| folder.join(format!("{name}.json")).is_file();
    if let Some(name) = options.only.iter().find(|name| !there(name)) {
        return Err(format!("{} has no {name}.json", folder.display()).into());
    }
    workspace::run(cargo().args(["build", "--release", "--quiet"]))?;
    let rig = Rig::new()?;
    let costs = rig.costs(options.repeat)?;
    println!("{} CPUs, simulated with {costs}\n", rig.cpus);
    println!(
        "| scenario | CPU shares apart, points | wake-up p50: kernel | simulated | ratio | | \
         migrations: kernel | simulated |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut scenarios: Vec<_> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
    scenarios.sort();
    let (mut selftests, mut limited) = (Vec::new(), Vec::new());
    for scenario in &scenarios {
        let name = scenario.file_stem().ok_or("a scenario has a name")?.to_string_lossy();
        if !options.only.is_empty() && !options.only.iter().any(|only| *only == name) {
            continue;
        }
        let (kernel, simulated) = rig.both(scenario, &costs, options.repeat)?;
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

/// The median of each usage over runs that all have it.
fn middle(runs: &[Run]) -> Usage {
    let names = runs.first().into_iter().flat_map(|run| run.usage.keys());
    let of = |name| runs.iter().map(|run| run.usage.get(name).copied()).collect::<Option<Vec<_>>>();
    names.filter_map(|name| Some((name.clone(), median(of(name)?)?))).collect()
}

impl Rig {
    /// Of the release build, which is there.
    fn new() -> Outcome<Rig> {
        let rig = Rig {
            runyard: workspace::target("release")?.join("runyard"),
            folder: workspace::target("fidelity")?,
            cpus: std::thread::available_parallelism()?.get(),
        };
        std::fs::create_dir_all(&rig.folder)?;
        Ok(rig)
    }

    /// What a timer's wake-up takes here on a busy CPU beyond what the simulator's other costs make
    /// of it, and what it takes an idle CPU more.
    fn costs(&self, repeat: usize) -> Outcome<String> {
        let hogs = ON_BUSY_CPUS.replace("HOGS", &self.cpus.to_string());
        let busy = self.probe("linux", &hogs, repeat)?;
        let idle = self.probe("linux", ON_IDLE_CPUS, repeat)?;
        let simulated = self.probe("sim", &self.on_machine(&hogs, "{}"), 1)?;
        let latency = (busy - simulated).max(0.0);
        let exit = (idle - busy).max(0.0);
        Ok(format!(r#"{{"timer_latency_ns": {latency:.0}, "idle_exit_ns": {exit:.0}}}"#))
    }

    /// The median of the probe's wake-up latency.
    fn probe(&self, host: &str, text: &str, repeat: usize) -> Outcome<f64> {
        let file = self.folder.join("probe.json");
        std::fs::write(&file, text)?;
        let mut medians = Vec::new();
        for _ in 0..repeat {
            let run = self.run(host, &file)?;
            let wakeups = run.threads["probe"].wakeups.iter().copied();
            medians.push(median(wakeups).ok_or("the probe did not wake up")?);
        }
        median(medians).ok_or_else(|| "nothing was repeated".into())
    }

    /// A scenario on a simulated machine with as many CPUs as this one and such `costs`.
    fn on_machine(&self, scenario: &str, costs: &str) -> String {
        let machine = format!("{{\"machine\": {{\"cpus\": {}, \"costs\": {costs}}},", self.cpus);
        scenario.replacen('{', &machine, 1)
    }

    /// What the kernel makes of a scenario, several times, and the simulator.
    fn both(&self, scenario: &Path, costs: &str, repeat: usize) -> Outcome<(Vec<Run>, Run)> {
        let text = std::fs::read_to_string(scenario)?;
        let copy = self.folder.join("scenario.json");
        std::fs::write(&copy, self.on_machine(&text, costs))?;
        let simulated = self.run("sim", &copy)?;
        let kernel = (0..repeat).map(|_| self.run("linux", scenario));
        Ok((kernel.collect::<Outcome<_>>()?, simulated))
    }

    /// What a run says of each thread object, and of each task group that there was.
    fn run(&self, host: &str, scenario: &Path) -> Outcome<Run> {
        let mut command = program(&self.runyard);
        let output = workspace::output(command.args([host, "--json"]).arg(scenario))?;
        let report: Value = serde_json::from_slice(&output.stdout)?;
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

/// A row of the table: what is furthest apart.
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
            let ratio = (ours / theirs).max(theirs / ours);
            if worst.is_none_or(|(_, _, worst)| ratio > worst) {
                worst = Some((theirs, ours, ratio));
            }
        }
    }
    let holds = apart <= SHARE_GOAL && worst.is_none_or(|(.., ratio)| ratio <= WAKEUP_GOAL);
    let verdict = if holds { "holds" } else { "**differs**" };
    let wakeups = worst.map_or("- | - | -".to_owned(), |(theirs, ours, ratio)| {
        format!("{:.1} us | {:.1} us | {ratio:.2}", theirs / 1e3, ours / 1e3)
    });
    let theirs = median(kernel.iter().map(|run| run.migrations)).unwrap_or(0.0);
    let ours = simulated.migrations;
    format!("| {name} | {apart:.1} | {wakeups} | {verdict} | {theirs:.0} | {ours:.0} |")
}
