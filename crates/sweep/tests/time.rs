//! Figures of a part of a run, and quantiles of any number.

use runyard_engine::kernel::Model;
use runyard_sweep::{Plan, Runner, Text, report};
use runyard_workload::{Overrides, parse};

const SCENARIO: &str = r#"{
    "machine": {"cpus": 1},
    "tasks": {
        "web": {"instance": 3, "run": {"exponential": 300}, "sleep": {"exponential": 3000}},
        "batch": {"run": 1000},
        "client": {"run": 100, "sem_post": "ask", "sleep": 5000},
        "server": {"sem_wait": "ask", "run": 400},
    },
    "chains": {"request": ["client", "server"]},
    "global": {"duration": 2},
}"#;

fn newest() -> Overrides {
    Overrides { unless_said: Model::NEWEST, ..Overrides::default() }
}

/// The values of these metrics in the run with seed 1.
fn metrics(keys: &str, metrics: &[&str]) -> Vec<Option<f64>> {
    let spec = format!(r#"{{"scenario": {SCENARIO}, {keys} "metrics": {metrics:?}}}"#);
    let spec = Text { file: "spec".to_owned(), text: spec };
    let plan = Plan::new(spec, |_| unreachable!("the scenario is there")).unwrap();
    Runner::default().run(&plan, 0, &|| false).unwrap().metrics
}

#[test]
fn quantiles_are_of_all_instances_or_of_one() {
    let of = |name: &str, stat: &str| format!("{stat}(tasks.{name}.wakeup_latency)");
    let asked = [
        of("web", "p50"),
        of("web", "p999"),
        of("web-1", "p90"),
        of("web", "p90"),
        of("web", "p95"),
        of("web", "p99"),
        of("web", "p99.99"),
        of("web", "max"),
        "p99(chains.request.latency)".to_owned(),
        "p99.99(chains.request.latency)".to_owned(),
    ];
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let values: Vec<u64> = metrics("", &asked).iter().map(|it| it.unwrap() as u64).collect();
    let scenario = parse("-", SCENARIO, &newest()).unwrap().scenario;
    let report = report(("-", &scenario), 1, &|| false).unwrap().unwrap();
    let web = &report.latencies[0].wakeup_latency;
    let (chain, one) = (&report.chains[0].latency, &report.tasks[1].wakeup_latency);
    let told = [web.p50_ns, web.p999_ns, one.p90_ns, web.p90_ns].map(Option::unwrap);
    assert_eq!(values[..4], told);
    assert!(
        values[3..8].is_sorted() && values[3] < values[4] && values[4] < values[5],
        "{values:?}"
    );
    assert_eq!(Some(values[7]), web.max_ns);
    assert_eq!((Some(values[8]), Some(values[9])), (chain.p99_ns, chain.max_ns), "of 400 tokens");
}
