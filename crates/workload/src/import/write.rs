//! The text of an imported scenario, which a person can read and change. Each event is on a line of its own.

use super::figures::{Recorded, Statistics};
use super::lives::LifeId;
use super::program::{Event, Program, Stretch};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The header of every imported scenario.
const ABOUT: &str = "\
// `run` is the time that a task executed between two events. It includes the kernel's work for the
// task and the switches to it, so these cost nothing here. Interrupts are late by the time that the
// recorded machine took to run a woken task on an idle CPU. `sem_wait` is a sleep that another task
// ended by its `sem_post`. `timer` is a sleep that a clock, the network or an unknown waker ended at
// the recorded time. `sleep` is a wait for a device, which takes the recorded time. A task that was
// runnable when the recording ended wanted more CPU time than it got: its last `run` goes on until
// the replay ends, which takes as long as the recording.
";

/// Returns the scenario of these programs. `tasks` has their recorded figures.
pub(super) fn scenario(
    file: &str,
    statistics: &Statistics,
    programs: &[Program],
    tasks: &[Recorded],
) -> String {
    let names: BTreeMap<LifeId, String> =
        programs.iter().map(|program| (program.life, string(&program.name))).collect();
    let mut text = format!("// Made by `runyard import` of {file:?}.\n{ABOUT}");
    let mut writer = Writer { text: &mut text, names: &names };
    writer.line(0, "{");
    writer.machine(statistics);
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
        let Statistics { cpus, latency, model, tick_hz, span, .. } = statistics;
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
        for cost in ["ipi", "timer_latency"] {
            self.line(3, &format!("\"{cost}_ns\": {},", latency.0));
        }
        self.line(2, "},");
        self.line(1, "},");
    }

    fn task(&mut self, program: &Program, recorded: &Recorded) {
        let [ran, waited, slept] =
            [recorded.runtime, recorded.wait, recorded.sleep].map(|span| span.0 / 1_000);
        self.line(2, &format!("// Ran {ran} us, waited {waited} us, slept {slept} us."));
        let name = &self.names[&program.life];
        self.line(2, &format!("{name}: {{"));
        self.line(3, "\"loop\": 1,");
        if program.delay > 0 {
            self.line(3, &format!("\"delay\": {},", program.delay));
        }
        if let Some(cpu) = program.cpu {
            self.line(3, &format!("\"cpus\": [{cpu}],"));
        }
        self.line(3, "\"timer_slack\": 0,");
        match &program.stretches[..] {
            [only] => self.stretch(3, only),
            several => self.phases(several),
        }
        self.line(2, "},");
    }

    fn phases(&mut self, stretches: &[Stretch]) {
        self.line(3, "\"phases\": {");
        for (nth, stretch) in stretches.iter().enumerate() {
            self.line(4, &format!("\"{}\": {{", nth + 1));
            self.stretch(5, stretch);
            self.line(4, "},");
        }
        self.line(3, "},");
    }

    fn stretch(&mut self, depth: usize, stretch: &Stretch) {
        let (policy, priority) = policy(stretch.prio);
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
            };
            self.line(depth, &line);
        }
    }
}

/// Returns the policy of a priority of the kernel's. The budgets of deadline tasks are not recorded; these tasks keep
/// their precedence over all others.
fn policy(prio: i32) -> (&'static str, i32) {
    match prio {
        ..0 => ("SCHED_FIFO", 99),
        0..100 => ("SCHED_FIFO", (99 - prio).max(1)),
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
