//! The waiters for the engine's timers, and their wake-ups.
//!
//! The engine's queue of a CPU knows when a timer expires. A table beside it has the waiter that the timer wakes. Both
//! change under the table's lock, which is taken before the run queue's. A timer's token names a place in the table,
//! with a generation. So a timer that has expired and is not yet served may be cancelled. It then wakes no task, even
//! if another timer has the place by then. The token also says whether the timer is periodic: such a timer is already
//! in the queue again when it is served.
//!
//! A periodic timer stays armed while its task does other work. If it expires again before the task waits for it, it
//! lapses: there is no waiter to wake, and the CPU should not be woken. The task reads the clock, and arms another
//! timer when it waits again. Rejected: to count the expiries without a waiter. The clock gives the same number. It
//! also covers the time between the expiry and the task's poll, which the queue does not know.
//!
//! Invariants: no task is woken early, or by a timer that was cancelled; an entry of the table has a timer in the
//! queue, or one that has expired and is about to be served.

use crate::crew::kick::{KickNow, ring};
use crate::current::runtime::{current, is_current};
use crate::deferred::errands::Bell;
use crate::deferred::rubbish::{Rubbish, discard};
use crate::os::above::without_preemption;
use crate::os::here;
use crate::os::sync::{Arc, Mutex, MutexGuard, lock};
use crate::protocol::places::Places;
use crate::shared::{Scheduler, Shared};
use crate::task::{Cell, Job};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::Expired;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{Expiry, Lack, TimerId, TimerRoom, Token, Walk, Window};
use runyard_smp::machine::Machine;
use std::task::Waker;

/// The waiters for the timers of one CPU.
#[derive(Debug, Default)]
struct Table {
    waiters: Places<Waiter>,
    /// Number of timers ever armed. It distinguishes those that have the same place.
    generation: u32,
}

/// A waiter for a timer.
#[derive(Debug)]
struct Waiter {
    generation: u32,
    timer: TimerId,
    /// Time at which the waiter asked to be woken.
    due: Time,
    /// The bell that wakes the waiter. None while the task of a periodic timer does other work.
    bell: Option<Bell>,
}

/// The latest begin or end of a window, 292 years after the machine's start. For the engine, a window that ends at
/// [`Time::MAX`] would be none, and the tick after it would overflow.
const LAST: Time = Time(i64::MAX as u64);

/// The bit of a token that marks a periodic timer. Below it is the place in the table, and above it the generation.
const PERIODIC: u64 = 1 << (u32::BITS - 1);

/// A request for a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    pub(crate) at: Time,
    pub(crate) slack: Nanos,
    /// The period, if the timer is periodic.
    pub(crate) period: Option<Nanos>,
}

impl Alarm {
    fn window(self) -> Window {
        Window { soft: self.at.min(LAST), hard: (self.at + self.slack).min(LAST) }
    }
}

/// The reference of a timer to its runtime.
#[derive(Debug)]
pub(crate) enum Host {
    /// By a task of the runtime. CPUs do not contend for the reference count of a task.
    Task(Arc<Cell>),
    /// Directly, for code outside of tasks.
    Runtime(Arc<Shared>),
}

/// An armed timer. It is cancelled when this is dropped.
#[derive(Debug)]
pub(crate) struct Armed {
    host: Host,
    cpu: CpuId,
    token: Token,
}

/// The effect of a timer that expired.
enum Served {
    /// It wakes its waiter, which is runnable since that time.
    Wakes(Bell, Time),
    /// It is periodic, and no task waits for it any more.
    Lapses,
    /// It was cancelled, or moved to a later time.
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

    /// Returns the effect of the timer of `token`, and takes the bell to be rung.
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

/// The waiters for the timers of each CPU.
#[derive(Debug)]
pub(crate) struct Timers(Box<[Mutex<Table>]>);

impl Timers {
    pub(crate) fn new(cpus: usize) -> Timers {
        Timers((0..cpus).map(|_| Mutex::default()).collect())
    }

    /// Returns whether any timer has a waiter.
    pub(super) fn has_any(&self) -> bool {
        let waits = |table: &Mutex<Table>| lock(table).waiters.len() > 0;
        self.0.iter().any(|table| without_preemption(|| waits(table)))
    }

    fn table(&self, cpu: CpuId) -> MutexGuard<'_, Table> {
        lock(&self.0[cpu.index()])
    }

    /// Arms a timer on the CPU of the calling worker, or on the first CPU. If there is no room, returns which room is
    /// lacking.
    fn arm(
        &self,
        scheduler: &Scheduler,
        alarm: Alarm,
        bell: &mut Option<Bell>,
    ) -> Result<(CpuId, Token), (CpuId, Lack)> {
        let cpu =
            scheduler.here(|worker| worker.thread.cpu()).or_else(here::cpu).unwrap_or_default();
        let window = alarm.window();
        let token = self.enter(scheduler.machine(), cpu, alarm, bell)?;
        scheduler.tell(cpu, || What::TimerArmed);
        let looks = scheduler.here(|worker| {
            worker.thread.arm_sooner(scheduler.machine());
            worker.thread.owns()
        });
        // The owner of the slot may sleep for longer than that, or have set its timer to a later time.
        let is_first = || {
            scheduler.machine().sight().next_expiry(cpu).is_none_or(|first| window.hard <= first)
        };
        if looks != Some(true) && scheduler.paused().is_none() && is_first() {
            ring(scheduler, cpu);
        }
        Ok((cpu, token))
    }

    fn enter(
        &self,
        machine: &Machine<Job>,
        cpu: CpuId,
        alarm: Alarm,
        bell: &mut Option<Bell>,
    ) -> Result<Token, (CpuId, Lack)> {
        let (window, period) = (alarm.window(), alarm.period);
        let mut table = self.table(cpu);
        let generation = table.generation.wrapping_add(1);
        let place = table.waiters.next() as u64;
        assert!(place < PERIODIC, "memory cannot hold so many timers");
        let repeats = if period.is_some() { PERIODIC } else { 0 };
        let token = Token(u64::from(generation) << u32::BITS | repeats | place);
        let timer = machine.cpu(cpu).arm_in_room(window, period, token);
        let timer = timer.map_err(|lack| (cpu, lack))?;
        table.generation = generation;
        table.waiters.insert(Waiter { generation, timer, due: window.soft, bell: bell.take() });
        Ok(token)
    }

    /// Serves a timer of `cpu` that expired.
    pub(crate) fn fire(&self, scheduler: &Scheduler, now: Time, cpu: CpuId, expiry: Expiry) {
        let Expiry { token, greedy, .. } = expiry;
        scheduler.tell(cpu, || What::TimerExpired { greedy });
        let mut table = self.table(cpu);
        let served = table.serve(token, now);
        let lapsed = matches!(served, Served::Lapses).then(|| table.remove(token)).flatten();
        if let Some(waiter) = &lapsed {
            scheduler.machine().cpu(cpu).cancel(waiter.timer);
        }
        drop(table);
        // This event is also due if the timer was cancelled after it expired. The cancelling code reports the
        // cancellation.
        if is_periodic(token) {
            scheduler.tell(cpu, || What::TimerArmed);
        }
        if lapsed.is_some() {
            scheduler.tell(cpu, || What::TimerCancelled);
        }
        if let Served::Wakes(bell, due) = served {
            // The code that armed the timer has provided for a foreign bell, so that nothing of it is left here.
            bell.ring(Some(due)).into_iter().for_each(|bell| discard(Rubbish::Bell(bell)));
        }
    }

    /// Serves the due timers of all CPUs, when no worker does any more. Returns the time at which the next one is due.
    pub(super) fn serve_all(&self, scheduler: &Scheduler, now: Time) -> Option<Time> {
        let machine = scheduler.machine();
        let cpus = || machine.config().topology.iter();
        for cpu in cpus() {
            let fx = &mut KickNow(scheduler);
            while let Some(expired) = machine.expire(now, cpu, Walk::Idle, fx) {
                if let Expired::Timer(expiry) = expired {
                    self.fire(scheduler, now, cpu, expiry);
                }
            }
        }
        cpus().filter_map(|cpu| machine.sight().next_expiry(cpu)).min()
    }
}

impl Host {
    fn shared(&self) -> &Arc<Shared> {
        match self {
            Host::Task(cell) => &cell.shared,
            Host::Runtime(shared) => shared,
        }
    }

    /// Arms a timer, and makes room for it if that is lacking: memory is allocated and freed outside of sections. Called
    /// in foreign code.
    fn arm(&self, alarm: Alarm, bell: &mut Option<Bell>) -> (CpuId, Token) {
        let shared = self.shared();
        let armed = loop {
            match without_preemption(|| shared.timers.arm(&shared.scheduler, alarm, bell)) {
                Ok(armed) => break armed,
                Err(lacking) => make_room(shared.scheduler.machine(), alarm.window(), lacking),
            }
        };
        shared.serve_late();
        armed
    }

    /// Returns the bell that a timer of this runtime rings. It clones foreign wakers, so no lock may be held.
    fn bell_of(&self, waker: &Waker) -> Bell {
        let bell = Bell::of(waker);
        self.shared().provide_for(&bell);
        bell
    }

    /// Returns the reference to the runtime of the calling code.
    fn current() -> Host {
        let task = crate::current::task::task(|task| {
            task.filter(|cell| is_current(cell.shared.number)).cloned()
        });
        task.map_or_else(|| Host::Runtime(current()), Host::Task)
    }
}

/// Makes room for a timer.
#[cold]
fn make_room(machine: &Machine<Job>, window: Window, (cpu, lack): (CpuId, Lack)) {
    let mut room = TimerRoom::new(lack);
    without_preemption(|| machine.cpu(cpu).reserve_timers_in(window, &mut room));
}

impl Armed {
    /// Arms a timer on the CPU where the calling code runs.
    ///
    /// # Panics
    /// If the calling code belongs to no runtime.
    pub(crate) fn arm(alarm: Alarm, waker: &Waker) -> Armed {
        let host = Host::current();
        let mut bell = Some(host.bell_of(waker));
        let (cpu, token) = host.arm(alarm, &mut bell);
        Armed { host, cpu, token }
    }

    /// Moves the timer to another time, with its waker. Returns `None` if it has no waiter any more: it has expired, or
    /// it is periodic and its task does other work.
    pub(crate) fn moved(mut self, alarm: Alarm) -> Option<Armed> {
        let mut bell = self.leave().and_then(|waiter| waiter.bell);
        bell.as_ref()?;
        (self.cpu, self.token) = self.host.arm(alarm, &mut bell);
        Some(self)
    }

    /// Returns whether the timer belongs to the calling code's runtime.
    pub(crate) fn is_current(&self) -> bool {
        is_current(self.host.shared().number)
    }

    /// Returns whether the timer belongs to the calling code's runtime, and is on the CPU on which that code runs, if
    /// it runs on one.
    pub(crate) fn is_near(&self) -> bool {
        let here = || {
            without_preemption(|| self.host.shared().scheduler.here(|worker| worker.thread.cpu()))
        };
        self.is_current() && here().is_none_or(|cpu| cpu == self.cpu)
    }

    /// Sets the waker and the time `due` before which the timer does not wake it. Returns `false` if the timer has
    /// expired for the last time.
    pub(crate) fn wakes(&self, due: Time, waker: &Waker) -> bool {
        let ask = |new: Option<Bell>| {
            without_preemption(|| {
                let mut table = self.host.shared().timers.table(self.cpu);
                let waiter = table.at(self.token)?;
                waiter.due = due;
                Some(match new {
                    Some(new) => (true, waiter.bell.replace(new)),
                    None => (waiter.bell.as_ref().is_some_and(|it| it.will_wake(waker)), None),
                })
            })
        };
        // A periodic timer that is waited for again has usually expired, and has no waker.
        match ask(is_periodic(self.token).then(|| self.host.bell_of(waker))) {
            Some((false, _)) => ask(Some(self.host.bell_of(waker))).is_some(),
            known => known.is_some(),
        }
    }

    /// Cancels the timer. Returns its waiter, unless it has expired for the last time.
    fn leave(&self) -> Option<Waiter> {
        let Armed { host, cpu, token } = self;
        without_preemption(|| {
            let shared = host.shared();
            let mut table = shared.timers.table(*cpu);
            let waiter = table.remove(*token)?;
            let cancelled = shared.scheduler.machine().cpu(*cpu).cancel(waiter.timer);
            drop(table);
            if cancelled {
                shared.scheduler.tell(*cpu, || What::TimerCancelled);
            }
            Some(waiter)
        })
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        // The waiter's waker is foreign code.
        drop(self.leave());
    }
}
