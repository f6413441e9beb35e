//! The files of cgroup v2 as keys of task groups, and the cpusets that follow from them.

use proptest::prelude::*;
use runyard_engine::attr::{GroupId, Weight};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::spec::GroupSpec;
use runyard_workload::cpusets::Cpusets;
use runyard_workload::setting::Setting;
use runyard_workload::{Overrides, Parsed, Scenario, parse};

/// Returns the scenario with these groups on a machine with these keys.
fn parsed(machine: &str, groups: &str, settings: &[&str]) -> Result<Parsed, String> {
    let text = format!(
        "{{'machine': {{{machine}}}, 'groups': {{{groups}}}, 'tasks': {{'a': {{'loop': 1, 'run': 1}}}}}}"
    );
    let settings = settings.iter().map(|text| text.parse::<Setting>().expect(text)).collect();
    let over = Overrides { settings, ..Overrides::default() };
    parse("-", &text, &over).map_err(|error| error.to_string())
}

fn scenario(machine: &str, groups: &str) -> Scenario {
    parsed(machine, groups, &[]).unwrap().scenario
}

/// Returns the attributes of the group `/a` with these keys.
fn spec(keys: &str, settings: &[&str]) -> GroupSpec {
    let parsed = parsed("", &format!("'/a': {{{keys}}}"), settings).unwrap();
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
    parsed.scenario.groups[1].spec
}

#[test]
fn each_file_is_another_spelling() {
    for (file, own) in [
        ("'cpu.max': '50000 200000'", "'runtime': 50000, 'period': 200000"),
        ("'cpu.max': '50000'", "'runtime': 50000"),
        ("'cpu.max': 50000", "'runtime': 50000"),
        ("'cpu.max': ' 50000\t100000\n'", "'runtime': 50000"),
        ("'cpu.max': 'max'", ""),
        ("'cpu.max': 'max 20000'", "'runtime': -1, 'period': 20000"),
        ("'cpu.max': '50000', 'cpu.max.burst': 7", "'runtime': 50000, 'burst': 7"),
        ("'cpu.max': '50000', 'burst': 7", "'runtime': 50000, 'burst': 7"),
        ("'cpu.weight': 100", "'weight': 1024"),
        ("'cpu.weight': 37", "'weight': 379"),
        ("'cpu.weight': 1", "'weight': 10"),
        ("'cpu.weight': 10000", "'weight': 102400"),
        ("'cpu.weight.nice': -20", "'weight': 88761"),
        ("'cpu.weight.nice': 5", "'weight': 335"),
        ("'cpu.idle': 1", "'idle': true"),
        ("'cpu.idle': 0, 'cpu.weight': 50", "'weight': 512"),
        ("'cpu.latency.nice': -3", "'latency_nice': -3"),
    ] {
        assert_eq!(spec(file, &[]), spec(own, &[]), "{file}");
    }
    assert_eq!(spec("'cpu.idle': 1", &[]).weight, Weight::IDLE);
}

#[test]
fn a_setting_replaces_the_other_spelling() {
    for (keys, setting, same) in [
        (
            "'runtime': 1000, 'period': 5000",
            "\"cpu.max\"=20000 50000",
            "'runtime': 20000, 'period': 50000",
        ),
        ("'period': 5000, 'idle': false", "\"cpu.max\"=20000", "'runtime': 20000"),
        ("'runtime': 1000,", "\"cpu.max\"=max", ""),
        ("'cpu.max': '20000 50000',", "runtime=30000", "'runtime': 30000, 'period': 50000"),
        ("'cpu.max': '20000 50000'", "period=90000", "'runtime': 20000, 'period': 90000"),
        ("'cpu.max': 20000", "period=90000", "'runtime': 20000, 'period': 90000"),
        (
            "'cpu.max': 'max', 'weight': 5",
            "period=90000",
            "'runtime': -1, 'period': 90000, 'weight': 5",
        ),
        ("'cpu.weight.nice': 3", "weight=5", "'weight': 5"),
        ("'idle': false, 'weight': 3 /* , */,", "\"cpu.weight\"=50", "'weight': 512"),
        ("'weight': 3, 'idle': false", "\"cpu.weight.nice\"=0", ""),
        ("'cpu.idle': 1", "idle=false", ""),
        ("'cpu.max': '9000', 'burst': 5", "\"cpu.max.burst\"=9", "'runtime': 9000, 'burst': 9"),
        ("'latency_nice': 5", "\"cpu.latency.nice\"=6", "'latency_nice': 6"),
    ] {
        let setting = format!("groups./a.{setting}");
        assert_eq!(spec(keys, &[&setting]), spec(same, &[]), "{keys} {setting}");
    }
    let both = ["groups./a.\"cpu.max\"=30000", "groups./a.runtime=40000", "groups./a.period=50000"];
    assert_eq!(spec("", &both), spec("'runtime': 40000, 'period': 50000", &[]));
}

#[test]
fn a_wrong_setting_is_told_with_the_right_notation() {
    let told = |setting: &str| parsed("", "'/a': {'weight': 5}", &[setting]).unwrap_err();
    assert_eq!(
        told("groups./a.\"cpu.max\"=50%"),
        "--set groups./a.\"cpu.max\"=\"50%\": expected a quota and a period, \"50000 100000\" or \"max\", found the string \"50%\""
    );
    let uclamp = told("groups./a.\"cpu.uclamp.max\"=50");
    assert!(
        uclamp
            .ends_with("\"cpu.uclamp.max\" does not exist here yet: all CPUs have the same speed"),
        "{uclamp}"
    );
}

#[test]
fn a_change_of_the_timeline_takes_the_files_too() {
    let text = |change: &str| {
        format!(
            "{{'groups': {{'/a': {{'cpu.max': '5000'}}}}, 'tasks': {{'a': {{'loop': 1, 'run': 1}}}}, \
             'timeline': [{{'at': 1, 'group': '/a', {change}}}]}}"
        )
    };
    let change = |change: &str| {
        parse("-", &text(change), &Overrides::default()).unwrap().scenario.timeline.remove(0)
    };
    for (file, own) in [
        ("'cpu.max': '7000 50000'", "'runtime': 7000, 'period': 50000"),
        ("'cpu.max': 'max'", "'runtime': -1"),
        ("'cpu.max.burst': 9", "'burst': 9"),
        ("'cpu.weight': 50", "'weight': 512"),
        ("'cpu.weight.nice': 5", "'weight': 335"),
    ] {
        assert_eq!(change(file), change(own), "{file}");
    }
}

/// Returns the CPUs of tasks that ask for none, by group.
fn unasked(scenario: &Scenario) -> Vec<String> {
    let cpusets = scenario.cpusets(CpuSet::first(scenario.machine.topology.cpus()));
    let groups = (0..).map(GroupId).take(scenario.groups.len());
    groups.map(|group| cpusets.affinity(None, group).to_string()).collect()
}

#[test]
fn a_cpuset_is_cut_by_those_above_it() {
    let groups = "'/a': {'cpuset.cpus': '1-5'}, '/a/b': {'cpuset.cpus': '4-7'}, '/a/c': {'cpuset.cpus': '6'}, \
                  '/a/d': {'cpuset.cpus': ''}, '/a/d/e': {'cpuset.cpus': 3}, '/f': {}";
    let expected = ["0-7", "1-5", "4-5", "1-5", "1-5", "3", "0-7"];
    assert_eq!(unasked(&scenario("", groups)), expected);
}

#[test]
fn a_partition_has_its_cpus_for_itself() {
    let groups = "'/a': {'cpuset.cpus': '2-5', 'cpuset.cpus.partition': 'root'}, \
                  '/a/b': {'cpuset.cpus': '5', 'cpuset.cpus.partition': 'isolated'}, \
                  '/a/c': {'cpuset.cpus': '4-5'}, '/d': {'cpuset.cpus': '1-2'}, '/e': {}";
    let scenario = scenario("", groups);
    assert_eq!(unasked(&scenario), ["0-1,6-7", "2-4", "5", "4", "1", "0-1,6-7"]);
    let domains = scenario.config().domains;
    let of = |cpu| domains.of(CpuId(cpu)).unwrap().to_string();
    assert_eq!([of(0), of(3), of(5)], ["0-1,6-7", "2-4", "5"]);
    assert!(domains.is_isolated(CpuId(5)) && !domains.is_isolated(CpuId(4)));
}

#[test]
fn an_isolated_cpu_is_only_for_those_who_ask() {
    for isolated in ["'2-3'", "[2, 3]"] {
        let machine = format!("'cpus': 4, 'isolated': {isolated}");
        let scenario = scenario(&machine, "'/a': {'cpuset.cpus': '1-2'}, '/b': {}");
        assert_eq!(unasked(&scenario), ["0-1", "1-2", "0-1"]);
        let cpusets = scenario.cpusets(CpuSet::first(4));
        let last = CpuSet::only(CpuId(3));
        assert_eq!(cpusets.affinity(Some(&last), GroupId::ROOT).to_string(), "3");
        assert_eq!(cpusets.affinity(Some(&last), GroupId(1)).to_string(), "1-2");
        assert_eq!(scenario.config().domains.of(CpuId(2)).unwrap().to_string(), "2-3");
    }
    let live = Overrides { real_cores: true, cpus: Some(4), ..Overrides::default() };
    let text = "{'machine': {'isolated': '0-7'}, 'tasks': {'a': {'loop': 1, 'run': 1}}}";
    let scenario = parse("-", text, &live).unwrap().scenario;
    assert!(scenario.config().domains.is_one(), "the machine is another one there");
}

#[test]
fn cpus_outside_of_the_cpuset_are_told() {
    let warnings = |cpus: &str| {
        let text = format!(
            "{{'groups': {{'/a': {{'cpuset.cpus': '2-3'}}}}, 'tasks': {{'t': {{'group': '/a', 'cpus': {cpus}, 'loop': 1, 'run': 1}}}}}}"
        );
        let warnings = parse("-", &text, &Overrides::default()).unwrap().warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(warnings("[1, 2]").is_empty());
    assert_eq!(
        warnings("[0, 1]"),
        ["-:1:54: the CPUs of \"t\", 0-1, are outside of the cpuset of \"/a\": it has 2-3 instead"]
    );
}

/// Returns groups as `/0`, `/0/1`, ..., each below one that comes before it, with CPUs of eight.
fn groups() -> impl Strategy<Value = Vec<(usize, u8, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..5_u8), 1..8).prop_map(
        |all| {
            let place = |(nth, (at, cpus, kind)): (usize, (prop::sample::Index, u8, u8))| {
                (at.index(nth + 1), cpus, kind)
            };
            all.into_iter().enumerate().map(place).collect()
        },
    )
}

fn cpus(bits: u8) -> CpuSet {
    (0..8).filter(|bit| bits >> bit & 1 == 1).map(CpuId).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever groups ask for: no task is outside of its group or of those above it, none shares a CPU with a
    /// partition that it does not belong to, and each has a CPU.
    #[test]
    fn no_task_is_outside_of_its_cpuset(groups in groups(), asked in any::<u8>(), isolated in 0..255_u8) {
        let mut paths = vec![String::new()];
        let mut text = String::new();
        for (nth, &(parent, bits, kind)) in groups.iter().enumerate() {
            paths.push(format!("{}/{nth}", paths[parent]));
            let kind = ["member", "member", "member", "root", "isolated"][usize::from(kind)];
            let path = &paths[nth + 1];
            text += &format!("'{path}': {{'cpuset.cpus': '{}', 'cpuset.cpus.partition': '{kind}'}},", cpus(bits));
        }
        let machine = format!("'isolated': '{}'", cpus(isolated));
        let Ok(Parsed { scenario, .. }) = parsed(&machine, &text, &[]) else { return Ok(()) };
        let all = CpuSet::first(8);
        let cpusets: Cpusets = scenario.cpusets(all.clone());
        let domains = scenario.config().domains;
        for nth in 0..=groups.len() {
            let group = GroupId(nth as u32);
            let asked = Some(cpus(asked)).filter(|asked| !asked.is_empty());
            let own = cpusets.affinity(asked.as_ref(), group);
            prop_assert!(!own.is_empty() && own.without(cpusets.effective(group)).is_empty());
            let parent = scenario.groups[nth].spec.parent;
            prop_assert!(cpusets.span(group).without(cpusets.span(parent)).is_empty());
            let Some(&(_, bits, kind)) = nth.checked_sub(1).map(|nth| &groups[nth]) else { continue };
            let within = cpus(bits).intersection(cpusets.effective(parent));
            if kind < 3 && !within.is_empty() {
                prop_assert!(own.without(&cpus(bits)).is_empty());
            }
            for other in (0..=groups.len()).map(|nth| GroupId(nth as u32)).filter(|_| kind >= 3) {
                let path = |group: GroupId| &scenario.groups[group.index()].path;
                let below = path(other).starts_with(&format!("{}/", path(group)));
                let shares = !cpusets.effective(other).intersection(cpusets.span(group)).is_empty();
                prop_assert!(other == group || below || !shares, "{} {}", path(group), path(other));
                for cpu in cpusets.effective(group).iter().filter(|_| kind == 3) {
                    prop_assert_eq!(domains.of(cpu), Some(cpusets.effective(group)));
                }
            }
        }
    }
}
