//! The attributes of a task group.

use crate::attr::{Cookie, GroupId, LatencyNice, Weight};
use crate::limits::Limit;

/// The attributes of a task group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its parent, which precedes it in a list of groups; the root is its own parent.
    pub parent: GroupId,
    /// Its share among its siblings. An idle group has [`Weight::IDLE`], whatever this field
    /// contains, as setting `cpu.idle` forces it in the kernel (`sched_group_set_idle`).
    pub weight: Weight,
    /// Whether it is idle ([`Groups::is_idle`](crate::group::Groups::is_idle)). The root is not.
    pub idle: bool,
    /// Its latency nice among its siblings
    /// ([`Groups::latency_nice`](crate::group::Groups::latency_nice)). That of the root is 0.
    pub latency_nice: LatencyNice,
    /// The cookie of its tasks that have none of their own, and of such tasks of the groups below
    /// that have none.
    pub cookie: Option<Cookie>,
    /// Its limit. The root has none.
    pub limit: Option<Limit>,
}

impl GroupSpec {
    /// The root, which always comes first; also the defaults of a group below the root.
    pub const ROOT: GroupSpec = GroupSpec {
        parent: GroupId::ROOT,
        weight: Weight::NICE_0,
        idle: false,
        latency_nice: LatencyNice::ZERO,
        cookie: None,
        limit: None,
    };
}
