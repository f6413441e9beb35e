//! Tests of the examples in the help: each is a command that runs at the root of the repository.

use crate::rig::{alone, call, folder};
use std::path::Path;
use std::process::Command;

/// The folders of the repository that examples name.
const NAMED: [&str; 3] = ["python", "scenarios", "sweeps"];

/// Examples that take minutes. The test replaces them by their help, which still checks their options.
const LONG: [&str; 3] = ["runyard reproduce", "runyard calibrate", "runyard calibrate --json"];

/// Returns the subcommands, by the help of the command.
fn subcommands() -> Vec<String> {
    let help = call(&["--help"]).done();
    let (_, list) = help.split_once("Commands:\n").expect(&help);
    let names = list.lines().take_while(|line| !line.is_empty());
    let names = names.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

/// Returns the examples in a help. A line that ends with `\` goes on in the next one.
fn examples(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nExamples:\n") else { return Vec::new() };
    let list = list.replace("\\\n", " ");
    list.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn each_subcommand_has_examples_that_run() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().unwrap();
    let place = folder().join("examples");
    if place.exists() {
        std::fs::remove_dir_all(&place).unwrap();
    }
    std::fs::create_dir_all(&place).unwrap();
    for name in NAMED {
        std::os::unix::fs::symlink(root.join(name), place.join(name)).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_runyard")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for name in subcommands() {
        let examples = examples(&call(&[&name, "--help"]).done());
        assert!(!examples.is_empty(), "{name} has no example");
        for example in examples {
            assert!(example.contains(&format!("runyard {name}")), "{example}");
            let help = if LONG.contains(&&*example) { " --help" } else { "" };
            let mut shell = Command::new("bash");
            shell.args(["-c", &format!("{example}{help}")]).current_dir(&place).env("PATH", &path);
            let said = alone(&mut shell);
            assert_eq!(said.code, Some(0), "{example}\n{}", said.err);
        }
    }
}

#[test]
fn the_manual_has_the_examples_too() {
    call(&["man", "--out", "manual"]).done();
    let page = std::fs::read_to_string(folder().join("manual/runyard-explain.1")).unwrap();
    assert!(page.contains("runyard explain scenarios/web\\-tier.json \\-\\-task worker"), "{page}");
}
