//! The attributes of a task that is spawned.

use crate::group::Group;
use runyard_engine::attr::{Attr, LatencyNice, Nice, Policy};
use runyard_engine::time::Nanos;
use runyard_engine::timer::DEFAULT_SLACK;

/// The attributes of a task that is spawned.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) attr: Attr,
    pub(crate) slack: Nanos,
    pub(crate) reset_on_fork: bool,
    pub(crate) group: Option<Group>,
    /// Whether it asks for its own CPUs.
    pub(crate) has_affinity: bool,
    pub(crate) name: Option<String>,
    pub(crate) kind: Kind,
}

/// What a task runs, and so how it ends with its runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A future, which ends at its next await.
    #[default]
    Future,
    /// A blocking function, which runs to its end, also if it has not begun.
    Function,
    /// A task of the runtime itself, which serves other tasks and ends after them.
    Server,
}

impl NewTask {
    /// Returns whether tasks that it spawns may start with attributes other than the defaults, by those that are now
    /// asked for it.
    pub(crate) fn bequeaths(&self) -> bool {
        let Attr { policy, latency_nice, slice, cookie, .. } = self.attr;
        let plain = policy == Policy::Normal(Nice::default())
            && latency_nice == LatencyNice::ZERO
            && slice.is_none()
            && self.slack == DEFAULT_SLACK
            && self.group.is_none()
            && cookie.is_none()
            && !self.has_affinity;
        !plain && self.kind != Kind::Server
    }
}
