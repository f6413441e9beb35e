//! The machine: one lock for each CPU's run queue, and published state that CPUs read without locks.
//!
//! At most one run-queue lock is held at a time. Under it, at most one leaf lock is taken: that of a task's control
//! cell, of a group's pools, or of the host in an effect that says so. In machines with cookies, the lock of a core is
//! taken around a switch, before any of these (`beside`). So there is no lock order between CPUs to violate, and a host
//! may be preempted between any two calls. A task that changes CPU is between queues for a moment. The call that
//! carries it owns it, and no other thread sees it. Each CPU's knowledge of other CPUs is stale. Three rules make this
//! sufficient:
//!
//! - **Publish, then look.** A CPU that has a real-time task to push publishes that, fences, and looks for a CPU that
//!   runs a less important task (`Machine::push`). A CPU that comes to run a less important task publishes that,
//!   fences, and looks for CPUs with tasks to pull (`Machine::pull`). Of the two, the CPU with the second fence sees
//!   the other; both may act. So every change of a run queue is published before its lock is released
//!   (`Machine::with`), and its caller reacts after that (`Machine::react`).
//! - **Offer, may be refused.** A choice made on stale hints is checked under the lock of the chosen CPU. A refused
//!   task is sent to another CPU, at most `MAX_REFUSALS` times. Then it returns to the CPU that it came from, which
//!   looks once more.
//! - **Hints never decide alone.** They only select the CPUs to examine.
//!
//! Effects on other CPUs go to the host through [`Effects`], in order.
//!
//! This file has the locks, and the publication under them. The operations are in files above it, each with methods of
//! [`Machine`]: `schedule`, `beside`, `batch`, `expire`, `select`, `carry`, `change`, `react`, `rt`, `balance`,
//! `relieve`, `limits`, `hotplug`, `usage`, `watch`, `check`.
//!
//! Legend of access: `(l)` under the lock.

pub use crate::batch::Loan;
pub use crate::host::{Controlled, Effects, Moving, TaskOf, Work, apply_pending};
pub use crate::sight::Sight;

use crate::groups::GroupTable;
use crate::hints::Snapshot;
use crate::progress::Balance;
use crate::sync::{Arc, Mutex, lock};
use runyard_engine::config::{BadConfig, Config};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::group::Groups;
use runyard_engine::run_queue::{Importance, Meter, NextExpiries, Resched, Room, RunQueue};
use runyard_engine::spec::GroupSpec;

use runyard_engine::timer::Token;

/// The run queue of a machine.
pub(crate) type Queue<W> = RunQueue<W, GroupTable>;

/// The machine, with all its CPUs. See the module's documentation.
#[derive(Debug)]
pub struct Machine<W> {
    pub(crate) sight: Sight,
    pub(crate) cpus: Box<[Cpu<W>]>,
}

/// One CPU, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Cpu<W> {
    pub(crate) queue: Mutex<Locked<W>>,
}

/// (l) The state that a run-queue lock protects.
#[derive(Debug)]
pub(crate) struct Locked<W> {
    pub(crate) rq: Queue<W>,
    /// The state that this CPU published last.
    pub(crate) published: Snapshot,
    published_expiries: NextExpiries,
    /// The CPU publishes nothing until [`Machine::publish_held_back`]. The value is the highest importance that it has
    /// had since its last publication.
    pub(crate) held_back: Option<Importance>,
    pub(crate) balance: Balance,
}

/// The consequence of a change of a run queue for its CPU and for other CPUs.
#[must_use = "`Machine::react` acts on it; without that a CPU is not asked to switch, push or pull"]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta {
    pub(crate) resched: Resched,
    pub(crate) importance: Importance,
    /// The change is not published yet.
    pub(crate) held_back: bool,
    /// The importance of the CPU is lower than before, or than it was in between.
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
        let (resched, refilled) = (rq.resched(), rq.has_news());
        let (held_back, lowered, pushable) = (false, false, false);
        Delta { resched, importance, held_back, lowered, pushable, refilled }
    }
}

impl<W: Controlled> Machine<W> {
    /// Returns a machine of idle CPUs, all online.
    ///
    /// # Errors
    /// If `config` contradicts itself.
    ///
    /// # Panics
    /// If `groups` does not start with the root or a parent does not precede its children.
    pub fn new(config: Config, groups: &[GroupSpec]) -> Result<Machine<W>, BadConfig> {
        Machine::with_room(config, groups, 0)
    }

    /// Does the same as [`Machine::new`], with room for groups to be added later.
    ///
    /// # Errors
    /// If `config` contradicts itself.
    ///
    /// # Panics
    /// As [`Machine::new`].
    pub fn with_room(
        config: Config,
        specs: &[GroupSpec],
        room: usize,
    ) -> Result<Machine<W>, BadConfig> {
        config.validate()?;
        let config = Arc::new(config);
        let n = config.topology.cpus();
        let features = config.features;
        let groups = GroupTable::new(specs, room, n)
            .heeding(features.has(Feature::HardLimits), features.has(Feature::RuntimeShare));
        let groups = if room > 0 { groups.with_room_for_limits() } else { groups };
        groups.set_limits(specs, n);
        let groups = Arc::new(groups);
        let cpu = |cpu| Cpu {
            queue: Mutex::new(Locked {
                rq: RunQueue::new(cpu, config.clone(), groups.clone()),
                published: Snapshot::NOTHING,
                published_expiries: NextExpiries::NEVER,
                held_back: None,
                balance: Balance::new(cpu, config.topology, features),
            }),
        };
        let cpus: Box<[Cpu<W>]> = config.topology.iter().map(cpu).collect();
        let starts = match features.has(Feature::BatchDispatch) {
            true => cpus.iter().filter_map(|cpu| lock(&cpu.queue).rq.start()).collect(),
            false => Box::default(),
        };
        let machine = Machine { sight: Sight::new(config, groups, starts), cpus };
        for cpu in machine.sight.config.topology.iter() {
            machine.sight.hints.online.set(cpu, true);
            let mut locked = lock(&machine.cpus[cpu.index()].queue);
            // A new machine has no task, so no step follows.
            let _ = machine.publish(cpu, &mut locked);
            machine.sight.hints.publish_times(cpu, &locked.rq);
        }
        Ok(machine)
    }

    /// Limits the charge of tasks to the CPU time that `meter` reports, from now on.
    pub fn charge_by(&self, meter: &Arc<dyn Meter>) {
        for cpu in &self.cpus {
            lock(&cpu.queue).rq.charge_by(meter.clone());
        }
    }

    /// Returns what every CPU sees of the machine without a lock.
    #[must_use]
    pub fn sight(&self) -> &Sight {
        &self.sight
    }

    /// Returns the configuration of the machine.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.sight.config
    }

    /// Returns the CPUs of the machine.
    #[must_use]
    pub fn all(&self) -> &CpuSet {
        &self.sight.all
    }

    /// Reserves memory on each CPU for `len` tasks and group queues. Up to that number, [`Machine::wake`],
    /// [`Machine::schedule`] and [`Machine::expire`] do not allocate.
    pub fn reserve(&self, len: usize) {
        for cpu in &self.cpus {
            lock(&cpu.queue).rq.reserve(len);
        }
        let depth = self.sight.groups.count();
        self.sight.cores.iter().for_each(|cores| cores.reserve(depth));
    }

    /// Returns memory for `len` tasks and group queues on one CPU.
    #[must_use]
    pub fn room(&self, len: usize) -> Room<W> {
        Room::new(len, self.sight.has(Feature::Eevdf), self.sight.cores.is_some())
    }

    /// Does the same as [`Machine::reserve`] on one CPU, with memory that the caller allocated before, outside the
    /// lock. The old memory is left in `room`.
    pub fn reserve_in(&self, cpu: CpuId, room: &mut Room<W>) {
        lock(&self.cpus[cpu.index()].queue).rq.reserve_in(room);
    }

    /// Prefetches the data that an event of `cpu` needs and that is `hops` pointers away from its run queue
    /// ([`RunQueue::read_ahead`]). It serves simulators of machines that are larger than the caches.
    pub fn read_ahead(&mut self, cpu: CpuId, hops: u32) -> u64 {
        let Ok(locked) = self.cpus[cpu.index()].queue.get_mut() else { return 0 };
        let read = locked.rq.read_ahead(hops);
        match hops {
            0 => {
                let published = locked.published.load.load ^ locked.balance.next_balance.0;
                read ^ published ^ self.sight.hints.read_ahead(cpu)
            }
            _ => read,
        }
    }

    /// Does the same as [`Machine::read_ahead`] for the data that the timers of `cpu` need.
    pub fn read_timers(&mut self, cpu: CpuId, hops: u32) -> u64 {
        let locked = self.cpus[cpu.index()].queue.get_mut();
        locked.map_or(0, |locked| locked.rq.timers().read_ahead(hops))
    }

    /// Returns the token of the timer that expires first on `cpu`.
    pub fn first_timer_of(&mut self, cpu: CpuId) -> Option<Token> {
        self.cpus[cpu.index()].queue.get_mut().ok()?.rq.timers().first_token()
    }

    /// Calls `ask` with the run queue of `cpu`, under its lock.
    pub fn inspect<R>(&self, cpu: CpuId, ask: impl FnOnce(&Queue<W>) -> R) -> R {
        ask(&lock(&self.cpus[cpu.index()].queue).rq)
    }

    pub(crate) fn with_balance<R>(&self, cpu: CpuId, f: impl FnOnce(&mut Balance) -> R) -> R {
        f(&mut lock(&self.cpus[cpu.index()].queue).balance)
    }

    /// Changes a run queue under its lock, and publishes the change. The caller must [react](Machine::react).
    pub(crate) fn with<R>(
        &self,
        cpu: CpuId,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Delta) {
        let mut locked = lock(&self.cpus[cpu.index()].queue);
        locked.rq.set_outside(fx.first_outside(cpu));
        let result = f(&mut locked.rq);
        (result, self.publish_after(cpu, &mut locked, fx))
    }

    /// Publishes a change of a run queue, unless the host delays publication.
    #[inline(always)]
    pub(crate) fn publish_after(
        &self,
        cpu: CpuId,
        locked: &mut Locked<W>,
        fx: &mut impl Effects<W>,
    ) -> Delta {
        fx.touched(cpu);
        tell_throttlings(cpu, &mut locked.rq, fx);
        if locked.held_back.is_some() || fx.hold_back(cpu) {
            return self.hold_back(cpu, locked);
        }
        self.publish(cpu, locked)
    }

    #[inline(never)]
    fn hold_back(&self, cpu: CpuId, locked: &mut Locked<W>) -> Delta {
        self.publish_expiry(cpu, locked);
        let importance = locked.rq.load().importance;
        locked.held_back = locked.held_back.max(Some(importance));
        Delta { held_back: true, ..Delta::nothing_new(&locked.rq, importance) }
    }

    /// Does the same as [`Machine::with`] for operations that take a task out.
    pub(crate) fn detach<R>(
        &self,
        cpu: CpuId,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Resched) {
        let (result, delta) = self.with(cpu, fx, f);
        (result, delta.resched)
    }

    /// Publishes the changes since this CPU's last publication.
    #[inline(always)]
    pub(crate) fn publish(&self, cpu: CpuId, locked: &mut Locked<W>) -> Delta {
        self.publish_expiry(cpu, locked);
        if !self.sight.starts.is_empty() {
            self.sight.hints.publish_clock(cpu, locked.rq.clock());
        }
        if let Some(bounds) = locked.rq.batch_bounds() {
            self.sight.hints.publish_bound(cpu, bounds.vruntime);
        }
        if locked.held_back.is_none() && locked.published.still_holds(&locked.rq) {
            return Delta::nothing_new(&locked.rq, locked.published.load.importance);
        }
        self.publish_load(cpu, locked)
    }

    #[inline(never)]
    fn publish_load(&self, cpu: CpuId, locked: &mut Locked<W>) -> Delta {
        let new = Snapshot::of(&locked.rq);
        let old = std::mem::replace(&mut locked.published, new);
        self.sight.hints.publish(cpu, old, new);
        self.sight.hints.publish_averages(cpu, &locked.rq);
        if new.is_idle() != old.is_idle() {
            self.sight.hints.publish_times(cpu, &locked.rq);
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

    pub(crate) fn publish_expiry(&self, cpu: CpuId, locked: &mut Locked<W>) {
        let next = locked.rq.next_expiries();
        if next != std::mem::replace(&mut locked.published_expiries, next) {
            self.sight.hints.publish_expiries(cpu, next);
        }
    }
}

/// Reports to the host each change of throttling on `cpu` since the last report.
pub(crate) fn tell_throttlings<W: Controlled>(
    cpu: CpuId,
    rq: &mut Queue<W>,
    fx: &mut impl Effects<W>,
) {
    if rq.has_news() {
        rq.drain_throttlings(|throttling| fx.throttling(cpu, throttling));
    }
}
