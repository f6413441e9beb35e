//! Tests of the files for shells and packages: completions and the manual.

use crate::rig::{call, folder};
use std::process::Command;

#[test]
fn bash_completes() {
    let script = call(&["completions", "bash"]).done();
    let path = folder().join("runyard.bash");
    std::fs::write(&path, script).unwrap();
    let complete = |words: &str, last: usize| {
        let ask = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={last}; \
             _runyard runyard \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last}-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            path.display()
        );
        let output = Command::new("bash").args(["-c", &ask]).output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let Some(found) = complete("runyard calib", 1) else { return };
    assert_eq!(found, "calibrate");
    assert_eq!(complete("runyard sim --topo", 2).unwrap(), "--topology");
    assert_eq!(complete("runyard sim --kernel 6.12", 3).unwrap(), "6.12");
    assert_eq!(complete("runyard replay --recorded-on 6.6", 3).unwrap(), "6.6");
    assert_eq!(
        complete("runyard sim --feature NO_RT_PUS", 3).unwrap(),
        "NO_RT_PUSH NO_RT_PUSH_PAST_STUCK"
    );
    assert_eq!(complete("runyard sim --seed ", 3).unwrap(), "", "a number is no file");
    for shell in ["zsh", "fish", "powershell", "elvish"] {
        assert!(call(&["completions", shell]).done().contains("calibrate"), "{shell}");
    }
    call(&["completions", "csh"]).misused();
}

#[test]
fn the_manual_has_a_page_for_each_subcommand() {
    let page = call(&["man"]).done();
    assert!(page.contains(".TH runyard 1") && page.contains("runyard\\-sim(1)"), "{page}");
    call(&["man", "--out", "man"]).done();
    for name in ["runyard", "runyard-sim", "runyard-import", "runyard-completions"] {
        let page = std::fs::read_to_string(folder().join("man").join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    let page = std::fs::read_to_string(folder().join("man/runyard-sim.1")).unwrap();
    assert!(page.contains("\\-\\-check"), "{page}");
}

#[test]
fn linux_offers_nothing_that_it_refuses() {
    let help = call(&["linux", "--help"]).done();
    assert!(!help.contains("--feature") && !help.contains("--kernel") && !help.contains("--trace"));
    assert!(help.contains("--json") && call(&["sim", "--help"]).done().contains("--feature"));
}
