//! The document's tables: hackbench, lat_ctx and kernbench, without hard limits, with them in a task group without a
//! limit, and with 450 ms of 500 ms on each CPU.
//!
//! The document shows that the three columns differ by no more than its runs do (the standard deviation of a kernbench
//! of 4.8 s is 0.29 s). Simulated runs have no such noise, so more is claimed: a group without a limit costs nothing,
//! and a limit costs no more than the time that it takes away.
//!
//! The machine is unknown, so the work of the workloads is fitted to the first column:
//! * hackbench sends a fifth of the original's messages, each with five times the work, 50 us for both ends. So a run
//!   is as long beside the period of the limit.
//! * lat_ctx goes through its working set for the time that the document gives for a switch there.
//! * kernbench is the shipped scenario. Its reading and linking are the difference between the times with 12 and with
//!   96 jobs. With as many jobs as files it takes as long as with 96.

use super::{CPUS, SOAK_RUNS};
use crate::figure::rounded;
use crate::latency_nice::hackbench::Hackbench;
use crate::rows::{Row, Sides, Word};
use crate::setting::{Part, Seen, Setting, of_run};
use crate::spread::Spread;
use runyard_engine::attr::GroupId;
use runyard_engine::kernel::Experiment;
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{ObjectId, Step};

const HOGS: &str = include_str!("../../scenarios/hard-limits.json");
const KERNBENCH: &str = include_str!("../../scenarios/kernbench.json");

/// The index of the task group in these scenarios, after the root.
const LIMITED: usize = 1;

/// The document's `BW=450000/500000`, in us on each CPU. The shipped scenarios have it too.
pub(super) const RUNTIME: Nanos = Nanos::from_millis(450);
pub(super) const PERIOD: Nanos = Nanos::from_millis(500);

/// The document's limit.
pub(super) fn documents() -> Limit {
    Limit::new(RUNTIME, PERIOD, Nanos::ZERO, true).expect("the kernel takes it")
}

/// The number of messages that a sender of hackbench writes to a receiver.
const LOOPS: u32 = 20;

/// The computing time of either end of a message.
const WORK: Draw = Draw::Uniform(Nanos::from_micros(13), Nanos::from_micros(37));

/// The number of times that the token of lat_ctx is passed: seconds of run time, at a third of a millisecond and more.
const PASSES: u32 = 5_000;

/// The size of a token in a Linux pipe.
const TOKEN: u64 = 1;
const PIPE: u64 = 65_536;

/// The largest difference between figures that must agree, as a fraction. The document's own noise exceeds it.
const MAX_DIFFERENCE: f64 = 0.01;

/// The number of runs of kernbench, as in the document: only kernbench has deviations there.
const KERNBENCH_RUNS: u64 = 5;

/// The columns of the tables by their names in rows: `CFS_HARD_LIMITS=n`, where the limit has no effect;
/// `CFS_HARD_LIMITS=y` with infinite runtime; and with BW=450000/500000.
const UNLIMITED: (usize, &str) = (1, "unlimited");
const HELD: (usize, &str) = (2, "450 of 500 ms on each CPU");

/// The figures of a row in the three columns.
type Columns = [f64; 3];

/// All rows, in the document's order.
pub(super) fn parts(seed: u64) -> Vec<Part> {
    let mut parts: Vec<_> = [
        hackbench(10, [0.475, 0.384, 0.253]),
        hackbench(20, [0.610, 0.670, 0.692]),
        hackbench(50, [1.250, 1.201, 1.295]),
        hackbench(100, [1.981, 2.174, 1.583]),
        lat_ctx(1_024, 10, [315.87, 330.19, 317.04]),
        lat_ctx(1_024, 100, [675.52, 699.90, 698.50]),
        lat_ctx(1_024, 500, [775.01, 772.86, 772.30]),
        lat_ctx(2_048, 10, [1_319.01, 1_332.16, 1_328.09]),
        lat_ctx(2_048, 100, [1_400.77, 1_372.67, 1_382.27]),
        lat_ctx(2_048, 500, [1_479.40, 1_524.57, 1_615.84]),
    ]
    .map(|(setting, rows)| Part::new("", columns(setting.seeds([seed])).into(), rows))
    .into();
    parts.extend(MAKES.iter().map(|make| {
        let seeds = (0..KERNBENCH_RUNS).map(|nth| seed + nth * SOAK_RUNS);
        Part::new("", columns(kernbench(make.jobs).seeds(seeds)).into(), make.rows())
    }));
    parts
}

/// The three columns of a scenario whose tasks are in the group.
pub(super) fn columns(setting: Setting) -> [Setting; 3] {
    let off = setting.clone().before(Experiment::HardLimits);
    [off, setting.clone().set("groups./limited", "{}"), setting]
}

/// The rows about the times of a workload. A group without a limit takes as long as before. With the limit the workload
/// takes as long if it never needs more than the 21.6 CPUs of the group's budget; otherwise it takes what the limit allows.
fn times(
    name: &str,
    figure: fn(&str) -> Row<Seen>,
    published: Columns,
    (word, needs_all): (Word, bool),
) -> Vec<Row<Seen>> {
    let row = |(side, of): (usize, &str)| {
        figure(&format!("{name}, {of}")).of(0, side).published(published[0], published[side])
    };
    let free = Word::Same("a group without a limit is never throttled");
    vec![
        row(UNLIMITED).judged_by(free, |sides, _| apart(sides, 1) <= MAX_DIFFERENCE),
        row(HELD).judged_by(word, move |sides, _| match needs_all {
            true => {
                let (free, limited) = (sides[0][0], sides[2][0]);
                (earliest(limited.used.total())..=latest(free.time)).contains(&limited.time)
            }
            false => apart(sides, 2) <= MAX_DIFFERENCE,
        }),
    ]
}

/// The difference of the time in a column, as a fraction of that in the first.
fn apart(sides: &Sides<'_, Seen>, side: usize) -> f64 {
    let [free, other] = [0, side].map(|side| sides[side][0].time.0);
    free.abs_diff(other) as f64 / free as f64
}

/// The earliest time at which a group with the limit can have used so much.
fn earliest(used: Nanos) -> Nanos {
    let runtime = RUNTIME.0 * u64::from(CPUS);
    let (periods, rest) = (used.0 / runtime, used.0 % runtime);
    Nanos(periods * PERIOD.0 + rest / u64::from(CPUS))
}

/// The latest claimed end of a run that takes `free` without a limit: its time with nine tenths of the CPUs, and one
/// period that may have just run out at the end.
fn latest(free: Nanos) -> Nanos {
    Nanos(free.0 * PERIOD.0 / RUNTIME.0) + PERIOD
}

fn time(name: &str) -> Row<Seen> {
    of_run("time", "s", |run| rounded(seconds(run), 3)).below(name)
}

fn seconds(run: &Seen) -> f64 {
    run.time.0 as f64 / 1e9
}

fn a_switch(name: &str) -> Row<Seen> {
    let of = |run: &Seen| rounded(run.time.0 as f64 / f64::from(PASSES) / 1e3, 2);
    of_run("a switch", "us", of).below(name)
}

fn hackbench(groups: u32, published: Columns) -> (Setting, Vec<Row<Seen>>) {
    let word = match groups {
        10 | 20 => Word::Same("the run ends before a CPU has used its 450 ms"),
        _ => Word::Fitted("hackbench's messages and their work"),
    };
    let setting = Setting::of("hard-limits.json", HOGS).edit(move |scenario| {
        (scenario.tasks, scenario.duration) = (Vec::new(), None);
        Hackbench { groups, loops: Some(LOOPS) }.add_to(scenario);
        for task in &mut scenario.tasks {
            task.properties.group = Some(GroupId(LIMITED as u32));
            task.phases[0].steps.change(|step| match step {
                Step::Run(_) => Step::Run(WORK),
                other => other,
            });
        }
    });
    (setting, times(&format!("hackbench -pipe {groups}"), time, published, (word, true)))
}

/// lat_ctx: so many processes pass a token in a ring. Each goes through its working set when it has the token; so one
/// process computes at a time.
fn lat_ctx(kb: u32, processes: u32, published: Columns) -> (Setting, Vec<Row<Seen>>) {
    let word =
        Word::Fitted("the time of a pass of lat_ctx, which is the published figure without limits");
    let work = Nanos((published[0] * 1e3).round() as u64);
    let setting =
        Setting::of("hard-limits.json", HOGS).edit(move |scenario| ring(scenario, processes, work));
    (
        setting,
        times(&format!("lat_ctx of {kb} KB, {processes}"), a_switch, published, (word, false)),
    )
}

fn ring(scenario: &mut Scenario, processes: u32, work: Nanos) {
    let template = scenario.tasks.remove(0);
    scenario.duration = None;
    scenario.objects.pipes = (0..processes).map(|nth| (format!("ring-{nth}"), PIPE)).collect();
    for nth in 0..processes {
        let mut task = template.clone();
        (task.name, task.instances, task.loops) = (format!("process-{nth}"), 1, Some(1));
        let send = Step::Send { pipe: ObjectId((nth + 1) % processes), bytes: TOKEN };
        let recv = Step::Recv { pipe: ObjectId(nth), bytes: TOKEN };
        let work = Step::Run(Draw::Fixed(work));
        // The first process has the token, and gets it back at the end of each round.
        let steps = if nth == 0 { [work, send, recv] } else { [recv, work, send] };
        (task.phases[0].steps, task.phases[0].loops) = (steps.into(), Some(PASSES / processes));
        scenario.tasks.push(task);
    }
}

fn kernbench(jobs: u32) -> Setting {
    Setting::of("kernbench.json", KERNBENCH).set("tasks.make.phases.jobs.loop", jobs)
}

/// kernbench with so many jobs, and what the document tells of it.
struct Make {
    name: &'static str,
    jobs: u32,
    /// The figures of [`MEASURES`], and their standard deviations. The document gives none of the sum of two.
    figures: [(Columns, Option<Columns>); 5],
}

type Measure = fn(&Seen) -> f64;

/// What the document tells of kernbench: `%e`; `%U` and `%S` together, since a simulated task does not tell them apart;
/// `%P`; `%c` and `%w`.
const MEASURES: [(&str, &str, Measure); 5] = [
    ("time", "s", seconds),
    ("user and system time", "s", |run| run.used.total().0 as f64 / 1e9),
    ("CPU", "%", |run| run.used.total().0 as f64 / run.time.0 as f64 * 100.0),
    ("involuntary switches", "times", |run| run.used.preempted as f64),
    ("sleeps", "times", |run| run.used.slept as f64),
];

/// With `-j`, the jobs are as many as the files. `make` itself is not one of its jobs.
const MAKES: [Make; 3] = [
    Make {
        name: "kernbench -j12",
        jobs: 12,
        figures: [
            ([5.716, 6.06, 5.41], Some([0.278_711, 0.479_322, 0.360_694])),
            ([35.284, 39.658, 32.0], None),
            ([615.2, 651.6, 588.4], Some([41.166_7, 43.397, 42.021_4])),
            ([2_727.8, 3_030.6, 2_536.0], Some([243.19, 425.338, 302.498])),
            ([4_981.4, 5_532.2, 4_554.6], Some([442.337, 847.27, 510.532])),
        ],
    },
    Make {
        name: "kernbench -j96",
        jobs: 96,
        figures: [
            ([4.826, 4.776, 5.13], Some([0.276_641, 0.291_599, 0.504_48])),
            ([40.491, 41.934, 42.395], None),
            ([778.3, 786.1, 803.1], Some([184.522, 154.295, 244.865])),
            ([2_906.5, 3_052.1, 3_030.6], Some([387.799, 397.15, 765.418])),
            ([4_576.6, 4_796.0, 4_576.9], Some([565.383, 990.278, 625.933])),
        ],
    },
    Make {
        name: "kernbench -j",
        jobs: 600,
        figures: [
            ([5.13, 5.062, 4.94], Some([0.530_236, 0.040_865_6, 0.229_891])),
            ([44.695, 44.969, 44.579], None),
            ([860.0, 859.8, 864.467], Some([202.295, 164.415, 218.721])),
            ([3_154.27, 3_172.93, 3_127.2], Some([659.933, 370.439, 657.224])),
            ([4_602.6, 4_676.67, 4_489.2], Some([662.155, 813.274, 542.859])),
        ],
    },
];

impl Make {
    /// The rows about the times of the first run, and without bounds the other figures of the first run and the
    /// deviations over all runs.
    fn rows(&self) -> Vec<Row<Seen>> {
        let word = Word::Fitted("kernbench's work, to the column without limits");
        let needs_all = self.jobs + 1 > CPUS * 9 / 10;
        let mut rows = times(self.name, time, self.figures[0].0, (word, needs_all));
        for ((measure, unit, of), (mean, deviation)) in MEASURES.into_iter().zip(self.figures) {
            for (side, column) in [UNLIMITED, HELD] {
                let name = format!("{}, {column}: {measure}", self.name);
                if measure != MEASURES[0].0 {
                    let first = of_run(&*name, unit, move |run| rounded(of(run), 3));
                    rows.push(first.of(0, side).published(mean[0], mean[side]));
                }
                let spread = Row::new(name + ", deviation", unit, move |runs: &[&Seen]| {
                    let each: Vec<_> = runs.iter().map(|run| of(run)).collect();
                    rounded(Spread::of_each(&each), 3)
                });
                let [before, after] = [0, side].map(|side| Some(deviation?[side]));
                rows.push(spread.of(0, side).published(before, after));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_end_is_the_limits_and_the_latest_a_period_after_nine_tenths() {
        let second = Nanos::from_secs(1);
        // 10.8 CPU seconds a period, all of them at its beginning.
        assert_eq!(earliest(Nanos(10_800 * 1_000_000)), PERIOD);
        assert_eq!(earliest(Nanos(24_000 * 1_000_000)), Nanos::from_millis(1_100));
        assert_eq!(latest(Nanos(second.0 * 9)), Nanos::from_millis(10_500));
    }

    #[test]
    fn all_tasks_are_in_the_group() {
        let documents = Some(documents());
        let [hackbench, lat_ctx] = [hackbench(10, [1.0; 3]).0, lat_ctx(1_024, 10, [1.0; 3]).0];
        for setting in [hackbench, lat_ctx, kernbench(12)] {
            let limits = columns(setting).into_iter().map(|column| {
                let scenario = column.scenario().unwrap();
                let group = Some(GroupId(LIMITED as u32));
                assert!(scenario.tasks.iter().all(|task| task.properties.group == group));
                assert_eq!(scenario.machine.topology.cpus(), CPUS as usize);
                scenario.groups[LIMITED].spec.limit
            });
            assert_eq!(limits.collect::<Vec<_>>(), [documents, None, documents]);
        }
    }

    #[test]
    fn a_token_is_passed_so_often_in_every_ring() {
        for processes in [10, 100, 500] {
            let scenario = lat_ctx(1_024, processes, [1.0; 3]).0.scenario().unwrap();
            let rounds: u32 = scenario.tasks.iter().map(|task| task.phases[0].loops.unwrap()).sum();
            assert_eq!((rounds, scenario.objects.pipes.len()), (PASSES, processes as usize));
        }
    }
}
