//! Tests of pages in a browser. Headless Chromium opens the pages of real runs without a network, and prints their
//! documents.
//!
//! A copy of each page gets a script at its end ([`PROBE`]), which inspects the drawn charts: the pixels of canvases,
//! before and after a zoom. The script writes its findings into the document, and Chromium prints it. Without Chromium
//! these tests check nothing, and a line says so.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The names of the browser on the systems that have it.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The wall-clock limit for a browser. A page needs some seconds; its own clock is virtual.
const PATIENCE: Duration = Duration::from_secs(40);

/// The number of attempts. Now and then a browser hangs before it has opened a page.
const TRIES: usize = 4;

/// The lock that gives each browser the whole machine.
static TURN: Mutex<()> = Mutex::new(());

/// Five tasks, one of them real-time and two of them with instances, on two CPUs.
const RUN: &str = r#"{
    "machine": {"cpus": 2},
    "global": {"duration": 1},
    "groups": {"/web": {}},
    "tasks": {
        "rt": {"policy": "SCHED_FIFO", "priority": 9, "timer": {"ref": "u", "period": 4000}, "run": 300},
        "api": {"instance": 3, "group": "/web", "run": {"exponential": 4000}, "sleep": {"exponential": 9000}},
        "hog": {"instance": 2, "phases": {"a": {"loop": 20, "run": 5000}, "b": {"sleep": 90000}}},
        "<script>alert(1)</script>": {"loop": 3, "run": 2000, "sleep": 3000},
        "rest": {"policy": "SCHED_IDLE", "run": 1000}
    }
}"#;

/// A script that runs before the page's own scripts. It records the requests that the page's policy blocks, since a
/// blocked request causes no error.
const GUARD: &str = "<script>window.blocked = []; document.addEventListener(\
                     'securitypolicyviolation', (it) => blocked.push(it.blockedURI));</script>";

/// The script that inspects the charts and writes down its findings.
const PROBE: &str = include_str!("html/probe.js");

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("html");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[track_caller]
fn runyard(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runyard"));
    let output = command.args(arguments).current_dir(folder()).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.is_empty(), "{arguments:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

fn browser() -> Option<&'static str> {
    let runs = |name: &&&str| {
        let mut command = Command::new(name);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = BROWSERS.iter().find(runs);
    if found.is_none() {
        // `eprintln!` would show the line for failed tests only.
        let mut err = std::io::stderr();
        writeln!(err, "skipped: what a page shows; it needs one of {BROWSERS:?}").unwrap();
    }
    found.copied()
}

/// The document that the browser made of a page, and the findings of the probe.
struct Shown {
    dom: String,
    probe: Value,
}

impl Shown {
    /// Opens the page `name` of [`folder`].
    #[track_caller]
    fn open(browser: &str, name: &str) -> Shown {
        Shown::open_as(browser, name, &[])
    }

    /// Opens the page `name` in a browser with these settings.
    #[track_caller]
    fn open_as(browser: &str, name: &str, settings: &[&str]) -> Shown {
        let page = std::fs::read_to_string(folder().join(name)).unwrap();
        assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "all is in it");
        let probed = page.replacen("</html>", &format!("<script>{PROBE}</script></html>"), 1);
        let probed = probed.replacen("<body>", &format!("<body>{GUARD}"), 1);
        let copy = folder().join(format!("probed-{name}"));
        std::fs::write(&copy, probed).unwrap();
        let dom = dump(browser, &copy, settings);
        let told = between(&dom, "<pre id=\"probe\">", "</pre>").unwrap_or_else(|| {
            panic!(
                "the probe says nothing: {}",
                between(&dom, "id=\"errors\"", "</p>").unwrap_or(&dom)
            )
        });
        let told = told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let probe = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
        Shown { dom, probe }
    }

    /// Checks that no script failed and that all charts are drawn.
    #[track_caller]
    fn is_whole(&self) {
        assert_eq!(self.probe["errors"], "", "no script failed");
        assert!(self.dom.contains("data-drawn=\"all\""), "the page's script came to its end");
        assert_eq!(self.probe["requests"], 0, "nothing was asked of a network");
    }

    /// Returns the rows of a table, each with the text of its first cell and the figures of the others.
    #[track_caller]
    fn rows(&self, table: &str) -> Vec<(String, Vec<Option<f64>>)> {
        let rows = self.probe["tables"][table].as_array();
        let row = |row: &Value| {
            let figures = row["figures"].as_array().unwrap().iter().map(Value::as_f64).collect();
            (row["name"].as_str().unwrap().to_owned(), figures)
        };
        rows.unwrap_or_else(|| panic!("a table {table}")).iter().map(row).collect()
    }
}

/// Returns the page's document as the browser prints it.
#[track_caller]
fn dump(browser: &str, page: &Path, settings: &[&str]) -> String {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dump = (0..TRIES).find_map(|_| try_dump(browser, page, settings));
    dump.unwrap_or_else(|| panic!("{TRIES} browsers said nothing in {PATIENCE:?} each"))
}

/// Returns the printed document, or `None` if the browser takes too long or dies.
fn try_dump(browser: &str, page: &Path, settings: &[&str]) -> Option<String> {
    let profile = page.with_extension("profile");
    let out = page.with_extension("dom");
    let _ = std::fs::remove_dir_all(&profile);
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
        .args(["--disable-sync", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND"])
        .args(["--window-size=1300,2400", "--virtual-time-budget=20000", "--dump-dom"])
        .args(settings)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = std::fs::remove_dir_all(profile);
    Some(std::fs::read_to_string(out).unwrap()).filter(|dom| dom.contains("</html>"))
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    Some(text.split_once(from)?.1.split_once(to)?.0)
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

#[test]
fn the_page_of_a_run_shows_the_run() {
    let Some(browser) = browser() else { return };
    let scenario = RUN.replace("\"tasks\":", "\"chains\": {\"way\": [\"rt\"]}, \"tasks\":");
    std::fs::write(folder().join("run.json"), scenario).unwrap();
    let report = runyard(&["sim", "run.json", "--json", "--html", "run.html"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let shown = Shown::open(browser, "run.html");
    shown.is_whole();

    let keys = ["runtime_ns", "wait_ns", "sleep_ns", "wakeups", "preemptions", "migrations"];
    let places = [3, 5, 6, 7, 8, 9];
    let tasks = report["tasks"].as_array().unwrap();
    let mut rows = shown.rows("tasks");
    assert_eq!(rows.len(), 10, "a row for each name, and for each task of a name with several");
    assert_eq!(
        shown.probe["unfolded"].to_string(),
        "[5,7]",
        "the name with the most runtime opens to its two tasks"
    );
    rows.retain(|(name, _)| tasks.iter().any(|task| *name == task["name"]));
    assert_eq!(rows.len(), 8);
    for ((name, figures), task) in rows.iter().zip(tasks) {
        assert_eq!(*name, task["name"]);
        for (key, at) in keys.iter().zip(places) {
            assert_eq!(figures[at], task[key].as_f64(), "{name}: {key}");
        }
        let latency = ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
        for (key, at) in latency.iter().zip(10..) {
            assert_eq!(figures[at], task["wakeup_latency"][key].as_f64(), "{name}: {key}");
        }
    }
    assert_eq!(rows[6].0, "<script>alert(1)</script>", "a name is a text");
    let groups: Vec<_> = shown.rows("groups").into_iter().map(|(name, _)| name).collect();
    assert_eq!(groups, ["/", "/web"]);
    assert_eq!(shown.rows("latencies").len(), 5, "instances together");
    let sorted: Vec<_> = shown.probe["sorted"].as_array().unwrap().iter().map(number).collect();
    assert!(sorted.len() == 5 && sorted.is_sorted_by(|a, b| a >= b), "by runtime: {sorted:?}");

    let charts = &shown.probe["charts"];
    assert_eq!(charts["utilization-0"]["series"], 4, "a layer for each kind of work");
    assert_eq!(charts["utilization-0"]["drawn"], 4, "and each is an area");
    assert_eq!(charts["latency"]["series"], 5);
    assert_eq!(charts["latency"]["drawn"], 5, "and each is a line");
    let series = [&charts["course-0"]["series"], &charts["course-0"]["lines"]];
    assert_eq!(series, [8, 8], "of a chain, five tasks and two groups, and each is a line");
    let causes = report["history"]["waits"].as_object().unwrap();
    assert!(causes.len() > 1, "tasks wait for several reasons: {causes:?}");
    assert_eq!(charts["causes-0"]["series"], causes.len(), "a layer for each cause");
    assert!(
        number(&charts["causes-0"]["drawn"]) > 0.0,
        "and some are areas: {}",
        charts["causes-0"]
    );
    assert_eq!(charts["chain-latency"]["lines"], 1, "one chain");
    assert_eq!(charts["lanes-0"]["lanes"], 2);
    for chart in ["utilization-0", "latency"] {
        let texts = charts[chart]["texts"].to_string();
        assert!(texts.contains("%"), "{chart} has an axis: {texts}");
    }
    // Both CPUs are busy all the time, so the pixels of their lanes have tasks' colours.
    for chart in ["lanes-0", "timeline-0"] {
        let filled = number(&charts[chart]["filled"]);
        assert!(filled > 0.5, "{chart}: {filled} of its pixels");
    }
    let colors = number(&charts["timeline-0"]["colors"]);
    assert!(colors >= 3.0, "{colors} colours of the legend: who is who can be seen");
}

#[test]
fn the_timeline_zooms() {
    let Some(browser) = browser() else { return };
    std::fs::write(folder().join("zoom.json"), RUN).unwrap();
    runyard(&["sim", "zoom.json", "--html", "zoom.html"]);
    let shown = Shown::open(browser, "zoom.html");
    shown.is_whole();
    let zoom = &shown.probe["zoom"];
    let width = |which: &str| number(&zoom[which][1]) - number(&zoom[which][0]);
    let whole = width("whole");
    assert!(width("wheel") < 0.95 * whole, "the wheel zooms: {zoom}");
    assert!((width("button") / width("wheel") - 0.25).abs() < 0.01, "so does the button: {zoom}");
    assert_eq!(width("all"), whole, "and back: {zoom}");
    assert_ne!(zoom["text"][0], zoom["text"][1], "the page says what is shown: {zoom}");
    assert_ne!(zoom["pixels"][0], zoom["pixels"][1], "other stretches are seen");
    assert!(zoom["tip"].as_str().is_some_and(|tip| tip.contains("CPU 0")), "{zoom}");
}

/// A run of 100 ms on two CPUs, with changes at 45 ms and at 55 ms.
const CHANGES: &str = r#"{
    "machine": {"cpus": 2},
    "global": {"duration": 1},
    "groups": {"/<b>": {}},
    "tasks": {"hog": {"instance": 4, "group": "/<b>", "run": 5000}},
    "timeline": [
        {"at": 45000, "cpu": 1, "online": false},
        {"at": 55000, "group": "/<b>", "weight": 300},
        {"at": 45000, "task": "hog", "priority": 5}
    ]
}"#;

#[test]
fn the_changes_of_a_timeline_are_marked() {
    let Some(browser) = browser() else { return };
    std::fs::write(folder().join("changes.json"), CHANGES).unwrap();
    changes_are_marked(browser, "0ms", [0.45, 0.55]);
    changes_are_marked(browser, "20ms", [25.0 / 80.0, 35.0 / 80.0]);
}

/// Checks the marks of a run that counts `from` then: they are at these parts of the charts.
#[track_caller]
fn changes_are_marked(browser: &str, from: &str, shares: [f64; 2]) {
    let page = format!("changes-{from}.html");
    let run = ["sim", "changes.json", "--duration", "100ms", "--html", &page];
    runyard(&[&run[..], &["--from", from]].concat());
    let shown = Shown::open(browser, &page);
    shown.is_whole();
    let words = ["CPU 1 offline; hog: SCHED_OTHER 5", "/<b>: weight 300"];
    for chart in ["utilization-0", "lanes-0", "causes-0"] {
        let chart = &shown.probe["charts"][chart];
        let left = number(&chart["place"]["left"]) + number(&chart["area"]["x"]);
        for (nth, share) in shares.into_iter().enumerate() {
            let mark = &chart["marks"][nth];
            let place = left + share * number(&chart["area"]["width"]);
            assert!((number(&mark["x"]) - place).abs() < 2.0, "at its time: {place}, {chart}");
            assert_eq!(mark["words"], words[nth]);
        }
    }
    // CPU 1 is busy until its change, in the whole run as well as in a part of it.
    let zoom = &shown.probe["zoom"];
    for (marks, edge) in [0, 1].map(|view| (&zoom["marks"][view], number(&zoom["edge"][view]))) {
        if marks[0]["words"] != words[0] {
            assert_eq!((from, marks), ("20ms", &zoom["marks"][1]), "a part of the run without it");
            continue;
        }
        assert!((number(&marks[0]["x"]) - edge).abs() < 2.5, "at its time: {zoom}");
    }
    let near: Vec<_> = zoom["near"].as_array().unwrap().iter().map(|it| &it["shown"]).collect();
    assert_eq!(near, [true, false], "a pointer near a mark shows its words: {zoom}");
    let list = between(&shown.dom, "<div class=\"changes\">", "</div>").expect("a list");
    for line in ["0.045000000 s CPU 1 offline<", "0.055000000 s /&lt;b&gt;: weight 300<"] {
        assert!(list.contains(line), "{list}");
    }
}

#[test]
fn a_page_is_for_phones_and_for_the_night() {
    let Some(browser) = browser() else { return };
    std::fs::write(folder().join("narrow.json"), RUN).unwrap();
    runyard(&["sim", "narrow.json", "--html", "narrow.html"]);
    let settings = ["--window-size=420,3000", "--blink-settings=preferredColorScheme=0"];
    let shown = Shown::open_as(browser, "narrow.html", &settings);
    shown.is_whole();
    assert!(number(&shown.probe["overflow"]) <= 0.0, "nothing is wider than the screen");
    assert_eq!(shown.probe["paper"], "rgb(28, 33, 41)", "it is dark");
    let charts = &shown.probe["charts"];
    for chart in ["utilization-0", "lanes-0", "latency", "timeline-0"] {
        let place = &charts[chart]["place"];
        assert!(number(&place["right"]) <= 500.0, "{chart}: {place}");
    }
    let texts = charts["latency"]["texts"].to_string();
    assert!(texts.contains("wake-up latency"), "the axis has a title: {texts}");
    assert!(number(&charts["timeline-0"]["colors"]) >= 3.0);
}

#[test]
fn two_runs_are_side_by_side() {
    let Some(browser) = browser() else { return };
    std::fs::write(folder().join("two.json"), RUN).unwrap();
    let reports = [("before.json", "WAKEUP_PREEMPTION"), ("after.json", "NO_WAKEUP_PREEMPTION")];
    let [before, after] = reports.map(|(name, feature)| {
        let report = runyard(&["sim", "two.json", "--json", "--feature", feature]);
        std::fs::write(folder().join(name), &report).unwrap();
        serde_json::from_str::<Value>(&report).unwrap()
    });
    runyard(&["compare", "before.json", "after.json", "--html", "two.html"]);
    let shown = Shown::open(browser, "two.html");
    shown.is_whole();

    let charts = &shown.probe["charts"];
    for run in ["0", "1"] {
        assert_eq!(charts[format!("utilization-{run}")]["drawn"], 4);
        assert_eq!(charts[format!("lanes-{run}")]["lanes"], 2);
    }
    let place = |chart: &str, side: &str| number(&charts[chart]["place"][side]);
    assert_eq!(place("utilization-0", "top"), place("utilization-1", "top"));
    assert_eq!(place("causes-0", "top"), place("causes-1", "top"), "both have causes");
    assert!(place("utilization-0", "right") <= place("utilization-1", "left"), "side by side");
    assert_eq!(charts["latency"]["drawn"], 10, "five tasks before and after, on one scale");
    assert_eq!(charts["latency"]["dashed"], 5);

    let rows = shown.rows("tasks");
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["rt", "api", "hog", "<script>alert(1)</script>", "rest"],
        "instances are one row"
    );
    for (report, of) in [(&before, 0), (&after, 1)] {
        let tasks = report["tasks"].as_array().unwrap();
        for (name, figures) in &rows {
            let own = tasks.iter().filter(|task| task["thread"] == **name);
            let sum = |key: &str| own.clone().map(|task| number(&task[key])).sum::<f64>();
            assert_eq!(figures[of], Some(sum("runtime_ns")), "{name}");
            assert_eq!(figures[3 + of], Some(sum("wait_ns")), "{name}");
        }
    }
    for (name, figures) in shown.rows("latencies") {
        for (report, of) in [(&before, 0), (&after, 1)] {
            let all = report["latencies"].as_array().unwrap();
            let own = all.iter().find(|it| it["name"] == *name).unwrap();
            assert_eq!(figures[of], own["wakeup_latency"]["count"].as_f64(), "{name}");
            assert_eq!(figures[6 + of], own["wakeup_latency"]["p99_ns"].as_f64(), "{name}");
        }
    }
    assert!(shown.dom.contains("One run each: differences may be noise"));
    for mark in ["better", "worse", "noise"] {
        assert!(
            !shown.dom.contains(&format!("class=\"{mark}\"")),
            "one run each: nothing is {mark}"
        );
    }
    assert_eq!(shown.rows("groups").len(), 2);
    assert_eq!(shown.rows("latencies").len(), 5);
}

#[test]
fn noise_is_grey_and_changes_are_not() {
    let Some(browser) = browser() else { return };
    std::fs::write(folder().join("seeds.json"), RUN).unwrap();
    let options =
        ["--both", "--duration 300ms", "--after", "--set tasks.rt.run=600", "--html", "seeds.html"];
    runyard(&[&["compare", "seeds.json", "--seeds", "12"], &options[..]].concat());
    let shown = Shown::open(browser, "seeds.html");
    shown.is_whole();
    assert!(shown.dom.contains("12 seeds a side, in pairs"));
    assert!(shown.dom.contains("--set tasks.rt.run=600"), "the header says what differs");
    let rows = shown.rows("judged");
    let rt = &rows.iter().find(|(name, _)| name == "share(tasks.rt)").unwrap().1;
    assert!(
        rt[1].unwrap() > 1.9 * rt[0].unwrap() && rt[5].unwrap() < 0.05,
        "it runs twice as long: {rt:?}"
    );
    assert!(shown.dom.contains("class=\"noise\""), "some figures differ by chance only");
}

/// A sweep with two columns, one of them of numbers, and three metrics.
const SWEEP: &str = r#"{
    "scenario": "swept.json",
    "set": {"tasks.hog.phases.a.run": [2000, 5000, 8000]},
    "axes": {"<b>load</b>": {"low": {"tasks.api.sleep": 20000}, "high": {"tasks.api.sleep": 2000}}},
    "seeds": 4,
    "duration": "200ms",
    "metrics": ["p99(tasks.api.wakeup_latency)", "machine.utilization", "share(tasks.hog)"],
}"#;

#[test]
fn a_sweep_is_drawn_with_its_bands() {
    let Some(browser) = browser() else { return };
    std::fs::write(folder().join("swept.json"), RUN).unwrap();
    std::fs::write(folder().join("sweep.json"), SWEEP).unwrap();
    let _ = std::fs::remove_dir_all(folder().join("sweep"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_runyard"));
    let command = command.args(["sweep", "sweep.json", "--out", "sweep"]).current_dir(folder());
    assert!(command.stderr(Stdio::null()).status().unwrap().success());
    std::fs::copy(folder().join("sweep/index.html"), folder().join("sweep.html")).unwrap();
    let size = std::fs::metadata(folder().join("sweep.html")).unwrap().len();
    assert!(size < 5_000_000, "{size} bytes");
    let shown = Shown::open(browser, "sweep.html");
    shown.is_whole();
    let chosen = &shown.probe["chosen"];
    assert_eq!(chosen["metrics"][0], "p99(tasks.api.wakeup_latency)");
    assert_eq!(chosen["first"]["axis"], "tasks.hog.phases.a.run", "numbers are along the axis");
    assert_eq!(chosen["first"]["lines"], "<b>load</b>");
    let band_and_line = |points: u32| {
        format!(
            "[[\"custom\",{points}],[\"line\",{points}],[\"custom\",{points}],[\"line\",{points}]]"
        )
    };
    assert_eq!(
        chosen["first"]["series"].to_string(),
        band_and_line(3),
        "a line and a band for each load"
    );
    assert_eq!(chosen["first"]["rows"].to_string(), "[\"0\",\"0\",\"0\",\"0\",\"0\",\"0\"]");
    assert_eq!(chosen["second"]["axis"], "<b>load</b>");
    assert_eq!(chosen["second"]["rows"][5], "1", "the table follows the metric");
    assert_eq!(
        chosen["second"]["series"].as_array().unwrap().len(),
        3,
        "points with their intervals for each run, since loads have no order"
    );
    assert_eq!(chosen["third"]["series"].to_string(), "[[\"custom\",2]]");
    let chart = &shown.probe["charts"]["sweep"];
    assert_eq!(chart["lines"], 2, "they are drawn: {chart}");
    assert_eq!(chosen["third"]["dots"], 2, "and so are points");
    let rows = shown.rows("points");
    assert_eq!(rows.len(), 6 * 3);
    let table = std::fs::read_to_string(folder().join("sweep/summary.csv")).unwrap();
    let mean: f64 = table.lines().nth(1).unwrap().split(',').nth(4).unwrap().parse().unwrap();
    assert_eq!(rows[0].1[3], Some(mean), "the table is that of summary.csv");
}
