//! Lists of CPUs in the kernel's notation, "0-3,6".

use super::number::number;
use crate::diagnostic::Fault;
use crate::json::Node;
use runyard_engine::cpu::{CpuId, CpuSet};

/// Reads a list of CPUs of a machine with this number of them: a string in the notation of `cpuset.cpus` and `taskset
/// -c`, or the number of one CPU. The empty string is no CPU.
pub(super) fn cpu_list(node: Node<'_>, cpus: usize) -> Result<CpuSet, Fault> {
    let last = number(cpus) - 1;
    if node.is_number() {
        return Ok(CpuSet::only(CpuId::at(
            node.natural("a CPU of the machine", 0..=last)? as usize
        )));
    }
    let expected = || node.expected("a list of CPUs, \"0-3,6\"");
    let text = node.text().map_err(|_| expected())?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(CpuSet::empty());
    }
    let mut all = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let [low, high] = [low, high].map(|end| end.trim().parse::<u32>());
        let (Ok(low), Ok(high)) = (low, high) else { return Err(expected()) };
        if low > high {
            return Err(expected());
        }
        if high > last {
            let what = format!("CPU {high} is not on the machine: its CPUs are 0 to {last}");
            return Err(Fault::new(node.at(), what));
        }
        all.extend((low..=high).map(|cpu| CpuId::at(cpu as usize)));
    }
    Ok(all.into_iter().collect())
}
