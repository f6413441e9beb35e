//! Latency nice: it changes the order and the time of turns, and no task's share of a CPU.

use crate::rig::{FREE, Run, on, us, world};
use proptest::collection::vec;
use proptest::prelude::*;
use runyard_engine::attr::{LatencyNice, Nice};
use runyard_engine::config::Config;
use runyard_engine::event::{Event, What};
use runyard_engine::features::Switched;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_report::Collector;
use runyard_sim::{Options, Sim};
use runyard_workload::{Overrides, parse};
use std::fmt::Write as _;

/// Returns the median wait of a light sleeper beside a task that never sleeps. The sleeper is credited with 3 ms and
/// cannot be further behind than that. A granularity by weight would cancel the credit.
fn wait_at_nice_19(features: &str) -> Nanos {
    let run = world().millis(5_000).features(features).run(
        "'hog': {'run': 1000},
         'a': {'priority': 19, 'timer_slack': 0, 'run': 50, 'sleep': 20000}",
    );
    run.account("a").wakeup_latency.quantile(500_000).unwrap()
}

#[test]
fn a_sleeper_of_little_weight_preempts() {
    assert_eq!(wait_at_nice_19(""), Nanos::ZERO, "at once");
    assert!(wait_at_nice_19("NO_LATENCY_NICE") > Nanos::from_micros(500), "at a tick, if ever");
}

/// Runs a task that wakes at 100 ms for `span` us. After `then` us a real-time task takes its CPU for 1 ms. Meanwhile
/// another sleeper wakes that is equally far behind. A task that has waited since the beginning is ahead of both.
fn interrupted(latency_nice: i32, (span, then): (u32, u32)) -> Run {
    let timer = |period| format!("'timer': {{'ref': 'unique', 'period': {period}}}");
    world().features("").run(&format!(
        "'hog': {{'loop': 200, 'run': 1000}},
         'it': {{'latency_nice': {latency_nice}, 'timer_slack': 0, 'loop': 1, 'run': 10, {},
                'run1': {span}}},
         'other': {{'timer_slack': 0, 'loop': 1, 'run': 10, {}, 'run1': 100}},
         'rt': {{'policy': 'SCHED_FIFO', 'delay': {}, 'loop': 1, 'run': 1000}}",
        timer(100_000),
        timer(100_000 + then + 500),
        100_000 + then,
    ))
}

#[test]
fn who_lost_the_cpu_before_its_first_stretch_was_over_has_it_again_first() {
    let run = interrupted(-20, (500, 200));
    let it = run.stretches("it");
    run.is("it", &it[it.len() - 2..], [on(0, 100_000, 100_200), on(0, 101_200, 101_500)]);
    run.is("the other", run.stretches("other").pop(), Some(on(0, 101_500, 101_600)));

    let run = interrupted(0, (500, 200));
    run.is("it waits like any task", run.stretches("it").pop(), Some(on(0, 101_300, 101_600)));
}

#[test]
fn who_lost_the_cpu_later_has_had_its_turn() {
    let run = interrupted(-20, (1_500, 900));
    run.is("the other", run.stretches("other").pop(), Some(on(0, 101_900, 102_000)));
    run.holds(run.stretches("it").pop().unwrap().from >= us(102_000), "it waits like any task");
}

/// Returns the mean wait of a task that wants 5/8 of a CPU, more than its share, beside one that wants all of it.
/// Neither is ever far behind.
fn wait((its_group, its_own): (i32, i32), (others_group, others_own): (i32, i32)) -> Nanos {
    let run = world().millis(3_000).run_text(&format!(
        "{{'groups': {{'/a': {{'latency_nice': {its_group}}}, '/b': {{'latency_nice': {others_group}}}}},
           'tasks': {{
             'a': {{'group': '/a', 'latency_nice': {its_own}, 'timer_slack': 0,
                   'run': 1000, 'sleep': 600}},
             'hog': {{'group': '/b', 'latency_nice': {others_own}, 'run': 1000}}}}}}"
    ));
    run.account("a").wakeup_latency.mean().unwrap()
}

#[test]
fn between_groups_their_values_decide_and_not_those_of_their_tasks() {
    let plain = wait((0, 0), (0, 0));
    let sensitive = wait((-20, 0), (0, 0));
    assert!(sensitive < plain, "{sensitive:?}, {plain:?}");
    for (its_own, others_own) in [(-20, 0), (19, -20), (-20, -20)] {
        assert_eq!(wait((0, its_own), (0, others_own)), plain, "{its_own}, {others_own}");
        assert_eq!(wait((-20, its_own), (0, others_own)), sensitive, "{its_own}, {others_own}");
    }
}

#[test]
fn within_a_group_its_tasks_values_decide() {
    let wait = |groups: i32, its_own: i32| {
        let run = world().millis(3_000).run_text(&format!(
            "{{'groups': {{'/a': {{'latency_nice': {groups}}}}},
               'tasks': {{
                 'a': {{'group': '/a', 'latency_nice': {its_own}, 'timer_slack': 0,
                       'run': 1000, 'sleep': 600}},
                 'hog': {{'group': '/a', 'run': 1000}}}}}}"
        ));
        run.account("a").wakeup_latency.mean().unwrap()
    };
    let (plain, sensitive) = (wait(0, 0), wait(0, -20));
    assert!(sensitive < plain, "{sensitive:?}, {plain:?}");
    assert_eq!([wait(-20, 0), wait(19, 0)], [plain; 2], "the group's is nothing to its tasks");
    assert_eq!([wait(-20, -20), wait(19, -20)], [sensitive; 2]);
}

#[test]
fn a_value_counts_from_when_the_task_changes_it() {
    let run = world().millis(6_000).run(
        "'hog': {'run': 1000},
         'a': {'timer_slack': 0, 'loop': 1, 'phases': {
            'plain': {'loop': 1000, 'run': 1000, 'sleep': 600},
            'sensitive': {'loop': 1000, 'latency_nice': -20, 'run': 1000, 'sleep': 600}}}",
    );
    let changed = run.at_step_of("a", 1, 0)[0];
    let mean_wait = |waits: &mut dyn Iterator<Item = &(Time, Nanos)>| {
        let waits: Vec<_> = waits.map(|&(_, wait)| wait.0).collect();
        waits.iter().sum::<u64>() / waits.len() as u64
    };
    let waits = waits(&run, "a");
    let plain = mean_wait(&mut waits.iter().filter(|&&(at, _)| at < changed));
    let sensitive = mean_wait(&mut waits.iter().filter(|&&(at, _)| at > changed));
    run.holds(sensitive < plain, &format!("{sensitive} ns after it, {plain} before"));
}

/// Returns, for each wake-up of a task, the end of its wait and the duration.
fn waits(run: &Run, name: &str) -> Vec<(Time, Nanos)> {
    let it = run.task(name);
    let (mut woken, mut waits) = (None, Vec::new());
    for event in &run.events {
        match event.what {
            What::Wake { task, since, .. } if task == it => woken = Some(since),
            What::Exec { task, .. } if task == it => {
                waits.extend(woken.take().map(|since| (event.at, event.at.since(since))));
            }
            _ => {}
        }
    }
    waits
}

/// Returns a bound on the wait of a task of latency nice 0 that never sleeps, beside a crowd with the highest
/// sensitivity. While the task waits, its vruntime stays, and the clock does not pass it. A member of the crowd that
/// wakes is behind it by at most its credit. The member is preferred until it is ahead by `latency_max`. Then it has
/// one turn: a slice, and the tick that ends it. All of this is virtual time, which is real time for members with the
/// weight of the waiting task.
fn longest_wait(config: &Config, crowd: u64) -> Nanos {
    let credit = config.latency.0 / 2;
    let latency_max = config.latency_max().unsigned_abs();
    let period = config.latency.0.max((crowd + 1) * config.min_granularity.0);
    let slice = (period / (crowd + 1)).max(config.min_granularity.0);
    Nanos(crowd * (credit + latency_max + slice + config.tick.0))
}

#[test]
fn a_sensitive_crowd_starves_nobody() {
    let config = Config::new(Topology::flat(1).unwrap());
    for (crowd, run, sleep) in
        [(1, 900, 100), (3, 2_000, 50), (10, 300, 700), (10, 2_500, 10), (30, 700, 5_000)]
    {
        let ran = world().millis(3_000).run(&format!(
            "'hog': {{'run': 1000}},
             'crowd': {{'instance': {crowd}, 'latency_nice': -20, 'timer_slack': 0,
                       'run': {{'uniform': [1, {run}]}}, 'sleep': {{'uniform': [1, {sleep}]}}}}"
        ));
        let stretches = ran.stretches("hog");
        let gaps = stretches.windows(2).map(|pair| pair[1].from.since(pair[0].to));
        let longest = gaps.max().unwrap_or_default();
        let bound = longest_wait(&config, crowd);
        ran.holds(longest <= bound, &format!("{crowd}: it waited {longest:?}, at most {bound:?}"));
        let share = ran.share("hog", Nanos::from_secs(3));
        let fair = 100.0 / (crowd + 1) as f64;
        ran.holds(share >= 0.9 * fair, &format!("{crowd}: {share} %, of {fair}"));
    }
}

/// A task outside the queue starts a new task for each request. The new tasks have no past to hold against them, and
/// start near the clock. With always one of them present, a task that does not sleep is passed over for one latency
/// period while one of them has the CPU. Then it has its turn.
#[test]
fn sensitive_newcomers_without_end_starve_nobody() {
    let config = Config::new(Topology::flat(1).unwrap());
    let ran = world().millis(1_000).run(
        "'hog': {'run': 1000},
         'naps': {'latency_nice': -20, 'timer': {'ref': 'unique', 'period': 300}, 'run': 20},
         'asks': {'instance': 2, 'policy': 'SCHED_FIFO', 'fork': 'request', 'sem_wait': 'done'},
         'request': {'instance': 0, 'loop': 1, 'latency_nice': -20, 'run': 250, 'sem_post': 'done'}",
    );
    let stretches = ran.stretches("hog");
    let gaps = stretches.windows(2).map(|pair| pair[1].from.since(pair[0].to));
    let longest = gaps.max().unwrap_or_default();
    // The newcomer that has the CPU then continues until its turn is over.
    let bound = config.latency + config.min_granularity + config.tick;
    ran.holds(longest <= bound, &format!("it waited {longest:?}, at most {bound:?}"));
    // A min_granularity after each latency period is a ninth.
    let share = ran.share("hog", Nanos::from_secs(1));
    ran.holds(share > 9.0, &format!("{share} %"));
}

/// In a chain of newcomers, each of which starts the next, the total is no more than that of one that stays.
#[test]
fn a_chain_of_sensitive_newcomers_has_the_share_of_one_task() {
    let last = |run: u64| format!("'run': {run}, 'fork': 'chain'");
    let first = |run: u64| format!("'fork': 'chain', 'run': {run}");
    for (cpus, chains, link) in [
        (1, 1, last(290)),
        (1, 2, last(290)),
        (1, 3, last(700)),
        (1, 1, last(5_000)),
        (2, 4, last(290)),
        (1, 1, first(290)),
        (1, 2, first(290)),
        (2, 4, first(290)),
        (1, 1, "'run': 20, 'fork': 'chain', 'run1': 270".to_owned()),
    ] {
        let ran = world().cpus(cpus).millis(2_000).run(&format!(
            "'hog': {{'instance': {cpus}, 'run': 1000}},
             'chain': {{'instance': {chains}, 'loop': 1, 'latency_nice': -20, {link}}}"
        ));
        let hogs = ran.outcome.tasks.iter().filter(|task| task.thread == "hog");
        let share: f64 = hogs.map(|hog| ran.share(&hog.name, Nanos::from_secs(2))).sum();
        let fair = 100.0 * (cpus * cpus) as f64 / (cpus + chains) as f64;
        ran.holds(share >= 0.9 * fair, &format!("{cpus}, {chains}, {link}: {share} %, of {fair}"));
    }
}

/// A newcomer started by a light task does not wait for that task's weight.
#[test]
fn a_sensitive_newcomer_does_not_wait_for_the_weight_of_who_starts_it() {
    let waits = |latency_nice: i64| {
        let run = world().millis(4_000).run(&format!(
            "'hog': {{'instance': 2, 'run': 1000}},
             'asks': {{'priority': 19, 'run': 1000, 'fork': 'request', 'sem_wait': 'done'}},
             'request': {{'instance': 0, 'loop': 1, 'latency_nice': {latency_nice}, 'run': 300,
                         'sem_post': 'done'}}"
        ));
        let requests = run.outcome.tasks.iter().filter(|task| task.thread == "request");
        let forks = run.at_step("asks", 1);
        let starts =
            requests.filter_map(|task| run.stretches(&task.name).first().map(|it| it.from));
        let waits = starts.zip(forks).map(|(start, fork)| start.since(fork));
        (waits.max().unwrap_or_default(), run)
    };
    let (normal, _) = waits(0);
    let (sensitive, run) = waits(-20);
    run.holds(sensitive <= normal, &format!("{sensitive}, of latency nice 0 {normal}"));
}

/// A tiny stretch on the CPU between two newcomers is not a turn.
#[test]
fn sensitive_newcomers_with_gaps_leave_turns() {
    let run = world().millis(1_000).run(
        "'hog': {'run': 1000},
         'asks': {'policy': 'SCHED_FIFO', 'timer_slack': 0, 'fork': 'request', 'sem_wait': 'done',
                  'sleep': 10},
         'request': {'instance': 0, 'loop': 1, 'latency_nice': -20, 'run': 290, 'sem_post': 'done'}",
    );
    // A min_granularity after each latency period is a ninth.
    let share = run.share("hog", Nanos::from_secs(1));
    run.holds(share > 9.0, &format!("{share} %"));
}

/// A task that changes its value again and again keeps its turn and its share.
#[test]
fn a_change_of_the_value_moves_nobody() {
    for features in ["", "EEVDF"] {
        let run = world().millis(2_000).features(features).run(
            "'hog': {'run': 1000},
             'changes': {'phases': {'a': {'latency_nice': 1, 'run': 100},
                                    'b': {'latency_nice': 0, 'run': 100}}}",
        );
        let share = run.share("changes", Nanos::from_secs(2));
        run.holds((share - 50.0).abs() < 1.0, &format!("{features}: {share} %"));
    }
}

/// A sensitive newcomer has the CPU at once, like a sensitive task that is woken.
#[test]
fn a_sensitive_newcomer_does_not_wait_for_its_debit() {
    for (latency_nice, nice, at_once) in [(0, 0, false), (-20, 0, true), (-20, 19, false)] {
        let run = world().millis(200).run(&format!(
            "'hog': {{'run': 1000}},
             'forks': {{'policy': 'SCHED_FIFO', 'delay': 30500, 'loop': 1, 'fork': 'new'}},
             'new': {{'instance': 0, 'loop': 1, 'latency_nice': {latency_nice},
                      'priority': {nice}, 'run': 100}}"
        ));
        let waited = run.start("new-0000").since(us(30_500));
        run.holds((waited < Nanos::from_micros(100)) == at_once, &format!("{waited:?}"));
    }
}

/// The groups of random mixes, and the place of the parent of each.
const GROUPS: [(&str, usize); 4] = [("/", 0), ("/a", 0), ("/b", 0), ("/a/c", 1)];

/// The period of the sleepers in microseconds, and the part of its guaranteed share that each of them wants. It is less
/// than all, so a sleeper gets it whatever the others do.
const PERIOD: u64 = 20_000;
const WANTED: f64 = 0.3;

/// A task that never sleeps, or one that a timer wakes.
#[derive(Clone, Debug)]
struct Member {
    group: usize,
    nice: i64,
    sleeps: bool,
    latency_nice: i64,
}

/// The tasks of one CPU. In each group one task never sleeps, so each group has its share all the time.
#[derive(Clone, Debug)]
struct Mix {
    weights: [u64; 3],
    groups: [i64; 3],
    members: Vec<Member>,
    seed: u64,
}

fn value() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(-20), 1 => Just(19), 4 => -20..=19_i64]
}

fn mix() -> impl Strategy<Value = Mix> {
    let member = |group: BoxedStrategy<usize>, sleeps: BoxedStrategy<bool>| {
        (group, -4..=4_i64, sleeps, value()).prop_map(|(group, nice, sleeps, latency_nice)| {
            Member { group, nice, sleeps, latency_nice }
        })
    };
    let never = |group: usize| member(Just(group).boxed(), Just(false).boxed());
    let more = vec(member((0..GROUPS.len()).boxed(), any::<bool>().boxed()), 0..6);
    let first = [never(0), never(1), never(2), never(3)];
    let of_groups = (prop::array::uniform3(256..4096_u64), prop::array::uniform3(value()));
    (of_groups, first, more, any::<u16>()).prop_map(|((weights, groups), first, more, seed)| {
        let members = first.into_iter().chain(more).collect();
        Mix { weights, groups, members, seed: seed.into() }
    })
}

impl Mix {
    fn weight(member: &Member) -> f64 {
        f64::from(Nice::new(member.nice).unwrap().weight().get())
    }

    /// Returns the guaranteed share of a group.
    fn share(&self, group: usize) -> f64 {
        if group == 0 {
            return 1.0;
        }
        let parent = GROUPS[group].1;
        self.share(parent) * self.weights[group - 1] as f64 / self.load(parent)
    }

    /// Returns the sum of the weights in a group.
    fn load(&self, group: usize) -> f64 {
        let tasks = self.members.iter().filter(|member| member.group == group).map(Mix::weight);
        let below = (1..GROUPS.len()).filter(|&it| GROUPS[it].1 == group);
        tasks.sum::<f64>() + below.map(|it| self.weights[it - 1] as f64).sum::<f64>()
    }

    /// Returns the scenario, with or without the latency nice values.
    fn text(&self, with: bool) -> String {
        let value = |latency_nice: i64| if with { latency_nice } else { 0 };
        let mut text = "{'groups': {".to_owned();
        for (nth, (path, _)) in GROUPS.iter().enumerate().skip(1) {
            let (weight, latency) = (self.weights[nth - 1], value(self.groups[nth - 1]));
            let _ = write!(text, "'{path}': {{'weight': {weight}, 'latency_nice': {latency}}}, ");
        }
        text.push_str("},\n'tasks': {\n");
        for (nth, member) in self.members.iter().enumerate() {
            let path = GROUPS[member.group].0;
            let (nice, latency) = (member.nice, value(member.latency_nice));
            let _ = write!(
                text,
                "'t{nth}': {{'group': '{path}', 'priority': {nice}, 'latency_nice': {latency}, \
                 'timer_slack': 0, "
            );
            let guaranteed =
                self.share(member.group) * Mix::weight(member) / self.load(member.group);
            let run = (PERIOD as f64 * guaranteed * WANTED) as u64 + 1;
            let _ = match member.sleeps {
                false => writeln!(text, "'run': 1000}},"),
                true => writeln!(
                    text,
                    "'timer': {{'ref': 'unique', 'period': {PERIOD}, 'mode': 'absolute'}}, \
                     'run': {run}}},"
                ),
            };
        }
        text + "}}"
    }

    /// Returns the CPU time of each task after so many seconds.
    fn run(&self, with: bool, features: &str, seconds: u64) -> Vec<Nanos> {
        let mut over = Overrides { cpus: Some(1), ..Overrides::default() };
        over.duration = Some(Nanos::from_secs(seconds));
        over.features.extend(features.split_whitespace().map(|it| it.parse::<Switched>().unwrap()));
        let text = self.text(with);
        let parsed = parse("mix.json", &text, &over);
        let mut scenario = parsed.unwrap_or_else(|error| panic!("{error}\n{text}")).scenario;
        scenario.machine.costs = FREE;
        let mut accounts = Collector::default();
        let options = Options { seed: self.seed, ..Options::default() };
        let sim = Sim::new(&scenario, options, |event: &Event| accounts.event(event)).unwrap();
        let end = sim.run().end;
        let totals = accounts.finish(end);
        (0..self.members.len() as u64)
            .map(|nth| totals.task(TaskId(nth)).map_or(Nanos::ZERO, |task| task.runtime))
            .collect()
    }
}

/// Returns a bound on the difference of a task's CPU time between two runs. In each run and at each of the levels above
/// it, the task is ahead of its share by at most one turn, or behind by as much. A turn is the longest slice and the
/// tick that ends it. The same holds for the tasks beside it.
fn most_apart(longest_slice: Nanos, levels: u64) -> Nanos {
    let tick = Config::new(Topology::flat(1).unwrap()).tick;
    Nanos(2 * levels * (longest_slice + tick).0)
}

impl Member {
    fn levels(&self) -> u64 {
        match self.group {
            0 => 1,
            3 => 3,
            _ => 2,
        }
    }
}

/// Asserts that latency nice changes no share, with these features and slices.
fn holds(
    mix: &Mix,
    features: &str,
    longest_slice: Nanos,
    seconds: u64,
) -> Result<(), TestCaseError> {
    let [plain, with] = [false, true].map(|with| mix.run(with, features, seconds));
    for (nth, member) in mix.members.iter().enumerate() {
        let apart = Nanos(plain[nth].0.abs_diff(with[nth].0));
        let most = most_apart(longest_slice, member.levels());
        prop_assert!(
            apart <= most,
            "t{nth} has {:?} of {seconds} s, {:?} without latency nice; at most {most:?} apart\n{}",
            with[nth],
            plain[nth],
            mix.text(true)
        );
    }
    Ok(())
}

/// Returns a configuration that prints a failure and keeps no file of it.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn in_cfs_it_moves_no_share(mix in mix()) {
        let config = Config::new(Topology::flat(1).unwrap());
        let tasks = mix.members.len() as u64;
        let period = Nanos(config.latency.0.max(tasks * config.min_granularity.0));
        holds(&mix, "", period, 4)?;
    }

    #[test]
    fn in_eevdf_it_moves_no_share(mix in mix()) {
        let config = Config::new(Topology::flat(1).unwrap());
        // The least sensitive task has the longest slice. Without latency nice all tasks have the base slice.
        let values = mix.members.iter().map(|member| member.latency_nice).chain(mix.groups);
        let most = LatencyNice::new(values.max().unwrap().max(0)).unwrap();
        holds(&mix, "EEVDF", config.slice(most).get(), 12)?;
    }
}
