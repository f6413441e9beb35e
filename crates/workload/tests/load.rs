//! The meaning of distributions, arrivals and chains of requests.

use runyard_engine::time::Nanos;
use runyard_workload::arrivals::{ArrivalsSpec, Receiver, Times};
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{ChainSpec, Join, ObjectId, SpecId, Step};
use runyard_workload::{Overrides, Parsed, parse};
use std::fs;
use std::path::PathBuf;

fn parsed(file: &str, text: &str) -> Result<Parsed, String> {
    parse(file, text, &Overrides::default()).map_err(|error| error.to_string())
}

/// A scenario in a folder of its own, beside a file with this content.
fn beside(name: &str, content: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("times.txt"), content).unwrap();
    folder.join("test.json")
}

fn run_of(draw: &str) -> Parsed {
    parsed("-", &format!("{{'tasks': {{'a': {{'loop': 1, 'run': {draw}}}}}}}")).unwrap()
}

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

#[test]
fn every_distribution_is_read() {
    for (text, draw) in [
        ("{'lognormal': [200, 300]}", Draw::Lognormal { mean: us(200), sd: us(300) }),
        ("{'pareto': [100, 1.5]}", Draw::Pareto { least: us(100), shape: 1_500_000 }),
        ("{'weibull': [100, 0.7]}", Draw::Weibull { scale: us(100), shape: 700_000 }),
        ("{'tail': [9, 80, 2.5]}", Draw::Tail { usual: us(9), extra: us(80), often: 2_500_000 }),
        ("{'values': [1, 2.5]}", Draw::Values(&[Nanos(1_000), Nanos(2_500)])),
    ] {
        let Parsed { scenario, warnings } = run_of(text);
        assert_eq!(scenario.tasks[0].phases[0].steps.get(0), Some(Step::Run(draw)), "{text}");
        assert_eq!(warnings, [], "{text}");
    }
}

#[test]
fn a_cut_that_changes_the_mean_is_told() {
    let told =
        |draw: &str| run_of(draw).warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    let below = "-:1:47: the values below 0 are cut, so the mean of these times is 139.6 us and not 100.0 us";
    assert_eq!(told("{'normal': [100, 200]}"), [below]);
    assert_eq!(told("{'normal': [100, 30]}"), [] as [String; 0]);
    let heavy = told("{'pareto': [100, 1.01]}");
    assert!(
        heavy.len() == 1 && heavy[0].contains("the values above 36 years are cut"),
        "{heavy:?}"
    );
}

#[test]
fn measured_times_are_in_a_file_beside_the_scenario() {
    let file = beside("measured", "# of last week\n120\n\n 80.5 # fast\n3000\r\n");
    let text = "{'arrivals': {'in': {'times': [1, 1, 2], 'sem_post': 's'}}, 'tasks': {'a': {'loop': 3, 'sem_wait': 's', 'run': {'values': 'times.txt'}}}}";
    let scenario = parsed(file.to_str().unwrap(), text).unwrap().scenario;
    let values = Draw::Values(&[Nanos(120_000), Nanos(80_500), Nanos(3_000_000)]);
    assert_eq!(scenario.tasks[0].phases[0].steps.get(1), Some(Step::Run(values)));
    assert_eq!(scenario.arrivals[0].times, Times::At(&[Nanos(1_000), Nanos(1_000), Nanos(2_000)]));
    for (content, told) in [
        ("5\nfast\n", "\"times.txt\", line 2: expected a number of microseconds, found \"fast\""),
        ("-5", "\"times.txt\", line 1: expected a number of microseconds, found \"-5\""),
        ("1e3", "\"times.txt\", line 1: expected a number of microseconds, found \"1e3\""),
        ("2147483648", "\"times.txt\", line 1: expected a number of"),
        ("# nothing", "there is no time in it"),
    ] {
        let file = beside("wrong", content);
        let error = parsed(file.to_str().unwrap(), text).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
    let error = parsed(beside("folder", "").to_str().unwrap(), &text.replace("times.txt", "."));
    assert!(error.unwrap_err().ends_with("\".\": this is no file"));
}

#[test]
fn arrivals_are_the_chains_of_their_names() {
    let text = r#"{
        "arrivals": {
            "in": {"rates": [{"at": 0, "rate": 2.5}, {"at": 1000, "rate": 0}], "sem_post": "work", "bound": 3, "deadline_us": 7},
            "cron": {"every": 100, "jitter": 100, "fork": "job"},
            "out": {"every": {"exponential": 5}, "sem_post": "other"}
        },
        "tasks": {
            "worker": {"instance": 2, "sem_wait": "work", "sem_wait2": "other", "sem_post": "rows", "run": 5},
            "base": {"sem_wait": "rows", "run": 5},
            "job": {"instance": 0, "loop": 1, "run": 5}
        },
        "chains": {"out": ["worker", ["base", "base"]]},
        "global": {"duration": 1}
    }"#;
    let scenario = parsed("-", text).unwrap().scenario;
    let spec =
        |name: &str, times, to, bound| ArrivalsSpec { name: name.to_owned(), times, to, bound };
    let rates = Times::Rates(vec![(Nanos::ZERO, 2.5), (us(1_000), 0.0)]);
    let every = |gap, jitter| Times::Every { gap, jitter };
    let expected = [
        spec("in", rates, Receiver::Semaphore(ObjectId(0)), Some(3)),
        spec("cron", every(Draw::Fixed(us(100)), us(100)), Receiver::Task(SpecId(2)), None),
        spec("out", every(Draw::Exponential(us(5)), us(0)), Receiver::Semaphore(ObjectId(1)), None),
    ];
    assert_eq!(scenario.arrivals, expected);
    let chain = |name: &str, places, deadline| ChainSpec {
        name: String::from(name),
        places,
        join: Join::All,
        deadline,
    };
    let [worker, base, job] = [0, 1, 2].map(SpecId);
    let chains = [
        chain("out", vec![vec![worker], vec![base, base]], None),
        chain("in", vec![vec![worker]], Some(us(7))),
        chain("cron", vec![vec![job]], None),
    ];
    assert_eq!(scenario.chains, chains);
}

#[test]
fn arrivals_are_for_the_simulator() {
    let text = "{'arrivals': {'in': {'rate': 5, 'sem_post': 's'}}, 'tasks': {'a': {'sem_wait': 's'}}, 'global': {'duration': 1}}";
    let over = Overrides { real_cores: true, ..Overrides::default() };
    let error = parse("-", text, &over).unwrap_err().to_string();
    assert!(error.starts_with("-:1:15: `arrivals` are for `sim` alone"), "{error}");
}

#[test]
fn a_task_may_pass_tokens_in_each_way_of_waking() {
    let way = |one: &str, next: &str| {
        let text = format!(
            "{{'tasks': {{'a': {{{one}, 'run': 1}}, 'b': {{{next}, 'run': 1}}}}, 'chains': {{'c': ['a', 'b']}}, 'global': {{'duration': 1}}}}"
        );
        parsed("-", &text).map(|_| ())
    };
    for (one, next) in [
        ("'sem_post': 's'", "'sem_wait': 's'"),
        ("'send': {'ref': 'p', 'bytes': 1}", "'recv': {'ref': 'p', 'bytes': 1}"),
        ("'resume': 'b'", "'suspend'"),
        ("'fork': 'b'", "'loop': 1"),
        ("'barrier': 'x'", "'barrier': 'x'"),
        ("'signal': 'c'", "'wait': {'ref': 'c', 'mutex': 'm'}"),
        ("'broad': 'c'", "'sync': {'ref': 'c', 'mutex': 'm'}"),
    ] {
        assert_eq!(way(one, next), Ok(()), "{one}");
        assert!(way(next, one).is_err() || one == next || next.contains("sync"), "{next}");
    }
    assert!(way("'lock': 'm', 'unlock': 'm'", "'lock': 'm', 'unlock': 'm'").is_err());
}
