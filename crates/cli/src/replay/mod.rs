//! `runyard replay`: simulates a recording, and compares the replay with it, and perhaps a what-if with both.
//!
//! The replay runs on the recorded machine: its CPUs, its kernel, its tick. `--kernel`, `--set` and `--cpus` change the
//! machine or the tasks of the what-if only.

mod compared;
mod settings;
mod shown;

use crate::exit::Done;
use crate::import::Source;
use crate::interrupt::Interrupt;
use crate::names::KERNELS;
use crate::options;
use crate::output;
use crate::progress::SimProgress;
use crate::record::Recorder;
use clap::Args;
use compared::{Compared, Figures};
use runyard_engine::kernel::Model;
use runyard_engine::task::TaskId;
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::Collector;
use runyard_sim::{Options, Sim};
use runyard_workload::import::Imported;
use runyard_workload::setting::Setting;
use runyard_workload::{Overrides, Scenario};
use std::collections::BTreeMap;
use std::io::Write;

/// The number of simulated events between two checks of a signal.
const EVENTS_BETWEEN_LOOKS: u32 = 1 << 14;

/// The arguments of `runyard replay`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// The kernel of the recorded machine, if the recording does not name it.
    #[arg(long, value_name = "NAME", value_parser = KERNELS)]
    recorded_on: Option<Model>,
    /// A value of the recorded machine or of its tasks that the recording does not tell, as machine.packs_below=68.
    /// Repeatable.
    #[arg(long = "known", value_name = "PATH=VALUE")]
    known: Vec<Setting>,
    /// What if: the kernel whose rules the machine follows.
    #[arg(long, value_name = "NAME", value_parser = KERNELS)]
    kernel: Option<Model>,
    /// What if: a value of the imported scenario is replaced, as tasks.web-17.policy=SCHED_IDLE. The name
    /// "web-*" stands for all tasks whose names begin so. Repeatable.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    settings: Vec<Setting>,
    /// What if: the machine has this number of CPUs.
    #[arg(long, value_name = "N", value_parser = options::cpus)]
    cpus: Option<usize>,
    /// The seed of all random draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print only the comparison, as JSON on standard output.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let (imported, fewer) = imported(arguments)?;
    let model = imported.statistics.model.unwrap_or_else(|| {
        let assumed = Model::named(Model::NEWEST.kernel);
        say(format_args!(
            "warning: the recording does not name its kernel; the replay goes by {assumed}, and \
             --recorded-on sets another one"
        ));
        assumed
    });
    let interrupt = Interrupt::expect();
    let run = |imported: &Imported, over: Overrides| {
        let scenario = scenario(&arguments.source, imported, &over)?;
        let kernel = scenario.model.to_string();
        Ok((kernel, figures(&scenario, arguments.seed, &interrupt)?))
    };
    let (kernel, replayed) = run(&imported, Overrides { kernel: Some(model), ..over(arguments) })?;
    let what_if = match arguments.asks_what_if() {
        false => None,
        true => {
            let kernel = arguments.kernel.or(Some(model));
            let mut settings = arguments.known.clone();
            settings.extend(settings::expanded(&arguments.settings, &imported)?);
            let changed = Overrides { kernel, settings, cpus: arguments.cpus, ..over(arguments) };
            Some(run(fewer.as_ref().unwrap_or(&imported), changed)?)
        }
    };
    if interrupt.came() {
        return Ok(interrupt.done(Done::Well));
    }
    let compared = Compared::new(&imported, &replayed, what_if.as_ref().map(|(_, tasks)| tasks));
    let shown = shown::Shown {
        name: runyard_workload::name_of(&arguments.source.file),
        statistics: &imported.statistics,
        kernel: &kernel,
        other_kernel: what_if.as_ref().map(|(kernel, _)| kernel.as_str()),
        compared: &compared,
    };
    output::report(|out| match arguments.json {
        true => writeln!(out, "{:#}", shown.json()),
        false => out.write_all(shown.text().as_bytes()),
    })?;
    Ok(Done::Well)
}

/// Imports the recording, and again for a what-if on fewer CPUs: a thread of a CPU that is not there is bound to none.
fn imported(arguments: &Arguments) -> Result<(Imported, Option<Imported>), Failure> {
    let Arguments { source, recorded_on, cpus, .. } = arguments;
    let mut recording = source.read()?;
    let imported = source.import(&mut recording, *recorded_on, None)?;
    let fewer = cpus.filter(|&cpus| cpus < imported.statistics.cpus as usize);
    let fewer = fewer.map(|cpus| source.import(&mut recording, *recorded_on, Some(cpus as u32)));
    Ok((imported, fewer.transpose()?))
}

impl Arguments {
    fn asks_what_if(&self) -> bool {
        self.kernel.is_some() || self.cpus.is_some() || !self.settings.is_empty()
    }
}

/// The replacements for every scenario that an import makes.
fn over(arguments: &Arguments) -> Overrides {
    let settings = arguments.known.clone();
    Overrides { deadline: arguments.source.deadline(), settings, ..Overrides::default() }
}

fn scenario(source: &Source, imported: &Imported, over: &Overrides) -> Result<Scenario, Failure> {
    let name = format!("{} (imported)", source.file);
    let parsed =
        runyard_workload::parse(&name, &imported.scenario, over).map_err(Failure::input)?;
    for warning in &parsed.warnings {
        say(format_args!("warning: {warning}"));
    }
    Ok(parsed.scenario)
}

/// Simulates a scenario, and returns the figures of its tasks by the names of their threads.
fn figures(
    scenario: &Scenario,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<BTreeMap<String, Figures>, Failure> {
    let mut recorder = Recorder::new(scenario, Collector::default(), None, false);
    let outcome = {
        let options = Options { seed, ..Options::default() };
        let mut sim = Sim::new(scenario, options, &mut recorder).map_err(Failure::input)?;
        let mut progress = SimProgress::new(scenario.duration);
        while !interrupt.came() && (0..EVENTS_BETWEEN_LOOKS).all(|_| sim.step()) {
            progress.look(sim.now());
        }
        sim.outcome()
    };
    let totals = recorder.accounts.finish(outcome.end);
    let mut figures: BTreeMap<String, Figures> = BTreeMap::new();
    for (id, task) in outcome.tasks.into_iter().enumerate() {
        if let Some(did) = totals.task(TaskId(id as u64)) {
            figures.entry(task.thread).or_default().add(&Figures {
                runtime: did.runtime,
                wait: did.wait,
                wakeups: did.wakeups,
                switches: did.switches,
                migrations: did.migrations,
                latencies: did.wakeup_latency.clone(),
            });
        }
    }
    Ok(figures)
}
