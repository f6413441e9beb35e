//! Settings, and experiments of them in virtual time: a scenario with the values that `--set` would give it, what is
//! watched, and the rows about the runs. A setting also runs on this machine's CPUs.
//!
//! An experiment is a list of parts. A part has a few settings, mostly one without the mechanism and one with it, and the
//! rows about them. [`Simulated::run`] runs all settings of all parts with all their seeds, on all CPUs, and judges the rows.

use crate::claims::{Claim, Reproduced};
use crate::lap::Round;
use crate::progress::Progress;
use crate::quiet::Tried;
use crate::rows::{self, Row, Runs};
use crate::took::{Requests, Took};
use crate::usage::{SECOND, Usage, Used, Window};
use rayon::prelude::*;
use runyard_engine::event::{Event, What};
use runyard_engine::features::{Feature, Switched};
use runyard_engine::kernel::{self, Kernel};
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::clock::process_cpu_time;
use runyard_hosts::live::{self, EventSink};
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_outcome::Failure;
use runyard_sim::{Check, Options, Sim};
use runyard_workload::setting::Setting as Value;
use runyard_workload::{Overrides, Scenario, parse};
use std::fmt::{self, Display};
use std::time::{Duration, Instant};

/// A scenario, and how it is run.
#[derive(Clone)]
pub(crate) struct Setting {
    name: &'static str,
    text: String,
    over: Overrides,
    edits: Vec<Edit>,
    seeds: Vec<u64>,
    /// The counted stretch of a run, in such periods.
    window: (Window, Nanos),
    watch: Arc<dyn Fn(&Scenario) -> Watch + Send + Sync>,
    check: Check,
}

/// What `--set` cannot say.
type Edit = Arc<dyn Fn(&mut Scenario) + Send + Sync>;

/// What is watched in a run beside the use of the CPUs, which it sees as it is at the event.
pub(crate) type Watch = Box<dyn FnMut(&Event, &Used, &mut Seen) + Send>;

/// What one run shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The length of the run.
    pub(crate) time: Nanos,
    pub(crate) used: Used,
    /// The times of what is watched.
    pub(crate) took: Took,
    /// The rounds of rt-migrate.
    pub(crate) rounds: Vec<Round>,
    pub(crate) wakeups: u64,
    /// The number of times that a CPU became overloaded with real-time tasks, or no longer was.
    pub(crate) overload_changes: u64,
    /// The number of violated invariants, if they were checked.
    pub(crate) violations: usize,
    /// Where tasks note their steps: the number of tasks or messages, and of those that ran or arrived.
    pub(crate) all: u64,
    pub(crate) reached: u64,
    /// On this machine's CPUs: the CPU time of each task by the clocks of the threads, and the fraction of its CPUs that
    /// this process used.
    pub(crate) worked: Vec<Nanos>,
    pub(crate) given: f64,
}

impl Setting {
    /// The scenario of this file, as it is: one run of seed 1.
    pub(crate) fn of(name: &'static str, text: &str) -> Setting {
        Setting {
            name,
            text: text.to_owned(),
            over: Overrides::default(),
            edits: Vec::new(),
            seeds: vec![1],
            window: (Window::ALL, SECOND),
            watch: Arc::new(|_| Box::new(|_, _, _| ())),
            check: Check::No,
        }
    }

    /// The setting with another value at a place of the scenario, as `--set` has it.
    ///
    /// # Panics
    /// If this is no path, which would be a mistake in the experiment.
    pub(crate) fn set(mut self, path: &str, value: impl Display) -> Setting {
        self.over.settings.push(Value::new(path, &value.to_string()).expect("it is a path"));
        self
    }

    /// The setting on the kernel before this document's mechanism.
    pub(crate) fn before(mut self, document: kernel::Experiment) -> Setting {
        self.over.kernel = Some(document.before());
        self
    }

    /// The setting without the document's mechanism and with it.
    pub(crate) fn pair(self, document: kernel::Experiment) -> Vec<Setting> {
        vec![self.clone().before(document), self]
    }

    /// The setting with a feature switched.
    pub(crate) fn feature(mut self, feature: Feature, on: bool) -> Setting {
        self.over.features.push(Switched { feature, on });
        self
    }

    /// The setting of another length.
    pub(crate) fn lasts(mut self, duration: Nanos) -> Setting {
        self.over.duration = Some(duration);
        self
    }

    /// The setting with a change that `--set` cannot say.
    pub(crate) fn edit(mut self, edit: impl Fn(&mut Scenario) + Send + Sync + 'static) -> Setting {
        self.edits.push(Arc::new(edit));
        self
    }

    /// The setting with these seeds, one run for each.
    pub(crate) fn seeds(self, seeds: impl IntoIterator<Item = u64>) -> Setting {
        Setting { seeds: seeds.into_iter().collect(), ..self }
    }

    /// The setting of which this stretch counts, in periods of this length.
    pub(crate) fn window(self, window: Window, period: Nanos) -> Setting {
        Setting { window: (window, period), ..self }
    }

    /// The setting with something watched.
    pub(crate) fn watch(
        self,
        watch: impl Fn(&Scenario) -> Watch + Send + Sync + 'static,
    ) -> Setting {
        Setting { watch: Arc::new(watch), ..self }
    }

    /// The setting with the requests of a task watched, or of so many tasks after it.
    pub(crate) fn requests(self, first: usize, tasks: usize, requests: Requests) -> Setting {
        self.watch(move |_| {
            let mut all = vec![requests.clone(); tasks];
            Box::new(move |event, _, seen| {
                if let What::Step { task, step, .. } = event.what
                    && let Some(nth) = task.index().checked_sub(first)
                    && let Some(requests) = all.get_mut(nth)
                {
                    requests.step(step as usize, event.at, &mut seen.took);
                }
            })
        })
    }

    /// The setting with its invariants checked.
    pub(crate) fn checked(self, check: bool) -> Setting {
        Setting { check: if check { Check::Full } else { Check::No }, ..self }
    }

    /// The scenario.
    ///
    /// # Errors
    /// If it is refused, which would be a mistake in the experiment.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        let mut scenario =
            parse(self.name, &self.text, &self.over).map_err(Failure::input)?.scenario;
        self.edits.iter().for_each(|edit| edit(&mut scenario));
        Ok(scenario)
    }

    /// Runs the scenario in virtual time with this seed.
    pub(crate) fn run(&self, seed: u64) -> Result<Seen, Failure> {
        let scenario = self.scenario()?;
        let mut watched = self.watched(&scenario);
        let options = Options { seed, check: self.check, ..Options::default() };
        let observer = |event: &Event| watched.event(event);
        let outcome = Sim::new(&scenario, options, observer).map_err(Failure::input)?.run();
        Ok(Seen {
            overload_changes: outcome.overload_changes,
            violations: outcome.violations.len(),
            ..watched.finish(outcome.end)
        })
    }

    /// Plays the scenario on this machine's CPUs, on the runtime.
    pub(crate) fn play(&self, seed: u64) -> Result<Seen, Failure> {
        let scenario = self.scenario()?;
        let cpus = scenario.machine.topology.cpus();
        let end = Time::ZERO + scenario.duration.unwrap_or_default();
        let watched = Arc::new(Mutex::new(self.watched(&scenario)));
        let play = || live::run(Plan::new(scenario, seed), cpus, watched.clone());
        let (over, given) = used_part(cpus, play);
        let worked = over?.worked().collect();
        Ok(Seen { worked, given, ..lock(&watched).finish(end) })
    }

    /// The time that a run takes on this machine's CPUs.
    pub(crate) fn takes(&self) -> Duration {
        Duration::from_nanos(self.over.duration.unwrap_or_default().0)
    }

    fn watched(&self, scenario: &Scenario) -> Watched {
        let (window, period) = self.window;
        let usage = Usage::new(window, period, scenario.machine.topology.cpus());
        Watched { usage, watch: (self.watch)(scenario), seen: Seen::default() }
    }
}

/// A run that is watched.
struct Watched {
    usage: Usage,
    watch: Watch,
    seen: Seen,
}

impl Watched {
    fn finish(&mut self, end: Time) -> Seen {
        let (time, used) = (end.since(Time::ZERO), self.usage.finish(end));
        Seen { time, used, ..std::mem::take(&mut self.seen) }
    }
}

impl EventSink for Watched {
    fn event(&mut self, event: &Event) {
        self.usage.event(event);
        (self.watch)(event, self.usage.used(), &mut self.seen);
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Runs something, and returns also the fraction of so many CPUs that this process used meanwhile.
pub(crate) fn used_part<T>(cpus: usize, run: impl FnOnce() -> T) -> (T, f64) {
    let (begun, used) = (Instant::now(), process_cpu_time());
    let result = run();
    let wall = begun.elapsed().as_nanos() as f64;
    (result, (process_cpu_time() - used).0 as f64 / (wall * cpus as f64))
}

/// A row with a figure of the first run of each setting.
pub(crate) fn of_run(
    what: impl Into<String>,
    unit: &'static str,
    figure: impl Fn(&Seen) -> f64 + Send + Sync + 'static,
) -> Row<Seen> {
    Row::new(what, unit, move |runs: &[&Seen]| figure(runs[0]))
}

/// Some settings, and the rows about their runs.
pub(crate) struct Part {
    name: String,
    settings: Vec<Setting>,
    rows: Vec<Row<Seen>>,
    text: Option<Text>,
}

/// More for a person about the runs of all settings of a part.
type Text = Box<dyn Fn(&[Vec<Seen>]) -> String + Send + Sync>;

impl Part {
    /// A part whose rows have this name before theirs; none if it is empty.
    pub(crate) fn new(
        name: impl Into<String>,
        settings: Vec<Setting>,
        rows: Vec<Row<Seen>>,
    ) -> Part {
        let name = name.into();
        let named = |row: Row<Seen>| if name.is_empty() { row } else { row.below(&name) };
        let rows = rows.into_iter().map(named).collect();
        Part { name, settings, rows, text: None }
    }

    /// The part with more text.
    pub(crate) fn text(
        self,
        text: impl Fn(&[Vec<Seen>]) -> String + Send + Sync + 'static,
    ) -> Part {
        Part { text: Some(Box::new(text)), ..self }
    }

    fn claims(&self, runs: &[Vec<Seen>]) -> Vec<Claim> {
        let quiet = |runs: &Vec<Seen>| runs.iter().cloned().map(Tried::quiet).collect::<Runs<_>>();
        rows::claims(&self.rows, &runs.iter().map(quiet).collect::<Vec<_>>())
    }
}

/// An experiment in virtual time.
pub(crate) struct Simulated {
    /// Its document.
    pub(crate) document: kernel::Experiment,
    /// A line about all parts.
    pub(crate) title: String,
    pub(crate) parts: Vec<Part>,
    /// The name of a row about the runs in which everything holds, and the parts of each of these runs.
    pub(crate) soak: Option<(String, Vec<Vec<Part>>)>,
}

impl Simulated {
    /// Runs the experiment.
    ///
    /// # Errors
    /// If the simulator refuses a scenario, which would be a mistake in the experiment.
    pub(crate) fn run(self, progress: &Progress) -> Result<Reproduced, Failure> {
        let soak = self.soak.as_ref().map_or(&[][..], |(_, runs)| runs);
        let all: Vec<_> = self.parts.iter().chain(soak.iter().flatten()).collect();
        let mut runs = each(&all, progress)?.into_iter();
        let mut claims_of = |parts: &[Part], text: &mut String| {
            let mut claims = Vec::new();
            for (part, runs) in parts.iter().zip(&mut runs) {
                claims.extend(part.claims(&runs));
                *text += &part.text.as_ref().map_or(String::new(), |text| text(&runs));
            }
            claims
        };
        let mut text = String::new();
        let mut claims = claims_of(&self.parts, &mut text);
        if let Some((what, soaked)) = &self.soak {
            let of_runs: Vec<_> =
                soaked.iter().map(|parts| claims_of(parts, &mut String::new())).collect();
            claims.push(Claim::of_runs(what.clone(), of_runs.into_iter()));
        }
        let name = Kernel::Experiment(self.document).name();
        let title = format!("{name} on sim: {}\n\n", self.title);
        Ok(Reproduced::of(name, "sim", claims, |table| title + table + &text + "\n"))
    }

    /// The claims of the parts whose names begin with one of these, with the document's mechanism switched off in every
    /// setting: for tests that see them fail.
    pub(crate) fn without(mut self, parts: &[&str]) -> Result<Vec<Claim>, Failure> {
        self.parts.retain(|part| parts.iter().any(|name| part.name.starts_with(name)));
        for setting in self.parts.iter_mut().flat_map(|part| &mut part.settings) {
            setting.over.kernel = Some(self.document.before());
        }
        let progress = Progress::new(crate::Length::Short);
        let runs = each(&self.parts.iter().collect::<Vec<_>>(), &progress)?;
        Ok(self.parts.iter().zip(&runs).flat_map(|(part, runs)| part.claims(runs)).collect())
    }

    /// The names of all rows, also of those of a soak.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<String> {
        let rows = self.parts.iter().flat_map(|part| &part.rows).map(|row| row.what().to_owned());
        rows.chain(self.soak.iter().map(|(what, _)| what.clone())).collect()
    }
}

/// The runs of each setting of each part, in the order of their seeds.
fn each(parts: &[&Part], progress: &Progress) -> Result<Vec<Vec<Vec<Seen>>>, Failure> {
    let settings = parts.iter().flat_map(|part| &part.settings);
    let all: Vec<_> =
        settings.flat_map(|it| it.seeds.iter().map(move |&seed| (it, seed))).collect();
    progress.parts("runs", all.len() as u64);
    // The largest machines come last in an experiment and take the longest, so they begin first.
    let run =
        |&(setting, seed): &(&Setting, u64)| setting.run(seed).inspect(|_| progress.part_done());
    let mut runs: Vec<Seen> =
        all.par_iter().rev().with_max_len(1).map(run).collect::<Result<_, _>>()?;
    let mut next =
        |setting: &Setting| setting.seeds.iter().map(|_| runs.pop().expect("each ran")).collect();
    Ok(parts.iter().map(|part| part.settings.iter().map(&mut next).collect()).collect())
}
