//! The attributes that a task passes on to the tasks that it spawns.
//!
//! As on Linux, a new task inherits the policy, the nice value, the latency nice, the slice, the timer slack, the CPUs,
//! the task group and the cookie of the task that spawns it, unless it asks for others. Otherwise a request handler
//! that was made less important could escape that by spawning. A task that is spawned outside of every task, or by a
//! task of another runtime, begins with the defaults.
//!
//! Invariant: if nothing was ever asked for a task, the runtime reads only one flag of it ([`Cell::bequeaths`]). So a
//! plain task spawns plain tasks without taking a lock.

use super::cell::{Asked, Cell};
use crate::group::Group;
use crate::os::above::without_preemption;
use crate::os::here;
use crate::os::sync::{Arc, lock};
use runyard_engine::attr::{Cookie, LatencyNice, Nice, Policy, Slice};
use runyard_engine::cpu::CpuSet;
use runyard_engine::time::Nanos;

/// The attributes of a new task that asks for none.
#[derive(Debug)]
pub(crate) struct Heritage {
    pub(crate) policy: Policy,
    pub(crate) latency_nice: LatencyNice,
    pub(crate) slice: Option<Slice>,
    pub(crate) cookie: Option<Cookie>,
    pub(crate) slack: Nanos,
    /// The CPUs, unless these are all.
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
    /// Returns the heritage of a task that the calling code spawns in the runtime of this number.
    pub(crate) fn here(runtime: u16) -> Heritage {
        let heritage = crate::current::task::task(|task| {
            let leaves = |cell: &&Arc<Cell>| leaves_something(cell, runtime);
            task.filter(leaves).map(|cell| without_preemption(|| Heritage::of(cell)))
        });
        heritage.unwrap_or_default()
    }

    /// Returns whether a task that the calling code spawns in the runtime of this number, and that asks for nothing,
    /// begins with the defaults.
    #[inline]
    pub(crate) fn is_plain(runtime: u16) -> bool {
        crate::current::task::task(|task| !task.is_some_and(|cell| leaves_something(cell, runtime)))
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

/// Returns whether a task may pass something on to one that it spawns in the runtime of this number.
#[inline]
fn leaves_something(cell: &Cell, runtime: u16) -> bool {
    cell.bequeaths() && cell.shared.number == runtime
}

/// Returns the attributes that remain under `SCHED_RESET_ON_FORK`, by sched(7): no real-time policy and no nice value
/// below 0. The attributes that Runyard adds to Linux are reset too. The cookie stays, as on Linux.
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
