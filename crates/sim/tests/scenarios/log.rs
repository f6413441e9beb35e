//! rt-app's log: a row for each round of a phase, identical for each run of a scenario.

use crate::rig::{Run, us, world};
use runyard_engine::time::Nanos;
use runyard_workload::log::Row;

/// Returns the rows of a task.
fn rows<'r>(run: &'r Run, name: &str) -> Vec<&'r Row> {
    let task = run.task(name);
    run.rows.iter().filter(|row| row.task == task).collect()
}

/// Returns the begins and ends of a task's rounds, in microseconds.
fn rounds(run: &Run, name: &str) -> Vec<(u64, u64)> {
    let spans = rows(run, name).into_iter().map(|row| (row.start, row.end));
    spans.map(|(start, end)| (start.0 / 1_000, end.0 / 1_000)).collect()
}

#[test]
fn a_round_has_what_was_asked_for_and_what_it_took() {
    let run = world().run(
        "'a': {'policy': 'SCHED_FIFO', 'loop': 2, 'run': 300, 'runtime': 100, 'mem': 200000,
               'sleep': 90, 'timer': {'ref': 'unique', 'period': 1000}}",
    );
    let micros = Nanos::from_micros;
    let row = |start, end| Row {
        task: run.task("a"),
        run: micros(400),
        start: us(start),
        end: us(end),
        slack: 500_000,
        asked_run: micros(400),
        asked_period: micros(1_000),
        wakeup_latency: Nanos::ZERO,
    };
    run.is("rows", &run.rows, &vec![row(0, 1_000), row(1_000, 2_000)]);
}

#[test]
fn a_run_takes_as_long_as_the_task_is_kept_from_its_end() {
    let run = world().run(
        "'hog': {'policy': 'SCHED_FIFO', 'delay': 1000, 'loop': 1, 'run': 5000},
         'work': {'loop': 1, 'run': 3000}",
    );
    let work = rows(&run, "work")[0];
    run.is("asked for and taken", (work.asked_run, work.run), (Nanos(3_000_000), Nanos(8_000_000)));
    run.is("hog", rounds(&run, "hog"), [(1_000, 6_000)]);
}

#[test]
fn a_timer_has_its_slack_and_how_late_it_woke() {
    let phases = "'phases': {'long': {'timer': TIMER, 'run': 2500},
                             'short': {'loop': 2, 'timer': TIMER, 'run': 300}}";
    let phases = phases.replace("TIMER", "{'ref': 'unique', 'period': 1000}");
    let slacks = |members: &str, global: &str| {
        let task = format!("'a': {{'loop': 1, {members}, {phases}}}");
        let text = format!("{{'global': {{{global}}}, 'tasks': {{{task}}}}}");
        let run = world().run_text(&text);
        let columns = rows(&run, "a").into_iter().map(|row| (row.slack, row.wakeup_latency.0));
        columns.collect::<Vec<_>>()
    };
    let missed = (-1_500_000, 0);
    let prompt = slacks("'policy': 'SCHED_FIFO'", "");
    assert_eq!(prompt, [(1_000_000, 0), missed, (700_000, 0)], "as the scenario says");
    let late = slacks("'timer_slack': 60", "");
    assert_eq!(late, [(1_000_000, 60_000), (-1_560_000, 0), (700_000, 60_000)]);
    let phases = "'timer': {'ref': 'unique1', 'period': 100},
                  'timer': {'ref': 'unique2', 'period': 200}, 'run': 1";
    let slack = |global: &str| {
        let task = format!("'a': {{'policy': 'SCHED_FIFO', 'loop': 1, {phases}}}");
        let run = world().run_text(&format!("{{'global': {{{global}}}, 'tasks': {{{task}}}}}"));
        run.rows[0].slack
    };
    assert_eq!(slack(""), 100_000, "that of the last");
    assert_eq!(slack("'cumulative_slack': true"), 200_000, "that of both");
}

#[test]
fn a_round_that_the_end_of_the_run_cuts_off_has_no_row() {
    let run = world()
        .cpus(2)
        .millis(5)
        .run("'a': {'policy': 'SCHED_FIFO', 'run': 2000}, 'never': {'suspend': ''}");
    run.is("a", rounds(&run, "a"), [(0, 2_000), (2_000, 4_000)]);
    run.is("a task that never comes to its end", run.rows.len(), 2);
}

#[test]
fn every_way_out_of_a_round_ends_it() {
    let run = world().run(
        "'a': {'loop': 2, 'phases': {'p': {'loop': 2, 'run': 10}, 'q': {'priority': 3, 'run': 5}}}",
    );
    let a = [(0, 10), (10, 20), (20, 25), (25, 35), (35, 45), (45, 50)];
    run.is("a", rounds(&run, "a"), a);
    let run = world().run("'a': {'loop': 9, 'run': 10, 'exit': '', 'run1': 90}");
    run.is("an exit", rounds(&run, "a"), [(0, 10)]);
    let run = world().run(
        "'a': {'loop': 2, 'run': 10, 'fork': 'b'}, 'b': {'instance': 0, 'loop': 1, 'sleep': 5}",
    );
    run.is("a fork is a task of its own", rounds(&run, "b-0001").len(), 1);
}

#[test]
fn nobody_is_told_of_rows_who_did_not_ask() {
    let run = world().unlogged().run("'a': {'loop': 2, 'run': 10}");
    run.is("rows", &run.rows, &Vec::new());
}
