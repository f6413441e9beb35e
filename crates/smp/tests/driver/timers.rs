//! What a host knows of its timers: none expires before its window opens or after it was cancelled,
//! and of two that are due the one whose window closes first is first.

use super::Payload;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{TimerId, Token, Window};
use runyard_smp::machine::Machine;

/// More timers make a life slower, not richer.
const MAX_TIMERS: usize = 16;

#[derive(Debug)]
struct Armed {
    cpu: CpuId,
    id: TimerId,
    window: Window,
    token: Token,
}

/// The timers of all CPUs.
#[derive(Debug, Default)]
pub(super) struct Timers {
    armed: Vec<Armed>,
    /// Those that expired or were cancelled.
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
            let id = machine.arm(cpu, window, token);
            self.armed.push(Armed { cpu, id, window, token });
        }
    }

    pub(super) fn rearm(&mut self, machine: &Machine<Payload>, nth: u8, now: Time, bytes: [u8; 2]) {
        let window = window(now, bytes);
        if let Some(at) = super::nth(self.armed.len(), nth) {
            let timer = &mut self.armed[at];
            assert!(machine.rearm(timer.cpu, timer.id, window), "it was armed");
            timer.window = window;
        }
        if let Some(at) = super::nth(self.gone.len(), nth) {
            let (cpu, id) = self.gone[at];
            assert!(!machine.rearm(cpu, id, window), "it was gone");
        }
    }

    pub(super) fn cancel(&mut self, machine: &Machine<Payload>, nth: u8) {
        if let Some(at) = super::nth(self.armed.len(), nth) {
            let timer = self.armed.swap_remove(at);
            assert!(machine.cancel(timer.cpu, timer.id), "it was armed");
            self.gone.push((timer.cpu, timer.id));
        }
        if let Some(at) = super::nth(self.gone.len(), nth) {
            let (cpu, id) = self.gone[at];
            assert!(!machine.cancel(cpu, id), "it was gone");
        }
    }

    /// The machine says that the timer of `token` has expired.
    pub(super) fn expires(&mut self, cpu: CpuId, now: Time, token: Token) {
        let found = self.armed.iter().position(|timer| timer.token == token);
        let timer = self.armed.swap_remove(found.expect("only an armed timer expires"));
        assert_eq!(timer.cpu, cpu, "a timer expires where it was armed");
        assert!(timer.window.soft <= now, "{timer:?} expires before its window, at {now}");
        let first = self.hard(cpu).min();
        assert!(first.is_none_or(|hard| timer.window.hard <= hard), "{timer:?} was not first");
        self.gone.push((timer.cpu, timer.id));
    }

    /// All that was due on `cpu` was served.
    pub(super) fn served(&self, cpu: CpuId, now: Time) {
        assert!(self.hard(cpu).all(|hard| hard > now), "a timer is overdue at {now}: {self:?}");
    }

    /// The CPU is woken in time for each of its timers.
    pub(super) fn check(&self, machine: &Machine<Payload>, cpu: CpuId) {
        let next = machine.next_expiry(cpu);
        assert_eq!(
            next,
            machine.inspect(cpu, runyard_engine::run_queue::RunQueue::next_expiry),
            "what is said is true"
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
