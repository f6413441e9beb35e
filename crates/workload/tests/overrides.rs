//! The command line takes precedence over the file, and is applied before the scenario is checked.

use runyard_engine::features::Feature;
use runyard_workload::{Diagnostic, Overrides, Scenario, parse};

fn with(machine: &str, pinned_to: usize, over: &Overrides) -> Result<Scenario, Diagnostic> {
    let text = format!(
        "{{'machine': {{{machine}}}, 'features': ['NO_RT_PUSH'],\n\
         'tasks': {{'a': {{'cpus': [{pinned_to}], 'loop': 1, 'run': 1}}}}}}"
    );
    parse("x.json", &text, over).map(|parsed| parsed.scenario)
}

fn topology(machine: &str, over: &Overrides) -> String {
    with(machine, 0, over).map_or_else(|e| e.to_string(), |s| s.machine.topology.to_string())
}

fn cpus(n: usize) -> Overrides {
    Overrides { cpus: Some(n), ..Overrides::default() }
}

fn shape(text: &str) -> Overrides {
    Overrides { topology: Some(text.parse().unwrap()), ..Overrides::default() }
}

#[test]
fn a_number_of_cpus_flattens_the_topology_unless_it_fits() {
    assert_eq!(topology("'topology': '2x4'", &cpus(8)), "2x4");
    assert_eq!(topology("'topology': '2x4'", &cpus(6)), "1x6");
    assert_eq!(topology("'cpus': 3", &cpus(65_536)), "1x65536");
}

#[test]
fn a_topology_brings_its_number_of_cpus() {
    assert_eq!(topology("'cpus': 3", &shape("2x4")), "2x4");
    assert_eq!(topology("'cpus': 4, 'topology': '2x2'", &shape("1x2x2")), "1x2x2");
    let both = Overrides { cpus: Some(8), ..shape("2x4") };
    assert_eq!(topology("", &both), "2x4");
}

#[test]
fn contradictions_are_refused() {
    let both = Overrides { cpus: Some(9), ..shape("2x4") };
    let expected = "x.json:1:1: the topology asked for, 2x4, has 8 CPUs, not 9";
    assert_eq!(topology("", &both), expected);
    assert!(topology("", &cpus(0)).starts_with("x.json:1:1: a topology is "));
    assert!(topology("", &cpus(65_537)).starts_with("x.json:1:1: a topology is "));
    assert!(topology("", &cpus(usize::MAX)).starts_with("x.json:1:1: a topology is "));
    let unsound = "'cpus': 4, 'topology': '4x4'";
    assert!(topology(unsound, &cpus(4)).starts_with("x.json:1:37: the topology has 16 CPUs"));
}

#[test]
fn tasks_are_checked_against_the_machine_asked_for() {
    assert!(with("", 12, &cpus(13)).is_ok());
    let error = with("'cpus': 16", 12, &cpus(12)).unwrap_err().to_string();
    let expected = "x.json:2:26: expected a CPU of the machine, an integer of 0 to 11, found 12";
    assert_eq!(error, expected);
}

#[test]
fn switches_of_the_command_line_come_last() {
    let over = Overrides {
        features: ["RT_PUSH", "NO_RT_PULL"].map(|name| name.parse().unwrap()).to_vec(),
        ..Overrides::default()
    };
    let features = with("", 0, &over).unwrap().features;
    assert!(features.has(Feature::RtPush) && !features.has(Feature::RtPull));
}

#[test]
fn a_slice_is_warned_about_once_on_a_kernel_that_takes_none() {
    let text = |kernel| {
        format!(
            "{{\"machine\": {{\"kernel\": \"{kernel}\"}}, \"tasks\": {{\"a\": {{\"slice\": 200, \"loop\": 1, \
             \"run\": 1}}, \"b\": {{\"slice\": 300, \"loop\": 1, \"run\": 1}}}}}}"
        )
    };
    let warnings = |text: &str, over: &Overrides| {
        let parsed = parse("-", text, over).unwrap();
        parsed.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let over = Overrides::default();
    let told = "-:1:57: the fair class of 6.6 takes no slices";
    assert_eq!(warnings(&text("6.6"), &over), [told]);
    assert_eq!(warnings(&text("6.12"), &over), [""; 0]);
    let named = Overrides { kernel: "6.1".parse().ok(), ..over };
    assert_eq!(warnings(&text("6.6"), &named), [told.replace("6.6", "6.1")]);
}

/// No kernel has the key; the limit works as in the founding document.
#[test]
fn a_limit_of_each_cpu_is_warned_about_on_a_kernel_as_it_is() {
    let warnings = |kernel: &str| {
        let text = format!(
            "{{\"machine\": {{\"kernel\": \"{kernel}\"}}, \"groups\": {{\"/a\": {{\"runtime\": 9000, \"per_cpu\": true}}, \
             \"/b\": {{\"runtime\": 9000, \"per_cpu\": false}}}}, \"tasks\": {{\"a\": {{\"run\": 1, \"loop\": 1}}}}}}"
        );
        let parsed = parse("-", &text, &Overrides::default()).unwrap();
        assert!(parsed.scenario.groups[1].spec.limit.is_some_and(|limit| limit.is_per_cpu()));
        parsed.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let told = "-:1:68: Linux 6.12 has no `per_cpu`: the limit is that of each CPU anyway";
    assert_eq!(warnings("6.12"), [told]);
    assert_eq!(warnings("6.18 + founding"), [""; 0]);
    assert_eq!(warnings("hard-limits"), [""; 0]);
}
