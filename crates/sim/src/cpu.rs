//! A simulated CPU: what it does at the moment, and until when.

use crate::calendar::{Entry, Ticket};
use crate::program::Todo;
use runyard_engine::attr::Policy;
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_smp::machine::Work;

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Nothing.
    Idle,
    /// Work for the scheduler, until the time; interrupts that come meanwhile make it longer.
    Overhead(Time),
    /// Instructions of its task, since the time.
    Exec(Time),
    /// Between two stretches, for no time.
    Between,
}

/// Who has a CPU. An interrupt looks at nothing else of a task, since its program is far away.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) task: TaskId,
    /// What the engine lent to run it.
    pub(crate) work: Work<()>,
    /// What is left of its step.
    pub(crate) todo: Todo,
    pub(crate) policy: Policy,
}

/// Of two cache lines, as each event looks at both.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Cpu {
    pub(crate) id: CpuId,
    pub(crate) doing: Doing,
    /// Who has the CPU.
    pub(crate) curr: Option<Current>,
    /// A switch is due as soon as the CPU can.
    pub(crate) resched: bool,
    /// Another CPU's request to reschedule is on its way here.
    pub(crate) kick_in_flight: bool,
    /// Tasks on their way here.
    pub(crate) inbound: u32,
    /// What this CPU has to say is held back.
    pub(crate) silent: bool,
    /// For when the timer hardware is set.
    pub(crate) programmed: Time,
    /// When it will interrupt, which may be later.
    pub(crate) interrupt_at: Time,
    ticket: Ticket,
    /// The end of what it does, which comes after its next interrupt and so most likely never.
    put_off: Option<Entry>,
}

impl Cpu {
    pub(crate) fn new(id: CpuId) -> Cpu {
        Cpu {
            id,
            doing: Doing::Idle,
            curr: None,
            resched: false,
            kick_in_flight: false,
            inbound: 0,
            silent: false,
            programmed: Time::MAX,
            interrupt_at: Time::MAX,
            ticket: Ticket::default(),
            put_off: None,
        }
    }

    /// Who has the CPU.
    pub(crate) fn task(&self) -> Option<TaskId> {
        self.curr.as_ref().map(|curr| curr.task)
    }

    /// A new ticket; whatever was to come with an older one is void.
    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.ticket = self.ticket.next();
        self.put_off = None;
        self.ticket
    }

    /// The end of what it does, if that has to be in the calendar now: no interrupt comes before it.
    pub(crate) fn comes_next(&mut self, end: Entry) -> Option<Entry> {
        let waits = self.interrupt_at < end.at();
        self.put_off = waits.then_some(end);
        (!waits).then_some(end)
    }

    /// What was put off, if it must not be any longer.
    pub(crate) fn take_put_off(&mut self) -> Option<Entry> {
        let end = self.put_off.take()?;
        self.comes_next(end)
    }

    pub(crate) fn honours(&self, ticket: Ticket) -> bool {
        self.ticket == ticket
    }

    /// Whether everything that was decided about this CPU has taken effect on it.
    pub(crate) fn is_settled(&self) -> bool {
        !self.resched && !self.kick_in_flight && self.inbound == 0 && !self.silent
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
