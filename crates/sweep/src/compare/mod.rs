//! Comparisons of two sides: saved reports, or scenarios that are run with several seeds each.
//!
//! `runyard_report::Changes` finds the differences and judges the figures that are asked for; this module provides the
//! runs, and the conditions on their difference. The two runs of a seed are a pair. Both are next to each other in the
//! order of the work, so a comparison that is stopped early has complete pairs.

mod condition;
mod differences;
mod saved;

pub use condition::{Condition, Is, Outcome, SEEDS};
pub use saved::is_report;

use crate::metric::{Metric, Names, spans};
use crate::plan::Text;
use crate::pool;
use crate::rows::{Figures, Known};
use crate::simulated::{self, Whole};
use differences::differences;
use runyard_outcome::Failure;
use runyard_report::html::{self, Run};
use runyard_report::{Asked, Changed, Changes, Judged, Report, Sheet};
use runyard_workload::{Diagnostic, Overrides, Scenario, name_of};
use serde::Serialize;

/// The number of seeds of a comparison that does not name one. Nine pairs are the least for a verdict on the ten
/// figures of the usual list; with twenty, some of the pairs may be against the others.
pub const USUAL_SEEDS: u64 = 20;

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// One run of each side. The charts of the page show these runs.
    runs: [Report; 2],
    changes: Changes,
    outcomes: Vec<Outcome>,
    /// Whether the text has only the figures that are asked for.
    is_brief: bool,
}

/// The document of a comparison.
#[derive(Serialize)]
struct Document<'c> {
    schema: &'static str,
    before: &'c str,
    after: &'c str,
    differs: &'c [String],
    seeds: usize,
    judged: &'c [Judged],
    conditions: &'c [Outcome],
    figures: Vec<Changed>,
}

impl Comparison {
    /// Compares two saved reports, documents that `--json` printed. With one run a side, a change cannot be told from
    /// noise.
    ///
    /// ```
    /// use runyard_sweep::{Comparison, Text, report};
    /// use runyard_workload::{Overrides, parse};
    ///
    /// let saved = |seed| -> Text {
    ///     let text = r#"{"tasks": {"web": {"run": {"exponential": 500}, "sleep": 900}}, "global": {"duration": 1}}"#;
    ///     let scenario = parse("-", text, &Overrides::default()).unwrap().scenario;
    ///     let report = report(("web", &scenario), seed, &|| false).unwrap().expect("nobody stops it");
    ///     let mut json = Vec::new();
    ///     report.write_json(&mut json).unwrap();
    ///     Text { file: format!("{seed}.json"), text: String::from_utf8(json).unwrap() }
    /// };
    /// let comparison = Comparison::of_reports(&saved(1), &saved(2)).unwrap();
    /// assert!(comparison.text().contains("differs: seed 1 -> 2\nOne run each"));
    ///
    /// let scenario = Text { file: "web.json".to_owned(), text: "{\"tasks\": {}}".to_owned() };
    /// assert!(Comparison::of_reports(&scenario, &saved(2)).is_err());
    /// ```
    ///
    /// # Errors
    /// A text that is no report, with the place in it.
    pub fn of_reports(before: &Text, after: &Text) -> Result<Comparison, Failure> {
        Ok(Comparison::of([saved::read(before)?, saved::read(after)?]))
    }

    /// Compares two reports, before and after. With one run a side, a change cannot be told from noise.
    #[must_use]
    pub fn of(runs: [Report; 2]) -> Comparison {
        let changes = Changes::new(&runs[0], &runs[1]);
        Comparison { runs, changes, outcomes: Vec::new(), is_brief: false }
    }

    /// The differences as text. It ends with a line end. Lines of judged figures that differ by no more than noise end
    /// with [`runyard_report::NOISE`]. If metrics or conditions are asked for, it has no other figures.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text =
            if self.is_brief { self.changes.render_judged() } else { self.changes.render() };
        for (at, outcome) in self.outcomes.iter().enumerate() {
            text += if at == 0 { "\n" } else { "" };
            text += &format!("{outcome}\n");
        }
        text
    }

    /// The document that `--json` prints: the schema `runyard.compare/1`. It ends with a line end.
    ///
    /// # Panics
    /// Never: all figures are JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let [before, after] = self.changes.sides();
        let document = Document {
            schema: "runyard.compare/1",
            before,
            after,
            differs: self.changes.differs(),
            seeds: self.changes.pairs(),
            judged: self.changes.judged(),
            conditions: &self.outcomes,
            figures: self.changes.figures(),
        };
        serde_json::to_string_pretty(&document).expect("figures are JSON") + "\n"
    }

    /// The results of the conditions, in their order.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The page that `--html` writes.
    #[must_use]
    pub fn html(&self) -> String {
        let [before, after] = self.runs.each_ref().map(|report| Run { report, stretches: None });
        html::comparison(before, after, &self.changes)
    }

    /// The differences, figure by figure.
    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// A report of each side. With several runs a side it is the report of the first seed.
    #[must_use]
    pub fn reports(&self) -> [&Report; 2] {
        self.runs.each_ref()
    }
}

/// One of two scenarios to be compared.
#[derive(Clone, Debug)]
pub struct Side {
    name: String,
    text: String,
    options: Vec<String>,
    scenario: Scenario,
    warnings: Vec<Diagnostic>,
}

impl Side {
    /// Reads a scenario. `options` describes in words the replacements that `over` makes on this side alone, as
    /// `--kernel 6.1`. A comparison shows them where both sides have the same scenario.
    ///
    /// # Errors
    /// A mistake in the scenario, with its place; or the fact that the text is a report.
    pub fn new(scenario: Text, options: Vec<String>, over: &Overrides) -> Result<Side, Failure> {
        let Text { file, text } = scenario;
        if saved::is_report(&text) {
            let what = "a report, of one run; compare it with another report, or two scenarios with --seeds 20";
            return Err(Failure::Input(format!("{file}:1:1: {what}")));
        }
        let parsed = runyard_workload::parse(&file, &text, over).map_err(Failure::input)?;
        let (scenario, warnings) = (parsed.scenario, parsed.warnings);
        Ok(Side { name: name_of(&file), text, options, scenario, warnings })
    }

    /// The warnings about the scenario, in the order of their places.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The text of the scenario, as it was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The result of running two scenarios.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The number of complete pairs of runs: the number of seeds, or fewer if the comparison was stopped.
    pub pairs: u64,
    /// The comparison of these pairs; `None` if the first pair is not complete.
    pub comparison: Option<Comparison>,
}

/// The question of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Asking {
    /// The number of seeds: each scenario runs with the seeds from 1 to it.
    pub seeds: u64,
    /// The number of threads.
    pub jobs: usize,
    /// The metrics to judge. Without metrics and conditions, p99 of the chains or of the wake-ups and the share of the
    /// tasks are judged, at most five of each.
    pub metrics: Vec<Metric>,
    /// The conditions. Their metrics are judged too.
    pub conditions: Vec<Condition>,
}

impl Asking {
    /// The metrics to judge.
    ///
    /// # Errors
    /// A metric that a side does not have.
    fn asked(&self, sides: &[Side; 2]) -> Result<Vec<Metric>, Failure> {
        let names = sides.each_ref().map(|side| Names::of(&side.scenario));
        let mut asked: Vec<Metric> = Vec::new();
        for metric in self.metrics.iter().chain(self.conditions.iter().map(Condition::metric)) {
            for names in &names {
                let wrong = |what| Failure::Input(format!("{metric}: {what}"));
                metric.check(names, &Known::new()).map_err(wrong)?;
            }
            if !asked.contains(metric) {
                asked.push(metric.clone());
            }
        }
        Ok(if asked.is_empty() { Names::main(&names) } else { asked })
    }
}

/// Runs two scenarios with several seeds each. It calls `progress` after each run with the number of finished runs, of
/// twice as many as seeds. It calls `stop` now and then; if `stop` returns `true`, only complete pairs count. The number
/// of threads has no influence on the result unless the comparison is stopped.
///
/// ```
/// use runyard_sweep::{Asking, Side, Text, compare, pool};
/// use runyard_workload::Overrides;
///
/// let text = r#"{"tasks": {"web": {"run": 500, "sleep": {"exponential": 900}}}, "global": {"duration": 1}}"#;
/// let side = |setting: &str| {
///     let scenario = Text { file: "web.json".to_owned(), text: text.to_owned() };
///     let over = Overrides { settings: vec![setting.parse().unwrap()], ..Overrides::default() };
///     Side::new(scenario, vec![setting.to_owned()], &over).unwrap()
/// };
/// let sides = [side("tasks.web.run=500"), side("tasks.web.run=900")];
/// let conditions = vec!["share(tasks.web) > +10%".parse().unwrap()];
/// let asking = Asking { seeds: 8, jobs: pool::cores(), conditions, ..Asking::default() };
/// let compared = compare(&sides, &asking, &|| false, |_| {}).unwrap();
/// let comparison = compared.comparison.expect("nobody stopped it");
/// assert!(comparison.text().contains("differs: tasks.web.run=500 -> tasks.web.run=900"));
/// assert!(comparison.text().contains("8 seeds a side, in pairs"));
/// assert!(comparison.text().contains("failed: share(tasks.web) > +10%: "));
/// ```
///
/// # Errors
/// A metric that a side does not have, or the reason why a scenario cannot be simulated.
pub fn compare(
    sides: &[Side; 2],
    asking: &Asking,
    stop: &(dyn Fn() -> bool + Sync),
    mut progress: impl FnMut(usize),
) -> Result<Compared, Failure> {
    let metrics = asking.asked(sides)?;
    let spans = spans(&metrics);
    let runs: Vec<usize> = (0..2 * asking.seeds as usize).collect();
    let mut kept: Vec<Option<Kept>> = vec![None; runs.len()];
    let mut first: [Option<Report>; 2] = [None, None];
    let (mut failure, mut done) = (None, 0);
    let work = |_: &mut (), run: usize| {
        let side = &sides[run % 2];
        let seed = run as u64 / 2 + 1;
        let scenario = (side.name.as_str(), &side.scenario);
        let whole = simulated::measured(scenario, (seed, &spans), stop).transpose()?;
        Some(whole.map(|whole| (Kept::of(&whole, &metrics), (run < 2).then_some(whole.report))))
    };
    pool::each((asking.jobs, &runs), stop, work, |run, result| {
        done += 1;
        progress(done);
        match result {
            Ok((result, report)) => {
                kept[run] = Some(result);
                if let Some(report) = report {
                    first[run] = Some(report);
                }
            }
            Err(what) => failure = Some(Failure::Input(what)),
        }
        failure.is_none()
    });
    failure.map_or(Ok(()), Err)?;
    let pairs = kept.chunks_exact(2).filter_map(|pair| Some([pair[0].clone()?, pair[1].clone()?]));
    let (old, new): (Vec<_>, Vec<_>) = pairs.map(|[old, new]| (old, new)).unzip();
    let comparison = match first {
        [Some(before), Some(after)] => {
            Some(compared([before, after], [&old, &new], (&metrics, asking), &told(sides)))
        }
        _ => None,
    };
    Ok(Compared { pairs: old.len() as u64, comparison })
}

/// What a comparison keeps of a run.
#[derive(Clone, Debug)]
struct Kept {
    sheet: Sheet,
    metrics: Vec<Option<f64>>,
}

impl Kept {
    fn of(run: &Whole, metrics: &[Metric]) -> Kept {
        let figures = Figures::new(&run.report);
        let metrics = metrics.iter().map(|metric| metric.of(run, &figures)).collect();
        Kept { sheet: Sheet::new(&run.report), metrics }
    }
}

/// The comparison of runs in pairs.
fn compared(
    runs: [Report; 2],
    sides: [&[Kept]; 2],
    (metrics, asking): (&[Metric], &Asking),
    told: &[String],
) -> Comparison {
    let asked = |(at, metric): (usize, &Metric)| Asked {
        metric: metric.to_string(),
        unit: metric.unit(),
        is_delay: metric.is_delay(),
        sides: sides.map(|side| side.iter().map(|run| run.metrics[at]).collect()),
    };
    let asked: Vec<Asked> = metrics.iter().enumerate().map(asked).collect();
    let outcome = |condition: &Condition| {
        let at = metrics.iter().position(|it| it == condition.metric()).expect("it is asked for");
        condition.outcome(&asked[at], asking.conditions.len())
    };
    let [old, new] = sides.map(|side| side.iter().map(|run| run.sheet.clone()).collect::<Vec<_>>());
    Comparison {
        runs,
        changes: Changes::of([&old, &new], told).judging(&asked),
        outcomes: asking.conditions.iter().map(outcome).collect(),
        is_brief: !(asking.metrics.is_empty() && asking.conditions.is_empty()),
    }
}

/// The differences between the sides as the user gave them: options, and values in the files.
fn told(sides: &[Side; 2]) -> Vec<String> {
    let [before, after] = sides;
    let mut told = differences(&before.text, &after.text);
    if before.options != after.options {
        let shown = |side: &Side| match side.options.is_empty() {
            true => "no option".to_owned(),
            false => side.options.join(" "),
        };
        told.push(format!("{} -> {}", shown(before), shown(after)));
    }
    told
}
