//! Plans: their points, the order of the points, and the mistakes in specifications.

use proptest::prelude::*;
use runyard_sweep::{Cell, Plan, Text};

const SCENARIO: &str = r#"{"machine": {"cpus": 2}, "global": {"duration": 1},
    "tasks": {"web": {"run": 300, "sleep": 700}, "pool": {"instance": 3, "run": 500, "sleep": 2000}}}"#;

fn read(name: &str) -> Result<Text, String> {
    match name {
        "web.json" => Ok(Text { file: "dir/web.json".to_owned(), text: SCENARIO.to_owned() }),
        _ => Err("no such file".to_owned()),
    }
}

fn plan(text: &str) -> Result<Plan, String> {
    let spec = Text { file: "spec.json".to_owned(), text: text.to_owned() };
    Plan::new(spec, read).map_err(|error| error.to_string())
}

/// The plan of a specification with these members, over that scenario.
fn with(members: &str) -> Result<Plan, String> {
    plan(&format!("{{\"scenario\": \"web.json\",\n{members}}}"))
}

fn values(plan: &Plan) -> Vec<Vec<Cell>> {
    (0..plan.points()).map(|point| plan.point(point).values).collect()
}

#[test]
fn a_grid_has_all_combinations_in_order() {
    let plan = with(
        r#""set": {"tasks.web.run": [100, 200]},
           "axes": {"load": {"low": {"tasks.pool.run": 100}, "high": {"tasks.pool.run": 900, "tasks.pool.sleep": 100}}},
           "kernel": ["6.6", "6.18"], "features": [[], ["NO_LOAD_BALANCE"]], "seeds": [5, 3]"#,
    )
    .unwrap();
    assert_eq!(plan.columns(), ["tasks.web.run", "load", "features", "kernel"]);
    assert_eq!((plan.points(), plan.runs(), plan.name()), (16, 32, "web"));
    let text = |text: &str| Cell::Text(text.to_owned());
    let values = values(&plan);
    assert_eq!(values[0], [Cell::Integer(100), text("low"), text(""), text("6.6")]);
    assert_eq!(values[1], [Cell::Integer(100), text("low"), text(""), text("6.18")]);
    assert_eq!(
        values[15],
        [Cell::Integer(200), text("high"), text("NO_LOAD_BALANCE"), text("6.18")]
    );
    let over = plan.point(15).overrides;
    let settings: Vec<String> = over.settings.iter().map(ToString::to_string).collect();
    assert_eq!(settings, ["tasks.web.run=200", "tasks.pool.run=900", "tasks.pool.sleep=100"]);
    assert_eq!(
        (over.features.len(), over.kernel.map(|it| it.to_string())),
        (1, Some("6.18".to_owned()))
    );
    assert_eq!((plan.run(0), plan.run(1), plan.run(31)), ((0, 5), (0, 3), (15, 3)));
}

#[test]
fn points_stand_for_themselves() {
    let plan = with(
        r#""points": [{"tasks.web.run": 1.5}, {"tasks.web.sleep": {"uniform": [1, 2]}, "tasks.web.run": 7}, {}]"#,
    );
    // No run lasts 1.5 us; the error points at the value.
    assert!(
        plan.as_ref().is_ok() || plan.as_ref().unwrap_err().starts_with("spec.json:2:"),
        "{plan:?}"
    );
    let plan = with(r#""points": [{"tasks.web.sleep": {"uniform": [1, 2]}, "tasks.web.run": 7}, {}], "seeds": 2"#).unwrap();
    assert_eq!(plan.columns(), ["tasks.web.sleep", "tasks.web.run"]);
    let uniform = Cell::Text("{\"uniform\": [1, 2]}".to_owned());
    assert_eq!(values(&plan), [vec![uniform, Cell::Integer(7)], vec![Cell::Null, Cell::Null]]);
}

#[test]
fn a_scenario_may_be_in_the_specification() {
    let plan = plan(&format!("// ä\n{{ \"scenario\": {SCENARIO}, \"duration\": 0.25 }}")).unwrap();
    assert_eq!((plan.points(), plan.runs(), plan.columns().len()), (1, 1, 0));
    assert_eq!(plan.name(), "spec");
    let metrics: Vec<String> = plan.metrics().iter().map(ToString::to_string).collect();
    assert_eq!(metrics[..2], ["machine.utilization", "p50(tasks.web.wakeup_latency)"]);
    let wrong =
        self::plan("{\n \"seeds\": 2, // ä\n \"scenario\": {\"tasks\": {\"a\": {\"run\": -1}}}}");
    assert!(
        wrong.as_ref().is_err_and(|it| it.starts_with("spec.json:3:38: expected ")),
        "{wrong:?}"
    );
}

#[test]
fn each_mistake_has_its_place() {
    for (members, said) in [
        ("\"seed\": 3", "2:1: a sweep has no \"seed\"; did you mean \"seeds\"?"),
        ("\"seeds\": 0", "2:10: expected a number of seeds"),
        ("\"seeds\": [1, 2, 1]", "2:17: seed 1 is there twice"),
        ("\"seeds\": 1, \"seeds\": 2", "2:13: the key \"seeds\" is repeated"),
        ("\"set\": {\"tasks.web.run\": 5}", "2:26: a path is swept over a list"),
        ("\"set\": {\"tasks.web.run\": []}", "2:26: \"tasks.web.run\" has no value"),
        ("\"set\": {\"tasks.web.run\": [1, 2, 1]}", "2:33: \"tasks.web.run\" has this value twice"),
        ("\"set\": {\"tasks..run\": [1]}", "2:9: a key is missing"),
        ("\"axes\": {\"seed\": {\"a\": {}}}", "2:10: tables have a column \"seed\" of their own"),
        (
            "\"axes\": {\"wait_ns\": {\"a\": {}}}",
            "2:10: tables have a column \"wait_ns\" of their own",
        ),
        (
            "\"set\": {\"tasks.web.run\": [1]}, \"axes\": {\"a\": {\"b\": {\"tasks.web.run\": 2}}}",
            "2:52: tasks.web.run is swept already, by \"tasks.web.run\"",
        ),
        ("\"kernel\": [\"6.2\"]", "2:12: "),
        ("\"features\": [[\"RT_PSUH\"]]", "2:15: "),
        (
            "\"points\": [{}], \"sample\": 2",
            "2:17: points stand instead of a grid, which \"sample\" is a part of",
        ),
        ("\"points\": []", "2:11: there is no point"),
        ("\"sample\": 2", "2:11: the grid has 1 points only"),
        ("\"duration\": \"ten\"", "2:13: a time is a number of seconds, or a number and us"),
        ("\"duration\": 0", "2:13: a duration is a number of seconds above 0"),
        (
            "\"metrics\": [\"p99(tasks.wbe.wakeup_latency)\"]",
            "2:13: the scenario's tasks have no \"wbe\"; did you mean \"web\"?",
        ),
        (
            "\"metrics\": [\"machine.utilization\", \"machine.utilization\"]",
            "2:36: machine.utilization is there twice",
        ),
        (
            "\"seeds\": 1000000, \"kernel\": [\"6.6\", \"6.18\"]",
            "1:1: 2 points with 1000000 seeds are more than 1000000 runs",
        ),
    ] {
        let wrong = with(members).map(|_| ()).unwrap_err();
        assert!(wrong.starts_with(&format!("spec.json:{said}")), "{members}: {wrong}");
    }
    let missing = plan("{\"scenario\": \"wbe.json\"}").map(|_| ()).unwrap_err();
    assert_eq!(missing, "spec.json:1:14: wbe.json: no such file");
    assert_eq!(plan("{}").map(|_| ()).unwrap_err(), "spec.json:1:1: a sweep has a \"scenario\"");
    assert!(
        plan("{\"scenario\": 1}")
            .unwrap_err()
            .starts_with("spec.json:1:14: a scenario is the name")
    );
}

proptest! {
    #[test]
    fn a_sample_is_drawn_without_repetition(sizes in prop::collection::vec(1_usize..7, 1..4), part in 1_u32..101) {
        let list = |size: &usize| (0..*size).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
        let axis = |(at, size): (usize, &usize)| {
            let labels = (0..*size).map(|label| format!("\"{label}\": {{}}")).collect::<Vec<_>>();
            format!("\"axis{at}\": {{{}}}", labels.join(","))
        };
        let axes = sizes.iter().enumerate().map(axis).collect::<Vec<_>>().join(",");
        let all: usize = sizes.iter().product();
        let number = (all as u32 * part).div_ceil(100);
        let grid = with(&format!("\"axes\": {{{axes}}}, \"seeds\": [{}]", list(&2))).unwrap();
        let sample = with(&format!("\"axes\": {{{axes}}}, \"sample\": {number}")).unwrap();
        prop_assert_eq!(grid.points(), all);
        prop_assert_eq!(sample.points(), number as usize);
        let shown = |plan: &Plan| values(plan).iter().map(|it| format!("{it:?}")).collect::<Vec<_>>();
        let (grid, sample) = (shown(&grid), shown(&sample));
        let mut rest = grid.iter();
        // Each point comes after the one before it: no point appears twice, and each is a point of the grid.
        prop_assert!(sample.iter().all(|point| rest.any(|other| other == point)));
        let distinct: std::collections::BTreeSet<_> = grid.iter().collect();
        prop_assert_eq!(distinct.len(), all);
    }
}
