//! Tokens of chains as requests are: with copies for several tasks, in batches, from arrivals. Nothing but the tasks takes
//! time here.

use runyard_report::ChainReport;
use runyard_workload::{Overrides, parse};

/// Runs a scenario with these sections on eight CPUs for a second, and returns its chains.
fn chains(sections: &str) -> Vec<ChainReport> {
    let text = format!(
        r#"{{
            "machine": {{"cpus": 8, "costs": {{
                "context_switch_ns": 0, "migration_ns": 0, "ipi_ns": 0, "wakeup_ns": 0,
                "timer_interrupt_ns": 0, "timer_spread_ns": 0, "jitter_ns": 0
            }}}},
            "global": {{"duration": 1}}, {sections}
        }}"#
    );
    let parsed = parse("chains", &text, &Overrides::default());
    let scenario = parsed.unwrap_or_else(|error| panic!("{error}\n{text}")).scenario;
    runyard_sweep::report(("chains", &scenario), 1, &|| false).unwrap().unwrap().chains
}

/// The number of tokens that ended, and the shortest and the longest time in microseconds.
fn took(chain: &ChainReport) -> (u64, u64, u64) {
    let micros = |ns: Option<u64>| ns.unwrap_or_default() / 1_000;
    (chain.count.unwrap(), micros(chain.latency.min_ns), micros(chain.latency.max_ns))
}

/// The tokens that began, and those that were dropped or refused.
fn counts(chain: &ChainReport) -> (u64, u64, Option<u64>) {
    (chain.began.unwrap(), chain.dropped.unwrap(), chain.refused)
}

const SHARDS: &str = r#"
    "one": {"sem_wait": "one", "run": 1000, "sem_post": "told"},
    "two": {"sem_wait": "two", "run": 2000, "sem_post": "told"},
    "four": {"sem_wait": "four", "run": 4000, "sem_post": "told"}"#;

#[test]
fn a_request_ends_with_its_last_part_or_its_first() {
    let ask = r#""timer": {"ref": "unique", "period": 10000, "mode": "absolute"},
        "run": 100, "sem_post": "one", "run2": 100, "sem_post2": "two", "sem_post3": "four""#;
    for gather in [
        r#""sem_wait": "told", "sem_wait2": "told", "sem_wait3": "told", "run3": 50"#,
        r#""sem_wait": "told", "run3": 10, "sem_wait2": "told", "run4": 10, "sem_wait3": "told", "run5": 50"#,
    ] {
        let way = r#"["client", ["one", "two", "four"], "client"]"#;
        let chains = chains(&format!(
            r#""tasks": {{"client": {{{ask}, {gather}}}, {SHARDS}}},
            "chains": {{"all": {way}, "first": {{"tasks": {way}, "join": "first"}}, "two": ["client", "two"]}}"#
        ));
        // The timer's slack delays wake-ups, and the latency begins before it.
        let [all, first, two] = &chains[..] else { panic!("three chains") };
        for (chain, least) in [(all, 4_250), (first, 1_100), (two, 2_200)] {
            let (count, shortest, longest) = took(chain);
            assert!((98..=100).contains(&count), "{chain:?}");
            assert!(shortest >= least && longest <= least + 160, "{least}: {chain:?}");
        }
        // The client's start is a wake-up too, of which nothing comes.
        assert_eq!([all.dropped, first.dropped], [Some(1); 2]);
        let slowest: Vec<_> = all.worst[0].hops.iter().map(|hop| hop.task.as_str()).collect();
        assert_eq!(slowest, ["client", "four", "client"]);
    }
}

#[test]
fn each_byte_of_a_message_may_have_another_taker() {
    let chains = chains(
        r#""tasks": {
            "client": {"timer": {"ref": "unique", "period": 10000}, "send": {"ref": "p", "bytes": 60}, "recv": {"ref": "q", "bytes": 60}},
            "worker": {"instance": 60, "recv": {"ref": "p", "bytes": 1}, "run": 100, "send": {"ref": "q", "bytes": 1}}
        },
        "chains": {"all": ["client", "worker", "client"], "first": {"tasks": ["client", "worker"], "join": "first"}}"#,
    );
    let (all, first) = (took(&chains[0]), took(&chains[1]));
    assert!(all.0 >= 98 && first.0 >= 98, "{all:?} {first:?}");
    // 60 workers of 100 us on eight CPUs, of which fair tasks share some.
    assert!((750..1_000).contains(&all.1), "{all:?}");
    assert!(first.1 >= 100 && first.1 < all.1 - 400, "{first:?}");
}

#[test]
fn a_batch_of_tokens_goes_on_together() {
    for take in [
        r#""recv": {"ref": "p", "bytes": 4}"#,
        r#""recv": {"ref": "p", "bytes": 1}, "recv2": {"ref": "p", "bytes": 2}, "recv3": {"ref": "p", "bytes": 1}"#,
    ] {
        let chains = chains(&format!(
            r#""tasks": {{
                "client": {{"instance": 4, "timer": {{"ref": "unique", "period": 10000}}, "send": {{"ref": "p", "bytes": 1}}}},
                "server": {{{take}, "run": 1000, "sem_post": "s"}},
                "writer": {{"sem_wait": "s", "run": 500}}
            }},
            "chains": {{"c": ["client", "server", "writer"]}}"#
        ));
        let (count, shortest, longest) = took(&chains[0]);
        assert!((4 * 98..=400).contains(&count), "{chains:?}");
        assert!(shortest >= 1_500 && longest <= 1_600, "{chains:?}");
    }
}

#[test]
fn a_busy_worker_takes_the_oldest_request() {
    let chains = chains(
        r#""arrivals": {"in": {"times": [0, 100, 200, 300], "sem_post": "work", "bound": 2}},
        "tasks": {"worker": {"sem_wait": "work", "run": 1000}}"#,
    );
    // The worker begins with the run, perhaps after the first request; one of four is refused.
    assert_eq!(counts(&chains[0]), (4, 0, Some(1)));
    assert_eq!(took(&chains[0]), (3, 1_000, 2_800));
    assert_eq!(chains[0].worst[0].at_ns, 200_000);
}

#[test]
fn a_sleep_is_a_part_of_a_request() {
    let sleeps = r#""run": 100, "sleep": 2000, "run2": 100"#;
    for (to, task) in [
        (r#""sem_post": "work""#, format!(r#""sem_wait": "work", {sleeps}"#)),
        (r#""fork": "task""#, format!(r#""instance": 0, "loop": 1, {sleeps}"#)),
    ] {
        let chains = chains(&format!(
            r#""arrivals": {{"in": {{"every": 10000, {to}}}}}, "tasks": {{"task": {{{task}}}}}"#
        ));
        let (count, shortest, longest) = took(&chains[0]);
        assert_eq!(count, 99, "{chains:?}");
        assert!(shortest >= 2_200 && longest <= 2_260, "{chains:?}");
        assert_eq!(chains[0].refused, Some(0));
    }
}

#[test]
fn requests_of_arrivals_go_through_other_tasks_and_come_back() {
    let chains = chains(
        r#""arrivals": {"in": {"every": 1000, "jitter": 300, "sem_post": "work", "deadline_us": 1100}},
        "tasks": {
            "worker": {"instance": 4, "sem_wait": "work", "run": 100, "sem_post": "query", "sem_wait2": "rows", "run2": 200},
            "base": {"instance": 2, "sem_wait": "query", "run": 800, "sem_post": "rows"}
        },
        "chains": {"in": ["worker", "base", "worker"]}"#,
    );
    let (count, shortest, longest) = took(&chains[0]);
    assert!(count >= 998 && chains.len() == 1, "{chains:?}");
    assert!(shortest == 1_100 && longest < 1_400, "{chains:?}");
    assert!(chains[0].missed.unwrap() < 20, "{chains:?}");
}

#[test]
fn requests_with_a_task_each_are_bounded() {
    let chains = chains(
        r#""arrivals": {"in": {"every": 110, "fork": "task", "bound": 8}},
        "tasks": {"task": {"instance": 0, "loop": 1, "run": 1000}}"#,
    );
    // Eight CPUs serve eight of ten requests.
    assert_eq!(counts(&chains[0]), (9_090, 0, Some(1_818)), "{chains:?}");
    let (_, shortest, longest) = took(&chains[0]);
    assert_eq!((shortest, longest), (1_000, 1_000), "{chains:?}");
}

/// The client has work of 15 ms for each period of 10 ms.
#[test]
fn a_request_that_is_made_late_begins_with_its_period() {
    let client = |mode| {
        let sections = format!(
            r#""tasks": {{"client": {{"run": 15000, "timer": {{"ref": "unique", "period": 10000, "mode": "{mode}"}}}}}},
            "chains": {{"c": ["client"]}}"#
        );
        chains(&sections).remove(0)
    };
    let absolute = client("absolute");
    assert_eq!(took(&absolute), (66, 15_000, 15_000 + 65 * 5_000));
    let relative = client("relative");
    assert_eq!(took(&relative), (66, 15_000, 20_000));
}

/// Two kinds of requests wait for the same workers. Each has a chain of its own.
#[test]
fn requests_of_two_kinds_are_told_apart_though_one_semaphore_takes_both() {
    let chains = chains(
        r#""arrivals": {
            "get": {"every": 10000, "sem_post": "work"},
            "put": {"every": 100000, "sem_post": "work", "bound": 3}
        },
        "tasks": {"worker": {"instance": 2, "sem_wait": "work", "run": 1000}},
        "chains": {"any": ["worker"]}"#,
    );
    let counted: Vec<_> =
        chains.iter().map(|it| (it.name.as_str(), it.began, it.refused)).collect();
    let [any, get, put] = &counted[..] else { panic!("{counted:?}") };
    assert_eq!((any.0, get.0, put.0), ("any", "get", "put"));
    assert!(
        (99..=100).contains(&get.1.unwrap()) && (9..=10).contains(&put.1.unwrap()),
        "{counted:?}"
    );
    assert_eq!(any.1.unwrap(), get.1.unwrap() + put.1.unwrap());
}

/// A task that takes all answers at once waits for the last one.
#[test]
fn the_way_of_a_request_is_that_of_its_last_part() {
    let chains = chains(
        r#""tasks": {
            "client": {"timer": {"ref": "unique", "period": 20000}, "send": {"ref": "p", "bytes": 2}, "recv": {"ref": "q", "bytes": 2}},
            "quick": {"recv": {"ref": "p", "bytes": 1}, "run": 1000, "send": {"ref": "q", "bytes": 1}},
            "slow": {"recv": {"ref": "p", "bytes": 1}, "run": 4000, "send": {"ref": "q", "bytes": 1}}
        },
        "chains": {"all": ["client", ["quick", "slow"], "client"]}"#,
    );
    let slowest: Vec<_> = chains[0].worst[0].hops.iter().map(|hop| hop.task.as_str()).collect();
    assert_eq!(slowest, ["client", "slow", "client"]);
}
