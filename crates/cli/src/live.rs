//! `runyard live`: a scenario on the runyard runtime, on this machine's CPUs, in this process.
//!
//! Each task is a task of the runtime, with the policy, the CPUs, the timer slack, the latency nice and
//! the slice of the scenario's. The report is made from the runtime's events, like a simulation's. The run begins
//! with the first task; what the runtime says of the time before it, or after the run's end, does
//! not count.

use crate::Failure;
use crate::machine;
use crate::options::HostOptions;
use crate::output;
use crate::outputs::{self, Ended, Outputs};
use crate::play::{Birth, Diary, Plan, Section, Stage, World, play};
use crate::sync::{Arc, Mutex, OnceLock, lock};
use crate::trace::Kept;
use clap::Args;
use runyard::{JoinHandle, Observer, Runtime, Task};
use runyard_engine::attr::{Attr, GroupId};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::features::Features;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{Checks, Collector, RunInfo, TaskInfo};
use std::fmt::Debug;
use std::future::Future;
use std::task::Waker;
use std::time::{Duration, Instant};

/// The arguments of `runyard live`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let host = &arguments.host;
    if host.has_features() {
        return Err(Failure::input("--feature: live runs with all features as they are"));
    }
    let cpus = machine::cpus(host.cpus)?.len();
    let parsed = host.read_on(cpus)?;
    if parsed.scenario.groups.len() > 1 {
        machine::warn_of_groups("live", "the runtime has none");
    }
    machine::warn(&parsed.scenario, "live");
    if parsed.scenario.features != Features::default() {
        output::say("warning: live runs with all features as they are, not as the file says");
    }
    let outputs = Outputs::open(host)?;
    let heard = Heard { accounts: outputs.collector(), kept: outputs.kept() };
    let heard = Arc::new(Mutex::new(heard));
    let started = Instant::now();
    let log = host.log.is_some();
    let plan = Plan { scenario: parsed.scenario, seed: host.seed, watch: None, log };
    let (world, tasks) = perform(plan, cpus, heard.clone())?;
    let wall = Nanos(started.elapsed().as_nanos() as u64);
    let (accounts, kept) = std::mem::take(&mut *lock(&heard)).finish();
    let (end, totals) = (world.ended(), accounts.finish(world.ended()));
    let info = RunInfo { scenario: host.name(), seed: host.seed, wall, ..info(&world, &tasks) };
    let ended = Ended { info, totals, end, kept };
    outputs.finish(ended, Checks::NotDone, |folder, _| world.write_log(folder))
}

/// Runs `plan` for those who watch it.
pub(crate) fn watched(plan: Plan, cpus: usize) -> Result<(), Failure> {
    perform(plan, cpus, Arc::new(Mutex::new(Heard::default()))).map(|_| ())
}

/// Runs `plan` for somebody who hears what happens; what the runtime calls each of its tasks.
pub(crate) fn heard<H: Hear + 'static>(
    plan: Plan,
    cpus: usize,
    ear: Arc<Mutex<H>>,
) -> Result<Vec<TaskId>, Failure> {
    perform(plan, cpus, ear).map(|(_, tasks)| tasks)
}

/// Who hears what happens in a run, from its beginning to its end.
pub(crate) trait Hear: Debug + Send {
    /// Takes the next event. Its time counts from the beginning of the run.
    fn event(&mut self, event: &Event);
}

/// A run that is over: what is known of it, and what the runtime calls each of its tasks.
type Over = (Arc<World>, Vec<TaskId>);

/// Runs `plan` to its end on so many CPUs. What happens is `heard`.
fn perform(plan: Plan, cpus: usize, heard: Arc<Mutex<dyn Hear>>) -> Result<Over, Failure> {
    let (world, births) = World::new(plan, cpus, Unstopped);
    let log = Arc::new(Log { world: world.clone(), begin: OnceLock::new(), heard });
    let tasks = live(&world, births, &log, cpus);
    match world.refused() {
        None => Ok((world, tasks)),
        Some(why) => Err(Failure::Refused(format!("live: {why}"))),
    }
}

fn live(world: &Arc<World>, births: Vec<Birth>, log: &Arc<Log>, cpus: usize) -> Vec<TaskId> {
    let runtime = Runtime::builder().workers(cpus).observer(log.clone()).build();
    let log = log.clone();
    let tasks = Tasks(Arc::new(Crew { world: world.clone(), log, handles: Mutex::default() }));
    runtime.block_on(async {
        if let Err(why) = births.into_iter().try_for_each(|birth| tasks.start(birth)) {
            world.refuse(why);
        }
    });
    world.wait(|| tasks.now());
    runtime.block_on(tasks.0.join())
}

/// What the runtime cannot know: what the scenario calls its tasks.
fn info(world: &World, names: &[TaskId]) -> RunInfo {
    let tasks = world.known().into_iter().zip(names).map(|(known, &id)| TaskInfo {
        id,
        name: known.name,
        thread: known.thread,
        policy: known.policy,
        latency_nice: known.latency_nice.get().into(),
        group: GroupId::ROOT,
    });
    RunInfo {
        host: "live".to_owned(),
        features: outputs::names(&Features::default()),
        cpus: world.all().len(),
        tasks: tasks.collect(),
        groups: outputs::groups(&world.scenario, outputs::uncounted(&world.scenario)),
        ..RunInfo::default()
    }
}

/// The runtime as the host of tasks.
#[derive(Clone)]
struct Tasks(Arc<Crew>);

struct Crew {
    world: Arc<World>,
    log: Arc<Log>,
    handles: Mutex<Vec<(TaskId, JoinHandle<Diary>)>>,
}

impl Stage for Tasks {
    fn now(&self) -> Time {
        let begin = self.0.log.begin.get();
        Time(begin.map_or(0, |&(begin, _)| begin.elapsed().as_nanos() as u64))
    }

    fn sleep_until(&self, at: Time, _: Nanos) -> impl Future<Output = ()> + Send {
        let (begin, _) = *self.0.log.begin.get().expect("a task runs: the run has begun");
        runyard::time::sleep_until(begin + Duration::from_nanos(at.0))
    }

    fn yield_now(&self) -> impl Future<Output = ()> + Send {
        runyard::yield_now()
    }

    fn apply(&self, new: &Attr, old: &Attr) -> Result<(), String> {
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
        match new.latency_nice == old.latency_nice {
            true => Ok(()),
            false => task.set_latency_nice(new.latency_nice).map_err(|why| why.to_string()),
        }
    }

    fn start(&self, birth: Birth) -> Result<(), String> {
        let builder = Task::builder()
            .name(birth.name.clone())
            .policy(birth.attr.policy)
            .affinity(birth.attr.affinity.iter().map(CpuId::index))
            .slack(Duration::from_nanos(birth.attr.slack.0))
            .latency_nice(birth.attr.latency_nice.get())
            // What a forked task inherits is settled by now: the runtime is to add nothing.
            .reset_on_fork();
        let builder = match birth.attr.slice {
            Some(slice) => builder.slice(Duration::from_nanos(slice.get().0)),
            None => builder,
        };
        let task = birth.task;
        let handle = builder.spawn(play(self.clone(), self.0.world.clone(), birth));
        let mut made = Some((task, handle));
        Unstopped.run(&mut || lock(&self.0.handles).extend(made.take()));
        Ok(())
    }
}

impl Crew {
    /// Waits for all tasks, those that are forked meanwhile included. What the runtime calls each,
    /// in the order of the world's.
    async fn join(&self) -> Vec<TaskId> {
        let mut names = Vec::new();
        while let Some((task, handle)) = { lock(&self.handles).pop() } {
            names.resize(names.len().max(task.index() + 1), TaskId(0));
            names[task.index()] = handle.id();
            handle.await.expect("the tasks of a scenario do not panic");
        }
        names
    }
}

/// Where a task is not to be stopped: it has a lock that others want.
#[derive(Debug)]
struct Unstopped;

impl Section for Unstopped {
    fn run(&self, access: &mut dyn FnMut()) {
        runyard::without_preemption(access);
    }

    /// The waker's step is over, but not its poll.
    fn wake(&self, woken: Vec<Waker>) {
        runyard::wake_at_once(|| woken.into_iter().for_each(Waker::wake));
    }
}

/// Takes the runtime's events, while the run lasts.
#[derive(Debug)]
struct Log {
    world: Arc<World>,
    /// When the first task came into being, on both clocks: here, and in the events.
    begin: OnceLock<(Instant, Time)>,
    heard: Arc<Mutex<dyn Hear>>,
}

/// What becomes of the events: they are accounted for at once, unless a trace is wanted. Then they
/// are kept, and accounted for in the order in which the trace has them.
#[derive(Debug, Default)]
struct Heard {
    accounts: Collector,
    kept: Option<Kept>,
}

impl Hear for Heard {
    fn event(&mut self, event: &Event) {
        match &mut self.kept {
            None => self.accounts.event(event),
            Some(kept) => kept.push(event),
        }
    }
}

impl Heard {
    /// The accounts, and what was kept in order of time.
    fn finish(mut self) -> (Collector, Option<Kept>) {
        let kept = self.kept.map(Kept::in_order);
        kept.iter().flat_map(Kept::iter).for_each(|event| self.accounts.event(event));
        (self.accounts, kept)
    }
}

impl Observer for Log {
    fn event(&self, event: &Event) {
        if let What::Spawn { .. } = event.what {
            self.begin.get_or_init(|| (Instant::now(), event.at));
        }
        let Some(&(_, zero)) = self.begin.get() else { return };
        let told = |at: Time| Time(at.0.saturating_sub(zero.0));
        let (at, cpu) = (told(event.at), event.cpu);
        if self.world.is_over(at) {
            return;
        }
        let what = match event.what {
            What::Wake { task, since, by } => What::Wake { task, since: told(since), by },
            what => what,
        };
        lock(&self.heard).event(&Event { at, cpu, what });
    }
}
