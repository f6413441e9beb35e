//! Recordings of a few lines, and the scenarios made of them. No text makes the importer panic, and the reader accepts
//! every text that it writes.

use proptest::prelude::*;
use runyard_engine::attr::Policy;
use runyard_engine::time::Nanos;
use runyard_workload::import::{Imported, Recording, Wanted, import, import_for};
use runyard_workload::scenario::{Scenario, Step, TaskSpec};
use runyard_workload::{DeadlinePolicy, Diagnostic, Overrides, Window, parse};
use std::fmt::Write;

fn imported(text: &str) -> (Imported, Scenario) {
    imported_as(text, Wanted::default())
}

fn imported_as(text: &str, wanted: Wanted) -> (Imported, Scenario) {
    let imported = import_for("recording", text, wanted).unwrap();
    let parsed = parse("scenario", &imported.scenario, &Overrides::default());
    let parsed = parsed.unwrap_or_else(|error| panic!("{error}\n{}", imported.scenario));
    assert_eq!(parsed.warnings, [], "{}", imported.scenario);
    (imported, parsed.scenario)
}

fn task<'s>(scenario: &'s Scenario, name: &str) -> &'s TaskSpec {
    let found = scenario.tasks.iter().find(|task| task.name == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the steps of a task with their microseconds, one word a step.
fn events(scenario: &Scenario, name: &str) -> String {
    let micros = |draw| match draw {
        runyard_workload::draw::Draw::Fixed(span) => span.0 / 1_000,
        other => panic!("{other:?}"),
    };
    let steps = task(scenario, name).phases.iter().flat_map(|phase| phase.steps.iter());
    let words = steps.map(|step| match step {
        Step::Run(span) => format!("run {}", micros(span)),
        Step::Sleep(span) => format!("sleep {}", micros(span)),
        Step::Timer { period, .. } => format!("timer {}", micros(period)),
        Step::SemWait(own) => format!("wait {}", scenario.objects.semaphores[own.0 as usize]),
        Step::SemPost(to) => format!("post {}", scenario.objects.semaphores[to.0 as usize]),
        Step::Fork(to) => format!("fork {}", scenario.tasks[to.0 as usize].name),
        other => panic!("{other:?}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn delay(scenario: &Scenario, name: &str) -> Nanos {
    match task(scenario, name).delay {
        runyard_workload::draw::Draw::Fixed(span) => span,
        other => panic!("{other:?}"),
    }
}

/// Returns a line in perf's format: the running task, its CPU, the time in microseconds, and the event.
fn line(who: (&str, u32), cpu: u32, micros: u64, event: &str) -> String {
    let (comm, tid) = who;
    let (seconds, micros) = (100 + micros / 1_000_000, micros % 1_000_000);
    format!("{comm:>16} {tid:>5} [{cpu:03}] {seconds:>5}.{micros:06}: sched:{event}\n")
}

fn switch(cpu: u32, micros: u64, prev: (&str, u32), state: &str, next: (&str, u32)) -> String {
    let event = format!(
        "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> \
         next_comm={} next_pid={} next_prio=120",
        prev.0, prev.1, next.0, next.1
    );
    line(prev, cpu, micros, &event)
}

fn waking(who: (&str, u32), cpu: u32, micros: u64, woken: (&str, u32)) -> String {
    let (comm, tid) = woken;
    line(who, cpu, micros, &format!("sched_waking: comm={comm} pid={tid} prio=120 target_cpu=000"))
}

const IDLE0: (&str, u32) = ("swapper/0", 0);
const IDLE1: (&str, u32) = ("swapper/1", 0);
const A: (&str, u32) = ("a", 11);
const B: (&str, u32) = ("b", 12);

#[test]
fn a_task_that_another_wakes_waits_for_it() {
    let text = switch(0, 0, IDLE0, "R", A)
        + &switch(0, 100, A, "S", B)
        + &waking(B, 0, 150, A)
        + &switch(0, 180, B, "R+", A)
        + &switch(0, 200, A, "X", B)
        + &switch(0, 260, B, "S", IDLE0);
    let (imported, scenario) = imported(&text);
    assert_eq!(events(&scenario, "a-11"), "run 100, wait a-11, run 20");
    assert_eq!(events(&scenario, "b-12"), "run 50, post a-11, run 90");
    assert_eq!((delay(&scenario, "a-11"), delay(&scenario, "b-12")), (Nanos(0), Nanos(0)));
    let a = &imported.tasks[0];
    let micros = [a.runtime, a.wait, a.sleep].map(|span| span.0 / 1_000);
    assert_eq!((a.name.as_str(), micros, a.wakeups), ("a-11", [120, 30, 50], 2));
    assert_eq!((imported.statistics.cpus, imported.statistics.missed), (1, 0));
}

/// `b` gets its CPU without a wake-up, so it was runnable from the begin. `c` may have slept, if no wake-up is recorded,
/// or if some records are lost.
#[test]
fn who_needs_no_wake_up_was_runnable_from_the_begin() {
    let text = switch(0, 0, IDLE0, "R", A) + &switch(0, 100, A, "S", B);
    let waits = |text: String| {
        let (imported, scenario) = imported(&text);
        (imported.tasks[1].wait, delay(&scenario, "b-12"))
    };
    let woken = waking(B, 0, 150, A) + &switch(0, 180, B, "S", A);
    assert_eq!(waits(text.clone() + &woken), (Nanos::from_micros(100), Nanos(0)));
    let slept = (Nanos(0), Nanos::from_micros(100));
    assert_eq!(waits(text.clone() + &switch(0, 180, B, "S", A)), slept);
    assert_eq!(waits(text + &woken + "CPU:0 [LOST 12 EVENTS]\n"), slept);
}

/// `a` is runnable at the end and `b` runs there, so they go on. `c` sleeps, so it ends.
#[test]
fn who_is_runnable_at_the_end_wanted_more() {
    let c = ("c", 13);
    let text = switch(0, 0, IDLE0, "R", c)
        + &switch(0, 100, c, "S", A)
        + &switch(0, 250, A, "R", B)
        + &waking(B, 0, 300, ("d", 14));
    let (imported, scenario) = imported(&text);
    assert_eq!(events(&scenario, "a-11"), "run 150, run 300");
    assert_eq!(events(&scenario, "b-12"), "run 50, run 300");
    assert_eq!(events(&scenario, "c-13"), "run 100");
    let wants: Vec<_> = imported.tasks.iter().map(|task| task.wants_more).collect();
    assert_eq!(wants, [false, true, true]);
    assert_eq!(scenario.duration, Some(Nanos::from_micros(300)));
}

/// A hog and another take turns at each tick, between wake-ups at any time. The caller may know it better.
#[test]
fn the_tick_is_read_from_the_ends_of_turns() {
    let mut text = String::new();
    for turn in 0..24 {
        let (from, to) = if turn % 2 == 0 { (A, B) } else { (B, A) };
        text += &waking(from, 0, turn * 4_000 + 137 * turn, ("c", 13));
        text += &switch(0, turn * 4_000 + 3_990, from, "R", to);
    }
    let rate = |tick_hz| {
        let (imported, scenario) = imported_as(&text, Wanted { tick_hz, ..Wanted::default() });
        (imported.statistics.tick_hz, scenario.machine.tick_hz)
    };
    assert_eq!(rate(None), (Some(250), 250));
    assert_eq!(rate(Some(300)), (Some(300), 300));
    let (few, scenario) = imported(&(switch(0, 0, A, "R", B) + &switch(0, 5, B, "S", A)));
    assert_eq!((few.statistics.tick_hz, scenario.machine.tick_hz), (None, 1_000));
    assert!(few.scenario.contains("tick is unknown"));
}

#[test]
fn what_nobody_ends_is_a_timer_and_what_a_device_ends_a_sleep() {
    let text = switch(0, 0, IDLE0, "R", A)
        + &switch(0, 100, A, "S", IDLE0)
        + &waking(IDLE0, 0, 1_000, A)
        + &switch(0, 1_010, IDLE0, "R", A)
        + &switch(0, 1_100, A, "D", IDLE0)
        + &waking(IDLE0, 0, 1_500, A)
        + &switch(0, 1_510, IDLE0, "R", A)
        + &switch(0, 1_600, A, "I", IDLE0)
        + &waking(IDLE0, 0, 3_000, A)
        + &switch(0, 3_010, IDLE0, "R", A)
        + &switch(0, 3_020, A, "S", IDLE0);
    let (imported, scenario) = imported(&text);
    let expected = "run 100, timer 1000, run 90, sleep 400, run 90, timer 2000, run 10";
    assert_eq!(events(&scenario, "a-11"), expected);
    let delays = imported.statistics.delays;
    assert_eq!((delays.ipi, delays.timer), (Nanos::from_micros(10), Nanos::from_micros(10)));
    let costs = scenario.machine.costs;
    assert_eq!((costs.ipi, costs.timer_latency), (delays.ipi, delays.timer));
}

#[test]
fn an_interrupt_is_no_waker() {
    let woken = "sched_waking: comm=b pid=12 prio=120 target_cpu=000\n";
    let text = format!(
        "  a-11  [000] d..2.  1.000000: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 \
         prev_state=S ==> next_comm=a next_pid=11 next_prio=120\n\
         a-11  [000] d.h2.  1.000200: {woken}\
         a-11  [000] d..2.  1.000300: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 \
         prev_state=S ==> next_comm=b next_pid=12 next_prio=120\n\
         b-12  [000] d..2.  1.000400: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 \
         prev_state=S ==> next_comm=a next_pid=11 next_prio=120\n"
    );
    let (_, scenario) = imported(&text);
    assert_eq!(events(&scenario, "a-11"), "run 300, timer 400, run 400");
    assert_eq!(events(&scenario, "b-12"), "timer 200, run 100");
}

#[test]
fn a_periodic_task_is_woken_by_its_timer_whomever_that_interrupts() {
    let mut text = switch(0, 0, IDLE0, "R", A);
    for nth in 1..=20 {
        text += &switch(0, nth * 1_000 - 900, A, "S", B);
        text += &waking(B, 0, nth * 1_000, A);
        text += &switch(0, nth * 1_000, B, "R", A);
    }
    let (_, scenario) = imported(&text);
    assert!(events(&scenario, "a-11").starts_with("run 100, timer 1000, run 100, timer 1000"));
    assert!(!events(&scenario, "b-12").contains("post"));
}

/// A client asks its server each time that its own timer wakes it, on a CPU that a hog has otherwise.
#[test]
fn who_serves_a_periodic_task_is_woken_by_it() {
    let hog = ("hog", 13);
    let mut text =
        switch(0, 0, hog, "R", B) + &switch(0, 5, B, "S", A) + &switch(0, 10, A, "S", hog);
    for nth in 1..=20 {
        let at = nth * 1_000;
        text += &waking(hog, 0, at, A);
        text += &switch(0, at, hog, "R", A);
        text += &waking(A, 0, at + 10, B);
        text += &switch(0, at + 20, A, "S", B);
        text += &switch(0, at + 50, B, "S", hog);
    }
    let (_, scenario) = imported(&text);
    let ends = |name, end| assert!(events(&scenario, name).ends_with(end), "{name}");
    ends("a-11", "timer 1000, run 10, post b-12, run 10");
    ends("b-12", "wait b-12, run 30");
    assert!(!events(&scenario, "hog-13").contains("post"));
}

#[test]
fn a_task_that_is_woken_on_its_way_to_sleep_sleeps_no_time() {
    let text = switch(0, 0, IDLE0, "R", A)
        + &switch(1, 0, IDLE1, "R", B)
        + &waking(B, 1, 50, A)
        + &switch(0, 60, A, "S", IDLE0)
        + &switch(0, 65, IDLE0, "R", A)
        + &switch(0, 100, A, "S", IDLE0)
        + &waking(B, 1, 110, A)
        + &waking(B, 1, 112, A)
        + &switch(0, 120, IDLE0, "R", A)
        + &waking(B, 1, 130, A)
        + &switch(0, 140, A, "R", IDLE0)
        + &switch(1, 150, B, "S", IDLE1);
    let (imported, scenario) = imported(&text);
    assert_eq!(events(&scenario, "a-11"), "run 60, wait a-11, run 35, wait a-11, run 20, run 150");
    assert_eq!(events(&scenario, "b-12"), "run 50, post a-11, run 60, post a-11, run 40");
    let a = &imported.tasks[0];
    assert_eq!((a.wakeups, a.sleep.0, a.wait.0), (3, 10_000, 25_000));
}

#[test]
fn a_switch_that_was_not_recorded_is_where_the_account_says() {
    let charged = "sched_stat_runtime: comm=a pid=11 runtime=80000 [ns]";
    let gap = switch(0, 0, B, "S", IDLE0) + &waking(IDLE0, 0, 100, A);
    let told = gap.clone() + &line(A, 0, 200, charged) + &switch(0, 201, A, "S", IDLE0);
    let (imported, _) = imported(&told);
    assert_eq!((imported.statistics.missed, imported.tasks[0].runtime.0), (1, 81_000));
    // Without an account, the task ran from the earliest possible time.
    let untold = gap + &switch(0, 201, A, "S", IDLE0);
    let imported = import("recording", &untold).unwrap();
    assert_eq!((imported.statistics.missed, imported.tasks[0].runtime.0), (1, 101_000));
}

#[test]
fn a_task_whose_leaving_was_not_recorded_slept_if_it_is_woken_next() {
    let begin =
        switch(0, 0, IDLE0, "R", A) + &switch(0, 100, B, "R", A) + &switch(0, 200, A, "S", B);
    let replaced = begin + &switch(0, 300, A, "S", IDLE0);
    let (imported, _) = imported(&(replaced.clone() + &waking(A, 1, 350, B)));
    let b = imported.tasks.iter().find(|task| task.name == "b-12").unwrap();
    assert_eq!((b.sleep.0, b.wakeups), (150_000, 2));
    let (imported, _) = self::imported(&(replaced + &switch(0, 350, IDLE0, "R", B)));
    let b = imported.tasks.iter().find(|task| task.name == "b-12").unwrap();
    assert_eq!((b.sleep.0, b.wait.0), (0, 250_000));
}

#[test]
fn totals_do_not_drift_by_rounding() {
    let mut text = String::from("# nanoseconds\n");
    let mut at = 1_000_000_000_u64;
    let mut put = |span: u64, fields: &str| {
        at += span;
        let (seconds, nanos) = (at / 1_000_000_000, at % 1_000_000_000);
        let _ = writeln!(text, "x 5 [000] {seconds}.{nanos:09}: sched:sched_switch: {fields}");
    };
    for _ in 0..1_000 {
        put(700, "swapper/0:0 [120] R ==> a:11 [120]");
        put(1_700, "a:11 [120] S ==> swapper/0:0 [120]");
    }
    let (imported, scenario) = imported(&text);
    let runs = task(&scenario, "a-11").phases.iter().flat_map(|phase| phase.steps.iter());
    let micros: u64 = runs
        .map(|step| match step {
            Step::Run(runyard_workload::draw::Draw::Fixed(span)) => span.0 / 1_000,
            _ => 0,
        })
        .sum();
    assert_eq!((imported.tasks[0].runtime.0, micros), (1_700_000, 1_700));
}

#[test]
fn priorities_become_policies_also_in_the_middle_of_a_life() {
    let text = "a 11 [000] 1.0: sched:sched_switch: swapper/0:0 [120] R ==> a:11 [110]\n\
                a 11 [000] 1.1: sched:sched_switch: a:11 [19] S ==> migration/0:12 [0]\n\
                m 12 [000] 1.2: sched:sched_switch: migration/0:12 [0] S ==> d:13 [-1]\n\
                d 13 [000] 1.3: sched:sched_waking: a:11 [19] CPU:000\n\
                d 13 [000] 1.4: sched:sched_switch: d:13 [-1] S ==> a:11 [19]\n\
                a 11 [000] 1.5: sched:sched_switch: a:11 [19] S ==> swapper/0:0 [120]\n";
    let refused = import("r", text).unwrap_err().to_string();
    assert!(refused.starts_with("r:3:1: a task of SCHED_DEADLINE, "), "{refused}");
    let wanted = Wanted { deadline: DeadlinePolicy::AsFifo, ..Wanted::default() };
    let (imported, scenario) = imported_as(text, wanted);
    let policies = |name| {
        let phases = task(&scenario, name).phases.iter();
        phases.map(|phase| phase.properties.policy).collect::<Vec<_>>()
    };
    let fifo = |prio| Some(Policy::Fifo(runyard_engine::attr::RtPrio::new(prio).unwrap()));
    assert_eq!(policies("a-11").len(), 2);
    assert_eq!(policies("a-11")[1], fifo(80));
    let first = |name| task(&scenario, name).properties.policy;
    assert_eq!((first("migration/0-12"), first("d-13")), (fifo(99), fifo(99)));
    let bound = task(&scenario, "migration/0-12").properties.cpus.as_ref();
    assert_eq!(bound.map(|cpus| cpus.iter().count()), Some(1));
    assert_eq!(imported.statistics.deadline_tasks, 1);
}

#[test]
fn a_number_that_is_used_again_is_another_task() {
    let new = "sched_wakeup_new: comm=a pid=11 prio=120 target_cpu=000";
    let text = switch(0, 0, IDLE0, "R", A)
        + &switch(0, 100, A, "Z", B)
        + &line(B, 0, 150, new)
        + &switch(0, 200, B, "S", A)
        + &switch(0, 230, A, "X", IDLE0);
    let (_, scenario) = imported(&text);
    let names: Vec<_> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["a-11", "b-12", "a-11-2"]);
    assert_eq!(events(&scenario, "b-12"), "run 50, fork a-11-2, run 50");
    assert_eq!((task(&scenario, "a-11-2").instances, delay(&scenario, "a-11-2")), (0, Nanos(0)));
}

#[test]
fn a_number_may_be_used_again_although_nobody_saw_its_task_end() {
    let new = "sched_wakeup_new: comm=a pid=11 prio=120 target_cpu=000";
    let text = line(A, 1, 0, new)
        + &switch(2, 100, IDLE0, "S", A)
        + &switch(1, 800, A, "S", IDLE1)
        + &switch(2, 800, IDLE0, "S", IDLE0);
    let (imported, _) = imported(&text);
    for task in &imported.tasks {
        let lived = task.runtime + task.wait + task.sleep;
        assert!(lived <= imported.statistics.span, "{task:?}");
    }
}

#[test]
fn odd_names_are_names_of_the_scenario() {
    let odd = ("\"x\\\u{1}/ ]}", 13);
    let text = switch(0, 0, IDLE0, "R", odd) + &switch(0, 50, odd, "S", IDLE0);
    let (_, scenario) = imported(&text);
    assert_eq!(scenario.tasks[0].name, "\"x\\\u{1}/ ]}-13");
}

#[test]
fn lines_that_make_no_sense_are_skipped_and_told() {
    let text = switch(0, 0, IDLE0, "R", A) + "what?\n" + &switch(0, 50, A, "S", IDLE0) + "  ä [";
    let (imported, scenario) = imported(&text);
    assert_eq!(events(&scenario, "a-11"), "run 50");
    assert_eq!(imported.statistics.skipped, 2);
    let told: Vec<_> = imported.warnings.iter().map(ToString::to_string).collect();
    assert!(told[0].starts_with("recording:2:1: no event"), "{told:?}");
    assert!(told[1].starts_with("recording:4:3: no event"), "{told:?}");
}

#[test]
fn a_text_without_sense_or_without_tasks_is_refused() {
    let refused = |text: &str| import("r", text).unwrap_err().to_string();
    assert!(refused("\n  hello\n").starts_with("r:2:3: no event"));
    assert_eq!(refused("# nothing\n"), "r:1:1: there is no event in it");
    assert_eq!(refused(&switch(0, 5, A, "R", B)), "r:1:1: no task runs in it");
    let silent = refused(&waking(IDLE0, 0, 5, A));
    assert!(silent.starts_with("r:1:1: no `sched_switch` is in it"), "{silent}");
    assert!(silent.contains("`perf sched record` records it"), "{silent}");
}

fn from_bytes(bytes: &[u8]) -> Result<Imported, Diagnostic> {
    Recording::read("r", bytes, Window::default())?.import(Wanted::default())
}

#[test]
fn a_compressed_recording_is_unpacked_and_a_binary_one_refused() {
    let plain = switch(0, 0, A, "S", B) + &switch(0, 9, B, "S", A);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, plain.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(from_bytes(&packed).unwrap().tasks[0].name, "b-12");
    // `zstd` wrote it.
    let zstd = b"\x28\xb5\x2f\xfd\x00\x58\x19\x00\x00a\n\n";
    let refused = |bytes: &[u8]| from_bytes(bytes).unwrap_err().to_string();
    assert!(refused(zstd).starts_with("r:1:1: no event: a line has"), "{}", refused(zstd));
    assert!(refused(&packed[..20]).starts_with("r:1:1: it cannot be decompressed: "));
    assert!(refused(&zstd[..9]).starts_with("r:1:1: it cannot be decompressed: "));
    let trace_cmd = "r:1:1: this is trace-cmd's data, not text; `trace-cmd report -t -i r > recorded.txt` converts it";
    assert_eq!(refused(b"\x17\x08Dtracing6\0"), trace_cmd);
}

/// The places are those of the page.
#[test]
fn the_page_of_systrace_is_read_as_the_text_in_it() {
    let text = switch(0, 0, IDLE0, "R", A) + &waking(A, 0, 5, B) + &switch(0, 9, A, "S", B);
    let page = format!(
        "<!DOCTYPE html>\n<html>\n<script>var sched_switch = 1;</script>\n\
         <script class=\"trace-data\" type=\"application/text\">\n{text}what?\n</script>\n</html>\n"
    );
    let (inside, outside) = (import("r", &text).unwrap(), from_bytes(page.as_bytes()).unwrap());
    assert_eq!(outside.scenario, inside.scenario);
    let told: Vec<_> = outside.warnings.iter().map(ToString::to_string).collect();
    assert!(matches!(&told[..], [only] if only.starts_with("r:8:1: no event")), "{told:?}");
    let quoted = text.replace('\n', "\\n\\\n");
    let old = format!("<html>\n  var linuxPerfData = \"\\\n{quoted}\";\n</html>\n");
    assert_eq!(from_bytes(old.as_bytes()).unwrap().scenario, inside.scenario);
    let empty = from_bytes(b"<html>\n<p>sched_switch</p>\n</html>").unwrap_err().to_string();
    assert_eq!(empty, "r:1:1: there is no event in it");
}

/// The moments count from the first event of the scheduler, whatever other line is before it.
#[test]
fn a_part_of_a_recording_is_like_a_recording_of_that_part() {
    let early = "  x-9  [000]  0.000000: sync: x\n".to_owned() + &switch(0, 0, IDLE0, "R", A);
    let middle = switch(0, 100, A, "S", B) + &waking(B, 0, 150, A) + &switch(0, 180, B, "R+", A);
    let late = switch(0, 200, A, "X", B) + &switch(0, 260, B, "S", IDLE0);
    let text = early + &middle + &late;
    let part = |from, until| {
        let micros = |at: u64| Some(Nanos::from_micros(at));
        let part = Window { from: micros(from), until: micros(until) };
        Recording::read("r", text.as_bytes(), part)?.import(Wanted::default())
    };
    let (cut, alone) = (part(100, 180).unwrap(), import("r", &middle).unwrap());
    assert_eq!(cut.scenario, alone.scenario);
    assert_eq!(cut.notes, []);
    assert_eq!(cut.statistics, alone.statistics);
    let lost = "CPU:0 [LOST 12 EVENTS]\n".to_owned();
    for (text, expected) in [(lost.clone() + &text, 0), (text.replace(&late, "") + &lost, 12)] {
        let part = Window { from: Some(Nanos::from_micros(100)), until: None };
        let mut recording = Recording::read("r", text.as_bytes(), part).unwrap();
        assert_eq!(recording.import(Wanted::default()).unwrap().statistics.lost, expected);
    }
    let nothing = part(300, 400).unwrap_err().to_string();
    assert_eq!(nothing, "r:1:1: none of its 7 events is in the wanted part");
}

/// The notes of a recording, without its name.
fn notes(text: &str) -> Vec<String> {
    imported(text).0.notes.iter().map(|note| note.to_string().replace("recording:", "")).collect()
}

#[test]
fn what_a_recording_lacks_is_told_with_its_place() {
    let whole = switch(0, 0, IDLE0, "R", A) + &waking(A, 0, 5, B) + &switch(0, 9, A, "R", B);
    assert_eq!(notes(&whole), [""; 0]);
    let asleep = switch(0, 0, IDLE0, "R", A) + &switch(0, 9, A, "S", B);
    assert!(notes(&asleep)[0].starts_with("1:1: no wake-up is in it (`sched_waking`): "));
    let lost = whole.clone() + "CPU:1 [LOST 12 EVENTS]\n";
    assert_eq!(notes(&lost), ["4:1: 12 events were lost here"]);
    let other = switch(0, 20, A, "S", IDLE0) + &switch(1, 20, IDLE1, "R", A);
    let both = whole.clone() + &other + &switch(0, 30, IDLE0, "R", A) + &switch(0, 35, A, "S", B);
    assert_eq!(notes(&both), ["6:1: 1 times a task had two CPUs at once; here the first"]);
    let missed = imported(&both).0.missed.map(|missed| missed.to_string());
    let expected = "recording:4:1: 1 switches were not recorded, and put where they must have been; here the first";
    assert_eq!(missed.as_deref(), Some(expected));
    let jump = "  x-9  [000]  0.000000: sync: x\n".to_owned() + &whole;
    assert_eq!(
        notes(&jump),
        ["1:1: the clock jumps: 1 events, 100 s from the others, are left out"]
    );
}

/// Other lines than the scheduler's do not count.
#[test]
fn a_recording_that_is_hardly_understood_is_refused_unless_asked_for() {
    let whole = switch(0, 0, IDLE0, "R", A) + &waking(A, 0, 5, B) + &switch(0, 9, A, "R", B);
    let broken = "a 1 [000] 1.0: sched:sched_switch: prev_comm=a\n";
    let text = |times| whole.clone() + "what?\n" + &broken.repeat(times);
    let few = notes(&(whole.repeat(9) + &broken.repeat(3)));
    assert!(!few.iter().any(|note| note.contains("no sense")), "{few:?}");
    assert_eq!(notes(&text(1)), ["4:1: 1 of 4 lines of the scheduler make no sense"]);
    assert_eq!(notes(&text(3)).len(), 1);
    let refused = import("r", &text(4)).unwrap_err().to_string();
    let expected =
        "r:4:1: 4 of 7 lines of the scheduler make no sense; --partly imports the others";
    assert_eq!(refused, expected);
    assert!(import_for("r", &text(4), Wanted { partly: true, ..Wanted::default() }).is_ok());
}

/// `a` forks `b`, which has its seat; `b` has ended before the second snapshot. `c` begins in the recording and is known
/// to the second one. The number of `d` was another task's before.
#[test]
fn a_snapshot_tells_groups_policies_and_cpus() {
    let (c, d) = (("c", 13), ("d", 14));
    let new = |tid| format!("sched_wakeup_new: comm=x pid={tid} prio=120 target_cpu=000");
    let text = switch(0, 0, IDLE0, "R", A)
        + &line(A, 0, 10, &new(12))
        + &line(A, 0, 20, &new(13))
        + &line(A, 0, 20, &new(14))
        + &switch(0, 50, A, "S", B)
        + &switch(0, 90, B, "X", c)
        + &switch(0, 100, c, "S", d)
        + &switch(0, 150, d, "X", IDLE0)
        + &switch(1, 150, IDLE1, "R", IDLE1);
    let snapshot = "runyard-snapshot 1\n\
        group\t/web\tcpu.max=max 100000\tcpu.weight=200\n\
        task\t11\t3\t1\t/web/api\n\
        task\t14\t5\t0\t/other\n\
        runyard-snapshot 1\n\
        task\t11\t3\t1\t/web/api\n\
        task\t13\t5\t0-1\t/\n";
    let snapshot = Some(("snapshot.txt", snapshot));
    let (_, scenario) = imported_as(&text, Wanted { snapshot, ..Wanted::default() });
    let seat = |name| {
        let properties = &task(&scenario, name).properties;
        let group = properties.group.map(|id| scenario.groups[id.index()].path.as_str());
        let cpus = properties.cpus.as_ref().map(|cpus| cpus.iter().count());
        (properties.policy.unwrap().to_string(), group, cpus)
    };
    let web = ("SCHED_BATCH".to_owned(), Some("/web/api"), Some(1));
    assert_eq!(seat("a-11"), web);
    assert_eq!(seat("b-12"), web);
    assert_eq!(seat("d-14"), web);
    assert_eq!(seat("c-13"), ("SCHED_IDLE".to_owned(), None, None));
    let bad = Wanted { snapshot: Some(("s", "task\t1\n")), ..Wanted::default() };
    let refused = import_for("recording", &text, bad).unwrap_err().to_string();
    assert!(refused.starts_with("s:1:1: no snapshot"), "{refused}");
}

/// Parts of what the recorders wrote on a machine with two CPUs and Linux 6.18: perf 6.1, trace-cmd 3.1 with several
/// options, and ftrace's own files, also as traces of Perfetto.
#[test]
fn what_recorders_write_is_read_to_the_last_line() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.display();
        let bytes = std::fs::read(&path).unwrap();
        let imported = from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(imported.warnings, [], "{name}");
        let statistics = imported.statistics;
        assert_eq!((statistics.skipped, statistics.lost), (0, 0), "{name}");
        assert!(statistics.cpus == 2 || name.to_string().ends_with("chains.txt"), "{name}");
        assert!(imported.tasks.iter().map(|task| task.wakeups).sum::<u64>() > 3, "{name}");
        for task in &imported.tasks {
            assert!(!task.comm.starts_with(' ') && !task.comm.is_empty(), "{name}: {task:?}");
        }
        files += 1;
    }
    assert_eq!(files, 14);
}

/// Returns lines of which some are valid and others nearly valid.
fn lines() -> impl Strategy<Value = String> {
    let tid = 0_u32..4;
    let comm = prop_oneof![Just("a"), Just("b c"), Just("x/1"), Just("kworker/0:1"), Just("\"")];
    let state = prop_oneof![Just("S"), Just("R+"), Just("D"), Just("X"), Just("")];
    let event = (comm.clone(), tid.clone(), -2..150_i32, state, comm.clone(), tid.clone(), 0..7_u8);
    let event = event.prop_map(|(prev, prev_tid, prio, state, next, next_tid, kind)| match kind {
        0..3 => {
            format!("sched_switch: {prev}:{prev_tid} [{prio}] {state} ==> {next}:{next_tid} [120]")
        }
        3 => format!("sched_waking: comm={next} pid={next_tid} prio={prio} target_cpu=001"),
        4 => format!("sched_wakeup: {next}:{next_tid} [{prio}] success=1 CPU:000"),
        5 => format!("sched_wakeup_new: comm={next} pid={next_tid} prio={prio} target_cpu=001"),
        _ => format!("sched_stat_runtime: comm={next} pid={next_tid} runtime={prio}000 [ns]"),
    });
    let span = prop_oneof![9 => 0..3_000_u64, 1 => 0..30_000_000_000_000_u64];
    let head = (comm, tid, 0..3_u32, span, 0..20_u8);
    let line = (head, event).prop_map(|((comm, tid, cpu, at, spoilt), event)| match spoilt {
        0 => event,
        1 => "CPU:1 [LOST 7 EVENTS]".to_owned(),
        nth => {
            let (dash, flags) = if nth % 2 == 0 { ('-', "d.h2.") } else { (' ', "") };
            format!(
                "{comm}{dash}{tid} [{cpu}] {flags} {}.{:09}: {event}",
                at / 1_000_000_000,
                at % 1_000_000_000
            )
        }
    });
    prop::collection::vec(line, 0..60).prop_map(|lines| lines.join("\n"))
}

fn any_text_is_taken_or_refused(text: &str) {
    let Ok(imported) = import("any", text) else { return };
    let parsed = parse("scenario", &imported.scenario, &Overrides::default());
    let parsed = parsed.unwrap_or_else(|error| panic!("{error}\n{text}\n{}", imported.scenario));
    assert_eq!(parsed.scenario.tasks.len(), imported.tasks.len());
    let names = parsed.scenario.tasks.iter().map(|task| &task.name);
    assert!(names.eq(imported.tasks.iter().map(|task| &task.name)));
    for task in &imported.tasks {
        let told = task.runtime + task.wait + task.sleep;
        assert!(told <= imported.statistics.span, "{task:?}\n{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "(\\PC|\n|\\[|\\]|:| ==> |[0-9. ]){0,200}") {
        any_text_is_taken_or_refused(&text);
    }

    #[test]
    fn whatever_it_writes_can_be_read(text in lines()) {
        any_text_is_taken_or_refused(&text);
    }
}
