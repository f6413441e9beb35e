//! The pages for users show the command's real output: every line of it, except for the wall-clock time.
//!
//! A code block that begins with `$ ` is a part of a shell session. The blocks of a page form one session, in a folder
//! of its own that contains the scenarios of the repository. A line `...` stands for omitted lines. A JSON block after
//! a line that ends with "`NAME.json`:" is a file: it is written for the session, or it must equal the end of a file of
//! the repository.
//!
//! A table after a line `<!-- table: NAME -->` is the one that [`runyard_report::reference`] makes from the code.
//!
//! After a change of the output or of such a table, `RUNYARD_PAGES=write cargo test -p runyard-cli --test pages` updates the pages. An
//! output that ends with `...` keeps its number of lines.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, iter, thread};

const README: &str = "README.md";
/// The first page of the book.
const BOOK: &str = "docs/README.md";

/// The folders of pages for users.
const FOLDERS: [&str; 3] = ["docs/start", "docs/guides", "docs/reference"];

/// The folders of the repository that are linked into the folder of a session.
const SHARED: [&str; 3] = ["python", "scenarios", "sweeps"];

/// The first command that a new user runs, and the part of it that prints the same on each machine.
const FIRST: (&str, &str) = ("runyard reproduce", "runyard reproduce rt-migrate --host sim");

/// The environment variable that asks the test to update the pages.
const WRITE: &str = "RUNYARD_PAGES";

/// The mark of a line that the update removes from a page.
const GONE: &str = "\0";

/// A block of code.
struct Block {
    /// The line number of its beginning.
    line: usize,
    /// The language that its first line names.
    language: String,
    /// The file that the line before it names.
    file: Option<String>,
    lines: Vec<String>,
}

/// A command of a session and the lines that it shows.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    shown: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn pages() -> Vec<PathBuf> {
    let names = FOLDERS.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let mut pages: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages.extend([README, BOOK].map(|page| root().join(page)));
    pages.sort();
    pages
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut file) = (Vec::new(), None);
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside = lines.by_ref().map(|(line, _)| line.to_owned());
            let lines = inside.take_while(|line| line != "```").collect();
            blocks.push(Block {
                line: number,
                language: language.to_owned(),
                file: file.take(),
                lines,
            });
        } else if !line.is_empty() {
            file = named(line);
        }
    }
    blocks
}

/// Returns the file that a line before a block names.
fn named(line: &str) -> Option<String> {
    let name = line.strip_suffix("`:")?.rsplit('`').next()?;
    name.ends_with(".json").then(|| name.to_owned())
}

/// Returns the commands of a block, if it is a part of a session.
fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    if !block.lines.first().is_some_and(|line| line.starts_with("$ ")) {
        return steps;
    }
    for line in &block.lines {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step { command: command.to_owned(), shown: Vec::new() });
            }
            (None, Some(step)) if step.command.ends_with('\\') => {
                step.command += &format!("\n{line}");
            }
            (None, Some(step)) => step.shown.push(line.clone()),
            (None, None) => {}
        }
    }
    steps
}

/// Runs a command of a session and returns the lines that a terminal shows.
fn printed(command: &str, folder: &Path) -> Vec<String> {
    let command = command.replace("cargo run --release -- ", "runyard ");
    let command = if command == FIRST.0 { FIRST.1 } else { &command };
    let program = Path::new(env!("CARGO_BIN_EXE_runyard")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(folder).env("PATH", path);
    let output = shell.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !is_progress(line)).map(str::to_owned).collect()
}

/// Returns whether a line tells how far a long command is, which depends on the machine.
fn is_progress(line: &str) -> bool {
    line.ends_with(" s left")
}

/// Whether `shown` equals `printed`, apart from lines omitted by `...` and lines with the wall-clock time.
fn is_same(shown: &[String], printed: &[String]) -> bool {
    let timeless = |line: &&String| !line.contains("wall time");
    let shown: Vec<_> = shown.iter().filter(timeless).collect();
    let mut printed: Vec<_> = printed.iter().filter(timeless).collect();
    for (nth, part) in shown.split(|line| *line == "...").enumerate() {
        let found = match nth {
            0 => printed.starts_with(part).then_some(0),
            _ => (0..=printed.len()).find(|&at| printed[at..].starts_with(part)),
        };
        let Some(at) = found else { return false };
        printed.drain(..at + part.len());
    }
    printed.is_empty() || shown.last().is_some_and(|line| *line == "...")
}

/// Makes a folder for the session of a page, with links to [`SHARED`].
#[cfg(unix)]
fn folder_for(page: &Path) -> PathBuf {
    let name = page.strip_prefix(root()).unwrap().with_extension("");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    for shared in SHARED {
        std::os::unix::fs::symlink(
            root().join(shared).canonicalize().unwrap(),
            folder.join(shared),
        )
        .unwrap();
    }
    folder
}

/// Returns the faults of a page.
#[cfg(unix)]
fn faults(page: &Path) -> String {
    let folder = folder_for(page);
    let is_readme = page == root().join(README);
    let old = fs::read_to_string(page).unwrap();
    let text = with_tables(&old);
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let mut faults = Vec::new();
    if text != old {
        let new = text.lines().filter(|line| !old.lines().any(|other| other == *line));
        let new: Vec<_> = new.collect();
        faults.push(format!("{}: a table lacks\n{}\n", page.display(), new.join("\n")));
    }
    for block in blocks(&text) {
        let mut fault =
            |text: &str| faults.push(format!("{}:{}: {text}\n", page.display(), block.line));
        fault_of_file(&block, &folder, is_readme).inspect(|text| fault(text));
        let mut new = Vec::new();
        for Step { command, shown } in steps(&block) {
            let printed = printed(&command, &folder);
            new.extend(format!("$ {command}").lines().map(str::to_owned));
            // The README shows only the beginning of an output.
            let compared =
                if is_readme { &printed[..shown.len().min(printed.len())] } else { &printed };
            if is_same(&shown, compared) {
                new.extend(shown);
            } else {
                fault(&format!("$ {command}\n{}", printed.join("\n")));
                new.extend(renewed(&shown, compared));
            }
        }
        if !new.is_empty() {
            // The new text stays one element, so the line numbers of later blocks remain valid.
            lines[block.line] = new.join("\n");
            lines[block.line + 1..][..block.lines.len() - 1].fill(GONE.to_owned());
        }
    }
    if std::env::var(WRITE).is_ok_and(|value| value == "write") && !faults.is_empty() {
        lines.retain(|line| line != GONE);
        fs::write(page, lines.join("\n") + "\n").unwrap();
    }
    faults.concat()
}

/// Returns the text of a page with the tables that the code makes.
fn with_tables(page: &str) -> String {
    let (mut text, mut lines) = (String::new(), page.lines().peekable());
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        let name = line.strip_prefix("<!-- table: ").and_then(|line| line.strip_suffix(" -->"));
        let Some(name) = name else { continue };
        text += &runyard_report::reference(name).unwrap_or_else(|| panic!("no table {name:?}"));
        while lines.next_if(|line| line.starts_with('|')).is_some() {}
    }
    text
}

/// Returns the lines that a page should show for a command that prints `printed`.
fn renewed(shown: &[String], printed: &[String]) -> Vec<String> {
    let mut new = printed.to_vec();
    if shown.last().is_some_and(|line| line == "...") {
        new.truncate(shown.len() - 1);
        new.push("...".to_owned());
    }
    new
}

/// Returns the fault of a block that is a file, or that should be one. Writes the file if it belongs to the session.
#[cfg(unix)]
fn fault_of_file(block: &Block, folder: &Path, is_readme: bool) -> Option<String> {
    let text = block.lines.join("\n") + "\n";
    let Some(file) = &block.file else {
        let is_loose = is_readme && block.language == "json" && !ends_a_scenario(&text);
        return is_loose.then(|| "is not the end of a scenario of the repository".to_owned());
    };
    let path = folder.join(file);
    if !path.exists() {
        fs::write(path, text).unwrap();
        return None;
    }
    let is_end = fs::read_to_string(path).unwrap().ends_with(&text);
    (!is_end).then(|| format!("is not the end of {file}"))
}

#[cfg(unix)]
fn ends_a_scenario(text: &str) -> bool {
    let files = fs::read_dir(root().join("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.is_file())
        .any(|path| fs::read_to_string(path).unwrap().ends_with(text))
}

#[test]
#[cfg(unix)]
fn the_pages_show_the_output_of_the_command() {
    let pages = pages();
    let faults: String = thread::scope(|scope| {
        let threads: Vec<_> = pages.iter().map(|page| scope.spawn(|| faults(page))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "pages with other lines than these:\n{faults}");
}

/// Returns the names of all fields in a JSON value.
fn fields(value: &Value) -> BTreeSet<&str> {
    match value {
        Value::Object(object) => {
            let inner = object.values().flat_map(fields);
            object.keys().map(String::as_str).chain(inner).collect()
        }
        Value::Array(items) => items.iter().flat_map(fields).collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn the_reference_has_every_field_of_a_report() {
    let page = fs::read_to_string(root().join("docs/reference/report.md")).unwrap();
    let named: BTreeSet<_> =
        page.split('`').skip(1).step_by(2).flat_map(|code| code.split(['.', '[', ']'])).collect();
    for scenario in ["core-scheduling", "frame-pipeline", "hard-limits"] {
        let file = root().join(format!("scenarios/{scenario}.json"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_runyard"));
        let output =
            command.arg("sim").arg(file).args(["--duration", "300ms", "--json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let missing: Vec<_> = fields(&report).difference(&named).copied().collect();
        assert!(missing.is_empty(), "docs/reference/report.md has not {missing:?} of {scenario}");
    }
}

#[test]
fn a_page_is_compared_line_by_line() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let printed = lines("a\nb\nc\nin 1 ms of wall time\nd");
    for shown in
        ["a\nb\nc\nd", "a\nb\nc\nin 2 ms of wall time\nd", "a\n...\nc\nd", "...\nb\n...", "...\nd"]
    {
        assert!(is_same(&lines(shown), &printed), "{shown}");
    }
    for shown in ["", "a\nb\nc", "a\nc\nd", "b\n...", "...\nc", "...\nd\n...\nc\n..."] {
        assert!(!is_same(&lines(shown), &printed), "{shown}");
    }
}

#[test]
fn a_table_of_the_code_stands_in_its_page() {
    let causes = runyard_report::reference("causes").unwrap();
    let page = |table: &str| format!("a\n<!-- table: causes -->\n{table}\n| b |\n");
    assert_eq!(with_tables(&page("| old |\n| --- |\n")), page(&causes));
    assert_eq!(with_tables(&page(&causes)), page(&causes));
}

#[test]
fn a_page_is_read_as_a_session() {
    let page = "Save `a.json`:\n\n```json\n{}\n```\n\ntext:\n\n```console\n$ a \\\n  b\nc\n$ d\n```\n```console\ne\n```\n";
    let blocks = blocks(page);
    let files: Vec<_> = blocks.iter().map(|block| block.file.as_deref()).collect();
    assert_eq!(files, [Some("a.json"), None, None]);
    assert_eq!(blocks.iter().map(|block| block.line).collect::<Vec<_>>(), [3, 9, 15]);
    let step = |command: &str, shown: &[&str]| Step {
        command: command.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(steps(&blocks[1]), [step("a \\\n  b", &["c"]), step("d", &[])]);
    assert_eq!(iter::once(&blocks[2]).flat_map(steps).count(), 0);
}
