//! The control groups of the process, and the folders where their files are mounted.

use super::mounts::Mount;
use std::fs;
use std::path::{Path, PathBuf};

/// A kind of limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Controller {
    /// CPU time.
    Cpu,
    /// The number of processes and threads.
    Pids,
}

impl Controller {
    /// Returns the controller's name in control groups v1.
    fn name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Pids => "pids",
        }
    }
}

/// Reads the control groups of this process from `/proc`.
pub(crate) fn groups() -> Option<String> {
    fs::read_to_string("/proc/self/cgroup").ok()
}

/// Reads the mounts of this process from `/proc`.
pub(crate) fn mounts() -> Option<String> {
    fs::read_to_string("/proc/self/mountinfo").ok()
}

/// Returns the folders of the process's control groups and of all their ancestors.
pub(crate) fn levels(
    controller: Controller,
    groups: &str,
    mounts: &str,
) -> impl Iterator<Item = PathBuf> {
    let places = groups.lines().filter_map(move |line| Membership::parse(line, controller));
    places.flat_map(move |place| place.levels(mounts))
}

/// The process's group in one hierarchy of control groups.
#[derive(Clone, Copy, Debug)]
struct Membership<'a> {
    /// Whether the hierarchy is of control groups v2.
    unified: bool,
    controller: Controller,
    path: &'a Path,
}

impl<'a> Membership<'a> {
    /// Parses a line of `/proc/self/cgroup`, `ID:CONTROLLERS:PATH`, if its hierarchy may have such limits.
    fn parse(line: &'a str, controller: Controller) -> Option<Membership<'a>> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let unified = controllers.is_empty();
        let is_it = unified || controllers.split(',').any(|name| name == controller.name());
        is_it.then_some(Membership { unified, controller, path: Path::new(path) })
    }

    /// Returns the folders of the group and of its ancestors, as far as they are mounted here.
    fn levels(self, mounts: &str) -> Vec<PathBuf> {
        let mut mounts = mounts.lines().filter_map(Mount::read);
        let Some(mount) = mounts.find(|mount| self.is_mounted_by(mount)) else {
            return Vec::new();
        };
        // In a cgroup name space, or in a container, the group's path may lie outside the mounted part. Then only the
        // mounted root can be read.
        let below = self.path.strip_prefix(&mount.root).unwrap_or(Path::new(""));
        below.ancestors().map(|level| mount.at.join(level)).collect()
    }

    fn is_mounted_by(self, mount: &Mount<'_>) -> bool {
        match self.unified {
            true => mount.kind == "cgroup2",
            false => mount.controls(self.controller.name()),
        }
    }
}
