//! The README shows what the program prints: every line of it, but for the clock on the wall.

use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

fn printed(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runyard"));
    let output = command.args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.contains("wall time")).map(str::to_owned).collect()
}

/// The fenced block whose first line is `first`.
fn block(first: &str) -> Vec<String> {
    let readme = readme();
    let mut lines = readme.lines().skip_while(|line| *line != first).skip(1);
    let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
    assert!(!block.is_empty(), "the README has a block that begins with {first}");
    block.into_iter().filter(|line| !line.contains("wall time")).map(str::to_owned).collect()
}

#[test]
fn the_first_screen_is_what_reproduce_prints() {
    let shown = block("$ cargo run --release -- reproduce");
    // What comes after the simulator's part is another each time, and needs the machine's CPUs.
    let live = shown.iter().position(|line| line.starts_with("rt-migrate on live"));
    let shown = &shown[..live.unwrap_or(shown.len())];
    let printed = printed(&["reproduce", "rt-migrate", "--host", "sim"]);
    assert!(!shown.is_empty());
    assert_eq!(shown[..], printed[..shown.len()]);
}

#[test]
fn the_example_is_what_sim_prints() {
    let shown = block("$ cargo run --release -- sim scenarios/probes.json --check");
    assert_eq!(shown, printed(&["sim", "scenarios/probes.json", "--check"]));
}

#[test]
fn the_comparison_is_what_compare_prints() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let saved = |name: &str, options: &[&str]| {
        let report = printed(&[&["sim", "scenarios/probes.json", "--json"], options].concat());
        let file = folder.join(name);
        std::fs::write(&file, report.join("\n")).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let before = saved("readme-before.json", &[]);
    let after = saved("readme-after.json", &["--feature", "NO_WAKEUP_PREEMPTION"]);
    let shown = block("$ runyard sim scenarios/probes.json --json > before.json");
    let (shown, printed) = (&shown[2..], printed(&["compare", &before, &after]));
    // What comes after the machine and the latencies is long.
    assert!(shown.len() > 10 && shown.len() < printed.len());
    assert_eq!(*shown, printed[..shown.len()]);
}

#[test]
fn the_example_is_the_scenario() {
    let file = std::fs::read_to_string(root().join("scenarios/probes.json")).unwrap();
    let shown = block("```json").join("\n");
    assert!(file.ends_with(&(shown + "\n")), "scenarios/probes.json");
}
