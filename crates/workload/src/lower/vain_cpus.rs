//! The warning about tasks whose `cpus` are all outside of the cpuset of their group.

use super::tasks::Task;
use super::warnings::Warnings;
use crate::cpusets::Cpusets;
use crate::diagnostic::quoted;
use crate::scenario::TaskGroup;
use runyard_engine::cpu::CpuSet;

/// Warns about these tasks: they have the whole cpuset. The machine has this number of CPUs, of which some are isolated.
pub(super) fn warn(
    tasks: &[Task],
    groups: &[TaskGroup],
    (cpus, isolated): (usize, &CpuSet),
    warnings: &mut Warnings,
) {
    if groups.iter().all(|group| group.cpuset.is_none()) {
        return;
    }
    let asked: Vec<_> = groups.iter().map(TaskGroup::asked_cpuset).collect();
    let cpusets = Cpusets::new(CpuSet::first(cpus), isolated.clone(), &asked);
    for Task { spec, at, .. } in tasks {
        let mut group = spec.properties.group.unwrap_or_default();
        for phase in &spec.phases {
            group = phase.properties.group.unwrap_or(group);
            let allowed = cpusets.effective(group);
            let cpus = phase.properties.cpus.as_ref().or(spec.properties.cpus.as_ref());
            if let Some(cpus) = cpus.filter(|cpus| cpus.intersection(allowed).is_empty()) {
                let what = format!(
                    "the CPUs of {}, {cpus}, are outside of the cpuset of {}: it has {allowed} instead",
                    quoted(&spec.name),
                    quoted(&groups[group.index()].path),
                );
                warnings.instead(*at as usize, what);
            }
        }
    }
}
