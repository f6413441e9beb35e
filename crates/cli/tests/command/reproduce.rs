//! `runyard reproduce`: claims as scripts read them.

use crate::json::Json;
use crate::rig::{call, folder};
use std::sync::OnceLock;

const CLAIM: [&str; 7] =
    ["what", "unit", "published_before", "published_after", "before", "after", "holds"];

/// What `reproduce rt-migrate --json --out` printed, and what it wrote, once for all tests.
fn reproduced() -> &'static (String, String, String) {
    static REPRODUCED: OnceLock<(String, String, String)> = OnceLock::new();
    REPRODUCED.get_or_init(|| {
        let folder = folder().join("out/of/reproduce");
        let _ = std::fs::remove_dir_all(&folder);
        let path = folder.to_str().unwrap();
        let printed = call(&["reproduce", "rt-migrate", "--json", "--out", path]).done();
        let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
        (printed, read("reproduce.json"), read("rt-migrate-sim.txt"))
    })
}

#[test]
fn the_claims_have_the_contracts_form() {
    let claims = Json::read(&reproduced().0);
    assert_eq!(claims.keys(), ["schema", "experiments"]);
    assert_eq!(claims.text("schema"), "runyard.reproduce/1");
    assert_eq!(claims.list("experiments").len(), 1);
    let experiment = claims.at("experiments.0");
    assert_eq!(experiment.keys(), ["name", "host", "claims"]);
    assert_eq!((experiment.text("name"), experiment.text("host")), ("rt-migrate", "sim"));
    assert!(experiment.list("claims").len() >= 3);
    for claim in experiment.list("claims") {
        assert_eq!(claim.keys(), CLAIM);
        assert!(!claim.text("what").is_empty() && !claim.text("unit").is_empty());
        for figure in &CLAIM[2..6] {
            let known = matches!(claim.at(figure), Json::Number(_) | Json::Null);
            assert!(known, "a number or nothing: {claim:?}");
        }
        assert!(matches!(claim.at("after"), Json::Number(_)), "it was measured: {claim:?}");
        assert_eq!(*claim.at("holds"), Json::Bool(true), "{claim:?}");
    }
}

#[test]
fn the_published_figures_are_beside_the_measured_ones() {
    let claims = Json::read(&reproduced().0);
    let claims = claims.list("experiments.0.claims");
    let published = |before: f64, after: f64| {
        let (before, after) = (Json::Number(before), Json::Number(after));
        claims.iter().find(|claim| {
            *claim.at("published_before") == before && *claim.at("published_after") == after
        })
    };
    let third = published(20_041.0, 61.0).expect("the third thread's start, in microseconds");
    assert!(third.number("before") > 20_000.0 && third.number("after") < 1_000.0, "{third:?}");
}

#[test]
fn what_is_written_is_what_is_printed() {
    let (printed, json, text) = reproduced();
    assert_eq!(printed, json);
    assert!(text.contains("rt-migrate") && text.contains("holds"), "{text}");
}

#[test]
fn it_says_the_same_again() {
    let text = call(&["reproduce", "--host", "sim"]).done();
    assert!(text.contains(&reproduced().2), "{text}");
}

#[test]
fn an_unknown_experiment_is_refused_before_any_is_run() {
    let said = call(&["reproduce", "rt-migrate", "no-such"]).misused();
    assert!(said.contains("no-such") && said.contains("rt-migrate"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_made_is_said_in_one_line() {
    let in_the_way = crate::rig::file("in-the-way", "");
    let said = call(&["reproduce", "rt-migrate", "--json", "--out", &in_the_way]);
    assert!(matches!(said.code, Some(2 | 3)), "{said:?}");
    assert!(said.err.lines().count() == 1 && said.err.contains("in-the-way"), "{}", said.err);
}
