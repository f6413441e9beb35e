//! Tests of the report of `runyard sim --json`: the order of its fields, and the sums that must agree.

use crate::json::Json;
use crate::rig::{call, file, sim};

const RUN: &str = r#"{
    "machine": {"cpus": 3, "costs": {"jitter_ns": 500}},
    "groups": {"/web": {"weight": 512}, "/web/api": {}},
    "global": {"duration": 2},
    "tasks": {
        "rt": {"policy": "SCHED_RR", "priority": 7, "run": {"exponential": 300}, "sleep": 700},
        "api": {"instance": 2, "priority": -5, "group": "/web/api", "run": {"normal": [900, 100]},
                "sleep": {"uniform": [100, 2000]}, "fork": "child"},
        "hog": {"policy": "SCHED_BATCH", "group": "/web", "run": 5000},
        "rest": {"policy": "SCHED_IDLE", "run": 1000},
        "late": {"delay": 3000000, "loop": 1, "run": 1},
        "child": {"instance": 0, "loop": 1, "run": 10}
    }
}"#;

pub const REPORT: [&str; 22] = [
    "schema",
    "host",
    "scenario",
    "seed",
    "kernel",
    "features",
    "duration_ns",
    "machine",
    "cpus",
    "tasks",
    "groups",
    "timers",
    "engine",
    "violations",
    "history",
    "latencies",
    "from_ns",
    "series",
    "balance",
    "cookies",
    "chains",
    "blocked_at_end",
];
const BALANCE: [&str; 8] =
    ["level", "moment", "passes", "balanced", "pinned", "failed", "moved", "taken"];
pub const MACHINE: [&str; 7] = [
    "cpus",
    "utilization",
    "switches",
    "preemptions",
    "migrations",
    "timer_interrupts",
    "topology",
];
pub const CPU: [&str; 9] = [
    "cpu",
    "busy_ns",
    "idle_ns",
    "rt_ns",
    "normal_ns",
    "idle_policy_ns",
    "overhead_ns",
    "switches",
    "forced_idle_ns",
];
pub const TASK: [&str; 19] = [
    "name",
    "policy",
    "priority",
    "latency_nice",
    "group",
    "runtime_ns",
    "wait_ns",
    "sleep_ns",
    "wakeups",
    "switches",
    "preemptions",
    "migrations",
    "wakeup_latency",
    "thread",
    "cookie",
    "slack_ns",
    "slack_wakeups",
    "missed",
    "worst",
];
pub const LATENCY: [&str; 8] =
    ["count", "min_ns", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
pub const GROUP: [&str; 13] = [
    "path",
    "runtime_ns",
    "nr_periods",
    "nr_throttled",
    "throttled_ns",
    "nr_bursts",
    "burst_ns",
    "borrowed_ns",
    "limit",
    "held_by",
    "cpus",
    "pressure_some_ns",
    "pressure_full_ns",
];
const GROUP_CPU: [&str; 5] = ["cpu", "used_ns", "nr_throttled", "throttled_ns", "borrowed_ns"];
pub const TIMERS: [&str; 4] = ["armed", "expired", "greedy", "cancelled"];
pub const ENGINE: [&str; 3] = ["decisions", "events", "wall_ns"];
pub const HISTORY: [&str; 7] =
    ["step_ns", "rt_ns", "normal_ns", "idle_policy_ns", "overhead_ns", "idle_ns", "cpus"];
pub const DISTRIBUTION: [&str; 4] = ["name", "tasks", "wakeup_latency", "points"];

fn report() -> Json {
    Json::read(&sim(RUN, &["--json"]).done())
}

fn row<'r>(report: &'r Json, list: &str, key: &str, value: &str) -> &'r Json {
    let found = report.list(list).iter().find(|row| row.text(key) == value);
    found.unwrap_or_else(|| panic!("{list} has a {value}"))
}

#[test]
fn the_fields_of_the_contract_come_first_and_in_order() {
    let report = report();
    assert_eq!(report.keys(), REPORT);
    assert!(report.at("machine").keys().starts_with(&MACHINE));
    assert_eq!(report.at("timers").keys(), TIMERS);
    assert_eq!(report.at("engine").keys(), ENGINE);
    assert!(report.list("cpus").iter().all(|cpu| cpu.keys().starts_with(&CPU)));
    for task in report.list("tasks") {
        assert!(task.keys().starts_with(&TASK), "{:?}", task.keys());
        assert_eq!(task.at("wakeup_latency").keys(), LATENCY);
    }
    assert!(report.list("groups").iter().all(|group| group.keys().starts_with(&GROUP)));
    assert!(report.at("history").keys().starts_with(&HISTORY));
    assert!(report.list("history.cpus").iter().all(|cpu| cpu.keys() == ["cpu", "busy_ns"]));
    for distribution in report.list("latencies") {
        assert_eq!(distribution.keys(), DISTRIBUTION);
        assert_eq!(distribution.at("wakeup_latency").keys(), LATENCY);
    }
    assert_eq!(report.text("schema"), "runyard.report/1");
    assert_eq!((report.text("host"), report.text("scenario")), ("sim", "-"));
    assert_eq!((report.number("seed"), report.number("duration_ns")), (1.0, 2e9));
    assert!(report.list("violations").is_empty());
}

#[test]
fn rows_are_in_the_files_order() {
    let report = report();
    let names: Vec<_> = report.list("tasks").iter().map(|task| task.text("name")).collect();
    let first = ["rt", "api-0", "api-1", "hog", "rest", "late"];
    assert_eq!(names[..6], first);
    assert!(names.len() > 100 && names[6..].iter().all(|name| name.starts_with("child-")));
    let cpus: Vec<_> = report.list("cpus").iter().map(|cpu| cpu.number("cpu")).collect();
    assert_eq!(cpus, [0.0, 1.0, 2.0]);
    let paths: Vec<_> = report.list("groups").iter().map(|group| group.text("path")).collect();
    assert_eq!(paths, ["/", "/web", "/web/api"]);
}

#[test]
fn tasks_are_what_the_file_says() {
    let report = report();
    for (name, policy, priority, group) in [
        ("rt", "SCHED_RR", 7.0, "/"),
        ("api-1", "SCHED_OTHER", -5.0, "/web/api"),
        ("hog", "SCHED_BATCH", 0.0, "/web"),
        ("rest", "SCHED_IDLE", 0.0, "/"),
    ] {
        let task = row(&report, "tasks", "name", name);
        assert_eq!((task.text("policy"), task.number("priority")), (policy, priority), "{name}");
        assert_eq!((task.text("group"), task.number("latency_nice")), (group, 0.0), "{name}");
        assert!(task.number("runtime_ns") > 0.0, "{name} ran");
    }
    let late = row(&report, "tasks", "name", "late");
    assert_eq!((late.number("sleep_ns"), late.number("wakeups")), (2e9, 0.0));
    let latency = late.at("wakeup_latency");
    assert_eq!(latency.number("count"), 0.0);
    let none = LATENCY[1..].iter().all(|figure| *latency.at(figure) == Json::Null);
    assert!(none, "nothing can be said of no wake-ups: {latency:?}");
}

#[test]
fn the_parts_sum_to_the_whole() {
    let report = report();
    let whole = report.number("duration_ns");
    for cpu in report.list("cpus") {
        let busy = cpu.number("busy_ns");
        assert_eq!(busy + cpu.number("idle_ns"), whole);
        let parts = ["rt_ns", "normal_ns", "idle_policy_ns", "overhead_ns"];
        assert_eq!(parts.iter().map(|part| cpu.number(part)).sum::<f64>(), busy);
    }
    for task in &report.list("tasks")[..6] {
        let parts = ["runtime_ns", "wait_ns", "sleep_ns"];
        let life: f64 = parts.iter().map(|part| task.number(part)).sum();
        assert_eq!(life, whole, "it lives as long as the run: {task:?}");
    }
    let executed = ["rt_ns", "normal_ns", "idle_policy_ns"].map(|part| report.sum("cpus", part));
    assert_eq!(executed.iter().sum::<f64>(), report.sum("tasks", "runtime_ns"));
    assert_eq!(executed[0], row(&report, "tasks", "name", "rt").number("runtime_ns"));
    for figure in ["switches", "preemptions", "migrations"] {
        assert_eq!(report.sum("tasks", figure), report.number(&format!("machine.{figure}")));
    }
    assert_eq!(report.sum("cpus", "switches"), report.number("machine.switches"));
    let busy = report.sum("cpus", "busy_ns") / (3.0 * whole);
    assert!((report.number("machine.utilization") - busy).abs() < 1e-6);
    let group = |path| row(&report, "groups", "path", path).number("runtime_ns");
    assert_eq!(group("/"), report.sum("tasks", "runtime_ns"), "all are in the root");
    let hog = row(&report, "tasks", "name", "hog").number("runtime_ns");
    assert_eq!(group("/web"), group("/web/api") + hog, "a child counts for its parent");
}

#[test]
fn what_is_drawn_is_what_is_told() {
    let report = report();
    let numbers = |value: &Json, path: &str| -> Vec<f64> {
        value.list(path).iter().map(|number| number.as_number().unwrap()).collect()
    };
    let steps = numbers(&report, "history.rt_ns").len();
    assert!((100..=200).contains(&steps), "{steps} steps");
    for kind in ["rt_ns", "normal_ns", "idle_policy_ns", "overhead_ns", "idle_ns"] {
        let spans = numbers(&report, &format!("history.{kind}"));
        assert_eq!(spans.len(), steps, "{kind}");
        assert_eq!(spans.iter().sum::<f64>(), report.sum("cpus", kind), "{kind}");
    }
    for (cpu, history) in report.list("cpus").iter().zip(report.list("history.cpus")) {
        assert_eq!(history.number("cpu"), cpu.number("cpu"));
        let busy = numbers(history, "busy_ns").iter().sum::<f64>();
        assert_eq!(busy, cpu.number("busy_ns"));
    }
    let names: Vec<_> = report.list("latencies").iter().map(|it| it.text("name")).collect();
    assert_eq!(names, ["rt", "api", "hog", "rest", "late", "child"]);
    for (name, it) in names.iter().zip(report.list("latencies")) {
        let own = |task: &&Json| {
            task.text("name").trim_end_matches(|c: char| c.is_ascii_digit() || c == '-') == *name
        };
        let tasks: Vec<_> = report.list("tasks").iter().filter(own).collect();
        assert_eq!(it.number("tasks"), tasks.len() as f64, "{name}");
        let count: f64 = tasks.iter().map(|task| task.number("wakeup_latency.count")).sum();
        assert_eq!(it.number("wakeup_latency.count"), count, "{name}");
        let points = it.list("points");
        assert!(points.len() <= 128, "{name}");
        assert_eq!(points.iter().map(|point| point.number("1")).sum::<f64>(), count, "{name}");
    }
}

/// Checks that the rows of load balancing are in order, name existing levels and moments, and add up.
fn check_balance(report: &Json) {
    let place = |row: &Json| {
        let level = ["smt", "node", "machine"].iter().position(|it| *it == row.text("level"));
        let moments = ["busy", "idle", "newly_idle"];
        let moment = moments.iter().position(|it| *it == row.text("moment"));
        (level.expect("a level"), moment.expect("a moment"))
    };
    let rows = report.list("balance");
    assert!(rows.is_sorted_by(|one, next| place(one) < place(next)), "{rows:?}");
    for row in rows {
        assert_eq!(row.keys(), BALANCE);
        let [passes, balanced, pinned, failed, moved] =
            ["passes", "balanced", "pinned", "failed", "moved"].map(|it| row.number(it));
        let successful = passes - balanced - pinned - failed;
        assert!(passes > 0.0 && successful >= 0.0, "a row is of passes: {row:?}");
        assert!(moved >= successful, "who succeeds moves somebody: {row:?}");
        assert_eq!(moved > 0.0, successful > 0.0, "{row:?}");
        assert!(row.number("taken") <= failed, "after a failure: {row:?}");
    }
}

#[test]
fn balancing_is_told_of() {
    // A machine with every level, too many tasks for it, and some that may not be moved.
    let text = r#"{
        "machine": {"cpus": 16, "topology": "2x4x2"}, "global": {"duration": 1},
        "tasks": {"hog": {"instance": 40, "run": 3000, "sleep": 50},
                  "pinned": {"instance": 3, "cpus": [1], "run": 1000},
                  "idle": {"instance": 20, "policy": "SCHED_IDLE", "run": 10000}}
    }"#;
    for feature in ["IDLE_LOAD_BALANCE", "NO_IDLE_LOAD_BALANCE"] {
        let report = Json::read(&sim(text, &["--json", "--feature", feature]).done());
        check_balance(&report);
        let levels: Vec<_> = report.list("balance").iter().map(|row| row.text("level")).collect();
        assert!(["smt", "node", "machine"].iter().all(|it| levels.contains(it)), "{levels:?}");
        assert!(report.sum("balance", "moved") > 0.0, "{feature}");
        let none = sim(text, &["--json", "--feature", feature, "--feature", "NO_LOAD_BALANCE"]);
        assert!(Json::read(&none.done()).list("balance").is_empty(), "nobody balances");
    }
}

#[test]
fn the_counts_are_plausible() {
    let report = report();
    let (armed, expired) = (report.number("timers.armed"), report.number("timers.expired"));
    assert!(armed > 1_000.0 && expired <= armed && armed - expired <= 3.0, "{armed}, {expired}");
    let greedy = report.number("timers.greedy");
    assert!(greedy > 0.0 && greedy < expired, "{greedy} of {expired} greedily");
    assert_eq!(report.number("timers.cancelled"), 0.0);
    let regular = sim(RUN, &["--json", "--feature", "NO_GREEDY_TIMERS"]).done();
    assert_eq!(Json::read(&regular).number("timers.greedy"), 0.0);
    let interrupts = report.number("machine.timer_interrupts");
    assert!((2_000.0..6_000.0 + expired).contains(&interrupts), "{interrupts} with the ticks");
    assert!(report.number("engine.decisions") >= report.number("machine.switches"));
    assert!(report.number("engine.events") > report.number("engine.decisions"));
    for task in report.list("tasks") {
        let latency = task.at("wakeup_latency");
        if latency.number("count") == 0.0 {
            continue;
        }
        let figures = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
        assert!(figures.map(|figure| latency.number(figure)).is_sorted(), "{latency:?}");
        let mean = latency.number("mean_ns");
        assert!((latency.number("min_ns")..=latency.number("max_ns")).contains(&mean));
        assert!(latency.number("count") <= task.number("wakeups"), "{task:?}");
    }
}

/// Returns the report without its wall-clock time.
fn without_wall(report: &str) -> String {
    let at = report.find("\"wall_ns\": ").expect("a report says how long it took");
    let number = at + "\"wall_ns\": ".len();
    let end = report[number..].find(|c: char| !c.is_ascii_digit()).unwrap();
    format!("{}{}", &report[..number], &report[number + end..])
}

#[test]
fn the_same_run_is_the_same_report_to_the_byte() {
    let name = file("repeated.json", RUN);
    for options in [&[][..], &["--seed", "9"], &["--cpus", "5", "--feature", "NO_RT_PUSH"]] {
        let arguments = [&["sim", &name, "--json"], options].concat();
        let first = without_wall(&call(&arguments).done());
        assert_eq!(first, without_wall(&call(&arguments).done()));
        assert!(first.contains("\"scenario\": \"repeated\""));
    }
}

#[test]
fn a_report_for_people_says_the_same() {
    let name = file("people.json", RUN);
    let text = call(&["sim", &name]).done();
    for word in ["people on sim", "3 CPUs", "2.00 s", "seed 1", "rt ", "\napi ", "hog", "/web/api"]
    {
        assert!(text.contains(word), "{word}\n{text}");
    }
    assert!(!text.contains("api-0"), "instances are one row\n{text}");
    let each = call(&["sim", &name, "--tasks"]).done();
    let instances = ["api-0", "api-1", "child-0000", "child-0100"];
    assert!(instances.iter().all(|name| each.contains(name)), "{each}");
    for text in [text, each] {
        assert!(text.lines().all(|line| line.chars().count() <= 110), "lines are short\n{text}");
    }
}

#[test]
fn a_scenario_is_called_as_its_file() {
    for (file_name, name) in [("a.b.json", "a.b"), ("plain", "plain"), (".hidden", ".hidden")] {
        let file_name = file(file_name, "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1}}}");
        let report = Json::read(&call(&["sim", &file_name, "--json"]).done());
        assert_eq!(report.text("scenario"), name);
    }
}

/// Four CPUs, and a group with 20 ms in each 100 ms for three tasks. One of them is in an inner group that asks for
/// more. Another group has no limit.
const LIMITED: &str = r#"{
    "machine": {"cpus": 4, "costs": {"jitter_ns": 0}},
    "groups": {"/few": {"runtime": 20000}, "/few/more": {"runtime": 90000}, "/any": {}},
    "global": {"duration": 1},
    "tasks": {"hog": {"instance": 2, "group": "/few", "run": 500},
              "more": {"group": "/few/more", "run": 500}, "any": {"group": "/any", "run": 100}}
}"#;

#[test]
fn limits_are_told_of_with_who_used_them_where() {
    let report = Json::read(&sim(LIMITED, &["--json"]).done());
    let group = |path| row(&report, "groups", "path", path);
    let few = group("/few");
    assert_eq!(few.at("limit").keys(), ["runtime_us", "period_us", "burst_us", "per_cpu"]);
    assert_eq!((few.number("limit.runtime_us"), few.number("limit.period_us")), (20e3, 100e3));
    assert!(few.list("cpus").iter().all(|cpu| cpu.keys() == GROUP_CPU));
    assert_eq!(few.number("nr_throttled"), 10.0, "in each period");
    // The first quota, one at the end of each of ten periods, and a tick of debt on each CPU.
    assert!(few.number("runtime_ns") <= 11.0 * 20e6 + 4.0 * 1e6, "eleven quotas of 20 ms");
    for part in ["throttled_ns", "borrowed_ns"] {
        assert_eq!(few.sum("cpus", part), few.number(part), "{part}");
    }
    assert!(few.sum("cpus", "used_ns") >= few.number("runtime_ns"), "switches count too");
    assert_eq!((few.at("held_by"), group("/few/more").text("held_by")), (&Json::Null, "/few"));
    let any = group("/any");
    assert_eq!((any.at("limit"), any.list("cpus").len()), (&Json::Null, 0));
    assert_eq!((any.number("nr_periods"), any.number("throttled_ns")), (0.0, 0.0));

    let text = sim(LIMITED, &[]).done();
    assert!(text.contains("\n/few       20 ms/100 ms  110."), "{text}");
    assert!(
        text.contains("\n/few/more asks for more than /few has, and is held by that\n"),
        "{text}"
    );
}
