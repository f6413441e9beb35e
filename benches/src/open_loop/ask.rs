//! What is asked of a scheduler for each class of requests, on the runtime and in the simulator.

use super::mix::Class;
use runyard::{Task, TaskBuilder};
use runyard_engine::attr::{LatencyNice, Nice, Policy, RtPrio};

/// The priority of whoever accepts requests: above all who answer them.
pub(crate) const ACCEPTS: u8 = 90;
/// The priority of requests that are real-time.
pub(crate) const SHORT: u8 = 50;

/// What tells the classes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Nothing: first come, first served, without preemption.
    Fcfs,
    /// Nothing: all are SCHED_OTHER at nice 0.
    Fair,
    /// The short class is SCHED_FIFO, the long one SCHED_OTHER at nice 0.
    ShortRt,
    /// All are SCHED_OTHER at nice 0, and the short class has the lowest latency nice.
    ShortLatencyNice,
}

impl Ask {
    pub(crate) fn policy(self, class: Class) -> Policy {
        let fair = Policy::Normal(Nice::default());
        match (self, class) {
            (Ask::Fcfs, _) | (Ask::ShortRt, Class::Short) => fifo(SHORT),
            (Ask::Fair | Ask::ShortLatencyNice, _) | (Ask::ShortRt, Class::Long) => fair,
        }
    }

    pub(crate) fn latency_nice(self, class: Class) -> LatencyNice {
        match (self, class) {
            (Ask::ShortLatencyNice, Class::Short) => LatencyNice::MIN,
            _ => LatencyNice::ZERO,
        }
    }

    /// A request's task on the runtime.
    pub(crate) fn task(self, class: Class) -> TaskBuilder {
        let latency_nice = self.latency_nice(class).get();
        Task::builder().policy(self.policy(class)).latency_nice(latency_nice)
    }
}

pub(crate) fn fifo(priority: u8) -> Policy {
    Policy::Fifo(RtPrio::new(priority.into()).expect("a real-time priority is in 1..=99"))
}
