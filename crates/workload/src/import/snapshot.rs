//! Snapshots of a machine: what `docs/guides/snapshot.sh` writes of its tasks and task groups, beside a recorder.
//!
//! A text has one snapshot after another, each with these lines, whose fields are divided by tabs:
//!
//! ```text
//! runyard-snapshot 1
//! group   /autogroup-12   cpu.weight.nice=0
//! task    4711            0       0-3       /autogroup-12
//!         its number      policy  its CPUs  its group
//! ```
//!
//! A task that begins in the recording has the seat of the task that forked it, as the kernel gives it. A later snapshot
//! knows it better, since it may have moved. A number may be used again, so only the last snapshot tells of such a task,
//! and only if the task has not ended.

use super::lives::{Life, Lives};
use crate::diagnostic::{Diagnostic, Fault, locate};
use runyard_engine::cpu::MAX_CPUS;
use std::collections::{BTreeMap, BTreeSet};

/// The first line of a snapshot.
const HEAD: &str = "runyard-snapshot 1";

/// The kernel's number of the policy SCHED_DEADLINE, and of others that nothing here treats specially.
const POLICIES: u32 = 8;

/// The ranges of a quota and of a period, in microseconds.
const QUOTA_US: std::ops::RangeInclusive<u64> = 1_000..=i32::MAX as u64;
const PERIOD_US: std::ops::RangeInclusive<u64> = 1_000..=1_000_000;

/// What the kernel knows of a task beside its priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seat {
    /// The number of its policy.
    pub(super) policy: Option<u32>,
    /// The CPUs that it may run on; empty if they are unknown.
    pub(super) cpus: BTreeSet<u32>,
    /// The path of its task group; empty for the root.
    pub(super) group: String,
}

/// The snapshots of a text.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// The tasks of each snapshot by their numbers.
    seats: Vec<BTreeMap<u32, Seat>>,
    /// The keys of each group with their values as JSON, by its path.
    groups: BTreeMap<String, BTreeMap<&'static str, String>>,
}

impl Snapshots {
    /// Reads the snapshots of a file.
    pub(super) fn read(file: &str, text: &str) -> Result<Snapshots, Diagnostic> {
        let mut snapshots = Snapshots::default();
        let mut place = 0;
        for line in text.split_inclusive('\n') {
            if let Err(what) = snapshots.take(line.trim_end()) {
                return Err(locate(file, text, vec![Fault::new(place, what)]).remove(0));
            }
            place += line.len();
        }
        Ok(snapshots)
    }

    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        if line == HEAD {
            self.seats.push(BTreeMap::new());
            return Ok(());
        }
        let Some(seats) = self.seats.last_mut() else {
            return Err("no snapshot: it begins with `runyard-snapshot 1`");
        };
        let mut fields = line.split('\t');
        match (fields.next(), fields.next()) {
            (Some("task"), Some(tid)) => {
                let rest: Vec<_> = fields.collect();
                let [policy, cpus, group] = rest[..] else { return Err(NO_TASK) };
                let tid = tid.parse().map_err(|_| NO_TASK)?;
                let policy = policy.parse().ok().filter(|&policy| policy < POLICIES);
                let group = if is_path(group) { group } else { "" };
                seats.insert(tid, Seat { policy, cpus: list(cpus), group: group.to_owned() });
            }
            (Some("group"), Some(path)) if is_path(path) => {
                self.groups.insert(path.to_owned(), keys(fields));
            }
            (Some("group"), Some(_)) | (Some(""), None) => {}
            _ => return Err("no line of a snapshot: it begins with `task` or `group`"),
        }
        Ok(())
    }

    /// Returns the seat of each life.
    pub(super) fn seats(&self, lives: &Lives) -> Vec<Seat> {
        let mut seats: Vec<Seat> = Vec::new();
        for life in &lives.all {
            let parent = life.parent.and_then(|parent| seats.get(parent));
            let seat = self.of(life).or(parent).cloned().unwrap_or_default();
            seats.push(seat);
        }
        seats
    }

    fn of(&self, life: &Life) -> Option<&Seat> {
        let known = |seats: &BTreeMap<u32, Seat>| seats.get(&life.tid).is_some();
        match (life.is_born, life.has_ended()) {
            (false, false) => self.seats.iter().rev().find(|seats| known(seats)),
            (false, true) => self.seats.iter().find(|seats| known(seats)),
            (true, false) => self.seats.iter().skip(1).next_back(),
            (true, true) => None,
        }?
        .get(&life.tid)
    }

    /// Returns the groups of these seats and all groups above them, with their keys, those above first.
    pub(super) fn groups<'a>(
        &self,
        seats: impl IntoIterator<Item = &'a Seat>,
    ) -> BTreeMap<&'a str, BTreeMap<&'static str, String>> {
        let mut groups = BTreeMap::new();
        for seat in seats {
            let ends = seat.group.match_indices('/').skip(1).map(|(end, _)| end);
            for end in ends.chain([seat.group.len()]).filter(|&end| end > 0) {
                let path = &seat.group[..end];
                groups
                    .entry(path)
                    .or_insert_with(|| self.groups.get(path).cloned().unwrap_or_default());
            }
        }
        groups
    }
}

const NO_TASK: &str = "no task: it has a number, a policy, CPUs and a group";

/// Returns whether this is the path of a group below the root.
fn is_path(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|names| !names.split('/').any(str::is_empty))
}

/// Reads `0-3,6`.
fn list(text: &str) -> BTreeSet<u32> {
    let ranges = text.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(
            first.parse().ok()?
                ..=last.parse().ok().filter(|&last: &u32| (last as usize) < MAX_CPUS)?,
        )
    });
    ranges.flatten().collect()
}

/// Returns the keys of a group that are no defaults, with their values as JSON. Other keys and values are left out.
fn keys<'s>(fields: impl Iterator<Item = &'s str>) -> BTreeMap<&'static str, String> {
    let mut keys = BTreeMap::new();
    for (key, value) in fields.filter_map(|field| field.split_once('=')) {
        let number = value.parse::<i64>().ok();
        let within = |range: std::ops::RangeInclusive<i64>| number.filter(|it| range.contains(it));
        match key {
            "cpu.max" => {
                let (quota, period) = value.split_once(' ').unwrap_or((value, "100000"));
                let quota = quota.parse().ok().filter(|quota| QUOTA_US.contains(quota));
                let period = period.parse().ok().filter(|period| PERIOD_US.contains(period));
                if let (Some(quota), Some(period)) = (quota, period) {
                    keys.insert("cpu.max", format!("\"{quota} {period}\""));
                }
            }
            "cpu.weight" => {
                let weight = within(1..=10_000).filter(|&weight| weight != 100);
                keys.extend(weight.map(|weight| ("cpu.weight", weight.to_string())));
            }
            "cpu.weight.nice" => {
                let nice = within(-20..=19).filter(|&nice| nice != 0);
                keys.extend(nice.map(|nice| ("cpu.weight.nice", nice.to_string())));
            }
            "weight" => {
                let weight = within(2..=262_144).filter(|&weight| weight != 1_024);
                keys.extend(weight.map(|weight| ("weight", weight.to_string())));
            }
            "cpu.idle" if number == Some(1) => {
                keys.insert("cpu.idle", "1".to_owned());
            }
            _ => {}
        }
    }
    if keys.contains_key("cpu.idle") {
        // An idle group has no weight of its own.
        keys.remove("cpu.weight");
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_what_is_no_default() {
        let text = "runyard-snapshot 1\n\
            group\t/a\tcpu.max=max 100000\tcpu.weight=100\tcpu.idle=0\n\
            group\t/a/b\tcpu.max=50000 100000\tcpu.weight=200\n\
            group\t/c\tcpu.weight=1\tcpu.idle=1\n\
            group\t/d\tweight=512\tcpu.max=-1 100000\tnew=3\n\
            task\t7\t3\t0-1,4\t/a/b\n\
            task\t8\t0\t-\t/\n";
        let snapshots = Snapshots::read("s", text).unwrap();
        let shown = |path: &str| format!("{:?}", snapshots.groups[path]);
        assert_eq!(shown("/a"), "{}");
        assert_eq!(shown("/a/b"), r#"{"cpu.max": "\"50000 100000\"", "cpu.weight": "200"}"#);
        assert_eq!(shown("/c"), r#"{"cpu.idle": "1"}"#);
        assert_eq!(shown("/d"), r#"{"weight": "512"}"#);
        let seat = &snapshots.seats[0][&7];
        assert_eq!((seat.policy, seat.group.as_str()), (Some(3), "/a/b"));
        assert_eq!(seat.cpus, BTreeSet::from([0, 1, 4]));
        assert_eq!(snapshots.seats[0][&8], Seat { policy: Some(0), ..Seat::default() });
        assert_eq!(snapshots.groups([seat]).keys().collect::<Vec<_>>(), [&"/a", &"/a/b"]);
    }

    #[test]
    fn what_is_no_snapshot_is_refused_with_its_place() {
        let refused = |text: &str| Snapshots::read("s", text).unwrap_err().to_string();
        assert!(refused("task\t1\t0\t-\t/\n").starts_with("s:1:1: no snapshot"));
        assert!(refused("runyard-snapshot 1\ntask\t1\n").starts_with("s:2:1: no task"));
        assert!(refused("runyard-snapshot 1\nwhat\n").starts_with("s:2:1: no line of a snapshot"));
    }
}
