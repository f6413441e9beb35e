//! A figure of a report by its name: `p99(tasks.web.wakeup_latency)`, `machine.utilization`, `share(tasks.web)`.
//!
//! The grammar is `METRIC = FIELD | STAT(FIELD) | STAT(FIELD, SPAN)`. A field is `machine.KEY`, `tasks.NAME.KEY`, `groups.NAME.KEY` or
//! `chains.NAME.KEY`, written like the path of a setting. A thread's name stands for all its instances together: their
//! counters are added up, their distributions are merged. `share` and `missed` take a thread, a task group or a chain
//! itself. Of a distribution there is each quantile of per cent with up to four decimals: `p95`, `p99.99`. The names
//! `p50`, `p90`, `p99` and `p999` (99.9 %) are those of the report's fields. A distribution may be that of a span of the
//! run, as `p99(tasks.web.wakeup_latency, 30s..60s)`.

use crate::cell::Cell;
use crate::rows::{Figures, Folded, Known};
use crate::simulated::Whole;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{Histogram, MetricUnit};
use runyard_workload::setting::{Path, Segment};
use runyard_workload::{Scenario, advice, moment, moment_text};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A figure of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    stat: Option<Stat>,
    of: Of,
    /// The name of the thread, the task group or the chain; `None` for the machine.
    name: Option<String>,
    /// The field; `None` for a metric of the whole thing.
    key: Option<String>,
    /// The span of the run whose latencies count; `None` for those that the report has.
    span: Option<Range<Time>>,
}

/// The statistic that is made of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stat {
    /// The value that so many millionths do not exceed.
    Quantile(u32),
    Max,
    Mean,
    Min,
    Sum,
    Share,
    Missed,
}

/// The kind of thing that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Machine,
    Tasks,
    Groups,
    Chains,
}

const P50: Stat = Stat::Quantile(500_000);
const P99: Stat = Stat::Quantile(990_000);

const STATS: [(Stat, &str); 10] = [
    (P50, "p50"),
    (Stat::Quantile(900_000), "p90"),
    (P99, "p99"),
    (Stat::Quantile(999_000), "p999"),
    (Stat::Max, "max"),
    (Stat::Mean, "mean"),
    (Stat::Min, "min"),
    (Stat::Sum, "sum"),
    (Stat::Share, "share"),
    (Stat::Missed, "missed"),
];

/// The names of quantiles, in words.
const QUANTILES: &str =
    "after p comes a number above 0 and below 100 with up to four decimals, as p95 or p99.99";

/// One per cent in millionths.
const PERCENT: u32 = 10_000;

const OFS: [(Of, &str); 4] = [
    (Of::Machine, "machine"),
    (Of::Tasks, "tasks"),
    (Of::Groups, "groups"),
    (Of::Chains, "chains"),
];

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (STATS.iter().find(|(stat, _)| stat == self), *self) {
            (None, Stat::Quantile(millionths)) => {
                let (percent, decimals) = (millionths / PERCENT, millionths % PERCENT);
                let decimals = format!("{decimals:04}");
                match decimals.trim_end_matches('0') {
                    "" => write!(f, "p{percent}"),
                    decimals => write!(f, "p{percent}.{decimals}"),
                }
            }
            (known, _) => f.write_str(known.expect("all others have a name").1),
        }
    }
}

impl FromStr for Stat {
    type Err = String;

    fn from_str(name: &str) -> Result<Stat, String> {
        let is_known = STATS.iter().any(|(_, other)| *other == name);
        let begins = |rest: &&str| rest.starts_with(|c: char| c == '.' || c.is_ascii_digit());
        match name.strip_prefix('p').filter(begins).filter(|_| !is_known) {
            Some(number) => {
                quantile(number).ok_or_else(|| format!("{name:?} is no quantile: {QUANTILES}"))
            }
            None => by_name(&STATS, name, "statistic"),
        }
    }
}

/// Reads a number of per cent as a quantile.
fn quantile(number: &str) -> Option<Stat> {
    let (percent, decimals) = match number.split_once('.') {
        Some((percent, decimals)) => {
            (percent, (1..=4).contains(&decimals.len()).then_some(decimals)?)
        }
        None => (number, "0"),
    };
    let is_number =
        !percent.is_empty() && number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let millionths = format!("{percent}{decimals:0<4}").parse().ok().filter(|_| is_number)?;
    (1..100 * PERCENT).contains(&millionths).then_some(Stat::Quantile(millionths))
}

impl Stat {
    /// Whether a distribution has this statistic.
    fn is_of_distributions(self) -> bool {
        matches!(self, Stat::Quantile(_) | Stat::Max | Stat::Mean | Stat::Min)
    }

    /// Its value in nanoseconds.
    fn of(self, latencies: &Histogram) -> Option<f64> {
        let span = match self {
            Stat::Quantile(millionths) => latencies.quantile(millionths),
            Stat::Max => latencies.max(),
            Stat::Mean => latencies.mean(),
            Stat::Min => latencies.min(),
            Stat::Sum | Stat::Share | Stat::Missed => None,
        };
        span.map(|span| span.0 as f64)
    }

    fn is_of_counters(self) -> bool {
        matches!(self, Stat::Sum | Stat::Mean | Stat::Min | Stat::Max)
    }

    /// The kinds of things that have this statistic as a whole.
    fn wholes(self) -> &'static [Of] {
        match self {
            Stat::Share => &[Of::Tasks, Of::Groups],
            Stat::Missed => &[Of::Tasks, Of::Chains],
            _ => &[],
        }
    }
}

/// The names of a scenario that metrics may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    tasks: Vec<String>,
    instances: Vec<(String, u32)>,
    groups: Vec<String>,
    chains: Vec<String>,
    duration: Option<Nanos>,
}

impl Names {
    pub(crate) fn of(scenario: &Scenario) -> Names {
        let several = scenario.tasks.iter().filter(|task| task.instances > 1);
        Names {
            tasks: scenario.tasks.iter().map(|task| task.name.clone()).collect(),
            instances: several.map(|task| (task.name.clone(), task.instances)).collect(),
            groups: scenario.groups.iter().map(|group| group.path.clone()).collect(),
            chains: scenario.chains.iter().map(|chain| chain.name.clone()).collect(),
            duration: scenario.duration,
        }
    }

    fn all(&self, of: Of) -> &[String] {
        match of {
            Of::Machine => &[],
            Of::Tasks => &self.tasks,
            Of::Groups => &self.groups,
            Of::Chains => &self.chains,
        }
    }

    fn has(&self, of: Of, name: &str) -> bool {
        let instance = || {
            let (thread, nth) = name.rsplit_once('-')?;
            let nth: u32 = nth.parse().ok()?;
            self.instances.iter().find(|(name, count)| name == thread && nth < *count)
        };
        self.all(of).iter().any(|other| other == name) || (of == Of::Tasks && instance().is_some())
    }

    /// The metrics of a comparison without metrics, of names that both scenarios have: p99 of the first chains, or of the
    /// first threads' wake-ups without a chain, and the share of the first threads.
    pub(crate) fn main([one, other]: &[Names; 2]) -> Vec<Metric> {
        /// The number of metrics of a kind. Each metric takes more seeds.
        const OF_A_KIND: usize = 5;
        let common = |of| {
            one.all(of).iter().filter(move |name| other.all(of).contains(name)).take(OF_A_KIND)
        };
        let (of, key) = match common(Of::Chains).next() {
            Some(_) => (Of::Chains, "latency"),
            None => (Of::Tasks, "wakeup_latency"),
        };
        let delays = common(of).map(|name| part(P99, of, name, key));
        let shares = common(Of::Tasks).map(|name| whole(Stat::Share, Of::Tasks, name));
        delays.chain(shares).collect()
    }

    /// The metrics of a specification without metrics: those of the first threads, without task groups.
    pub(crate) fn usual(&self) -> Vec<Metric> {
        /// The number of these threads.
        const THREADS: usize = 10;
        let mut metrics = Vec::new();
        for chain in self.chains.iter().take(THREADS) {
            metrics.push(part(P50, Of::Chains, chain, "latency"));
            metrics.push(part(P99, Of::Chains, chain, "latency"));
            metrics.push(whole(Stat::Missed, Of::Chains, chain));
        }
        let key = Some("utilization".to_owned());
        metrics.push(Metric { stat: None, of: Of::Machine, name: None, key, span: None });
        for task in self.tasks.iter().take(THREADS) {
            metrics.push(part(P50, Of::Tasks, task, "wakeup_latency"));
            metrics.push(part(P99, Of::Tasks, task, "wakeup_latency"));
            metrics.push(whole(Stat::Share, Of::Tasks, task));
        }
        metrics
    }
}

/// A statistic of the whole thing.
fn whole(stat: Stat, of: Of, name: &str) -> Metric {
    Metric { stat: Some(stat), of, name: Some(name.to_owned()), key: None, span: None }
}

/// A statistic of a field.
fn part(stat: Stat, of: Of, name: &str, key: &str) -> Metric {
    Metric { key: Some(key.to_owned()), ..whole(stat, of, name) }
}

impl Metric {
    /// # Errors
    /// The reason why no report of a scenario with such `names` has this metric.
    pub(crate) fn check(&self, names: &Names, known: &Known) -> Result<(), String> {
        if let Some(name) = self.name.as_deref().filter(|name| !names.has(self.of, name)) {
            let right: Vec<&str> = names.all(self.of).iter().map(String::as_str).collect();
            let of = named(&OFS, self.of);
            return Err(format!("the scenario's {of} have no {name:?}{}", advice(name, &right)));
        }
        let fields = match self.of {
            Of::Machine => &known.machine,
            Of::Tasks => &known.task,
            Of::Groups => &known.group,
            Of::Chains => &known.chain,
        };
        self.check_span(names.duration)?;
        self.key.as_ref().map_or(Ok(()), |key| self.check_key(key, fields))
    }

    fn check_span(&self, duration: Option<Nanos>) -> Result<(), String> {
        let Some(span) = &self.span else { return Ok(()) };
        match self.key.as_deref() {
            Some("wakeup_latency" | "latency") => {}
            _ => return Err("a span is of a wakeup_latency or a latency; --from and --until give a report of a part of the run".to_owned()),
        }
        match duration.filter(|&end| span.end > Time::ZERO + end) {
            Some(end) => Err(format!("{} is not within the run, which ends at {end}", shown(span))),
            None => Ok(()),
        }
    }

    fn check_key(&self, key: &str, fields: &Folded) -> Result<(), String> {
        let is_distribution = fields.all(&format!("{key}_p50_ns")).is_some();
        match (self.stat, fields.all(key)) {
            (None, _) if is_distribution => Err(format!(
                "{key:?} is a distribution: one of it is p50, p99.9 or any other quantile, max, mean, min, as p99({self})"
            )),
            (Some(stat), _) if is_distribution => match stat.is_of_distributions() {
                true => Ok(()),
                false => Err(format!("{key:?} is a distribution, which has no {stat}")),
            },
            (_, Some(Cell::Text(_))) => Err(format!("{key:?} is no number")),
            (Some(stat), Some(_)) if !stat.is_of_counters() => Err(format!(
                "{key:?} is a counter: of it there are sum, mean, min and max, no {stat}"
            )),
            (_, Some(_)) => Ok(()),
            (_, None) => {
                let whole = |name: &str| name.strip_suffix("_p50_ns").map(str::to_owned);
                let right: Vec<String> = fields
                    .names()
                    .filter(|(_, cell)| !matches!(cell, Cell::Text(_)))
                    .filter_map(|(name, _)| match name.rsplit_once("_p50_ns") {
                        Some(_) => whole(name),
                        None => Some(name.to_owned()),
                    })
                    .collect();
                let right: Vec<&str> = right.iter().map(String::as_str).collect();
                Err(format!("there is no {key:?} in a report{}", advice(key, &right)))
            }
        }
    }

    /// The unit of the metric's numbers.
    pub(crate) fn unit(&self) -> MetricUnit {
        match (self.stat, self.key.as_deref()) {
            (Some(Stat::Share), _) => MetricUnit::Percent,
            (_, Some("utilization")) => MetricUnit::Share,
            (_, Some("wakeup_latency" | "latency")) => MetricUnit::Span,
            (_, Some(key)) if key.ends_with("_ns") => MetricUnit::Span,
            (_, Some(key)) if key.starts_with("waits_") || key.starts_with("wasted_") => {
                MetricUnit::Span
            }
            _ => MetricUnit::Number,
        }
    }

    /// Whether the metric is a delay, of which less is better.
    pub(crate) fn is_delay(&self) -> bool {
        matches!(
            self.key.as_deref(),
            Some("wakeup_latency" | "latency" | "wait_ns" | "throttled_ns")
        )
    }

    /// The value of the metric in a run; `None` if the run has none. Spans are nanoseconds, shares are per cent of one
    /// CPU. `figures` are those of the run's report.
    pub(crate) fn of(&self, run: &Whole, figures: &Figures) -> Option<f64> {
        let name = self.name.as_deref().unwrap_or_default();
        let latencies = match (self.of, self.key.as_deref()) {
            (Of::Tasks, Some("wakeup_latency")) => run.wakeup_latencies(name, self.span.as_ref()),
            (Of::Chains, Some("latency")) => run.chain_latencies(name, self.span.as_ref()),
            _ => None,
        };
        if let (Some(stat), Some(latencies)) = (self.stat, latencies) {
            return stat.of(&latencies);
        }
        let find = |all| Folded::find(all, name).map(Cow::Borrowed);
        let thing = match self.of {
            Of::Machine => Some(Cow::Borrowed(&figures.machine)),
            Of::Tasks => figures.task(name),
            Of::Groups => find(&figures.groups),
            Of::Chains => find(&figures.chains),
        }?;
        match (self.stat, &self.key) {
            (Some(Stat::Share), _) => {
                let all = Some(run.report.duration_ns).filter(|&all| all > 0)? as f64;
                Some(100.0 * thing.all("runtime_ns")?.number()? / all)
            }
            (Some(Stat::Missed), _) => thing.all("missed")?.number(),
            (stat, Some(key)) => figure(&thing, stat, key),
            (_, None) => None,
        }
    }
}

fn figure(thing: &Folded, stat: Option<Stat>, key: &str) -> Option<f64> {
    let cell = match stat {
        Some(Stat::Min) => thing.least(key),
        Some(Stat::Max) => thing.most(key),
        _ => thing.all(key),
    };
    let number = cell?.number()?;
    Some(if stat == Some(Stat::Mean) { number / thing.count as f64 } else { number })
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stat) = self.stat {
            write!(f, "{stat}(")?;
        }
        f.write_str(named(&OFS, self.of))?;
        for part in [&self.name, &self.key].into_iter().flatten() {
            write!(f, ".{}", Segment { key: part.clone(), nth: 1 })?;
        }
        if let Some(span) = &self.span {
            write!(f, ", {}", shown(span))?;
        }
        if self.stat.is_some() { f.write_str(")") } else { Ok(()) }
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        // A name in quotes may have brackets too. The bracket after a statistic's name comes before all quotes.
        let bracket = text.find('(').filter(|&at| !text[..at].contains('"'));
        let (stat, field, span) = match bracket {
            None => (None, text, None),
            Some(at) => {
                let inside = text[at + 1..].strip_suffix(')');
                let field = inside.ok_or_else(|| format!("{text:?} has no ) at its end"))?;
                // A comma before a quote is within a name.
                let parts = field.rsplit_once(',').filter(|(_, span)| !span.contains('"'));
                let (field, span) = match parts {
                    Some((field, span)) => (field, Some(read_span(span.trim())?)),
                    None => (field, None),
                };
                (Some(text[..at].parse()?), field, span)
            }
        };
        let path: Path = field.parse()?;
        if let Some(odd) = path.segments().iter().find(|segment| segment.nth > 1) {
            return Err(format!("{odd}: no field repeats"));
        }
        let parts: Vec<&str> = path.segments().iter().map(|segment| &*segment.key).collect();
        let of = by_name(&OFS, parts[0], "kind of figure")?;
        let (name, key) = parts_of(stat, of, &parts[1..])?;
        Ok(Metric { stat, of, name, key, span })
    }
}

/// The spans of all metrics.
pub(crate) fn spans(metrics: &[Metric]) -> Vec<Range<Time>> {
    let mut spans: Vec<_> = metrics.iter().filter_map(|metric| metric.span.clone()).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    spans.dedup();
    spans
}

fn read_span(text: &str) -> Result<Range<Time>, String> {
    let ends = text.split_once("..").and_then(|(from, until)| {
        Some(Time::ZERO + moment(from).ok()?..Time::ZERO + moment(until).ok()?)
    });
    let ends = ends.filter(|span| span.start < span.end);
    ends.ok_or_else(|| format!("{text:?} is no span of the run: it is as 30s..60s"))
}

fn shown(span: &Range<Time>) -> String {
    let [from, until] = [span.start, span.end].map(|at| moment_text(at.since(Time::ZERO)));
    format!("{from}..{until}")
}

/// The name and the key in a field, after the kind of thing.
fn parts_of(
    stat: Option<Stat>,
    of: Of,
    parts: &[&str],
) -> Result<(Option<String>, Option<String>), String> {
    let owned = |text: &str| Some(text.to_owned());
    let kind = named(&OFS, of);
    let wholes = stat.map(Stat::wholes).unwrap_or_default();
    match (of, parts) {
        (of, [name]) if wholes.contains(&of) => Ok((owned(name), None)),
        _ if !wholes.is_empty() => {
            let right: Vec<_> =
                wholes.iter().map(|&of| format!("{}.NAME", named(&OFS, of))).collect();
            Err(format!(
                "{} is of {}",
                stat.map_or(String::new(), |stat| stat.to_string()),
                right.join(" or ")
            ))
        }
        (Of::Machine, [key]) => Ok((None, owned(key))),
        (Of::Machine, _) => Err("a figure of the machine is machine.KEY".to_owned()),
        (_, [name, key]) => Ok((owned(name), owned(key))),
        _ => Err(format!("a figure of {kind} is {kind}.NAME.KEY")),
    }
}

fn by_name<T: Copy>(all: &[(T, &'static str)], name: &str, what: &str) -> Result<T, String> {
    let found = all.iter().find(|(_, other)| *other == name);
    found.map(|(it, _)| *it).ok_or_else(|| {
        let right: Vec<&str> = all.iter().map(|(_, name)| *name).collect();
        format!("there is no {what} {name:?}{}", advice(name, &right))
    })
}

fn named<T: Copy + PartialEq>(all: &[(T, &'static str)], it: T) -> &'static str {
    all.iter().find(|(other, _)| *other == it).expect("each has a name").1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> Names {
        Names {
            tasks: vec!["web".into(), "a.b".into(), "pool".into()],
            instances: vec![("pool".into(), 3)],
            groups: vec!["/".into(), "/web".into()],
            chains: vec![],
            duration: Some(Nanos::from_secs(60)),
        }
    }

    fn checked(text: &str) -> Result<(), String> {
        text.parse::<Metric>()?.check(&names(), &Known::new())
    }

    #[test]
    fn the_right_ones_are_taken() {
        for text in [
            "machine.utilization",
            "machine.cpu_overhead_ns",
            "p99(tasks.web.wakeup_latency)",
            "p999(tasks.web.wakeup_latency)",
            "p5(tasks.web.wakeup_latency)",
            "p99.99(tasks.web.wakeup_latency)",
            "p99(tasks.web.wakeup_latency, 30s..60s)",
            "max(tasks.\"a.b\".wakeup_latency, 1.5s..1.501s)",
            "p0.0001(tasks.web.wakeup_latency)",
            "max(tasks.\"a.b\".wakeup_latency)",
            "tasks.pool.migrations",
            "max(tasks.pool.migrations)",
            "tasks.pool-2.migrations",
            "share(tasks.web)",
            "share(groups./web)",
            "groups./web.throttled_ns",
        ] {
            assert_eq!(checked(text), Ok(()), "{text}");
            assert_eq!(text.parse::<Metric>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_nearest_right_one_is_told() {
        for (text, what) in [
            (
                "p99(tasks.wbe.wakeup_latency)",
                "the scenario's tasks have no \"wbe\"; did you mean \"web\"?",
            ),
            (
                "p99(tasks.web.wakeup_latencies)",
                "no \"wakeup_latencies\" in a report; did you mean \"wakeup_latency\"?",
            ),
            ("tasks.web.wakeup_latency", "is a distribution: one of it is p50, "),
            ("sum(tasks.web.wakeup_latency)", "is a distribution, which has no sum"),
            (
                "p99(tasks.web.switches)",
                "is a counter: of it there are sum, mean, min and max, no p99",
            ),
            ("tasks.web.policy", "\"policy\" is no number"),
            ("max9(tasks.web.wakeup_latency)", "no statistic \"max9\"; did you mean \"max\"?"),
            (
                "p0(tasks.web.wakeup_latency)",
                "\"p0\" is no quantile: after p comes a number above 0 and below 100",
            ),
            ("p100(tasks.web.wakeup_latency)", "\"p100\" is no quantile: "),
            ("p99.99999(tasks.web.wakeup_latency)", "with up to four decimals, as p95 or p99.99"),
            ("p9x(tasks.web.wakeup_latency)", "\"p9x\" is no quantile: "),
            ("p.5(tasks.web.wakeup_latency)", "\"p.5\" is no quantile: "),
            ("p+5(tasks.web.wakeup_latency)", "no statistic \"p+5\""),
            (
                "p99(tasks.web.wakeup_latency, 3s)",
                "\"3s\" is no span of the run: it is as 30s..60s",
            ),
            ("p99(tasks.web.wakeup_latency, 3s..2s)", "\"3s..2s\" is no span of the run"),
            (
                "p99(tasks.web.wakeup_latency, 30s..60.5s)",
                "30s..60.5s is not within the run, which ends at 60",
            ),
            ("sum(tasks.web.switches, 1s..2s)", "a span is of a wakeup_latency or a latency"),
            ("share(tasks.web, 1s..2s)", "a span is of a wakeup_latency or a latency"),
            ("task.web.switches", "no kind of figure \"task\"; did you mean \"tasks\"?"),
            ("share(machine.utilization)", "share is of tasks.NAME or groups.NAME"),
            ("missed(groups./web)", "missed is of tasks.NAME or chains.NAME"),
            ("tasks.web", "a figure of tasks is tasks.NAME.KEY"),
            ("machine.a.b", "a figure of the machine is machine.KEY"),
            ("p99(tasks.web.wakeup_latency", "has no ) at its end"),
            ("tasks.pool-3.migrations", "the scenario's tasks have no \"pool-3\""),
            ("tasks.web.run#2", "no field repeats"),
            ("", "a key is missing"),
        ] {
            let said = checked(text).unwrap_err();
            assert!(said.contains(what), "{text}: {said}");
        }
    }

    #[test]
    fn a_quantile_has_one_name() {
        for (text, name) in [
            ("p99.9", "p999"),
            ("p50.0", "p50"),
            ("p05", "p5"),
            ("p99.90", "p999"),
            ("p95.50", "p95.5"),
        ] {
            assert_eq!(text.parse::<Stat>().unwrap().to_string(), name);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(stat in 0_usize..9, part in 1..100 * PERCENT, at in 0..u64::MAX / 2, name in "[ -~]{1,8}", key in "[a-z_]{1,6}") {
            let stat = match STATS.get(stat) {
                Some(&(Stat::Quantile(_), _)) => Some(Stat::Quantile(part)),
                known => known.map(|(stat, _)| *stat).filter(|stat| stat.wholes().is_empty()),
            };
            let span = stat.is_some().then(|| Time(at)..Time(at + u64::from(part)));
            let metric = Metric { stat, of: Of::Tasks, name: Some(name), key: Some(key), span };
            prop_assert_eq!(metric.to_string().parse(), Ok(metric));
        }
    }
}
