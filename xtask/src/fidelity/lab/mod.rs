//! `cargo xtask kernel-lab`: real kernels beside the simulator, without noise.
//!
//! Debian's kernels run in an emulator whose clock counts instructions. Each scenario runs there by
//! `runyard linux`, under the kernel's own trace, in several boots. The simulator has the name of that kernel, and the
//! costs that `runyard calibrate` measured in the same boot. Both traces are counted in the same way. A result is kept by
//! kernel, scenario and boot in `target/kernel-lab`, so a command that was stopped goes on. The design is in
//! `docs/design/laboratory.md`.

mod archive;
mod follow;
mod guest;
mod judge;
mod wakeup;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use clap::Args;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use runyard_engine::attr::Weight;
use runyard_engine::kernel::Kernel;
use runyard_engine::time::Nanos;
use runyard_workload::Overrides;
use runyard_workload::import::{Tally, tally};
use runyard_workload::scenario::{Preemption, TaskGroup};
use serde_json::{Value, json};

use self::archive::{Archive, Image};
use self::follow::Followed;
use self::guest::Parts;
use self::judge::{Measure, Run, Runs};
use self::wakeup::{Wakeup, wakeup};
use super::judge::Seen;
use super::{bootstrap, draw, verdict};
use crate::workspace::{self, Outcome, cargo, program};

/// The kinds of drawn tasks that are left out: a limit is another question, and 6.1 has no slices of tasks.
const LEFT_OUT: [&str; 2] = ["group with a limit", "slice"];

/// The version of what a guest does and records. Results of another version are not used.
const GUEST: u32 = 7;

/// The longest name of a thread, in bytes.
const COMM: usize = 15;

/// The part of a run that other threads may have, of the scenario's time.
const FOREIGN: f64 = 0.01;

/// The options of the laboratory.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Series, as 6.12, of which the newest kernel is taken, or releases, as 6.18.15
    #[arg(value_name = "KERNEL", default_values = ["6.1", "6.12", "6.18"])]
    pub kernels: Vec<String>,
    /// The number of random scenarios
    #[arg(long, default_value_t = 40, value_name = "N", conflicts_with = "scenario")]
    pub random: usize,
    /// The seed of the random scenarios; by default the hash of the last commit
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// These scenarios, in place of random ones; repeatable
    #[arg(long, value_name = "FILE")]
    pub scenario: Vec<PathBuf>,
    /// Random scenarios about limits, judged by throttled periods, wake-ups and waits
    #[arg(long, value_name = "KIND", value_parser = [draw::limit::KIND], conflicts_with = "scenario")]
    pub kind: Option<String>,
    /// The number of boots of each kernel
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub boots: u64,
    /// The length of a run, in seconds
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// The guest's CPU executes an instruction in two to this power nanoseconds
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(0..8))]
    pub shift: u32,
    /// The name of the simulated kernel, in place of the one nearest to the booted one
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Switch a feature of the simulator on, or off with NO_ before its name; repeatable
    #[arg(long, value_name = "[NO_]NAME")]
    pub feature: Vec<String>,
    /// Print each figure in which the simulator misses the first boot
    #[arg(long)]
    pub misses: bool,
    /// Follow the kernel's trace, and print the first N decisions of each kind at which the simulator parts
    #[arg(long, value_name = "N")]
    pub decisions: Option<usize>,
    /// Only fetch the emulator and the kernels
    #[arg(long)]
    pub fetch: bool,
    /// Only follow the trace of one boot each, which needs no calibration, and fail if more than PERCENT of the decisions
    /// differ
    #[arg(long, value_name = "PERCENT")]
    pub check: Option<f64>,
    /// The program that runs in the guest, in place of one built for it
    #[arg(long, value_name = "PATH")]
    pub command: Option<PathBuf>,
}

impl Options {
    /// What the scenarios are judged by.
    fn measures(&self) -> &'static [Measure] {
        if self.kind.is_some() { &Measure::OF_LIMITS } else { &Measure::ALL }
    }
}

/// A scenario of the laboratory.
#[derive(Clone)]
struct Scenario {
    name: String,
    text: String,
    /// The seed of its runs.
    seed: u64,
}

impl Scenario {
    /// Whether the results of this very scenario are there.
    fn is_done(&self, place: &Path) -> bool {
        let file = |kind: &str| place.join(format!("{}.{kind}", self.name));
        let text = fs::read_to_string(file("json"));
        file("report").exists()
            && file("trace").exists()
            && text.is_ok_and(|text| text == self.text)
    }

    /// The settings of a simulation on this machine. The groups weigh what they weigh in the guest, where `runyard linux` writes
    /// `cpu.weight`. It also makes a group for the root if there are others, which is one more level for each task.
    fn settings(&self, machine: &Value) -> Outcome<Vec<String>> {
        let parsed = runyard_workload::parse(&self.name, &self.text, &Overrides::default());
        let scenario = parsed.map_err(|error| format!("{error:?}"))?.scenario;
        let mut machine = machine.clone();
        if scenario.groups.len() > 1 {
            machine["costs"][FAIR] = (cost(&machine, FAIR) + cost(&machine, LEVEL)).0.into();
        }
        let groups = scenario.groups.iter().skip(1).filter(|group| !group.spec.idle);
        let setting = |group: &TaskGroup| {
            let weight = Weight::of_cpu_weight(group.spec.weight.nearest_cpu_weight());
            format!("groups.{}.weight={weight}", group.path)
        };
        Ok(groups.map(setting).chain([on(&machine)]).collect())
    }
}

/// Boots each kernel, runs the scenarios there and simulated, and prints how near they are.
pub fn run(options: &Options) -> Outcome {
    let folder = workspace::target("kernel-lab")?;
    let archive = Archive::open(&folder)?;
    let tools = archive.tools()?;
    let images = options.kernels.iter().map(|series| archive.image(series));
    let images = images.collect::<Outcome<Vec<_>>>()?;
    if options.fetch {
        return Ok(());
    }
    let seed = options.seed.map_or_else(seed_of_commit, Ok)?;
    let scenarios = scenarios(options, seed)?;
    let lab = Lab { options, folder, tools, runyard: command(options)?, scenarios };
    lab.boot_all(&images)?;
    if let Some(most) = options.check {
        return images.iter().try_for_each(|image| lab.check(image, most));
    }
    let mut all = Vec::new();
    for image in &images {
        let machines = lab.machines(image)?;
        let runs = lab.runs(image, &machines)?;
        println!("{}", lab.about(image, &machines[0])?);
        println!("reports and traces: {}", lab.place(image, 1).display());
        print!("\n{}", table(options.measures(), &runs));
        if let Some(most) = options.decisions {
            println!("\n{}", lab.followed(image)?.tell(most));
        }
        if options.misses {
            let missed = |runs: &Runs| runs.misses(options.measures());
            runs.iter().flat_map(missed).for_each(|miss| println!("{miss}"));
        }
        println!();
        all.extend(runs);
    }
    println!("all {} kernels, seed {seed}", images.len());
    for &measure in options.measures() {
        let tallies: Vec<_> = all.iter().map(|runs| runs.tally(measure)).collect();
        if let Some(bound) = bootstrap::lower_95(&tallies, seed) {
            println!(
                "  {:12} simulated less itself: at least {bound:.1} points, with 95 %",
                measure.name()
            );
        }
    }
    Ok(())
}

/// The program that runs in the guest.
fn command(options: &Options) -> Outcome<PathBuf> {
    if let Some(command) = &options.command {
        return Ok(command.clone());
    }
    workspace::run(cargo().args(["build", "--release", "--quiet", "--package", "runyard-cli"]))?;
    Ok(workspace::target("release")?.join("runyard"))
}

/// The first 64 bits of the last commit's hash.
fn seed_of_commit() -> Outcome<u64> {
    let said = workspace::output(program("git").args(["rev-parse", "HEAD"]))?.stdout;
    let hash = String::from_utf8(said)?;
    Ok(u64::from_str_radix(hash.get(..16).ok_or("a hash has 40 digits")?, 16)?)
}

fn scenarios(options: &Options, seed: u64) -> Outcome<Vec<Scenario>> {
    if options.scenario.is_empty() {
        let limits = options.kind.is_some();
        let draw = |number| match limits {
            true => draw::limit::scenario(seed, number, 1),
            false => draw::scenario(draw::Taste::Mixed, seed, number, 1),
        };
        let wanted = (0..).map(|number| (number, draw(number))).filter(|(_, drawn)| {
            let kept = |task: &draw::Task| !task.kinds.iter().any(|kind| LEFT_OUT.contains(kind));
            limits || drawn.tasks.iter().all(kept)
        });
        let kind = if limits { "limit-" } else { "" };
        let scenario = |(number, drawn): (u64, draw::Drawn)| Scenario {
            name: format!("{kind}{seed:x}-{number}"),
            text: drawn.text,
            seed: seed.wrapping_add(number),
        };
        return Ok(wanted.map(scenario).take(options.random).collect());
    }
    let scenario = |path: &PathBuf| {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
        Ok(Scenario { name: name.unwrap_or_default(), text, seed: options.seed.unwrap_or(1) })
    };
    options.scenario.iter().map(scenario).collect()
}

struct Lab<'a> {
    options: &'a Options,
    folder: PathBuf,
    tools: PathBuf,
    runyard: PathBuf,
    scenarios: Vec<Scenario>,
}

impl Lab<'_> {
    /// The folder of one boot's results.
    fn place(&self, image: &Image, boot: u64) -> PathBuf {
        let Options { shift, seconds, .. } = self.options;
        let run = format!("guest-{GUEST}-shift-{shift}-seconds-{seconds}");
        self.folder.join("results").join(&image.release).join(run).join(format!("boot-{boot}"))
    }

    /// Runs what is missing, with as many emulators at once as there are CPUs.
    fn boot_all(&self, images: &[Image]) -> Outcome {
        let last = if self.options.check.is_some() { 1 } else { self.options.boots };
        let boots: Vec<_> =
            images.iter().flat_map(|image| (1..=last).map(move |boot| (image, boot))).collect();
        let (next, failed) = (Mutex::new(boots.into_iter()), Mutex::new(None));
        let work = || {
            while let Some((image, boot)) = { next.lock().expect("no panic holds it").next() } {
                if let Err(error) = self.boot(image, boot) {
                    *failed.lock().expect("no panic holds it") =
                        Some(format!("{}, boot {boot}: {error}", image.release));
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        failed.into_inner()?.map_or(Ok(()), |error: String| Err(error.into()))
    }

    fn boot(&self, image: &Image, boot: u64) -> Outcome {
        let place = self.place(image, boot);
        fs::create_dir_all(&place)?;
        // A guest that was stopped has sent some of its results.
        keep(&place)?;
        let missing: Vec<_> = self.scenarios.iter().filter(|it| !it.is_done(&place)).collect();
        let calibrates = self.options.check.is_none() && !place.join("calibrate.report").exists();
        if missing.is_empty() && !calibrates {
            return Ok(());
        }
        let mut list = String::new();
        if calibrates {
            list.push_str("calibrate\n");
        }
        for Scenario { name, text, seed } in &missing {
            fs::write(place.join(format!("{name}.json")), text)?;
            writeln!(list, "{name} --cpus 1 --duration {}s --seed {seed}", self.options.seconds)?;
        }
        let files: Vec<_> = missing.iter().map(|it| (it.name.clone(), it.text.clone())).collect();
        let parts = Parts {
            tools: &self.tools,
            vmlinuz: &image.vmlinuz,
            drivers: &image.drivers,
            runyard: &self.runyard,
            shift: self.options.shift,
        };
        parts.boot(&place, &files, &list)?;
        keep(&place)?;
        match missing.iter().find(|it| !it.is_done(&place)) {
            None => Ok(()),
            Some(Scenario { name, .. }) => {
                let said =
                    fs::read_to_string(place.join(format!("{name}.failed"))).unwrap_or_default();
                Err(format!("{name} has no result; the console is in {}\n{said}", place.display())
                    .into())
            }
        }
    }

    /// The machine of each boot.
    fn machines(&self, image: &Image) -> Outcome<Vec<Value>> {
        let machine = |boot| guest_machine(image, &self.place(image, boot));
        (1..=self.options.boots).map(machine).collect()
    }

    fn runs(&self, image: &Image, machines: &[Value]) -> Outcome<Vec<Runs>> {
        self.scenarios.iter().map(|scenario| self.runs_of(image, scenario, machines)).collect()
    }

    fn runs_of(&self, image: &Image, scenario: &Scenario, machines: &[Value]) -> Outcome<Runs> {
        let (mut kernel, mut simulated) = (Vec::new(), Vec::new());
        let (seconds, span) = (self.options.seconds as f64, Nanos::from_secs(self.options.seconds));
        for (boot, machine) in (1..).zip(machines) {
            let place = self.place(image, boot);
            let report = json_of(&place.join(format!("{}.report", scenario.name)))?;
            let tasks = report["tasks"].as_array().ok_or("a report has tasks")?;
            let names: Vec<_> =
                tasks.iter().filter_map(|it| it["name"].as_str()).map(comm).collect();
            let is_own = |name: &str| names.iter().any(|own| *own == name);
            let ours = tally(&trace_of(&place, &scenario.name)?, span, is_own);
            let foreign = ours.foreign.0 as f64 / (seconds * 1e9);
            if foreign > FOREIGN {
                eprintln!(
                    "note: {}, boot {boot}: other threads had {:.1} %",
                    scenario.name,
                    foreign * 100.0
                );
            }
            kernel.push(Run { tally: ours, seen: Seen::read(&report)? });
            let (report, trace) = self.simulate(scenario, &place, machine)?;
            let tally = switched(tally(&trace, span, is_own), machine);
            simulated.push(Run { tally, seen: Seen::read(&report)? });
        }
        Ok(Runs { name: scenario.name.clone(), seconds, kernel, simulated })
    }

    /// Whether at most this part of the decisions differs, in per cent.
    fn check(&self, image: &Image, most: f64) -> Outcome {
        let followed = self.followed(image)?;
        let otherwise = followed.otherwise().ok_or("the kernel's trace has no decision")?;
        println!("{}: {}", image.release, followed.tell(0));
        if otherwise > most {
            return Err(format!("{otherwise:.1} % of the decisions differ, not {most} %").into());
        }
        Ok(())
    }

    /// Follows the kernel's traces of the first boot.
    fn followed(&self, image: &Image) -> Outcome<Followed> {
        let place = self.place(image, 1);
        let mut machine = json!({});
        describe(image, &place, &mut machine)?;
        self.options.kernel.iter().for_each(|name| machine["kernel"] = name.clone().into());
        let features = self.options.feature.iter().map(|name| name.parse());
        let features = features.collect::<Result<Vec<_>, _>>()?;
        let mut all = Followed::default();
        let span = Nanos::from_secs(self.options.seconds);
        for scenario in &self.scenarios {
            let settings = scenario.settings(&machine)?;
            let settings = settings.iter().map(|it| it.parse()).collect::<Result<Vec<_>, _>>()?;
            let features = features.clone();
            let overrides = Overrides { features, settings, ..Overrides::default() };
            let parsed = runyard_workload::parse(&scenario.name, &scenario.text, &overrides);
            let parsed = parsed.map_err(|error| format!("{error:?}"))?;
            let trace = trace_of(&place, &scenario.name)?;
            let followed = follow::follow(&parsed.scenario, &trace, span, self.options.shift);
            all.add(&scenario.name, followed);
        }
        Ok(all)
    }

    /// Simulates a scenario on this machine, and returns the report and the trace.
    fn simulate(
        &self,
        scenario: &Scenario,
        place: &Path,
        machine: &Value,
    ) -> Outcome<(Value, String)> {
        let input = place.join(format!("{}.json", scenario.name));
        let trace = place.join("simulated.txt");
        let mut sim = program(&self.runyard);
        sim.args(["sim", "--json", &format!("--duration={}s", self.options.seconds)]);
        sim.arg(format!("--seed={}", scenario.seed)).arg("--trace").arg(&trace);
        for setting in scenario.settings(machine)? {
            sim.arg("--set").arg(setting);
        }
        sim.args(self.options.kernel.iter().map(|name| format!("--kernel={name}")));
        sim.args(self.options.feature.iter().map(|name| format!("--feature={name}")));
        let output = sim.arg(&input).output()?;
        if !output.status.success() {
            return Err(
                format!("{}: {}", scenario.name, String::from_utf8_lossy(&output.stderr)).into()
            );
        }
        Ok((serde_json::from_slice(&output.stdout)?, fs::read_to_string(trace)?))
    }

    /// The kernel, as it is kept with each figure.
    fn about(&self, image: &Image, machine: &Value) -> Outcome<Value> {
        let place = self.place(image, 1);
        let facts = fs::read_to_string(place.join("-.facts"))?;
        Ok(json!({
            "image": image.about(),
            "facts": facts.lines().collect::<Vec<_>>(),
            "machine": machine,
            "shift": self.options.shift,
        }))
    }
}

/// Writes each frame that a guest has sent into a file of its own. A trace is packed.
fn keep(place: &Path) -> Outcome {
    let sent = place.join("sent");
    if sent.exists() {
        for frame in guest::frames(&sent)? {
            let file = File::create(place.join(format!("{}.{}", frame.name, frame.kind)))?;
            match &*frame.kind {
                "trace" => {
                    let mut packed = GzEncoder::new(file, Compression::fast());
                    packed.write_all(&frame.bytes)?;
                    packed.finish()?;
                }
                _ => (&file).write_all(&frame.bytes)?,
            }
        }
        fs::remove_file(sent)?;
    }
    Ok(())
}

/// Keys of a machine's costs.
const SWITCH: &str = "context_switch_ns";
const FAIR: &str = "wakeup_fair_ns";
const LEVEL: &str = "wakeup_level_ns";

/// The machine of a guest's calibration, as [`describe`] corrects it. A wake-up and the switch that follows take what the
/// trace of the same calibration says, from `sched_waking` to `sched_switch`. What a wake-up takes of the waker beyond that is
/// its way into the kernel, before the wake-up. A program cannot tell the two apart.
fn guest_machine(image: &Image, place: &Path) -> Outcome<Value> {
    let mut machine = json_of(&place.join("calibrate.report"))?;
    let Wakeup { latency, call, fair, level } = wakeup(&trace_of(place, "calibrate")?)?;
    let wakeup = latency.0.saturating_sub(cost(&machine, SWITCH).0);
    let costs = &mut machine["costs"];
    costs["wakeup_ns"] = wakeup.into();
    costs["wake_call_ns"] = call.0.saturating_sub(wakeup).into();
    (costs[FAIR], costs[LEVEL]) = (fair.0.into(), level.0.into());
    describe(image, place, &mut machine)?;
    Ok(machine)
}

/// Adds to a machine what the configuration and the guest itself say for certain.
fn describe(image: &Image, place: &Path, machine: &mut Value) -> Outcome {
    let facts = fs::read_to_string(place.join("-.facts"))?;
    machine["cpus"] = 1.into();
    let kernel = Kernel::nearest(&image.release).ok_or("no rules of such a kernel are known")?;
    machine["kernel"] = kernel.name().into();
    if let Ok(hertz) = image.option("HZ").parse::<u64>() {
        machine["tick_hz"] = hertz.into();
    }
    machine["rt_group_sched"] = (image.option("RT_GROUP_SCHED") == "y").into();
    let preemption = facts.lines().find_map(Preemption::of_debugfs);
    if let Some(model) = preemption.or_else(|| built_in(|option| image.option(option) == "y")) {
        machine["preemption"] = model.name().into();
    }
    Ok(())
}

fn cost(machine: &Value, key: &str) -> Nanos {
    Nanos(machine["costs"][key].as_u64().unwrap_or(0))
}

/// The figures of a simulated run with its latencies as the kernel counts them. The kernel records a switch after it has
/// chosen the next task, near the switch's end; the simulator records it at the begin.
fn switched(mut tally: Tally, machine: &Value) -> Tally {
    let cost = cost(machine, SWITCH);
    for ran in tally.tasks.values_mut() {
        ran.latencies.iter_mut().for_each(|latency| *latency += cost);
        ran.waits += Nanos(cost.0 * ran.latencies.len() as u64);
    }
    tally
}

/// The preemption model of a kernel that cannot change it (without `CONFIG_PREEMPT_DYNAMIC`).
fn built_in(has: impl Fn(&str) -> bool) -> Option<Preemption> {
    [
        ("PREEMPT_NONE", Preemption::None),
        ("PREEMPT_VOLUNTARY", Preemption::Voluntary),
        ("PREEMPT_LAZY", Preemption::Lazy),
        ("PREEMPT", Preemption::Full),
    ]
    .into_iter()
    .find_map(|(option, model)| has(option).then_some(model))
}

/// The setting of a scenario that gives it this machine.
fn on(machine: &Value) -> String {
    format!("machine={machine}")
}

/// The kernel's trace of a scenario, or of the calibration.
fn trace_of(place: &Path, name: &str) -> Outcome<String> {
    let mut text = String::new();
    let packed = File::open(place.join(format!("{name}.trace")))?;
    GzDecoder::new(packed).read_to_string(&mut text)?;
    is_whole(&text)?;
    Ok(text)
}

/// Whether the ring of the kernel's trace was large enough.
fn is_whole(trace: &str) -> Outcome {
    let line = trace.lines().find(|line| line.contains("entries-in-buffer/entries-written:"));
    let counts =
        line.and_then(|line| line.split(':').nth(1)?.split_whitespace().next()?.split_once('/'));
    match counts {
        Some((kept, written)) if kept != written => {
            Err(format!("of {written} events, {kept} are in the trace").into())
        }
        _ => Ok(()),
    }
}

/// The name of a thread, which the kernel cuts.
fn comm(name: &str) -> String {
    String::from_utf8_lossy(&name.as_bytes()[..name.len().min(COMM)]).into_owned()
}

fn json_of(path: &Path) -> Outcome<Value> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// The part of the entries within each measure's bound, of the kernel beside itself and of the simulator beside it.
fn table(measures: &[Measure], runs: &[Runs]) -> String {
    let mut text =
        "| measure | itself, % | simulated, % | entries |\n|---|---|---|---|\n".to_owned();
    for &measure in measures {
        let mut all = verdict::Tally::default();
        runs.iter().for_each(|runs| all.add(runs.tally(measure)));
        let part = |(some, of): (u64, u64)| match of {
            0 => "-".to_owned(),
            _ => format!("{:.1}", some as f64 * 100.0 / of as f64),
        };
        let cells = [
            measure.name().to_owned(),
            part(all.itself),
            part(all.simulated),
            all.simulated.1.to_string(),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
