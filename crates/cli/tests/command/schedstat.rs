//! Tests of `--schedstat FILE`: a reader that knows the documented fields of each version reads the text, and its sums
//! are those of the report.

use crate::rig::{call, file, folder};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Two nodes of two cores. A task wakes another one through timers and yields; hogs and a real-time task are beside.
const MIXED: &str = "{'machine': {'topology': '2x2'}, 'global': {'duration': 1}, 'tasks': {
    'hog': {'instance': 6, 'run': 3000, 'sleep': 1500},
    'soaker': {'policy': 'SCHED_IDLE', 'run': 5000, 'sleep': 3000},
    'fast': {'policy': 'SCHED_FIFO', 'priority': 5, 'run': 100, 'sleep': 900},
    'waker': {'run': 200, 'resume': 'woken', 'yield': '', 'sleep': 1000},
    'woken': {'suspend': 'woken', 'run': 50}}}";

/// The documented columns of a line of a CPU.
const CPU: [&str; 9] = [
    "yld_count",
    "legacy",
    "sched_count",
    "sched_goidle",
    "ttwu_count",
    "ttwu_local",
    "rq_cpu_time",
    "run_delay",
    "pcount",
];

/// The documented columns of a domain for one state of a CPU: of version 15 and 16, and of 17.
const PASSES: [&str; 8] =
    ["count", "balanced", "failed", "imbalance", "gained", "hot", "nobusyq", "nobusyg"];
const PASSES_17: [&str; 11] = [
    "count", "balanced", "failed", "load", "util", "task", "misfit", "gained", "hot", "nobusyq",
    "nobusyg",
];

/// The documented columns of a domain after those.
const REST: [&str; 12] = [
    "alb_count",
    "alb_failed",
    "alb_pushed",
    "sbe_count",
    "sbe_balanced",
    "sbe_pushed",
    "sbf_count",
    "sbf_balanced",
    "sbf_pushed",
    "ttwu_wake_remote",
    "ttwu_move_affine",
    "ttwu_move_balance",
];

/// A text that was read: a value for each line of a CPU, and for each line of a domain, by the names of the columns.
struct Read {
    version: u32,
    cpus: Vec<Vec<(String, u64)>>,
    domains: Vec<(String, Vec<(String, u64)>)>,
}

impl Read {
    fn of(path: &Path) -> Read {
        let text = fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        let version = lines.next().unwrap().strip_prefix("version ").unwrap().parse().unwrap();
        assert!(lines.next().unwrap().starts_with("timestamp "), "{text}");
        let mut read = Read { version, cpus: Vec::new(), domains: Vec::new() };
        for line in lines {
            let words: Vec<_> = line.split(' ').collect();
            if words[0].starts_with("cpu") {
                assert_eq!(words[0], format!("cpu{}", read.cpus.len()));
                read.cpus.push(named(CPU.map(str::to_owned).to_vec(), &words[1..]));
            } else {
                assert!(words[0].starts_with("domain"), "{line}");
                let words_before = if version == 17 { 3 } else { 2 };
                let domain = words[1..words_before].join(" ");
                read.domains.push((domain, named(columns(version), &words[words_before..])));
            }
        }
        read
    }

    /// The sum over CPUs.
    fn cpus(&self, column: &str) -> u64 {
        self.cpus.iter().flatten().filter(|(name, _)| name == column).map(|(_, value)| value).sum()
    }

    /// The sum over domains.
    fn domains(&self, column: &str) -> u64 {
        let numbers = self.domains.iter().flat_map(|(_, numbers)| numbers);
        numbers.filter(|(name, _)| name == column).map(|(_, value)| value).sum()
    }
}

fn named(columns: Vec<String>, numbers: &[&str]) -> Vec<(String, u64)> {
    assert_eq!(columns.len(), numbers.len(), "{numbers:?}");
    columns.into_iter().zip(numbers.iter().map(|it| it.parse().unwrap())).collect()
}

/// The columns of a domain.
fn columns(version: u32) -> Vec<String> {
    let states = match version {
        15 => ["idle", "busy", "newly_idle"],
        _ => ["busy", "idle", "newly_idle"],
    };
    let passes: &[&str] = if version == 17 { &PASSES_17 } else { &PASSES };
    let of = |state| passes.iter().map(move |it| format!("{state} {it}"));
    states.into_iter().flat_map(of).chain(REST.map(str::to_owned)).collect()
}

/// Runs the scenario, and returns what was read and the report.
fn run(host: &str, options: &[&str]) -> (Read, Value) {
    let name = format!("schedstat-{host}{}.txt", options.concat());
    let path = folder().join(&name);
    let scenario = file(&name.replace("txt", "json"), MIXED);
    let out = path.to_str().unwrap();
    let said = call(&[&[host, &scenario, "--json", "--schedstat", out], options].concat());
    // A resumption may come before the task is suspended, which is a warning.
    assert_eq!(said.code, Some(0), "{}", said.err);
    (Read::of(&path), serde_json::from_str(&said.out).unwrap())
}

/// Checks the sums that the report has too.
fn agrees(read: &Read, report: &Value) {
    let sum = |list: &str, of: &str| -> u64 {
        let rows = report[list].as_array().unwrap().iter();
        rows.map(|row| row[of].as_u64().unwrap()).sum()
    };
    assert_eq!(read.cpus.len(), report["cpus"].as_array().unwrap().len());
    assert_eq!(read.cpus("pcount"), report["machine"]["switches"].as_u64().unwrap());
    assert_eq!(read.cpus("rq_cpu_time"), sum("tasks", "runtime_ns"));
    assert_eq!(read.cpus("run_delay"), sum("tasks", "wait_ns"));
    assert_eq!(read.cpus("sched_count"), report["engine"]["decisions"].as_u64().unwrap());
    let tasks = report["tasks"].as_array().unwrap().len() as u64;
    assert_eq!(read.cpus("ttwu_count"), sum("tasks", "wakeups") - tasks, "a start is no wake-up");
    let remote = read.domains("ttwu_wake_remote");
    assert_eq!(read.cpus("ttwu_count"), read.cpus("ttwu_local") + remote);
    for row in report["balance"].as_array().unwrap() {
        assert!(row["passes"].as_u64().unwrap() > 0);
    }
    for state in ["busy", "idle", "newly_idle"] {
        let of = |column: &str| -> u64 {
            let rows = report["balance"].as_array().unwrap().iter();
            let rows = rows.filter(|row| row["moment"] == state);
            rows.map(|row| row[column].as_u64().unwrap()).sum()
        };
        let column = |name: &str| read.domains(&format!("{state} {name}"));
        assert_eq!(column("count"), of("passes"), "{state}");
        assert_eq!(column("balanced"), of("balanced") + of("pinned"), "{state}");
        assert_eq!(column("failed"), of("failed"), "{state}");
        assert_eq!(column("gained"), of("moved"), "{state}");
    }
    assert_eq!(read.domains("alb_count"), sum("balance", "taken"));
}

#[test]
fn each_kernel_has_its_version_and_the_sums_of_its_report() {
    for (kernel, version) in
        [("6.1", 15), ("6.6", 15), ("6.12", 16), ("6.18", 17), ("idle-balance", 15)]
    {
        let (read, report) = run("sim", &["--kernel", kernel]);
        assert_eq!(read.version, version, "{kernel}");
        agrees(&read, &report);
        let domains: Vec<_> = read.domains[..2].iter().map(|(words, _)| words.as_str()).collect();
        match version {
            17 => assert_eq!(domains, ["MC 3", "NUMA f"]),
            _ => assert_eq!(domains, ["3", "f"]),
        }
        assert!(read.domains("busy count") > 0, "{kernel}: there is something to compare");
        for column in ["yld_count", "sched_goidle", "ttwu_local"] {
            assert!(read.cpus(column) > 0, "{kernel}: {column}");
        }
        assert!(read.domains("ttwu_wake_remote") > 0, "{kernel}");
    }
}

#[test]
fn the_runtime_counts_as_the_simulator_does() {
    let (read, report) = run("live", &[]);
    agrees(&read, &report);
    assert!(read.cpus("sched_count") > 0 && read.cpus("ttwu_count") > 0);
}

#[test]
fn linux_has_the_kernels_own_counters_or_says_that_there_are_none() {
    let path = folder().join("schedstat-kernel.txt");
    let scenario =
        file("schedstat-kernel.json", "{'tasks': {'a': {'loop': 3, 'run': 100, 'sleep': 100}}}");
    let said = call(&["linux", &scenario, "--schedstat", path.to_str().unwrap()]);
    if Path::new("/proc/schedstat").exists() {
        assert_eq!(said.code, Some(0), "{}", said.err);
        let read = Read::of(&path);
        assert!(read.cpus("pcount") > 0);
    } else {
        assert_eq!(said.code, Some(3));
        assert!(said.err.contains("linux: --schedstat: /proc/schedstat: "), "{}", said.err);
        assert!(said.err.contains("CONFIG_SCHEDSTATS"), "{}", said.err);
    }
}
