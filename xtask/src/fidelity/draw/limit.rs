//! Random scenarios about the limits of task groups (`--kind limit`).
//!
//! One to eight threads are in a group with a limit, in a limited group below it, or outside. The limit of the group
//! below is within the ratio of the one above: the first version of control groups refuses another one. Loads are
//! constant or bursty. A scenario is drawn again if no thread of a limited group wakes up often enough for percentiles.

use super::{Drawn, ENOUGH_WAKEUPS, Program, SECONDS, Task, exponential};
use crate::dice::{Dice, Object};

/// The word of the option for these scenarios.
pub(in crate::fidelity) const KIND: &str = "limit";

/// The range of the number of threads.
const THREADS: (u64, u64) = (1, 8);

/// The range of a quota, in per cent of all CPUs.
const QUOTA: (u64, u64) = (5, 150);

/// The range of a period, in milliseconds.
const PERIOD: (u64, u64) = (10, 200);

/// The least quota that a kernel takes, in microseconds (`min_cfs_quota_period`).
const LEAST_QUOTA: u64 = 1_000;

/// A limit: quota, period and burst in microseconds.
#[derive(Clone, Copy)]
struct Limit {
    quota: u64,
    period: u64,
    burst: u64,
}

/// The scenario `number` of those for `seed`, for a machine of so many CPUs.
pub(in crate::fidelity) fn scenario(seed: u64, number: u64, cpus: u64) -> Drawn {
    let mut dice = Dice::new(seed, number);
    loop {
        let drawn = draw(&mut dice, cpus);
        let wakes = |task: &Task| task.wakeups > ENOUGH_WAKEUPS && task.kinds.contains(&LIMITED);
        if drawn.tasks.iter().any(wakes) {
            return drawn;
        }
    }
}

/// The kind of a task in a limited group.
const LIMITED: &str = "group with a limit";

fn draw(dice: &mut Dice, cpus: u64) -> Drawn {
    let percent = dice.between(QUOTA.0, QUOTA.1) * cpus;
    let above = limit(dice, percent);
    let mut limits = vec![("/g", above)];
    if dice.percent(33) {
        limits.push(("/g/h", below(dice, above)));
    }
    let tasks: Vec<_> =
        (0..dice.between(THREADS.0, THREADS.1)).map(|nth| task(dice, nth, &limits)).collect();
    let (mut all, mut groups, mut programs) =
        (Object::default(), Object::default(), Object::default());
    for (path, limit) in &limits {
        groups.set(path, limit.text());
    }
    for task in &tasks {
        programs.set(&task.name, task.body.text());
    }
    all.set("global", format!(r#"{{"duration": {SECONDS}}}"#));
    all.set("groups", groups.text());
    all.set("tasks", programs.lines(2));
    let limited = limits.iter().map(|(path, _)| (*path).to_owned()).collect();
    Drawn { text: all.lines(0) + "\n", tasks, limited }
}

/// A limit of so many per cent of one CPU.
fn limit(dice: &mut Dice, percent: u64) -> Limit {
    let period = dice.log_uniform(PERIOD.0, PERIOD.1) * 1_000;
    let quota = (period * percent / 100).max(LEAST_QUOTA);
    Limit { quota, period, burst: burst(dice, quota) }
}

/// A limit within the ratio of the one above.
fn below(dice: &mut Dice, above: Limit) -> Limit {
    let period = dice.log_uniform(PERIOD.0, PERIOD.1) * 1_000;
    let quota = above.quota * period / above.period * dice.between(30, 100) / 100;
    match quota >= LEAST_QUOTA {
        true => Limit { quota, period, burst: burst(dice, quota) },
        false => Limit { burst: burst(dice, above.quota), ..above },
    }
}

/// One limit in three has a burst.
fn burst(dice: &mut Dice, quota: u64) -> u64 {
    if dice.percent(33) { quota * dice.between(10, 100) / 100 } else { 0 }
}

impl Limit {
    fn text(self) -> String {
        let mut spec = Object::default();
        spec.set("cpu.max", format!("\"{} {}\"", self.quota, self.period));
        if self.burst > 0 {
            spec.set("cpu.max.burst", self.burst);
        }
        spec.text()
    }
}

/// A thread: constantly at work, at work in each period of its own, or in bursts.
fn task(dice: &mut Dice, nth: u64, limits: &[(&str, Limit)]) -> Task {
    let (kind, program) = match dice.between(1, 4) {
        1 => ("hog", Program::hog()),
        2 => ("periodic", periodic(dice)),
        _ => ("bursty", bursty(dice)),
    };
    let mut task = Task {
        name: format!("{kind}{nth}"),
        kinds: vec![kind],
        demand: program.demand(),
        wakeups: program.wakeups(),
        body: Object::default(),
    };
    // The first thread is limited, and four of five others.
    if nth == 0 || dice.percent(80) {
        let group = limits[dice.below(limits.len())].0;
        task.body.set("group", format!("{group:?}"));
        task.kinds.push(LIMITED);
    }
    program.events.into_iter().for_each(|(key, value)| task.body.set(key, value));
    task
}

fn periodic(dice: &mut Dice) -> Program {
    let period = dice.log_uniform(2_000, 50_000);
    let mut program = Program::new(period);
    program.runs((period * dice.between(5, 80) / 100).max(1), false);
    let timer = format!(r#"{{"ref": "unique", "period": {period}, "mode": "absolute"}}"#);
    program.event("timer", timer);
    program
}

fn bursty(dice: &mut Dice) -> Program {
    let (run, sleep) = (dice.log_uniform(100, 20_000), dice.log_uniform(500, 50_000));
    let mut program = Program::new(run + sleep);
    program.runs_for(run, exponential(run));
    program.event("sleep", exponential(sleep));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    use runyard_engine::limits;
    use runyard_workload::{Overrides, parse};

    #[test]
    fn every_scenario_is_right_and_its_limits_are_within_their_ranges() {
        let (mut nested, mut bursts, mut outside) = (0, 0, 0);
        for (number, cpus) in (0..300).zip([1, 2].into_iter().cycle()) {
            let drawn = scenario(3, number, cpus);
            let here = Overrides { cpus: Some(cpus as usize), ..Overrides::default() };
            let parsed = parse("drawn", &drawn.text, &here)
                .unwrap_or_else(|error| panic!("{error}\n{}", drawn.text));
            assert_eq!(parsed.warnings, [], "{}", drawn.text);
            let groups = &parsed.scenario.groups;
            assert_eq!(groups.len(), drawn.limited.len() + 1);
            assert!((1..=8).contains(&drawn.tasks.len()), "{}", drawn.text);
            let limit = |nth: usize| groups[nth].spec.limit.expect("it has a limit");
            let ratio = |limit: limits::Limit| limit.runtime().0 as f64 / limit.period().0 as f64;
            let of_machine = ratio(limit(1)) / cpus as f64;
            assert!((0.049..=1.501).contains(&of_machine), "{of_machine}: {}", drawn.text);
            let period = limit(1).period().0 / 1_000_000;
            assert!((10..=200).contains(&period), "{}", drawn.text);
            if groups.len() == 3 {
                nested += 1;
                assert!(ratio(limit(2)) <= ratio(limit(1)), "{}", drawn.text);
            }
            bursts += usize::from(drawn.text.contains("cpu.max.burst"));
            outside += usize::from(drawn.tasks.iter().any(|task| !task.kinds.contains(&LIMITED)));
        }
        for (what, some) in [("nested", nested), ("bursts", bursts), ("outside", outside)] {
            assert!((50..250).contains(&some), "{what}: {some}");
        }
    }
}
