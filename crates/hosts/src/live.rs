//! The host that plays a scenario on the runyard runtime, on this machine's CPUs, in this process.
//!
//! Each task is a task of the runtime, with the scenario's policy, CPUs, timer slack, latency nice, slice, cookie and
//! task group. The report is made from the runtime's events, like a simulation's. The run begins with the first task.
//! Events before that, or after the run's end, do not count. The runtime delivers events some time after they happened,
//! so their timestamps decide.

use crate::play::{Asked, NewTask, Plan, Section, Stage, TaskStats, World, play};
use crate::sync::{Arc, AtomicBool, Mutex, OnceLock, Ordering, lock};
use runyard::experiments::Experiments;
use runyard::{Builder, Group, JoinHandle, Limit, Observer, Runtime, Task};
use runyard_engine::attr::{GroupId, Weight};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::limits::{Usage, UsageOnCpu};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_outcome::scenario;
use runyard_outcome::stderr::say;
use runyard_report::{GroupUsage, RunInfo, TaskInfo};
use runyard_workload::Scenario;
use runyard_workload::log::Row;
use runyard_workload::objects::Undone;
use runyard_workload::scenario::TaskGroup;
use std::fmt::Debug;
use std::future::Future;
use std::task::Waker;
use std::time::{Duration, Instant};

/// A receiver of the events of a run, from its beginning to its end.
pub trait EventSink: Debug + Send {
    /// Takes the next event. Its time counts from the beginning of the run.
    fn event(&mut self, event: &Event);
}

/// Ignores the events, for a run that only its watcher observes.
impl EventSink for () {
    fn event(&mut self, _: &Event) {}
}

/// A finished run on the runtime.
#[derive(Debug)]
pub struct LiveRun {
    world: Arc<World>,
    tasks: Vec<Ended>,
    /// The effect of limits on each task group.
    usage: Vec<GroupUsage>,
}

/// A finished task.
#[derive(Clone, Debug)]
struct Ended {
    /// The runtime's number of the task.
    id: TaskId,
    worked: Nanos,
    missed: u64,
}

/// Plays `plan` to its end on as many CPUs; `sink` receives the events.
///
/// The runtime stops tasks anywhere, even in the allocator: the program must have [`runyard::Allocator`] as its global
/// allocator.
///
/// # Errors
/// If the runtime refuses a request of the scenario.
pub fn run(
    mut plan: Plan,
    cpus: usize,
    sink: Arc<Mutex<dyn EventSink>>,
) -> Result<LiveRun, Failure> {
    plan.scenario.features = plan.scenario.features.in_runtime();
    let (world, tasks) = World::new(plan, cpus, Unstopped, None);
    let log = Arc::new(Log {
        world: world.clone(),
        begin: OnceLock::new(),
        began: AtomicBool::new(false),
        over: OnceLock::new(),
        sink,
    });
    let (tasks, usage) = live(&world, tasks, &log, cpus)?;
    match world.refused() {
        None => Ok(LiveRun { world, tasks, usage }),
        Some(why) => Err(Failure::Refused(format!("live: {why}"))),
    }
}

impl LiveRun {
    /// The scenario of the run.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.world.scenario
    }

    /// The end of the run.
    #[must_use]
    pub fn ended(&self) -> Time {
        self.world.ended()
    }

    /// The runtime's number of each task, in the order of the scenario.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.tasks.iter().map(|task| task.id)
    }

    /// The CPU time that the `run` and `memory` steps of each task used, by the clocks of the threads. The runtime's
    /// accounts play no part in it.
    pub fn worked(&self) -> impl Iterator<Item = Nanos> {
        self.tasks.iter().map(|task| task.worked)
    }

    /// The facts that no event has: the scenario's names of the tasks, and the effect of limits.
    #[must_use]
    pub fn info(&self) -> RunInfo {
        let LiveRun { world, tasks, usage } = self;
        let tasks = world.known().into_iter().zip(tasks).map(|(known, task)| TaskInfo {
            id: task.id,
            name: known.name,
            thread: known.thread,
            policy: known.policy,
            latency_nice: known.latency_nice.get().into(),
            group: known.group,
            cookie: known.cookie,
            missed: Some(task.missed),
            slack: known.slack,
        });
        RunInfo {
            host: "live".to_owned(),
            kernel: Some(world.scenario.model.to_string()),
            features: scenario::feature_names(&world.scenario.features),
            cpus: world.all().len(),
            topology: Some(world.scenario.machine.topology),
            tasks: tasks.collect(),
            cookies: world.scenario.cookies.clone(),
            groups: scenario::groups(&world.scenario, |group| usage.get(group.index()).cloned()),
            chains: world.chains(),
            blocked_at_end: scenario::blocked(self.left()),
            ..RunInfo::default()
        }
    }

    /// Waits without an end, and resumptions that found no suspended task.
    #[must_use]
    pub fn left(&self) -> Undone {
        self.world.left()
    }

    /// Takes the logs of the tasks, if the plan asked for some.
    #[must_use]
    pub fn take_rows(&self) -> Vec<Row> {
        self.world.take_rows()
    }
}

fn live(
    world: &Arc<World>,
    new: Vec<NewTask>,
    log: &Arc<Log>,
    cpus: usize,
) -> Result<(Vec<Ended>, Vec<GroupUsage>), Failure> {
    let below_root = world.scenario.groups.len() - 1;
    let builder = Runtime::builder()
        .workers(cpus)
        .max_groups(below_root)
        .kernel(world.scenario.model)
        .tuned(world.scenario.tuned.clone())
        .features(world.scenario.features)
        .observer(log.clone());
    let runtime = match world.scenario.cookies.is_empty() {
        true => builder.build(),
        false => with_cookies(builder),
    };
    let groups = create(&runtime, &world.scenario)?;
    let (world, begin, handles) = (world.clone(), Instant::now(), Mutex::default());
    let at = |instant: Instant| Time((instant - runtime.started()).as_nanos() as u64);
    log.begin.set(at(begin)).expect("a run begins once");
    let tasks = Tasks(Arc::new(Crew { world: world.clone(), begin, handles, groups }));
    runtime.block_on(async {
        if let Err(why) = new.into_iter().try_for_each(|task| tasks.start(task)) {
            world.refuse(why);
        }
    });
    world.wait(|| tasks.now());
    log.over.set(at(Instant::now())).expect("a run is over once");
    let usage =
        tasks.0.groups.iter().map(|group| group.as_ref().map_or_else(Default::default, used));
    let usage = usage.collect();
    // No task may wait for budget when the run is over.
    for group in tasks.0.groups.iter().flatten() {
        group.set_limit(None).expect("no limit is one");
    }
    Ok((runtime.block_on(tasks.0.join()), usage))
}

/// A runtime that keeps cookies, or reports why it does not. Its workers are pinned only for this.
fn with_cookies(builder: Builder) -> Runtime {
    let keeps = builder.clone().pin_workers(true).cookies(true).build();
    let Err(why) = keeps.keeps_cookies() else { return keeps };
    say(format!("warning: live: cookies have no effect: {why}"));
    drop(keeps);
    builder.build()
}

/// The task groups of a scenario, in its order; the root has none.
fn create(runtime: &Runtime, scenario: &Scenario) -> Result<Vec<Option<Group>>, Failure> {
    let mut groups: Vec<Option<Group>> = vec![None];
    for (id, TaskGroup { path, spec, .. }) in scenario.groups.iter().enumerate().skip(1) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let builder = match &groups[spec.parent.index()] {
            Some(parent) => parent.group(name),
            None => runtime.group(name),
        };
        let builder = builder
            .weight(if spec.idle { Weight::NICE_0 } else { spec.weight }.get())
            .latency_nice(spec.latency_nice.get())
            .limit(spec.limit.map(limit))
            .cookie(spec.cookie);
        let group = if spec.idle { builder.idle() } else { builder }.create();
        let group = group.map_err(|why| Failure::Refused(format!("live: {path}: {why}")))?;
        assert_eq!(group.id().index(), id, "the runtime numbers groups as they come");
        groups.push(Some(group));
    }
    Ok(groups)
}

fn limit(limit: runyard_engine::limits::Limit) -> Limit {
    let span = |span: Nanos| Duration::from_nanos(span.0);
    let new = Limit::new(span(limit.runtime()), span(limit.period())).burst(span(limit.burst()));
    if limit.is_per_cpu() { new.per_cpu() } else { new }
}

/// The effect of a group's limit so far.
fn used(group: &Group) -> GroupUsage {
    let usage = group.usage();
    let all = Usage {
        nr_periods: usage.nr_periods,
        nr_throttled: usage.nr_throttled,
        throttled: Nanos::from(usage.throttled),
        nr_bursts: usage.nr_bursts,
        burst: Nanos::from(usage.burst),
        borrowed: Nanos::from(usage.borrowed),
    };
    let there = usage.cpus.into_iter().map(|there| {
        let on = UsageOnCpu {
            used: Nanos::from(there.used),
            nr_throttled: there.nr_throttled,
            throttled: Nanos::from(there.throttled),
            borrowed: Nanos::from(there.borrowed),
        };
        (CpuId::at(there.cpu), on)
    });
    (all, there.collect())
}

/// The host for tasks on the runtime.
#[derive(Clone)]
struct Tasks(Arc<Crew>);

struct Crew {
    world: Arc<World>,
    begin: Instant,
    handles: Mutex<Vec<(TaskId, JoinHandle<TaskStats>)>>,
    /// The groups by their numbers in the scenario; the root has none.
    groups: Vec<Option<Group>>,
}

impl Stage for Tasks {
    fn now(&self) -> Time {
        Time(self.0.begin.elapsed().as_nanos() as u64)
    }

    fn sleep_until(&self, at: Time, _: Nanos) -> impl Future<Output = ()> + Send {
        runyard::time::sleep_until(self.0.begin + Duration::from_nanos(at.0))
    }

    fn yield_now(&self) -> impl Future<Output = ()> + Send {
        runyard::yield_now()
    }

    fn apply(&self, new: &Asked, old: &Asked) -> Result<(), String> {
        let (new, old) = (&new.attr, &old.attr);
        let task = Task::current();
        if new.policy != old.policy {
            task.set_policy(new.policy);
        }
        if new.affinity != old.affinity {
            task.set_affinity(new.affinity.iter().map(CpuId::index));
        }
        if new.slack != old.slack {
            task.set_slack(Duration::from_nanos(new.slack.0));
        }
        if new.slice != old.slice {
            task.set_slice(new.slice);
        }
        if new.cookie != old.cookie {
            task.set_cookie(new.cookie);
        }
        if new.group != old.group {
            task.set_group(self.0.group(new.group));
        }
        match new.latency_nice == old.latency_nice {
            true => Ok(()),
            false => task.set_latency_nice(new.latency_nice).map_err(|why| why.to_string()),
        }
    }

    fn start(&self, new: NewTask) -> Result<(), String> {
        let attr = &new.asked.attr;
        let builder = Task::builder()
            .name(new.name.clone())
            .policy(attr.policy)
            .affinity(attr.affinity.iter().map(CpuId::index))
            .slack(Duration::from_nanos(attr.slack.0))
            .latency_nice(attr.latency_nice.get())
            .group(self.0.group(attr.group))
            .cookie(attr.cookie)
            // The attributes of a forked task are complete by now: the runtime must add none.
            .reset_on_fork();
        let builder = match attr.slice {
            Some(slice) => builder.slice(Duration::from_nanos(slice.get().0)),
            None => builder,
        };
        let task = new.task;
        let handle = builder.spawn(play(self.clone(), self.0.world.clone(), new));
        let mut made = Some((task, handle));
        Unstopped.run(&mut || lock(&self.0.handles).extend(made.take()));
        Ok(())
    }
}

impl Crew {
    fn group(&self, group: GroupId) -> Option<&Group> {
        self.groups[group.index()].as_ref()
    }

    /// Waits for all tasks, including those that are forked meanwhile. The result is in the world's order.
    async fn join(&self) -> Vec<Ended> {
        let mut ended = Vec::new();
        let nobody = Ended { id: TaskId(0), worked: Nanos::ZERO, missed: 0 };
        while let Some((task, handle)) = { lock(&self.handles).pop() } {
            ended.resize(ended.len().max(task.index() + 1), nobody.clone());
            let id = handle.id();
            let stats = handle.await.expect("the tasks of a scenario do not panic");
            ended[task.index()] = Ended { id, worked: stats.worked, missed: stats.missed };
        }
        ended
    }
}

/// A section in which a task must not be stopped: it has a lock that others need.
#[derive(Debug)]
struct Unstopped;

impl Section for Unstopped {
    fn run(&self, access: &mut dyn FnMut()) {
        runyard::without_preemption(access);
    }

    /// The waker's step is over, but its poll is not.
    fn wake(&self, woken: Vec<Waker>) {
        runyard::wake_at_once(|| woken.into_iter().for_each(Waker::wake));
    }
}

/// Receives the runtime's events while the run lasts.
#[derive(Debug)]
struct Log {
    world: Arc<World>,
    /// The beginning and the end of the run, in the runtime's time.
    begin: OnceLock<Time>,
    over: OnceLock<Time>,
    /// Whether the first task's event has come.
    began: AtomicBool,
    sink: Arc<Mutex<dyn EventSink>>,
}

impl Observer for Log {
    fn event(&self, event: &Event) {
        let Some(&begin) = self.begin.get() else { return };
        let told = |at: Time| Time(at.0.saturating_sub(begin.0));
        let (mut at, cpu) = (told(event.at), event.cpu);
        let is_over = at >= self.world.end() || self.over.get().is_some_and(|&it| event.at >= it);
        if event.at < begin || is_over {
            return;
        }
        if !self.began.load(Ordering::Relaxed) {
            let What::Spawn { .. } = event.what else { return };
            // Making the task took some microseconds; the report has it from the beginning of the run.
            self.began.store(true, Ordering::Relaxed);
            at = Time::ZERO;
        }
        let what = match event.what {
            What::Wake { task, since, by } => What::Wake { task, since: told(since), by },
            what => what,
        };
        lock(&self.sink).event(&Event { at, cpu, what });
    }
}
