//! Figures of a part of a run, and quantiles of any number.

use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;
use runyard_report::{Report, SeriesReport};
use runyard_sweep::{Detail, How, Plan, Runner, Text, report, whole};
use runyard_workload::{Overrides, Window, parse};
use serde_json::{Value, to_value};
use std::collections::BTreeMap;

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

#[test]
fn spans_are_as_the_parts_of_the_run() {
    let of = |stat: &str, span: &str| {
        ["tasks.web.wakeup_latency", "tasks.web-1.wakeup_latency", "chains.request.latency"]
            .map(|field| format!("{stat}({field}{span})"))
    };
    let asked = [of("p99.5", ", 500ms..1s"), of("max", ", 0.1s..1.9s"), of("p99.5", "")].concat();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let within = metrics("", &asked);
    assert!(within.iter().all(Option::is_some), "{within:?}");
    let parts = |keys: &str, stat: &str| {
        let asked = of(stat, "");
        metrics(keys, &asked.each_ref().map(String::as_str))
    };
    assert_eq!(within[..3], parts(r#""from": 0.5, "until": 1,"#, "p99.5"));
    assert_eq!(within[3..6], parts(r#""from": 0.1, "until": 1.9,"#, "max"));
    assert_eq!(within[6..], parts("", "p99.5"));
    let late = metrics(r#""from": 1,"#, &asked);
    assert_eq!(late[..6], within[..6], "whatever part the report counts");
}

/// A machine with everything whose counts a report has: limits of three kinds, cookies, a deadline, a chain, preemption.
fn busy(kernel: &str, duration: &str) -> String {
    format!(
        r#"{{
    "machine": {{"cpus": 4, "topology": "1x2x2", "kernel": "{kernel}", "costs": {{"jitter_ns": 500}}}},
    "groups": {{
        "/a": {{"runtime": 30000, "period": 100000, "burst": 5000}},
        "/b": {{"runtime": 20000, "period": 50000, "per_cpu": true}},
        "/c": {{"cookie": "red"}},
    }},
    "tasks": {{
        "web": {{"instance": 3, "run": {{"exponential": 300}}, "sleep": {{"exponential": 3000}}, "group": "/c"}},
        "hog": {{"instance": 2, "run": {{"uniform": [500, 9000]}}, "sleep": 1000, "group": "/a"}},
        "batch": {{"instance": 2, "run": {{"uniform": [500, 9000]}}, "sleep": 700, "group": "/b"}},
        "late": {{"run": {{"uniform": [1000, 9000]}}, "timer": {{"ref": "tick", "period": 5000}}}},
        "rt": {{"policy": "SCHED_FIFO", "run": {{"exponential": 400}}, "sleep": {{"exponential": 4000}}}},
        "client": {{"run": 100, "sem_post": "ask", "sleep": 5000}},
        "server": {{"sem_wait": "ask", "run": {{"exponential": 400}}}},
    }},
    "chains": {{"request": {{"tasks": ["client", "server"], "deadline_us": 900}}}},
    {duration}
}}"#
    )
}

/// The report of a part of a run, given in nanoseconds.
fn part(text: &str, from: Option<u64>, until: Option<u64>) -> Report {
    let window = Window { from: from.map(Nanos), until: until.map(Nanos) };
    let scenario = parse("-", text, &Overrides { window, ..newest() }).unwrap().scenario;
    report(("-", &scenario), 1, &|| false).unwrap().unwrap()
}

#[test]
fn series_are_all_latencies_of_the_part() {
    let text = busy("6.18", r#""global": {"duration": 1}"#);
    for window in [Window::default(), Window { from: Some(Nanos(123_456_789)), until: None }] {
        let scenario = parse("-", &text, &Overrides { window, ..newest() }).unwrap().scenario;
        let whole =
            whole(("-", &scenario), How::new(1, Detail::Report), &|| false).unwrap().unwrap();
        let report = whole.report;
        let of = |kind: &str, name: &str| {
            report.series.iter().find(|it| (&*it.kind, &*it.name) == (kind, name)).unwrap()
        };
        let count = |it: &SeriesReport| Some(it.count.iter().sum::<u64>());
        let most = |it: &SeriesReport| it.max_ns.iter().copied().max().flatten();
        for told in &report.latencies {
            let it = of("task", &told.name);
            let latency = &told.wakeup_latency;
            assert_eq!((count(it), most(it)), (latency.count, latency.max_ns), "{}", told.name);
        }
        let woken: u64 = report.tasks.iter().filter_map(|it| it.wakeup_latency.count).sum();
        assert_eq!(count(of("group", "/")), Some(woken));
        let (it, chain) = (of("chain", "request"), &report.chains[0]);
        assert_eq!((count(it), most(it)), (chain.count, chain.latency.max_ns));
        assert_eq!(Some(chain.points.iter().map(|point| point.1).sum()), chain.count);
        for it in &report.series {
            let end = it.step_ns * it.count.len() as u64;
            assert!((end - it.step_ns..=end).contains(&report.duration_ns), "{it:?}");
        }
    }
}

/// The sums of a report, which are those of its parts together.
fn sums(report: &Report) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::from([("duration_ns".to_owned(), report.duration_ns)]);
    let mut put = |name: &str, part: &dyn Fn() -> serde_json::Result<Value>| {
        let Ok(Value::Object(part)) = part() else { panic!("a part of a report is an object") };
        for (key, value) in part {
            let is_sum =
                !["cpu", "cpus", "priority", "latency_nice", "slack_ns", "began"].contains(&&*key);
            let count = value.get("count").cloned().unwrap_or(value);
            if let Some(value) = count.as_u64().filter(|_| is_sum) {
                *all.entry(format!("{name} {key}")).or_default() += value;
            }
        }
    };
    put("machine", &|| to_value(&report.machine));
    put("timers", &|| to_value(&report.timers));
    put("engine", &|| to_value(&report.engine));
    for it in &report.cpus {
        put(&format!("CPU {}", it.cpu), &|| to_value(it));
    }
    for it in &report.tasks {
        put(&it.name, &|| to_value(it));
    }
    for it in &report.groups {
        put(&it.path, &|| to_value(it));
        for on in it.cpus.iter().flatten() {
            put(&format!("{} on CPU {}", it.path, on.cpu), &|| to_value(on));
        }
    }
    for it in &report.cookies {
        put(&format!("cookie {:?}", it.name), &|| to_value(it));
    }
    for it in &report.chains {
        put(&format!("chain {}", it.name), &|| to_value(it));
    }
    for it in &report.balance {
        put(&format!("{} {}", it.level, it.moment), &|| to_value(it));
    }
    all
}

#[test]
fn the_parts_of_a_run_are_the_run() {
    for kernel in ["6.1", "6.18", "hard-limits"] {
        let text = busy(kernel, r#""global": {"duration": 2}"#);
        let whole = part(&text, None, None);
        // No tick: of the events at one instant, some may come before the end of a run, and some after it.
        for at in [1_000_003, 333_333_333, 1_999_000_007] {
            let [first, last] = [part(&text, None, Some(at)), part(&text, Some(at), None)];
            assert_eq!((first.from_ns, last.from_ns), (0, at));
            let mut both = sums(&first);
            for (name, value) in sums(&last) {
                *both.entry(name).or_default() += value;
            }
            let mut whole = sums(&whole);
            // What is zero in all parts need not be named in each.
            both.retain(|_, value| *value > 0);
            whole.retain(|_, value| *value > 0);
            assert_eq!(both, whole, "{kernel} at {at} ns");
            for cpu in &last.cpus {
                let parts = [cpu.busy_ns, cpu.idle_ns].map(Option::unwrap);
                assert_eq!(parts[0] + parts[1], last.duration_ns, "CPU {}", cpu.cpu);
            }
        }
    }
}

#[test]
fn tasks_that_end_within_a_part_are_told() {
    let text = busy("6.18", r#""global": {"duration": 1}"#);
    let [whole, part] =
        [part(&text, None, None), part(&text, Some(400_000_000), Some(600_000_000))];
    assert_eq!((part.from_ns, part.duration_ns), (400_000_000, 200_000_000));
    for (task, all) in part.tasks.iter().zip(&whole.tasks) {
        let lived = [task.runtime_ns, task.wait_ns, task.sleep_ns].map(Option::unwrap);
        assert_eq!(lived.iter().sum::<u64>(), part.duration_ns, "{} lives all the time", task.name);
        assert!(task.wakeup_latency.max_ns <= all.wakeup_latency.max_ns);
    }
    let chain = &part.chains[0];
    let all = [chain.count, chain.dropped].map(Option::unwrap).iter().sum::<u64>();
    assert!(Some(all) <= chain.began && chain.count > Some(20), "{chain:?}");
}

#[test]
fn a_run_without_the_part_has_no_report() {
    let short = r#"{"tasks": {"a": {"run": 1000, "loop": 5}}}"#;
    let over = |from, until| Overrides { window: Window { from, until }, ..newest() };
    let at = |millis| Some(Nanos::from_millis(millis));
    let ended = parse("-", short, &over(at(500), None)).unwrap().scenario;
    let said = report(("-", &ended), 1, &|| false).unwrap_err();
    assert!(said.starts_with("the run ended at 0.005"), "{said}");
    let long = r#"{"tasks": {"a": {"run": 1000}}, "global": {"duration": 1}}"#;
    for (from, until, what) in [
        (at(1_000), None, "-:1:1: the run ends at 1.000 s: from must be before it, and is 1.000 s"),
        (at(600), at(600), "-:1:1: the run ends at 600.000 ms: from must be before it"),
        (None, at(1_001), "-:1:1: until 1.001 s is beyond the duration of the run"),
    ] {
        let said = parse("-", long, &over(from, until)).unwrap_err().to_string();
        assert!(said.starts_with(what), "{said}");
    }
}
