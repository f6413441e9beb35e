//! A checked scenario: every name is resolved, every value is in range, every unit is known.
//!
//! Hosts run these types. [`crate::parse`] reads them from text, in rt-app's JSON with extensions.

pub use crate::arrivals::ArrivalsSpec;
use crate::cpusets::{Cpuset, Cpusets};
use crate::draw::Draw;
pub use crate::ids::{ObjectId, SpecId};
pub use crate::preemption::{Preemption, UnknownPreemption};
pub use crate::properties::{Properties, Reservation, SharedProperties, TaskAttr};
pub use crate::steps::{Step, Steps, TimerMode, TimerRef};
pub use crate::timeline::{GroupChange, Timed, TimedChange};
use runyard_engine::attr::{Attr, Cookie, GroupId};
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuSet;
use runyard_engine::features::Features;
use runyard_engine::kernel::Model;
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;
use runyard_engine::tuned::Tuned;
use std::iter::successors;

/// A whole workload and its machine.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The duration of the run; `None` runs until every task has ended.
    pub duration: Option<Nanos>,
    /// The time after which the simulator's reports begin to count; zero for a report of the whole run.
    pub from: Nanos,
    /// The format of rt-app's log, if a log is requested.
    pub log: LogSpec,
    /// The simulated machine.
    pub machine: MachineSpec,
    /// The model of the machine: its numbers, and the features that were switched.
    pub model: Model,
    /// The switches of the engine.
    pub features: Features,
    /// The numbers of the scheduler that replace the model's.
    pub tuned: Tuned,
    /// The task groups by [`GroupId`]; the first is `/`.
    pub groups: Vec<TaskGroup>,
    /// The names of the cookies: `Cookie::new(n)` has the name `cookies[n - 1]`. They are numbered in the order of
    /// their first mention, by `groups` and then by `tasks`.
    pub cookies: Vec<String>,
    /// The thread objects in file order, those of `instance` 0 (templates for `fork`) included.
    pub tasks: Vec<TaskSpec>,
    /// The names of the ids in [`Step`], and the attributes of each object.
    pub objects: Objects,
    /// The chains of tasks with a measured end-to-end latency, in file order, and then those of [`Scenario::arrivals`] that
    /// are not among them.
    pub chains: Vec<ChainSpec>,
    /// The requests from outside, in file order.
    pub arrivals: Vec<ArrivalsSpec>,
    /// The changes during the run, in the order of their times.
    pub timeline: Vec<Timed>,
}

impl Scenario {
    /// Changes the model of the machine, with the model's features.
    pub fn use_model(&mut self, model: Model) {
        (self.model, self.features) = (model, model.features());
    }

    /// Returns the numbers and switches of the simulated machine.
    #[must_use]
    pub fn config(&self) -> Config {
        let mut config = self.untuned();
        self.tuned.apply(&mut config);
        config
    }

    /// Returns the same without the [tuned](Scenario::tuned) numbers.
    pub(crate) fn untuned(&self) -> Config {
        let cookies = !self.cookies.is_empty();
        let domains = self.cpusets(CpuSet::first(self.machine.topology.cpus())).domains();
        Config { cookies, domains, ..self.machine.config(self.model, self.features) }
    }

    /// Returns the CPUs on which the tasks of each group may run, on a machine with these CPUs.
    #[must_use]
    pub fn cpusets(&self, all: CpuSet) -> Cpusets {
        let groups: Vec<_> = self.groups.iter().map(TaskGroup::asked_cpuset).collect();
        Cpusets::new(all, self.machine.isolated.clone(), &groups)
    }

    /// Returns whether a task has a `kernel` event.
    #[must_use]
    pub fn calls_kernel(&self) -> bool {
        let calls = |phase: &Phase| phase.steps.iter().any(|step| matches!(step, Step::Kernel(_)));
        self.tasks.iter().any(|task| task.phases.iter().any(calls))
    }

    /// Returns whether a task of a thread object makes requests to others: it begins a chain, or waits for what they do.
    #[must_use]
    pub fn is_client(&self, task: SpecId) -> bool {
        let waits = |step| {
            matches!(
                step,
                Step::SemWait(_) | Step::Recv { .. } | Step::Wait { .. } | Step::Suspend(_)
            )
        };
        let phases = &self.tasks[task.0 as usize].phases;
        self.chains.iter().any(|chain| chain.places[0].contains(&task))
            || phases.iter().any(|phase| phase.steps.iter().any(waits))
    }

    /// Returns whether the instances of a thread object begin by a change of the timeline, and not with the run: the
    /// first change that starts or stops them is a start.
    #[must_use]
    pub fn begins_later(&self, task: SpecId) -> bool {
        let mut changes = self.timeline.iter().filter_map(|timed| timed.change.starts_or_stops());
        changes.find(|&(of, _)| of == task).is_some_and(|(_, starts)| starts)
    }

    /// Returns a change in the words of a report: `CPU 3 offline`, `stop batch`, `/web: weight 300`.
    #[must_use]
    pub fn in_words(&self, change: &TimedChange) -> String {
        change.in_words(
            |task| &self.tasks[task.0 as usize].name,
            |group| &self.groups[group.index()].path,
        )
    }

    /// Returns the name of a cookie.
    #[must_use]
    pub fn cookie_name(&self, cookie: Cookie) -> &str {
        &self.cookies[cookie.get() as usize - 1]
    }

    /// Returns the cookie of a task in `group`: its `own`, else that of the nearest group that has one.
    #[must_use]
    pub fn cookie_of(&self, own: Option<Cookie>, group: GroupId) -> Option<Cookie> {
        let spec = |group: GroupId| &self.groups[group.index()].spec;
        own.or_else(|| self.upwards(group).find_map(|group| spec(group).cookie))
    }

    /// Returns the number of groups that a task of `group` is in; the root is none.
    #[must_use]
    pub fn levels_of(&self, group: GroupId) -> usize {
        self.upwards(group).count() - 1
    }

    /// Goes from a group to the root.
    fn upwards(&self, group: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let parent = |group: &GroupId| self.groups[group.index()].spec.parent;
        successors(Some(group), move |group| (*group != GroupId::ROOT).then(|| parent(group)))
    }

    /// Returns the instances of the thread objects, in file order. Some may [begin later](Scenario::begins_later). Each
    /// has its thread object, its instance number, and its name. The name ends with that number if there are several instances.
    pub fn instances(&self) -> impl Iterator<Item = (SpecId, u32, String)> + '_ {
        (0..).map(SpecId).zip(&self.tasks).flat_map(|(id, task)| {
            (0..task.instances).map(move |nth| match task.instances {
                1 => (id, nth, task.name.clone()),
                _ => (id, nth, format!("{}-{nth}", task.name)),
            })
        })
    }
}

/// The options of rt-app's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSpec {
    /// The prefix of the names of its files.
    pub basename: String,
    /// Whether a round's `slack` is the sum over its timers, not the slack of the last one.
    pub cumulative_slack: bool,
}

/// The defaults of rt-app.
impl Default for LogSpec {
    fn default() -> LogSpec {
        LogSpec { basename: "rt-app".to_owned(), cumulative_slack: false }
    }
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// The CPUs, cores and nodes.
    pub topology: Topology,
    /// The number of scheduler ticks a second on a busy CPU.
    pub tick_hz: u32,
    /// Whether the CPUs tick at different times (kernel parameter `skew_tick`): [`Config::skew_tick`].
    pub skew_tick: bool,
    /// Whether its kernel schedules groups of real-time tasks (`CONFIG_RT_GROUP_SCHED`), and so throttles them in any
    /// release.
    pub rt_group_sched: bool,
    /// The utilization in per cent below which its kernel leaves a waking task on a busy CPU, counted over the fair
    /// tasks of that CPU (`sched_vcpu_pack` of some guests).
    pub packs_below: Option<u32>,
    /// Where its kernel lets a task in the kernel give way.
    pub preemption: Preemption,
    /// The speed of a hardware thread with one busy sibling, in millionths of the speed of a whole core: two busy
    /// threads have twice that. `None` if threads share no resources.
    pub smt: Option<u32>,
    /// The CPUs without load balance (kernel parameter `isolcpus`): a task is there only if its `cpus` or the cpuset of
    /// its group say so.
    pub isolated: CpuSet,
    /// The costs of the machine's own work.
    pub costs: Costs,
}

impl MachineSpec {
    /// Returns its numbers and switches under a model.
    pub(crate) fn config(&self, model: Model, features: Features) -> Config {
        let mut config = model.config(self.topology);
        config.features = features;
        config.tick = Nanos(1_000_000_000 / u64::from(self.tick_hz));
        config.skew_tick = self.skew_tick;
        if self.rt_group_sched {
            config.rt_runtime = Some(Config::RT_RUNTIME);
        }
        config.packs_below = self.packs_below.map(|most| u64::from(most) * 1_024 / 100);
        config
    }
}

/// The time that the machine's own work takes. Each cost is drawn from `cost..=cost + jitter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The time from the decision to switch to the first instruction of the next task.
    pub context_switch: Nanos,
    /// The time of a task's migration from one run queue to another.
    pub migration: Nanos,
    /// The time from a request to another CPU to reschedule to its arrival.
    pub ipi: Nanos,
    /// The time that a wake-up takes on the waker's CPU.
    pub wakeup: Nanos,
    /// The additional time of the wake-up of a fair task.
    pub wakeup_fair: Nanos,
    /// The additional time of that for each group that the task is in: the kernel queues and picks at each level.
    pub wakeup_level: Nanos,
    /// The time that a timer interrupt takes.
    pub timer_interrupt: Nanos,
    /// The delay from the time for which a timer was set to its interrupt; none if zero, with or without jitter.
    pub timer_latency: Nanos,
    /// The additional time of an interrupt on an idle CPU, to leave its idle state; none if zero, with or without
    /// jitter.
    pub idle_exit: Nanos,
    /// The time that a task's own system calls take.
    pub system_calls: SystemCalls,
    /// The width of the range from which each cost is drawn.
    pub jitter: Nanos,
    /// The mean of the exponential time that a timer interrupt takes beyond its cost. A draw is at most
    /// [`Costs::LONGEST_SPREAD`] times the mean.
    pub timer_spread: Nanos,
    /// The same of the interrupt that a request to another CPU makes there.
    pub ipi_spread: Nanos,
    /// The same of leaving an idle state.
    pub idle_exit_spread: Nanos,
}

/// The CPU time that a task spends in the kernel for itself, beside the wake-ups and switches that follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCalls {
    /// The time of a sleep, or of a wait for a timer.
    pub sleep: Nanos,
    /// The time of putting bytes into a pipe.
    pub send: Nanos,
    /// The time of taking bytes out of a pipe.
    pub receive: Nanos,
    /// The time of a wait for a mutex, a condition, a barrier, a semaphore, a resumption, or the other end of a pipe. A
    /// lock that is free does not enter the kernel.
    pub lock: Nanos,
    /// The time of a call that wakes a task, before the wake-up.
    pub wake: Nanos,
    /// The time of a fork.
    pub fork: Nanos,
}

impl SystemCalls {
    /// The time before a step has its effect, or `None` for a step that does not enter the kernel at once.
    #[must_use]
    pub fn of(&self, step: &Step) -> Option<Nanos> {
        match step {
            Step::Sleep(_) | Step::Timer { .. } => Some(self.sleep),
            Step::Send { .. } => Some(self.send),
            Step::Recv { .. } => Some(self.receive),
            Step::Fork(_) => Some(self.fork),
            _ => None,
        }
    }
}

/// Round numbers of the size measured on a 2-CPU KVM guest. To simulate another machine, measure there and set
/// `machine.costs`.
impl Default for Costs {
    fn default() -> Costs {
        Costs {
            context_switch: Costs::CONTEXT_SWITCH,
            migration: Costs::MIGRATION,
            ipi: Costs::IPI,
            wakeup: Costs::WAKEUP,
            wakeup_fair: Nanos::ZERO,
            wakeup_level: Nanos::ZERO,
            timer_interrupt: Costs::TIMER_INTERRUPT,
            timer_latency: Nanos::ZERO,
            idle_exit: Nanos::ZERO,
            system_calls: SystemCalls::default(),
            jitter: Costs::JITTER,
            timer_spread: Costs::TIMER_SPREAD,
            ipi_spread: Nanos::ZERO,
            idle_exit_spread: Nanos::ZERO,
        }
    }
}

impl Costs {
    /// Returns the longest time of a timer interrupt.
    #[must_use]
    pub fn longest_interrupt(&self) -> Nanos {
        self.timer_interrupt + self.jitter + Costs::longest_spread(self.timer_spread)
    }

    /// Returns the longest of the exponential times with this mean.
    #[must_use]
    pub fn longest_spread(mean: Nanos) -> Nanos {
        Nanos(mean.0 * Costs::LONGEST_SPREAD)
    }

    /// The costs of a machine on which nothing takes time.
    pub const FREE: Costs = Costs {
        context_switch: Nanos::ZERO,
        migration: Nanos::ZERO,
        ipi: Nanos::ZERO,
        wakeup: Nanos::ZERO,
        wakeup_fair: Nanos::ZERO,
        wakeup_level: Nanos::ZERO,
        timer_interrupt: Nanos::ZERO,
        timer_latency: Nanos::ZERO,
        idle_exit: Nanos::ZERO,
        system_calls: SystemCalls {
            sleep: Nanos::ZERO,
            send: Nanos::ZERO,
            receive: Nanos::ZERO,
            lock: Nanos::ZERO,
            wake: Nanos::ZERO,
            fork: Nanos::ZERO,
        },
        jitter: Nanos::ZERO,
        timer_spread: Nanos::ZERO,
        ipi_spread: Nanos::ZERO,
        idle_exit_spread: Nanos::ZERO,
    };
    /// The width of short paths in the kernel. A pipe's write and read take 480 to 560 ns in 98 of 100 rounds beside
    /// other work, and a switch by yields 665 to 850 ns: measured on a 2-CPU KVM guest.
    pub const JITTER: Nanos = Nanos(300);
    /// The mean by which a timer interrupt exceeds its least time. A real-time task is woken 18.1 us after its timer
    /// at the least on a busy CPU of such a guest, 20.4 at the median and 34 to 64 at p99; an exponential time with
    /// this mean has its median at 2.3 us and p99 at 15.
    pub const TIMER_SPREAD: Nanos = Nanos(3_300);
    /// The longest spread in means; one of 22,000 exponential times is longer.
    pub const LONGEST_SPREAD: u64 = 10;
    /// A switch between two kernel threads on one CPU; 1.2 to 1.6 us measured.
    pub const CONTEXT_SWITCH: Nanos = Nanos(1_500);
    /// Two run-queue locks and the first cache misses; less than a switch.
    pub const MIGRATION: Nanos = Nanos(1_000);
    /// A signal or an interrupt to another CPU, which makes a guest exit to its host.
    pub const IPI: Nanos = Nanos(2_500);
    /// The waker's part of a wake-up: the choice of a CPU and one run-queue lock.
    pub const WAKEUP: Nanos = Nanos(1_000);
    /// The entry, one expired timer, and setting the hardware again.
    pub const TIMER_INTERRUPT: Nanos = Nanos(1_000);
}

/// A task group of the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGroup {
    /// The path, `/web/api`.
    pub path: String,
    /// The attributes of the group.
    pub spec: GroupSpec,
    /// The cpuset that the group asks for.
    pub cpuset: Option<Box<Cpuset>>,
}

impl TaskGroup {
    /// Returns the parent, and the cpuset that the group asks for.
    pub(crate) fn asked_cpuset(&self) -> (GroupId, Option<&Cpuset>) {
        (self.spec.parent, self.cpuset.as_deref())
    }
}

/// Tasks that wake one another: a token goes from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    /// The key of the chain.
    pub name: String,
    /// The places in order, at least one, each with one thread object or more. A thread object stands for all of its
    /// tasks, and may be at several places.
    pub places: Vec<Vec<SpecId>>,
    /// The end of a token of which several tasks have a copy.
    pub join: Join,
    /// The longest time that a token may take; a longer one is a miss.
    pub deadline: Option<Nanos>,
}

/// The end of a token of which several tasks have a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// It ends with the last copy.
    #[default]
    All,
    /// It ends with the first copy that reaches the end.
    First,
}

/// A thread object of the scenario: a program and the tasks that run it.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// The key of the object.
    pub name: String,
    /// The number of tasks that run it from the start.
    pub instances: u32,
    /// The wait of each task before its first phase.
    pub delay: Draw,
    /// The properties in force until a phase changes them. The policy is always present.
    pub properties: SharedProperties,
    /// Whether the tasks that it forks inherit none of its scheduling attributes ([`TaskSpec::forked_attr`]).
    pub reset_on_fork: bool,
    /// The number of rounds over the phases; `None` is without an end.
    pub loops: Option<u32>,
    /// The phases in order; never empty.
    pub phases: Vec<Phase>,
}

impl TaskSpec {
    /// Returns the attributes of a task at its begin, on a machine whose groups have these `cpusets`.
    #[must_use]
    pub fn first_attr(&self, cpusets: &Cpusets) -> TaskAttr {
        self.begun_with(TaskAttr::normal(CpuSet::empty()), cpusets)
    }

    /// Does the same as [`TaskSpec::first_attr`] for a task forked by a task of `parent` with the last attributes
    /// `asked`. It inherits timer slack and cookie. It also inherits latency nice and slice, unless the parent has
    /// `reset_on_fork`.
    #[must_use]
    pub fn forked_attr(&self, cpusets: &Cpusets, parent: &TaskSpec, asked: &TaskAttr) -> TaskAttr {
        let mut attr = Attr { cookie: asked.cookie, ..Attr::normal(CpuSet::empty()) };
        if !parent.reset_on_fork {
            (attr.latency_nice, attr.slice) = (asked.latency_nice, asked.slice);
        }
        self.begun_with(TaskAttr { attr, slack: asked.slack }, cpusets)
    }

    /// Returns `attr` with the changes of the first phase.
    fn begun_with(&self, mut attr: TaskAttr, cpusets: &Cpusets) -> TaskAttr {
        let first = &self.phases[0];
        self.properties.replace(&mut attr);
        first.properties.replace(&mut attr);
        let asked = first.properties.cpus.as_ref().or(self.properties.cpus.as_ref());
        attr.attr.affinity = cpusets.affinity(asked, attr.attr.group);
        attr
    }

    /// Returns the SCHED_DEADLINE reservation of a task at its begin.
    #[must_use]
    pub fn first_reservation(&self) -> Option<Reservation> {
        TaskSpec::reservation_in(&self.phases[0], self.properties.reservation)
    }

    /// Returns the reservation from the begin of `phase` on, after `old`.
    #[must_use]
    pub fn reservation_in(phase: &Phase, old: Option<Reservation>) -> Option<Reservation> {
        phase.properties.reserved(old)
    }

    /// Returns the attributes from the begin of `phase` on, after `old`. The CPUs of a change during the run,
    /// `changed`, replace those of the thread.
    #[must_use]
    pub fn attr_in(
        &self,
        phase: &Phase,
        old: &TaskAttr,
        changed: Option<&CpuSet>,
        cpusets: &Cpusets,
    ) -> TaskAttr {
        let mut attr = old.clone();
        phase.properties.replace(&mut attr);
        let asked = phase.properties.cpus.as_ref().or(changed);
        let asked = asked.or(self.properties.cpus.as_ref());
        attr.attr.affinity = cpusets.affinity(asked, attr.attr.group);
        attr
    }
}

/// A stretch of a task's life with the same properties.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The key; empty for the thread object that is its own phase.
    pub name: String,
    /// The number of rounds over its steps; `None` is without an end.
    pub loops: Option<u32>,
    /// The properties set at the begin of the phase. An absent property keeps its value; absent CPUs become those of
    /// the thread.
    pub properties: SharedProperties,
    /// The steps of the task, in order.
    pub steps: Steps,
}

/// The way in which a released mutex goes to its waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MutexKind {
    /// The first task to arrive takes it. One waiter is woken, and waits again if another task was faster.
    #[default]
    Barge,
    /// The next waiter owns it at once.
    HandOver,
    /// The next waiter owns it at once, and its owner inherits the highest priority of its waiters.
    Inherit,
}

/// The shared objects of a scenario, each kind numbered by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// The mutexes: name and kind.
    pub mutexes: Vec<(String, MutexKind)>,
    /// The names of the conditions.
    pub conditions: Vec<String>,
    /// The barriers: name and number of users (references times instances).
    pub barriers: Vec<(String, u32)>,
    /// The names of the semaphores.
    pub semaphores: Vec<String>,
    /// The names under which tasks are suspended.
    pub suspends: Vec<String>,
    /// The names of the shared timers.
    pub timers: Vec<String>,
    /// The pipes: name and capacity in bytes.
    pub pipes: Vec<(String, u64)>,
}

impl Objects {
    /// Returns whether any mutex has priority inheritance.
    #[must_use]
    pub fn inherit(&self) -> bool {
        self.mutexes.iter().any(|&(_, kind)| kind == MutexKind::Inherit)
    }
}
