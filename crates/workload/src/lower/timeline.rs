//! The section `timeline`, an extension: changes of CPUs, task groups and tasks at times of the run.
//!
//! The entries are read in the order of their times, so that each is checked against the state that the earlier ones
//! leave: the CPUs that are online, the limit of a group, the policy of a task, and the tasks that run.

use super::context::Context;
use super::deadline;
use super::duration;
use super::group_keys::{self, GroupKeys, Reader};
use super::limits::{self, LimitKeys};
use super::policy::{self, PolicyName};
use super::properties::cpu_set;
use super::tasks::Task;
use crate::diagnostic::{Fault, quoted};
use crate::json::{Member, Node};
use crate::nearest::did_you_mean;
use crate::scenario::{GroupChange, Properties, SpecId, TaskSpec, Timed, TimedChange};
use crate::shape;
use runyard_engine::attr::{GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use std::collections::BTreeMap;

/// The keys that name the subject of an entry.
const SUBJECTS: [&str; 5] = ["cpu", "group", "task", "start", "stop"];

/// The keys of a task group that can change.
const CHANGEABLE: [&str; 9] = [
    "weight",
    "cpu.weight",
    "cpu.weight.nice",
    "runtime",
    "period",
    "cpu.max",
    "burst",
    "cpu.max.burst",
    "per_cpu",
];

/// Returns the changes of the section in the order of their times. Changes at one time stay in the order of the file.
pub(super) fn read(
    section: Option<Node<'_>>,
    tasks: &[Task],
    context: &mut Context,
) -> Result<Vec<Timed>, Fault> {
    let Some(section) = section else { return Ok(Vec::new()) };
    let mut entries = section.list()?.map(Entry::read).collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(|entry| entry.at);
    let mut state = State::new(tasks, context);
    entries.iter().map(|entry| Ok(Timed { at: entry.at, change: state.change(entry)? })).collect()
}

/// Refuses the section for a host on real CPUs, which applies no changes.
pub(super) fn refuse_on_real_cpus(section: Option<Node<'_>>) -> Result<(), Fault> {
    match section.map(Node::list).transpose()?.and_then(|mut entries| entries.next()) {
        None => Ok(()),
        Some(entry) => {
            let what =
                "a `timeline` is for `sim` alone: `live` and `linux` change nothing during a run";
            Err(Fault::new(entry.at(), what))
        }
    }
}

/// An entry of the section.
struct Entry<'v> {
    object: Node<'v>,
    at: Nanos,
    /// The member that names the subject.
    subject: Member<'v>,
    /// The other members, without `at`.
    others: Vec<Member<'v>>,
}

impl<'v> Entry<'v> {
    fn read(object: Node<'v>) -> Result<Entry<'v>, Fault> {
        let (mut at, mut subject, mut others) = (None, None, Vec::new());
        for member in object.object()? {
            let key = shape::CHANGE.own("a change of the timeline", member)?;
            if key == "at" {
                at = Some(limits::span(member.value)?);
            } else if !SUBJECTS.contains(&key) {
                others.push(member);
            } else if subject.replace(member).is_some() {
                let what =
                    "a change has one of `cpu`, `group`, `task`, `start` and `stop`, not two";
                return Err(Fault::new(member.at, what));
            }
        }
        let needs = |what: &str| Fault::new(object.at(), format!("a change needs {what}"));
        let subject =
            subject.ok_or_else(|| needs("one of `cpu`, `group`, `task`, `start` and `stop`"))?;
        let at = at.ok_or_else(|| needs("`at`, its time in microseconds"))?;
        Ok(Entry { object, at, subject, others })
    }

    /// Returns the error of a key that the subject does not have.
    fn misplaced(&self, member: Member<'v>) -> Fault {
        let (key, subject) = (member.key(), self.subject.key());
        Fault::new(member.at, format!("{} is no key of a change with `{subject}`", quoted(&key)))
    }

    /// Returns the error that the entry changes nothing.
    fn empty(&self, keys: &str) -> Fault {
        let what = format!("a change with `{}` needs {keys}", self.subject.key());
        Fault::new(self.object.at(), what)
    }
}

/// The keys of a limit. Those that a change does not give stay as they were.
#[derive(Clone, Copy)]
struct Parts {
    runtime: Option<Nanos>,
    period: Nanos,
    burst: Nanos,
    per_cpu: bool,
}

impl Parts {
    fn of(limit: Option<Limit>) -> Parts {
        Parts {
            runtime: limit.map(|limit| limit.runtime()),
            period: limit.map_or(Limit::PERIOD, |limit| limit.period()),
            burst: limit.map_or(Nanos::ZERO, |limit| limit.burst()),
            per_cpu: limit.is_some_and(|limit| limit.is_per_cpu()),
        }
    }
}

/// The state of the scenario between two changes.
struct State<'c> {
    tasks: &'c [Task],
    context: &'c mut Context,
    names: BTreeMap<&'c str, SpecId>,
    /// The CPUs that are online.
    online: Vec<bool>,
    /// The limits that changed.
    limits: BTreeMap<usize, Parts>,
    /// The policies that changed.
    policies: BTreeMap<u32, Policy>,
    /// The time and the kind of the last start or stop of a thread object: `true` for a start.
    last: BTreeMap<u32, (Nanos, bool)>,
}

impl<'c> State<'c> {
    fn new(tasks: &'c [Task], context: &'c mut Context) -> State<'c> {
        let names =
            tasks.iter().map(|task| task.spec.name.as_str()).zip((0..).map(SpecId)).collect();
        State {
            tasks,
            names,
            online: vec![true; context.cpus],
            context,
            limits: BTreeMap::new(),
            policies: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    fn change(&mut self, entry: &Entry<'_>) -> Result<TimedChange, Fault> {
        match &*entry.subject.key() {
            "cpu" => self.cpu(entry),
            "group" => self.group(entry),
            "task" => self.task(entry),
            key => self.start_or_stop(entry, key == "start"),
        }
    }

    fn cpu(&mut self, entry: &Entry<'_>) -> Result<TimedChange, Fault> {
        let mut online = None;
        for &member in &entry.others {
            match &*member.key() {
                "online" => online = Some(member.value.boolean()?),
                _ => return Err(entry.misplaced(member)),
            }
        }
        let last = super::number::number(self.online.len()) - 1;
        let cpu = entry.subject.value.natural("a CPU of the machine", 0..=last)? as usize;
        let online = online.ok_or_else(|| entry.empty("`online`"))?;
        self.online[cpu] = online;
        if !self.online.contains(&true) {
            let what = format!("with CPU {cpu} the last CPU goes offline, and one has to stay");
            return Err(Fault::new(entry.subject.at, what));
        }
        Ok(TimedChange::Cpu { cpu: CpuId::at(cpu), online })
    }

    fn group(&mut self, entry: &Entry<'_>) -> Result<TimedChange, Fault> {
        let group = self.context.groups.named(entry.subject.value)?;
        if group == GroupId::ROOT {
            let what = "the task group / has no weight and no limit that could change";
            return Err(Fault::new(entry.subject.value.at(), what));
        }
        let mut keys = GroupKeys::default();
        for &member in &entry.others {
            let Ok(key) = group_keys::known(member) else { return Err(entry.misplaced(member)) };
            if !CHANGEABLE.contains(&key) {
                let what = format!("`{key}` of a task group cannot change");
                return Err(Fault::new(member.at, what));
            }
            let Context { model, cpus, cookies, warnings, .. } = &mut *self.context;
            keys.read(key, member, &mut Reader { model: *model, cpus: *cpus, cookies, warnings })?;
        }
        if let Some((at, _)) = keys.weight.filter(|_| self.context.groups.spec(group).idle) {
            return Err(Fault::new(at, "an idle task group takes no weight"));
        }
        let (weight, limit) = (keys.weight.map(|(_, weight)| weight), &keys.limit);
        let limit = if limit.is_empty() { None } else { Some(self.limit(entry, group, limit)?) };
        if weight.is_none() && limit.is_none() {
            let keys = "one of `weight`, `runtime`, `period`, `burst` and `per_cpu`, or of their names in cgroup v2";
            return Err(entry.empty(keys));
        }
        Ok(TimedChange::Group { group, change: GroupChange { weight, limit } })
    }

    /// Returns the limit of a group after a change of these keys.
    fn limit(
        &mut self,
        entry: &Entry<'_>,
        group: GroupId,
        keys: &LimitKeys<'_>,
    ) -> Result<Option<Limit>, Fault> {
        let before = self.context.groups.spec(group).limit;
        let parts = self.limits.entry(group.index()).or_insert_with(|| Parts::of(before));
        parts.runtime = keys.runtime.map_or(parts.runtime, |(_, runtime)| runtime);
        parts.period = keys.period.map_or(parts.period, |(_, period)| period);
        parts.burst = keys.burst.map_or(parts.burst, |(_, burst)| burst);
        parts.per_cpu = keys.per_cpu.map_or(parts.per_cpu, |(_, per_cpu)| per_cpu);
        let Some(runtime) = parts.runtime else {
            if keys.runtime.is_none() {
                let what = "the task group has no limit then, so the change needs a `runtime`";
                return Err(Fault::new(entry.object.at(), what));
            }
            return Ok(None);
        };
        let limit = Limit::new(runtime, parts.period, parts.burst, parts.per_cpu);
        limit.map(Some).map_err(|why| keys.fault_or(why, entry.object.at()))
    }

    fn task(&mut self, entry: &Entry<'_>) -> Result<TimedChange, Fault> {
        let task = self.named(entry.subject.value)?;
        let (mut policy, mut priority) = (None, None);
        let mut properties = Properties::default();
        for &member in &entry.others {
            let value = member.value;
            match &*member.key() {
                "policy" => policy = Some(value),
                "priority" => priority = Some(value),
                "cpus" => properties.cpus = Some(cpu_set(value, self.context.cpus)?),
                "latency_nice" => properties.latency_nice = Some(policy::latency_nice(value)?),
                "slice" => {
                    properties.slice = Some(duration::slice(value)?);
                    deadline::takes_slices(value.at(), self.context);
                }
                _ => return Err(entry.misplaced(member)),
            }
        }
        if policy.is_some() || priority.is_some() {
            properties.policy = Some(self.policy(task, policy, priority)?);
        }
        if properties == Properties::default() {
            let keys = "one of `policy`, `priority`, `cpus`, `latency_nice` and `slice`";
            return Err(entry.empty(keys));
        }
        Ok(TimedChange::Task { task, properties: properties.into() })
    }

    /// Returns the policy of a task after a change of these keys. A priority alone belongs to the policy before.
    fn policy(
        &mut self,
        task: SpecId,
        policy: Option<Node<'_>>,
        priority: Option<Node<'_>>,
    ) -> Result<Policy, Fault> {
        let at = policy.or(priority).map_or(Fault::NOWHERE, Node::at);
        let name = match policy {
            Some(node) => {
                PolicyName::read(node, self.context.deadline, &mut self.context.warnings)?
            }
            None => self.policy_before(task, at)?,
        };
        if name == PolicyName::Deadline {
            return Err(Fault::new(at, "a change to SCHED_DEADLINE is not available"));
        }
        if name.is_real_time() && self.is_in_taskgroup(task) {
            let what = "a real-time task in a `taskgroup`; `group` allows it";
            return Err(Fault::new(at, what));
        }
        let policy = name.with(priority)?;
        self.policies.insert(task.0, policy);
        Ok(policy)
    }

    /// Returns the policy of a task before a change of its priority at `at`.
    fn policy_before(&self, task: SpecId, at: usize) -> Result<PolicyName, Fault> {
        let spec = self.spec(task);
        let first = spec.phases[0].properties.policy.or(spec.properties.policy);
        let first = first.map(PolicyName::of);
        let phases = spec.phases.iter().filter_map(|phase| phase.properties.policy);
        if phases.map(PolicyName::of).any(|policy| Some(policy) != first) {
            let what =
                "the phases of this task have several policies: a `priority` needs a `policy`";
            return Err(Fault::new(at, what));
        }
        let changed = self.policies.get(&task.0).copied().map(PolicyName::of);
        Ok(changed.or(first).unwrap_or_default())
    }

    fn is_in_taskgroup(&self, task: SpecId) -> bool {
        let spec = self.spec(task);
        let phases = spec.phases.iter().filter_map(|phase| phase.properties.group);
        let groups = &self.context.groups;
        spec.properties.group.into_iter().chain(phases).any(|group| !groups.is_listed(group))
    }

    fn start_or_stop(&mut self, entry: &Entry<'_>, starts: bool) -> Result<TimedChange, Fault> {
        if let Some(&member) = entry.others.first() {
            return Err(entry.misplaced(member));
        }
        let task = self.named(entry.subject.value)?;
        let name = quoted(&self.spec(task).name);
        let fault = |what: String| Err(Fault::new(entry.subject.value.at(), what));
        // The tasks of a template are forked, so each may be there at any time.
        if self.spec(task).instances == 0 {
            return match starts {
                true => fault(format!("{name} has no instance that could start")),
                false => Ok(TimedChange::Stop(task)),
            };
        }
        match self.last.insert(task.0, (entry.at, starts)) {
            Some((at, before)) if before == starts => {
                let (was, other) = if starts { ("started", "stop") } else { ("stopped", "start") };
                let at = at.0 / 1_000;
                fault(format!("{name} was {was} at {at} already, and no `{other}` is between"))
            }
            _ if starts => Ok(TimedChange::Start(task)),
            _ => Ok(TimedChange::Stop(task)),
        }
    }

    fn spec(&self, task: SpecId) -> &'c TaskSpec {
        &self.tasks[task.0 as usize].spec
    }

    fn named(&self, node: Node<'_>) -> Result<SpecId, Fault> {
        let name = node.text()?;
        self.names.get(&*name).copied().ok_or_else(|| {
            let near = did_you_mean(&name, self.names.keys().copied());
            Fault::new(node.at(), format!("no task is called {}{near}", quoted(&name)))
        })
    }
}
