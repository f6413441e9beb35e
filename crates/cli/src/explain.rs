//! `runyard explain`: why a task was late, or the slowest token of a chain.
//!
//! The scenario is simulated twice. The first run finds the wake-up, the second, which is the same to the nanosecond, tells
//! that one part by part and keeps the events of its time. For a chain a run between the two finds how long each task of the
//! slowest token waited; the longest of these wake-ups is the one that is told.

mod chain;
mod watch;

use crate::exit::Done;
use crate::options::{HostOptions, span};
use crate::output;
use chain::{Hop, Slow};
use clap::Args;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::Failure;
use runyard_report::{Explanation, HopReport, Report, WokenBy, story, timeline};
use runyard_sim::{Options, Outcome, Sim};
use runyard_sweep::info;
use runyard_workload::{Scenario, advice};
use serde::Serialize;
use std::io::Write;
use watch::Watcher;

/// The arguments of `runyard explain`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
    /// The task, or a thread of several instances.
    #[arg(long, value_name = "NAME", required_unless_present = "chain")]
    task: Option<String>,
    /// The wake-up that was due nearest to this moment of the run, as 7.16s; else the one that took longest
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "task")]
    at: Option<Nanos>,
    /// The chain, instead of a task: what took longest from its first task to its last.
    #[arg(long, value_name = "NAME", conflicts_with = "task")]
    chain: Option<String>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Told<'a> {
    schema: &'static str,
    task: &'a str,
    woken_at_ns: u64,
    woken_by: Option<&'a str>,
    /// The token of which the wake-up is a part, if a chain was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<&'a Slow<'a>>,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let host = &arguments.host;
    if host.has_files() {
        return Err(Failure::input("explain: --trace, --html and --log are of `runyard sim`"));
    }
    let parsed = host.read()?;
    let scenario = &parsed.scenario;
    let (wakeup, slow) = match (&arguments.chain, &arguments.task) {
        (Some(chain), _) => {
            let (wakeup, slow) = slowest(scenario, host.seed, chain)?;
            (wakeup, Some(slow))
        }
        (None, Some(task)) => (choose(scenario, host.seed, (task, arguments.at))?, None),
        (None, None) => unreachable!("one of both is asked for"),
    };
    let mut second = Watcher::of(scenario, wakeup);
    let (task, since) = wakeup;
    let outcome = simulate(scenario, host.seed, &mut second)?;
    let name = |task: TaskId| outcome.tasks[task.index()].name.clone();
    let Some(explanation) = second.accounts.explanation(&name) else {
        let what = format!("explain: {} still waited when the run ended", name(task));
        return Err(Failure::input(what));
    };
    let Some((woken, by)) = second.woken else { unreachable!("who waited was woken") };
    let by = match (by, since) {
        (Some(by), _) => WokenBy::Task(name(by)),
        (None, _) if second.is_start => WokenBy::Start,
        (None, _) => WokenBy::Timer,
    };
    let told = Told {
        schema: "runyard.explain/1",
        task: &name(task),
        woken_at_ns: woken.0,
        woken_by: match &by {
            WokenBy::Task(by) => Some(by),
            WokenBy::Start | WokenBy::Timer => None,
        },
        chain: slow.as_ref(),
        explanation: &explanation,
    };
    let text = match host.json {
        true => serde_json::to_string_pretty(&told).expect("it is plain") + "\n",
        false => {
            let events = second.drawn(&explanation);
            let story = story(told.task, &explanation, &by, woken);
            let slow = slow
                .as_ref()
                .map(|slow| slow.text() + "\nThe longest wait for a CPU after a wake-up:\n\n");
            format!("{}{story}\n{}", slow.unwrap_or_default(), timeline(&events, &name))
        }
    };
    output::report(|out| out.write_all(text.as_bytes()))?;
    Ok(Done::Well)
}

/// Which wake-up of a task is to be told.
fn choose(
    scenario: &Scenario,
    seed: u64,
    (wanted, at): (&str, Option<Nanos>),
) -> Result<(TaskId, Time), Failure> {
    let at = at.map(|at| Time::ZERO + at);
    let mut first = Watcher::named(scenario, wanted, at);
    let outcome = simulate(scenario, seed, &mut first)?;
    if first.wanted.is_empty() {
        let names: Vec<_> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
        let near = advice(wanted, &names);
        return Err(Failure::input(format_args!("explain: no task is called {wanted:?}{near}")));
    }
    if let Some(at) = at.filter(|&at| at > outcome.end) {
        let end = outcome.end;
        return Err(Failure::input(format_args!("--at {at}: the run ends at {end}")));
    }
    let nobody = || Failure::input(format_args!("explain: {wanted:?} was never woken"));
    if at.is_some() {
        return first.nearest.map(|(_, task, since)| (task, since)).ok_or_else(nobody);
    }
    let end = outcome.end;
    let totals = first.accounts.finish(end);
    let report = Report::new(info(scenario, outcome, None), &totals);
    let worst = (0..).map(TaskId).zip(&report.tasks).filter(|(id, _)| first.wanted.contains(id));
    let worst = worst.filter_map(|(id, task)| Some((task.worst.first()?, id)));
    let longest = worst.max_by_key(|(worst, id)| (worst.latency_ns, std::cmp::Reverse(*id)));
    longest.map(|(worst, id)| (id, Time(worst.at_ns))).ok_or_else(nobody)
}

/// The longest wait within the slowest token of a chain, and the token.
fn slowest<'a>(
    scenario: &Scenario,
    seed: u64,
    chain: &'a str,
) -> Result<((TaskId, Time), Slow<'a>), Failure> {
    let mut first = Watcher::following(scenario);
    let outcome = simulate(scenario, seed, &mut first)?;
    let name = |task: TaskId| outcome.tasks[task.index()].name.clone();
    let reports = first.chains.map_or_else(Vec::new, |chains| chains.reports(name));
    let Some(report) = reports.iter().find(|report| report.name == chain) else {
        let names: Vec<_> = reports.iter().map(|report| report.name.as_str()).collect();
        let near = advice(chain, &names);
        return Err(Failure::input(format_args!("explain: no chain is called {chain:?}{near}")));
    };
    let Some(slow) = report.worst.first() else {
        let what = format!("explain: nothing came to the end of the chain {chain:?}");
        return Err(Failure::Input(what));
    };
    let numbers = |name: &str| outcome.tasks.iter().position(|task| task.name == name);
    let hop = |(hop, end): (&HopReport, u64)| {
        Some(Hop::new(TaskId(numbers(&hop.task)? as u64), Time(hop.at_ns), Time(end)))
    };
    let mut second = Watcher::new(scenario);
    second.hops = slow.hops_with_ends().filter_map(hop).collect();
    simulate(scenario, seed, &mut second)?;
    let longest = second.hops.iter().rev().max_by_key(|hop| hop.wait()).expect("a token has tasks");
    Ok(((longest.task, longest.at), Slow::new(chain, slow, &second.hops)))
}

/// Simulates the scenario to its end.
fn simulate(scenario: &Scenario, seed: u64, watcher: &mut Watcher<'_>) -> Result<Outcome, Failure> {
    let options = Options { seed, explain: true, ..Options::default() };
    let sim = Sim::new(scenario, options, watcher).map_err(Failure::input)?;
    Ok(sim.run())
}

/// Reads a moment of a run: a number, of which decimals are allowed, and us, ms or s.
fn moment(text: &str) -> Result<Nanos, String> {
    let bad = || "a moment is a number and us, ms or s, as 7.16s".to_owned();
    let Some((whole, rest)) = text.split_once('.') else {
        return span(text).or_else(|_| if text == "0s" { Ok(Nanos::ZERO) } else { Err(bad()) });
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (decimals, unit) = rest.split_at(digits);
    let places = match unit {
        "us" => 3,
        "ms" => 6,
        "s" => 9,
        _ => return Err(bad()),
    };
    if decimals.is_empty() || decimals.len() > places {
        return Err(bad());
    }
    let number = format!("{whole}{decimals:0<places$}");
    let is_number = !whole.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_number).map(Nanos).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_may_have_decimals() {
        assert_eq!(moment("7.16s"), Ok(Nanos(7_160_000_000)));
        assert_eq!(moment("12.5us"), Ok(Nanos(12_500)));
        assert_eq!(moment("250ms"), Ok(Nanos::from_millis(250)));
        for bad in ["", "7.16", ".5s", "7.s", "1.0000us", "-1.5s", "1.5m", "1.x5s"] {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }
}
