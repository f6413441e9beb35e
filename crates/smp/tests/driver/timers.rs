//! The host's model of its timers, with three rules. No timer expires before its window opens or after it was
//! cancelled. Of two timers that may run, the one with the earlier end of its window runs first. An idle CPU leaves no
//! timer with an open window.

use super::Payload;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{Expiry, TimerId, Token, Window};
use runyard_smp::machine::Machine;

/// The largest number of timers. More timers make a life slower, not richer.
const MAX_TIMERS: usize = 16;

#[derive(Debug)]
struct Armed {
    cpu: CpuId,
    id: TimerId,
    window: Window,
    /// The period, or zero for a one-shot timer.
    period: Nanos,
    token: Token,
}

/// The timers of all CPUs.
#[derive(Debug, Default)]
pub(super) struct Timers {
    armed: Vec<Armed>,
    /// The timers that have expired or were cancelled.
    gone: Vec<(CpuId, TimerId)>,
    made: u64,
}

impl Timers {
    pub(super) fn arm(
        &mut self,
        machine: &Machine<Payload>,
        cpu: CpuId,
        now: Time,
        bytes: [u8; 2],
    ) {
        if self.armed.len() < MAX_TIMERS {
            let (window, token) = (window(now, bytes), Token(self.made));
            self.made += 1;
            let period = if bytes[0] % 4 == 1 { super::span(bytes[1]) } else { Nanos::ZERO };
            let id = match period {
                Nanos::ZERO => machine.cpu(cpu).arm(window, token),
                _ => machine.cpu(cpu).arm_periodic(window, period, token),
            };
            self.armed.push(Armed { cpu, id, window, period, token });
        }
    }

    pub(super) fn cancel(&mut self, machine: &Machine<Payload>, nth: u8) {
        if let Some(at) = super::nth(self.armed.len(), nth) {
            let timer = self.armed.swap_remove(at);
            assert!(machine.cpu(timer.cpu).cancel(timer.id), "it was armed");
            self.gone.push((timer.cpu, timer.id));
        }
        if let Some(at) = super::nth(self.gone.len(), nth) {
            let (cpu, id) = self.gone[at];
            assert!(!machine.cpu(cpu).cancel(id), "it was gone");
        }
    }

    /// Checks the expiry that the machine reports for the timer of `token`.
    pub(super) fn expires(&mut self, cpu: CpuId, now: Time, expiry: Expiry) {
        let Expiry { token, greedy, overruns } = expiry;
        let found = self.armed.iter().position(|timer| timer.token == token);
        let mut timer = self.armed.swap_remove(found.expect("only an armed timer expires"));
        assert_eq!(timer.cpu, cpu, "a timer expires where it was armed");
        assert!(timer.window.soft <= now, "{timer:?} expires before its window, at {now}");
        let others = self.armed.iter().filter(|other| other.cpu == cpu);
        let mut rivals = others.filter(|other| !greedy || other.window.soft <= now);
        let first = rivals.all(|other| timer.window.hard <= other.window.hard);
        assert!(first, "{timer:?} was not first");
        if timer.period == Nanos::ZERO {
            assert_eq!(overruns, 0, "{timer:?} expires once");
            return self.gone.push((timer.cpu, timer.id));
        }
        let later = Nanos(timer.period.0 * (overruns + 1));
        let Window { soft, hard } = timer.window;
        timer.window = Window { soft: soft + later, hard: hard + later };
        let late = timer.window.soft.since(now) <= timer.period && timer.window.soft > now;
        assert!(late, "{timer:?} expires next in the period after {now}");
        self.armed.push(timer);
    }

    /// Asserts after a greedy walk on `cpu` that no timer with an open window is left.
    pub(super) fn none_open(&self, cpu: CpuId, now: Time) {
        let open = |timer: &&Armed| timer.cpu == cpu && timer.window.soft <= now;
        assert!(self.armed.iter().find(open).is_none(), "an open timer is left: {self:?}");
    }

    /// Asserts that all expired timers of `cpu` were served.
    pub(super) fn served(&self, cpu: CpuId, now: Time) {
        assert!(self.hard(cpu).all(|hard| hard > now), "a timer is overdue at {now}: {self:?}");
    }

    /// Asserts that the CPU wakes in time for each of its timers.
    pub(super) fn check(&self, machine: &Machine<Payload>, cpu: CpuId) {
        let next = machine.sight().next_expiry(cpu);
        assert_eq!(
            next,
            machine.cpu(cpu).inspect(runyard_engine::run_queue::RunQueue::next_expiry),
            "the reported expiry is right"
        );
        for hard in self.hard(cpu) {
            assert!(next.is_some_and(|next| next <= hard), "CPU {cpu} oversleeps {hard}");
        }
    }

    fn hard(&self, cpu: CpuId) -> impl Iterator<Item = Time> {
        self.armed.iter().filter(move |timer| timer.cpu == cpu).map(|timer| timer.window.hard)
    }
}

fn window(now: Time, [soft, slack]: [u8; 2]) -> Window {
    let soft = now + super::span(soft);
    Window { soft, hard: soft + Nanos(u64::from(slack) * 10_000) }
}
