//! The state that workers, wakers and handles share, in parts: the machine, the [`registry`] of tasks, and the [`parts`]
//! for threads, CPUs and observers. Here tasks are spawned and woken. [`end`] has the end of the runtime.

pub(crate) mod cookies;
mod end;
mod parts;
pub(crate) mod paused;
pub(crate) mod registry;
pub(crate) mod settings;
mod spawn;
mod start;

use self::parts::{
    Bounds, Crew, Deferred, Dispatch, HostCpus, Leavers, Observation, Preemption, Timers,
};
use self::registry::Registry;
use self::settings::Settings;
use crate::crew::homes::Homes;
use crate::crew::maker::{self, Maker};
use crate::crew::meter::Meters;
use crate::crew::threads::Threads;
use crate::deferred::errands::Errands;
use crate::deferred::rubbish::Bin;
use crate::driver::Driver;
use crate::group::limit::{self, Limit};
use crate::group::quota;
use crate::observe::teller::Teller;
use crate::os;
use crate::os::biased::Marks;
use crate::os::sync::{Arc, AtomicU32, Mutex, Ordering};
use crate::protocol::handoff::{Slot, WorkerId};
use crate::shared::paused::Host;
use crate::snapshot::Groups;
use crate::stall::Stalls;
use crate::task::Job;
use crate::time::late::Late;
use crate::worker::Worker;
use crate::worker::batch::Batches;
use crate::worker::newcomers::Outsiders;
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::limits::BadLimit;
use runyard_engine::run_queue::Meter;
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;
use runyard_smp::machine::Machine;
use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

/// Maximum number of workers that can be favourites of a lock; their marks take 32 KiB. There are more workers only if
/// many tasks have been stopped in the middle of their polls.
const MARKS: usize = 256;

/// Number of runtimes after which their numbers repeat. It is below 2^14, because a mutex has room for no more.
const RUNTIMES: u32 = 16_000;

/// Number of tasks for which there is room from the start.
pub(crate) const FIRST_ROOM: usize = 1_024;

/// The state that workers, wakers and handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Distinguishes this process's runtimes, at least those that exist at the same time.
    pub(crate) number: u16,
    pub(crate) machine: Machine<Job>,
    pub(crate) registry: Registry,
    pub(crate) crew: Crew,
    pub(crate) cpus: HostCpus,
    pub(crate) observation: Observation,
    /// Present if this runtime is in virtual time, without workers.
    pub(crate) paused: Option<Host>,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) dispatch: Dispatch,
    pub(crate) timers: Timers,
    pub(crate) deferred: Deferred,
    /// tokio's driver, if tasks may use it.
    pub(crate) driver: Driver,
    pub(crate) preemption: Preemption,
    pub(crate) bounds: Bounds,
    pub(crate) leavers: Leavers,
}

impl Shared {
    pub(crate) fn new(
        host_cpus: Vec<usize>,
        preempts: bool,
        mut settings: Settings,
        driver: Driver,
    ) -> Shared {
        os::thread::choose_clock();
        let cpus = settings.workers.unwrap_or(usize::MAX).clamp(1, host_cpus.len());
        let threads = settings.cores.unwrap_or(1);
        let topology = Topology::new(1, (cpus / threads) as u32, threads as u32);
        let topology = topology.expect("the kernel limits the number of CPUs");
        let features = match settings.cores {
            // Members of a batch could have different cookies.
            Ok(_) => settings.features.in_runtime().without(Feature::BatchDispatch),
            Err(_) => settings.features.in_runtime(),
        };
        // A migration has no assumed cost: the cache content that a task loses is little beside the wait for the end of
        // another task's poll.
        let mut numbers = Config {
            rt_runtime: Some(Config::RT_RUNTIME),
            migration_cost: Nanos::ZERO,
            ..settings.model.config(topology)
        };
        settings.tuned.apply(&mut numbers);
        let config = Config {
            features,
            tickless: true,
            skew_tick: true,
            accounts: settings.statistics,
            cookies: settings.cores.is_ok(),
            ..numbers
        };
        let (most_threads, max_groups) =
            (settings.most_threads(host_cpus.len()), settings.max_groups);
        let machine = Machine::with_room(config, &[GroupSpec::ROOT], max_groups);
        let machine = machine.expect("the parameters of the scheduler are consistent");
        machine.reserve(FIRST_ROOM + max_groups);
        let threads = Arc::new(Threads::new(most_threads, settings.hooks));
        let meters = Arc::new(Meters::new(topology.cpus(), threads.clone()));
        let paused = settings.paused.map(|seed| Host::new(seed, settings.observer.take()));
        if paused.is_none() {
            machine.charge_by(&(meters.clone() as Arc<dyn Meter>));
        }
        let quota = if paused.is_none() { quota::of_this_process() } else { None };
        let maker = Maker::default();
        maker.reserve_lobby(&mut VecDeque::with_capacity(FIRST_ROOM));
        let (epoch, started) = (os::thread::now(), Instant::now());
        let teller = settings.observer.map(|observer| Teller::new(observer, epoch));
        // Observers and accounts need scheduling decisions, which polls of a batch do not have. In virtual time a batch
        // would never end.
        let has_batches = features.has(Feature::BatchDispatch)
            && paused.is_none()
            && teller.is_none()
            && !settings.statistics;
        let batched = topology.iter().filter(|_| has_batches);
        let marks = Marks::new(if has_batches { most_threads.min(MARKS) } else { 0 });
        let cpus = topology.iter();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = 1 + NEXT.fetch_add(1, Ordering::Relaxed) % RUNTIMES;
        Shared {
            number: number as u16,
            machine,
            paused,
            slots: cpus.map(|cpu| Slot::new(WorkerId(cpu.0.into()))).collect(),
            dispatch: Dispatch {
                batches: batched.map(|cpu| Batches::new(cpu, &marks)).collect(),
                outsiders: Outsiders::default(),
            },
            timers: Timers {
                tables: topology.iter().map(|_| Mutex::default()).collect(),
                late: Late::default(),
            },
            deferred: Deferred {
                errands: Errands::new(topology.cpus()),
                bins: topology.iter().map(|_| Bin::default()).collect(),
            },
            driver,
            preemption: Preemption {
                is_on: preempts,
                signal: settings.signal,
                siege: settings.siege,
            },
            bounds: Bounds {
                lowest_latency_nice: settings.lowest_latency_nice,
                capacity: limit::capacity(topology.cpus(), quota),
                max_groups,
            },
            leavers: Leavers::default(),
            registry: Registry::new(topology.cpus()),
            crew: Crew::new(threads, meters, maker, most_threads),
            cpus: HostCpus {
                everywhere: os::thread::Places::new(&host_cpus),
                homes: Homes::new(topology.cpus(), settings.siege.is_some()),
                numbers: host_cpus,
                all: topology.iter().map(|_| topology.iter().collect()).collect(),
                pins: settings.pins,
                cookies: settings.cores.map(drop),
            },
            observation: Observation {
                teller,
                stalls: settings.on_stall.map(Stalls::new),
                groups: Groups::default(),
                started,
            },
        }
    }

    /// Calls `ask` with the calling thread's worker, if it is one of this runtime's. May be called in a signal handler.
    #[inline]
    pub(crate) fn here<R>(&self, ask: impl FnOnce(&Worker) -> R) -> Option<R> {
        let ours = |worker: &Worker| std::ptr::eq(&raw const *worker.shared, self);
        crate::current::worker::worker(|worker| ours(worker).then(|| ask(worker))).flatten()
    }

    /// Takes the slot of `cpu` from a worker that blocks in foreign code, and gives it to a spare. Returns `false` if
    /// there is no spare, or the worker does not block any more.
    pub(crate) fn take_slot(&self, cpu: CpuId, from: WorkerId) -> bool {
        let slot = self.slot(cpu);
        let Some(spare) = slot.take_spare() else {
            self.crew.maker.order();
            return false;
        };
        if !slot.has_spares(maker::SPARES) {
            self.crew.maker.order();
        }
        let taken = slot.take_from(from, spare);
        if taken {
            self.grant(spare);
        } else {
            // The spare does not return to the pool, whose lock the handler must not take. If 64 others came meanwhile,
            // it waits until the end.
            slot.put_spare(spare);
        }
        taken
    }

    /// Grants a worker its baton. May be called in a signal handler.
    pub(crate) fn grant(&self, id: WorkerId) {
        self.worker(id).into_iter().for_each(|worker| worker.baton.grant());
    }

    #[inline]
    pub(crate) fn slot(&self, cpu: CpuId) -> &Slot {
        &self.slots[cpu.index()]
    }

    /// Returns a worker, as [`Threads::worker`].
    pub(crate) fn worker(&self, id: WorkerId) -> Option<Arc<Worker>> {
        self.crew.threads.worker(id)
    }

    /// Returns whether each worker is bound to the CPU behind its slot.
    pub(crate) fn pins(&self) -> bool {
        self.cpus.pins
    }

    /// Binds a worker's thread to the CPU behind a slot, if workers are bound. A refusal costs precision, but not
    /// correctness.
    pub(crate) fn pin(&self, worker: &Worker, cpu: CpuId) {
        if self.cpus.pins {
            os::thread::bind(worker.tid(), [self.cpus.numbers[cpu.index()]]);
        }
    }

    /// Returns the CPU on which the sleeping owner of a slot should wake: where it slept, or where no owner is. Returns
    /// `None` if there is no such CPU.
    pub(crate) fn home_of(&self, slot: CpuId, slept_on: u32) -> Option<u32> {
        let all = self.cpus.numbers.iter().map(|&cpu| cpu as u32);
        std::iter::once(slept_on).chain(all).find(|&cpu| !self.cpus.homes.has_others(slot, cpu))
    }

    /// Binds a worker's thread to the CPUs behind `cpus`, or to all of the process. A pinned thread is not changed.
    pub(crate) fn bind(&self, worker: &Worker, cpus: Option<&CpuSet>) {
        let behind = |cpu: CpuId| self.cpus.numbers[cpu.index()];
        match cpus {
            _ if self.cpus.pins => false,
            Some(cpus) => os::thread::bind(worker.tid(), cpus.iter().map(behind)),
            None => os::thread::bind(worker.tid(), self.cpus.numbers.iter().copied()),
        };
    }

    /// Writes the state of each slot and each worker, as far as that is known without locks.
    pub(crate) fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let nr_live = self.registry.nr_live();
        let (scarce, waiting) = (self.crew.maker.is_scarce(), self.crew.maker.nr_in_lobby());
        write!(out, "at {}: {nr_live} live tasks, ", os::thread::now().0)?;
        writeln!(out, "{waiting} wait for threads, threads are scarce {scarce}")?;
        for cpu in self.machine.config().topology.iter() {
            let slot = self.slot(cpu);
            let (WorkerId(owner), doing) = slot.doing();
            let (asked, spare) = (slot.is_pending(), slot.has_spares(1));
            let (waits, due) = (self.is_wanted(cpu), self.machine.sight().next_expiry(cpu));
            write!(out, "cpu {cpu}: owner {owner}, doing {doing:?}, asked to schedule {asked}, ")?;
            writeln!(out, "has a spare {spare}, tasks wait {waits}, next expiry {due:?}")?;
        }
        self.crew.threads.workers().try_for_each(|worker| worker.picture(out))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.crew.is_over()
    }

    /// Returns whether a task waits for a CPU, as far as is known without locks.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.machine.config().topology.iter().any(|cpu| self.is_wanted(cpu))
    }

    /// Returns all CPUs of the runtime.
    pub(crate) fn all(&self) -> &CpuSet {
        &self.cpus.all[self.part() % self.cpus.all.len()]
    }

    /// Returns the engine's limit for `limit` in this runtime.
    pub(crate) fn limit_of(&self, limit: Limit) -> Result<runyard_engine::limits::Limit, BadLimit> {
        limit.of(self.bounds.capacity, self.slots.len())
    }
}
