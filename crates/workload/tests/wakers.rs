//! Who wakes whom in a recording, as far as the recorder says it, and who forks whom.

use runyard_engine::time::Nanos;
use runyard_workload::import::{Imported, import};
use std::fmt::Write;

/// What ftrace's flags say of a line: that the CPU executes its task, or that it is in an interrupt of a device or a clock,
/// or in a soft one.
const TASK: &str = "d..2.";
const HARD: &str = "d.h2.";
const SOFT: &str = "d.s2.";

/// A recording of one CPU in ftrace's text, line by line.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, who: &str, flags: &str, micros: u64, event: &str) {
        let (seconds, micros) = (1 + micros / 1_000_000, micros % 1_000_000);
        writeln!(self.0, "  {who} [000] {flags} {seconds}.{micros:06}: {event}").unwrap();
    }

    fn switch(&mut self, micros: u64, prev: &str, state: &str, next: &str) {
        let fields = |side: &str, task: &str| {
            let (comm, tid) = task.rsplit_once('-').unwrap();
            format!("{side}_comm={comm} {side}_pid={tid} {side}_prio=120")
        };
        let (prev_fields, next_fields) = (fields("prev", prev), fields("next", next));
        let event = format!("sched_switch: {prev_fields} prev_state={state} ==> {next_fields}");
        self.line(prev, TASK, micros, &event);
    }

    fn wakes(&mut self, micros: u64, (who, flags): (&str, &str), woken: &str) {
        self.line(who, flags, micros, &named("sched_waking", woken));
    }

    fn imported(&self) -> Imported {
        import("recording", &self.0).unwrap()
    }
}

fn named(event: &str, task: &str) -> String {
    let (comm, tid) = task.rsplit_once('-').unwrap();
    format!("{event}: comm={comm} pid={tid} prio=120 target_cpu=000")
}

/// Returns the number of events of a kind in the program of a task.
fn count(imported: &Imported, task: &str, event: &str) -> usize {
    let begin = imported.scenario.find(&format!("\"{task}\": {{")).expect("the task is there");
    let program = imported.scenario[begin..].split("\n        }").next().unwrap();
    program.matches(&format!("\"{event}\"")).count()
}

/// A server that is woken so many times while `who` runs, each time with these flags. A hog has the CPU in between.
fn asked(times: u64, who: &str, flags: &str) -> Imported {
    let mut text = Text::default();
    text.switch(0, "server-11", "S", "hog-13");
    for nth in 0..times {
        // The distances differ, so no clock wakes the server.
        let at = 1_000 * (nth + 1) + 311 * (nth % 3);
        if who != "hog-13" {
            text.wakes(at - 100, ("hog-13", HARD), who);
            text.switch(at - 90, "hog-13", "R", who);
        }
        text.wakes(at, (who, flags), "server-11");
        let state = if who == "hog-13" { "R" } else { "S" };
        text.switch(at + 10, who, state, "server-11");
        text.switch(at + 40, "server-11", "S", "hog-13");
    }
    text.imported()
}

#[test]
fn a_message_within_the_machine_comes_from_its_sender() {
    let sent = asked(30, "client-12", SOFT);
    assert_eq!(count(&sent, "client-12", "sem_post"), 30);
    assert_eq!(count(&sent, "server-11", "sem_wait"), 30);
}

/// A device wakes the server while the hog runs, since the hog always runs.
#[test]
fn who_always_runs_is_hit_by_chance() {
    let hit = asked(30, "hog-13", SOFT);
    assert_eq!(count(&hit, "hog-13", "sem_post"), 0);
    assert_eq!(count(&hit, "server-11", "timer"), 30);
}

#[test]
fn a_few_soft_interrupts_are_those_of_timers() {
    assert_eq!(count(&asked(3, "client-12", SOFT), "client-12", "sem_post"), 0);
}

/// The flags say it, so nothing has to be guessed.
#[test]
fn a_task_that_wakes_another_is_its_waker_however_often_it_runs() {
    for who in ["hog-13", "client-12"] {
        assert_eq!(count(&asked(30, who, TASK), who, "sem_post"), 30, "{who}");
        assert_eq!(count(&asked(30, who, HARD), who, "sem_post"), 0, "{who}");
    }
}

/// A task that gets its CPU after 200 ms without a wake-up. If it goes on, it waited all the time.
#[test]
fn who_comes_late_and_sleeps_soon_was_woken_unseen() {
    let waited = |state| {
        let mut text = Text::default();
        text.switch(0, "server-11", "S", "hog-13");
        text.wakes(10, ("hog-13", HARD), "server-11");
        text.switch(20, "hog-13", "R", "server-11");
        text.switch(30, "server-11", "S", "hog-13");
        text.switch(200_000, "hog-13", "R", "late-14");
        text.switch(200_050, "late-14", state, "hog-13");
        text.switch(200_090, "hog-13", "S", "swapper/0-0");
        let imported = text.imported();
        imported.tasks.iter().find(|task| task.name == "late-14").unwrap().wait
    };
    assert_eq!(waited("S"), Nanos::ZERO);
    // It waits for the hog once more until the end.
    assert_eq!(waited("R"), Nanos::from_micros(200_040));
}

/// A child of a parent that is late is late as well: it begins where its parent forks it. A task that begins in an
/// interrupt has no parent.
#[test]
fn a_task_begins_where_another_one_forks_it() {
    for (flags, forks) in [(TASK, 1), (HARD, 0)] {
        let mut text = Text::default();
        text.switch(0, "swapper/0-0", "R", "parent-11");
        text.line("parent-11", flags, 500, &named("sched_wakeup_new", "child-12"));
        text.switch(600, "parent-11", "S", "child-12");
        text.switch(900, "child-12", "X", "swapper/0-0");
        let imported = text.imported();
        assert_eq!(count(&imported, "parent-11", "fork"), forks);
        assert_eq!(count(&imported, "child-12", "instance"), forks);
        assert_eq!(count(&imported, "child-12", "delay"), 1 - forks);
    }
}
