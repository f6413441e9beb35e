//! The files that the rules read.
//!
//! In a checkout those are the files that git tracks or would track. So a new file is checked before it is added, and
//! build outputs never are. A source archive has no `.git`; there, and where git refuses to answer, the folders are
//! walked, without those that hold outputs.

use std::fs;
use std::path::Path;
use std::process::Command;

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
}

/// All files, in the order of their paths.
#[derive(Clone, Debug)]
pub struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// The files under `root`.
    pub fn read(root: &Path) -> Outcome<Tree> {
        let listed = root.join(".git").exists().then(|| listed(root)).and_then(Outcome::ok);
        let mut paths = listed.map_or_else(|| walked(root), Ok)?;
        paths.sort();
        paths.dedup();
        // A file that is deleted but still in git's index is no part of the tree.
        paths.retain(|path| root.join(path).is_file());
        let read = |path: String| -> Outcome<File> {
            let bytes = fs::read(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
            Ok(File { path, text: String::from_utf8_lossy(&bytes).into_owned() })
        };
        Ok(Tree { files: paths.into_iter().map(read).collect::<Outcome<_>>()? })
    }

    /// A tree of these paths and texts.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
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
        let under = |file: &File| file.path.strip_prefix(path).map(|rest| rest.starts_with('/'));
        path.is_empty()
            || self.files.iter().any(|file| file.path == path || under(file) == Some(true))
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

fn listed(root: &Path) -> Outcome<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    let paths = String::from_utf8(output.stdout)?;
    Ok(paths.split_terminator('\0').map(str::to_owned).collect())
}

fn walked(root: &Path) -> Outcome<Vec<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[test]
    fn a_folder_exists_while_it_has_a_file() {
        let tree = Tree::of(&[("crates/engine/src/lib.rs", ""), ("README.md", "")]);
        assert!(tree.exists("README.md") && tree.exists("crates/engine/"));
        assert!(!tree.exists("crates/eng") && !tree.exists("src"));
        assert_eq!(tree.crates(), ["engine"]);
    }

    #[test]
    fn an_archive_is_read_as_a_checkout_is() {
        let walked = walked(root()).unwrap();
        assert!(walked.contains(&"xtask/src/tidy/tree.rs".to_owned()));
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
        let missing = |file: &&File| !walked.contains(&file.path);
        let tree = Tree::read(root()).unwrap();
        assert_eq!(tree.files().iter().find(missing).map(|file| &file.path), None);
    }
}
