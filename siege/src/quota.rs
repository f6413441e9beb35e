//! A control group (v1) of the besieged process's own, whose quota of CPU time a program changes. The supervisor makes it
//! and removes it. Where the process may have none, the program changes nothing.

use std::fs;
use std::io::Result;
use std::path::PathBuf;

/// The beginning of the group's name.
const NAME: &str = "runyard-siege-";

/// The period of the quota in microseconds.
const PERIOD: u64 = 100_000;

/// The group. It is removed when it is dropped, after the process has ended.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// Moves a process into a group of its own.
    ///
    /// # Errors
    /// If this process may not do that, or the system has no groups of version 1 for CPU time.
    pub fn around(process: u32) -> Result<Group> {
        let folder = here()?.join(format!("{NAME}{process}"));
        fs::create_dir(&folder)?;
        let group = Group(folder);
        fs::write(group.0.join("cgroup.procs"), process.to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Sets the quota of this process in per cent of a CPU, or removes it.
pub fn set(percent: Option<u64>) {
    let quota = percent.map_or("-1".to_owned(), |percent| (percent * PERIOD / 100).to_string());
    let own = here().ok().filter(|folder| folder.to_string_lossy().contains(NAME));
    own.into_iter().for_each(|folder| {
        fs::write(folder.join("cpu.cfs_quota_us"), &quota).expect("the group is ours");
    });
}

/// The folder of the group of CPU time in which the calling process is.
fn here() -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup")?;
    let path = text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|it| it == "cpu").then(|| path.trim_start_matches('/'))
    });
    let path = path.ok_or_else(|| std::io::Error::other("no control group v1 of the CPU"))?;
    Ok(PathBuf::from("/sys/fs/cgroup/cpu").join(path))
}
