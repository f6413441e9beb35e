//! The CPU shares that tasks are charged in the [`situations`](super::situations), beside the expected ones. A part is
//! within bounds if it differs by at most 2 % of its share, or by two slices of one of its tasks in the measured time.
//!
//! All tasks are on one worker. The charge is the engine's account, not that of the tasks' clocks, which include the
//! cost of switches. For a part in a group the charge is the group's, with its tasks' accounts beside it. Members of a
//! batch are charged by the wall clock, so on a busy machine they are charged more than the group.

use super::Effort;
use super::expected::{Rule, Stretch, shares};
use super::host::builder;
use super::limits::cpu_time;
use super::rates::median;
use super::situations::{Does, Part, SITUATIONS, Situation};
use runyard::{Group, Limit, Runtime, Task, TaskBuilder, TaskHandle, time, yield_now};
use runyard_engine::config::Config;
use runyard_engine::topology::Topology;
use serde::Serialize;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Length of a run in turns. A turn is 0.3 s by default, so a run is 3 s.
const SPANS: u32 = 10;
/// Length of a run in turns if a share is small: 60 s by default.
const SPANS_OF_SMALL: u32 = 200;

/// Time before the measurement, in which tasks work off their initial lag. It is this span and two turns of all tasks.
const RUN_IN: Duration = Duration::from_millis(300);
const RUN_IN_TURNS: u32 = 2;

/// Allowed difference of a share as a part of the expected one.
const MAX_APART: f64 = 0.02;
/// Allowed difference of a share in slices; the greater of the two counts.
const MAX_SLICES: f64 = 2.0;

/// Steps that a task computes between two reads of its clock: less than a microsecond.
const STEPS: u32 = 500;

/// The share of a part of a situation.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    /// Name of the situation.
    pub situation: &'static str,
    /// Name of the part.
    pub part: &'static str,
    /// Number of its tasks at any time.
    pub tasks: u32,
    /// Length of a run.
    pub seconds: f64,
    /// The rule by which the share is expected.
    pub rule: Rule,
    /// The expected share of the total use, or of the CPU if there are limits.
    pub expected: f64,
    /// The charged share: the median of the runs.
    pub measured: f64,
    /// The least and the greatest share of a run.
    pub range: [f64; 2],
    /// The least and the greatest charge of a single task over its expected part of the total charge of the tasks or
    /// their group: medians of the runs. On a quiet machine the mean is 1.
    pub single: [f64; 2],
    /// The measured share less the expected one.
    pub apart: f64,
    /// The allowed difference, up or down: 2 % of the expected share, or two slices.
    pub allowed: f64,
    /// Whether the difference is allowed.
    pub is_within: bool,
    /// Whether the difference is allowed or at most two hundredths of the whole, which the engine's model of batches
    /// promises.
    pub is_within_model: bool,
}

/// Measures every situation.
pub(crate) fn measure(effort: &Effort) -> Vec<Share> {
    let only = effort.situation.as_deref().unwrap_or_default();
    let some = SITUATIONS.iter().filter(|situation| situation.name.contains(only));
    some.flat_map(|situation| in_situation(situation, effort)).collect()
}

fn in_situation(situation: &'static Situation, effort: &Effort) -> Vec<Share> {
    eprintln!("  {} ...", situation.name);
    let spans = if situation.has_small { SPANS_OF_SMALL } else { SPANS };
    let turn = Duration::from_nanos(config().min_granularity.0) * situation.tasks();
    let stretch = Stretch { run_in: RUN_IN + RUN_IN_TURNS * turn, span: effort.span * spans };
    let (rule, expected) = shares(situation, stretch);
    let runs: Vec<_> = (0..effort.rounds).map(|_| run(situation, stretch)).collect();
    let share = |(nth, (part, expected)): (usize, (&Part, f64))| {
        let of = |figure: fn(&Charged) -> f64| {
            let mut figures: Vec<_> = runs.iter().map(|run| figure(&run[nth])).collect();
            (median(&mut figures), [figures[0], figures[figures.len() - 1]])
        };
        let (measured, range) = of(|charged| charged.share);
        let single = [of(|charged| charged.single[0]).0, of(|charged| charged.single[1]).0];
        let apart = measured - expected;
        let slices = MAX_SLICES * slice(situation, part, expected).as_secs_f64();
        let allowed = (MAX_APART * expected).max(slices / stretch.span.as_secs_f64());
        Share {
            situation: situation.name,
            part: part.name,
            tasks: part.tasks,
            seconds: stretch.span.as_secs_f64(),
            rule,
            expected,
            measured,
            range,
            single,
            apart,
            allowed,
            is_within: apart.abs() <= allowed,
            is_within_model: apart.abs() <= allowed.max(MAX_APART),
        }
    };
    situation.parts.iter().zip(expected).enumerate().map(share).collect()
}

fn config() -> Config {
    Config::new(Topology::flat(1).expect("a machine has a CPU"))
}

/// Returns the slice of a task of the part at the expected share: its part of the time in which all tasks have a turn.
fn slice(situation: &Situation, part: &Part, expected: f64) -> Duration {
    let config = config();
    let all = (config.min_granularity.0 * u64::from(situation.tasks())).max(config.latency.0);
    let own = (all as f64 * expected / f64::from(part.tasks)) as u64;
    Duration::from_nanos(own.max(config.min_granularity.0))
}

/// The charge of a part's tasks in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charged {
    pub(super) share: f64,
    pub(super) single: [f64; 2],
}

/// Returns the charge of each part in a run.
fn run(situation: &Situation, stretch: Stretch) -> Vec<Charged> {
    let running = Running::start(situation);
    thread::sleep(stretch.run_in);
    let before = running.look();
    thread::sleep(stretch.span);
    let after = running.look();
    running.stop.store(true, Ordering::Relaxed);
    let looks = before.parts.iter().zip(&after.parts);
    let parts: Vec<_> = looks.map(|(before, after)| after.since(before)).collect();
    let whole = match situation.is_limited() {
        true => (after.at - before.at).as_secs_f64(),
        false => parts.iter().map(|part| part.all.as_secs_f64()).sum(),
    };
    parts.iter().map(|part| part.charged(whole)).collect()
}

/// The running tasks of a situation.
struct Running {
    /// The runtime, which ends the tasks when it is dropped.
    _runtime: Runtime,
    stop: Arc<AtomicBool>,
    parts: Vec<(Tasks, Option<Group>)>,
}

/// The tasks of a part.
pub(super) enum Tasks {
    Same(Vec<TaskHandle>),
    /// A chain of tasks, one after the other.
    Chain(Arc<Chain>),
}

/// A sample of all parts' use.
struct Look {
    at: Instant,
    parts: Vec<Used>,
}

/// The CPU time that a part used.
pub(super) struct Used {
    /// The total, by the account of its group or by those of its tasks.
    pub(super) all: Duration,
    /// The time of each task; a chain counts as one.
    single: Vec<Duration>,
}

impl Used {
    pub(super) fn of((tasks, group): &(Tasks, Option<Group>)) -> Used {
        let single: Vec<_> = match tasks {
            Tasks::Same(tasks) => tasks.iter().map(|task| task.usage().used).collect(),
            Tasks::Chain(chain) => vec![Duration::from_nanos(chain.used.load(Ordering::Relaxed))],
        };
        let all = group.as_ref().map_or_else(|| single.iter().sum(), |group| group.usage().used);
        Used { all, single }
    }

    pub(super) fn since(&self, before: &Used) -> Used {
        let single = self.single.iter().zip(&before.single);
        Used {
            all: self.all.saturating_sub(before.all),
            single: single.map(|(now, before)| now.saturating_sub(*before)).collect(),
        }
    }

    pub(super) fn charged(&self, whole: f64) -> Charged {
        let all = self.all.as_secs_f64();
        let over_mean = |used: &Duration| used.as_secs_f64() * self.single.len() as f64 / all;
        let single = || self.single.iter().map(over_mean);
        let single = [single().fold(f64::INFINITY, f64::min), single().fold(0.0, f64::max)];
        Charged { share: all / whole, single }
    }
}

impl Running {
    fn start(situation: &Situation) -> Running {
        let runtime = builder(1).build();
        let stop = Arc::new(AtomicBool::new(false));
        let groups = groups(&runtime, situation);
        let start = |part: &Part| {
            let builder = || in_group(part, &groups);
            let group = part.group.map(|path| find(&groups, path).clone());
            (start(part.does, part.tasks, builder, &stop), group)
        };
        let parts = runtime.block_on(async { situation.parts.iter().map(start).collect() });
        Running { _runtime: runtime, stop, parts }
    }

    fn look(&self) -> Look {
        Look { at: Instant::now(), parts: self.parts.iter().map(Used::of).collect() }
    }
}

/// Returns the groups of a situation with their paths, in its order.
fn groups(runtime: &Runtime, situation: &Situation) -> Vec<(&'static str, Group)> {
    let mut groups: Vec<(&'static str, Group)> = Vec::new();
    for asked in situation.groups {
        let above = asked.parent().map(|path| find(&groups, path));
        let builder = match above {
            Some(above) => above.group(asked.name()),
            None => runtime.group(asked.name()),
        };
        let limit = asked.limit.map(|it| Limit::new(it.period * it.percent / 100, it.period));
        let group = builder.weight(asked.weight).limit(limit).create();
        groups.push((asked.path, group.expect("there is room for a few groups")));
    }
    groups
}

fn find<'a>(groups: &'a [(&'static str, Group)], path: &str) -> &'a Group {
    let found = groups.iter().find(|(known, _)| *known == path);
    &found.expect("a group comes before its children and tasks").1
}

/// Returns a builder with only the attributes of the part. A task without attributes is polled in batches.
fn in_group(part: &Part, groups: &[(&'static str, Group)]) -> TaskBuilder {
    let mut task = Task::builder();
    if part.nice != 0 {
        task = task.nice(part.nice);
    }
    if let Some(path) = part.group {
        task = task.group(find(groups, path));
    }
    task
}

pub(super) fn start(
    does: Does,
    tasks: u32,
    task: impl Fn() -> TaskBuilder,
    stop: &Arc<AtomicBool>,
) -> Tasks {
    if let Does::Spawns(poll) = does {
        let chain = Arc::new(Chain { poll, used: AtomicU64::new(0), stop: stop.clone() });
        drop(task().spawn(first(chain.clone())));
        return Tasks::Chain(chain);
    }
    let one = |_| task().spawn(work(does, stop.clone())).task().clone();
    Tasks::Same((0..tasks).map(one).collect())
}

async fn work(does: Does, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        match does {
            Does::Computes => _ = black_box(0),
            Does::OnlyYields => yield_now().await,
            Does::Yields(poll) => {
                compute(poll);
                yield_now().await;
            }
            Does::Sleeps { computes, sleeps } => {
                compute(computes);
                time::sleep(sleeps).await;
            }
            Does::Spawns(_) => unreachable!("a chain has a text of its own"),
        }
    }
}

/// Computes until the calling thread, and so the calling task, has used `span` of CPU time.
fn compute(span: Duration) {
    let end = cpu_time() + span;
    while cpu_time() < end {
        (0..STEPS).for_each(|step| _ = black_box(step));
    }
}

/// A chain of tasks, each of which spawns the next and ends.
pub(super) struct Chain {
    poll: Duration,
    /// The charge of the finished tasks in nanoseconds.
    used: AtomicU64,
    stop: Arc<AtomicBool>,
}

async fn first(chain: Arc<Chain>) {
    go_on(chain);
}

/// Finishes a poll of a chain's task: computes, and spawns the next task. The charge of a task is final when it has
/// ended, so the next task adds it.
fn go_on(chain: Arc<Chain>) {
    compute(chain.poll);
    if chain.stop.load(Ordering::Relaxed) {
        return;
    }
    let before = Task::current();
    drop(runyard::spawn(async move {
        chain.used.fetch_add(before.usage().used.as_nanos() as u64, Ordering::Relaxed);
        drop(before);
        go_on(chain);
    }));
}

#[cfg(test)]
mod tests {
    use super::super::within_time;
    use super::*;

    /// A stretch in which every task has some turns.
    const STRETCH: Stretch =
        Stretch { run_in: Duration::from_millis(50), span: Duration::from_millis(100) };

    #[test]
    fn every_part_of_every_situation_is_charged() {
        for situation in &SITUATIONS {
            // One turn of a thousand tasks takes a second, too long for a test.
            if situation.tasks() > 200 {
                continue;
            }
            let charged = within_time(|| run(situation, STRETCH));
            assert_eq!(charged.len(), situation.parts.len(), "{}", situation.name);
            let shares = charged.iter().map(|charged| charged.share);
            assert!(shares.clone().all(|share| share >= 0.0), "{}: {charged:?}", situation.name);
            // On a busy machine other programs take the rest.
            assert!(shares.sum::<f64>() > 0.1, "{}: {charged:?}", situation.name);
        }
    }

    #[test]
    fn a_slice_is_a_part_of_the_turns_of_all() {
        let two = &SITUATIONS[0];
        assert_eq!(slice(two, &two.parts[0], 0.5), Duration::from_millis(3));
        let many = &SITUATIONS[1];
        assert_eq!(slice(many, &many.parts[0], 2.0 / 1_002.0), Duration::from_micros(750));
    }
}
