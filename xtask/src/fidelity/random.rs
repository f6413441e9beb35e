//! `--random`: random scenarios, on the kernel twice and simulated in between.
//!
//! The order is A, simulated, B, one scenario after the other, so that a change of the machine affects all three. A
//! disturbed run on the kernel is repeated. A scenario that never gets a quiet machine does not count, and no other is
//! drawn in its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::draw::{self, Drawn};
use super::judge::{Measure, Of, Runs, Sample, Seen};
use super::rig::Rig;
use super::verdict::{self, Tally, fields};
use super::{Options, bootstrap};
use crate::workspace::Outcome;

/// The time for which a calibration is valid: the costs of a virtual machine change with its host within minutes.
const CALIBRATION: Duration = Duration::from_secs(10 * 60);

/// The distance between the run seeds of two drawing seeds.
const SEEDS_APART: u64 = 1_000_000;

/// The number of tasks that `--keep` keeps.
const WORST: usize = 20;

/// A scenario that was run and judged.
struct Judged {
    /// The seed and the number.
    name: String,
    tasks: Vec<JudgedTask>,
    /// The distances of the limited groups and of the whole run.
    others: Vec<(Measure, Sample)>,
}

struct JudgedTask {
    name: String,
    kinds: Vec<&'static str>,
    samples: BTreeMap<Measure, Sample>,
}

/// Runs `scenarios` for each seed and prints the results.
pub(super) fn run(options: &Options, scenarios: u64) -> Outcome {
    let mut session = Session::new(Rig::new(&options.feature, options.kernel.as_deref())?)?;
    let cpus = std::thread::available_parallelism()?.get() as u64;
    let (mut judged, mut unusable) = (Vec::new(), 0_u64);
    let limits = options.random.kind.as_deref() == Some(draw::limit::KIND);
    let measures: &[Measure] = if limits { &Measure::OF_LIMITS } else { &Measure::ALL };
    session.measures = measures;
    for &seed in &options.random.seed {
        let draw = |number| match limits {
            true => draw::limit::scenario(seed, number, cpus),
            false => draw::scenario(options.random.taste, seed, number, cpus),
        };
        let drawn = (0..).map(|number| (number, draw(number)));
        let wanted = drawn.filter(|(_, drawn)| is_wanted(drawn, options.random.kind.as_deref()));
        for (number, drawn) in wanted.take(scenarios as usize) {
            match session.try_scenario((seed, number), &drawn)? {
                Some(scenario) => judged.push(scenario),
                None => unusable += 1,
            }
        }
    }
    let about = json!({
        "unusable": unusable,
        "seed": options.random.seed,
        "taste": format!("{:?}", options.random.taste).to_lowercase(),
        "kind": options.random.kind,
        "features": options.feature,
        "simulated_kernel": options.kernel,
        "kernel": kernel()?,
        "machine": serde_json::from_str::<Value>(&session.machine)?,
    });
    let found =
        Found { judged, measures, seed: options.random.seed.first().copied().unwrap_or_default() };
    match options.random.json {
        true => println!("{:#}", found.json(about)),
        false => print!("{about}\n\n{}", found.table()),
    }
    options.random.keep.as_deref().map_or(Ok(()), |into| found.keep(&session.folder, into))
}

/// Whether a scenario has a task of the wanted kind, if one is given.
fn is_wanted(drawn: &Drawn, kind: Option<&str>) -> bool {
    let has = |kind| drawn.tasks.iter().any(|task| task.kinds.contains(&kind));
    kind.is_none_or(|kind| kind == draw::limit::KIND || has(kind))
}

/// The kernel's release, and the words on its command line about scheduling.
fn kernel() -> Outcome<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let line = std::fs::read_to_string("/proc/cmdline")?;
    let words = line.split_whitespace().filter(|word| word.starts_with("sched_"));
    Ok(std::iter::once(release.trim()).chain(words).collect::<Vec<_>>().join(" "))
}

/// The simulated machine, and the folder of the runs' reports.
struct Session {
    rig: Rig,
    folder: PathBuf,
    machine: String,
    calibrated: Instant,
    /// What the scenarios are judged by.
    measures: &'static [Measure],
}

impl Session {
    fn new(rig: Rig) -> Outcome<Session> {
        let folder = rig.folder.join("random");
        std::fs::create_dir_all(&folder)?;
        let machine = rig.machine()?;
        let measures = &Measure::ALL;
        Ok(Session { rig, folder, machine, calibrated: Instant::now(), measures })
    }

    /// Runs a scenario; `None` if the machine was never quiet.
    fn try_scenario(&mut self, which: (u64, u64), drawn: &Drawn) -> Outcome<Option<Judged>> {
        if self.calibrated.elapsed() > CALIBRATION {
            self.machine = self.rig.machine()?;
            self.calibrated = Instant::now();
        }
        let (seed, number) = which;
        let name = format!("{seed}-{number}");
        // All runs have the same seed, so every host has the same work.
        let option = format!("--seed={}", seed.wrapping_mul(SEEDS_APART).wrapping_add(number));
        let runs = self.runs((&name, &option), drawn)?;
        let (tasks, text) =
            (drawn.tasks.len(), if runs.is_some() { "done" } else { "never quiet" });
        eprintln!("{name}: {tasks} tasks, {text}");
        Ok(runs.map(|runs| Judged::new(&name, drawn, self.measures, &runs)))
    }

    fn runs(&self, (name, seed): (&str, &str), drawn: &Drawn) -> Outcome<Option<Runs>> {
        let file = self.folder.join(format!("{name}.json"));
        std::fs::write(&file, &drawn.text)?;
        let Some(a) = self.rig.run_quietly(&file, &[seed])? else { return Ok(None) };
        let simulated = self.rig.simulate(&drawn.text, &self.machine, &[seed])?;
        let Some(b) = self.rig.run_quietly(&file, &[seed])? else { return Ok(None) };
        for (report, run) in [(&a, "a"), (&simulated, "sim"), (&b, "b")] {
            std::fs::write(self.folder.join(format!("{name}.{run}.json")), report.to_string())?;
        }
        Ok(Some(Runs {
            a: Seen::read(&a)?,
            simulated: Seen::read(&simulated)?
                .with_run_delays(&serde_json::from_str(&self.machine)?),
            b: Seen::read(&b)?,
        }))
    }
}

impl Judged {
    fn new(name: &str, drawn: &Drawn, measures: &[Measure], runs: &Runs) -> Judged {
        let sample = |measure, name: &str| (measure, runs.sample(measure, name));
        let of = |of| measures.iter().copied().filter(move |measure| measure.of() == of);
        let task = |task: &draw::Task| JudgedTask {
            name: task.name.clone(),
            kinds: task.kinds.clone(),
            samples: of(Of::Task).map(|measure| sample(measure, &task.name)).collect(),
        };
        let of_groups = drawn
            .limited
            .iter()
            .flat_map(|path| of(Of::Group).map(move |measure| sample(measure, path)));
        Judged {
            name: name.to_owned(),
            tasks: drawn.tasks.iter().map(task).collect(),
            others: of_groups.chain(of(Of::Run).map(|measure| sample(measure, ""))).collect(),
        }
    }

    /// The distances in a measure: of each task, of each limited group, or of the whole run.
    fn samples(&self, measure: Measure) -> impl Iterator<Item = &Sample> {
        let tasks = self.tasks.iter().filter_map(move |task| task.samples.get(&measure));
        let others = self.others.iter().filter(move |(of, _)| *of == measure);
        tasks.chain(others.map(|(_, sample)| sample))
    }
}

impl JudgedTask {
    /// The largest ratio of a distance to its measure's goal.
    fn badness(&self) -> f64 {
        let over = |(measure, sample): (&Measure, &Sample)| Some(sample.mean()? / measure.goal());
        self.samples.iter().filter_map(over).fold(0.0, f64::max)
    }
}

/// The results of all scenarios.
struct Found {
    judged: Vec<Judged>,
    measures: &'static [Measure],
    /// The first seed, which the bootstrap uses.
    seed: u64,
}

impl Found {
    fn nr_tasks(&self) -> usize {
        self.judged.iter().map(|scenario| scenario.tasks.len()).sum()
    }

    fn of_tasks(&self) -> impl Iterator<Item = Measure> + Clone {
        self.measures.iter().copied().filter(|measure| measure.of() == Of::Task)
    }

    fn samples(&self, measure: Measure) -> Vec<&Sample> {
        self.judged.iter().flat_map(|scenario| scenario.samples(measure)).collect()
    }

    /// The lower bound of the difference between simulated and itself.
    fn lower_95(&self, measure: Measure) -> Option<f64> {
        let tallies: Vec<_> = self
            .judged
            .iter()
            .map(|scenario| Tally::of(measure, scenario.samples(measure)))
            .collect();
        bootstrap::lower_95(&tallies, self.seed)
    }

    /// The tasks of each kind.
    fn kinds(&self) -> BTreeMap<&'static str, Vec<&JudgedTask>> {
        let mut kinds = BTreeMap::<_, Vec<_>>::new();
        for task in self.judged.iter().flat_map(|scenario| &scenario.tasks) {
            task.kinds.iter().for_each(|&kind| kinds.entry(kind).or_default().push(task));
        }
        kinds
    }

    /// The fields for scripts; `about` describes the run.
    fn json(&self, about: Value) -> Value {
        let mut all = Map::new();
        all.insert("scenarios".to_owned(), self.judged.len().into());
        all.insert("tasks".to_owned(), self.nr_tasks().into());
        all.extend(fields(self.measures, |measure| self.samples(measure)));
        let rounded = |points: f64| (points * 1e3).round() / 1e3;
        let lower = |measure: Measure| {
            (measure.field().to_owned(), json!(self.lower_95(measure).map(rounded)))
        };
        all.insert(
            "lower_95".to_owned(),
            self.measures.iter().copied().map(lower).collect::<Map<_, _>>().into(),
        );
        let kinds = self.kinds().into_iter().map(|(kind, tasks)| {
            let mut kind_fields = Map::new();
            kind_fields.insert("n".to_owned(), tasks.len().into());
            kind_fields.extend(fields(self.measures, |measure| {
                tasks.iter().filter_map(|task| task.samples.get(&measure)).collect()
            }));
            (kind.to_owned(), kind_fields.into())
        });
        all.insert("kinds".to_owned(), kinds.collect::<Map<_, _>>().into());
        if let Value::Object(about) = about {
            all.extend(about);
        }
        all.into()
    }

    /// The text for a person: a table of everything, and one of the kinds.
    fn table(&self) -> String {
        let mut lines = vec![
            format!("{} scenarios with {} tasks", self.judged.len(), self.nr_tasks()),
            String::new(),
            "| figure | kernel beside itself: p50 | p90 | within | simulated: p50 | p90 | within | at least, 95 % |"
                .to_owned(),
            "|---|---|---|---|---|---|---|---|".to_owned(),
        ];
        for &measure in self.measures {
            let [itself, simulated] = verdict::figures(measure, &self.samples(measure));
            let bound =
                self.lower_95(measure).map_or("-".to_owned(), |points| format!("{points:+.1}"));
            let name = measure.field();
            lines.push(format!("| {name} | {itself} | {simulated} | {bound} |"));
        }
        lines.push(String::new());
        let heads =
            self.of_tasks().map(|measure| format!(" {}: itself | simulated |", measure.field()));
        lines.push(format!("| kind | tasks |{}", heads.collect::<String>()));
        lines.push(format!("|---|---|{}", "---|---|".repeat(self.of_tasks().count())));
        for (kind, tasks) in self.kinds() {
            let cells = self.of_tasks().map(|measure| {
                let samples: Vec<_> =
                    tasks.iter().filter_map(|task| task.samples.get(&measure)).collect();
                let within = verdict::figures(measure, &samples).map(|figure| {
                    figure.within.map_or("-".to_owned(), |within| format!("{within:.0}"))
                });
                format!(" {} |", within.join(" | "))
            });
            lines.push(format!("| {kind} | {} |{}", tasks.len(), cells.collect::<String>()));
        }
        lines.join("\n") + "\n"
    }

    /// Copies the scenarios and the reports of the tasks with the largest distances, with a list of them.
    fn keep(&self, from: &Path, into: &Path) -> Outcome {
        std::fs::create_dir_all(into)?;
        let all = self.judged.iter().flat_map(|of| of.tasks.iter().map(move |task| (of, task)));
        let mut worst: Vec<_> = all.map(|(of, task)| (task.badness(), of, task)).collect();
        worst.sort_by(|a, b| b.0.total_cmp(&a.0));
        worst.truncate(WORST);
        let mut list = String::new();
        for (badness, Judged { name, .. }, task) in worst {
            for part in ["json", "a.json", "sim.json", "b.json"] {
                let file = format!("{name}.{part}");
                std::fs::copy(from.join(&file), into.join(&file))?;
            }
            list += &format!(
                "{name} {}: {badness:.1} times the goal ({})\n",
                task.name,
                task.kinds.join(", ")
            );
        }
        Ok(std::fs::write(into.join("worst.txt"), list)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario with one task of these kinds, with these distances from itself and simulated.
    fn judged(name: &str, kinds: &[&'static str], itself: f64, simulated: f64) -> Judged {
        let sample = Sample { itself: Some(itself), simulated: [Some(simulated); 2] };
        let sample = |measure| (measure, sample.clone());
        let of = |of| Measure::ALL.into_iter().filter(move |measure| measure.of() == of);
        let samples = of(Of::Task).map(sample).collect();
        let task = JudgedTask { name: "t".to_owned(), kinds: kinds.to_vec(), samples };
        let others = of(Of::Run).map(sample).collect();
        Judged { name: name.to_owned(), tasks: vec![task], others }
    }

    fn found() -> Found {
        let first = judged("1-0", &["hog", "nice"], 1.0, 1.5);
        let judged = vec![first, judged("1-1", &["hog"], 1.0, 8.0)];
        Found { judged, measures: &Measure::ALL, seed: 1 }
    }

    #[test]
    fn the_json_has_what_scripts_rely_on() {
        let json = found().json(json!({"unusable": 3, "seed": [1]}));
        assert_eq!(
            (&json["scenarios"], &json["tasks"], &json["unusable"]),
            (&json!(2), &json!(2), &json!(3))
        );
        for measure in Measure::ALL {
            let within = format!("within_{}", measure.goal());
            assert_eq!(json[measure.field()], json!({"p50": 1.5, "p90": 8.0, &*within: 50.0}));
            assert_eq!(
                json["itself"][measure.field()],
                json!({"p50": 1.0, "p90": 1.0, &*within: 100.0})
            );
            assert_eq!(
                json["lower_95"][measure.field()],
                json!(-100.0),
                "both draws may be the bad one"
            );
        }
        let kinds = json["kinds"].as_object().expect("kinds by their names");
        assert_eq!(kinds.keys().collect::<Vec<_>>(), ["hog", "nice"]);
        assert_eq!((&kinds["hog"]["n"], &kinds["nice"]["n"]), (&json!(2), &json!(1)));
        assert_eq!(kinds["nice"]["p99_ratio"]["within_2"], json!(100.0));
        assert_eq!(kinds["hog"]["itself"]["share_points"]["within_3"], json!(100.0));
    }

    #[test]
    fn the_tables_say_the_same() {
        let table = found().table();
        let row = "| p99_ratio | 1.00 | 1.00 | 100 | 1.50 | 8.00 | 50 | -100.0 |";
        assert!(table.starts_with("2 scenarios with 2 tasks\n") && table.contains(row), "{table}");
        assert!(table.contains("| nice | 1 | 100 | 100 | 100 | 100 | 100 | 100 |"), "{table}");
        assert!(table.contains("| hog | 2 | 100 | 50 | 100 | 50 | 100 | 50 |"), "{table}");
    }

    #[test]
    fn the_worst_tasks_are_kept_with_their_reports() {
        let folder =
            crate::workspace::target("fidelity-keep-test").expect("there is a target folder");
        let (from, into) = (folder.join("from"), folder.join("into"));
        std::fs::create_dir_all(&from).expect("a folder");
        for name in ["1-0", "1-1"] {
            for part in ["json", "a.json", "sim.json", "b.json"] {
                std::fs::write(from.join(format!("{name}.{part}")), name).expect("a file");
            }
        }
        found().keep(&from, &into).expect("both folders are there");
        let list = std::fs::read_to_string(into.join("worst.txt")).expect("a list");
        assert_eq!(
            list,
            "1-1 t: 4.0 times the goal (hog)\n1-0 t: 0.8 times the goal (hog, nice)\n"
        );
        assert_eq!(std::fs::read_to_string(into.join("1-1.sim.json")).expect("a copy"), "1-1");
        std::fs::remove_dir_all(&folder).expect("it was made here");
    }
}
