//! The section `machine`, an extension: the simulated machine. The command line may ask for another size or shape, but
//! the file must be consistent by itself.

use super::cpus::cpu_list;
use super::properties::cpu_set;
use super::warnings::Warnings;
use crate::diagnostic::Fault;
use crate::json::Node;
use crate::overrides::Overrides;
use crate::scenario::{Costs, MachineSpec, Preemption};
use crate::shape;
use crate::tunables::{Place, Tunable};
use runyard_engine::cpu::CpuSet;
use runyard_engine::kernel::{Model, UnknownKernel};
use runyard_engine::time::Nanos;
use runyard_engine::topology::{BadTopology, Topology};
use std::fmt::Display;
use std::str::FromStr;

/// The default number of CPUs.
const CPUS: u32 = 8;

/// The default number of ticks a second, as `CONFIG_HZ_1000`.
const TICK_HZ: u32 = 1_000;

/// The default speed of a busy thread: two busy threads of a core have 1.2 of its speed. SMT gives nearly 20 % over a
/// wide range of programs ("Understanding the energy efficiency of simultaneous multithreading", IBM Research).
const BUSY_SPEED: u32 = 600_000;

pub(super) fn read(
    section: Option<Node<'_>>,
    over: &Overrides,
    warnings: &mut Warnings,
) -> Result<(MachineSpec, Model), Fault> {
    let (mut cpus, mut topology, mut kernel) = (None, None, None);
    let (mut tick_hz, mut costs, mut costs_at) = (TICK_HZ, Costs::default(), Fault::NOWHERE);
    let (mut skew_tick, mut rt_group_sched, mut packs_below, mut smt) = (false, false, None, None);
    let (mut preemption, mut isolated) = (Preemption::default(), None);
    for member in section.map(Node::object).transpose()?.into_iter().flatten() {
        let value = member.value;
        match shape::MACHINE.own("`machine`", member)? {
            "cpus" => cpus = Some(flat(value)?),
            "topology" => topology = Some((value, text_of::<Topology>(value)?)),
            "kernel" => kernel = Some(kernel_of(value)?),
            "tick_hz" => tick_hz = natural(value, "machine.tick_hz")?,
            "skew_tick" => skew_tick = value.boolean()?,
            "rt_group_sched" => rt_group_sched = value.boolean()?,
            "packs_below" => packs_below = Some(natural(value, "machine.packs_below")?),
            "preemption" => preemption = text_of(value)?,
            "isolated" => isolated = Some(value),
            "smt" => smt = Some((value, read_smt(value)?)),
            "costs" => (costs, costs_at) = (read_costs(value)?, value.at()),
            _ => unreachable!("every key of the machine is read"),
        }
    }
    let tick = 1_000_000_000 / u64::from(tick_hz);
    if (costs.timer_interrupt + costs.jitter + costs.timer_spread).0 >= tick {
        let what = format!("a timer interrupt takes as long as a tick, {tick} ns: no time is left");
        return Err(Fault::new(costs_at, what));
    }
    let topology = match (cpus, topology) {
        (Some(cpus), Some((at, shape))) if cpus.cpus() != shape.cpus() => {
            let (cpus, shaped) = (cpus.cpus(), shape.cpus());
            let what = format!("the topology has {shaped} CPUs, but `cpus` is {cpus}");
            return Err(Fault::new(at.at(), what));
        }
        (_, Some((_, shape))) => shape,
        (Some(flat), None) => flat,
        (None, None) => Topology::flat(CPUS).map_err(at_nowhere)?,
    };
    let model = over.kernel.or(kernel).unwrap_or(over.unless_said);
    let topology = overridden(topology, over)?;
    if let Some((at, _)) = smt.filter(|_| topology.threads() == 1) {
        warnings.instead(at.at(), "no core has two threads, so `smt` has no effect".to_owned());
    }
    let smt = smt.map(|(_, busy_speed)| busy_speed);
    // The machine of a host on real CPUs is not that of the file.
    let isolated = isolated
        .filter(|_| !over.real_cores)
        .map_or_else(|| Ok(CpuSet::empty()), |value| read_isolated(value, topology.cpus()))?;
    let machine = MachineSpec {
        isolated,
        topology,
        tick_hz,
        skew_tick,
        rt_group_sched,
        packs_below,
        preemption,
        smt,
        costs,
    };
    Ok((machine, model))
}

/// Reads an integer in the range of the tunable at `path`.
fn natural(value: Node<'_>, path: &str) -> Result<u32, Fault> {
    let tunable = Tunable::at(path).expect("every number of the machine is in the table");
    value.checked_of(tunable, |number| u32::try_from(number).ok())
}

fn flat(value: Node<'_>) -> Result<Topology, Fault> {
    let cpus = natural(value, "machine.cpus")?;
    Topology::flat(cpus).map_err(|bad| Fault::new(value.at(), bad.to_string()))
}

/// Reads the name of a kernel, which may also be written as a number.
fn kernel_of(value: Node<'_>) -> Result<Model, Fault> {
    let name = if value.is_number() { value.source().into() } else { value.text()? };
    name.parse().map_err(|unknown: UnknownKernel| Fault::new(value.at(), unknown.to_string()))
}

/// Parses a string.
fn text_of<T: FromStr<Err: Display>>(value: Node<'_>) -> Result<T, Fault> {
    value.text()?.parse().map_err(|bad| Fault::new(value.at(), format!("{bad}")))
}

/// Returns the topology after the overrides of the command line.
fn overridden(file: Topology, over: &Overrides) -> Result<Topology, Fault> {
    match (over.cpus, over.topology) {
        (None, None) => Ok(file),
        (Some(cpus), None) if cpus == file.cpus() => Ok(file),
        (Some(cpus), None) => {
            Topology::flat(u32::try_from(cpus).unwrap_or(u32::MAX)).map_err(at_nowhere)
        }
        (Some(cpus), Some(topology)) if cpus != topology.cpus() => {
            let shaped = topology.cpus();
            let what = format!("the topology asked for, {topology}, has {shaped} CPUs, not {cpus}");
            Err(Fault::new(Fault::NOWHERE, what))
        }
        (_, Some(topology)) => Ok(topology),
    }
}

fn at_nowhere(bad: BadTopology) -> Fault {
    Fault::new(Fault::NOWHERE, bad.to_string())
}

fn read_isolated(value: Node<'_>, cpus: usize) -> Result<CpuSet, Fault> {
    let isolated = if value.is_list() { cpu_set(value, cpus)? } else { cpu_list(value, cpus)? };
    if isolated.len() == cpus {
        return Err(Fault::new(value.at(), "all CPUs are isolated, and one has to stay"));
    }
    Ok(isolated)
}

fn read_smt(section: Node<'_>) -> Result<u32, Fault> {
    let mut busy_speed = BUSY_SPEED;
    for member in section.object()? {
        match shape::SMT.own("`smt`", member)? {
            "busy_speed" => busy_speed = member.value.millionths("a part of a core's speed")?,
            _ => unreachable!("every key of `smt` is read"),
        }
    }
    Ok(busy_speed)
}

fn read_costs(section: Node<'_>) -> Result<Costs, Fault> {
    let (mut costs, mut stated) = (Costs::default(), Vec::new());
    for member in section.object()? {
        let key = shape::COSTS.own("`costs`", member)?;
        let tunable =
            Tunable::at(&format!("machine.costs.{key}")).expect("the keys are the table's");
        let Place::Cost(of) = tunable.place else { unreachable!("{key} is a cost") };
        *of(&mut costs) = member.value.checked_of(tunable, |ns| Some(Nanos(ns.unsigned_abs())))?;
        stated.push(key);
    }
    // One key makes all times exact.
    if costs.jitter == Nanos::ZERO && !stated.contains(&"timer_spread_ns") {
        costs.timer_spread = Nanos::ZERO;
    }
    Ok(costs)
}
