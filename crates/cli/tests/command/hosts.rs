//! Tests of `runyard live` and `runyard linux`. They check properties that hold on real CPUs under any load. No test
//! bounds a time from above, beyond the duration that it requested.

use crate::json::Json;
use crate::report::{
    CPU, DISTRIBUTION, ENGINE, GROUP, HISTORY, LATENCY, MACHINE, REPORT, TASK, TIMERS,
};
use crate::rig::{Said, call, call_with};

/// Both hosts, `linux` last.
const HOSTS: [&str; 2] = ["live", "linux"];

/// A scenario that ends by itself. Each round of `a` and `b` is a mutex, a barrier and a pipe.
const ENDS: &str = r#"{
    "machine": {"cpus": 64},
    "tasks": {
        "tick": {"loop": 8, "timer": {"ref": "unique", "period": 2000, "mode": "absolute"},
                 "run": 200},
        "a": {"loop": 1, "phases": {
            "rounds": {"loop": 5, "lock": "m", "run": 100, "unlock": "m", "barrier": "b",
                       "send": {"ref": "p", "bytes": 10, "capacity": 5}},
            "forks": {"priority": 3, "cpus": [0], "fork": "child", "fork": "child"},
        }},
        "b": {"loop": 5, "lock": "m", "run": 100, "unlock": "m", "barrier": "b",
              "recv": {"ref": "p", "bytes": 10, "capacity": 5}},
        "child": {"instance": 0, "loop": 3, "run": 100, "sleep": 500},
    },
}"#;

fn run(host: &str, text: &str, options: &[&str]) -> Said {
    call_with(&[&[host, "-"], options].concat(), text.as_bytes())
}

#[track_caller]
fn report(host: &str, text: &str, options: &[&str]) -> Json {
    Json::read(&run(host, text, &[options, &["--json"]].concat()).done())
}

/// Returns the report of a run whose warnings are exactly the lines `left`.
#[track_caller]
fn report_that_leaves(host: &str, text: &str, options: &[&str], left: &[&str]) -> Json {
    let said = run(host, text, &[options, &["--json"]].concat());
    assert_eq!(said.code, Some(0), "{host}: {}", said.err);
    let lines = said.err.lines().map(|line| line.strip_prefix("warning: ").unwrap_or(line));
    assert_eq!(lines.collect::<Vec<_>>(), left, "{host}");
    Json::read(&said.out)
}

#[test]
fn the_fields_are_those_of_every_host() {
    for host in HOSTS {
        let report = report(host, ENDS, &[]);
        assert_eq!(report.keys(), REPORT);
        assert!(report.at("machine").keys().starts_with(&MACHINE));
        assert!(report.at("cpus.0").keys().starts_with(&CPU));
        assert!(report.at("tasks.0").keys().starts_with(&TASK));
        assert_eq!(report.at("tasks.0.wakeup_latency").keys(), LATENCY);
        assert!(report.at("groups.0").keys().starts_with(&GROUP));
        assert_eq!(report.at("timers").keys(), TIMERS);
        assert_eq!(report.at("engine").keys(), ENGINE);
        match host {
            "live" => assert_eq!(report.at("history").keys(), HISTORY),
            _ => assert_eq!(*report.at("history"), Json::Null),
        }
        assert_eq!(report.at("latencies.0").keys(), DISTRIBUTION);
        assert_eq!((report.text("schema"), report.text("host")), ("runyard.report/1", host));
        assert_eq!(report.list("cpus").len() as f64, report.number("machine.cpus"));
        assert!(report.list("violations").is_empty());
        let names: Vec<_> = (0..5).map(|at| report.text(&format!("tasks.{at}.name"))).collect();
        assert_eq!(names, ["tick", "a", "b", "child-0000", "child-0001"]);
        assert_eq!(report.list("tasks").len(), 5);
    }
}

#[test]
fn every_task_does_all_of_its_work() {
    for host in HOSTS {
        let report = report(host, ENDS, &[]);
        for (task, us) in [(0, 1600.0), (1, 500.0), (2, 500.0), (3, 300.0), (4, 300.0)] {
            let ran = report.number(&format!("tasks.{task}.runtime_ns"));
            assert!(ran >= us * 1e3 * 0.99, "{host}: task {task} ran {ran} of {us} us");
        }
        assert!(report.number("duration_ns") >= 16e6, "{host}: eight periods");
        let total = report.sum("tasks", "runtime_ns");
        assert_eq!(report.number("groups.0.runtime_ns"), total, "{host}: all ran in /");
    }
}

#[test]
fn runtime_wait_and_sleep_are_the_life_of_a_task() {
    let text = r#"{"global": {"duration": 1}, "tasks": {
        "hog": {"instance": 3, "run": 700}, "rest": {"policy": "SCHED_IDLE", "run": 100},
        "nap": {"policy": "SCHED_BATCH", "priority": 4, "run": 100, "sleep": 900, "yield": 1},
        "never": {"suspend": "x"}, "late": {"delay": 5000000, "run": 1}}}"#;
    for host in HOSTS {
        let left = ["never waits to be resumed in vain"];
        let report = report_that_leaves(host, text, &["--duration", "200ms"], &left);
        assert_eq!(report.number("duration_ns"), 200e6, "{host}");
        for task in report.list("tasks") {
            let parts = ["runtime_ns", "wait_ns", "sleep_ns"].map(|part| task.number(part));
            let life: f64 = parts.iter().sum();
            // `live` creates a task when the tasks before it exist.
            let whole = host == "linux" || task.text("name") == "hog-0";
            assert!(life == 200e6 || !whole && life < 200e6, "{host}: {life} ns of {task:?}");
        }
        // A task notices the end of the run only when it gets a CPU again.
        let ran = report.sum("tasks", "runtime_ns");
        assert!(ran <= 1.1 * 200e6 * report.number("machine.cpus"), "{host}: {ran} ns");
        let late = report.list("tasks").last().unwrap();
        assert!(late.number("runtime_ns") < 50e6, "{host}: it did not begin");
    }
}

#[test]
fn wake_ups_are_counted_where_the_program_determines_them() {
    // In each round of the barrier exactly one of the two tasks waits, whichever comes first.
    let text = r#"{"tasks": {
        "naps": {"loop": 10, "sleep": 2000},
        "delayed": {"delay": 3000, "loop": 1, "run": 10},
        "left": {"loop": 20, "run": 50, "barrier": "b"},
        "right": {"loop": 20, "run": 30, "barrier": "b"},
        "busy": {"loop": 3, "run": 10, "signal": "c", "sem_post": "s", "sem_wait": "s"}}}"#;
    let linux = report("linux", text, &[]);
    let woken = |at: usize| linux.number(&format!("tasks.{at}.wakeups"));
    assert_eq!((woken(0), woken(1), woken(4)), (11.0, 1.0, 1.0));
    assert_eq!(woken(2) + woken(3), 22.0, "two starts and twenty rounds");
    assert_eq!(linux.number("timers.armed"), 10.0);
    assert_eq!(linux.number("timers.expired"), 10.0);
    for host in HOSTS {
        let report = report(host, text, &[]);
        for task in report.list("tasks") {
            assert!(task.number("wakeups") >= 1.0, "{host}: its start is one");
            assert!(task.number("wakeup_latency.count") <= task.number("wakeups"), "{host}");
            assert!(task.number("wakeup_latency.min_ns") >= 0.0, "{host}");
        }
    }
}

#[test]
fn what_a_host_cannot_know_is_null() {
    let text =
        r#"{"tasks": {"a": {"loop": 1, "run": 10, "yield": 1}, "b": {"loop": 1, "run": 10}}}"#;
    let linux = report("linux", text, &[]);
    for path in [
        "machine.utilization",
        "machine.timer_interrupts",
        "machine.preemptions",
        "cpus.0.busy_ns",
        "cpus.0.forced_idle_ns",
        "tasks.0.latency_nice",
        "tasks.0.preemptions",
        "groups.0.nr_periods",
        "timers.greedy",
        "engine.decisions",
    ] {
        assert_eq!(linux.at(path), &Json::Null, "{path}");
    }
    assert!(linux.number("tasks.1.preemptions") >= 0.0, "it does not yield");
    assert!(linux.list("balance").is_empty(), "the kernel does not tell of it");
    let live = report("live", text, &[]);
    let parts = ["busy_ns", "idle_ns"].map(|part| live.sum("cpus", part));
    let time = live.number("duration_ns") * live.number("machine.cpus");
    assert_eq!(parts[0] + parts[1], time, "a CPU is busy or idle");
}

#[test]
fn a_run_ends_when_nobody_can_go_on() {
    let text = r#"{"tasks": {"a": {"loop": 1, "run": 10, "sem_wait": "s"},
        "b": {"loop": 1, "suspend": "x"}, "c": {"delay": 2000, "loop": 1, "wait":
        {"ref": "c", "mutex": "m"}}}}"#;
    for host in HOSTS {
        let left = [
            "a waits for the semaphore s in vain",
            "b waits to be resumed in vain",
            "c waits for the condition c in vain",
        ];
        let report = report_that_leaves(host, text, &[], &left);
        assert!(report.number("duration_ns") >= 2e6, "{host}: the last begins at 2 ms");
        assert_eq!(report.list("tasks").len(), 3);
    }
}

#[test]
fn the_machine_is_the_one_that_it_runs_on() {
    for host in HOSTS {
        let pinned = r#"{"machine": {"cpus": 4096}, "tasks": {"a": {"cpus": [4095], "loop": 1,
            "run": 1}}}"#;
        let line = run(host, pinned, &[]).refused();
        assert!(line.starts_with("-:1:"), "{host}: {line}");
        let one = report(host, ENDS, &["--cpus", "1"]);
        assert_eq!(one.number("machine.cpus"), 1.0);
        run(host, ENDS, &["--cpus", "0"]).misused();
        assert!(run(host, ENDS, &["--cpus", "60000"]).refused().contains("60000"));
        let line = run(host, ENDS, &["--topology", "64x64x16"]).refused();
        assert!(line.starts_with("--topology 64x64x16: 65536 CPUs, "), "{host}: {line}");
        let line = run(host, ENDS, &["--cpus", "1", "--topology", "1x2"]).refused();
        assert!(line.starts_with("--topology 1x2: 2 CPUs, but the run has 1"), "{host}: {line}");
        run(host, ENDS, &["--cpus", "1", "--topology", "1x1"]).done();
    }
}

#[test]
fn what_a_host_cannot_do_is_refused_or_said() {
    let refused = run("linux", ENDS, &["--feature", "NO_RT_PUSH"]).refused();
    assert!(refused.contains("--feature"), "the kernel has its own: {refused}");
    run("live", ENDS, &["--feature", "NO_SUCH"]).misused();
    let refused = run("linux", ENDS, &["--kernel", "6.12"]).refused();
    assert!(refused.contains("--kernel"), "this machine has one: {refused}");
    let said = run("live", ENDS, &["--kernel", "6.12", "--json"]);
    let live = Json::read(&said.out);
    assert_eq!(live.text("kernel"), "6.12");
    for feature in ["DELAY_DEQUEUE", "FAIR_SERVER", "PELT"] {
        assert!(!live.list("features").contains(&Json::Text(feature.to_owned())), "{feature}");
        assert!(said.err.contains(&format!("{feature} is off")), "{}", said.err);
    }
    let said = run("live", ENDS, &["--feature", "CFS_BANDWIDTH"]);
    assert!(said.err.contains("CFS_BANDWIDTH is off"), "{}", said.err);
    for host in HOSTS {
        assert!(run(host, "{\"tasks\": {", &[]).refused().starts_with("-:1:"), "{host}");
        call(&[host, "-", "--check"]).misused();
        let grouped = r#"{"groups": {"/web": {}}, "global": {"pi_enabled": true},
            "tasks": {"a": {"group": "/web", "loop": 1, "lock": "m", "run": 1, "unlock": "m"}}}"#;
        let said = run(host, grouped, &["--json"]);
        assert_eq!(said.code, Some(0), "{host}: {}", said.err);
        let lines: Vec<_> = said.err.lines().collect();
        // Whether the kernel makes groups depends on the machine.
        let inherits = |line: &&&str| line.contains("inherits no priorities");
        let inherits = lines.iter().filter(inherits).count();
        assert_eq!(inherits, usize::from(host == "live"), "{host}: {}", said.err);
        let groups = lines.iter().filter(|line| line.contains(NO_GROUPS)).count();
        assert_eq!(lines.len(), inherits + groups, "{host}: {}", said.err);
        assert!(groups == 0 || host == "linux", "{}", said.err);
        assert!(lines.iter().all(|line| line.starts_with("warning: ")), "{host}: {}", said.err);
    }
}

/// A deadlock under any load: each task holds the mutex that the other one waits for.
const DEADLOCK: &str = r#"{"tasks": {
    "a": {"loop": 1, "lock": "x", "barrier": "both", "lock1": "y"},
    "b": {"loop": 1, "lock": "y", "barrier": "both", "lock1": "x"},
    "c": {"loop": 1, "resume": "nobody", "sem_wait": "s"}}}"#;

#[test]
fn what_a_run_leaves_undone_is_told_by_name() {
    let left = [
        "-:4:32: no task called \"nobody\" is ever suspended",
        "deadlock: a waits for the mutex y, which b holds; b waits for the mutex x, which a holds",
        "c waits for the semaphore s in vain",
        "1 of the `resume` events for nobody found it not suspended",
    ];
    for host in ["sim", "live", "linux"] {
        for kind in ["barge", "hand_over", "inherit"] {
            let kinds = format!(r#"{{"mutexes": {{"x": "{kind}", "y": "{kind}"}}, "tasks": {{"#);
            let text = DEADLOCK.replacen(r#"{"tasks": {"#, &kinds, 1);
            // The runtime warns that it inherits no priorities.
            let warned = (host, kind) == ("live", "inherit");
            let said = ["live inherits no priorities: mutexes that do so hand over there"];
            let left = [&left[..1], &said[..usize::from(warned)], &left[1..]].concat();
            report_that_leaves(host, &text, &[], &left);
            report_that_leaves(host, &text, &["--duration", "200ms"], &left);
        }
        let own = r#"{"tasks": {"a": {"loop": 1, "lock": "m", "lock1": "m"}}}"#;
        let left = ["deadlock: a waits for the mutex m, which a holds"];
        report_that_leaves(host, own, &[], &left);
        report_that_leaves(
            host,
            &own.replacen('{', r#"{"mutexes": {"m": "hand_over"}, "#, 1),
            &[],
            &left,
        );
        let kept = r#"{"tasks": {"a": {"loop": 1, "lock": "m", "sem_post": "s"},
            "b": {"loop": 1, "sem_wait": "s", "lock": "m"}}}"#;
        report_that_leaves(
            host,
            kept,
            &[],
            &["b waits for the mutex m, which a held when it ended, in vain"],
        );
    }
}

/// Each task performs a fixed number of rounds of locks, conditions, pipes and forks, in any order. A lost wake-up
/// would leave a task blocked. Two tasks that hold a mutex at once would end too early.
#[test]
fn every_mutex_is_given_back_to_whoever_waits() {
    let text = r#"{"mutexes": {"handed": "hand_over", "lent": "inherit"},
        "tasks": {
            "locks": {"instance": 5, "loop": 60, "lock": "m", "run": {"uniform": [0, 60]}, "unlock": "m",
                      "run1": {"exponential": 30}, "lock1": "handed", "lock2": "lent", "run2": 10,
                      "unlock2": "lent", "unlock1": "handed", "yield": ""},
            "waits": {"loop": 20, "lock": "m", "sem_post": "ready", "wait": {"ref": "c", "mutex": "m"},
                      "run": 10, "unlock": "m"},
            "signals": {"loop": 20, "sem_wait": "ready", "lock": "m", "run": 20, "signal": "c", "unlock": "m"},
            "asks": {"loop": 20, "lock": "lent", "sem_post": "asked", "wait": {"ref": "d", "mutex": "lent"},
                     "unlock": "lent"},
            "answers": {"loop": 20, "sem_wait": "asked", "lock": "lent", "broad": "d", "unlock": "lent",
                        "fork": "child"},
            "child": {"instance": 0, "loop": 3, "lock": "m", "run": 20, "unlock": "m", "sleep": 50}}}"#;
    for host in ["sim", "live", "linux"] {
        let warned = ["live inherits no priorities: mutexes that do so hand over there"];
        let left = &warned[..usize::from(host == "live")];
        for seed in ["1", "2", "3"] {
            let report = report_that_leaves(host, text, &["--seed", seed], left);
            assert_eq!(report.list("tasks").len(), 5 + 4 + 20, "{host}");
        }
    }
}

const DEADLINE: &str = r#"{"tasks": {
    "reserves": {"policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 10000, "loop": 3,
                 "timer": {"ref": "unique", "period": 10000}, "run": 1000, "fork": "child"},
    "child": {"instance": 0, "loop": 1, "run": 100}}}"#;

#[test]
fn a_deadline_task_is_refused_unless_the_kernel_has_it_or_it_may_be_another() {
    for host in ["sim", "live"] {
        let refused = run(host, DEADLINE, &[]).refused();
        let place = "-:2:28: SCHED_DEADLINE is not available here; with --deadline-as-fifo ";
        assert!(refused.starts_with(place), "{host}: {refused}");
    }
    for host in ["sim", "live", "linux"] {
        let said = run(host, DEADLINE, &["--deadline-as-fifo", "--json"]);
        if said.code == Some(3) {
            println!("skipped: {host}: {}", said.err.trim());
            continue;
        }
        let report = Json::read(&said.out);
        let policy = (report.text("tasks.0.policy"), report.number("tasks.0.priority"));
        assert_eq!(policy, ("SCHED_FIFO", 99.0), "{host}");
        assert!(said.err.starts_with("warning: -:2:28: SCHED_DEADLINE is SCHED_FIFO of"), "{host}");
    }
}

/// The kernel enforces the budget, so a hog gets about the reserved time.
#[test]
fn the_kernel_schedules_deadline_tasks() {
    let said = run("linux", DEADLINE, &["--json"]);
    if said.code == Some(3) {
        assert!(
            said.err.contains("the kernel refuses SCHED_DEADLINE with 2000 us by"),
            "{}",
            said.err
        );
        println!("skipped: {}", said.err.trim());
        return;
    }
    let report = Json::read(&said.done());
    let policies: Vec<_> = (0..2).map(|at| report.text(&format!("tasks.{at}.policy"))).collect();
    assert_eq!(policies, ["SCHED_DEADLINE", "SCHED_OTHER"]);
    assert_eq!(report.number("tasks.0.priority"), 0.0);
    let hog = r#"{"tasks": {"hog": {"policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 20000,
        "run": 1000}}}"#;
    let report = Json::read(&run("linux", hog, &["--duration", "1s", "--json"]).done());
    let ran = report.number("tasks.0.runtime_ns");
    assert!((1e6..=0.15e9).contains(&ran), "a tenth of a second is reserved in it: {ran}");
}

/// The warning of a host without task groups. The reason follows.
const NO_GROUPS: &str = "makes no task groups, all tasks are in /: ";

/// Two groups share a CPU, and a task moves from one to the other. The kernel decides the share of each; the order
/// holds on any machine.
#[test]
fn the_kernel_makes_the_groups_of_a_scenario() {
    let text = r#"{"groups": {"/few": {"weight": 256}, "/many": {"weight": 4096}},
        "tasks": {
            "few": {"group": "/few", "cpus": [0], "run": 700},
            "many": {"group": "/many", "cpus": [0], "run": 700},
            "moves": {"loop": 1, "phases": {
                "here": {"group": "/many", "run": 2000}, "urgent": {"policy": "SCHED_OTHER",
                "priority": 3, "group": "/few", "run": 1000}}},
            "named": {"taskgroup": "/made/here", "loop": 1, "run": 1000, "fork": "child"},
            "child": {"instance": 0, "loop": 1, "run": 500}}}"#;
    let said = run("linux", text, &["--duration", "1s", "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let report = Json::read(&said.out);
    let ran: Vec<_> = (0..5).map(|at| report.number(&format!("tasks.{at}.runtime_ns"))).collect();
    assert!(ran[2] >= 3e6 * 0.99 && ran[3] >= 1e6 * 0.99 && ran[4] >= 0.5e6 * 0.99, "{ran:?}");
    let total = report.number("groups.0.runtime_ns");
    assert_eq!(total, report.sum("tasks", "runtime_ns"), "all are below /");
    if said.err.contains(NO_GROUPS) {
        println!("skipped: {}", said.err.trim());
        assert_eq!(
            (report.text("tasks.0.group"), report.at("groups.1.runtime_ns")),
            ("/", &Json::Null)
        );
        return;
    }
    assert_eq!(said.err, "");
    let groups: Vec<_> = (0..5).map(|at| report.text(&format!("tasks.{at}.group"))).collect();
    assert_eq!(groups, ["/few", "/many", "/many", "/made/here", "/"]);
    assert!(ran[1] > ran[0], "sixteen times the weight on one CPU: {ran:?}");
    let of = |path: &str| {
        let groups = report.list("groups").iter();
        let mut found = groups.filter(|group| group.text("path") == path);
        found.next().expect("each group is told of").number("runtime_ns")
    };
    assert!(of("/few") >= ran[0] + 1e6 * 0.9, "it moved there");
    assert!(of("/many") >= ran[1] + 2e6 * 0.9, "it was there");
    assert_eq!((of("/made"), of("/made/here")), (ran[3], ran[3]));
    assert_eq!(of("/few") + of("/many") + of("/made") + ran[4], total);
}

/// A limit of 20 ms in each 100 ms for two tasks that want a CPU each, and a larger limit for a group inside that
/// group. A busy machine may give them less.
const LIMITED: &str = r#"{
    "groups": {"/few": {"runtime": 20000, "burst": 1000}, "/few/more": {"runtime": 90000},
               "/any": {"weight": 2}},
    "tasks": {"hog": {"instance": 2, "group": "/few", "run": 500},
              "more": {"group": "/few/more", "run": 500}, "any": {"group": "/any", "run": 100}}}"#;

#[test]
fn the_kernel_holds_a_group_to_its_limit() {
    let said = run("linux", LIMITED, &["--duration", "2s", "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let report = Json::read(&said.out);
    let asked = ["limit.runtime_us", "limit.period_us", "limit.burst_us"];
    let limit = |at: &str| asked.map(|key| report.number(&format!("groups.{at}.{key}")));
    assert_eq!(limit("1"), [20_000.0, 100_000.0, 1_000.0]);
    assert_eq!(limit("2"), [90_000.0, 100_000.0, 0.0]);
    assert_eq!(report.at("groups.1.held_by"), &Json::Null);
    assert_eq!(report.text("groups.2.held_by"), "/few");
    assert_eq!(report.at("groups.1.cpus"), &Json::Null, "the kernel does not tell of them");
    if said.err.contains(NO_GROUPS) {
        println!("skipped: {}", said.err.trim());
        assert_eq!(report.at("groups.1.nr_periods"), &Json::Null);
        return;
    }
    // The unified hierarchy (version 2 of control groups) has no such warning.
    let more = said.err.matches("warning: linux: /few/more asks for more than a group").count();
    assert!(said.err.lines().count() == more && more <= 1, "{}", said.err);
    let few = |key: &str| report.number(&format!("groups.1.{key}"));
    // A period begins at the beginning and at the end, and each CPU may overrun a period by a tick.
    let most = (2.0e9 / 100e6 + 2.0) * 20e6 + 2.0 * 20.0 * 10e6;
    assert!(few("runtime_ns") > 0.0 && few("runtime_ns") < most, "{} ns", few("runtime_ns"));
    assert!(few("nr_throttled") > 0.0 && few("throttled_ns") > 0.0, "they want more");
    assert!(few("nr_periods") >= few("nr_throttled"));
    assert_eq!(report.at("groups.1.borrowed_ns"), &Json::Null, "the kernel does not borrow");
    assert_eq!(
        (report.number("groups.3.nr_throttled"), report.at("groups.3.limit")),
        (0.0, &Json::Null)
    );
}

/// Latency nice values and slices at each place where the language accepts them.
const SENSITIVE: &str = r#"{
    "groups": {"/web": {"latency_nice": -20}, "/idle": {"idle": true, "latency_nice": 19}},
    "tasks": {
        "plain": {"loop": 1, "run": 10},
        "parent": {"latency_nice": -20, "slice": 300, "loop": 1, "phases": {
            "p": {"run": 10, "fork": "child"},
            "q": {"latency_nice": 7, "slice": 100000, "run": 10, "fork": "child", "fork": "own"}}},
        "resets": {"latency_nice": -3, "slice": 100, "reset_on_fork": true, "loop": 1, "run": 10,
                   "fork": "other"},
        "child": {"instance": 0, "loop": 1, "run": 10},
        "own": {"instance": 0, "latency_nice": 0, "loop": 1, "run": 10},
        "other": {"instance": 0, "loop": 1, "run": 10},
    },
}"#;

#[test]
fn a_task_begins_with_its_latency_nice_or_with_its_parents() {
    for host in ["sim", "live"] {
        let report = Json::read(&run(host, SENSITIVE, &["--json"]).out);
        let of = |name: &str| {
            let mut tasks = report.list("tasks").iter().filter(|task| task.text("name") == name);
            tasks.next().expect("each task is told of").number("latency_nice")
        };
        let names = [
            ("plain", 0.0),
            ("parent", -20.0),
            ("resets", -3.0),
            ("child-0000", -20.0),
            ("child-0001", 7.0),
            ("own-0000", 0.0),
            ("other-0000", 0.0),
        ];
        assert_eq!(names.map(|(name, _)| (name, of(name))), names, "{host}");
    }
}

#[test]
fn the_kernel_has_no_latency_nice_which_is_said_once() {
    let said = run("linux", SENSITIVE, &["--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let report = Json::read(&said.out);
    assert!(report.list("tasks").iter().all(|task| *task.at("latency_nice") == Json::Null));
    let lines = |what: &str| said.err.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("warning: linux has no latency nice"), 1, "{}", said.err);
    // Whether the kernel accepts slices depends on the machine, but the warning appears once at most.
    assert!(lines("the kernel takes no slices") <= 1, "{}", said.err);
    let slices = r#"{"tasks": {"a": {"slice": 100, "loop": 1, "run": 1}}}"#;
    assert!(!run("linux", slices, &[]).err.contains("latency nice"), "nobody asks for any");
}

/// Cookies at each place where the language accepts them.
const TRUSTED: &str = r#"{
    "machine": {"topology": "1x1x2"},
    "groups": {"/web": {"cookie": "web"}},
    "tasks": {
        "parent": {"cookie": "db", "loop": 1, "phases": {
            "p": {"run": 10, "fork": "child"}, "q": {"cookie": "web", "run": 10, "fork": "child"}}},
        "served": {"group": "/web", "loop": 1, "phases": {"p": {"run": 10},
            "q": {"cookie": "", "run": 10}, "r": {"group": "/", "run": 10}}},
        "child": {"instance": 0, "loop": 1, "run": 10},
        "plain": {"loop": 1, "run": 10},
    },
}"#;

#[test]
fn a_task_has_a_cookie_on_every_host_that_has_some() {
    for host in ["sim", "live", "linux"] {
        let said = run(host, TRUSTED, &["--json"]);
        if host == "linux" && said.code == Some(3) {
            let begins = "linux: the kernel keeps no cookies";
            assert!(
                said.err.lines().last().is_some_and(|line| line.starts_with(begins)),
                "{}",
                said.err
            );
            assert_eq!(said.out, "");
            continue;
        }
        assert_eq!(said.code, Some(0), "{host}: {}", said.err);
        // `live` supports cookies on a machine with SMT.
        let warned = said.err.lines().filter(|line| line.contains("cookies")).collect::<Vec<_>>();
        let warning = "warning: live: cookies have no effect: ";
        let is_warning = |line: &&str| host == "live" && line.starts_with(warning);
        assert!(warned.len() < 2 && warned.iter().all(is_warning), "{host}: {warned:?}");
        let report = Json::read(&said.out);
        let cookie = |name: &str| {
            let mut tasks = report.list("tasks").iter().filter(|task| task.text("name") == name);
            tasks.next().expect("each task is told of").at("cookie").clone()
        };
        let text = |name: &str| Json::Text(name.to_owned());
        assert_eq!(["parent", "child-0000"].map(cookie), ["db", "db"].map(text), "{host}");
        assert_eq!(["served", "child-0001"].map(cookie), ["web", "web"].map(text), "{host}");
        assert_eq!(cookie("plain"), Json::Null);
        let rows = report.list("cookies");
        let names: Vec<_> = rows.iter().map(|row| row.at("name").clone()).collect();
        assert_eq!(names, [text("web"), text("db"), Json::Null], "{host}");
        assert_eq!(rows[0].keys(), ["name", "runtime_ns", "forced_idle_ns"]);
        let (ran, all) = (report.sum("cookies", "runtime_ns"), report.sum("tasks", "runtime_ns"));
        assert_eq!(ran, all, "{host}");
        match host {
            "linux" => assert_eq!(*rows[0].at("forced_idle_ns"), Json::Null),
            _ => {
                let [by_cpu, by_cookie] =
                    ["cpus", "cookies"].map(|it| report.sum(it, "forced_idle_ns"));
                assert_eq!(by_cpu, by_cookie, "{host}");
            }
        }
    }
}

/// The test needs a user without the permission for SCHED_FIFO; otherwise it checks nothing.
#[test]
fn a_missing_permission_is_exit_code_3() {
    let text = r#"{"tasks": {"a": {"policy": "SCHED_FIFO", "loop": 1, "run": 10},
        "b": {"delay": 60000000, "loop": 1, "run": 10}}}"#;
    let said = run("linux", text, &["--duration", "100ms"]);
    if said.code == Some(0) {
        return;
    }
    assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "{}", said.err);
    assert!(said.err.starts_with("linux: a: the kernel refuses SCHED_FIFO 10: "), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1);
}

/// Chains over a pipe beside a mutex that all want, over semaphores to two shards and back, and over forks.
const CHAINS: &str = r#"{
    "machine": {"cpus": 2},
    "tasks": {
        "maker": {"instance": 4, "loop": 50, "sleep": 100, "lock": "m", "run": 10, "unlock": "m",
                  "send": {"ref": "p", "bytes": 1, "capacity": 1000}},
        "user": {"instance": 2, "loop": 100, "recv": {"ref": "p", "bytes": 1}, "lock": "m", "run": 20, "unlock": "m"},
        "client": {"loop": 20, "sleep": 1000, "sem_post": "a", "sem_post2": "b", "sem_wait": "told", "sem_wait2": "told"},
        "one": {"loop": 20, "sem_wait": "a", "run": 100, "sem_post": "told"},
        "two": {"loop": 20, "sem_wait": "b", "run": 300, "sem_post": "told"},
        "parent": {"loop": 5, "sleep": 500, "run": 50, "fork": "child"},
        "child": {"instance": 0, "loop": 1, "run": 200},
    },
    "chains": {
        "piped": ["maker", "user"], "asked": ["client", ["one", "two"], "client"], "forked": ["parent", "child"],
        "made": {"tasks": ["maker"], "deadline_us": 1},
    },
}"#;

/// Each token is followed from the task that leaves a message to the task that takes it, whichever comes first and whoever waits for
/// the mutex. The wake-up with which a task begins is a token of which nothing comes.
#[test]
fn chains_are_those_of_a_simulation() {
    for host in ["sim", "live", "linux"] {
        let report = report(host, CHAINS, &[]);
        let number = |path: &str| match report.at(path) {
            Json::Number(number) => *number as u64,
            other => panic!("{host} {path}: {other:?}"),
        };
        let cases =
            [(200, 204, 4, 30_000), (20, 21, 1, 300_000), (5, 6, 1, 250_000), (204, 204, 0, 0)];
        for (nth, (count, began, dropped, least)) in cases.into_iter().enumerate() {
            let of = |field: &str| number(&format!("chains.{nth}.{field}"));
            assert_eq!(
                [of("count"), of("began"), of("dropped")],
                [count, began, dropped],
                "{host} {nth}"
            );
            let latency = of("latency.min_ns");
            assert!(latency >= least, "{host} {nth}: {latency} ns is less than the work");
        }
        assert_eq!(report.at("chains.0.missed"), &Json::Null);
        assert!(number("chains.3.missed") >= 200, "{host}: each runs for 10 us");
        let hop = |nth| report.at(&format!("chains.1.worst.0.hops.{nth}.task")).clone();
        assert_eq!([hop(0), hop(2)], ["client"; 2].map(|name| Json::Text(name.to_owned())));
    }
}
