//! Tests of `runyard compare`: its output for two saved reports, and the input that it refuses. `html.rs` tests the
//! page of two runs.

use crate::json::Json;
use crate::rig::{call, call_with, file, folder, sim};

/// Three probes that wake up on time and six hogs on two CPUs.
const RUN: &str = r#"{
    "machine": {"cpus": 2, "kernel": "6.1 + founding"},
    "global": {"duration": 1},
    "groups": {"/web": {}},
    "tasks": {
        "probe": {"instance": 3, "timer": {"ref": "unique", "period": 5000}, "run": 100},
        "hog": {"instance": 6, "group": "/web", "run": 1000},
        "rt": {"policy": "SCHED_FIFO", "timer": {"ref": "unique", "period": 9000}, "run": 500}
    }
}"#;

fn saved(name: &str, options: &[&str]) -> String {
    file(name, sim(RUN, &[options, &["--json"]].concat()).done())
}

/// Returns the words of the first line of `text` that begins with the words of `from`.
#[track_caller]
fn words<'t>(text: &'t str, from: &str) -> Vec<&'t str> {
    let from: Vec<_> = from.split_whitespace().collect();
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| words.starts_with(&from));
    line.unwrap_or_else(|| panic!("{from:?}\n{text}"))
}

#[test]
fn figures_stand_before_and_after() {
    let before = saved("before.json", &[]);
    let after = saved("after.json", &["--feature", "NO_WAKEUP_PREEMPTION"]);
    let text = call(&["compare", &before, &after]).done();
    assert!(text.starts_with(
        "before: - on sim: 2 CPUs, 10 tasks, 1.00 s, seed 1, kernel 6.1 + founding\nafter:  - on"
    ));
    let [old, new] = [&before, &after]
        .map(|name| Json::read(&std::fs::read_to_string(folder().join(name)).unwrap()));
    for figure in ["switches", "preemptions", "migrations"] {
        let [old, new] = [&old, &new].map(|it| it.number(&format!("machine.{figure}")));
        let words = words(&text, figure);
        let shown = |at: usize| words[at].replace(',', "").parse::<f64>().unwrap();
        assert_eq!((shown(1), shown(2)), (old, new), "{figure}\n{text}");
        assert!((shown(3) - new / old).abs() <= 0.006, "{figure}\n{text}");
    }
    let [old, new] = [&old, &new].map(|it| it.number("latencies.0.wakeup_latency.p99_ns"));
    assert!(new > old, "hogs run on: {old} to {new} ns");
    let latency = text.split_once("wake-up latency").unwrap().1;
    let ratio: f64 = words(latency, "p99").last().unwrap().parse().unwrap();
    assert!((ratio / (new / old) - 1.0).abs() < 0.01, "{ratio} for {}\n{text}", new / old);
    for word in [
        "probe ",
        "hog ",
        "utilization ",
        "task group",
        "differs: without WAKEUP_PREEMPTION\nOne run each",
    ] {
        assert!(text.contains(word), "{word}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "lines are short\n{text}");
}

#[test]
fn a_run_is_as_itself() {
    let name = saved("same.json", &[]);
    let text = call(&["compare", &name, &name]).done();
    for words in ["3 distributions as before", "3 tasks as before", "2 task groups as before"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("probe"), "{text}");
    let report = std::fs::read(folder().join(&name)).unwrap();
    assert_eq!(call_with(&["compare", "-", &name], &report).done(), text);
    assert_eq!(call_with(&["compare", &name, "-"], &report).done(), text);
}

#[test]
fn a_task_of_one_run_stands_against_nothing() {
    let [one, two] = ["one", "two"].map(|task| {
        let text = format!("{{\"tasks\": {{\"{task}\": {{\"loop\": 1, \"run\": 1000}}}}}}");
        file(&format!("{task}.json"), sim(&text, &["--json"]).done())
    });
    let text = call(&["compare", &one, &two]).done();
    assert_eq!(words(&text, "one runtime"), ["one", "runtime", "1.00", "ms", "-", "-"], "{text}");
    assert_eq!(words(&text, "two runtime"), ["two", "runtime", "-", "1.00", "ms", "-"], "{text}");
}

#[test]
fn what_is_no_report_is_refused_with_its_place() {
    let good = saved("good.json", &[]);
    let report = std::fs::read_to_string(folder().join(&good)).unwrap();
    for (name, text, place) in [
        ("void.json", String::new(), "1:1: "),
        ("half.json", report[..report.len() / 2].to_owned(), ""),
        (
            "scenario.json",
            RUN.to_owned(),
            "1:1: no report but a scenario; compare two reports, or two scenarios with --seeds 20",
        ),
        ("list.json", "[\n1]".to_owned(), ""),
        ("text.json", "\n\n  nothing".to_owned(), "3:4: "),
        ("type.json", report.replacen("\"seed\": 1,", "\"seed\": -1,", 1), "5:12: "),
        ("next.json", report.replacen("report/1", "report/2", 1), "1:1: its schema is "),
        (
            "claims.json",
            "{\"schema\": \"runyard.reproduce/1\", \"experiments\": []}".to_owned(),
            "1:1: its schema is \"runyard.reproduce/1\", not \"runyard.report/1\"",
        ),
    ] {
        let name = file(name, text);
        for arguments in [["compare", &name, &good], ["compare", &good, &name]] {
            let line = call(&arguments).refused();
            assert!(line.starts_with(&format!("{name}:{place}")), "{place}: {line}");
        }
    }
    let line = call(&["compare", "no/such.json", &good]).refused();
    assert!(line.starts_with("cannot read no/such.json: No such file"), "{line}");
    let latin = file("latin-report.json", b"\xff");
    assert_eq!(call(&["compare", &latin, &good]).refused(), "latin-report.json:1:1: not UTF-8");
    assert!(call(&["compare", "-", "-"]).refused().starts_with("-: "));
    assert!(call(&["compare", &good]).refused().starts_with("good.json:1:1: a report, of one run"));
}

#[test]
fn a_page_that_cannot_be_written_is_the_hosts_refusal() {
    let good = saved("refusal.json", &[]);
    let scenario = file("refusal-scenario.json", "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1}}}");
    for arguments in [
        &["compare", &good, &good][..],
        &["sim", &scenario],
        &["live", &scenario, "--cpus", "1"],
        &["linux", &scenario, "--cpus", "1"],
    ] {
        let said = call(&[arguments, &["--html", "no/such/folder.html"]].concat());
        assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "before anything ran");
        assert!(said.err.starts_with("no/such/folder.html: No such file"), "{}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
}

#[test]
fn a_page_that_is_there_stays_until_there_is_another() {
    let page = file("kept.html", "the old one");
    let endless = "{\"tasks\": {\"a\": {\"run\": 1}}}";
    sim(endless, &["--html", &page]).refused();
    assert_eq!(std::fs::read_to_string(folder().join(&page)).unwrap(), "the old one");
    let text = sim(RUN, &[]).done();
    let with_page = sim(RUN, &["--html", &page]).done();
    let table = |text: &str| {
        text.split_once("\ntask").unwrap().1.split_once("decision").unwrap().0.to_owned()
    };
    assert_eq!(table(&with_page), table(&text), "the report is the same");
    let written = std::fs::read_to_string(folder().join(&page)).unwrap();
    assert!(written.starts_with("<!doctype html>"));
}

/// Returns the lines of a text that show a figure, each with the name that it belongs to.
fn told(text: &str) -> Vec<(String, String)> {
    let mut name = String::new();
    let line = |line: &str| {
        if !line.starts_with("  ") && !line.is_empty() {
            name = line.split_whitespace().next().unwrap().to_owned();
        }
        (name.clone(), line.to_owned())
    };
    text.lines().map(line).collect()
}

#[test]
fn seeds_tell_changes_from_noise() {
    let scenario = file("seeds.json", RUN);
    let seeds = ["--seeds", "12", "--both", "--duration 200ms"];
    let text =
        call(&[&["compare", &scenario, "--after", "--set tasks.rt.run=1500"], &seeds[..]].concat())
            .done();
    assert!(text.contains("12 seeds a side, in pairs"), "{text}");
    assert!(text.contains("differs: no option -> --set tasks.rt.run=1500"), "{text}");
    let lines = told(&text);
    let share = lines.iter().find(|(name, _)| name == "share(tasks.rt)").unwrap();
    assert!(share.1.ends_with("change"), "three times the work is a change: {text}");
    assert!(share.1.contains(" points"), "the difference of two percentages: {text}");
    assert!(lines.iter().any(|(_, line)| line.contains("wake-ups (sum)")), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
    // Equal sides have equal figures in each pair. Different random draws are noise, whatever their ratio.
    let same = call(&[&["compare", &scenario, &scenario], &seeds[..]].concat()).done();
    assert!(same.contains("12 seeds a side, in pairs: all figures are as before."), "{same}");
    assert!(same.contains("3 tasks as before") && !same.contains("noise"), "{same}");
    let noisy = |run: u32| {
        let work =
            format!("\"run\": {{\"exponential\": {run}}}, \"sleep\": {{\"exponential\": 900}}");
        file(&format!("noisy-{run}.json"), RUN.replace("\"run\": 1000", &work))
    };
    let (scenario, other) = (noisy(1000), noisy(1001));
    let text = call(&[&["compare", &scenario, &other], &seeds[..]].concat()).done();
    assert!(text.contains("tasks.hog.run.exponential: 1000 -> 1001"), "{text}");
    assert!(!text.lines().any(|line| line.ends_with("change")), "a thousandth is lost: {text}");
    assert!(text.lines().filter(|line| line.ends_with("noise")).count() > 1, "{text}");
    let few =
        call(&["compare", &scenario, &other, "--seeds", "3", "--both", "--duration 200ms"]).done();
    assert!(few.lines().filter(|line| line.ends_with("seeds: 8 would do")).count() > 1, "{few}");
    assert!(!few.lines().any(|line| line.ends_with("noise")), "three seeds tell nothing: {few}");
}

#[test]
fn a_condition_gives_the_exit_code() {
    let scenario = file("condition.json", RUN);
    let compared = |more: &[&str]| {
        let after = ["--both", "--duration 200ms", "--after", "--set tasks.rt.run=1000"];
        call(&[&["compare", &scenario], &after[..], more].concat())
    };
    let said = compared(&["--fail-if", "share(tasks.rt) > +10%"]);
    assert_eq!((said.code, said.err.as_str()), (Some(1), ""), "{}", said.out);
    assert!(said.out.contains("20 seeds a side"), "the usual number of seeds: {}", said.out);
    let last = said.out.lines().last().unwrap();
    assert!(last.starts_with("failed: share(tasks.rt) > +10%: +"), "{last}");
    assert!(!said.out.contains("\nmachine"), "only what is asked for: {}", said.out);

    let kept = compared(&["--fail-if", "share(tasks.rt) > +300%", "--strict"]).done();
    assert!(kept.lines().last().unwrap().starts_with("kept: "), "{kept}");

    let few = ["--seeds", "4", "--fail-if", "share(tasks.rt) > +10%"];
    let undecided = compared(&few).done();
    let last = undecided.lines().last().unwrap();
    assert!(last.starts_with("undecided: ") && last.ends_with("; 6 seeds would decide"), "{last}");
    let strict = compared(&[&few[..], &["--strict", "--json"]].concat());
    assert_eq!((strict.code, strict.err.trim_end()), (Some(1), last));
    let document = Json::read(&strict.out);
    assert_eq!(document.number("conditions.0.seeds_needed"), 6.0);
    assert_eq!(document.number("judged.0.seeds_needed"), 6.0);

    for (more, said) in [
        (
            ["--fail-if", "share(tasks.rt) > 10"],
            ": 1:19: a change in per cent is expected, as +10% or -5%",
        ),
        (["--metric", "q99(tasks.rt.wakeup_latency)"], "there is no statistic \"q99\""),
        (["--seeds", "0"], "0 is not in 1..=1000"),
    ] {
        assert!(compared(&more).misused().contains(said), "{said}");
    }
    compared(&["--strict"]).misused();
    let line = compared(&["--metric", "share(tasks.tr)"]).refused();
    assert_eq!(line, "share(tasks.tr): the scenario's tasks have no \"tr\"; did you mean \"rt\"?");
}

#[test]
fn scenarios_and_reports_are_told_apart() {
    let (report, scenario) = (saved("apart.json", &[]), file("apart-scenario.json", RUN));
    let line = call(&["compare", &report, &scenario, "--seeds", "2"]).refused();
    let of_one_run = "apart.json:1:1: a report, of one run; compare it with another report, or two scenarios with --seeds 20";
    assert_eq!(line, of_one_run);
    for (options, said) in [
        (
            ["--after", "--kernel 9.9"],
            "--after or --both: invalid value '9.9' for '--kernel <NAME>'",
        ),
        (["--after", "--json"], "--after or --both: --json is of one run"),
        (["--both", "--set 'a"], "--both \"--set 'a\": a quote is not closed"),
    ] {
        let line =
            call(&[&["compare", &scenario, "--seeds", "2"], &options[..]].concat()).refused();
        assert!(line.starts_with(said), "{line}");
    }
    for options in [["--after", "--cpus 1"], ["--metric", "machine.switches"]] {
        let line = call(&[&["compare", &report, &report], &options[..]].concat()).refused();
        assert_eq!(line, of_one_run);
    }
    let line = call(&["compare", &scenario, &report]).refused();
    assert!(line.starts_with("apart-scenario.json:1:1: no report but a scenario"), "{line}");
    let document = Json::read(&call(&["compare", &report, &report, "--json"]).done());
    assert_eq!(document.number("seeds"), 1.0);
}

#[test]
fn two_parts_of_one_run_are_compared() {
    let scenario = r#"{
        "machine": {"cpus": 1},
        "tasks": {"web": {"run": {"exponential": 300}, "sleep": {"exponential": 900}}, "late": {"delay": 1000000, "run": 1000}},
        "global": {"duration": 2},
    }"#;
    let name = file("parts.json", scenario);
    let metric = "p95(tasks.web.wakeup_latency)";
    let asked = ["compare", &name, "--seeds", "8", "--metric", metric];
    let halves = [&asked[..], &["--before", "--until 1s", "--after", "--from 1s"]].concat();
    let text = call(&halves).done();
    assert!(text.contains("differs: from 0 ns -> 1.00 s; --until 1s -> --from 1s\n"), "{text}");
    assert!(text.contains(metric) && text.contains("change"), "{text}");
    let said = call(&[&asked[..], &["--warmup", "2s"]].concat());
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{}", said.err);
    assert!(said.err.contains("parts.json:1:1: the run ends at 2.000 s"), "{}", said.err);
}

#[test]
fn spans_of_a_run_are_judged_one_by_one() {
    let scenario = r#"{
        "machine": {"cpus": 1},
        "tasks": {"web": {"run": {"exponential": 300}, "sleep": {"exponential": 900}}, "late": {"delay": 1000000, "run": 1000}},
        "global": {"duration": 2},
    }"#;
    let name = file("spans.json", scenario);
    let [first, last] =
        ["0s..1s", "1s..2s"].map(|span| format!("p95(tasks.web.wakeup_latency, {span})"));
    let fails = format!("{last} < -10%");
    let asked = ["compare", &name, "--seeds", "8", "--metric", &first, "--fail-if", &fails];
    let said = call(&[&asked[..], &["--after", "--set tasks.late.policy=SCHED_IDLE"]].concat());
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.contains(&format!("failed: {last} < -10%: -")), "{}", said.out);
    assert_eq!(words(&said.out, "p95(tasks.web.wakeup_latency, 0s..1s)").last(), Some(&"same"));
    let wrong = call(&["compare", &name, "--metric", "p95(tasks.web.wakeup_latency, 1s..3s)"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(2), ""), "{}", wrong.err);
    assert!(
        wrong.err.contains("1s..3s is not within the run, which ends at 2.000 s"),
        "{}",
        wrong.err
    );
}
