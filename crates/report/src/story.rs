//! The story of one late wake-up, for a person: the events in sentences, and part by part the reason why the task did
//! not run.

use crate::names::printable;
use crate::units::span;
use crate::why::{Cause, CauseTimes, DoingReport, Explanation, PartReport};
use runyard_engine::time::Time;
use std::fmt::Write as _;

/// The number of parts that are shown; of a longer wait the longest.
const PARTS: usize = 24;

/// The reason why a task was woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WokenBy {
    /// It was started.
    Start,
    /// Its timer expired.
    Timer,
    /// A request of the arrivals of this name came.
    Request(String),
    /// The task of this name woke it.
    Task(String),
    /// It was not woken: it was runnable, and lost its CPU.
    Lost,
}

const TAKES_ALL: &str = "a string takes all";

/// The story of the wake-up of `task`, which was woken at `woken`. Lines end with a line end.
#[must_use]
pub fn story(task: &str, explanation: &Explanation, by: &WokenBy, woken: Time) -> String {
    let Explanation { worst, parts } = explanation;
    let due = Time(worst.at_ns);
    let mut text = match by {
        WokenBy::Start => format!("{task} was started at {due}.\n"),
        WokenBy::Timer => format!("{task} was to run at {due}, when its timer expired.\n"),
        WokenBy::Request(of) => {
            format!("{task} was to run at {due}, when a request of {} came.\n", printable(of))
        }
        WokenBy::Task(by) => format!("{task} was to run at {due}, as {by} woke it.\n"),
        WokenBy::Lost => {
            format!("{task} left CPU {} at {due}, and could have gone on.\n", worst.cpu)
        }
    };
    let after = woken.since(due).0;
    let late = if after > 0 { format!(" {} later,", span(after)) } else { " At once".to_owned() };
    let late = late.trim_start();
    if *by != WokenBy::Lost {
        writeln!(text, "{late} it was put on CPU {}{}.", worst.cpu, first(parts)).expect(TAKES_ALL);
    }
    let end = Time(worst.at_ns + worst.latency_ns);
    let on = parts.iter().rev().find_map(|part| part.cpu).unwrap_or(worst.cpu);
    let latency = span(worst.latency_ns);
    match by {
        WokenBy::Lost => writeln!(text, "It ran again at {end} on CPU {on}, {latency} later."),
        _ => writeln!(text, "It ran at {end} on CPU {on}, {latency} late."),
    }
    .expect(TAKES_ALL);
    let mut sums = CauseTimes::default();
    for part in parts {
        part.cause.into_iter().for_each(|cause| sums[cause] += part.span_ns());
    }
    if let Some(&(cause, most)) = sums.longest().first() {
        let phrase = match parts.iter().find_map(|part| part.group.as_ref()) {
            Some(group) if cause == Cause::Throttled => format!("{group}'s budget was used up"),
            _ => cause.entry().phrase.to_owned(),
        };
        writeln!(text, "Most of that, {}: {phrase}.", span(most)).expect(TAKES_ALL);
    }
    text.push('\n');
    let mut longest: Vec<_> = parts.iter().map(PartReport::span_ns).collect();
    longest.sort_unstable_by(|a, b| b.cmp(a));
    let least = longest.get(PARTS - 1).copied().unwrap_or(0);
    for part in parts.iter().filter(|part| part.span_ns() >= least) {
        let (from, took) = (part.from_ns - worst.at_ns, part.span_ns());
        let line = format!("  +{:<10} {:>10}  {}", span(from), span(took), told(part));
        writeln!(text, "{}", line.trim_end()).expect(TAKES_ALL);
    }
    text
}

/// The activity of the CPU on which the task was put.
fn first(parts: &[PartReport]) -> String {
    let part = parts.iter().find(|part| part.cpu.is_some());
    match part.map(|part| (part.doing, &part.task)) {
        Some((Some(DoingReport::Task), Some(task))) => format!(", which ran {task}"),
        Some((Some(DoingReport::Idle), _)) => ", which was idle".to_owned(),
        Some((Some(DoingReport::ForcedIdle), _)) => ", which was forced idle".to_owned(),
        _ => String::new(),
    }
}

/// The text of one part.
fn told(part: &PartReport) -> String {
    let Some(cpu) = part.cpu else {
        return match part.cause {
            Some(Cause::TimerSlack) => "the slack of its timer".to_owned(),
            _ => "the scheduler, before the wake-up".to_owned(),
        };
    };
    let doing = match (part.doing, &part.task) {
        (Some(DoingReport::Task), Some(task)) => format!("ran {task}"),
        (Some(DoingReport::Idle), _) if part.group.is_some() => "was idle".to_owned(),
        (Some(DoingReport::Idle), _) => "was about to leave its idle state".to_owned(),
        (Some(DoingReport::ForcedIdle), _) => "was forced idle".to_owned(),
        (Some(DoingReport::Scheduler), _) => "worked for the scheduler".to_owned(),
        _ => "did what is not known any more".to_owned(),
    };
    if part.cause == Some(Cause::Migration) {
        return format!("on its way to CPU {cpu}");
    }
    if let Some(group) = &part.group {
        return format!("CPU {cpu} {doing}: {group} was throttled there");
    }
    let free = part.free_cpu.map_or_else(|| "another".to_owned(), |free| format!("CPU {free}"));
    let why = part.cause.map_or("", |cause| cause.entry().part).replace("{free}", &free);
    format!("CPU {cpu} {doing}{why}")
}

impl PartReport {
    fn span_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::WorstReport;

    #[test]
    fn a_wait_is_told_from_its_cause_to_its_end() {
        let part = |from_ns, to_ns, cpu, task: Option<&str>, cause| PartReport {
            from_ns,
            to_ns,
            cpu,
            doing: cpu.map(|_| DoingReport::Task),
            task: task.map(str::to_owned),
            cause: Some(cause),
            group: None,
            free_cpu: (cause == Cause::Affinity).then_some(5),
        };
        let worst = WorstReport {
            at_ns: 1_000_000,
            latency_ns: 2_000_000,
            cpu: 2,
            cause: Some(Cause::ProtectedSlice),
            ..WorstReport::default()
        };
        let parts = vec![
            part(1_000_000, 1_050_000, None, None, Cause::TimerSlack),
            part(1_050_000, 2_500_000, Some(2), Some("batch"), Cause::ProtectedSlice),
            part(2_500_000, 3_000_000, Some(2), Some("rt"), Cause::Affinity),
        ];
        let told = story("web-3", &Explanation { worst, parts }, &WokenBy::Timer, Time(1_050_000));
        let wanted = [
            "web-3 was to run at 0.001000000 s, when its timer expired.",
            "50.0 us later, it was put on CPU 2, which ran batch.",
            "It ran at 0.003000000 s on CPU 2, 2.00 ms late.",
            "Most of that, 1.45 ms: the running task comes after it, but its slice is protected.",
            "the slack of its timer",
            "CPU 2 ran batch, which comes after it but keeps its slice",
            "CPU 2 ran rt; CPU 5 was free, where it may not run",
        ];
        for line in wanted {
            assert!(told.contains(line), "{line}\n{told}");
        }
    }
}
