//! The share of the CPU that tasks are charged in the [`situations`](super::situations) of issue 20, beside the one that
//! they are to have. A part is as it should be if it is apart by no more than 2 % of its share, or by two slices of one
//! of its tasks in the time that is measured.
//!
//! All are on one worker. The charge is the engine's account, not the tasks' clocks: those say in
//! addition what switches cost. Of a part that is in a group the charge is the group's, and its tasks' accounts are
//! beside it: members of a batch are charged by the clock on the wall, so that on a busy machine they are charged more
//! than the group.

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

/// A run takes so many times the length of a turn, which is 0.3 s if not said: 3 s,
const SPANS: u32 = 10;
/// or 60 s if a share is small.
const SPANS_OF_SMALL: u32 = 200;

/// Before that, tasks work off what they owed or were owed at their start: so long, and two turns of all.
const RUN_IN: Duration = Duration::from_millis(300);
const RUN_IN_TURNS: u32 = 2;

/// A share may differ from the expected one by this part of that,
const MAX_APART: f64 = 0.02;
/// or so many slices.
const MAX_SLICES: f64 = 2.0;

/// A task computes so many steps between two looks at its clock: less than a microsecond.
const STEPS: u32 = 500;

/// The share of a part of a situation.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    /// The situation.
    pub situation: &'static str,
    /// The tasks whose share it is.
    pub part: &'static str,
    /// How many tasks these are at any time.
    pub tasks: u32,
    /// How long a run was.
    pub seconds: f64,
    /// By which rule a share is expected.
    pub rule: Rule,
    /// The expected share of what all used, or of the CPU if there are limits.
    pub expected: f64,
    /// The share that was charged: the median of the runs.
    pub measured: f64,
    /// The least and the greatest of a run.
    pub range: [f64; 2],
    /// The least and the greatest charge of a single task, over its part of what the tasks together, or their group,
    /// were charged: medians of the runs. On a quiet machine the mean task has 1.
    pub single: [f64; 2],
    /// The measured share less the expected one.
    pub apart: f64,
    /// The greatest difference that is allowed, up or down: 2 % of the expected share, or two slices.
    pub allowed: f64,
    /// Whether the difference is within that.
    pub is_within: bool,
    /// Whether it is at least within two hundredths of the whole, which is what the engine's model of batches promises.
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

/// The slice of a task of the part, if it has the expected share: its part of the time in which all have a turn.
fn slice(situation: &Situation, part: &Part, expected: f64) -> Duration {
    let config = config();
    let all = (config.min_granularity.0 * u64::from(situation.tasks())).max(config.latency.0);
    let own = (all as f64 * expected / f64::from(part.tasks)) as u64;
    Duration::from_nanos(own.max(config.min_granularity.0))
}

/// The charge of the tasks of a part in a run.
#[derive(Clone, Copy, Debug)]
struct Charged {
    share: f64,
    single: [f64; 2],
}

/// The charge of each part.
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

/// The tasks of a situation.
struct Running {
    /// Its end is that of the tasks.
    _runtime: Runtime,
    stop: Arc<AtomicBool>,
    parts: Vec<(Tasks, Option<Group>)>,
}

/// The tasks of a part.
enum Tasks {
    Same(Vec<TaskHandle>),
    /// One after the other.
    Chain(Arc<Chain>),
}

/// The use of all parts up to a moment.
struct Look {
    at: Instant,
    parts: Vec<Used>,
}

/// The CPU time that a part used.
struct Used {
    /// All of it: by the account of its group, or by those of its tasks.
    all: Duration,
    /// By each task; a chain counts as one.
    single: Vec<Duration>,
}

impl Used {
    fn of((tasks, group): &(Tasks, Option<Group>)) -> Used {
        let single: Vec<_> = match tasks {
            Tasks::Same(tasks) => tasks.iter().map(|task| task.usage().used).collect(),
            Tasks::Chain(chain) => vec![Duration::from_nanos(chain.used.load(Ordering::Relaxed))],
        };
        let all = group.as_ref().map_or_else(|| single.iter().sum(), |group| group.usage().used);
        Used { all, single }
    }

    fn since(&self, before: &Used) -> Used {
        let single = self.single.iter().zip(&before.single);
        Used {
            all: self.all.saturating_sub(before.all),
            single: single.map(|(now, before)| now.saturating_sub(*before)).collect(),
        }
    }

    fn charged(&self, whole: f64) -> Charged {
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

/// The groups of a situation, in its order, with their paths.
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

/// A task that asks for no more than its part says: one that asks for nothing is polled in batches.
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

fn start(does: Does, tasks: u32, task: impl Fn() -> TaskBuilder, stop: &Arc<AtomicBool>) -> Tasks {
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

/// Computes until the calling thread, and so the calling task, has used so much CPU time.
fn compute(span: Duration) {
    let end = cpu_time() + span;
    while cpu_time() < end {
        (0..STEPS).for_each(|step| _ = black_box(step));
    }
}

/// Tasks of which each spawns the next and ends.
struct Chain {
    poll: Duration,
    /// The charge of the tasks that are over, in nanoseconds.
    used: AtomicU64,
    stop: Arc<AtomicBool>,
}

async fn first(chain: Arc<Chain>) {
    go_on(chain);
}

/// The rest of a poll of a chain's task: it computes, and spawns the next. The charge of a task is known when the task is
/// over, so the next one adds it up.
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

    /// Everybody has some turns.
    const STRETCH: Stretch =
        Stretch { run_in: Duration::from_millis(50), span: Duration::from_millis(100) };

    #[test]
    fn every_part_of_every_situation_is_charged() {
        for situation in &SITUATIONS {
            // A turn of a thousand tasks takes a second.
            if situation.tasks() > 200 {
                continue;
            }
            let charged = within_time(|| run(situation, STRETCH));
            assert_eq!(charged.len(), situation.parts.len(), "{}", situation.name);
            let shares = charged.iter().map(|charged| charged.share);
            assert!(shares.clone().all(|share| share >= 0.0), "{}: {charged:?}", situation.name);
            // The rest is what other programs take, if the machine is busy.
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
