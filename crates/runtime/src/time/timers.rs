//! Who waits for the engine's timers, and how they are woken.
//!
//! The engine's queue of a CPU says when a timer expires, a table beside it whom that wakes. Both are
//! changed with the table's lock, which comes before the run queue's. A place in the table is named by
//! the timer's token, with a generation: what has expired and is not yet served may be cancelled, and
//! then wakes nobody, whoever has the place by then. The token says as well whether the timer is
//! periodic, which is in the queue again by then.
//!
//! A periodic timer stays armed while its task does something else. If it expires again before the task
//! waits for it, it lapses: nobody is there to be woken, and the CPU is not to be. The task, which reads
//! the clock, arms another when it waits again. (Rejected: to count what expired unseen. The clock says
//! the same, also of the time between the expiry and the task's poll, of which the queue cannot know.)
//!
//! Invariants: nobody is woken before their time, or by a timer that was cancelled; an entry of the table
//! has a timer in the queue, or one that has expired and is about to be served.

use crate::deferred::errands::Bell;
use crate::deferred::rubbish::{Rubbish, discard};
use crate::os::here;
use crate::os::sync::{Arc, Mutex, MutexGuard, lock};
use crate::protocol::places::Places;
use crate::runtime::{current, is_current};
use crate::shared::Shared;
use crate::task::Cell;
use crate::worker::current::without_preemption;
use crate::worker::{Worker, ring};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{Expiry, Lack, TimerId, TimerRoom, Token, Window};
use std::task::Waker;

/// Who waits for the timers of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Table {
    waiters: Places<Waiter>,
    /// How many there ever were: tells those apart that have the same place.
    generation: u32,
}

/// Who waits for a timer.
#[derive(Debug)]
struct Waiter {
    generation: u32,
    timer: TimerId,
    /// When they asked to be woken.
    due: Time,
    /// Nobody, while the task of a periodic timer does something else.
    bell: Option<Bell>,
}

/// The latest at which a window begins or ends, 292 years after the machine's start: one that ended at
/// [`Time::MAX`] would be none to the engine, and the tick after that is no time.
const LAST: Time = Time(i64::MAX as u64);

/// Of a token: the timer is periodic. Below it is the place in the table, above the generation.
const PERIODIC: u64 = 1 << (u32::BITS - 1);

/// What is asked of a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    pub(crate) at: Time,
    pub(crate) slack: Nanos,
    /// Again and again, if there is one.
    pub(crate) period: Option<Nanos>,
}

impl Alarm {
    fn window(self) -> Window {
        Window { soft: self.at.min(LAST), hard: (self.at + self.slack).min(LAST) }
    }
}

/// By what a timer knows its runtime.
#[derive(Debug)]
pub(crate) enum Host {
    /// A task of it: counting who knows a task is nothing that CPUs meet at.
    Task(Arc<Cell>),
    /// Code outside of tasks knows it itself.
    Runtime(Arc<Shared>),
}

/// An armed timer. It is cancelled when this is dropped.
#[derive(Debug)]
pub(crate) struct Armed {
    host: Host,
    cpu: CpuId,
    token: Token,
}

/// What a timer that expired comes to.
enum Served {
    /// Somebody is woken, who could have run since then.
    Wakes(Bell, Time),
    /// It is periodic, and nobody waits for it any more.
    Lapses,
    /// It was cancelled, or its task was there before.
    Nothing,
}

fn is_periodic(Token(token): Token) -> bool {
    token & PERIODIC != 0
}

fn place(Token(token): Token) -> usize {
    (token % PERIODIC) as usize
}

impl Table {
    fn at(&mut self, token: Token) -> Option<&mut Waiter> {
        let waiter = self.waiters.get_mut(place(token))?;
        (waiter.generation == (token.0 >> u32::BITS) as u32).then_some(waiter)
    }

    fn remove(&mut self, token: Token) -> Option<Waiter> {
        self.at(token)?;
        Some(self.waiters.remove(place(token)))
    }

    /// Whose time has come by the timer of `token`.
    fn serve(&mut self, token: Token, now: Time) -> Served {
        let Some(waiter) = self.at(token) else { return Served::Nothing };
        if now < waiter.due {
            return Served::Nothing;
        }
        let due = waiter.due;
        match waiter.bell.take() {
            None => Served::Lapses,
            Some(bell) => {
                if !is_periodic(token) {
                    self.remove(token);
                }
                Served::Wakes(bell, due)
            }
        }
    }
}

impl Shared {
    /// Whether anybody waits for a timer.
    pub(crate) fn has_timers(&self) -> bool {
        let waits = |table: &Mutex<Table>| lock(table).waiters.len() > 0;
        self.timers.iter().any(|table| without_preemption(|| waits(table)))
    }

    fn table(&self, cpu: CpuId) -> MutexGuard<'_, Table> {
        lock(&self.timers[cpu.index()])
    }

    /// Arms a timer on the CPU of the calling worker, or on the first. If there is no room: what is lacking.
    fn arm(&self, alarm: Alarm, bell: &mut Option<Bell>) -> Result<(CpuId, Token), (CpuId, Lack)> {
        let cpu = self.here(Worker::cpu).or_else(here::cpu).unwrap_or_default();
        let window = alarm.window();
        let token = self.enter_timer(cpu, window, alarm.period, bell)?;
        self.tell(cpu, || What::TimerArmed);
        let looks = self.here(|worker| {
            worker.arm_sooner();
            worker.owns()
        });
        // Who owns the slot may sleep for longer than that, or its timer be set to later.
        let is_first = || self.machine.next_expiry(cpu).is_none_or(|first| window.hard <= first);
        if looks != Some(true) && self.paused.is_none() && is_first() {
            ring(self, cpu);
        }
        Ok((cpu, token))
    }

    fn enter_timer(
        &self,
        cpu: CpuId,
        window: Window,
        period: Option<Nanos>,
        bell: &mut Option<Bell>,
    ) -> Result<Token, (CpuId, Lack)> {
        let mut table = self.table(cpu);
        let generation = table.generation.wrapping_add(1);
        let place = table.waiters.next() as u64;
        assert!(place < PERIODIC, "fewer timers fit into memory");
        let repeats = if period.is_some() { PERIODIC } else { 0 };
        let token = Token(u64::from(generation) << u32::BITS | repeats | place);
        let timer = self.machine.arm_in_room(cpu, window, period, token);
        let timer = timer.map_err(|lack| (cpu, lack))?;
        table.generation = generation;
        table.waiters.insert(Waiter { generation, timer, due: window.soft, bell: bell.take() });
        Ok(token)
    }

    /// Arms a timer, for which room is made where it lacks. In foreign code.
    fn arm_with_room(self: &Arc<Shared>, alarm: Alarm, bell: &mut Option<Bell>) -> (CpuId, Token) {
        let armed = loop {
            match without_preemption(|| self.arm(alarm, bell)) {
                Ok(armed) => break armed,
                Err(lacking) => self.make_timer_room(alarm.window(), lacking),
            }
        };
        self.serve_late();
        armed
    }

    /// Makes room for a timer. Memory is taken and freed outside of sections.
    #[cold]
    fn make_timer_room(&self, window: Window, (cpu, lack): (CpuId, Lack)) {
        let mut room = TimerRoom::new(lack);
        without_preemption(|| self.machine.reserve_timers_in(cpu, window, &mut room));
    }

    /// A timer of `cpu` expired.
    pub(crate) fn fire(&self, now: Time, cpu: CpuId, expiry: Expiry) {
        let Expiry { token, greedy, .. } = expiry;
        self.tell(cpu, || What::TimerExpired { greedy });
        let mut table = self.table(cpu);
        let served = table.serve(token, now);
        let lapsed = matches!(served, Served::Lapses).then(|| table.remove(token)).flatten();
        if let Some(waiter) = &lapsed {
            self.machine.cancel(cpu, waiter.timer);
        }
        drop(table);
        // Also if it was cancelled since it expired, which is told by who did it.
        if is_periodic(token) {
            self.tell(cpu, || What::TimerArmed);
        }
        if lapsed.is_some() {
            self.tell(cpu, || What::TimerCancelled);
        }
        if let Served::Wakes(bell, due) = served {
            // Whoever armed it has provided for a foreign one, of which nothing is left.
            bell.ring(Some(due)).into_iter().for_each(|bell| discard(Rubbish::Bell(bell)));
        }
    }
}

impl Host {
    fn shared(&self) -> &Arc<Shared> {
        match self {
            Host::Task(cell) => &cell.shared,
            Host::Runtime(shared) => shared,
        }
    }

    /// What wakes by a timer of this runtime. It clones foreign wakers, which is not done with a lock.
    fn bell_of(&self, waker: &Waker) -> Bell {
        let bell = Bell::of(waker);
        self.shared().provide_for(&bell);
        bell
    }

    /// That of the calling code.
    fn current() -> Host {
        let task = crate::task::current::task(|task| {
            task.filter(|cell| is_current(&cell.shared)).cloned()
        });
        task.map_or_else(|| Host::Runtime(current()), Host::Task)
    }
}

impl Armed {
    /// Arms a timer where the calling code runs.
    ///
    /// # Panics
    /// If that belongs to no runtime.
    pub(crate) fn arm(alarm: Alarm, waker: &Waker) -> Armed {
        let host = Host::current();
        let mut bell = Some(host.bell_of(waker));
        let (cpu, token) = host.shared().arm_with_room(alarm, &mut bell);
        Armed { host, cpu, token }
    }

    /// The timer at another time, with the waker that it has. `None` if it wakes nobody any more: it has
    /// expired, or it is periodic and its task does something else.
    pub(crate) fn moved(mut self, alarm: Alarm) -> Option<Armed> {
        let mut bell = self.leave().and_then(|waiter| waiter.bell);
        bell.as_ref()?;
        (self.cpu, self.token) = self.host.shared().arm_with_room(alarm, &mut bell);
        Some(self)
    }

    /// Whether it is one of the calling code's runtime.
    pub(crate) fn is_current(&self) -> bool {
        match &self.host {
            Host::Task(cell) => is_current(&cell.shared),
            Host::Runtime(shared) => is_current(shared),
        }
    }

    /// The same, and on the CPU on which that code runs, if it runs on one.
    pub(crate) fn is_near(&self) -> bool {
        let here = || without_preemption(|| self.host.shared().here(Worker::cpu));
        self.is_current() && here().is_none_or(|cpu| cpu == self.cpu)
    }

    /// Wakes `waker` from now on, when it expires and `due` has come. `false` if it has expired for the
    /// last time.
    pub(crate) fn wakes(&self, due: Time, waker: &Waker) -> bool {
        let ask = |new: Option<Bell>| {
            without_preemption(|| {
                let mut table = self.host.shared().table(self.cpu);
                let waiter = table.at(self.token)?;
                waiter.due = due;
                Some(match new {
                    Some(new) => (true, waiter.bell.replace(new)),
                    None => (waiter.bell.as_ref().is_some_and(|it| it.will_wake(waker)), None),
                })
            })
        };
        // A periodic timer that is waited for again has mostly expired, and has no waker.
        match ask(is_periodic(self.token).then(|| self.host.bell_of(waker))) {
            Some((false, _)) => ask(Some(self.host.bell_of(waker))).is_some(),
            known => known.is_some(),
        }
    }

    /// Cancels the timer. Whoever waited for it, unless it has expired for the last time.
    fn leave(&self) -> Option<Waiter> {
        let Armed { host, cpu, token } = self;
        without_preemption(|| {
            let shared = host.shared();
            let mut table = shared.table(*cpu);
            let waiter = table.remove(*token)?;
            let cancelled = shared.machine.cancel(*cpu, waiter.timer);
            drop(table);
            if cancelled {
                shared.tell(*cpu, || What::TimerCancelled);
            }
            Some(waiter)
        })
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        // With its waker, which is foreign code.
        drop(self.leave());
    }
}
