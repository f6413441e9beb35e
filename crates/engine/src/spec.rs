//! What is asked for a task group.

use crate::attr::{Cookie, GroupId, LatencyNice, Weight};
use crate::limits::Limit;

/// What is asked for a task group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its parent, which comes before it where groups are listed; the root is its own.
    pub parent: GroupId,
    /// Its share among its siblings. Of an idle group it is [`Weight::IDLE`], whatever stands here,
    /// as setting `cpu.idle` forces it in the kernel (`sched_group_set_idle`).
    pub weight: Weight,
    /// Whether it is idle ([`Groups::is_idle`](crate::group::Groups::is_idle)). The root is not.
    pub idle: bool,
    /// How soon its tasks want to run beside its siblings ([`Groups::latency_nice`](crate::group::Groups::latency_nice)). The root's is 0.
    pub latency_nice: LatencyNice,
    /// The cookie of its tasks that have none of their own, and of those of the groups below it that have none.
    pub cookie: Option<Cookie>,
    /// What it may use at the most. The root has no limit.
    pub limit: Option<Limit>,
}

impl GroupSpec {
    /// The root, which is always the first; and a group below it for which nothing is asked.
    pub const ROOT: GroupSpec = GroupSpec {
        parent: GroupId::ROOT,
        weight: Weight::NICE_0,
        idle: false,
        latency_nice: LatencyNice::ZERO,
        cookie: None,
        limit: None,
    };
}
