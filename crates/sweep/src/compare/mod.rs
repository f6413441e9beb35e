//! Comparisons of two sides: saved reports, or scenarios that are run with several seeds each.
//!
//! `runyard_report::Changes` finds the differences and decides whether they are more than noise; this module provides
//! the runs. The two runs of a seed are a pair. Both are next to each other in the order of the work, so a comparison
//! that is stopped early has complete pairs.

mod differences;
mod saved;

use crate::plan::Text;
use crate::{pool, simulated};
use differences::differences;
use runyard_outcome::Failure;
use runyard_report::html::{self, Run};
use runyard_report::{Changes, Report, Sheet};
use runyard_workload::{Diagnostic, Overrides, Scenario, name_of};
use std::ops::RangeInclusive;

/// The numbers of seeds that a comparison may have.
pub const SEEDS: RangeInclusive<u64> = 1..=1000;

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// One run of each side. The charts of the page show these runs.
    runs: [Report; 2],
    changes: Changes,
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
        Comparison { runs, changes }
    }

    /// The differences as text. It ends with a line end. Lines of figures that differ by no more than noise end with
    /// [`runyard_report::NOISE`].
    #[must_use]
    pub fn text(&self) -> String {
        self.changes.render()
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
            let what = "a report; --seeds runs scenarios, and reports are compared without it";
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

/// Runs two scenarios with the seeds 1 to `seeds` each, on `jobs` threads. It calls `progress` after each run with the
/// number of finished runs, of twice as many as seeds. It calls `stop` now and then; if `stop` returns `true`, only
/// complete pairs count. The number of threads has no influence on the result unless the comparison is stopped.
///
/// ```
/// use runyard_sweep::{Side, Text, compare, pool};
/// use runyard_workload::Overrides;
///
/// let text = r#"{"tasks": {"web": {"run": 500, "sleep": {"exponential": 900}}}, "global": {"duration": 1}}"#;
/// let side = |setting: &str| {
///     let scenario = Text { file: "web.json".to_owned(), text: text.to_owned() };
///     let over = Overrides { settings: vec![setting.parse().unwrap()], ..Overrides::default() };
///     Side::new(scenario, vec![setting.to_owned()], &over).unwrap()
/// };
/// let sides = [side("tasks.web.run=500"), side("tasks.web.run=900")];
/// let compared = compare(&sides, (8, pool::cores()), &|| false, |_| {}).unwrap();
/// let comparison = compared.comparison.expect("nobody stopped it");
/// assert!(comparison.text().contains("differs: tasks.web.run=500 -> tasks.web.run=900"));
/// assert!(comparison.text().contains("8 seeds a side, in pairs"));
/// ```
///
/// # Errors
/// The reason why a scenario cannot be simulated.
pub fn compare(
    sides: &[Side; 2],
    (seeds, jobs): (u64, usize),
    stop: &(dyn Fn() -> bool + Sync),
    mut progress: impl FnMut(usize),
) -> Result<Compared, Failure> {
    let runs: Vec<usize> = (0..2 * seeds as usize).collect();
    let mut sheets: Vec<Option<Sheet>> = vec![None; runs.len()];
    let mut first: [Option<Report>; 2] = [None, None];
    let (mut failure, mut done) = (None, 0);
    let work = |_: &mut (), run: usize| {
        let side = &sides[run % 2];
        let seed = run as u64 / 2 + 1;
        let report = simulated::report((&side.name, &side.scenario), seed, stop).transpose()?;
        Some(report.map(|report| (Sheet::new(&report), (run < 2).then_some(report))))
    };
    pool::each((jobs, &runs), stop, work, |run, result| {
        done += 1;
        progress(done);
        match result {
            Ok((sheet, report)) => {
                sheets[run] = Some(sheet);
                if let Some(report) = report {
                    first[run] = Some(report);
                }
            }
            Err(what) => failure = Some(Failure::Input(what)),
        }
        failure.is_none()
    });
    failure.map_or(Ok(()), Err)?;
    let pairs =
        sheets.chunks_exact(2).filter_map(|pair| Some([pair[0].clone()?, pair[1].clone()?]));
    let (old, new): (Vec<_>, Vec<_>) = pairs.map(|[old, new]| (old, new)).unzip();
    let comparison = match first {
        [Some(before), Some(after)] => {
            let changes = Changes::of([&old, &new], &told(sides));
            Some(Comparison { runs: [before, after], changes })
        }
        _ => None,
    };
    Ok(Compared { pairs: old.len() as u64, comparison })
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
