//! Tests of `runyard explain`, and of the chains, missed deadlines and blocked tasks in reports.

use crate::json::Json;
use crate::rig::{Said, call_with, sim};

/// Two tasks that share a CPU. `t` waits for the more important one.
const LATE: &str = r#"{
    "machine": {"cpus": 2}, "global": {"duration": 1},
    "tasks": {
        "boss": {"policy": "SCHED_FIFO", "priority": 9, "cpus": [0], "run": 3000, "sleep": 7000},
        "t": {"policy": "SCHED_FIFO", "priority": 3, "cpus": [0], "run": 100, "sleep": 1000},
        "many": {"instance": 2, "run": 100, "sleep": 100000},
        "never": {"instance": 0, "run": 1},
    },
}"#;

fn explain(arguments: &[&str]) -> Said {
    call_with(&[&["explain", "-"], arguments].concat(), LATE.as_bytes())
}

#[test]
fn the_story_of_the_worst_wake_up_names_its_cause() {
    let told = explain(&["--task", "t"]).done();
    for words in [
        "t was started at 0.000000000 s.",
        "At once it was put on CPU 0, which was idle.",
        "Most of that, ",
        "only CPUs were free on which it may not run",
        "CPU 0 ran boss; CPU 1 was free, where it may not run",
        "\nCPU 0 ",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
    assert_eq!(told, explain(&["--task", "t"]).done(), "the same each time");
}

#[test]
fn the_json_of_a_story_is_what_the_report_says_and_its_parts_are_all_of_it() {
    let told = Json::read(&explain(&["--task", "t", "--json"]).done());
    let report = Json::read(&sim(LATE, &["--json"]).done());
    assert_eq!(told.at("worst"), report.at("tasks.1.worst.0"));
    let Json::List(parts) = told.at("parts") else { panic!("a list") };
    let number = |json: &Json, path: &str| match json.at(path) {
        Json::Number(number) => *number,
        other => panic!("{other:?}"),
    };
    let sum: f64 = parts.iter().map(|it| number(it, "to_ns") - number(it, "from_ns")).sum();
    assert!((sum - number(&told, "worst.latency_ns")).abs() < 0.5, "{told:?}");
}

#[test]
fn a_moment_chooses_the_wake_up_that_was_due_nearest() {
    let at =
        |moment: &str| Json::read(&explain(&["--task", "many", "--at", moment, "--json"]).done());
    assert_eq!(at("0.0001s").at("worst.at_ns"), &Json::Number(0.0));
    let Json::Number(due) = *at("500ms").at("worst.at_ns") else { panic!("a number") };
    assert!((due - 5e8).abs() < 6e7, "{due}");
}

#[test]
fn what_cannot_be_told_is_refused_in_a_line() {
    let line = |arguments: &[&str]| explain(arguments).refused();
    assert!(line(&["--task", "bos"]).contains("did you mean \"boss\"?"));
    assert!(line(&["--chain", "c"]).contains("no chain is called \"c\""));
    assert!(explain(&[]).misused().contains("--task"));
    assert!(explain(&["--task", "t", "--chain", "c"]).misused().contains("--chain"));
    assert!(line(&["--task", "never"]).contains("\"never\""));
    assert!(line(&["--task", "t", "--at", "2s"]).contains("the run ends at"));
    assert!(explain(&["--task", "t", "--at", "soon"]).misused().contains("as 1.5s"));
}

/// A chain of tasks of 1 ms each. The consumer is at work when the second message comes.
const CHAIN: &str = r#"{
    "machine": {"cpus": 2}, "global": {"duration": 1},
    "chains": {"c": {"tasks": ["first", "last"], "deadline_us": 100000}, "tight": {"tasks": ["first", "last"], "deadline_us": 500}},
    "tasks": {
        "first": {"cpus": [0], "loop": 10, "run": 1000, "sem_post": "s", "sleep": 9000},
        "last": {"cpus": [1], "loop": 10, "sem_wait": "s", "run": 1000},
    },
}"#;

#[test]
fn a_chain_is_told_from_end_to_end() {
    let report = Json::read(&sim(CHAIN, &["--json"]).done());
    let figure = |path: &str| match report.at(path) {
        Json::Number(number) => *number as u64,
        other => panic!("{other:?}"),
    };
    assert_eq!(figure("chains.0.count"), 10);
    assert_eq!([figure("chains.0.dropped"), figure("chains.0.missed")], [0, 0]);
    assert_eq!(figure("chains.1.missed"), 10);
    let p50 = figure("chains.0.latency.p50_ns");
    assert!((2_000_000..2_200_000).contains(&p50), "two runs of 1 ms: {p50}");
    let text = sim(CHAIN, &[]).done();
    assert!(text.contains("\nchain ") && text.contains("\ntight "), "{text}");
}

/// The hog keeps `last` off its CPU. In the slowest token that happens after `last` has begun, and the explanation has
/// that part too.
#[test]
fn the_slowest_token_of_a_chain_is_told_hop_by_hop() {
    let hog =
        r#""hog": {"policy": "SCHED_FIFO", "cpus": [1], "run": 4000, "sleep": 5000}, "first""#;
    let scenario = CHAIN.replace(r#""first": {"#, &format!("{hog}: {{"));
    let explain = |more: &[&str]| {
        let arguments = [&["explain", "-", "--chain", "c"], more].concat();
        call_with(&arguments, scenario.as_bytes()).done()
    };
    let told = Json::read(&explain(&["--json"]));
    let number = |path: &str| match told.at(path) {
        Json::Number(number) => *number as u64,
        other => panic!("{path}: {other:?}"),
    };
    let report = Json::read(&sim(&scenario, &["--json"]).done());
    let Json::Number(max) = *report.at("chains.0.latency.max_ns") else { panic!("a number") };
    assert_eq!(number("chain.latency_ns"), max as u64);
    assert_eq!(number("chain.hops.0.took_ns") + number("chain.hops.1.took_ns"), max as u64);
    assert_eq!([0, 1].map(|hop| number(&format!("chain.hops.{hop}.ran_ns"))), [1_000_000; 2]);
    assert!((4_000_000..4_100_000).contains(&(number("chain.hops.1.took_ns") - 1_000_000)));
    // The hog takes the CPU from `last`, which loses more by that than after its wake-up. Meanwhile CPU 0 is free, where it
    // may not run.
    let lost = number("chain.hops.1.waits.affinity");
    assert!((3_900_000..4_100_000).contains(&lost), "{lost}");
    assert_eq!(told.at("chain.helps_most"), &Json::Text("affinity".to_owned()));
    assert_eq!(number("chain.without_ns"), max as u64 - lost);
    let parts = |hop| {
        ["ran_ns", "slept_ns"]
            .map(|part| number(&format!("chain.hops.{hop}.{part}")))
            .iter()
            .sum::<u64>()
    };
    let waits = |hop| match told.at(&format!("chain.hops.{hop}.waits")) {
        Json::Object(causes) => causes
            .iter()
            .map(|(name, _)| number(&format!("chain.hops.{hop}.waits.{name}")))
            .sum::<u64>(),
        other => panic!("{other:?}"),
    };
    for hop in [0, 1] {
        assert_eq!(parts(hop) + waits(hop), number(&format!("chain.hops.{hop}.took_ns")));
    }
    assert!(told.at("lost") == &Json::Bool(true) && number("worst.latency_ns") >= lost - 100_000);
    let text = explain(&[]);
    assert!(text.starts_with("The slowest c began at ") && text.contains(" ran 1.00 ms"), "{text}");
}

/// A task that takes its next message without having slept has no wake-up.
#[test]
fn a_message_that_waits_takes_its_token_along() {
    let slow =
        CHAIN.replace("\"sem_wait\": \"s\", \"run\": 1000", "\"sem_wait\": \"s\", \"run\": 11000");
    let report = Json::read(&sim(&slow, &["--json"]).done());
    assert_eq!(report.at("chains.0.count"), &Json::Number(10.0));
    assert_eq!(report.at("chains.0.dropped"), &Json::Number(0.0));
}

#[test]
fn a_chain_of_nobody_is_refused_where_it_stands() {
    let chains = |chains: &str| {
        let text =
            format!("{{\"tasks\": {{\"a\": {{\"loop\": 1, \"run\": 1}}}}, \"chains\": {chains}}}");
        sim(&text, &[]).refused()
    };
    assert!(
        chains("{\"c\": [\"a\", \"b\"]}")
            .ends_with(": no task is called \"b\"; did you mean \"a\"?")
    );
    assert!(chains("{\"c\": []}").contains("a chain has a task"));
    assert!(chains("{\"c\": {\"deadline_us\": 5}}").contains("a chain needs `tasks`"));
    let odd = chains("{\"c\": {\"tasks\": [\"a\"], \"deadline\": 5}}");
    assert!(
        odd.ends_with("\"deadline\" is not known in a chain; did you mean \"deadline_us\"?"),
        "{odd}"
    );
}

#[test]
fn missed_periods_and_those_who_are_blocked_at_the_end_are_told() {
    let text = r#"{"machine": {"cpus": 1}, "tasks": {
        "p": {"loop": 5, "run": 1500, "timer": {"ref": "u", "period": 1000, "mode": "absolute"}},
        "a": {"loop": 1, "lock": "x", "sleep": 10, "lock1": "y", "run": 1},
        "b": {"loop": 1, "lock": "y", "sleep": 10, "lock1": "x", "run": 1}}}"#;
    let said = sim(text, &["--json"]);
    let report = Json::read(&said.out);
    assert_eq!(report.at("tasks.0.missed"), &Json::Number(5.0));
    assert_eq!(report.at("tasks.1.missed"), &Json::Number(0.0));
    let blocked = ["blocked_at_end.0.task", "blocked_at_end.0.on", "blocked_at_end.0.held_by"];
    let text = |text: &str| Json::Text(text.to_owned());
    assert_eq!(blocked.map(|path| report.at(path).clone()), ["a", "mutex y", "b"].map(text));
}

/// Ten threads under a limit of two CPUs: they wait for the budget in the middle of their runs.
const TEN_THREADS: &str = r#"{
    "machine": {"cpus": 16}, "global": {"duration": -1}, "groups": {"/pod": {"runtime": 200000, "period": 100000}},
    "tasks": {"t": {"instance": 10, "group": "/pod", "loop": 1, "run": 50000}},
}"#;

fn number(json: &Json, path: &str) -> u64 {
    match json.at(path) {
        Json::Number(number) => *number as u64,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn a_wait_for_a_budget_in_the_middle_of_a_run_is_told() {
    let explain = |more: &[&str]| {
        let arguments = [&["explain", "-", "--task", "t-3"], more].concat();
        call_with(&arguments, TEN_THREADS.as_bytes()).done()
    };
    let told = explain(&[]);
    for words in [
        "t-3 waited 125 ms, ran 50.0 ms",
        "throttled: /pod's budget was used up, by t-",
        "It ran again at",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
    let story = Json::read(&explain(&["--json"]));
    let (all, throttled) =
        (number(&story, "waited.wait_ns"), number(&story, "waited.waits.throttled"));
    assert!(throttled * 100 >= all * 99, "{throttled} of {all}");
    assert_eq!(story.at("waited.by.0.group"), &Json::Text("/pod".to_owned()));
    assert_eq!(story.at("lost"), &Json::Bool(true));
}

#[test]
fn the_causes_of_all_waits_are_in_the_report() {
    let report = Json::read(&sim(TEN_THREADS, &["--json", "--check"]).done());
    let sum = |path: &str| match report.at(path) {
        Json::Object(causes) => {
            causes.iter().map(|(name, _)| number(&report, &format!("{path}.{name}"))).sum::<u64>()
        }
        other => panic!("{other:?}"),
    };
    let waits: Vec<_> =
        (0..10).map(|task| number(&report, &format!("tasks.{task}.wait_ns"))).collect();
    for (task, wait) in waits.iter().enumerate() {
        assert_eq!(sum(&format!("tasks.{task}.waits")), *wait);
    }
    assert_eq!(sum("machine.waits"), waits.iter().sum::<u64>());
    assert_eq!(sum("groups.1.waits"), sum("machine.waits"));
    assert_eq!(sum("machine.wasted"), number(&report, "machine.wasted_ns"));
    assert!(number(&report, "machine.wasted.throttled") * 100 >= sum("machine.wasted") * 99);
    let text = sim(TEN_THREADS, &[]).done();
    assert!(text.contains("\nwaits of ") && text.contains("s: throttled 99."), "{text}");
}

/// A request that wakes its worker is not a timer.
#[test]
fn a_request_is_told_as_what_woke_its_worker() {
    let pool = r#"{
        "machine": {"cpus": 1}, "global": {"duration": 1},
        "arrivals": {"order": {"rate": 100, "sem_post": "work"}},
        "tasks": {"worker": {"sem_wait": "work", "run": 1000}, "hog": {"run": 1000}},
    }"#;
    let text =
        call_with(&["explain", "-", "--task", "worker", "--at", "0.5s"], pool.as_bytes()).done();
    assert!(text.contains(", when a request of order came.\n"), "{text}");
}

/// A pool that is too slow: the latencies of the requests that it served say little.
#[test]
fn tokens_that_are_under_way_at_the_end_are_told() {
    let pool = |rate: u32| {
        let text = format!(
            r#"{{"machine": {{"cpus": 1}}, "global": {{"duration": 1}},
            "arrivals": {{"order": {{"rate": {rate}, "sem_post": "work"}}}},
            "tasks": {{"worker": {{"instance": 2, "sem_wait": "work", "run": 2000}}}}}}"#
        );
        (call_with(&["sim", "-"], text.as_bytes()), text)
    };
    let said = pool(1_000).0.err;
    assert!(said.contains(" tokens had not reached the end; the latencies lack them"), "{said}");
    let (said, text) = pool(100);
    assert!(!said.err.contains("had not reached"), "{}", said.err);
    let told = call_with(&["explain", "-", "--task", "worker"], text.as_bytes()).done();
    assert!(told.starts_with("Of the 2 instances of worker, worker-"), "{told}");
    let chain = ["explain", "-", "--chain", "order", "--at", "0.5s"];
    assert!(call_with(&chain, text.as_bytes()).misused().contains("cannot be used with"), "{told}");
}
