//! What a task passes on to the tasks that it spawns.
//!
//! As on Linux a new task has the policy, the nice value, the latency nice, the slice, the timer slack, the CPUs, the task
//! group and the cookie of the task that spawns it, unless it asks for others. A request handler that was made less important
//! would else be rid of that by spawning. A task that is spawned outside of every task begins with the defaults, and so
//! does one that a task of another runtime spawns.
//!
//! Invariant: of a task that was never asked for anything the runtime looks at one flag ([`Cell::bequeaths`]). So a plain
//! task spawns plain tasks without taking a lock.

use super::cell::{Asked, Cell};
use crate::group::Group;
use crate::os::here;
use crate::os::sync::{Arc, lock};
use crate::shared::Shared;
use crate::worker::current::without_preemption;
use runyard_engine::attr::{Cookie, LatencyNice, Nice, Policy, Slice};
use runyard_engine::cpu::CpuSet;
use runyard_engine::time::Nanos;

/// With what a task begins that asks for nothing.
#[derive(Debug)]
pub(crate) struct Heritage {
    pub(crate) policy: Policy,
    pub(crate) latency_nice: LatencyNice,
    pub(crate) slice: Option<Slice>,
    pub(crate) cookie: Option<Cookie>,
    pub(crate) slack: Nanos,
    /// The CPUs, if these are not all.
    pub(crate) affinity: Option<CpuSet>,
    pub(crate) group: Option<Group>,
}

impl Default for Heritage {
    fn default() -> Heritage {
        Heritage {
            policy: Policy::Normal(Nice::default()),
            latency_nice: LatencyNice::ZERO,
            slice: None,
            cookie: None,
            slack: here::default_slack(),
            affinity: None,
            group: None,
        }
    }
}

impl Heritage {
    /// That of a task which the calling code spawns in a runtime.
    pub(crate) fn here(shared: &Arc<Shared>) -> Heritage {
        let heritage = crate::task::current::task(|task| {
            let heir_of = |cell: &&Arc<Cell>| cell.bequeaths() && Arc::ptr_eq(&cell.shared, shared);
            task.filter(heir_of).map(|cell| without_preemption(|| Heritage::of(cell)))
        });
        heritage.unwrap_or_default()
    }

    fn of(cell: &Cell) -> Heritage {
        let mut asked = *lock(&cell.asked);
        if asked.reset_on_fork {
            asked = reset(asked);
        }
        Heritage {
            policy: asked.policy,
            latency_nice: asked.latency_nice,
            slice: asked.slice,
            cookie: cell.cookie(),
            slack: cell.slack.asked(),
            affinity: if cell.has_affinity() { cell.affinity() } else { None },
            group: cell.group(),
        }
    }
}

/// What `SCHED_RESET_ON_FORK` leaves of that, by sched(7): neither a real-time policy nor a nice value below 0. What
/// Runyard adds to Linux goes too. The cookie stays, as on Linux.
fn reset(asked: Asked) -> Asked {
    let at_least_0 = |nice: Nice| nice.max(Nice::default());
    let policy = match asked.policy {
        Policy::Fifo(_) | Policy::RoundRobin(_) => Policy::Normal(Nice::default()),
        Policy::Normal(nice) => Policy::Normal(at_least_0(nice)),
        Policy::Batch(nice) => Policy::Batch(at_least_0(nice)),
        Policy::Idle => Policy::Idle,
    };
    Asked { policy, latency_nice: LatencyNice::ZERO, slice: None, ..asked }
}
