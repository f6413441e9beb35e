//! `runyard sim`: runs a scenario in virtual time.

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::log::Log;
use crate::options::HostOptions;
use crate::outputs::{Ended, Outputs};
use crate::progress::SimProgress;
use crate::record::Recorder;
use crate::window::WindowOptions;
use clap::{Args, ValueEnum};
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_outcome::scenario::{explained, names, parents};
use runyard_outcome::stderr::say;
use runyard_report::{ChainReport, Chains, Checks, RunInfo, Violation};
use runyard_sim::{Check, Options, Outcome, Sim};
use runyard_sweep::{Named, info, reaches};
use runyard_workload::Scenario;
use std::time::Instant;

/// The arguments of `runyard sim`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    window: WindowOptions,
    /// Verify the invariants: after every event those that it touched, all of them now and then and at the end; with
    /// `full`, all of them after every event
    #[arg(long, value_enum, value_name = "full", num_args = 0..=1, require_equals = true,
          default_missing_value = "touched", hide_possible_values = true)]
    check: Option<CheckOf>,
}

/// The invariants that are verified after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckOf {
    /// The invariants of everything that the event touched.
    Touched,
    /// All invariants.
    Full,
}

/// The number of simulated events between two checks of the wall clock and of a signal.
const EVENTS_BETWEEN_LOOKS: u32 = 1 << 10;

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let parsed = arguments.host.read_part(arguments.window)?;
    let scenario = &parsed.scenario;
    let host = &arguments.host;
    let check = match arguments.check {
        None => Check::No,
        Some(CheckOf::Touched) => Check::Touched,
        Some(CheckOf::Full) => Check::Full,
    };
    let is_checked = check != Check::No;
    let outputs = Outputs::open(host)?;
    let log = host.log.is_some();
    let options = Options { seed: host.seed, check, log, explain: true, ..Options::default() };
    let started = Instant::now();
    let accounts = outputs.collector(scenario.machine.topology);
    let explain = outputs.tell_all();
    let accounts = match explain {
        true => {
            let (threads, groups) = names(scenario);
            let causes = explained(scenario);
            accounts.with_causes(scenario.instances().count(), causes).with_series(threads, groups)
        }
        false => accounts,
    };
    let accounts = accounts.with_waits(explained(scenario)).with_pressure(&parents(scenario));
    let mut recorder = Recorder::new(scenario, accounts, outputs.kept(), is_checked);
    if explain {
        recorder.chains = recorder.chains.map(Chains::with_series);
    }
    let interrupt = Interrupt::expect();
    let outcome = simulate(scenario, options, (&mut recorder, &interrupt))?;
    let wall = Nanos::from(started.elapsed());
    if let Some(picture) = recorder.picture(&Named { scenario, outcome: &outcome }) {
        say(picture);
    }
    if let Err(what) = reaches(scenario, outcome.end) {
        if !interrupt.came() {
            return Err(Failure::Input(what));
        }
        say(what);
        return Ok(interrupt.done(Done::Well));
    }
    let Recorder { accounts, chains, kept, rows, .. } = recorder;
    let (end, totals) = (outcome.end, accounts.finish(outcome.end));
    let broken_waits = is_checked.then(|| Violation::of_waits(&totals, end)).flatten();
    let broken = !outcome.violations.is_empty() || broken_waits.is_some();
    interrupt.tell(outcome.end, &outcome.left.lines);
    let mut info = info(scenario, outcome, chains.as_ref());
    info.violations.extend(broken_waits);
    let info = RunInfo { scenario: host.name(), seed: host.seed, wall, ..info };
    info.chains.iter().filter_map(ChainReport::shortfall).for_each(say);
    let checks = if is_checked { Checks::Done } else { Checks::NotDone };
    let ended = Ended { info, totals, end, kernel: scenario.model.kernel, kept };
    let shown = outputs.finish(ended, checks, Log::new(scenario, rows));
    match shown {
        Err(Failure::Refused(what)) if broken => {
            say(what);
            Ok(interrupt.done(Done::Broken))
        }
        shown => shown.map(|()| interrupt.done(if broken { Done::Broken } else { Done::Well })),
    }
}

/// Runs a scenario, and returns its results.
fn simulate(
    scenario: &Scenario,
    options: Options,
    (recorder, interrupt): (&mut Recorder<'_>, &Interrupt),
) -> Result<Outcome, Failure> {
    let mut sim = Sim::new(scenario, options, recorder).map_err(Failure::input)?;
    let mut progress = SimProgress::new(scenario.duration);
    while !interrupt.came() && (0..EVENTS_BETWEEN_LOOKS).all(|_| sim.step()) {
        progress.look(sim.now());
    }
    Ok(sim.outcome())
}
