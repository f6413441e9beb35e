//! The rules of partitions. What the kernel answers with "root invalid (...)" is refused here with its place.

use crate::cpusets::{Cpuset, Cpusets, Partition};
use crate::diagnostic::{Fault, quoted};
use crate::scenario::TaskGroup;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuSet;
use std::collections::BTreeMap;

/// Checks the partitions of all listed groups on a machine with this number of CPUs, of which some are isolated. `at`
/// returns the place of a group's `cpuset.cpus.partition`.
pub(super) fn check(
    groups: &[TaskGroup],
    isolated: &CpuSet,
    cpus: usize,
    at: impl Fn(&str) -> usize,
) -> Result<(), Fault> {
    let kind =
        |group: &TaskGroup| group.cpuset.as_ref().map_or(Partition::Member, |it| it.partition);
    if groups.iter().all(|group| kind(group) == Partition::Member) {
        return Ok(());
    }
    let asked: Vec<_> = groups.iter().map(TaskGroup::asked_cpuset).collect();
    let cpusets = Cpusets::new(CpuSet::first(cpus), isolated.clone(), &asked);
    let mut taken = BTreeMap::<GroupId, CpuSet>::new();
    for (group, id) in groups.iter().zip((0..).map(GroupId)) {
        let fault = |what: String| Err(Fault::new(at(&group.path), what));
        let Some(Cpuset { cpus, partition }) = group.cpuset.as_deref() else { continue };
        if *partition == Partition::Member {
            continue;
        }
        let parent = group.spec.parent;
        let above = &groups[parent.index()];
        let path = quoted(&above.path);
        if cpus.is_empty() {
            return fault("a partition needs `cpuset.cpus`, its CPUs".to_owned());
        }
        if parent != GroupId::ROOT && kind(above) == Partition::Member {
            return fault(format!("its parent {path} is no partition"));
        }
        if let Some(cpu) = cpus.without(cpusets.span(parent)).iter().next() {
            return fault(format!("its parent {path} does not have CPU {cpu}"));
        }
        if let Some(cpu) = taken.entry(parent).or_default().intersection(cpus).iter().next() {
            return fault(format!("another partition below {path} has CPU {cpu}"));
        }
        if let Some(cpu) = isolated.intersection(cpus).iter().next()
            && *partition == Partition::Root
        {
            return fault(format!("`machine.isolated` has CPU {cpu}: it is \"isolated\""));
        }
        if cpusets.effective(parent).is_empty() {
            return fault(format!("no CPU is left for {path}"));
        }
        let of_parent = taken.entry(parent).or_default();
        *of_parent = of_parent.iter().chain(cpus.iter()).collect();
        debug_assert!(!cpusets.span(id).is_empty(), "its parent has its CPUs");
    }
    Ok(())
}
