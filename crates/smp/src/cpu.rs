//! One CPU: its run queue behind a lock, and the state that it publishes with the lock held.
//!
//! Legend of access: `(l)` under the lock.

use crate::control::{Home, Tag};
use crate::groups::GroupTable;
use crate::hints::{Hints, Snapshot};
use crate::host::{Controlled, Effects, tag};
use crate::progress::Balance;
use crate::sight::Sight;
use crate::sync::{Mutex, MutexGuard, lock};
use runyard_engine::attr::{Cookie, GroupId};
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::UsageOnCpu;
use runyard_engine::run_queue::{Importance, NextExpiries, Resched, Room, RunQueue};
use runyard_engine::task::Task;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Token;

/// The run queue of a machine.
pub(crate) type Queue<W> = RunQueue<W, GroupTable>;

/// The state of one CPU, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Cpu<W>(Mutex<Locked<W>>);

/// (l) The state that a run-queue lock protects.
#[derive(Debug)]
pub(crate) struct Locked<W> {
    pub(crate) rq: Queue<W>,
    /// The state that this CPU published last.
    published: Snapshot,
    published_expiries: NextExpiries,
    /// The CPU publishes nothing until [`OneCpu::publish`]. The value is the highest importance that it has had since
    /// its last publication.
    held_back: Option<Importance>,
    /// The highest importance that this CPU had when a task was taken from it while it stood still; `None` from its
    /// next switch on.
    relieved: Option<Importance>,
    pub(crate) balance: Balance,
    /// The number of times that this CPU published a change of [`Hints::pushable`].
    overload_changes: u64,
}

/// One CPU of a machine, with what it sees of the others.
#[derive(Debug)]
pub struct OneCpu<'a, W> {
    pub(crate) sight: &'a Sight,
    at: CpuId,
    queue: &'a Mutex<Locked<W>>,
}

/// One CPU that no other thread uses.
#[derive(Debug)]
pub struct Unshared<'a, W> {
    at: CpuId,
    hints: &'a Hints,
    locked: &'a mut Locked<W>,
}

/// The consequence of a change of a run queue for its CPU and for other CPUs.
#[must_use = "`Cpus::react` acts on it; without that a CPU is not asked to switch, push or pull"]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta {
    pub(crate) resched: Resched,
    pub(crate) importance: Importance,
    /// The change is not published yet.
    pub(crate) held_back: bool,
    /// The importance of the CPU is lower than before, or than it was in between or when it was relieved.
    pub(crate) lowered: bool,
    /// There are real-time tasks to push.
    pub(crate) pushable: bool,
    /// Budget was given back for which another CPU waits.
    pub(crate) refilled: bool,
}

impl Delta {
    /// Returns the consequence for a CPU with the same importance as at its last publication, and without pushable
    /// tasks.
    #[inline]
    fn nothing_new<W>(rq: &Queue<W>, importance: Importance) -> Delta {
        let (resched, refilled) = (rq.resched(), rq.queues().news().is_any());
        let (held_back, lowered, pushable) = (false, false, false);
        Delta { resched, importance, held_back, lowered, pushable, refilled }
    }
}

impl<W> Cpu<W> {
    pub(crate) fn new(rq: Queue<W>, balance: Balance) -> Cpu<W> {
        Cpu(Mutex::new(Locked {
            rq,
            published: Snapshot::NOTHING,
            published_expiries: NextExpiries::NEVER,
            held_back: None,
            relieved: None,
            balance,
            overload_changes: 0,
        }))
    }

    #[inline]
    pub(crate) fn with_sight<'a>(&'a self, sight: &'a Sight, at: CpuId) -> OneCpu<'a, W> {
        OneCpu { sight, at, queue: &self.0 }
    }

    /// Returns the CPU without its lock.
    ///
    /// # Panics
    /// As a lock of it.
    pub(crate) fn unshared<'a>(&'a mut self, hints: &'a Hints, at: CpuId) -> Unshared<'a, W> {
        let locked = self.0.get_mut().expect("no thread panicked with this lock held");
        Unshared { at, hints, locked }
    }
}

impl<'a, W: Controlled> OneCpu<'a, W> {
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'a, Locked<W>> {
        lock(self.queue)
    }

    /// Publishes that the CPU is online. It has no task yet, so no step follows.
    pub(crate) fn open(&self) {
        self.sight.hints.online.set(self.at, true);
        let mut locked = self.lock();
        let _ = self.publish(&mut locked);
        self.sight.hints.publish_times(self.at, &locked.rq);
    }

    /// Calls `ask` with the run queue, under its lock.
    pub fn inspect<R>(&self, ask: impl FnOnce(&Queue<W>) -> R) -> R {
        ask(&self.lock().rq)
    }

    /// Returns whether the CPU should call [`Machine::schedule`](crate::machine::Machine::schedule).
    pub fn resched(&self) -> Resched {
        self.lock().rq.resched()
    }

    /// Returns the number of times that the CPU became overloaded, or no longer was: the number of its writes of the
    /// mask of CPUs with real-time tasks to push (`rto_mask`).
    #[must_use]
    pub fn overload_changes(&self) -> u64 {
        self.lock().overload_changes
    }

    /// Returns the cookie that forces the CPU to idle, if it is forced idle. In that case tasks wait on the CPU while
    /// its core runs tasks with this cookie, or tasks without a cookie.
    #[must_use]
    pub fn forced_idle(&self) -> Option<Option<Cookie>> {
        self.sight.cores.as_ref()?;
        self.inspect(|rq| rq.classes().forced_idle())
    }

    /// Sets the time for which a tick leaves this CPU to a fair task, even beyond its slice
    /// ([`set_least_turn`](runyard_engine::run_queue::Classes::set_least_turn)).
    pub fn set_least_turn(&self, turn: Nanos) {
        self.lock().rq.classes_mut().set_least_turn(turn);
    }

    /// Reserves memory for tasks and group queues, which the caller allocated before, outside the lock. The old memory
    /// is left in `room`.
    pub fn reserve_in(&self, room: &mut Room<W>) {
        self.lock().rq.reserve_in(room);
    }

    /// Charges a group for CPU time that its tasks used without being picked, after they had lost this CPU. Returns
    /// whether the group has no budget left. If the last of these tasks has left the group and the group was removed,
    /// no group is charged.
    pub fn charge_unpicked(&self, now: Time, group: GroupId, span: Nanos) -> bool {
        if group == GroupId::ROOT {
            return false;
        }
        let mut locked = self.lock();
        self.sight.groups.is_there(group) && locked.rq.charge_unpicked(now, group, span)
    }

    /// Reduces the debts of a group and of those above it, each to the budget of one period: for CPU time that the host
    /// could not keep the group from using. A group that was removed has none.
    pub fn forgive(&self, now: Time, group: GroupId) {
        let locked = self.lock();
        if self.sight.groups.is_there(group) {
            locked.rq.queues().forgive(now, group);
        }
    }

    /// Returns the CPU time that a group with a limit used here, and its throttling here. It is zero if the group never
    /// had a task on this CPU.
    #[must_use]
    pub fn usage(&self, now: Time, group: GroupId) -> Option<UsageOnCpu> {
        self.inspect(|rq| rq.queues().usage(now, group))
    }

    /// Removes the load of a task that wakes on another CPU from the averages of this CPU, where it fell asleep.
    /// Nothing else changes here, so no reaction is needed.
    pub(crate) fn withdraw(&self, now: Time, task: &mut Task<W>, fx: &mut impl Effects<W>) {
        let mut locked = self.lock();
        locked.rq.classes_mut().queues_mut().withdraw(now, task);
        self.sight.hints.publish_averages(self.at, &locked.rq);
        drop(locked);
        fx.touched(self.at);
    }

    /// Calls `f` with the state of this CPU's balance, under the lock.
    pub(crate) fn balance<R>(&self, f: impl FnOnce(&mut Balance) -> R) -> R {
        f(&mut self.lock().balance)
    }

    /// Changes the run queue under its lock, and publishes the change. The caller must
    /// [react](crate::cpus::Cpus::react).
    pub(crate) fn change<R>(
        &self,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Delta) {
        self.change_locked(&mut self.lock(), fx, f)
    }

    #[inline(always)]
    fn change_locked<R>(
        &self,
        locked: &mut Locked<W>,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Delta) {
        locked.rq.classes_mut().set_outside(fx.first_outside(self.at));
        let result = f(&mut locked.rq);
        (result, self.publish_after(locked, fx))
    }

    /// Does the same as [`OneCpu::change`] for a switch of the CPU.
    pub(crate) fn switch<R>(
        &self,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Delta) {
        let mut locked = self.lock();
        let (result, mut delta) = self.change_locked(&mut locked, fx, f);
        if let Some(was) = locked.relieved.take() {
            match &mut locked.held_back {
                Some(highest) => *highest = was.max(*highest),
                None => delta.lowered |= delta.importance < was,
            }
        }
        (result, delta)
    }

    /// Does the same as [`OneCpu::change`] for operations that take a task out.
    pub(crate) fn detach<R>(
        &self,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Resched) {
        let (result, delta) = self.change(fx, f);
        (result, delta.resched)
    }

    /// Does the same as [`OneCpu::detach`] for a CPU that stands still. If it becomes less important by that, it pulls
    /// at its [next switch](OneCpu::switch): a task that is pulled before would wait there, too.
    pub(crate) fn relieve<R>(
        &self,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Resched) {
        let mut locked = self.lock();
        let was = locked.rq.classes().load().importance;
        let (result, delta) = self.change_locked(&mut locked, fx, f);
        if delta.importance < was {
            locked.relieved = locked.relieved.max(Some(was));
        }
        (result, delta.resched)
    }

    /// Publishes a change of the run queue, unless the host delays publication.
    #[inline(always)]
    pub(crate) fn publish_after(&self, locked: &mut Locked<W>, fx: &mut impl Effects<W>) -> Delta {
        fx.touched(self.at);
        self.tell_throttlings(locked, fx);
        if locked.held_back.is_some() || fx.hold_back(self.at) {
            return self.hold_back(locked);
        }
        self.publish(locked)
    }

    #[inline(never)]
    fn hold_back(&self, locked: &mut Locked<W>) -> Delta {
        self.publish_expiry(locked);
        let importance = locked.rq.classes().load().importance;
        locked.held_back = locked.held_back.max(Some(importance));
        Delta { held_back: true, ..Delta::nothing_new(&locked.rq, importance) }
    }

    /// Publishes the changes since this CPU's last publication.
    #[inline(always)]
    pub(crate) fn publish(&self, locked: &mut Locked<W>) -> Delta {
        self.publish_expiry(locked);
        if !self.sight.starts.is_empty() {
            self.sight.hints.publish_clock(self.at, locked.rq.queues().clock());
        }
        if let Some(bounds) = locked.rq.batch_bounds() {
            self.sight.hints.publish_bound(self.at, bounds.vruntime);
        }
        if locked.held_back.is_none() && locked.published.still_holds(&locked.rq) {
            return Delta::nothing_new(&locked.rq, locked.published.load.importance);
        }
        self.publish_load(locked)
    }

    #[inline(never)]
    fn publish_load(&self, locked: &mut Locked<W>) -> Delta {
        let hints = &self.sight.hints;
        let new = Snapshot::of(&locked.rq);
        let old = std::mem::replace(&mut locked.published, new);
        hints.publish(self.at, old, new);
        locked.overload_changes += u64::from(new.is_overloaded() != old.is_overloaded());
        hints.publish_averages(self.at, &locked.rq);
        if new.is_idle() != old.is_idle() {
            hints.publish_times(self.at, &locked.rq);
        }
        let (load, was) = (new.load, old.load);
        // The CPU may have passed over other tasks for a task that it had in the meantime.
        let highest = locked.held_back.take().max(Some(was.importance));
        Delta {
            lowered: Some(load.importance) < highest,
            pushable: load.pushable.is_some(),
            ..Delta::nothing_new(&locked.rq, load.importance)
        }
    }

    pub(crate) fn publish_expiry(&self, locked: &mut Locked<W>) {
        let next = locked.rq.next_expiries();
        if next != std::mem::replace(&mut locked.published_expiries, next) {
            self.sight.hints.publish_expiries(self.at, next);
        }
    }

    /// Reports to the host each change of throttling, and whether a timer was set, since the last report.
    pub(crate) fn tell_throttlings(&self, locked: &mut Locked<W>, fx: &mut impl Effects<W>) {
        if locked.rq.queues().news().is_any() {
            if locked.rq.news_mut().take_timer() {
                fx.timer_set(self.at);
            }
            locked.rq.news_mut().drain_throttlings(|throttling| fx.throttling(self.at, throttling));
        }
    }

    /// Asserts the invariants of the run queue, and that the hints of the CPU are up to date, unless the host holds
    /// them back.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub(crate) fn check(&self) {
        let locked = self.lock();
        if locked.held_back.is_none() {
            let is = Snapshot::of(&locked.rq);
            assert_eq!(
                locked.published, is,
                "CPU {} has published its state\n{}",
                self.at, locked.rq
            );
            self.sight.hints.check(self.at, is, &locked.rq);
        }
        locked.rq.check();
        for (slot, task) in locked.rq.tasks().iter() {
            let home = tag(task).map(Tag::home);
            let known = home.is_none_or(|home| home == Home::At(self.at, slot));
            assert!(known, "{} knows its home, {home:?}\n{}", task.id, locked.rq);
        }
    }
}

impl<W> Unshared<'_, W> {
    /// Prefetches the data that an event of the CPU needs and that is `hops` pointers away from its run queue
    /// ([`RunQueue::read_ahead`]). It serves simulators of machines that are larger than the caches.
    pub fn read_ahead(&self, hops: u32) -> u64 {
        let read = self.locked.rq.read_ahead(hops);
        match hops {
            0 => {
                let published =
                    self.locked.published.load.load ^ self.locked.balance.next_balance.0;
                read ^ published ^ self.hints.read_ahead(self.at)
            }
            _ => read,
        }
    }

    /// Does the same as [`Unshared::read_ahead`] for the data that the timers of the CPU need.
    pub fn read_timers(&mut self, hops: u32) -> u64 {
        self.locked.rq.timers().read_ahead(hops)
    }

    /// Returns the token of the timer that expires first.
    pub fn first_timer(&mut self) -> Option<Token> {
        self.locked.rq.timers().first_token()
    }
}
