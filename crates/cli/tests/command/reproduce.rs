//! Tests of `runyard reproduce`: claims as scripts read them.

use crate::json::Json;
use crate::rig::{Said, alone, call, command, folder};
use std::sync::OnceLock;

const CLAIM: [&str; 8] =
    ["what", "unit", "published_before", "published_after", "before", "after", "verdict", "holds"];

/// The keys of a claim with a reason.
const WITH_REASON: [&str; 9] = [
    "what",
    "unit",
    "published_before",
    "published_after",
    "before",
    "after",
    "verdict",
    "why",
    "holds",
];

/// Checks that a claim has the fields of its verdict, and returns whether it failed.
fn fails(claim: &Json) -> bool {
    let verdict = claim.text("verdict");
    match verdict {
        "not judged" => {
            assert_eq!(claim.keys(), WITH_REASON);
            let why = claim.text("why");
            let others = why.starts_with("others had ") && why.ends_with(" % of the CPUs");
            assert!(others || why == "fewer than 4 CPUs", "{why}");
        }
        "fitted" | "same by construction" => assert_eq!(claim.keys(), WITH_REASON),
        _ => assert_eq!(claim.keys(), CLAIM),
    }
    let holds = match verdict {
        "holds" => Json::Bool(true),
        "fails" => Json::Bool(false),
        "shown" | "fitted" | "same by construction" | "not judged" => Json::Null,
        other => panic!("no verdict: {other}"),
    };
    assert_eq!(*claim.at("holds"), holds, "{claim:?}");
    verdict == "fails"
}

/// Returns the claims that fail.
fn failed(claims: &[Json]) -> Vec<&Json> {
    claims.iter().filter(|claim| fails(claim)).collect()
}

/// Returns the output of `reproduce rt-migrate --host sim --json --out` and the two files that it wrote, made once for
/// all tests.
fn reproduced() -> &'static (String, String, String) {
    static REPRODUCED: OnceLock<(String, String, String)> = OnceLock::new();
    REPRODUCED.get_or_init(|| {
        let folder = folder().join("out/of/reproduce");
        let _ = std::fs::remove_dir_all(&folder);
        let path = folder.to_str().unwrap();
        let arguments = ["reproduce", "rt-migrate", "--host", "sim", "--json", "--out", path];
        let printed = done(call(&arguments));
        let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
        (printed, read("reproduce.json"), read("rt-migrate-sim.txt"))
    })
}

/// Returns the standard output of a call that succeeded and had no message but its progress.
#[track_caller]
fn done(said: Said) -> String {
    assert_eq!((said.code, said.messages().as_str()), (Some(0), ""), "{}", said.out);
    said.out
}

/// Returns the output of `reproduce idle-balance --host sim --json --out` and the text that it wrote, made once for all
/// tests.
fn idle_balance() -> &'static (Said, String) {
    static REPRODUCED: OnceLock<(Said, String)> = OnceLock::new();
    REPRODUCED.get_or_init(|| {
        let folder = folder().join("out/idle-balance");
        let _ = std::fs::remove_dir_all(&folder);
        let path = folder.to_str().unwrap();
        let arguments = ["reproduce", "idle-balance", "--host", "sim", "--json", "--out", path];
        let said = call(&arguments);
        (said, std::fs::read_to_string(folder.join("idle-balance-sim.txt")).unwrap())
    })
}

/// Returns the claims of one experiment on `sim`, and checks their form.
fn claims_of(experiment: &str, json: &str) -> Vec<Json> {
    let claims = Json::read(json);
    assert_eq!(claims.keys(), ["schema", "experiments"]);
    assert_eq!(claims.text("schema"), "runyard.reproduce/1");
    assert_eq!(claims.list("experiments").len(), 1);
    let only = claims.at("experiments.0");
    assert_eq!(only.keys(), ["name", "host", "claims"]);
    assert_eq!((only.text("name"), only.text("host")), (experiment, "sim"));
    for claim in only.list("claims") {
        fails(claim);
        assert!(!claim.text("what").is_empty() && !claim.text("unit").is_empty());
        for figure in &CLAIM[2..6] {
            let known = matches!(claim.at(figure), Json::Number(_) | Json::Null);
            assert!(known, "a number or nothing: {claim:?}");
        }
        assert!(matches!(claim.at("after"), Json::Number(_)), "it was measured: {claim:?}");
    }
    only.list("claims").to_vec()
}

/// Returns the claim with these published figures.
fn published(claims: &[Json], before: f64, after: f64) -> &Json {
    let (before, after) = (Json::Number(before), Json::Number(after));
    let those = |claim: &&Json| {
        *claim.at("published_before") == before && *claim.at("published_after") == after
    };
    claims.iter().find(those).expect("the document has these figures")
}

#[test]
fn the_claims_have_the_contracts_form_and_hold() {
    let claims = claims_of("rt-migrate", &reproduced().0);
    let of = |word| claims.iter().filter(|claim| claim.text("verdict") == word).count();
    assert!(of("holds") >= 7 && of("fails") == 0, "{claims:#?}");
}

#[test]
fn the_published_figures_are_beside_the_measured_ones() {
    let claims = claims_of("rt-migrate", &reproduced().0);
    let third = published(&claims, 20_041.0, 61.0);
    assert!((20_000.0..20_100.0).contains(&third.number("before")), "{third:?}");
    assert!(third.number("after") < 1_000.0, "{third:?}");
}

#[test]
fn idle_balance_has_a_claim_for_every_machine() {
    let claims = claims_of("idle-balance", &idle_balance().0.out);
    for (unit, least) in [("%", 9 + 8), ("1/s", 2)] {
        let with = claims.iter().filter(|claim| claim.text("unit") == unit).count();
        assert!(with >= least, "{with} claims in {unit}");
    }
    for cpus in ["16 CPUs, ", "64 CPUs, ", "256 CPUs, "] {
        assert!(claims.iter().any(|claim| claim.text("what").starts_with(cpus)), "{cpus}");
    }
    let interrupts = published(&claims, 14_699.1, 16_347.25);
    assert_eq!(interrupts.text("verdict"), "shown", "there is no bound: {interrupts:?}");
}

#[test]
fn idle_balance_holds() {
    let (said, text) = idle_balance();
    let claims = claims_of("idle-balance", &said.out);
    assert!(failed(&claims).is_empty(), "{text}");
    assert_eq!((said.code, said.messages().as_str()), (Some(0), ""));
    let busy = published(&claims, 82.31, 99.92);
    assert!((78.0..=88.0).contains(&busy.number("before")), "{busy:?}");
    assert!(busy.number("after") >= 99.9, "{busy:?}");
}

#[test]
fn idle_balance_shows_rows_like_mpstats() {
    let text = &idle_balance().1;
    assert!(text.starts_with("idle-balance on sim: "), "{text}");
    for title in ["\nbefore: NO_IDLE_LOAD_BALANCE, ", "\nafter: IDLE_LOAD_BALANCE, "] {
        let (_, table) = text.split_once(title).expect(title);
        let rows: Vec<_> = table.lines().skip(2).take(11).collect();
        assert!(rows[..10].iter().all(|row| row.contains(" s ")), "{rows:?}");
        assert!(rows[10].starts_with("Average:"), "{rows:?}");
        for row in rows {
            let (_, figures) = row.split_once("all").unwrap();
            let figures: Vec<f64> =
                figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
            let sum: f64 = figures[..5].iter().sum();
            assert!(figures.len() == 6 && (99.95..100.05).contains(&sum), "{row}");
        }
    }
}

#[test]
fn latency_nice_holds_beside_its_published_figures() {
    let said = call(&["reproduce", "latency-nice", "--host", "sim", "--json"]);
    let claims = claims_of("latency-nice", &said.out);
    let failed = failed(&claims);
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!((said.code, said.messages().as_str()), (Some(0), ""));
    let p95 = published(&claims, 5_610.0, 138.0);
    assert!(p95.number("before") > 7.0 * p95.number("after"), "{p95:?}");
    let frames = published(&claims, 5.0, 0.1);
    assert!(frames.number("before") >= 1.0 && frames.number("after") < 0.1, "{frames:?}");
}

/// Returns the output of `reproduce hard-limits --host sim --json`, made once for all tests.
fn hard_limits() -> &'static Said {
    static REPRODUCED: OnceLock<Said> = OnceLock::new();
    REPRODUCED.get_or_init(|| call(&["reproduce", "hard-limits", "--host", "sim", "--json"]))
}

#[test]
fn hard_limits_hold() {
    let said = hard_limits();
    let claims = claims_of("hard-limits", &said.out);
    let failed = failed(&claims);
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!((said.code, said.messages().as_str()), (Some(0), ""));
}

#[test]
fn hard_limits_have_every_row_of_the_document() {
    let claims = claims_of("hard-limits", &hard_limits().out);
    // The document has tables of four, six and three rows. Each row compares off with unlimited, and off with 450 of
    // 500 ms. kernbench has four figures more, and a deviation of each of the five.
    let is_deviation = |claim: &&Json| claim.text("what").ends_with("deviation");
    assert_eq!(claims.iter().filter(is_deviation).count(), 2 * 3 * 5);
    for (unit, rows) in [("s", 4 + 2 * 3), ("us", 6), ("times", 2 * 3)] {
        let of = claims.iter().filter(|claim| claim.text("unit") == unit);
        let of = of.filter(|claim| *claim.at("published_before") != Json::Null);
        assert_eq!(of.filter(|claim| !is_deviation(claim)).count(), 2 * rows, "{unit}");
    }
    for (before, unlimited, limited) in
        [(1.981, 2.174, 1.583), (315.87, 330.19, 317.04), (4.826, 4.776, 5.13)]
    {
        let [unlimited, limited] =
            [unlimited, limited].map(|after| published(&claims, before, after));
        let figure = unlimited.number("before");
        assert!(
            (before / 2.0..before * 2.0).contains(&figure),
            "of the document's size: {unlimited:?}"
        );
        assert_eq!(limited.number("before"), figure);
    }
}

#[test]
fn a_limit_is_seen_where_all_cpus_are_used_and_nowhere_else() {
    let claims = claims_of("hard-limits", &hard_limits().out);
    let hackbench = published(&claims, 1.981, 1.583);
    assert!(hackbench.number("after") > 1.05 * hackbench.number("before"), "{hackbench:?}");
    let has = |what: &str| {
        let claim = claims.iter().find(|claim| claim.text("what").starts_with(what)).expect(what);
        (claim.number("before"), claim.number("after"))
    };
    let (free, limited) = has("48 hogs, 450 of 500 ms");
    assert!(free > 23.7 && (21.4..21.8).contains(&limited), "{free} {limited}");
    let (own, borrowed) = has("1 hog, 10 of 100 ms");
    assert!((0.099..0.101).contains(&own) && borrowed > 0.99, "{own} {borrowed}");
}

/// Returns the output of `reproduce greedy-timers --host sim --json --out` and the text that it wrote, made once for
/// all tests.
fn greedy_timers() -> &'static (Said, String) {
    static REPRODUCED: OnceLock<(Said, String)> = OnceLock::new();
    REPRODUCED.get_or_init(|| {
        let folder = folder().join("out/greedy-timers");
        let _ = std::fs::remove_dir_all(&folder);
        let path = folder.to_str().unwrap();
        let arguments = ["reproduce", "greedy-timers", "--host", "sim", "--json", "--out", path];
        let said = call(&arguments);
        (said, std::fs::read_to_string(folder.join("greedy-timers-sim.txt")).unwrap())
    })
}

#[test]
fn greedy_timers_hold_beside_their_published_figures() {
    let (said, text) = greedy_timers();
    let claims = claims_of("greedy-timers", &said.out);
    assert!(failed(&claims).is_empty(), "{text}");
    assert_eq!((said.code, said.messages().as_str()), (Some(0), ""));
    let figures = |before, after| {
        let claim = published(&claims, before, after);
        (claim.number("before"), claim.number("after"))
    };
    let (before, after) = figures(24_510.0, 13_042.0);
    assert!(after <= 0.7 * before, "much slack: {before} {after}");
    let (before, after) = figures(20_568.0, 17_954.0);
    assert!((before / 1.1..before * 1.1).contains(&after), "little slack: {before} {after}");
    let (before, after) = figures(938.0, 973.0);
    assert_eq!(before, after, "no CPU is ever idle");
}

#[test]
fn greedy_timers_show_deviations_and_what_was_assumed() {
    let text = &greedy_timers().1;
    assert!(text.starts_with("greedy-timers on sim: "), "{text}");
    for shown in ["24510 +-2.4%", "assumed: 80 daemons", "interrupts of the busy CPU"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}

/// Under any load, no group uses much more than its limit, and each group uses some time. Without limits, two hogs
/// would use six times their limit. The claim says how near the use is to the limit, on a machine that is not busy.
#[test]
fn no_limit_is_exceeded_on_real_cpus() {
    // Without `PATH` no program of this machine runs under the kernel's own limit.
    let mut command = command(&["reproduce", "hard-limits", "--host", "live", "--json"]);
    let said = alone(command.env("PATH", ""));
    assert!(matches!(said.code, Some(0 | 1)), "{}", said.err);
    let claims = Json::read(&said.out);
    let claims = claims.at("experiments.0").list("claims").to_vec();
    let limited = claims.iter().filter(|it| it.text("what").ends_with("of its limit"));
    let used: Vec<_> = limited.map(|it| it.number("after")).collect();
    assert!(used.len() == 2 && used.iter().all(|it| (1.0..=120.0).contains(it)), "{used:?}");
    // It takes at least eleven seconds.
    let told = said.err.lines().filter(|line| line.starts_with("hard-limits on live: "));
    assert!(told.count() >= 3 && said.messages().is_empty(), "{}", said.err);
}

/// Under any load, no timer is early, no timer is lost, and each task has its rounds.
#[test]
fn timers_are_neither_early_nor_lost_on_real_cpus() {
    let said = call(&["reproduce", "greedy-timers", "--host", "live", "--json"]);
    assert!(matches!(said.code, Some(0 | 1)), "{}", said.err);
    let claims = Json::read(&said.out);
    let claims = claims.at("experiments.0").list("claims").to_vec();
    let of = |unit: &str| {
        let of = claims.iter().filter(|it| it.text("unit") == unit);
        of.map(|it| it.number("after")).collect::<Vec<_>>()
    };
    assert_eq!(of("timers"), [0.0]);
    let rounds = of("rounds");
    assert!(rounds[0] == 0.0 && rounds[1] > 0.0, "{rounds:?}");
}

#[test]
fn what_is_written_is_what_is_printed() {
    let (printed, json, text) = reproduced();
    assert_eq!(printed, json);
    assert!(text.contains("rt-migrate") && text.contains("holds"), "{text}");
}

#[test]
fn it_says_the_same_with_another_number_of_threads() {
    let mut command = command(&["reproduce", "rt-migrate", "--host", "sim"]);
    let again: Said = command.env("RAYON_NUM_THREADS", "1").output().unwrap().into();
    let text = done(again);
    assert!(text.contains(&reproduced().2), "{text}");
}

#[test]
fn an_unknown_experiment_is_refused_before_any_is_run() {
    let said = call(&["reproduce", "rt-migrate", "no-such"]).misused();
    let experiments =
        ["rt-migrate", "idle-balance", "latency-nice", "hard-limits", "greedy-timers"];
    let known = experiments.iter().all(|name| said.contains(name));
    assert!(said.contains("no-such") && known, "{said}");
}

#[test]
fn a_folder_that_cannot_be_made_is_said_in_one_line_before_anything_runs() {
    let in_the_way = crate::rig::file("in-the-way", "");
    for form in [&[][..], &["--json"]] {
        let arguments = ["reproduce", "rt-migrate", "--host", "sim", "--out", &in_the_way];
        let said = call(&[&arguments, form].concat());
        assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "{said:?}");
        assert!(said.err.lines().count() == 1 && said.err.contains("in-the-way"), "{}", said.err);
    }
}

/// Returns the output of `reproduce --host live --json --out` with an empty `PATH`, and the texts that it wrote in the
/// order of the experiments, made once for all tests.
fn live() -> &'static (Said, [String; 2]) {
    static LIVE: OnceLock<(Said, [String; 2])> = OnceLock::new();
    LIVE.get_or_init(|| {
        let folder = folder().join("out/live");
        let _ = std::fs::remove_dir_all(&folder);
        let arguments =
            ["reproduce", "rt-migrate", "idle-balance", "--host", "live", "--json", "--out"];
        let mut command = command(&arguments);
        let said = alone(command.arg(&folder).env("PATH", ""));
        let text = |name| std::fs::read_to_string(folder.join(name)).unwrap();
        (said, ["rt-migrate-live.txt", "idle-balance-live.txt"].map(text))
    })
}

/// Returns the claims of each experiment on `live`.
fn claims_of_all_live() -> [Vec<Json>; 2] {
    let claims = Json::read(&live().0.out);
    assert_eq!(claims.text("schema"), "runyard.reproduce/1");
    assert_eq!(claims.list("experiments").len(), 2);
    [("experiments.0", "rt-migrate"), ("experiments.1", "idle-balance")].map(|(at, name)| {
        let experiment = claims.at(at);
        assert_eq!((experiment.text("name"), experiment.text("host")), (name, "live"));
        experiment.list("claims").to_vec()
    })
}

/// Returns the claims of rt-migrate on `live`.
fn live_claims() -> Vec<Json> {
    let [rt_migrate, _] = claims_of_all_live();
    rt_migrate
}

#[test]
fn on_real_cpus_the_claims_have_the_same_form() {
    for claims in claims_of_all_live() {
        for claim in &claims {
            fails(claim);
        }
        let one_cpu = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        let is_before = |claim: &Json| *claim.at("before") != Json::Null;
        assert!(one_cpu || claims.iter().any(is_before), "there is a before: {claims:?}");
        let mut names: Vec<_> = claims.iter().map(|claim| claim.text("what")).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), claims.len(), "each is a figure of its own");
    }
    // The other experiment's document is about another machine.
    let published = claims_of_all_live().map(|claims| {
        claims.iter().filter_map(|c| c.at("published_after").as_number()).collect::<Vec<_>>()
    });
    assert_eq!(published, [vec![61.0, 20_060.0, 0.0, 6_500.0], vec![]]);
}

#[test]
fn only_the_rule_can_fail_and_then_the_command_does() {
    let claims = claims_of_all_live().concat();
    let failed = failed(&claims);
    for claim in &failed {
        assert!(["%", "runs"].contains(&claim.text("unit")), "a time has no bound: {claim:?}");
    }
    let code = i32::from(!failed.is_empty());
    assert_eq!(live().0.code, Some(code), "{}", live().0.err);
}

#[test]
fn what_another_scheduler_does_is_null_where_that_is_not_here() {
    let claims = live_claims();
    let of = |host: &str| {
        let own = claims.iter().filter(|claim| claim.text("what").ends_with(host));
        own.map(|claim| claim.at("after").as_number()).collect::<Vec<_>>()
    };
    assert_eq!(of(", rt-migrate-test"), [None; 3]);
    assert!(of(", live").iter().all(Option::is_some));
    // The kernel gives real-time priorities to some users only.
    let (kernel, err) = (of(", linux"), live().0.messages());
    let refused = kernel == [None; 3];
    assert!(refused || kernel.iter().all(Option::is_some), "{kernel:?}");
    assert_eq!(err.lines().count(), usize::from(refused), "it says why, once: {err}");
}

#[test]
fn the_hosts_stand_beside_each_other_in_the_text() {
    let [text, _] = &live().1;
    assert!(text.starts_with("rt-migrate on live: "), "{text}");
    let rows = |host: &str| {
        let is_of = |line: &&str| {
            line.starts_with("start of a thread ") && line.contains(&format!(", {host}, us"))
        };
        text.lines().filter(is_of).count()
    };
    assert_eq!(["live", "linux", "rt-migrate-test"].map(rows), [3; 3], "{text}");
    assert!(text.contains("\nrounds that failed: live "), "{text}");
    assert!(text.contains("live: a round") && text.contains("CPU:"), "{text}");
}

#[test]
fn on_real_cpus_the_normal_task_has_one_and_the_soakers_the_others() {
    let [_, claims] = claims_of_all_live();
    let (said, [_, text]) = live();
    assert!(failed(&claims).is_empty(), "{text}\n{}", said.err);
    let shares = claims.iter().filter(|claim| claim.text("unit") == "%");
    assert!(shares.count() >= 3, "what is busy, and who has it: {text}");
    assert!(text.starts_with("idle-balance on live: "), "{text}");
    let rows = text.lines().filter(|line| line.contains(" s       all ")).count();
    assert_eq!(rows, 4, "a row for each second: {text}");
}
