//! Rules about Rust files and manifests.

use std::collections::BTreeMap;

use super::rust::{self, Line};
use super::tree::{File, Tree, crate_of};
use super::{Violation, has_word};

/// The only folder that may be unsafe.
const UNSAFE_FOLDER: &str = "crates/runtime/src/os/";

/// The only package that cannot inherit the workspace's lints, since they forbid `unsafe`.
const UNSAFE_MANIFEST: &str = "crates/runtime/Cargo.toml";

/// The largest number of lines of code in a file. A reader cannot read more in one sitting.
const FILE_LINES: usize = 600;

/// The largest number of lines of the comment that opens a file. A longer text belongs in `docs/design/`.
const HEADER_LINES: usize = 40;

/// The crates whose primitives the model checkers replace. One file names the primitives, so that none is missed.
const MODELLED: &[&str] = &["smp", "runtime"];

/// The file of a modelled crate that names the primitives: the runtime's is in its lowest room.
const SYNC_FILES: &[&str] = &["src/sync.rs", "src/os/sync.rs"];

/// The futex for systems whose kernel has none. No model looks below a futex.
const PORTABLE_FUTEX: &str = "src/os/portable/futex.rs";

/// Shortcuts that save work now and cost it later, each with its reason.
const SHORTCUTS: &[(&str, &str)] = &[
    ("#[allow", "`#[expect(.., reason = \"..\")]` says why and goes stale loudly"),
    ("#![allow", "`#![expect(.., reason = \"..\")]` says why and goes stale loudly"),
    ("todo!", "what lands works"),
    ("unimplemented!", "what lands works"),
    ("dbg!", "a trace for one afternoon is not for everybody"),
    ("#[ignore", "a test that does not run holds nothing"),
];

/// `unsafe` is in one folder, where every block has its argument and Miri runs.
#[must_use]
pub fn unsafe_lives_in_one_folder(tree: &Tree) -> Vec<Violation> {
    let files = tree.with_extension("rs").filter(|file| !file.path.starts_with(UNSAFE_FOLDER));
    let reason = format!("`unsafe` lives under {UNSAFE_FOLDER} only");
    each_line(files, |_, line| has_word(&line.code, "unsafe").then(|| reason.clone()))
}

/// Every package inherits the workspace's lints, which forbid `unsafe`. The runtime denies it, so that its one folder
/// can expect it.
#[must_use]
pub fn every_package_is_under_the_lints(tree: &Tree) -> Vec<Violation> {
    let packages = tree.files().iter().filter(|file| is_package(file));
    packages
        .filter_map(|file| {
            let (section, entry) = match file.path.as_str() {
                "Cargo.toml" => ("workspace.lints.rust", "unsafe_code = \"forbid\""),
                UNSAFE_MANIFEST => ("lints.rust", "unsafe_code = \"deny\""),
                _ => ("lints", "workspace = true"),
            };
            let reason = format!("[{section}] lacks `{entry}`: unsafe code would pass unseen");
            (!has_entry(&file.text, section, entry)).then(|| Violation::new(file, 1, reason))
        })
        .collect()
}

/// The fuzz package is a workspace of its own: its entry point is a C function.
fn is_package(file: &File) -> bool {
    let named = file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml");
    named && !file.path.starts_with("fuzz/")
}

fn has_entry(manifest: &str, section: &str, entry: &str) -> bool {
    let heading = format!("[{section}]");
    let within = manifest.lines().map(str::trim).skip_while(|line| *line != heading).skip(1);
    within.take_while(|line| !line.starts_with('[')).any(|line| line == entry)
}

/// No lint is silenced without a reason, no code is left unwritten, no test is switched off.
#[must_use]
pub fn no_shortcuts(tree: &Tree) -> Vec<Violation> {
    each_line(tree.with_extension("rs"), |_, line| {
        let has = |pattern: &str| has_word(&line.code, pattern);
        let (pattern, why) = SHORTCUTS.iter().find(|(pattern, _)| has(pattern))?;
        Some(format!("`{pattern}`: {why}"))
    })
}

/// A file can be read in one sitting. Blank lines, comments and the tests at its end do not count.
#[must_use]
pub fn files_have_at_most_600_lines_of_code(tree: &Tree) -> Vec<Violation> {
    let too_long = |file: &File| {
        let lines = rust::lines(&file.text);
        let code: Vec<_> =
            rust::without_tests(&lines).iter().filter(|line| line.has_code()).collect();
        let over = code.get(FILE_LINES)?;
        let reason = format!(
            "{} lines of code; a file of more than {FILE_LINES} is not read in one sitting",
            code.len()
        );
        Some(Violation::new(file, over.number, reason))
    };
    tree.with_extension("rs").filter_map(too_long).collect()
}

/// A file of a crate opens with its purpose, which fits on a screen.
#[must_use]
pub fn files_open_with_a_short_header(tree: &Tree) -> Vec<Violation> {
    let no_header = |file: &File| {
        let lines = file.text.lines().take_while(|line| line.starts_with("//!")).count();
        let reason = match lines {
            0 => "a file opens with a `//!` comment: what it is, and why".to_owned(),
            1..=HEADER_LINES => return None,
            _ => {
                format!("{lines} lines of header; more than {HEADER_LINES} belong in docs/design/")
            }
        };
        Some(Violation::new(file, lines.max(1), reason))
    };
    tree.with_extension("rs").filter(|file| is_source(file)).filter_map(no_header).collect()
}

fn is_source(file: &File) -> bool {
    let of_crate = crate_of(file).is_some_and(|(_, path)| path.starts_with("src/"));
    of_crate || file.path.starts_with("xtask/src/")
}

/// One file of a crate names locks, atomics, loom and shuttle. In a modelled crate that is `src/sync.rs`, and `Arc` is
/// one of them. The engine has none of them but `Arc`.
#[must_use]
pub fn one_file_names_the_sync_primitives(tree: &Tree) -> Vec<Violation> {
    let mut naming: BTreeMap<&str, Vec<Violation>> = BTreeMap::new();
    for file in tree.with_extension("rs") {
        let Some((name, path)) = crate_of(file) else { continue };
        let may =
            MODELLED.contains(&name) && (SYNC_FILES.contains(&path) || path == PORTABLE_FUTEX);
        if may || !path.starts_with("src/") {
            continue;
        }
        let first = first_primitive(file, MODELLED.contains(&name));
        naming.entry(name).or_default().extend(first);
    }
    let excess = |(name, files): (&str, Vec<Violation>)| {
        let allowed = usize::from(name != "engine" && !MODELLED.contains(&name));
        files.into_iter().skip(allowed)
    };
    naming.into_iter().flat_map(excess).collect()
}

/// The first line of code outside the tests that names a primitive.
fn first_primitive(file: &File, strict: bool) -> Option<Violation> {
    let lines = rust::lines(&file.text);
    let mut in_std = false;
    let mut code = rust::without_tests(&lines).iter();
    let line = code.find(|Line { code, .. }| {
        in_std |= code.contains("std::{") || code.contains("core::{");
        let paths: &[&str] = if in_std { &["sync"] } else { &["std::sync", "core::sync"] };
        in_std &= !code.contains(';');
        names_std(code, paths, strict) || names_checker(code)
    })?;
    let reason = "one file of a crate names locks, atomics, loom and shuttle (smp and runtime: \
                  sync.rs; engine: none but Arc), so that the model checkers miss none";
    Some(Violation::new(file, line.number, reason))
}

/// Whether `code` names one of `paths`. `Arc` counts only where it is modelled.
fn names_std(code: &str, paths: &[&str], strict: bool) -> bool {
    let shares = |rest: &str| !strict && rest.starts_with("::Arc");
    let named = |path: &&str| {
        has_word(code, path)
            && code.match_indices(path).any(|(at, _)| !shares(&code[at + path.len()..]))
    };
    paths.iter().any(named)
}

fn names_checker(code: &str) -> bool {
    ["loom::", "shuttle::"].iter().any(|path| {
        let name = path.trim_end_matches(':');
        has_word(code, name) && code.contains(path)
    })
}

fn each_line<'a>(
    files: impl Iterator<Item = &'a File>,
    reason: impl Fn(&File, &Line) -> Option<String>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files {
        for line in rust::lines(&file.text) {
            found.extend(reason(file, &line).map(|why| Violation::new(file, line.number, why)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn unsafe_is_found_as_code_only() {
        let text = "// unsafe\n#![forbid(unsafe_code)]\nunsafe { f(\"unsafe\") }\n";
        let rule = unsafe_lives_in_one_folder;
        assert_eq!(
            places(rule, &[("crates/runtime/src/slot.rs", text)]),
            ["crates/runtime/src/slot.rs:3"]
        );
        assert!(places(rule, &[("crates/runtime/src/os/linux/futex.rs", text)]).is_empty());
    }

    #[test]
    fn a_package_outside_the_lints_is_found() {
        let rule = every_package_is_under_the_lints;
        let under = "[package]\n[lints]\nworkspace = true\n";
        let outside = "[lints]\n[dependencies]\nworkspace = true\n";
        let files = [("crates/a/Cargo.toml", under), ("crates/b/Cargo.toml", outside)];
        assert_eq!(places(rule, &files), ["crates/b/Cargo.toml:1"]);
        assert_eq!(places(rule, &[(UNSAFE_MANIFEST, under)]), ["crates/runtime/Cargo.toml:1"]);
        let denied = "[lints.rust]\nunsafe_code = \"deny\"\n";
        assert!(places(rule, &[(UNSAFE_MANIFEST, denied), ("fuzz/Cargo.toml", "")]).is_empty());
        assert_eq!(places(rule, &[("Cargo.toml", "[workspace]\n")]), ["Cargo.toml:1"]);
    }

    #[test]
    fn a_shortcut_is_found() {
        for (pattern, _) in SHORTCUTS {
            let text = format!("// {pattern}\nlet a = \"{pattern}\";\n{pattern}(b)]\n");
            assert_eq!(places(no_shortcuts, &[("a.rs", &text)]), ["a.rs:3"], "{pattern}");
        }
        let clean = "#[allowed]\nnot_todo!();\n#[expect(dead_code, reason = \"\")]\n";
        assert!(places(no_shortcuts, &[("a.rs", clean)]).is_empty());
    }

    #[test]
    fn only_code_makes_a_file_long() {
        let rule = files_have_at_most_600_lines_of_code;
        let full = "// why\n\nlet a = 1;\n".repeat(FILE_LINES);
        let tested = format!("{full}#[cfg(test)]\nmod tests {{\n    use super::*;\n}}\n");
        assert!(places(rule, &[("a.rs", &tested)]).is_empty());
        let over = format!("{full}let b = 2;\n");
        assert_eq!(places(rule, &[("a.rs", &over)]), ["a.rs:1801"]);
    }

    #[test]
    fn a_missing_or_endless_header_is_found() {
        let rule = files_open_with_a_short_header;
        let endless = "//! a\n".repeat(HEADER_LINES + 1);
        let files = [
            ("crates/engine/src/none.rs", "use std::fmt;\n"),
            ("crates/engine/src/short.rs", "//! Short.\n"),
            ("crates/engine/tests/any.rs", "use std::fmt;\n"),
            ("xtask/src/endless.rs", &endless),
        ];
        let expected = ["crates/engine/src/none.rs:1", "xtask/src/endless.rs:41"];
        assert_eq!(places(rule, &files), expected);
    }

    #[test]
    fn a_modelled_crate_names_primitives_in_its_sync_file_only() {
        let rule = one_file_names_the_sync_primitives;
        for text in ["use std::sync::Arc;", "use loom::thread;", "use std::{\n    sync::Mutex,\n};"]
        {
            let files = [("crates/smp/src/sync.rs", text), ("crates/smp/src/pool.rs", text)];
            assert_eq!(places(rule, &files).len(), 1, "{text}");
        }
        let own = "use crate::{\n    sync::Mutex,\n};\n#[cfg(loom)]\nfn a() {\n    sync::fence();\n}\n#[cfg(test)]\nmod tests {\n    \
                   use std::sync::Mutex;\n}\n";
        assert!(places(rule, &[("crates/smp/src/pool.rs", own)]).is_empty());
    }

    #[test]
    fn the_engine_shares_and_never_locks() {
        let rule = one_file_names_the_sync_primitives;
        let shares = ("crates/engine/src/cpu.rs", "use std::sync::Arc;\n");
        assert!(places(rule, &[shares]).is_empty());
        let locks = ("crates/engine/src/heap.rs", "\nuse std::sync::{Arc, Mutex};\n");
        assert_eq!(places(rule, &[shares, locks]), ["crates/engine/src/heap.rs:2"]);
    }

    #[test]
    fn another_crate_names_primitives_in_one_file() {
        let text = "use std::sync::atomic::AtomicBool;\n";
        let files = [("crates/cli/src/a.rs", text), ("crates/cli/src/b.rs", text)];
        assert_eq!(places(one_file_names_the_sync_primitives, &files), ["crates/cli/src/b.rs:1"]);
    }
}
