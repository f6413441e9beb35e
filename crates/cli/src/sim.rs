//! `runyard sim`: a scenario in virtual time.

use crate::Failure;
use crate::options::HostOptions;
use crate::record::Recorder;
use crate::{output, page};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runyard_engine::features::Feature;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::html::{self, Run};
use runyard_report::{Checks, GroupInfo, Report, RunInfo, Stretches, TaskInfo, Violation, render};
use runyard_sim::{Options, Outcome, Sim};
use runyard_workload::Scenario;
use std::io::Write;
use std::time::{Duration, Instant};

/// The arguments of `runyard sim`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
    /// Verify the invariants after every event.
    #[arg(long)]
    check: bool,
}

/// How many events are simulated between two looks at the clock on the wall.
const EVENTS_BETWEEN_LOOKS: u32 = 1 << 14;

/// A run that is over sooner than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let parsed = arguments.host.read()?;
    let scenario = &parsed.scenario;
    arguments.host.page.prepare()?;
    let (seed, check) = (arguments.host.seed, arguments.check);
    let log = arguments.host.log.as_ref();
    let options = Options { seed, check, log: log.is_some(), ..Options::default() };
    let kept = arguments.host.trace.prepare()?;
    let started = Instant::now();
    let mut recorder = Recorder::new(arguments.check, kept);
    recorder.accounts = page::collector(&arguments.host);
    let outcome = simulate(scenario, options, &mut recorder)?;
    let wall = Nanos(started.elapsed().as_nanos() as u64);
    if let Some(picture) =
        recorder.picture(&|task: TaskId| outcome.tasks[task.index()].name.clone())
    {
        output::say(picture);
    }
    if let Some(log) = log {
        let names = outcome.tasks.iter().map(|task| task.name.clone());
        log.write(scenario, names, recorder.rows)?;
    }
    let end = outcome.end;
    let totals = recorder.accounts.finish(end);
    let broken = !outcome.violations.is_empty();
    let mut info = info(scenario, outcome);
    (info.scenario, info.seed, info.wall) = (arguments.host.name(), arguments.host.seed, wall);
    if let Some(kept) = recorder.kept {
        arguments.host.trace.write(&info, &kept, end)?;
    }
    let stretches = Stretches::new(&totals, &info.tasks, info.cpus);
    let report = Report::new(info, &totals);
    let checks = if arguments.check { Checks::Done } else { Checks::NotDone };
    output::report(|out| match arguments.host.json {
        true => report.write_json(out),
        false => out.write_all(render(&report, checks).as_bytes()),
    })?;
    let run = Run { report: &report, stretches: stretches.as_ref() };
    arguments.host.page.write(|| html::page(run))?;
    if broken { Err(Failure::Broken) } else { Ok(()) }
}

fn simulate(
    scenario: &Scenario,
    options: Options,
    recorder: &mut Recorder,
) -> Result<Outcome, Failure> {
    let mut sim = Sim::new(scenario, options, recorder).map_err(Failure::input)?;
    let mut progress = Progress::new(scenario.duration);
    while (0..EVENTS_BETWEEN_LOOKS).all(|_| sim.step()) {
        progress.look(sim.now());
    }
    Ok(sim.outcome())
}

/// What the simulator knows besides the events.
fn info(scenario: &Scenario, outcome: Outcome) -> RunInfo {
    let on = |feature: &Feature| scenario.features.has(*feature);
    let group = |group: &runyard_workload::scenario::GroupSpec| GroupInfo {
        path: group.path.clone(),
        parent: (group.path != "/").then_some(group.parent),
    };
    let tasks = outcome.tasks.into_iter().enumerate().map(|(id, task)| TaskInfo {
        id: TaskId(id as u32),
        name: task.name,
        policy: task.policy,
        latency_nice: 0,
        group: task.group,
    });
    let violations = outcome.violations.into_iter().map(|violation| Violation {
        invariant: violation.invariant.to_owned(),
        at: violation.at,
        what: violation.what,
    });
    RunInfo {
        host: "sim".to_owned(),
        features: Feature::ALL.iter().filter(|f| on(f)).map(|f| f.name().to_owned()).collect(),
        cpus: scenario.machine.topology.cpus(),
        tasks: tasks.collect(),
        groups: scenario.groups.iter().map(group).collect(),
        violations: violations.collect(),
        ..RunInfo::default()
    }
}

/// A bar on standard error for runs that take long, if that is a terminal.
struct Progress {
    duration: Option<Nanos>,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new(duration: Option<Nanos>) -> Progress {
        Progress { duration, started: Instant::now(), bar: None }
    }

    fn look(&mut self, now: Time) {
        if self.bar.is_none() && self.started.elapsed() > PATIENCE {
            self.bar = Some(Progress::bar(self.duration));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(now.0 / 1_000_000);
        }
    }

    fn bar(duration: Option<Nanos>) -> ProgressBar {
        let millis = duration.map(|duration| duration.0 / 1_000_000);
        let bar = ProgressBar::with_draw_target(millis, ProgressDrawTarget::stderr());
        let style = match millis {
            Some(_) => "{wide_bar} {pos} of {len} ms simulated, {eta} left",
            None => "{spinner} {pos} ms simulated in {elapsed}",
        };
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        bar
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
