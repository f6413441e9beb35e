//! The page of the founding documents, sentence by sentence, and the claims of all experiments: neither names anything
//! that the other lacks.

use crate::Length;
use crate::{greedy_timers, hard_limits, idle_balance, latency_nice, rt_migrate};
use runyard_engine::kernel::Experiment as Document;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/founding.md");

/// The names of the claims of every experiment, with their hosts. Those of a soak are among them, and one has the number
/// of runs of a short run.
fn claims() -> Vec<(&'static str, Vec<String>)> {
    let length = |document| match document {
        Document::IdleBalance | Document::HardLimits => Length::Soak,
        _ => Length::Short,
    };
    let simulated = |document| ("sim", crate::experiment(document, length(document)).names());
    let live = [
        rt_migrate::live_names(),
        idle_balance::live_names(),
        latency_nice::live_names(),
        hard_limits::live_names(),
        greedy_timers::live_names(),
    ];
    let documents = [
        Document::RtMigrate,
        Document::IdleBalance,
        Document::LatencyNice,
        Document::HardLimits,
        Document::GreedyTimers,
    ];
    documents.into_iter().map(simulated).chain(live.map(|names| ("live", names))).collect()
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
