//! The text of an imported scenario, which a person can read and change. Each event is on a line of its own.

use super::figures::{Delays, Recorded, Statistics};
use super::lives::LifeId;
use super::program::{Event, Program, Stretch};
use super::snapshot::Seat;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The header of every imported scenario.
const ABOUT: &str = "\
// `run` is the time that a task executed between two events. It includes the kernel's work for the
// task and the switches to it, so these cost nothing here. Interrupts are late by the time that the
// recorded machine took to run a woken task on an idle CPU. `sem_wait` is a sleep that another task
// ended by its `sem_post`. `fork` is where a task made another one. `timer` is a sleep that a clock,
// the network or an unknown waker ended at the recorded time. `sleep` is a wait for a device, which
// takes the recorded time. A task that was runnable when the recording ended wanted more CPU time
// than it got: its last `run` goes on until the replay ends, which takes as long as the recording.
";

/// The groups by their paths, with their keys and values.
type Groups<'s> = BTreeMap<&'s str, BTreeMap<&'static str, String>>;

/// Returns the scenario of these programs. Each has its recorded figures.
pub(super) fn scenario(
    file: &str,
    statistics: &Statistics,
    groups: &Groups<'_>,
    (programs, tasks): (&[Program], &[Recorded]),
) -> String {
    let names: BTreeMap<LifeId, String> =
        programs.iter().map(|program| (program.life, string(&program.name))).collect();
    let mut text = format!("// Made by `runyard import` of {file:?}.\n{ABOUT}");
    let mut writer = Writer { text: &mut text, names: &names };
    writer.line(0, "{");
    writer.machine(statistics);
    writer.groups(groups);
    writer.line(1, "\"tasks\": {");
    for (program, recorded) in programs.iter().zip(tasks) {
        writer.task(program, recorded);
    }
    writer.line(1, "},");
    writer.line(0, "}");
    text
}

struct Writer<'w> {
    text: &'w mut String,
    /// The names as JSON.
    names: &'w BTreeMap<LifeId, String>,
}

impl Writer<'_> {
    fn line(&mut self, depth: usize, line: &str) {
        self.text.extend(std::iter::repeat_n("    ", depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn machine(&mut self, statistics: &Statistics) {
        let Statistics { cpus, delays, model, tick_hz, span, .. } = statistics;
        let micros = span.0.div_ceil(1_000).max(1);
        self.line(1, &format!("\"global\": {{\"duration\": \"{micros}us\"}},"));
        self.line(1, "\"machine\": {");
        if let Some(model) = model {
            self.line(2, &format!("\"kernel\": \"{model}\","));
        }
        self.line(2, &format!("\"cpus\": {cpus},"));
        match tick_hz {
            Some(hz) => self.line(2, &format!("\"tick_hz\": {hz},")),
            None => {
                self.line(2, "// The rate of the recorded machine's tick is unknown: `tick_hz`.");
            }
        }
        self.line(2, "\"costs\": {");
        for cost in ["context_switch", "migration", "wakeup", "timer_interrupt"] {
            self.line(3, &format!("\"{cost}_ns\": 0,"));
        }
        let Delays { ipi, timer, idle_exit } = delays;
        for (cost, delay) in [("ipi", ipi), ("timer_latency", timer), ("idle_exit", idle_exit)] {
            self.line(3, &format!("\"{cost}_ns\": {},", delay.0));
        }
        self.line(2, "},");
        self.line(1, "},");
    }

    fn groups(&mut self, groups: &Groups<'_>) {
        if groups.is_empty() {
            return;
        }
        self.line(1, "\"groups\": {");
        for (path, keys) in groups {
            let keys: Vec<_> =
                keys.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
            self.line(2, &format!("{}: {{{}}},", string(path), keys.join(", ")));
        }
        self.line(1, "},");
    }

    fn task(&mut self, program: &Program, recorded: &Recorded) {
        let [ran, waited, slept] =
            [recorded.runtime, recorded.wait, recorded.sleep].map(|span| span.0 / 1_000);
        self.line(2, &format!("// Ran {ran} us, waited {waited} us, slept {slept} us."));
        let name = &self.names[&program.life];
        self.line(2, &format!("{name}: {{"));
        if program.is_forked {
            self.line(3, "\"instance\": 0,");
        }
        self.line(3, "\"loop\": 1,");
        if program.delay > 0 {
            self.line(3, &format!("\"delay\": {},", program.delay));
        }
        if !program.cpus.is_empty() {
            let cpus: Vec<_> = program.cpus.iter().map(u32::to_string).collect();
            self.line(3, &format!("\"cpus\": [{}],", cpus.join(", ")));
        }
        if !program.seat.group.is_empty() {
            self.line(3, &format!("\"group\": {},", string(&program.seat.group)));
        }
        self.line(3, "\"timer_slack\": 0,");
        match &program.stretches[..] {
            [only] => self.stretch(3, only, &program.seat),
            several => self.phases(several, &program.seat),
        }
        self.line(2, "},");
    }

    fn phases(&mut self, stretches: &[Stretch], seat: &Seat) {
        self.line(3, "\"phases\": {");
        for (nth, stretch) in stretches.iter().enumerate() {
            self.line(4, &format!("\"{}\": {{", nth + 1));
            self.stretch(5, stretch, seat);
            self.line(4, "},");
        }
        self.line(3, "},");
    }

    fn stretch(&mut self, depth: usize, stretch: &Stretch, seat: &Seat) {
        let (policy, priority) = policy(stretch.prio, seat);
        self.line(depth, &format!("\"policy\": \"{policy}\","));
        self.line(depth, &format!("\"priority\": {priority},"));
        for event in &stretch.events {
            let line = match event {
                Event::Run(span) => format!("\"run\": {span},"),
                Event::RunOn(span) => format!("\"run\": {span}, // It wanted more."),
                Event::Sleep(span) => format!("\"sleep\": {span},"),
                Event::Timer(span) => format!(
                    "\"timer\": {{\"ref\": \"unique\", \"period\": {span}, \"mode\": \"absolute\"}},"
                ),
                Event::Wait(own) => format!("\"sem_wait\": {},", self.names[own]),
                Event::Post(woken) => format!("\"sem_post\": {},", self.names[woken]),
                Event::Fork(child) => format!("\"fork\": {},", self.names[child]),
            };
            self.line(depth, &line);
        }
    }
}

/// Returns the policy of a priority of the kernel's. The budgets of deadline tasks are not recorded; these tasks keep
/// their precedence over all others. A snapshot tells the policies of one priority apart.
fn policy(prio: i32, seat: &Seat) -> (&'static str, i32) {
    match (prio, seat.policy) {
        (..0, _) => ("SCHED_FIFO", 99),
        (0..100, Some(2)) => ("SCHED_RR", (99 - prio).max(1)),
        (0..100, _) => ("SCHED_FIFO", (99 - prio).max(1)),
        (_, Some(3)) => ("SCHED_BATCH", (prio - 120).min(19)),
        (_, Some(5)) => ("SCHED_IDLE", (prio - 120).min(19)),
        _ => ("SCHED_OTHER", (prio - 120).min(19)),
    }
}

/// Returns a JSON string.
fn string(text: &str) -> String {
    let mut string = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => string.extend(['\\', char]),
            _ if char.is_control() => {
                let _ = write!(string, "\\u{:04x}", char as u32);
            }
            _ => string.push(char),
        }
    }
    string.push('"');
    string
}
