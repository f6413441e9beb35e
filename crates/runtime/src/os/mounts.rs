//! The kernel's list of mounts of this process.

use std::path::PathBuf;

/// A line of [mountinfo](https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html).
#[derive(Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The mounted part of the file system.
    pub root: PathBuf,
    /// The mount point.
    pub at: PathBuf,
    /// The name of the file system.
    pub kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    /// Reads a line of `/proc/self/mountinfo`: `ID PARENT DEVICE ROOT POINT OPTIONS [FIELD..] - TYPE SOURCE
    /// SUPER_OPTIONS`.
    #[must_use]
    pub fn read(line: &str) -> Option<Mount<'_>> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3).map(unescaped);
        let mut system = system.split(' ');
        Some(Mount {
            root: mount.next()?.into(),
            at: mount.next()?.into(),
            kind: system.next()?,
            options: system.nth(1)?,
        })
    }

    /// Returns whether this is a hierarchy of the first version of control groups that has the controller of this name.
    #[must_use]
    pub fn controls(&self, controller: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == controller)
    }
}

/// A path of mountinfo without its escapes. A blank is `\040` there; three other characters have such escapes, too.
fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (code, text)| path.replace(code, text))
}
