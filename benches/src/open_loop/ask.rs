//! The scheduling attributes of each class of requests, on the runtime and in the simulator.

use super::mix::Class;
use runyard::{Task, TaskBuilder};
use runyard_engine::attr::{LatencyNice, Nice, Policy, RtPrio};

/// Priority of the task that accepts requests: above all tasks that answer them.
pub(crate) const ACCEPTS: u8 = 90;
/// Priority of real-time requests.
pub(crate) const SHORT: u8 = 50;

/// The difference in scheduling between the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// No difference: first come, first served, without preemption.
    Fcfs,
    /// No difference: all requests are SCHED_OTHER at nice 0.
    Fair,
    /// The short class is SCHED_FIFO, the long one SCHED_OTHER at nice 0.
    ShortRt,
    /// All requests are SCHED_OTHER at nice 0, and the short class has the lowest latency nice.
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

    /// Returns the builder of a request's task on the runtime.
    pub(crate) fn task(self, class: Class) -> TaskBuilder {
        let latency_nice = self.latency_nice(class).get();
        Task::builder().policy(self.policy(class)).latency_nice(latency_nice)
    }
}

pub(crate) fn fifo(priority: u8) -> Policy {
    Policy::Fifo(RtPrio::new(priority.into()).expect("a real-time priority is in 1..=99"))
}
