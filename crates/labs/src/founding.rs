//! The page of the founding documents, sentence by sentence, and the claims of all experiments: neither names anything
//! that the other lacks.

use crate::{greedy_timers, hard_limits, idle_balance, latency_nice, rt_migrate};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/founding.md");

/// The names of the claims of every experiment, with their hosts.
fn claims() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("sim", rt_migrate::named("sim")),
        ("sim", idle_balance::named("sim")),
        ("sim", latency_nice::named("sim")),
        ("sim", hard_limits::named("sim")),
        ("sim", greedy_timers::named("sim")),
        ("live", rt_migrate::named("live")),
        ("live", idle_balance::named("live")),
        ("live", latency_nice::named("live")),
        ("live", hard_limits::named("live")),
        ("live", greedy_timers::named("live")),
    ]
}

/// The names as the page has them. The page has no number of CPUs of this machine, and no number of its runs.
fn name(host: &str, what: &str) -> String {
    match host {
        "live" => format!("live: {}", what.replacen("2 CPUs, ", "N CPUs, ", 1)),
        _ => format!("{host}: {what}"),
    }
}

/// The names of claims on the page: words in backticks that begin with a host.
fn on_the_page() -> BTreeSet<String> {
    let quoted = PAGE.split('`').skip(1).step_by(2);
    quoted
        .filter(|it| it.starts_with("sim: ") || it.starts_with("live: "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_claim_is_on_the_page_and_each_name_there_is_a_claim() {
    let all = claims();
    let of = |(host, claims): &(&str, Vec<String>)| {
        claims.iter().map(|it| name(host, it)).collect::<Vec<_>>()
    };
    let claims: BTreeSet<_> = all.iter().flat_map(of).collect();
    let page = on_the_page();
    let missing: Vec<_> = claims.difference(&page).collect();
    let unknown: Vec<_> = page.difference(&claims).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not on the page: {missing:#?}; no claims: {unknown:#?}"
    );
}

#[test]
fn each_claim_of_an_experiment_has_a_name_of_its_own() {
    for (host, claims) in claims() {
        let names: BTreeSet<_> = claims.iter().collect();
        assert_eq!(names.len(), claims.len(), "{host}: {names:#?}");
    }
}
