//! A simulated CPU: its current activity, and the end of it.

use crate::calendar::{Entry, Ticket};
use crate::program::Todo;
use runyard_engine::attr::Policy;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::Resched;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_smp::machine::Work;

/// The activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The CPU is idle.
    Idle,
    /// The CPU works for the scheduler until this time. Interrupts in the meantime extend it.
    Overhead(Time),
    /// The CPU has executed its task since this time.
    Exec(Time),
    /// The CPU is between two stretches, for zero time.
    Between,
}

/// The running task of a CPU. An interrupt needs no other part of a task, because the task's program would cost a cache
/// miss.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) task: TaskId,
    /// The payload that the engine lent to run the task.
    pub(crate) work: Work<()>,
    /// The rest of its current step.
    pub(crate) todo: Todo,
    pub(crate) policy: Policy,
}

/// A simulated CPU. It fills two cache lines, as each event reads both.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Cpu {
    pub(crate) id: CpuId,
    pub(crate) doing: Doing,
    /// The running task.
    pub(crate) curr: Option<Current>,
    /// Whether a switch is due. It is [lazy](Resched::Lazy) only under lazy preemption.
    pub(crate) resched: Resched,
    /// Another CPU's request to reschedule is on its way to this CPU.
    pub(crate) kick_in_flight: bool,
    /// The number of tasks on their way to this CPU.
    pub(crate) inbound: u32,
    /// The CPU's published state is held back.
    pub(crate) silent: bool,
    /// The time for which the timer hardware is set.
    pub(crate) programmed: Time,
    /// The time of its interrupt, which may be later.
    pub(crate) interrupt_at: Time,
    ticket: Ticket,
    /// The end of the current activity if it lies after the next interrupt. Most likely it never happens.
    put_off: Option<Entry>,
}

impl Cpu {
    pub(crate) fn new(id: CpuId) -> Cpu {
        Cpu {
            id,
            doing: Doing::Idle,
            curr: None,
            resched: Resched::No,
            kick_in_flight: false,
            inbound: 0,
            silent: false,
            programmed: Time::MAX,
            interrupt_at: Time::MAX,
            ticket: Ticket::default(),
            put_off: None,
        }
    }

    /// Returns the running task.
    pub(crate) fn task(&self) -> Option<TaskId> {
        self.curr.as_ref().map(|curr| curr.task)
    }

    /// Issues a new ticket, which invalidates all earlier ones.
    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.ticket = self.ticket.next();
        self.put_off = None;
        self.ticket
    }

    /// Returns the end of the current activity if the calendar needs it now, because no interrupt comes before it.
    pub(crate) fn comes_next(&mut self, end: Entry) -> Option<Entry> {
        let waits = self.interrupt_at < end.at();
        self.put_off = waits.then_some(end);
        (!waits).then_some(end)
    }

    /// Takes the deferred end if the calendar needs it now.
    pub(crate) fn take_put_off(&mut self) -> Option<Entry> {
        let end = self.put_off.take()?;
        self.comes_next(end)
    }

    pub(crate) fn honours(&self, ticket: Ticket) -> bool {
        self.ticket == ticket
    }

    /// Returns whether every decision about this CPU has taken effect on it.
    pub(crate) fn is_settled(&self) -> bool {
        !self.resched.is_due() && !self.kick_in_flight && self.inbound == 0 && !self.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_two_cache_lines() {
        assert_eq!(size_of::<Cpu>(), 128);
    }
}
