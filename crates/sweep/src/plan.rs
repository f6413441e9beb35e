//! The plan of a sweep: its points in a fixed order, each with all seeds.
//!
//! A plan is a function of two texts, the specification and the scenario. Another process or machine with these texts
//! has the same plan. The points of a grid are in the order of the specification; the last dimension changes fastest.
//! The points of a sample keep this order. A point is made only when it is asked for, so a grid of any size takes no
//! memory.
//!
//! The scenario of each point is checked before anything runs. A plan with a mistake runs nothing.

use crate::cell::Cell;
use crate::metric::{Metric, Names};
use crate::pool;
use crate::rows::Known;
use crate::spec::{Change, Choice, Place, Points, Source, Spec};
use rand_pcg::Pcg64Mcg;
use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;
use runyard_report::statistics::Summary;
use runyard_workload::draw::below;
use runyard_workload::{Diagnostic, Overrides, Parsed, Place as Where, Scenario, Window, name_of};
use std::collections::BTreeSet;

/// The largest number of runs in a sweep. A grid with more runs is taken for a mistake.
const MAX_RUNS: u128 = 1_000_000;

/// The number of seeds between two looks at the intervals, and the least number, if there is a precision.
pub(crate) const ROUND: usize = 10;

/// The largest number of seeds that a precision takes.
const MOST_SEEDS: usize = 1_000;

/// The largest number of runs in a part.
const MAX_PART: usize = 64;

/// The least number of parts in a sweep, if it has as many runs. A sweep that is killed loses the unfinished parts, so
/// a part must be small beside the whole.
const PARTS: usize = 64;

/// The seed from which a sample is drawn. Any number serves.
const SAMPLE_SEED: u128 = 0x5eed;

/// A text, and its name in diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The file's name, as the user gave it.
    pub file: String,
    /// The contents of the file.
    pub text: String,
}

/// The runs of a sweep.
#[derive(Clone, Debug)]
pub struct Plan {
    spec: Text,
    scenario: Text,
    name: String,
    columns: Vec<String>,
    points: Points,
    /// The points of the grid that are in the sample; `None` for all points.
    sample: Option<Vec<u64>>,
    count: usize,
    seeds: Vec<u64>,
    /// The number of seeds before the first look at the precision: without a precision, all of them.
    least_seeds: usize,
    precision: Option<f64>,
    duration: Option<Nanos>,
    window: Window,
    metrics: Vec<Metric>,
    warnings: Vec<Diagnostic>,
}

/// A point of a plan.
#[derive(Clone, Debug)]
pub struct Point {
    /// The values of the plan's columns.
    pub values: Vec<Cell>,
    /// The replacements in the scenario.
    pub overrides: Overrides,
}

impl Plan {
    /// Makes the plan of a specification. `read` reads the scenario, by the name in the specification.
    ///
    /// # Errors
    /// The first mistake in the specification, or in the scenario.
    pub fn new(
        spec: Text,
        read: impl FnOnce(&str) -> Result<Text, String>,
    ) -> Result<Plan, Diagnostic> {
        let (mut plan, metrics) = Plan::unchecked(spec, read)?;
        plan.check()?;
        plan.measure(metrics)?;
        Ok(plan)
    }

    /// Makes the plan of a specification and a scenario from which [`Plan::new`] already made a plan, in any process.
    /// The points are not checked again, so many points take no longer. A point that is wrong after all gives failed
    /// runs.
    ///
    /// # Errors
    /// The first mistake in the specification, or in the scenario at the first point.
    pub fn checked_before(spec: Text, scenario: Text) -> Result<Plan, Diagnostic> {
        let (mut plan, metrics) = Plan::unchecked(spec, |_| Ok(scenario))?;
        plan.measure(metrics)?;
        Ok(plan)
    }

    fn unchecked(
        spec: Text,
        read: impl FnOnce(&str) -> Result<Text, String>,
    ) -> Result<(Plan, Vec<(Metric, Place)>), Diagnostic> {
        let said = Spec::read(&spec.file, &spec.text)?;
        let scenario = match &said.scenario {
            Source::Here(place) => Text { file: spec.file.clone(), text: only(&spec.text, place) },
            Source::File(name, place) => {
                read(name).map_err(|error| place.wrong(format!("{name}: {error}")))?
            }
        };
        let (sample, count) = drawn(&said, &spec)?;
        let plan = Plan {
            name: name_of(&scenario.file),
            spec,
            scenario,
            columns: said.columns,
            points: said.points,
            sample,
            count,
            least_seeds: said.seeds.len(),
            precision: None,
            seeds: said.seeds,
            duration: said.duration,
            window: said.window,
            metrics: Vec::new(),
            warnings: Vec::new(),
        };
        Ok((plan, said.metrics))
    }

    /// The same plan with as many seeds at each point as it takes until the 95 % interval of each metric is at most this
    /// part of the mean wide, from end to end: 0.05 stands for 5 %. A number of seeds in the specification is then the
    /// least one; 1,000 are the most. Listed seeds are taken in their order, as far as needed.
    ///
    /// # Errors
    /// The specification lists fewer than ten seeds, or ten seeds make too many runs.
    pub fn with_precision(self, precision: f64) -> Result<Plan, String> {
        let mut seeds = self.seeds;
        let is_number = seeds.iter().copied().eq(1..=seeds.len() as u64);
        if !is_number && seeds.len() < ROUND {
            return Err(format!(
                "a precision takes {ROUND} seeds at least, and {} are listed",
                seeds.len()
            ));
        }
        let mut least_seeds = ROUND;
        if is_number {
            let most = MOST_SEEDS.min(MAX_RUNS as usize / self.count);
            least_seeds = seeds.len().max(ROUND);
            if most < least_seeds {
                let runs = self.count * least_seeds;
                return Err(format!(
                    "{} points with {least_seeds} seeds are {runs} runs: too many",
                    self.count
                ));
            }
            seeds = (1..=most as u64).collect();
        }
        Ok(Plan { seeds, least_seeds, precision: Some(precision), ..self })
    }

    /// The same plan with reports of this part of each run. It replaces what the specification says of it.
    ///
    /// # Errors
    /// The run of a point does not have such a part.
    pub fn with_window(self, window: Window) -> Result<Plan, Diagnostic> {
        let Window { from, until } = self.window;
        let window = Window { from: window.from.or(from), until: window.until.or(until) };
        let mut plan = Plan { window, ..self };
        plan.check()?;
        Ok(plan)
    }

    /// The part of each run that its report counts.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window
    }

    /// The greatest width of an interval as a part of the mean; `None` if each point has all seeds.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        self.precision
    }

    /// The number of seeds before the first look at the precision.
    pub(crate) fn least_seeds(&self) -> usize {
        self.least_seeds
    }

    /// Whether an interval is as narrow as the precision asks.
    pub(crate) fn is_narrow(&self, summary: &Summary) -> bool {
        self.precision.is_none_or(|precision| {
            summary.interval.is_some_and(|(low, high)| high - low <= precision * summary.mean.abs())
        })
    }

    /// The specification.
    #[must_use]
    pub fn spec(&self) -> &Text {
        &self.spec
    }

    /// The scenario.
    #[must_use]
    pub fn scenario(&self) -> &Text {
        &self.scenario
    }

    /// The scenario's name in reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plan with another name of its scenario in reports.
    #[must_use]
    pub fn called(self, name: String) -> Plan {
        Plan { name, ..self }
    }

    /// The columns of the sweep: paths and axes.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The metrics of each run.
    #[must_use]
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The seeds of each point; with a precision, those that it may have.
    #[must_use]
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// The warnings about the first point's scenario.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The number of points.
    #[must_use]
    pub fn points(&self) -> usize {
        self.count
    }

    /// The number of runs. Run `n` is of point `n / seeds` with seed number `n % seeds`.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.count * self.seeds.len()
    }

    /// The point and the seed of a run.
    #[must_use]
    pub fn run(&self, run: usize) -> (usize, u64) {
        (run / self.seeds.len(), self.seeds[run % self.seeds.len()])
    }

    /// The number of runs in a part; the last part may have fewer. It depends on the plan alone.
    pub(crate) fn part_size(&self) -> usize {
        (self.runs() / PARTS).clamp(1, MAX_PART)
    }

    /// All values of a column.
    pub(crate) fn values(&self, column: usize) -> Vec<&Cell> {
        let values = match &self.points {
            Points::Grid(dimensions, _) => dimensions[column].iter().map(Some).collect::<Vec<_>>(),
            Points::Listed(points) => points.iter().map(|point| point[column].as_ref()).collect(),
        };
        values.into_iter().map(|it| it.map_or(&Cell::Null, |choice| &choice.value)).collect()
    }

    /// Whether the points are a whole grid.
    pub(crate) fn is_grid(&self) -> bool {
        self.sample.is_none() && matches!(self.points, Points::Grid(..))
    }

    /// The point of this number.
    ///
    /// # Panics
    /// If there are fewer points.
    #[must_use]
    pub fn point(&self, point: usize) -> Point {
        let choices = self.choices(point);
        let values = choices.iter().map(|it| it.map_or(Cell::Null, |choice| choice.value.clone()));
        let values = values.collect();
        Point { values, overrides: self.overrides(choices.into_iter().flatten()) }
    }

    /// The scenario at a point.
    ///
    /// # Errors
    /// The first mistake in that scenario.
    pub fn parse(&self, point: &Point) -> Result<Scenario, Diagnostic> {
        self.parse_with(&point.overrides).map(|parsed| parsed.scenario)
    }

    fn parse_with(&self, overrides: &Overrides) -> Result<Parsed, Diagnostic> {
        runyard_workload::parse(&self.scenario.file, &self.scenario.text, overrides)
    }

    fn choices(&self, point: usize) -> Vec<Option<&Choice>> {
        assert!(point < self.count, "there are {} points", self.count);
        match &self.points {
            Points::Listed(points) => points[point].iter().map(Option::as_ref).collect(),
            Points::Grid(dimensions, _) => {
                let mut rest = self.sample.as_ref().map_or(point as u64, |drawn| drawn[point]);
                let mut choices = vec![None; dimensions.len()];
                for (at, choices_of) in dimensions.iter().enumerate().rev() {
                    let count = choices_of.len() as u64;
                    choices[at] = Some(&choices_of[(rest % count) as usize]);
                    rest /= count;
                }
                choices
            }
        }
    }

    fn overrides<'c>(&self, choices: impl Iterator<Item = &'c Choice>) -> Overrides {
        let mut over = Overrides {
            unless_said: Model::NEWEST,
            duration: self.duration,
            window: self.window,
            ..Overrides::default()
        };
        for change in choices.flat_map(|choice| &choice.changes) {
            match change {
                Change::Set(setting) => over.settings.push(setting.clone()),
                Change::Switch(switched) => over.features.extend(switched.iter().copied()),
                Change::Kernel(model) => over.kernel = Some(*model),
            }
        }
        over
    }

    /// Checks the scenario of each point, and keeps the warnings of the first one.
    fn check(&mut self) -> Result<(), Diagnostic> {
        /// The number of points that are checked in parallel before the next look for a mistake.
        const TOGETHER: usize = 1024;
        let first = self.point(0);
        self.warnings = match self.parse_with(&first.overrides) {
            Ok(parsed) => parsed.warnings,
            Err(error) => return Err(self.blame(0, error)),
        };
        let points: Vec<usize> = (1..self.count).collect();
        for points in points.chunks(TOGETHER) {
            let mut wrong = None;
            let check = |_: &mut (), at| Some(self.parse(&self.point(at)).err());
            pool::each((pool::cores(), points), &|| false, check, |at, error| {
                let error = error.map(|error| (at, error));
                if wrong.as_ref().is_none_or(|(first, _)| at < *first) {
                    wrong = error.or(wrong.take());
                }
                true
            });
            if let Some((at, error)) = wrong {
                return Err(self.blame(at, error));
            }
        }
        Ok(())
    }

    /// The error for a point whose scenario is wrong. It points at the cause: the scenario, one choice of the point, or
    /// the choices together.
    fn blame(&self, point: usize, error: Diagnostic) -> Diagnostic {
        let alone =
            |choice: Option<&Choice>| self.parse_with(&self.overrides(choice.into_iter())).err();
        if alone(None).is_some_and(|own| own == error) {
            return error;
        }
        let choices: Vec<&Choice> = self.choices(point).into_iter().flatten().collect();
        let own = |error: &Diagnostic| match error.place {
            Where::Text { .. } => error.to_string(),
            Where::Packet { .. } | Where::Setting(_) => error.what.clone(),
        };
        if let Where::Setting(wrong) = &error.place {
            let sets =
                |change: &Change| matches!(change, Change::Set(it) if it.to_string() == *wrong);
            if let Some(choice) = choices.iter().find(|choice| choice.changes.iter().any(sets)) {
                return choice.place.wrong(&error.what);
            }
        }
        for choice in &choices {
            if let Some(error) =
                alone(Some(choice)).filter(|error| alone(None).as_ref() != Some(error))
            {
                return choice.place.wrong(own(&error));
            }
        }
        let named = self.columns.iter().zip(self.point(point).values);
        let named = named.filter(|(_, value)| *value != Cell::Null);
        let named: Vec<String> = named.map(|(name, value)| format!("{name} = {value}")).collect();
        let what = format!("together, {}: {}", named.join(", "), own(&error));
        choices.last().map_or(error, |choice| choice.place.wrong(what))
    }

    /// Takes these metrics, or the usual ones if there are none.
    fn measure(&mut self, metrics: Vec<(Metric, Place)>) -> Result<(), Diagnostic> {
        let names = Names::of(&self.parse(&self.point(0))?);
        let known = Known::new();
        self.metrics = match metrics.is_empty() {
            true => names.usual(),
            false => {
                let checked = |(metric, place): (Metric, Place)| match metric.check(&names, &known)
                {
                    Ok(()) => Ok(metric),
                    Err(what) => Err(place.wrong(what)),
                };
                metrics.into_iter().map(checked).collect::<Result<_, _>>()?
            }
        };
        Ok(())
    }
}

/// The text with spaces outside of `place`, so that the rest keeps its line and column.
fn only(text: &str, place: &std::ops::Range<usize>) -> String {
    let char = |(at, char): (usize, char)| match place.contains(&at) || char == '\n' {
        true => char,
        false => ' ',
    };
    text.char_indices().map(char).collect()
}

/// The points of the sample, if the specification asks for one, and the number of points.
fn drawn(said: &Spec, spec: &Text) -> Result<(Option<Vec<u64>>, usize), Diagnostic> {
    let seeds = said.seeds.len() as u128;
    let too_many = |points: u128| Diagnostic {
        place: Where::Text { file: spec.file.clone(), line: 1, column: 1 },
        what: format!(
            "{points} points with {seeds} seeds are more than {MAX_RUNS} runs; \"sample\" draws some of the points"
        ),
    };
    let within = |points: u128| match points * seeds {
        0..=MAX_RUNS => Ok(points as usize),
        _ => Err(too_many(points)),
    };
    match &said.points {
        Points::Listed(points) => Ok((None, within(points.len() as u128)?)),
        Points::Grid(dimensions, sample) => {
            let sizes = dimensions.iter().map(|choices| choices.len() as u128);
            let size =
                sizes.fold(1_u128, |all, size| all.saturating_mul(size).min(u64::MAX.into()));
            let Some((sample, place)) = sample else { return Ok((None, within(size)?)) };
            if u128::from(*sample) > size {
                return Err(place.wrong(format!("the grid has {size} points only")));
            }
            Ok((Some(sampled(size as u64, *sample)), within((*sample).into())?))
        }
    }
}

/// A sample of `number` numbers below `size`, in ascending order. Every such set is equally probable (Floyd's
/// algorithm).
fn sampled(size: u64, number: u32) -> Vec<u64> {
    let mut random = Pcg64Mcg::new(SAMPLE_SEED);
    let mut drawn = BTreeSet::new();
    for last in size - u64::from(number)..size {
        let one = below(&mut random, last + 1);
        if !drawn.insert(one) {
            drawn.insert(last);
        }
    }
    drawn.into_iter().collect()
}
