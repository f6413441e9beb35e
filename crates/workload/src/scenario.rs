//! A scenario, checked: every name is resolved, every value is in range, every unit is known.
//!
//! This is what hosts run. The text that it comes from is rt-app's JSON with extensions, read by
//! [`crate::parse`].

use crate::draw::Draw;
pub use crate::shared::Asked;
pub use crate::steps::Steps;
use runyard_engine::attr::{Attr, Cookie, GroupId, LatencyNice, Slice};
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuSet;
use runyard_engine::features::Features;
use runyard_engine::kernel::Model;
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::Update;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;
use runyard_engine::tuned::Tuned;
use std::iter::successors;

/// A whole workload and the machine that it wants.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How long to run; `None` runs until every task has ended.
    pub duration: Option<Nanos>,
    /// How rt-app's log is written, where one is asked for.
    pub log: LogSpec,
    /// The simulated machine.
    pub machine: MachineSpec,
    /// What the machine is a model of: its numbers, and the features that were switched.
    pub model: Model,
    /// The switches of the engine.
    pub features: Features,
    /// Numbers of the scheduler that replace the model's.
    pub tuned: Tuned,
    /// Task groups by [`GroupId`]; the first is `/`.
    pub groups: Vec<TaskGroup>,
    /// The names of the cookies: `Cookie::new(n)` is that of `cookies[n - 1]`. They are numbered as they are first named, by
    /// `groups` and then by `tasks`.
    pub cookies: Vec<String>,
    /// Tasks in file order, those of `instance` 0 (templates for `fork`) included.
    pub tasks: Vec<TaskSpec>,
    /// The names behind the ids in [`Step`], and what must be known about each object.
    pub objects: Objects,
    /// The chains of tasks whose latency is told from end to end, in file order.
    pub chains: Vec<ChainSpec>,
}

impl Scenario {
    /// Makes the machine a model of something else, with the features that this has.
    pub fn use_model(&mut self, model: Model) {
        (self.model, self.features) = (model, model.features());
    }

    /// The numbers and switches of the simulated machine.
    #[must_use]
    pub fn config(&self) -> Config {
        let mut config = self.untuned();
        self.tuned.apply(&mut config);
        config
    }

    /// The same but for what is [tuned](Scenario::tuned).
    pub(crate) fn untuned(&self) -> Config {
        let cookies = !self.cookies.is_empty();
        Config { cookies, ..self.machine.config(self.model, self.features) }
    }

    /// The name of a cookie.
    #[must_use]
    pub fn cookie_name(&self, cookie: Cookie) -> &str {
        &self.cookies[cookie.get() as usize - 1]
    }

    /// The cookie of a task that has `own` and is in `group`: that, else that of the nearest group that has one.
    #[must_use]
    pub fn cookie_of(&self, own: Option<Cookie>, group: GroupId) -> Option<Cookie> {
        let spec = |group: GroupId| &self.groups[group.index()].spec;
        let parent = |&group: &GroupId| (group != GroupId::ROOT).then(|| spec(group).parent);
        own.or_else(|| successors(Some(group), parent).find_map(|group| spec(group).cookie))
    }

    /// The tasks that exist from the start, in file order: the thread object of each, which of its
    /// instances it is, and its name, which has that number behind it where there are several.
    pub fn instances(&self) -> impl Iterator<Item = (SpecId, u32, String)> + '_ {
        (0..).map(SpecId).zip(&self.tasks).flat_map(|(id, task)| {
            (0..task.instances).map(move |nth| match task.instances {
                1 => (id, nth, task.name.clone()),
                _ => (id, nth, format!("{}-{nth}", task.name)),
            })
        })
    }
}

/// What a scenario says of rt-app's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSpec {
    /// How the names of its files begin.
    pub basename: String,
    /// Whether a round's `slack` is the sum of its timers', not that of the last.
    pub cumulative_slack: bool,
}

/// As rt-app without its options.
impl Default for LogSpec {
    fn default() -> LogSpec {
        LogSpec { basename: "rt-app".to_owned(), cumulative_slack: false }
    }
}

impl Objects {
    /// Whether a mutex inherits priorities.
    #[must_use]
    pub fn inherit(&self) -> bool {
        self.mutexes.iter().any(|&(_, kind)| kind == MutexKind::Inherit)
    }
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// CPUs, cores and nodes.
    pub topology: Topology,
    /// Scheduler ticks a second on a busy CPU.
    pub tick_hz: u32,
    /// Its kernel schedules groups of real-time tasks (`CONFIG_RT_GROUP_SCHED`), and so throttles them in any release.
    pub rt_group_sched: bool,
    /// Its kernel leaves a waking task on a busy CPU of which fair tasks use less than so many per cent
    /// (`sched_vcpu_pack` of some guests).
    pub packs_below: Option<u32>,
    /// The speed of a hardware thread of which one sibling is busy, in millionths of that of a whole core: two busy threads
    /// have twice that. `None` if threads share nothing.
    pub smt: Option<u32>,
    /// What things cost.
    pub costs: Costs,
}

impl MachineSpec {
    /// Its numbers and switches as a model of something.
    pub(crate) fn config(&self, model: Model, features: Features) -> Config {
        let mut config = model.config(self.topology);
        config.features = features;
        config.tick = Nanos(1_000_000_000 / u64::from(self.tick_hz));
        if self.rt_group_sched {
            config.rt_runtime = Some(Config::RT_RUNTIME);
        }
        config.packs_below = self.packs_below.map(|most| u64::from(most) * 1_024 / 100);
        config
    }
}

/// What the machine's own work costs, in time; each is drawn from `cost..=cost + jitter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// From the decision to switch to the first instruction of the next task.
    pub context_switch: Nanos,
    /// How long a task is on its way from one run queue to another.
    pub migration: Nanos,
    /// From asking another CPU to reschedule to its doing so.
    pub ipi: Nanos,
    /// What waking a task costs the CPU that does it.
    pub wakeup: Nanos,
    /// What a timer interrupt costs the CPU that takes it.
    pub timer_interrupt: Nanos,
    /// From the moment that a timer was set for to its interrupt; none if zero, jitter or not.
    pub timer_latency: Nanos,
    /// What an interrupt costs an idle CPU besides: leaving its idle state. None if zero, as above.
    pub idle_exit: Nanos,
    /// The span above each cost from which it is drawn.
    pub jitter: Nanos,
}

/// Round numbers of the size that a 2-CPU KVM guest shows. No jitter, so that two policies differ
/// by what they decide only. Anyone who simulates another machine measures there and says so in
/// `machine.costs`.
impl Default for Costs {
    fn default() -> Costs {
        Costs {
            context_switch: Costs::CONTEXT_SWITCH,
            migration: Costs::MIGRATION,
            ipi: Costs::IPI,
            wakeup: Costs::WAKEUP,
            timer_interrupt: Costs::TIMER_INTERRUPT,
            timer_latency: Nanos::ZERO,
            idle_exit: Nanos::ZERO,
            jitter: Nanos::ZERO,
        }
    }
}

impl Costs {
    /// Nothing takes any time.
    pub const FREE: Costs = Costs {
        context_switch: Nanos::ZERO,
        migration: Nanos::ZERO,
        ipi: Nanos::ZERO,
        wakeup: Nanos::ZERO,
        timer_interrupt: Nanos::ZERO,
        timer_latency: Nanos::ZERO,
        idle_exit: Nanos::ZERO,
        jitter: Nanos::ZERO,
    };
    /// Between two kernel threads on one CPU; 1.2 to 1.6 us measured.
    pub const CONTEXT_SWITCH: Nanos = Nanos(1_500);
    /// Two run-queue locks and the first cache misses; less than a switch.
    pub const MIGRATION: Nanos = Nanos(1_000);
    /// A signal or an interrupt to another CPU, which makes a guest exit to its host.
    pub const IPI: Nanos = Nanos(2_500);
    /// The waker's part of a wake-up: choosing a CPU and one run-queue lock.
    pub const WAKEUP: Nanos = Nanos(1_000);
    /// Entry, one expired timer, setting the hardware anew.
    pub const TIMER_INTERRUPT: Nanos = Nanos(1_000);
}

/// A task group of the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGroup {
    /// Its path, `/web/api`.
    pub path: String,
    /// What is asked for it.
    pub spec: GroupSpec,
}

/// Tasks that wake one another: a token goes from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    /// Its key.
    pub name: String,
    /// The thread objects in order, of which there is one at least. Each stands for all of its tasks, and may be there
    /// several times.
    pub tasks: Vec<SpecId>,
    /// How long a token may take; one that takes longer misses.
    pub deadline: Option<Nanos>,
}

/// A thread object of the scenario: a program and who runs it.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Its key.
    pub name: String,
    /// How many tasks run it from the start.
    pub instances: u32,
    /// How long each waits before its first phase.
    pub delay: Draw,
    /// What holds until a phase says otherwise; the policy is always there.
    pub properties: Asked,
    /// Whether the tasks that it forks inherit nothing of how it is scheduled
    /// ([`TaskSpec::forked_attr`]).
    pub reset_on_fork: bool,
    /// How often the phases are gone through; `None` is for ever.
    pub loops: Option<u32>,
    /// The phases in order; never empty.
    pub phases: Vec<Phase>,
}

impl TaskSpec {
    /// What is asked for a task that begins, on a machine that has `all` CPUs.
    #[must_use]
    pub fn first_attr(&self, all: &CpuSet) -> Attr {
        self.begun_with(Attr::normal(all.clone()))
    }

    /// As [`TaskSpec::first_attr`], for a task that is forked by one of `parent`, for which `asked`
    /// was asked last: its timer slack and its cookie are inherited, and its latency nice and its slice unless the
    /// parent says otherwise.
    #[must_use]
    pub fn forked_attr(&self, all: &CpuSet, parent: &TaskSpec, asked: &Attr) -> Attr {
        let mut attr =
            Attr { slack: asked.slack, cookie: asked.cookie, ..Attr::normal(all.clone()) };
        if !parent.reset_on_fork {
            (attr.latency_nice, attr.slice) = (asked.latency_nice, asked.slice);
        }
        self.begun_with(attr)
    }

    /// What its first phase makes of `attr`.
    fn begun_with(&self, mut attr: Attr) -> Attr {
        self.properties.replace(&mut attr);
        self.phases[0].properties.replace(&mut attr);
        attr
    }

    /// What SCHED_DEADLINE is to give a task that begins.
    #[must_use]
    pub fn first_reservation(&self) -> Option<Reservation> {
        TaskSpec::reservation_in(&self.phases[0], self.properties.reservation)
    }

    /// The same from the beginning of `phase`, where it was `old` before.
    #[must_use]
    pub fn reservation_in(phase: &Phase, old: Option<Reservation>) -> Option<Reservation> {
        phase.properties.reserved(old)
    }

    /// What is asked for a task from the beginning of `phase`, where it had `old` before.
    #[must_use]
    pub fn attr_in(&self, phase: &Phase, old: &Attr, all: &CpuSet) -> Attr {
        let affinity = self.properties.cpus.as_ref().unwrap_or(all).clone();
        let mut attr = Attr { affinity, ..old.clone() };
        phase.properties.replace(&mut attr);
        attr
    }
}

/// A stretch of a task's life under the same properties.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its key; empty for the thread object that is its own phase.
    pub name: String,
    /// How often its steps are gone through; `None` is for ever.
    pub loops: Option<u32>,
    /// Applied when the phase starts; what is absent is as before (CPUs: as the thread says).
    pub properties: Asked,
    /// What the task does, in order.
    pub steps: Steps,
}

/// What a thread or a phase asks of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// CPUs on which it may run.
    pub cpus: Option<CpuSet>,
    /// Policy, complete with the priority or nice value that holds there.
    pub policy: Option<runyard_engine::attr::Policy>,
    /// Task group.
    pub group: Option<GroupId>,
    /// Timer slack; real-time tasks have none whatever it says.
    pub slack: Option<Nanos>,
    /// Latency nice, which matters while the task is fair.
    pub latency_nice: Option<LatencyNice>,
    /// Slice, which matters while the task is fair and the feature `EEVDF` is on.
    pub slice: Option<Slice>,
    /// Cookie of its own.
    pub cookie: Update<Cookie>,
    /// What SCHED_DEADLINE is to give the task, for a host that has it. `policy` is then that of the tasks that
    /// come nearest: SCHED_FIFO of the highest priority.
    pub reservation: Option<Reservation>,
}

/// What SCHED_DEADLINE gives a task: so much CPU time in each period, within so long after its begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The CPU time.
    pub runtime: Nanos,
    /// How long after the period's begin it is to be had.
    pub deadline: Nanos,
    /// The period.
    pub period: Nanos,
}

impl Properties {
    /// What is asked for replaces what was.
    fn replace(&self, attr: &mut Attr) {
        if let Some(cpus) = &self.cpus {
            attr.affinity = cpus.clone();
        }
        attr.policy = self.policy.unwrap_or(attr.policy);
        attr.group = self.group.unwrap_or(attr.group);
        attr.slack = self.slack.unwrap_or(attr.slack);
        attr.latency_nice = self.latency_nice.unwrap_or(attr.latency_nice);
        attr.slice = self.slice.or(attr.slice);
        attr.cookie = self.cookie.applied_to(attr.cookie);
    }

    /// The reservation of a task that had `old`: one goes with its policy.
    fn reserved(&self, old: Option<Reservation>) -> Option<Reservation> {
        if self.policy.is_some() { self.reservation } else { old }
    }
}

/// The place of a thread object in [`Scenario::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecId(pub u32);

/// An object that tasks share by name: its place among those of its kind in [`Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// One event of rt-app's language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A fixed amount of work: so much CPU time, however long it takes.
    Run(Draw),
    /// Work until so much time has passed, with the CPU or without.
    Runtime(Draw),
    /// Move bytes, in memory or to a device: so much CPU time, which rt-app counts as no run.
    Memory(Nanos),
    /// Block for a time.
    Sleep(Draw),
    /// Block until the next period of a timer begins.
    Timer {
        /// Which timer.
        timer: TimerRef,
        /// Its period.
        period: Draw,
        /// Whether a missed period shifts all later ones.
        mode: TimerMode,
    },
    /// Take a mutex.
    Lock(ObjectId),
    /// Give a mutex back.
    Unlock(ObjectId),
    /// Wait for a condition; the mutex is given back meanwhile.
    Wait {
        /// The condition.
        cond: ObjectId,
        /// The mutex, which the task holds.
        mutex: ObjectId,
    },
    /// Wake one waiter of a condition.
    Signal(ObjectId),
    /// Wake all waiters of a condition.
    Broadcast(ObjectId),
    /// Signal a condition, then wait for it.
    Sync {
        /// The condition.
        cond: ObjectId,
        /// The mutex, which the task holds.
        mutex: ObjectId,
    },
    /// Wait until all users of the barrier are here.
    Barrier(ObjectId),
    /// Raise a semaphore by one.
    SemPost(ObjectId),
    /// Lower a semaphore by one, waiting until that is possible.
    SemWait(ObjectId),
    /// Wait to be resumed by name.
    Suspend(ObjectId),
    /// Resume all who are suspended under the name.
    Resume(ObjectId),
    /// Let others run.
    Yield,
    /// Start a new task that runs the named thread object.
    Fork(SpecId),
    /// Put bytes into a pipe, waiting while it is full.
    Send {
        /// The pipe.
        pipe: ObjectId,
        /// How many bytes.
        bytes: u64,
    },
    /// Take bytes out of a pipe, waiting until they are there.
    Recv {
        /// The pipe.
        pipe: ObjectId,
        /// How many bytes.
        bytes: u64,
    },
    /// End the task.
    Exit,
}

/// Which timer a `timer` event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRef {
    /// One that all tasks share by name.
    Shared(ObjectId),
    /// One of the task's own (names that begin with `unique`): its place among those of the task.
    Unique(u32),
}

/// What happens to a timer whose period was missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerMode {
    /// The next period begins now.
    #[default]
    Relative,
    /// The next period begins where it would have.
    Absolute,
}

/// How a mutex that is given back goes to those who wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MutexKind {
    /// It is free for whoever comes first. One waiter is woken, and waits again if another was there before it.
    #[default]
    Barge,
    /// It belongs to the next waiter at once.
    HandOver,
    /// The same, and its owner runs as importantly as the best of those who wait for it.
    Inherit,
}

/// The shared objects of a scenario, each kind numbered by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Mutexes: name and kind.
    pub mutexes: Vec<(String, MutexKind)>,
    /// Condition names.
    pub conditions: Vec<String>,
    /// Barriers: name and number of users (references times instances).
    pub barriers: Vec<(String, u32)>,
    /// Semaphore names.
    pub semaphores: Vec<String>,
    /// Names under which tasks are suspended.
    pub suspends: Vec<String>,
    /// Names of shared timers.
    pub timers: Vec<String>,
    /// Pipes: name and capacity in bytes.
    pub pipes: Vec<(String, u64)>,
}
