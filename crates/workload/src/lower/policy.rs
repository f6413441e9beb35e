//! Policies by name, with their priorities or nice values, and latency nice values.

use super::number::MAX_INT;
use super::warnings::Warnings;
use crate::diagnostic::{Fault, quoted};
use crate::json::Node;
use crate::nearest::did_you_mean;
use crate::overrides::DeadlinePolicy;
use runyard_engine::attr::{LatencyNice, Nice, Policy, RtPrio};

/// The default real-time priority of a thread, as in rt-app.
const RT_PRIORITY: i64 = 10;

/// A policy without its priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PolicyName {
    #[default]
    Other,
    Batch,
    Idle,
    RoundRobin,
    Fifo,
    Deadline,
}

impl PolicyName {
    const KNOWN: [(&str, PolicyName); 6] = [
        ("SCHED_OTHER", PolicyName::Other),
        ("SCHED_BATCH", PolicyName::Batch),
        ("SCHED_IDLE", PolicyName::Idle),
        ("SCHED_RR", PolicyName::RoundRobin),
        ("SCHED_FIFO", PolicyName::Fifo),
        ("SCHED_DEADLINE", PolicyName::Deadline),
    ];

    /// Returns the policy that `node` names.
    ///
    /// The kernel runs deadline tasks before all others, the earliest deadline first. The engine has no deadlines. As
    /// real-time tasks of the highest priority they affect other tasks in the same way, except for their budgets. So
    /// the replacement is made only on request.
    pub(super) fn read(
        node: Node<'_>,
        deadline: DeadlinePolicy,
        warnings: &mut Warnings,
    ) -> Result<PolicyName, Fault> {
        let name = &*node.text()?;
        if name == "SCHED_DEADLINE" {
            let most = RtPrio::MAX.get();
            let what = match deadline {
                DeadlinePolicy::Refused => {
                    let what = format!(
                        "{name} is not available here; with --deadline-as-fifo its tasks are SCHED_FIFO of \
                         priority {most}, without a budget"
                    );
                    return Err(Fault::new(node.at(), what));
                }
                DeadlinePolicy::AsFifo => {
                    format!("{name} is SCHED_FIFO of priority {most}, without a budget, here")
                }
                DeadlinePolicy::Native => return Ok(PolicyName::Deadline),
            };
            warnings.instead(node.at(), what);
        }
        let known = PolicyName::KNOWN.iter().find(|(known, _)| *known == name);
        known.map(|&(_, policy)| policy).ok_or_else(|| {
            let known = PolicyName::KNOWN.map(|(known, _)| known).join(", ");
            let near = did_you_mean(name, PolicyName::KNOWN.map(|(known, _)| known));
            let near = if near.is_empty() { format!("; known are {known}") } else { near };
            Fault::new(node.at(), format!("unknown policy {}{near}", quoted(name)))
        })
    }

    /// Returns the name of a policy.
    pub(super) fn of(policy: Policy) -> PolicyName {
        match policy {
            Policy::Normal(_) => PolicyName::Other,
            Policy::Batch(_) => PolicyName::Batch,
            Policy::Idle => PolicyName::Idle,
            Policy::RoundRobin(_) => PolicyName::RoundRobin,
            Policy::Fifo(_) => PolicyName::Fifo,
        }
    }

    pub(super) fn is_real_time(self) -> bool {
        matches!(self, PolicyName::RoundRobin | PolicyName::Fifo | PolicyName::Deadline)
    }

    /// Returns the policy with the value of `priority`, or with rt-app's default.
    pub(super) fn with(self, priority: Option<Node<'_>>) -> Result<Policy, Fault> {
        Ok(match self {
            PolicyName::Other => Policy::Normal(nice(priority)?),
            PolicyName::Batch => Policy::Batch(nice(priority)?),
            PolicyName::Idle => {
                nice(priority)?; // It has no effect, but a mistake is a mistake.
                Policy::Idle
            }
            PolicyName::RoundRobin => Policy::RoundRobin(rt_prio(priority)?),
            PolicyName::Fifo => Policy::Fifo(rt_prio(priority)?),
            PolicyName::Deadline => {
                let range = -i64::from(MAX_INT)..=MAX_INT.into();
                priority.map(|node| node.integer("a priority", range)).transpose()?;
                Policy::Fifo(RtPrio::MAX)
            }
        })
    }
}

/// Reads the latency nice value of a task or a task group.
pub(super) fn latency_nice(node: Node<'_>) -> Result<LatencyNice, Fault> {
    let range = LatencyNice::MIN.get().into()..=LatencyNice::MAX.get().into();
    node.checked("a latency nice value", range, LatencyNice::new)
}

fn nice(priority: Option<Node<'_>>) -> Result<Nice, Fault> {
    let what = "the `priority` of a task that is not real-time, a nice value";
    priority.map_or(Ok(Nice::default()), |node| node.checked(what, -20..=19, Nice::new))
}

fn rt_prio(priority: Option<Node<'_>>) -> Result<RtPrio, Fault> {
    let Some(node) = priority else {
        return Ok(RtPrio::new(RT_PRIORITY).expect("rt-app's default is a real-time priority"));
    };
    let range = RtPrio::MIN.get().into()..=RtPrio::MAX.get().into();
    node.checked("the `priority` of a real-time task", range, RtPrio::new)
}
