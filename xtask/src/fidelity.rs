//! `cargo xtask fidelity`: how near the simulator is to the kernel on this machine.
//!
//! Each scenario of `scenarios/fidelity` runs on `linux` and on `sim` with as many CPUs. What this
//! machine's timers and idle CPUs cost is measured before, by two scenarios that are not among them,
//! and is the only thing that the simulator is told. Prints the table of `docs/fidelity.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::figures::median;
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

/// Runs everything and prints the table.
pub fn run(options: &Options) -> Outcome {
    workspace::run(cargo().args(["build", "--release", "--quiet"]))?;
    let rig = Rig::new()?;
    let costs = rig.costs(options.repeat)?;
    println!("{} CPUs, simulated with {costs}\n", rig.cpus);
    println!("| scenario | CPU shares apart, points | wake-up p50: kernel | simulated | ratio | |");
    println!("|---|---|---|---|---|---|");
    let mut scenarios: Vec<_> = std::fs::read_dir(workspace::root().join("scenarios/fidelity"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Outcome<_>>()?;
    scenarios.sort();
    for scenario in &scenarios {
        println!("{}", rig.row(scenario, &costs, options.repeat)?);
    }
    Ok(())
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
            let figures = self.figures(host, &file)?;
            let wakeups = figures["probe"].wakeups.iter().copied();
            medians.push(median(wakeups).ok_or("the probe did not wake up")?);
        }
        median(medians).ok_or_else(|| "nothing was repeated".into())
    }

    /// A scenario on a simulated machine with as many CPUs as this one and such `costs`.
    fn on_machine(&self, scenario: &str, costs: &str) -> String {
        let machine = format!("{{\"machine\": {{\"cpus\": {}, \"costs\": {costs}}},", self.cpus);
        scenario.replacen('{', &machine, 1)
    }

    fn row(&self, scenario: &Path, costs: &str, repeat: usize) -> Outcome<String> {
        let text = std::fs::read_to_string(scenario)?;
        let copy = self.folder.join("scenario.json");
        std::fs::write(&copy, self.on_machine(&text, costs))?;
        let simulated = self.figures("sim", &copy)?;
        let mut kernel = Vec::new();
        for _ in 0..repeat {
            kernel.push(self.figures("linux", scenario)?);
        }
        let name = scenario.file_stem().ok_or("a scenario has a name")?.to_string_lossy();
        Ok(row(&name, &kernel, &simulated))
    }

    /// What a run says of each thread object.
    fn figures(&self, host: &str, scenario: &Path) -> Outcome<BTreeMap<String, Figures>> {
        let mut command = program(&self.runyard);
        let output = workspace::output(command.args([host, "--json"]).arg(scenario))?;
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let duration = report["duration_ns"].as_f64().ok_or("a run takes time")?;
        let mut all = BTreeMap::<String, Figures>::new();
        for task in report["tasks"].as_array().into_iter().flatten() {
            let thread = task["thread"].as_str().or(task["name"].as_str()).unwrap_or_default();
            let figures = all.entry(thread.to_owned()).or_default();
            figures.shares.push(task["runtime_ns"].as_f64().unwrap_or(0.0) / duration * 100.0);
            if task["wakeups"].as_u64() >= Some(ENOUGH_WAKEUPS) {
                figures.wakeups.extend(task["wakeup_latency"]["p50_ns"].as_f64());
            }
        }
        all.values_mut().for_each(|figures| figures.shares.sort_by(|a, b| b.total_cmp(a)));
        Ok(all)
    }
}

/// A row of the table: what is furthest apart.
fn row(
    name: &str,
    kernel: &[BTreeMap<String, Figures>],
    simulated: &BTreeMap<String, Figures>,
) -> String {
    let mut apart = 0.0_f64;
    let mut worst = None::<(f64, f64, f64)>;
    for (thread, ours) in simulated {
        for (at, share) in ours.shares.iter().enumerate() {
            let theirs = median(kernel.iter().map(|run| run[thread].shares[at]));
            apart = apart.max((share - theirs.unwrap_or(0.0)).abs());
        }
        let wakeup = |of: &Figures| median(of.wakeups.iter().copied());
        let theirs = median(kernel.iter().flat_map(|run| wakeup(&run[thread])));
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
    format!("| {name} | {apart:.1} | {wakeups} | {verdict} |")
}
