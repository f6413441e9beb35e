//! The control groups that the process is in, where their files are mounted.

use std::fs;
use std::path::{Path, PathBuf};

/// A kind of limits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Controller {
    /// CPU time.
    Cpu,
    /// The number of processes and threads.
    Pids,
}

impl Controller {
    /// Its name in the first version of control groups.
    fn name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Pids => "pids",
        }
    }
}

/// What `/proc` says of the control groups of this process, and of mounts.
pub(crate) fn of_this_process() -> Option<(String, String)> {
    let read = |name| fs::read_to_string(name).ok();
    Some((read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?))
}

/// The folders of the control groups that the process is in, and of those above them.
pub(crate) fn levels(
    controller: Controller,
    groups: &str,
    mounts: &str,
) -> impl Iterator<Item = PathBuf> {
    let places = groups.lines().filter_map(move |line| Membership::parse(line, controller));
    places.flat_map(move |place| place.levels(mounts))
}

/// Where the process is in one hierarchy of control groups.
#[derive(Clone, Copy, Debug)]
struct Membership<'a> {
    /// Of the second version.
    unified: bool,
    controller: Controller,
    path: &'a Path,
}

impl<'a> Membership<'a> {
    /// From a line of `/proc/self/cgroup`, `ID:CONTROLLERS:PATH`, if such limits are there.
    fn parse(line: &'a str, controller: Controller) -> Option<Membership<'a>> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let unified = controllers.is_empty();
        let is_it = unified || controllers.split(',').any(|name| name == controller.name());
        is_it.then_some(Membership { unified, controller, path: Path::new(path) })
    }

    /// The folders of the group and of those above it, as far as they are mounted here.
    fn levels(self, mounts: &str) -> Vec<PathBuf> {
        let Some((root, point)) = mounts.lines().find_map(|line| self.mounted(line)) else {
            return Vec::new();
        };
        // In a name space of its own, or in a container, a group may be told by a path that is not
        // below what is mounted; then what is mounted is all that can be read.
        let below = self.path.strip_prefix(root).unwrap_or(Path::new(""));
        below.ancestors().map(|level| point.join(level)).collect()
    }

    /// The root and the mount point of this hierarchy, if this line of `/proc/self/mountinfo` is its:
    /// `ID PARENT DEVICE ROOT POINT OPTIONS [FIELD..] - TYPE SOURCE SUPER_OPTIONS`.
    fn mounted(self, line: &str) -> Option<(&Path, PathBuf)> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (Path::new(mount.next()?), Path::new(mount.next()?));
        let mut kind = kind.split(' ');
        let (kind, options) = (kind.next()?, kind.nth(1)?);
        let is_it = match self.unified {
            true => kind == "cgroup2",
            false => {
                let mut options = options.split(',');
                kind == "cgroup" && options.any(|name| name == self.controller.name())
            }
        };
        is_it.then(|| (root, point.to_path_buf()))
    }
}
