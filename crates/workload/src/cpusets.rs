//! The CPUs on which the tasks of each group may run: the cpusets of task groups, their partitions, and the isolated
//! CPUs of the machine.
//!
//! Invariant: every set is a subset of that of the parent, and none is empty.

use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuSet;
use runyard_engine::root_domains::RootDomains;
use std::collections::BTreeMap;

/// What a task group asks for in its files `cpuset.cpus` and `cpuset.cpus.partition`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuset {
    /// The CPUs; none of them stands for those of the parent.
    pub cpus: CpuSet,
    /// The kind of the partition.
    pub partition: Partition,
}

/// The kind of a partition (`cpuset.cpus.partition`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// The group shares the partition of its parent.
    #[default]
    Member,
    /// The group has its CPUs for itself, and load is balanced between them only.
    Root,
    /// The group has its CPUs for itself, and no load is balanced between them.
    Isolated,
}

impl Partition {
    /// All kinds.
    pub const ALL: [Partition; 3] = [Partition::Member, Partition::Root, Partition::Isolated];

    /// Returns the word of the kernel's file.
    ///
    /// ```
    /// use runyard_workload::cpusets::Partition;
    ///
    /// assert_eq!(Partition::ALL.map(Partition::name), ["member", "root", "isolated"]);
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Partition::Member => "member",
            Partition::Root => "root",
            Partition::Isolated => "isolated",
        }
    }
}

/// The CPUs of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Allowed {
    kind: Partition,
    /// Its CPUs, those of the partitions below it included.
    span: CpuSet,
    /// The CPUs on which its tasks may run: the span without the partitions below it (`cpuset.cpus.effective`).
    effective: CpuSet,
    /// The CPUs of a task that asks for none.
    unasked: CpuSet,
}

/// The CPUs of all groups of a scenario.
///
/// ```
/// use runyard_engine::attr::GroupId;
/// use runyard_engine::cpu::{CpuId, CpuSet};
/// use runyard_workload::{Overrides, parse};
///
/// let text = r#"{
///     "machine": {"cpus": 4},
///     "groups": {"/a": {"cpuset.cpus": "2-3", "cpuset.cpus.partition": "root"}},
///     "tasks": {"t": {"group": "/a", "run": 1, "loop": 1}}
/// }"#;
/// let scenario = parse("-", text, &Overrides::default()).unwrap().scenario;
/// let cpusets = scenario.cpusets(CpuSet::first(4));
/// assert_eq!(cpusets.affinity(None, GroupId(1)).to_string(), "2-3");
/// assert_eq!(cpusets.affinity(None, GroupId::ROOT).to_string(), "0-1");
/// let asked = CpuSet::only(CpuId(3));
/// assert_eq!(cpusets.affinity(Some(&asked), GroupId(1)).to_string(), "3");
/// assert_eq!(cpusets.affinity(Some(&asked), GroupId::ROOT).to_string(), "0-1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpusets {
    all: CpuSet,
    /// The CPUs that are isolated from the boot on.
    isolated: CpuSet,
    /// The groups by [`GroupId`]; empty if every task may run on all CPUs.
    of: Vec<Allowed>,
}

impl Cpusets {
    /// Returns the cpusets of a machine without isolated CPUs, whose groups ask for none.
    #[must_use]
    pub fn all_of(cpus: CpuSet) -> Cpusets {
        Cpusets { all: cpus, isolated: CpuSet::empty(), of: Vec::new() }
    }

    /// Returns the cpusets of groups, given as the parent of each and what it asks for. A parent comes before its
    /// children, and the root first. `isolated` leaves a CPU of `all`.
    pub(crate) fn new(
        all: CpuSet,
        isolated: CpuSet,
        groups: &[(GroupId, Option<&Cpuset>)],
    ) -> Cpusets {
        if isolated.is_empty() && groups.iter().all(|(_, asked)| asked.is_none()) {
            return Cpusets::all_of(all);
        }
        let mut taken = BTreeMap::<GroupId, Vec<&CpuSet>>::new();
        for &(parent, asked) in groups {
            if let Some(asked) = asked.filter(|asked| asked.partition != Partition::Member) {
                taken.entry(parent).or_default().push(&asked.cpus);
            }
        }
        let mut cpusets = Cpusets { all, isolated, of: Vec::new() };
        for (nth, &(parent, asked)) in groups.iter().enumerate() {
            let own = match nth {
                0 => cpusets.of_root(),
                _ => cpusets.of_group(parent, asked),
            };
            let id = GroupId(u32::try_from(nth).expect("a group's number has 32 bits"));
            let taken = taken.get(&id).into_iter().flatten().copied();
            cpusets.of.push(own.without(taken));
        }
        cpusets
    }

    fn of_root(&self) -> Allowed {
        let (span, unasked) = (self.all.clone(), self.all.without(&self.isolated));
        Allowed { kind: Partition::Member, effective: span.clone(), span, unasked }
    }

    /// Returns the CPUs of a group, before those of the partitions below it are taken away.
    fn of_group(&self, parent: GroupId, asked: Option<&Cpuset>) -> Allowed {
        let parent = &self.of[parent.index()];
        let kind = asked.map_or(Partition::Member, |asked| asked.partition);
        let from = if kind == Partition::Member { &parent.effective } else { &parent.span };
        let own = asked.map(|asked| asked.cpus.intersection(from)).filter(|own| !own.is_empty());
        let unasked = own.clone().unwrap_or_else(|| parent.unasked.clone());
        let span = own.unwrap_or_else(|| from.clone());
        Allowed { kind, effective: span.clone(), span, unasked }
    }

    /// Returns the CPUs of the machine.
    #[must_use]
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// Returns the CPUs on which a task of `group` may run that asks for `asked`, as the kernel decides: those of its
    /// cpuset that it asks for, or the whole cpuset if there is none (`cpuset_cpus_allowed`, `sched_setaffinity`). A
    /// task that asks for none has its cpuset. Outside of all cpusets this is without the isolated CPUs.
    #[must_use]
    pub fn affinity(&self, asked: Option<&CpuSet>, group: GroupId) -> CpuSet {
        let Some(own) = self.of.get(group.index()) else {
            return asked.unwrap_or(&self.all).clone();
        };
        let Some(asked) = asked else { return own.unasked.clone() };
        let both = asked.intersection(&own.effective);
        if both.is_empty() { own.effective.clone() } else { both }
    }

    /// Returns the CPUs of a group, those of the partitions below it included (`cpuset.cpus` cut by the groups above
    /// it). They are all CPUs for the root.
    #[must_use]
    pub fn span(&self, group: GroupId) -> &CpuSet {
        self.of.get(group.index()).map_or(&self.all, |own| &own.span)
    }

    /// Returns the CPUs on which the tasks of a group may run (`cpuset.cpus.effective`).
    #[must_use]
    pub fn effective(&self, group: GroupId) -> &CpuSet {
        self.of.get(group.index()).map_or(&self.all, |own| &own.effective)
    }

    /// Returns whether every task may run on all CPUs.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.of.is_empty()
    }

    /// Returns the root domains that the partitions and the isolated CPUs make.
    #[must_use]
    pub fn domains(&self) -> RootDomains {
        let of = |kind| self.of.iter().filter(move |own| own.kind == kind);
        let isolated = of(Partition::Isolated).flat_map(|own| own.effective.iter());
        let isolated = isolated.chain(self.isolated.iter()).collect();
        let partitions = of(Partition::Root).map(|own| own.effective.clone());
        RootDomains::new(self.all.len(), partitions, isolated)
    }
}

impl Allowed {
    /// Returns the CPUs without those of the partitions below.
    fn without<'a>(self, taken: impl Iterator<Item = &'a CpuSet>) -> Allowed {
        let effective = taken.fold(self.effective, |left, taken| left.without(taken));
        let unasked = self.unasked.intersection(&effective);
        let unasked = if unasked.is_empty() { effective.clone() } else { unasked };
        Allowed { effective, unasked, ..self }
    }
}
