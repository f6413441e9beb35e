//! The state that workers, wakers and handles share, in two layers. The [`Scheduler`] runs the tasks that are awake: it
//! has the machine, the crew of threads, and the batches. [`Shared`] has it and all that lives longer than a task's
//! turn: the [registry](crate::registry) of tasks, timers, deferred work, groups. [`end`] has the end of the runtime.

pub(crate) mod cookies;
mod end;
mod expire;
pub(crate) mod outside;
mod parts;
pub(crate) mod paused;
pub(crate) mod settings;
mod spawn;
mod start;
mod wake;

use self::outside::Outside;
use self::parts::{Bounds, Capacity, Deferred, Observation};
use self::settings::Settings;
use crate::crew::host_cpus::{Binds, HostCpus};
use crate::crew::maker::Maker;
use crate::crew::members::{Crew, Preemption};
use crate::crew::meter::Meters;
use crate::crew::threads::Threads;
use crate::deferred::errands::Errands;
use crate::deferred::rubbish::Bins;
use crate::driver::Driver;
use crate::observe::teller::Teller;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::biased::Marks;
use crate::os::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::protocol::handoff::WorkerId;
use crate::registry::Registry;
use crate::shared::paused::Host;
use crate::single::Single;
use crate::snapshot::Groups;
use crate::stall::Stalls;
use crate::task::Job;
use crate::time::late::Late;
use crate::time::timers::Timers;
use crate::worker::Worker;
use crate::worker::batch::Batches;
use crate::worker::beside::Dispatch;
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuSet;
use runyard_engine::features::Feature;
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
const RUNTIMES: u64 = 16_000;

/// Number of tasks for which there is room from the start.
pub(crate) const FIRST_ROOM: usize = 1_024;

/// The tasks that are to run, and all that runs them: the engine's machine, and what carries out its decisions. Here
/// tasks are woken, changed and chosen.
#[derive(Debug)]
pub(crate) struct Scheduler {
    machine: Machine<Job>,
    crew: Arc<Crew>,
    dispatch: Dispatch,
    /// Present if this runtime is in virtual time, without workers.
    paused: Option<Host>,
    /// Present if tasks run on the thread of `block_on`, without workers.
    single: Option<Single>,
    /// Tells the observer of events, if there is an observer.
    teller: Option<Teller>,
    /// tokio's driver, if tasks may use it.
    driver: Driver,
}

/// The state that workers, wakers and handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Distinguishes all runtimes of this process, from 1.
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    /// Distinguishes this process's runtimes, at least those that exist at the same time.
    pub(crate) number: u16,
    pub(crate) scheduler: Scheduler,
    pub(crate) registry: Registry,
    pub(crate) observation: Observation,
    pub(crate) timers: Timers,
    /// Serves timers when no worker does any more.
    pub(crate) late: Late,
    pub(crate) deferred: Deferred,
    pub(crate) bounds: Bounds,
    /// What the process may use of the machine.
    outside: Mutex<Outside>,
}

impl Scheduler {
    #[inline]
    pub(crate) fn machine(&self) -> &Machine<Job> {
        &self.machine
    }

    #[inline]
    pub(crate) fn crew(&self) -> &Arc<Crew> {
        &self.crew
    }

    #[inline]
    pub(crate) fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    #[inline]
    pub(crate) fn paused(&self) -> Option<&Host> {
        self.paused.as_ref()
    }

    #[inline]
    pub(crate) fn single(&self) -> Option<&Single> {
        self.single.as_ref()
    }

    #[inline]
    pub(crate) fn teller(&self) -> Option<&Teller> {
        self.teller.as_ref()
    }

    #[inline]
    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Writes the state of each slot and each worker, as far as that is known without
    /// locks. So many tasks are live.
    pub(crate) fn picture(&self, nr_live: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "at {}: {nr_live} live tasks, ", os::thread::now().0)?;
        let (scarce, waiting) = (self.crew.maker().is_scarce(), self.crew.maker().nr_in_lobby());
        writeln!(out, "{waiting} wait for threads, threads are scarce {scarce}")?;
        for cpu in self.machine.config().topology.iter() {
            let slot = self.crew.slot(cpu);
            let (WorkerId(owner), doing) = slot.doing();
            let (asked, spare) = (slot.is_pending(), slot.has_spares(1));
            let (waits, due) = (self.is_wanted(cpu), self.machine.sight().next_expiry(cpu));
            write!(out, "cpu {cpu}: owner {owner}, doing {doing:?}, asked to schedule {asked}, ")?;
            writeln!(out, "has a spare {spare}, tasks wait {waits}, next expiry {due:?}")?;
        }
        self.crew.threads().workers().try_for_each(|worker| worker.picture(out))
    }

    /// Returns all CPUs of the runtime.
    pub(crate) fn all(&self, registry: &Registry) -> &CpuSet {
        self.crew.cpus().all(registry.part(self))
    }

    /// Makes room on each CPU for so many live tasks and groups. Memory is allocated and freed outside of sections. If
    /// two threads do this at once, one does it in vain.
    #[cold]
    fn make_room(&self, tasks: usize, groups: usize) {
        for cpu in self.machine.config().topology.iter() {
            let mut room = self.machine.room(tasks + groups);
            without_preemption(|| self.machine.cpu(cpu).reserve_in(&mut room));
        }
        for batches in self.dispatch.all() {
            let mut memory = VecDeque::with_capacity(tasks);
            without_preemption(|| batches.newcomers.reserve(&mut memory));
        }
        let mut lobby = VecDeque::with_capacity(tasks);
        without_preemption(|| self.crew.maker().reserve_lobby(&mut lobby));
    }

    /// Calls `ask` with the calling thread's worker, if it is one of this runtime's. May be called in a signal handler.
    #[inline]
    pub(crate) fn here<R>(&self, ask: impl FnOnce(&Worker) -> R) -> Option<R> {
        let ours = |worker: &Worker| std::ptr::eq(&raw const worker.shared.scheduler, self);
        crate::current::worker::worker(|worker| ours(worker).then(|| ask(worker))).flatten()
    }
}

impl Shared {
    pub(crate) fn new(
        (host_cpus, outside): (&[usize], Outside),
        preempts: bool,
        mut settings: Settings,
        driver: Driver,
    ) -> Shared {
        os::thread::choose_clock();
        let cpus = outside.most_workers().min(host_cpus.len());
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
        let single = settings.single.then(|| Single::new(most_threads));
        match &single {
            Some(single) => machine.charge_by(&single.meter()),
            None if paused.is_none() => machine.charge_by(&(meters.clone() as Arc<dyn Meter>)),
            None => {}
        }
        let maker = Maker::default();
        maker.reserve_lobby(&mut VecDeque::with_capacity(FIRST_ROOM));
        let (epoch, started) = (os::thread::now(), Instant::now());
        let teller = settings.observer.map(|observer| Teller::new(observer, epoch));
        // Observers and accounts need scheduling decisions, which polls of a batch do not have. In virtual time a batch
        // would never end. Without workers there is no batch.
        let has_batches = features.has(Feature::BatchDispatch)
            && paused.is_none()
            && single.is_none()
            && teller.is_none()
            && !settings.statistics;
        let batched = topology.iter().filter(|_| has_batches);
        let marks = Marks::new(if has_batches { most_threads.min(MARKS) } else { 0 });
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let number = 1 + id % RUNTIMES;
        let siege = settings.siege;
        let quota = outside.quota();
        let capacity = Capacity::new(outside.capacity(topology.cpus()), topology.cpus());
        let preemption = Preemption { is_on: preempts, signal: settings.signal, siege };
        let binds = Binds {
            pins: settings.pins,
            keeps_cores: settings.cores.is_ok(),
            homes_are_kept: siege.is_some(),
        };
        let cpus = HostCpus::new(host_cpus, topology, binds);
        let crew = Crew::new(topology.cpus(), (threads, meters), maker, cpus, preemption);
        let batches = batched.map(|cpu| Batches::new(cpu, &marks)).collect();
        let dispatch = Dispatch::new(batches);
        Shared {
            id: 1 + id,
            name: settings.name.take(),
            number: number as u16,
            scheduler: Scheduler {
                machine,
                crew: Arc::new(crew),
                dispatch,
                paused,
                single,
                teller,
                driver,
            },
            registry: Registry::new(topology.cpus()),
            observation: Observation {
                stalls: settings.on_stall.map(|on_stall| Arc::new(Stalls::new(on_stall))),
                groups: Groups::default(),
                started,
            },
            timers: Timers::new(topology.cpus()),
            late: Late::default(),
            deferred: Deferred {
                errands: Errands::new(topology.cpus()),
                bins: Bins::new(topology.cpus()),
            },
            outside: Mutex::new(outside),
            bounds: Bounds {
                lowest_latency_nice: settings.lowest_latency_nice,
                capacity,
                quota: Mutex::new(quota),
                max_groups,
                cookies: settings.cores.map(drop),
            },
        }
    }
}
