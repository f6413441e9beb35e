//! Core scheduling: tasks with different cookies never run on one core at a time. Every run here checks `core-cookies`,
//! `core-forced-idle` and `core-order`.

use crate::rig::{Run, Stretch, ms, world};
use runyard_engine::event::What;
use runyard_engine::time::{Nanos, Time};

/// Kernels with different fair classes.
const FAIR: [&str; 3] = ["6.1", "6.12", "6.18"];

/// Runs thread objects on a machine of this shape with the default costs of switches.
#[track_caller]
fn run_on(shape: &str, kernel: &str, millis: u64, tasks: &str) -> Run {
    run_text_on(shape, kernel, millis, &format!("'tasks': {{{tasks}}}"))
}

#[track_caller]
fn run_text_on(shape: &str, kernel: &str, millis: u64, members: &str) -> Run {
    let machine = format!("'machine': {{'topology': '{shape}', 'kernel': '{kernel}'}}");
    let text = format!("{{{machine}, {members}}}");
    world().costs_of_the_text().unlogged().millis(millis).run_text(&text)
}

/// Returns the CPU time of all tasks with names that begin so, in per cent of the time of all tasks.
fn share(run: &Run, begin: &str) -> f64 {
    let names = run.outcome.tasks.iter().map(|task| task.name.as_str());
    let of = |name: &str| run.ran(name).0 as f64;
    let all: f64 = names.clone().map(of).sum();
    let some: f64 = names.filter(|name| name.starts_with(begin)).map(of).sum();
    100.0 * some / all
}

/// Returns the longest time for which both tasks executed at the same time.
fn overlap(run: &Run, one: &str, other: &str) -> Nanos {
    let (some, others) = (run.stretches(one), run.stretches(other));
    let both = |a: &Stretch, b: &Stretch| a.to.min(b.to).since(a.from.max(b.from));
    let spans = some.iter().flat_map(|a| others.iter().map(move |b| both(a, b)));
    spans.max().unwrap_or(Nanos::ZERO)
}

#[track_caller]
fn is_about(run: &Run, what: &str, got: f64, want: f64, off: f64) {
    run.holds((got - want).abs() <= off, &format!("{what} is {got:.2}, not {want} +- {off}"));
}

/// Returns a hog with a cookie on a CPU, with further attributes.
fn hog(name: &str, cookie: &str, cpu: u16, more: &str) -> String {
    format!("'{name}': {{'cookie': '{cookie}', 'cpus': [{cpu}], 'run': 10000000, {more}}}, ")
}

#[test]
fn two_cookies_have_a_core_in_turns_and_one_has_both_threads() {
    for kernel in FAIR {
        let crossed = hog("a", "x", 0, "") + &hog("b", "y", 1, "");
        let run = run_on("1x1x2", kernel, 400, &crossed);
        is_about(&run, "the share of a", share(&run, "a"), 50.0, 2.0);
        run.holds(overlap(&run, "a", "b") <= Nanos(2_500), "they overlap by a kick at the most");
        let both = ms(400).since(Time::ZERO);
        is_about(
            &run,
            "the share of both",
            run.share("a", both) + run.share("b", both),
            100.0,
            2.0,
        );
        for same in ["x", ""] {
            let trusting = hog("a", same, 0, "") + &hog("b", same, 1, "") + &hog("c", "", 0, "");
            let run = run_on("1x1x2", kernel, 400, &trusting);
            run.holds(run.share("b", both) > 45.0, "tasks of a cookie run side by side");
        }
        let apart = run_on("1x2x1", kernel, 400, &crossed);
        run.holds(apart.share("a", both) > 99.0, "cookies matter on one core alone");
    }
}

#[test]
fn cookies_have_a_core_by_their_weights() {
    let groups = "'groups': {'/x': {'weight': 1024}, '/y': {'weight': 3072}}";
    for kernel in FAIR {
        // Nice -3 has the weight 1991, against 1024; 34 and 66 per cent.
        for (what, tasks, want) in [
            ("both threads, as many of each", ["", "", "", ""], 50.0),
            ("both threads, by nice", ["", "'priority': -3", "", "'priority': -3"], 34.0),
            (
                "both threads, by groups",
                ["'group': '/x'", "'group': '/y'", "'group': '/x'", "'group': '/y'"],
                25.0,
            ),
            ("two of one on each thread", ["'instance': 2", "", "'instance': 2", ""], 200.0 / 3.0),
        ] {
            let all = [("a0", "a", 0), ("b0", "b", 0), ("a1", "a", 1), ("b1", "b", 1)];
            let hogs = all.iter().zip(tasks).map(|(it, more)| hog(it.0, it.1, it.2, more));
            let tasks = format!("{groups}, 'tasks': {{{}}}", hogs.collect::<String>());
            let run = run_text_on("1x1x2", kernel, 2_000, &tasks);
            is_about(&run, what, share(&run, "a"), want, 2.0);
        }
        for (what, more, want) in [
            ("one on each thread, by nice", ["", "'priority': -3"], 34.0),
            ("one on each thread, by groups", ["'group': '/x'", "'group': '/y'"], 25.0),
        ] {
            let hogs = hog("a", "a", 0, more[0]) + &hog("b", "b", 1, more[1]);
            let run =
                run_text_on("1x1x2", kernel, 2_000, &format!("{groups}, 'tasks': {{{hogs}}}"));
            is_about(&run, what, share(&run, "a"), want, 2.0);
        }
        let four = |name: &str, cpu| hog(&format!("{name}{cpu}"), name, cpu, "");
        let hogs: String = ["a", "b", "c"]
            .iter()
            .flat_map(|name| (0..4).map(move |cpu| four(name, cpu)))
            .collect();
        let run = run_on("1x1x4", kernel, 2_000, &hogs);
        is_about(&run, "three cookies on four threads", share(&run, "a"), 100.0 / 3.0, 2.0);
    }
}

/// Seen failing: b stayed behind the cookie of its core, with half of a CPU, beside two idle CPUs.
#[test]
fn a_task_that_its_core_keeps_off_goes_to_an_idle_core() {
    let members = "'machine': {'topology': '2x1x2'}, 'tasks': {
        'a': {'cookie': 'x', 'cpus': [0], 'run': 10000000},
        'b': {'phases': {
            'near': {'cpus': [1], 'run': 5000},
            'anywhere': {'cpus': [0, 1, 2, 3], 'run': 10000000}}}}";
    let text = format!("{{{members}}}");
    let run = world().costs_of_the_text().unlogged().millis(1_000).run_text(&text);
    let all = ms(1_000).since(Time::ZERO);
    run.holds(run.share("b", all) > 90.0, "b has a CPU of its own");
    run.holds(run.share("a", all) > 90.0, "a has a CPU of its own");
}

#[test]
fn a_forced_idle_thread_is_told_and_takes_a_fitting_task_from_another_core() {
    let tasks = "'a': {'cookie': 'a', 'cpus': [0], 'run': 10000000},
        'b': {'cookie': 'b', 'cpus': [1], 'run': 10000000},
        'rest': {'instance': 4, 'cookie': 'a', 'cpus': [1, 2, 3], 'delay': 50000, 'run': 10000000}";
    for kernel in FAIR {
        let run = run_on("1x2x2", kernel, 300, tasks);
        let forced = |cpu: u16, until: Time| {
            let is = |what| matches!(what, What::ForcedIdle { .. });
            run.times(|it| it.cpu.0 == cpu && is(it.what) && it.at < until).len()
        };
        run.holds(forced(0, ms(50)) > 1 && forced(1, ms(50)) > 1, "each is forced idle in turn");
        let on_1 = |name: &str| run.cpus_of(name).contains(&1);
        let stolen = (0..4).any(|nth| on_1(&format!("rest-{nth}")));
        run.holds(stolen, "a task of cookie a came to run beside a");
    }
}

#[test]
fn a_wake_up_that_fits_ends_forced_idle_within_a_kick() {
    // Task a forces CPU 1 to idle, where b waits; a2 is woken there.
    let tasks = "'a': {'cookie': 'a', 'cpus': [0], 'policy': 'SCHED_FIFO', 'run': 10000000},
        'b': {'cookie': 'b', 'cpus': [1], 'run': 10000000},
        'a2': {'cookie': 'a', 'cpus': [1], 'run': 100, 'timer': {'ref': 't', 'period': 3000}}";
    let run = run_on("1x1x2", "6.18", 100, tasks);
    let latest = run.account("a2").wakeup_latency.max();
    run.holds(latest <= Some(Nanos::from_micros(60)), "it runs at once, its timer's slack aside");
    run.is("b waits for a", run.ran("b") < Nanos::from_millis(10), true);
}

#[test]
fn a_real_time_task_has_its_core_and_the_fair_server_gives_it_back() {
    let tasks = "'rt': {'cookie': 'r', 'cpus': [0], 'policy': 'SCHED_FIFO', 'run': 10000000},
        'b': {'cookie': 'b', 'cpus': [1], 'run': 10000000}";
    let run = run_on("1x1x2", "6.18", 3_000, tasks);
    // 50 ms of each second, on a thread that no real-time task has.
    is_about(&run, "the share of b", share(&run, "b"), 5.0, 1.0);
    // Kernels up to 6.11 throttle, for 50 ms of each second.
    let run = run_on("1x1x2", "6.1", 3_000, tasks);
    is_about(&run, "the share of b", share(&run, "b"), 5.0, 1.0);
}

/// Returns the longest wait of the tasks with this name.
fn longest_wait(run: &Run, name: &str) -> Nanos {
    let stretches = run.stretches(name);
    let begin = Stretch { cpu: 0, from: Time::ZERO, to: Time::ZERO };
    let end = Stretch { cpu: 0, from: run.end(), to: run.end() };
    let all: Vec<_> = [begin].into_iter().chain(stretches).chain([end]).collect();
    all.windows(2).map(|pair| pair[1].from.since(pair[0].to)).max().unwrap_or(Nanos::ZERO)
}

/// A task that always wants to run waits for at most one turn of each other cookie, for any behaviour of the others,
/// while all weights are equal. There are up to three cookies here, and the bound is eight of their slices and ticks.
#[test]
fn nobody_starves_beside_adversaries() {
    for (what, others) in [
        (
            "bursts on both threads",
            "'b': {'instance': 4, 'cookie': 'b', 'cpus': [0, 1], 'run': 400, 'sleep': 100}",
        ),
        (
            "forks at each wake-up",
            "'b': {'cookie': 'b', 'cpus': [0, 1], 'fork': 'c', 'run': 100, 'sleep': 800},
             'c': {'instance': 0, 'loop': 1, 'latency_nice': -20, 'run': 900}",
        ),
        (
            "sleeps before each tick",
            "'b': {'instance': 2, 'cookie': 'b', 'cpus': [0, 1], 'run': 950, 'sleep': 30}",
        ),
        (
            "wake each other on both threads",
            "'p': {'cookie': 'b', 'cpus': [0], 'sem_post': 'x', 'run': 300, 'sem_wait': 'y'},
             'q': {'cookie': 'b', 'cpus': [1], 'sem_wait': 'x', 'run': 300, 'sem_post': 'y'}",
        ),
        (
            "another cookie in each phase",
            "'b': {'cpus': [0, 1], 'phases': {
                'one': {'cookie': 'b', 'run': 500, 'sleep': 20},
                'two': {'cookie': 'c', 'run': 500, 'sleep': 20}}}",
        ),
        (
            "two hogs of others",
            "'b': {'cookie': 'b', 'cpus': [0], 'run': 10000000},
             'c': {'cookie': 'c', 'cpus': [0], 'run': 10000000}",
        ),
    ] {
        for kernel in ["6.12", "6.18"] {
            // The task is alone on its thread, while all tasks of the other thread have other cookies.
            let tasks = format!("{}{others}", hog("a", "a", 1, ""));
            let run = run_on("1x1x2", kernel, 1_000, &tasks);
            let waited = longest_wait(&run, "a");
            let bound = Nanos::from_millis(8 * (3 + 4));
            run.holds(waited <= bound, &format!("{what}: a waits {waited}"));
        }
    }
}

#[test]
fn many_cookies_have_a_core_in_turns() {
    let hogs: String =
        (0..64).map(|n| hog(&format!("t{n}"), &format!("c{n}"), n % 2, "")).collect();
    for kernel in FAIR {
        let run = run_on("1x1x2", kernel, 4_000, &hogs);
        let shares = (0..64).map(|n| run.share(&format!("t{n}"), ms(4_000).since(Time::ZERO)));
        let (least, most) = shares.fold((100.0_f64, 0.0_f64), |(a, b), it| (a.min(it), b.max(it)));
        let spread = format!("each has a 64th: {least:.2} to {most:.2}");
        run.holds(least > 1.0 && most < 2.2, &spread);
    }
}

/// A core that runs another cookie has room for a task if fewer tasks wait there.
#[test]
fn tasks_of_many_cookies_spread_over_cores() {
    let one =
        |n: u32| format!("'t{n}': {{'cookie': 'c{n}', 'delay': {}, 'run': 10000000}}, ", 200 * n);
    let tasks: String = (0..8).map(one).collect();
    let machine = "'machine': {'topology': '1x4x2'}";
    let text = format!("{{{machine}, 'tasks': {{{tasks}}}}}");
    let run = world().costs_of_the_text().unlogged().millis(2_000).run_text(&text);
    for n in 0..8 {
        let share = run.share(&format!("t{n}"), ms(2_000).since(Time::ZERO));
        is_about(&run, "the share of a core", share, 50.0, 6.0);
    }
}

/// A forced idle thread does not take the task that the other thread was assigned. Otherwise the other thread would
/// decide for the next task, the forced idle thread would take that too, and so on without an end.
#[test]
fn a_thread_does_not_take_what_the_other_is_about_to_run() {
    let own = |n| {
        let often = "'run': {'uniform': [100, 900]}, 'sleep': {'uniform': [100, 900]}";
        format!("'t{n}': {{'cookie': 'c{n}', {often}}}, ")
    };
    let tasks: String = (0..6).map(own).collect();
    for kernel in FAIR {
        let run = run_on("1x1x2", kernel, 1_000, &tasks);
        let all = ms(1_000).since(Time::ZERO);
        let ran: f64 = (0..6).map(|n| run.share(&format!("t{n}"), all)).sum();
        run.holds(
            ran > 95.0,
            &format!("{kernel}: the core runs a task for {ran:.1} % of the time"),
        );
    }
}
