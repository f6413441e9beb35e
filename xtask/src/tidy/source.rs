//! Rules about Rust files and manifests, and about words in every file.

use super::modules::{self, Named};
use super::tokens;
use super::tree::{File, Tree, crate_of};
use super::{Violation, each, has_word};

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

/// The files of a modelled crate that name the primitives: the runtime's is in its lowest room. The last is the futex
/// for systems whose kernel has none. No model looks below a futex.
const SYNC_FILES: &[&str] = &["src/sync.rs", "src/os/sync.rs", "src/os/portable/futex.rs"];

/// Shortcuts that save work now and cost it later, as tokens, each with its reason.
const SHORTCUTS: &[(&[&str], &str)] = &[
    (&["#", "[", "allow"], "`#[expect(.., reason = \"..\")]` says why and goes stale loudly"),
    (&["#", "!", "[", "allow"], "`#![expect(.., reason = \"..\")]` says why and goes stale loudly"),
    (&["todo", "!"], "what lands works"),
    (&["unimplemented", "!"], "what lands works"),
    (&["dbg", "!"], "a trace for one afternoon is not for everybody"),
    (&["#", "[", "ignore"], "a test that does not run holds nothing"),
];

/// Words that promise work. Like the paths below, they are in two parts, since this file must keep its own rule.
const PROMISES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Absolute paths of one machine, and folders beside a checkout.
pub const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!(".lib", "rary"),
    concat!("../sha", "red"),
];

/// The other rules read nothing in a file that the compiler would refuse.
#[must_use]
pub fn every_rust_file_is_rust(tree: &Tree) -> Vec<Violation> {
    each(tree.with_extension("rs"), |file| Some((file.lexed().err()?, "no Rust".to_owned())))
}

/// `unsafe` is in one folder, where every block has its argument and Miri runs.
#[must_use]
pub fn unsafe_lives_in_one_folder(tree: &Tree) -> Vec<Violation> {
    let files = tree.with_extension("rs").filter(|file| !file.path.starts_with(UNSAFE_FOLDER));
    let reason = format!("it lives under {UNSAFE_FOLDER} only");
    each(files, |file| patterns(file, &[(&["unsafe"], &reason)]))
}

/// No lint is silenced without a reason, no code is left unwritten, no test is switched off.
#[must_use]
pub fn no_shortcuts(tree: &Tree) -> Vec<Violation> {
    each(tree.with_extension("rs"), |file| patterns(file, SHORTCUTS))
}

/// The lines of these rows of tokens, each with its reason.
fn patterns(file: &File, patterns: &[(&[&str], &str)]) -> Vec<(usize, String)> {
    let tokens = tokens::flat(file.tokens());
    let found = |at: usize| {
        let here = || tokens[at..].iter().map(|(text, _)| text.as_str());
        let is_here = |row: &[&str]| here().take(row.len()).eq(row.iter().copied());
        let (row, why) = patterns.iter().find(|(row, _)| is_here(row))?;
        Some((tokens[at].1, format!("`{}`: {why}", row.concat())))
    };
    (0..tokens.len()).filter_map(found).collect()
}

/// Every package inherits the workspace's lints, which forbid `unsafe`. The runtime denies it, so that its one folder
/// can expect it. The fuzz package is a workspace of its own: its entry point is a C function.
#[must_use]
pub fn every_package_is_under_the_lints(tree: &Tree) -> Vec<Violation> {
    let is_package = |file: &&File| {
        file.path.rsplit('/').next() == Some("Cargo.toml") && !file.path.starts_with("fuzz/")
    };
    each(tree.files().iter().filter(is_package), |file| {
        let (section, entry) = match file.path.as_str() {
            "Cargo.toml" => ("workspace.lints.rust", "unsafe_code = \"forbid\""),
            UNSAFE_MANIFEST => ("lints.rust", "unsafe_code = \"deny\""),
            _ => ("lints", "workspace = true"),
        };
        let reason = format!("[{section}] lacks `{entry}`: unsafe code would pass unseen");
        (!has_entry(&file.text, section, entry)).then_some((1, reason))
    })
}

fn has_entry(manifest: &str, section: &str, entry: &str) -> bool {
    let heading = format!("[{section}]");
    let within = manifest.lines().map(str::trim).skip_while(|line| *line != heading).skip(1);
    within.take_while(|line| !line.starts_with('[')).any(|line| line == entry)
}

/// A file can be read in one sitting. Blank lines, comments and modules of tests do not count.
#[must_use]
pub fn files_have_at_most_600_lines_of_code(tree: &Tree) -> Vec<Violation> {
    each(tree.with_extension("rs"), |file| {
        let code = tokens::code_lines(file.tokens(), &file.text, false);
        let count = code.len();
        let reason = format!("{count} lines of code; {FILE_LINES} can be read in one sitting");
        Some((code.into_iter().nth(FILE_LINES)?, reason))
    })
}

/// A file of a crate opens with its purpose, which fits on a screen.
#[must_use]
pub fn files_open_with_a_short_header(tree: &Tree) -> Vec<Violation> {
    let is_source = |file: &&File| {
        let of_crate = crate_of(file).is_some_and(|(_, path)| path.starts_with("src/"));
        of_crate || file.path.starts_with("xtask/src/")
    };
    each(tree.with_extension("rs").filter(is_source), |file| {
        let lines = file.text.lines().take_while(|line| line.starts_with("//!")).count();
        let reason = format!(
            "{lines} lines of `//!`: a file opens with what it is, and why. More than {HEADER_LINES} \
             belong in docs/design/"
        );
        (!(1..=HEADER_LINES).contains(&lines)).then_some((lines.max(1), reason))
    })
}

/// A public function of the runtime whose documentation says that it panics tells the place of its caller. The compiler
/// accepts that for no `async fn`.
#[must_use]
pub fn who_panics_names_the_caller(tree: &Tree) -> Vec<Violation> {
    let is_of_runtime = |file: &&File| {
        crate_of(file).is_some_and(|(name, path)| name == "runtime" && path.starts_with("src/"))
    };
    each(tree.with_extension("rs").filter(is_of_runtime), |file| {
        let (mut panics, mut tracks) = (false, false);
        let mut found = Vec::new();
        for (line, text) in (1..).zip(file.text.lines().map(str::trim_start)) {
            if text.starts_with("///") {
                panics |= text == "/// # Panics";
            } else if text.starts_with("#[") {
                tracks |= text == "#[track_caller]";
            } else {
                if text.starts_with("pub fn ") && panics && !tracks {
                    let reason = "`# Panics` without `#[track_caller]`: a panic names the line that is wrong";
                    found.push((line, reason.to_owned()));
                }
                (panics, tracks) = (false, false);
            }
        }
        found
    })
}

/// One file of a crate names locks, atomics, loom and shuttle. In a modelled crate that is `sync.rs`, and `Arc` is one
/// of them. The engine has none of them but `Arc`.
#[must_use]
pub fn one_file_names_the_sync_primitives(tree: &Tree) -> Vec<Violation> {
    let of_crate = |name| {
        let modelled = MODELLED.contains(&name);
        let is_bound = |file: &&File| {
            crate_of(file).is_some_and(|(of, path)| {
                of == name && path.starts_with("src/") && !(modelled && SYNC_FILES.contains(&path))
            })
        };
        let files = tree.with_extension("rs").filter(is_bound);
        let allowed = usize::from(name != "engine" && !modelled);
        each(files, |file| first_primitive(file, modelled)).into_iter().skip(allowed)
    };
    tree.crates().into_iter().flat_map(of_crate).collect()
}

/// The first line outside the tests that names a primitive. `Arc` counts only where it is modelled.
fn first_primitive(file: &File, modelled: bool) -> Option<(usize, String)> {
    let is_primitive = |path: &Named| {
        let parts: Vec<_> = path.parts.iter().map(String::as_str).collect();
        match parts[..] {
            ["loom" | "shuttle", _, ..] => true,
            ["std" | "core" | "alloc", "sync", "Arc", ..] => modelled,
            ["std" | "core" | "alloc", "sync", ..] => true,
            _ => false,
        }
    };
    let first = modules::paths(file).into_iter().find(is_primitive)?;
    let reason = "one file of a crate names locks, atomics, loom and shuttle (smp and runtime: sync.rs; engine: none \
                  but Arc), so that the model checkers miss none";
    Some((first.line, reason.to_owned()))
}

/// No file names a path of the machine that it was written on: it tells a reader nothing, and exists on no other.
#[must_use]
pub fn no_path_of_one_machine(tree: &Tree) -> Vec<Violation> {
    // `src/work/` in a longer path is another folder.
    let inside =
        |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "_-.*}".contains(c));
    let names = |line: &str, path: &str| {
        line.match_indices(path).any(|(at, _)| !path.starts_with('/') || !inside(&line[..at]))
    };
    lines(tree.files().iter(), |line| {
        let path = MACHINE_PATHS.iter().find(|path| names(line, path))?;
        Some(format!("`{path}` is a path of one machine and exists on no other"))
    })
}

/// No code and no comment promises work: the work is done now, or an issue has it.
#[must_use]
pub fn no_promises_in_code(tree: &Tree) -> Vec<Violation> {
    lines(tree.with_extension("rs"), |line| {
        let word = PROMISES.iter().find(|word| has_word(line, word))?;
        Some(format!("`{word}`: what is known to be missing is done, or an issue"))
    })
}

fn lines<'a>(
    files: impl Iterator<Item = &'a File>,
    fault: impl Fn(&str) -> Option<String>,
) -> Vec<Violation> {
    let fault = &fault;
    each(files, |file| {
        (1..).zip(file.text.lines()).filter_map(|(line, text)| Some((line, fault(text)?)))
    })
}
