//! The keys of a task group: Runyard's own, and the files of cgroup v2 under their names.
//!
//! Invariant: a thing has one spelling in an object. `weight`, `cpu.weight` and `cpu.weight.nice` are one thing.

use super::cookies::Cookies;
use super::cpus::cpu_list;
use super::limits::{self, LimitKeys};
use super::policy;
use super::warnings::Warnings;
use crate::cpusets::{Cpuset, Partition};
use crate::diagnostic::{Fault, quoted};
use crate::json::{Member, Node};
use crate::shape;
use runyard_engine::attr::{Cookie, LatencyNice, Nice, Weight};
use runyard_engine::cpu::CpuSet;
use runyard_engine::kernel::Model;

/// The values of `cpu.weight` (`CGROUP_WEIGHT_MIN`, `CGROUP_WEIGHT_MAX`).
const CPU_WEIGHTS: std::ops::RangeInclusive<i64> = 1..=10_000;

/// The default of `cpu.weight` (`CGROUP_WEIGHT_DFL`).
const DEFAULT_CPU_WEIGHT: &str = "100";

/// The keys of an object, as they are read.
#[derive(Default)]
pub(super) struct GroupKeys<'v> {
    /// The weight with its place.
    pub(super) weight: Option<(usize, Weight)>,
    pub(super) idle: bool,
    pub(super) latency_nice: LatencyNice,
    pub(super) cookie: Option<Cookie>,
    pub(super) limit: LimitKeys<'v>,
    pub(super) cpus: CpuSet,
    /// The kind of the partition with its place.
    pub(super) partition: Option<(usize, Partition)>,
    /// The keys that were read.
    read: Vec<&'static str>,
}

/// What the keys are read with.
pub(super) struct Reader<'c> {
    pub(super) model: Model,
    /// The number of CPUs of the machine.
    pub(super) cpus: usize,
    pub(super) cookies: &'c mut Cookies,
    pub(super) warnings: &'c mut Warnings,
}

impl<'v> GroupKeys<'v> {
    /// Reads one key, which is known.
    pub(super) fn read(
        &mut self,
        key: &'static str,
        member: Member<'v>,
        reader: &mut Reader<'_>,
    ) -> Result<(), Fault> {
        if let Some(other) = self.read.iter().find(|&&other| shape::are_one_thing(key, other)) {
            let what = format!("`{key}` and `{other}` are one thing: a task group has one of them");
            return Err(Fault::new(member.at, what));
        }
        self.read.push(key);
        let value = member.value;
        match key {
            "weight" | "cpu.weight" | "cpu.weight.nice" => {
                self.weight = Some((member.at, weight(key, member, reader.warnings)?));
            }
            "idle" => self.idle = value.boolean()?,
            "cpu.idle" => self.idle = value.natural("0 or 1 as in the file", 0..=1)? == 1,
            "latency_nice" | "cpu.latency.nice" => {
                self.latency_nice = policy::latency_nice(value)?;
            }
            "cookie" => self.cookie = reader.cookies.named(value)?,
            "runtime" => self.limit.runtime = Some((value, limits::runtime(value)?)),
            "period" => self.limit.period = Some((value, limits::span(value)?)),
            "cpu.max" => self.limit.read_max(member)?,
            "burst" | "cpu.max.burst" => self.limit.burst = Some((member, limits::span(value)?)),
            "per_cpu" => {
                let asked = value.boolean()?;
                let kernel = reader.model.kernel.release().is_some();
                if asked && !reader.model.founding && kernel {
                    let what = format!(
                        "Linux {} has no `per_cpu`: the limit is that of each CPU anyway",
                        reader.model
                    );
                    reader.warnings.instead(member.at, what);
                }
                self.limit.per_cpu = Some((member, asked));
            }
            "cpuset.cpus" => self.cpus = cpu_list(value, reader.cpus)?,
            "cpuset.cpus.partition" => self.partition = Some((member.at, partition(value)?)),
            _ => unreachable!("every key of a task group is read"),
        }
        Ok(())
    }

    /// Checks the keys against each other.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match self.limit.per_cpu {
            Some((member, true)) if self.read.contains(&"cpu.max") => Err(Fault::new(
                member.at,
                "`cpu.max` is for all CPUs together: `per_cpu` needs a `runtime`",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the cpuset that the keys ask for.
    pub(super) fn cpuset(&self) -> Option<Box<Cpuset>> {
        let partition = self.partition.map_or(Partition::Member, |(_, partition)| partition);
        let asks = !self.cpus.is_empty() || partition != Partition::Member;
        asks.then(|| Box::new(Cpuset { cpus: self.cpus.clone(), partition }))
    }
}

/// Returns the known key of a member of a task group. The error about another one says what to write instead, if it is
/// a word of the kernel or of Kubernetes.
pub(super) fn known(member: Member<'_>) -> Result<&'static str, Fault> {
    shape::GROUP.own("a task group", member).map_err(|fault| {
        let key = member.key();
        let foreign = shape::foreign_word(&key).map(|what| format!("{} {what}", quoted(&key)));
        foreign.map_or(fault, |what| Fault::new(member.at, what))
    })
}

fn weight(key: &str, member: Member<'_>, warnings: &mut Warnings) -> Result<Weight, Fault> {
    let value = member.value;
    match key {
        "weight" => {
            let (low, high) = Weight::GROUP_RANGE.into_inner();
            warn_of_cgroup2(member, warnings);
            value.checked("a weight", low.into()..=high.into(), Weight::new)
        }
        "cpu.weight" => value.checked("a `cpu.weight`", CPU_WEIGHTS, |weight| {
            Weight::new(Weight::of_cpu_weight(weight.unsigned_abs()).cast_signed())
        }),
        _ => {
            let nice = |nice| Nice::new(nice).map(Nice::weight);
            value.checked("a nice value", -20..=19, nice)
        }
    }
}

/// Warns about the number that is the default of `cpu.weight`. A user who writes it may mean that default, which
/// corresponds to more than ten times as much here.
fn warn_of_cgroup2(member: Member<'_>, warnings: &mut Warnings) {
    if member.value.source() == DEFAULT_CPU_WEIGHT {
        let what = format!(
            "a `weight` of 100 is 100/{} of a task's, as `cpu.shares`; the `cpu.weight` of cgroup2 that is 100 is \
             {0} here",
            Weight::NICE_0.get()
        );
        warnings.instead(member.at, what);
    }
}

fn partition(value: Node<'_>) -> Result<Partition, Fault> {
    let expected = || value.expected("\"member\", \"root\" or \"isolated\"");
    let word = value.text().map_err(|_| expected())?;
    Partition::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(expected)
}
