//! The scheduling properties of threads and phases.

use super::context::Context;
use super::duration::micros;
use super::fields::Fields;
use super::number::number;
use super::policy::{PolicyName, latency_nice};
use crate::diagnostic::Fault;
use crate::json::{Member, Node};
use crate::overrides::DeadlinePolicy;
use crate::scenario::{Properties, Reservation};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::task::Update;

/// The properties in force at a point of the file.
pub(super) struct CurrentProperties {
    policy: PolicyName,
    /// The reservation, for a policy that has one.
    reservation: Option<Reservation>,
    /// Whether the group is a `taskgroup`.
    in_taskgroup: bool,
}

impl CurrentProperties {
    pub(super) fn new(policy: PolicyName) -> CurrentProperties {
        CurrentProperties { policy, reservation: None, in_taskgroup: false }
    }

    /// Reads the properties of a thread object, which always have a policy.
    pub(super) fn of_thread(
        &mut self,
        fields: &Fields<'_>,
        context: &mut Context,
    ) -> Result<Properties, Fault> {
        let mut properties = self.read(fields, context)?;
        if properties.policy.is_none() {
            properties.policy = Some(self.policy.with(None)?);
        }
        Ok(properties)
    }

    /// Reads the properties that an object requests. They are in force from here on.
    pub(super) fn read(
        &mut self,
        fields: &Fields<'_>,
        context: &mut Context,
    ) -> Result<Properties, Fault> {
        if let Some(node) = fields.policy {
            self.policy = PolicyName::read(node, context.deadline, &mut context.warnings)?;
        }
        let (slice, reservation) = fields.deadline.read(fields.slice, self.policy, context)?;
        let reserves = matches!(reservation, Update::Set(_));
        self.reservation = reservation.applied_to(self.reservation);
        let policy = match fields.policy.is_some() || fields.priority.is_some() || reserves {
            true => Some(self.policy.with(fields.priority)?),
            false => None,
        };
        let group = match (fields.group, fields.taskgroup) {
            (Some(node), Some(_)) => {
                return Err(Fault::new(node.at(), "`group` and `taskgroup` in one object"));
            }
            (Some(node), None) => Some(context.groups.named(node)?),
            (None, Some(node)) => context.groups.created(node)?,
            (None, None) => None,
        };
        if group.is_some() {
            self.in_taskgroup = fields.taskgroup.is_some();
        }
        let cpus = fields.cpus.map(|node| cpu_set(node, context.cpus)).transpose()?;
        let slack = fields.slack.map(micros).transpose()?;
        let latency_nice = fields.latency_nice.map(latency_nice).transpose()?;
        let cookie = match fields.cookie {
            Some(node) => context.cookies.named(node)?.into(),
            None => Update::Keep,
        };
        let reservation = self.reservation;
        Ok(Properties { cpus, policy, group, slack, latency_nice, slice, cookie, reservation })
    }

    /// Checks that the phase `member` may have the properties in force.
    pub(super) fn check(
        &self,
        member: Member<'_>,
        fields: &Fields<'_>,
        deadline: DeadlinePolicy,
    ) -> Result<(), Fault> {
        if self.in_taskgroup && self.policy.is_real_time() {
            let told = fields.taskgroup.or(fields.policy);
            let what = "a real-time task in a `taskgroup`; `group` allows it";
            return Err(Fault::new(told.map_or(member.at, Node::at), what));
        }
        let native = deadline == DeadlinePolicy::Native;
        if native && self.policy == PolicyName::Deadline && self.reservation.is_none() {
            let at = fields.policy.map_or(member.at, Node::at);
            return Err(Fault::new(at, "SCHED_DEADLINE needs a `dl-runtime`"));
        }
        Ok(())
    }
}

/// Reads a list of CPUs of a machine with this number of them.
pub(super) fn cpu_set(node: Node<'_>, cpus: usize) -> Result<CpuSet, Fault> {
    let mut listed = node.list()?.peekable();
    if listed.peek().is_none() {
        return Err(Fault::new(node.at(), "an empty list of CPUs"));
    }
    let last = number(cpus) - 1;
    let cpu = |node: Node<'_>| {
        let cpu = node.natural("a CPU of the machine", 0..=last)?;
        Ok(CpuId::at(cpu as usize))
    };
    listed.map(cpu).collect()
}
