//! The files that the rules read.
//!
//! In a checkout those are the files that git tracks or would track. So a new file is checked before it is added, and
//! build outputs never are. A source archive has no `.git`; there, and where git refuses to answer, the folders are
//! walked, without those that hold outputs.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;
use std::process::Command;

use proc_macro2::{LexError, TokenStream};

use crate::workspace::Outcome;

/// The paths of outputs; `.gitignore` names the same.
const OUTPUTS: &[&str] =
    &[".git", "target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts", "siege/target"];

/// One file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path relative to the root, with `/` between the parts.
    pub path: String,
    /// Its text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Its tokens once they are asked for, or the line that is no Rust.
    lexed: OnceCell<Result<TokenStream, usize>>,
}

impl File {
    /// A file with this path and text.
    #[must_use]
    pub fn new(path: String, text: String) -> File {
        File { path, text, lexed: OnceCell::new() }
    }

    /// The tokens of a Rust file, or the line where it is no Rust.
    pub fn lexed(&self) -> Result<TokenStream, usize> {
        let lex = || self.text.parse().map_err(|error: LexError| error.span().start().line);
        self.lexed.get_or_init(lex).clone()
    }

    /// The tokens of a Rust file; none if it is no Rust.
    #[must_use]
    pub fn tokens(&self) -> TokenStream {
        self.lexed().unwrap_or_default()
    }
}

/// All files, in the order of their paths.
#[derive(Clone, Debug)]
pub struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// The files under `root`.
    pub fn read(root: &Path) -> Outcome<Tree> {
        let listed = listed(root).filter(|_| root.join(".git").exists());
        let mut paths = listed.map_or_else(|| walked(root), Ok)?;
        paths.sort();
        paths.dedup();
        // A file that is deleted but still in git's index is no part of the tree.
        paths.retain(|path| root.join(path).is_file());
        let read = |path: String| -> Outcome<File> {
            let bytes = fs::read(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
            Ok(File::new(path, String::from_utf8_lossy(&bytes).into_owned()))
        };
        Ok(Tree { files: paths.into_iter().map(read).collect::<Outcome<_>>()? })
    }

    /// A tree of these paths and texts.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File::new(path.into(), text.into());
        Tree { files: files.iter().map(file).collect() }
    }

    /// Every file.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The files whose name ends in `.extension`.
    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        let matches =
            move |file: &&File| file.path.rsplit_once('.').is_some_and(|(_, end)| end == extension);
        self.files.iter().filter(matches)
    }

    /// The file of this path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file, or a folder with a file.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        let is_in = |file: &File| file.path == path || file.path.starts_with(&folder);
        path.is_empty() || self.files.iter().any(is_in)
    }

    /// The names of the folders directly in `crates/`.
    #[must_use]
    pub fn crates(&self) -> Vec<&str> {
        let name = |file| crate_of(file).map(|(name, _)| name);
        let mut names: Vec<_> = self.files.iter().filter_map(name).collect();
        names.dedup();
        names
    }
}

/// The name of the crate under `crates/` that `file` belongs to, and its path within that crate.
#[must_use]
pub fn crate_of(file: &File) -> Option<(&str, &str)> {
    file.path.strip_prefix("crates/")?.split_once('/')
}

/// The files that git tracks or would track; `None` if it does not answer.
fn listed(root: &Path) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    let paths = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(paths.split_terminator('\0').map(str::to_owned).collect())
}

/// The paths under `root`, without folders of outputs.
pub fn walked(root: &Path) -> Outcome<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let full = entry.path();
            let path = full.strip_prefix(root)?;
            if OUTPUTS.iter().any(|output| path == Path::new(output)) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(full);
            } else if let Some(path) = path.to_str() {
                paths.push(path.to_owned());
            }
        }
    }
    Ok(paths)
}
