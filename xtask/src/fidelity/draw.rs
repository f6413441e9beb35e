//! Random scenarios, which no person chose.
//!
//! Tasks come in bundles of one kind, up to the drawn number. A scenario is drawn again if its tasks want too little or
//! too much of the CPUs, or if no task wakes up. Nothing is drawn that the hosts treat differently by design: no yield
//! (the kernel counts it among preemptions), no latency nice.

pub(super) mod limit;

use clap::ValueEnum;

use crate::dice::{Dice, Object};

/// What the scenarios have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Taste {
    /// All kinds, with random times.
    #[default]
    Mixed,
    /// Tasks with nice values that compute and sleep for constant times, sleeps from 50 us on, at timers, pipes and locks.
    Constant,
}

/// The length of each run, in seconds.
pub(super) const SECONDS: u64 = 6;

/// The range of the number of tasks; small numbers are as frequent as large ones.
const TASKS: (u64, u64) = (2, 24);

/// The range of the tasks' total demand, in per cent of all CPUs.
const DEMAND: (f64, f64) = (30.0, 250.0);

/// A scenario has a task with more wake-ups than this, if the task gets the CPU time that it wants.
const ENOUGH_WAKEUPS: f64 = 50.0;

/// The largest total demand of the real-time tasks of a bundle, in CPUs. The kernel throttles them at 0.95.
const REAL_TIME_DEMAND: f64 = 0.6;

/// One in so many bundles is real-time, and at most one of a scenario.
const REAL_TIME_ONE_IN: u64 = 8;

/// The period of a limit, in microseconds.
const PERIOD: u64 = 100_000;

/// The bytes of a message through a pipe.
const MESSAGE: u64 = 64;

/// A scenario, and the facts about its tasks.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    /// The scenario in rt-app's language.
    pub(super) text: String,
    pub(super) tasks: Vec<Task>,
    /// The paths of the limited groups.
    pub(super) limited: Vec<String>,
}

/// A task of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) name: String,
    /// The kinds that it is an example of.
    pub(super) kinds: Vec<&'static str>,
    /// Its demand, in CPUs.
    demand: f64,
    /// The number of its wake-ups in a run, if it gets its demand.
    wakeups: f64,
    body: Object,
}

/// The scenario `number` of those of a taste for `seed`, for a machine of so many CPUs.
pub(super) fn scenario(taste: Taste, seed: u64, number: u64, cpus: u64) -> Drawn {
    let mut dice = Dice::new(seed, number);
    loop {
        let mut author =
            Author { taste, dice, cpus, groups: vec![], tasks: vec![], real_time: false };
        author.draw();
        if author.is_wanted() {
            return author.drawn();
        }
        dice = author.dice;
    }
}

/// The kinds of tasks: those of bundles, and attributes that may be drawn besides. The last one is a kind of scenarios.
pub(super) const KINDS: [&str; 17] = [
    "hog",
    "periodic",
    "bursty",
    "pipe",
    "lock",
    "barrier",
    "pinned",
    "real-time",
    "SCHED_IDLE",
    "SCHED_BATCH",
    "nice",
    "slice",
    "group",
    "group with a limit",
    "overloaded",
    "with room",
    limit::KIND,
];

/// The kinds of bundles, with the least and the largest number of tasks.
const BUNDLES: [(&str, u64, u64); 6] = [
    ("hog", 1, 4),
    ("periodic", 1, 1),
    ("bursty", 1, 1),
    ("pipe", 2, 4),
    ("lock", 2, 5),
    ("barrier", 2, 6),
];

/// A group of tasks.
struct Group {
    path: String,
    spec: Object,
    limited: bool,
}

struct Author {
    taste: Taste,
    dice: Dice,
    cpus: u64,
    groups: Vec<Group>,
    tasks: Vec<Task>,
    /// Whether a bundle is real-time.
    real_time: bool,
}

impl Author {
    fn draw(&mut self) {
        if self.is_mixed() && self.dice.between(1, 3) == 1 {
            self.draw_groups();
        }
        let wanted = self.dice.log_uniform(TASKS.0, TASKS.1);
        for number in 0.. {
            let left = wanted - self.tasks.len() as u64;
            if left == 0 {
                return;
            }
            let fits = |bundle: &&(_, u64, _)| bundle.1 <= left;
            let possible: Vec<_> = self.bundles().iter().filter(fits).collect();
            let &&(kind, least, most) =
                &possible[self.dice.between(0, possible.len() as u64 - 1) as usize];
            let size = self.dice.between(least, most.min(left));
            self.draw_bundle(kind, number, size);
        }
    }

    fn is_mixed(&self) -> bool {
        self.taste == Taste::Mixed
    }

    fn bundles(&self) -> &'static [(&'static str, u64, u64)] {
        if self.is_mixed() { &BUNDLES } else { &BUNDLES[..BUNDLES.len() - 1] }
    }

    /// A time of `mean` microseconds, random or constant.
    fn span(&self, mean: u64) -> String {
        if self.is_mixed() { exponential(mean) } else { mean.to_string() }
    }

    /// The length of a pause: from `least` on, or from 50 us.
    fn pause(&mut self, least: u64, most: u64) -> u64 {
        let least = if self.is_mixed() { least } else { 50 };
        self.dice.log_uniform(least, most)
    }

    fn is_wanted(&self) -> bool {
        let demand: f64 = self.tasks.iter().map(|task| task.demand).sum();
        let percent = demand / self.cpus as f64 * 100.0;
        let in_range = (DEMAND.0..=DEMAND.1).contains(&percent);
        in_range && self.tasks.iter().any(|task| task.wakeups > ENOUGH_WAKEUPS)
    }

    fn drawn(self) -> Drawn {
        let (mut all, mut groups, mut tasks) =
            (Object::default(), Object::default(), Object::default());
        for group in &self.groups {
            groups.set(&group.path, group.spec.text());
        }
        for task in &self.tasks {
            tasks.set(&task.name, task.body.text());
        }
        all.set("global", format!(r#"{{"duration": {SECONDS}}}"#));
        if !self.groups.is_empty() {
            all.set("groups", groups.text());
        }
        all.set("tasks", tasks.lines(2));
        let text = all.lines(0) + "\n";
        let crowded = if self.tasks.iter().map(|task| task.demand).sum::<f64>() > self.cpus as f64 {
            "overloaded"
        } else {
            "with room"
        };
        let mut tasks = self.tasks;
        tasks.iter_mut().for_each(|task| task.kinds.push(crowded));
        let limited = self.groups.into_iter().filter(|group| group.limited);
        Drawn { text, tasks, limited: limited.map(|group| group.path).collect() }
    }

    fn draw_groups(&mut self) {
        for number in 0..self.dice.between(1, 3) {
            let mut spec = Object::default();
            spec.set("weight", self.dice.log_uniform(100, 5_000));
            let limited = self.dice.percent(50);
            if limited {
                spec.set("runtime", self.dice.between(20, 150) * PERIOD / 100);
                spec.set("period", PERIOD);
            }
            self.groups.push(Group { path: format!("/g{number}"), spec, limited });
        }
    }

    fn draw_bundle(&mut self, kind: &'static str, number: usize, size: u64) {
        let mut programs = match kind {
            "hog" => (0..size).map(|_| Program::hog()).collect(),
            "periodic" => vec![self.periodic()],
            "bursty" => vec![self.bursty()],
            "pipe" => self.pipe(number, size),
            "lock" => self.lockers(number, size),
            _ => self.crowd(number, size),
        };
        let demand: f64 = programs.iter().map(Program::demand).sum();
        let real_time = self.is_mixed()
            && !self.real_time
            && demand < REAL_TIME_DEMAND
            && self.dice.between(1, REAL_TIME_ONE_IN) == 1;
        self.real_time |= real_time;
        // An index in the list, or one past it: the group `/`.
        let group = self.dice.between(0, self.groups.len() as u64) as usize;
        for (nth, program) in programs.drain(..).enumerate() {
            let mut task = Task {
                name: format!("{kind}{number}-{nth}"),
                kinds: vec![kind],
                demand: program.demand(),
                wakeups: program.wakeups(),
                body: Object::default(),
            };
            if real_time {
                self.real_time(&mut task);
            } else {
                self.fair(&mut task);
                self.enter(&mut task, group);
            }
            if self.is_mixed() && self.dice.percent(5) {
                task.body.set("cpus", format!("[{}]", self.dice.between(0, self.cpus - 1)));
                task.kinds.push("pinned");
            }
            program.events.into_iter().for_each(|(key, value)| task.body.set(key, value));
            self.tasks.push(task);
        }
    }

    fn real_time(&mut self, task: &mut Task) {
        let policy = self.dice.pick(&["SCHED_FIFO", "SCHED_RR"]);
        task.body.set("policy", format!("{policy:?}"));
        task.body.set("priority", self.dice.between(1, 50));
        task.kinds.push("real-time");
    }

    fn fair(&mut self, task: &mut Task) {
        let nice = if self.dice.percent(50) { 0 } else { self.dice.nice() };
        match self.dice.between(1, 100) {
            _ if !self.is_mixed() => {}
            1..=5 => {
                task.body.set("policy", r#""SCHED_IDLE""#);
                task.kinds.push("SCHED_IDLE");
                return;
            }
            6..=8 => {
                task.body.set("policy", r#""SCHED_BATCH""#);
                task.kinds.push("SCHED_BATCH");
            }
            _ => {}
        }
        if nice != 0 {
            task.body.set("priority", nice);
            task.kinds.push("nice");
        }
        if self.is_mixed() && self.dice.percent(10) {
            task.body.set("slice", self.dice.log_uniform(100, 20_000));
            task.kinds.push("slice");
        }
    }

    /// Puts the task into the group at that index, if there is one.
    fn enter(&self, task: &mut Task, group: usize) {
        let Some(Group { path, limited, .. }) = self.groups.get(group) else { return };
        task.body.set("group", format!("{path:?}"));
        task.kinds.push(if *limited { "group with a limit" } else { "group" });
    }

    fn periodic(&mut self) -> Program {
        let period = self.dice.log_uniform(1_000, 50_000);
        let run = (period * self.dice.between(2, 60) / 100).max(1);
        let mut program = Program::new(period);
        program.runs(run, self.is_mixed() && self.dice.percent(30));
        let timer = format!(r#"{{"ref": "unique", "period": {period}, "mode": "absolute"}}"#);
        program.event("timer", timer);
        program
    }

    fn bursty(&mut self) -> Program {
        let (run, sleep) = (self.dice.log_uniform(100, 5_000), self.pause(500, 20_000));
        let mut program = Program::new(run + sleep);
        program.runs_for(run, self.span(run));
        program.event("sleep", self.span(sleep));
        program
    }

    /// A chain of pipes: the first task sends, the last only receives, those between do both. In one of three chains
    /// the first task never sleeps, so the slowest task sets the pace.
    fn pipe(&mut self, number: usize, size: u64) -> Vec<Program> {
        let runs: Vec<_> = (0..size).map(|_| self.dice.log_uniform(20, 1_000)).collect();
        let pause = (self.dice.between(1, 3) > 1).then(|| self.pause(500, 10_000));
        let slowest = runs.iter().copied().max().unwrap_or(1);
        let round = slowest.max(pause.map_or(0, |pause| pause + runs[0]));
        let capacity = MESSAGE * [1, 8, 1_024][self.dice.between(0, 2) as usize];
        let pipe = |nth: usize| format!(r#""pipe{number}-{nth}""#);
        let part = |(nth, &run): (usize, &u64)| {
            let mut program = Program::new(round);
            if nth > 0 {
                let from = pipe(nth - 1);
                program.event("recv", format!(r#"{{"ref": {from}, "bytes": {MESSAGE}}}"#));
            } else if let Some(pause) = pause {
                program.event("sleep", self.span(pause));
            }
            program.runs_for(run, run.to_string());
            if nth + 1 < runs.len() {
                let to = pipe(nth);
                program.event(
                    "send",
                    format!(r#"{{"ref": {to}, "bytes": {MESSAGE}, "capacity": {capacity}}}"#),
                );
            }
            program
        };
        runs.iter().enumerate().map(part).collect()
    }

    fn lockers(&mut self, number: usize, size: u64) -> Vec<Program> {
        let mutex = format!(r#""mutex{number}""#);
        let locker = |_| {
            let round = self.dice.log_uniform(1_000, 20_000);
            let hold = round * self.dice.between(5, 40) / 100;
            let outside = round * self.dice.between(10, 40) / 100;
            let mut program = Program::new(round);
            program.runs_for(outside, outside.to_string());
            program.event("lock", mutex.clone());
            program.runs_for(hold, hold.to_string());
            program.event("unlock", mutex.clone());
            program.event("sleep", self.span(round - hold - outside));
            program
        };
        (0..size).map(locker).collect()
    }

    fn crowd(&mut self, number: usize, size: u64) -> Vec<Program> {
        let run = self.dice.log_uniform(300, 5_000);
        let runs: Vec<_> = (0..size).map(|_| run * self.dice.between(50, 150) / 100).collect();
        let pause = self.dice.log_uniform(500, 10_000);
        let slowest = runs.iter().copied().max().unwrap_or(run);
        let member = |&run: &u64| {
            let mut program = Program::new(slowest + pause);
            program.runs_for(run, run.to_string());
            program.event("barrier", format!(r#""barrier{number}""#));
            program.event("sleep", pause.to_string());
            program
        };
        runs.iter().map(member).collect()
    }
}

fn exponential(mean: u64) -> String {
    format!(r#"{{"exponential": {mean}}}"#)
}

/// The program that a task repeats.
struct Program {
    events: Vec<(&'static str, String)>,
    /// The time of a round if the task always has a CPU, and its computing time in it, in microseconds.
    round: u64,
    runs: u64,
    blocks: bool,
}

impl Program {
    fn new(round: u64) -> Program {
        Program { events: vec![], round, runs: 0, blocks: false }
    }

    /// A program that only computes.
    fn hog() -> Program {
        let mut program = Program::new(5_000);
        program.runs_for(5_000, "5000".to_owned());
        program
    }

    fn event(&mut self, key: &'static str, value: String) {
        self.blocks = true;
        self.events.push((key, value));
    }

    /// Adds a computation of `mean` microseconds, as `span` writes it.
    fn runs_for(&mut self, mean: u64, span: String) {
        self.runs += mean;
        self.events.push(("run", span));
    }

    /// Adds a computation of `mean` microseconds: of the same length each time, or from half of it to half more.
    fn runs(&mut self, mean: u64, varies: bool) {
        let uniform = || format!(r#"{{"uniform": [{}, {}]}}"#, mean / 2, mean + mean / 2);
        self.runs_for(mean, if varies { uniform() } else { mean.to_string() });
    }

    fn demand(&self) -> f64 {
        self.runs as f64 / self.round as f64
    }

    fn wakeups(&self) -> f64 {
        let rounds = SECONDS as f64 * 1e6 / self.round as f64;
        if self.blocks { rounds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use runyard_workload::{Overrides, parse};

    const CPUS: u64 = 2;

    fn many() -> impl Iterator<Item = Drawn> {
        [Taste::Mixed, Taste::Constant]
            .into_iter()
            .flat_map(|taste| (0..400).map(move |number| scenario(taste, 1, number, CPUS)))
    }

    #[test]
    fn a_scenario_follows_from_its_seed_and_number() {
        let text = |seed, number| scenario(Taste::Mixed, seed, number, CPUS).text;
        assert_eq!(text(1, 2), text(1, 2));
        assert_ne!(text(1, 2), text(1, 3));
        assert_ne!(text(1, 2), text(2, 2));
    }

    #[test]
    fn every_scenario_has_as_many_tasks_as_wanted_wants_what_may_be_and_wakes_up() {
        for drawn in many() {
            let tasks = drawn.tasks.len() as u64;
            assert!((TASKS.0..=TASKS.1).contains(&tasks), "{tasks} tasks: {}", drawn.text);
            let demand: f64 = drawn.tasks.iter().map(|task| task.demand).sum();
            let percent = demand / CPUS as f64 * 100.0;
            assert!((DEMAND.0..=DEMAND.1).contains(&percent), "{percent} %: {}", drawn.text);
            assert!(drawn.tasks.iter().any(|task| task.wakeups > ENOUGH_WAKEUPS), "{}", drawn.text);
            let real_time: f64 = drawn
                .tasks
                .iter()
                .filter(|task| task.kinds.contains(&"real-time"))
                .map(|task| task.demand)
                .sum();
            assert!(real_time < REAL_TIME_DEMAND, "{real_time} CPUs real-time: {}", drawn.text);
        }
    }

    #[test]
    fn every_scenario_is_right_for_every_host_and_nothing_is_odd_about_it() {
        for drawn in many() {
            // `linux` takes the number of CPUs from the machine, `sim` takes it from `machine`.
            let here = Overrides { cpus: Some(CPUS as usize), ..Overrides::default() };
            let parsed = parse("drawn", &drawn.text, &here)
                .unwrap_or_else(|error| panic!("{error}\n{}", drawn.text));
            assert_eq!(parsed.warnings, [], "{}", drawn.text);
            let names: Vec<_> = parsed.scenario.instances().map(|(_, _, name)| name).collect();
            let drawn: Vec<_> = drawn.tasks.into_iter().map(|task| task.name).collect();
            assert_eq!(names, drawn, "each task is one");
        }
    }

    #[test]
    fn nothing_is_random_in_constant_scenarios() {
        for drawn in many().skip(400) {
            for word in ["exponential", "uniform", "group", "cpus", "slice", "policy", "barrier"] {
                assert!(!drawn.text.contains(word), "{word}: {}", drawn.text);
            }
        }
    }

    /// A task's demand agrees with its program: the `run` of a round, and the length of the round.
    #[test]
    fn demand_is_what_a_program_computes_of_its_rounds() {
        let mut periodic = Program::new(10_000);
        periodic.runs(2_500, true);
        periodic.event("timer", String::new());
        assert_eq!((periodic.demand(), periodic.wakeups()), (0.25, 600.0));
        assert_eq!(periodic.events[0].1, r#"{"uniform": [1250, 3750]}"#);
        assert_eq!((Program::hog().demand(), Program::hog().wakeups()), (1.0, 0.0));
    }

    #[test]
    fn all_kinds_are_drawn_about_as_often_as_they_should() {
        let (mut tasks, mut grouped) = (BTreeMap::new(), 0);
        let mut all = 0_usize;
        for drawn in many().take(400) {
            grouped += usize::from(drawn.text.contains("\"groups\""));
            all += drawn.tasks.len();
            for kind in drawn.tasks.iter().flat_map(|task| &task.kinds) {
                assert!(KINDS.contains(kind), "{kind}");
                *tasks.entry(*kind).or_insert(0_usize) += 1;
            }
        }
        let percent = |kind| tasks.get(kind).map_or(0, |some| some * 100 / all);
        assert!((20..=50).contains(&(grouped * 100 / 400)), "a third has groups: {grouped}");
        for (kind, least, most) in [
            ("hog", 3, 40),
            ("periodic", 3, 40),
            ("bursty", 3, 40),
            ("pipe", 5, 50),
            ("lock", 5, 50),
            ("barrier", 5, 50),
            ("real-time", 1, 12),
            ("SCHED_IDLE", 2, 8),
            ("SCHED_BATCH", 1, 6),
            ("slice", 5, 14),
            ("pinned", 2, 9),
            ("nice", 30, 60),
            ("group", 1, 30),
            ("group with a limit", 1, 30),
            ("overloaded", 20, 95),
            ("with room", 5, 80),
        ] {
            let percent = percent(kind);
            assert!((least..=most).contains(&percent), "{kind}: {percent} %");
        }
    }
}
