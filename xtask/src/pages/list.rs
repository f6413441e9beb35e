//! The pages that are looked at: from no wake-up to a thousand tasks, from 2 CPUs to 1,024, from one series to forty.

use serde_json::{Map, Value, json};

/// A page, and what makes it.
pub struct Page {
    /// A file name without its end.
    pub name: &'static str,
    /// The input, if it is not a file of the tree: written beside the page as `INPUT`.
    pub input: Option<Value>,
    /// The words of the command, with `INPUT` and `OUT` in place of the paths.
    pub command: Vec<&'static str>,
}

impl Page {
    /// The same with another option, whose value has blanks.
    fn with(mut self, option: &'static str, value: &'static str) -> Page {
        self.command.extend([option, value]);
        self
    }
}

/// The pages of runs on one side, of comparisons, and of sweeps.
pub fn pages() -> Vec<Page> {
    let committed = |name, command: &'static str| Page {
        name,
        input: None,
        command: command.split(' ').collect(),
    };
    let made = |name, input, command| Page { input: Some(input), ..committed(name, command) };
    vec![
        committed(
            "live",
            "live scenarios/batch-beside-latency.json --cpus 2 --duration 500ms --html OUT",
        ),
        made(
            "linux",
            two(&json!({"web": {"instance": 3, "run": 300, "sleep": 700}})),
            "linux INPUT --duration 300ms --html OUT",
        ),
        made(
            "one-task",
            two(&json!({"only": {"run": 1_000}})),
            "sim INPUT --duration 100ms --html OUT",
        ),
        made(
            "no-wake-up",
            two(&json!({"asleep": {"delay": 900_000, "run": 10}})),
            "sim INPUT --duration 100ms --html OUT",
        ),
        made("changes", changes(), "sim INPUT --html OUT"),
        committed("chains", "sim scenarios/frame-pipeline.json --duration 1s --html OUT"),
        committed("limits", "sim scenarios/tenants.json --duration 1s --html OUT"),
        committed("cookies", "sim scenarios/core-scheduling.json --duration 300ms --html OUT"),
        made("forty-names", named(16, 40), "sim INPUT --duration 500ms --html OUT"),
        made("long-names", long_names(), "sim INPUT --duration 300ms --html OUT"),
        made("two-sockets", sized("2x64", 312), "sim INPUT --duration 300ms --html OUT"),
        made("one-node", sized("1x256", 600), "sim INPUT --duration 200ms --html OUT"),
        made("large", sized("32x32", 1_000), "sim INPUT --duration 200ms --html OUT"),
        made("thousand-names", named(8, 1_000), "sim INPUT --duration 500ms --html OUT"),
        made(
            "merged",
            two(
                &json!({"ping": {"instance": 8, "run": {"exponential": 4}, "sleep": {"exponential": 8}}}),
            ),
            "sim INPUT --duration 12s --html OUT",
        ),
        committed("part", "sim scenarios/web-tier.json --duration 2s --from 1s --html OUT"),
        made("compared-once", named(4, 12), "compare INPUT --seeds 1 --html OUT")
            .with("--both", "--duration 200ms")
            .with("--after", "--set tasks.n-3.priority=5"),
        committed("compared-seeds", "compare scenarios/web-tier.json --seeds 6 --html OUT")
            .with("--both", "--duration 500ms")
            .with("--after", "--kernel 6.6"),
        made("compared-machines", sized("2x8", 100), "compare INPUT --seeds 2 --html OUT")
            .with("--both", "--duration 100ms")
            .with("--after", "--topology 4x32"),
        made("compared-long-names", long_names(), "compare INPUT --seeds 4 --html OUT")
            .with("--both", "--duration 100ms")
            .with("--after", "--feature NO_WAKEUP_PREEMPTION"),
        made(
            "sweep-numbers",
            sweep(json!({"set": {"tasks.n-0.run": [100, 200, 400, 800, 1_600, 3_200]}})),
            "sweep INPUT --out OUT",
        ),
        made("sweep-forty", forty_lines(), "sweep INPUT --out OUT"),
        made("sweep-categories", categories(), "sweep INPUT --out OUT"),
        made("sweep-point", sweep(json!({"seeds": 1})), "sweep INPUT --out OUT"),
    ]
}

fn two(tasks: &Value) -> Value {
    json!({"machine": {"cpus": 2}, "global": {"duration": 1}, "tasks": tasks})
}

fn changes() -> Value {
    json!({
        "machine": {"cpus": 4}, "global": {"duration": 1}, "groups": {"/batch": {}},
        "tasks": {"hog": {"instance": 6, "group": "/batch", "run": 5_000, "sleep": 500}},
        "timeline": [
            {"at": 250_000, "cpu": 3, "online": false},
            {"at": 500_000, "group": "/batch", "weight": 300},
            {"at": 750_000, "cpu": 3, "online": true},
        ],
    })
}

/// A task that runs and sleeps; the `nth` of several differs from the others.
fn task(nth: usize, instances: usize) -> Value {
    let (run, sleep) = (200 + 150 * (nth % 7), 900 + 400 * (nth % 5));
    json!({"instance": instances, "run": {"exponential": run}, "sleep": {"exponential": sleep}})
}

/// So many tasks with names of their own.
fn named(cpus: usize, tasks: usize) -> Value {
    let all: Map<_, _> = (0..tasks).map(|nth| (format!("n-{nth}"), task(nth, 1))).collect();
    json!({"machine": {"cpus": cpus}, "global": {"duration": 1}, "tasks": all})
}

/// So many tasks of four names on a machine of this shape.
fn sized(topology: &str, tasks: usize) -> Value {
    let names = ["api", "batch", "cache", "log"].into_iter().enumerate();
    let all: Map<_, _> = names.map(|(nth, name)| (name.to_owned(), task(nth, tasks / 4))).collect();
    json!({"machine": {"topology": topology}, "global": {"duration": 1}, "tasks": all})
}

fn long_names() -> Value {
    let group = format!("/{}", "kubepods-burstable-pod".repeat(5));
    let mut tasks = Map::new();
    for (nth, name) in [
        "a-name-without-a-blank-that-goes-on-and-on-".repeat(4),
        "<b>markup</b> & \"quotes\" in a name".to_owned(),
        "a name of many words that a person wrote without a thought of columns".to_owned(),
        "\u{5e8f}\u{5217}\u{5904}\u{7406}\u{7a0b}\u{5e8f}".repeat(8),
    ]
    .into_iter()
    .enumerate()
    {
        let mut own = task(nth, 1 + 5 * (nth % 2));
        own["group"] = group.clone().into();
        tasks.insert(name, own);
    }
    let chain: Vec<_> = tasks.keys().take(1).cloned().collect();
    json!({
        "machine": {"cpus": 4}, "global": {"duration": 1}, "groups": {group: {}}, "tasks": tasks,
        "chains": {"the way of a request through all of the services that there are": chain},
    })
}

/// A sweep over a scenario of four tasks, with these keys.
fn sweep(more: Value) -> Value {
    let mut all = json!({
        "scenario": named(2, 4), "seeds": 3, "duration": "50ms",
        "metrics": ["p99(tasks.n-0.wakeup_latency)", "machine.utilization", "share(tasks.n-1)"],
    });
    let Value::Object(more) = more else { unreachable!("keys of a sweep") };
    all.as_object_mut().expect("a sweep is an object").extend(more);
    all
}

fn forty_lines() -> Value {
    let runs: Vec<_> = (1..=40).map(|nth| 50 * nth).collect();
    sweep(json!({"set": {"tasks.n-0.sleep": [500, 1_000, 2_000], "tasks.n-1.run": runs}}))
}

/// Remedies without an order, as one compares them.
fn categories() -> Value {
    let remedies = json!({
        "as it is": {},
        "nice 10 for the batch": {"tasks.n-3.priority": 10},
        "SCHED_IDLE for the batch": {"tasks.n-3.policy": "SCHED_IDLE"},
        "CPU 1 only for the batch, and for nothing else than that": {"tasks.n-3.cpus": [1]},
        "a quarter of the work": {"tasks.n-3.run": 100},
        "no-blank-anywhere-in-this-label-of-a-remedy": {"tasks.n-3.sleep": 9_000},
        "SCHED_FIFO for the server": {"tasks.n-0.policy": "SCHED_FIFO", "tasks.n-0.priority": 5},
    });
    sweep(
        json!({"axes": {"remedy": remedies, "load": {"low": {"tasks.n-2.run": 100}, "high": {"tasks.n-2.run": 2_000}}}}),
    )
}
