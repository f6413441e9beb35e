//! Random scenarios with everything that the language can ask of a scheduler, in small amounts.
//!
//! Two programs have this text: the property tests of the simulator draw from numbers that shrink, `cargo xtask same`
//! from a seed. In a *tame* scenario no task blocks without an end: three tasks that all of them have end every wait
//! within a few milliseconds. In a wild one, mutexes are left locked, and tasks wait in vain.

use super::dice::{Dice, Object};

/// The topologies, each with its number of CPUs.
pub(crate) const SHAPES: [(&str, u64); 12] = [
    ("1x1", 1),
    ("1x2", 2),
    ("1x3", 3),
    ("2x2", 4),
    ("2x1x2", 4),
    ("1x5", 5),
    ("5x1", 5),
    ("1x1x2", 2),
    ("1x3x2", 6),
    ("1x1x4", 4),
    ("2x2x2", 8),
    ("4x4", 16),
];

/// The paths that a scenario may have. Parents come first, so any first part of the list is a forest.
pub(crate) const GROUPS: [&str; 7] = ["/a", "/a/b", "/c", "/a/i", "/a/i/d", "/f", "/c/g"];

const FAIR: [&str; 3] = ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"];
const REAL_TIME: [&str; 2] = ["SCHED_FIFO", "SCHED_RR"];

/// The costs of a machine, each with its largest value.
const COSTS: [&str; 13] = [
    "context_switch_ns",
    "migration_ns",
    "ipi_ns",
    "wakeup_ns",
    "timer_interrupt_ns",
    "jitter_ns",
    "timer_spread_ns",
    "timer_latency_ns",
    "idle_exit_ns",
    "ipi_spread_ns",
    "wakeup_fair_ns",
    "wakeup_level_ns",
    "idle_exit_spread_ns",
];

/// The wishes of a program for its scenarios.
#[derive(Clone, Debug)]
pub(crate) struct Wishes<'a> {
    /// The topologies, of [`SHAPES`].
    pub(crate) shapes: &'a [(&'a str, u64)],
    /// The features of which each scenario has at most three.
    pub(crate) features: &'a [String],
    /// The kernels of which each scenario names one; none is named for an empty one.
    pub(crate) kernels: &'a [&'a str],
    /// Whether half of the scenarios are wild.
    pub(crate) wild: bool,
    /// The factor of all runs. Real-time budgets need seconds.
    pub(crate) scale: u64,
    /// The duration in microseconds in which the changes of a timeline lie, or `None` for no timeline.
    pub(crate) changes_within: Option<u64>,
}

/// Draws a scenario: its text, and the number of [`GROUPS`] that exist.
pub(crate) fn scenario(dice: &mut Dice, wishes: &Wishes<'_>) -> (String, usize) {
    let (shape, cpus) = wishes.shapes[dice.below(wishes.shapes.len())];
    let groups = dice.below(GROUPS.len() + 1);
    let scale = wishes.scale;
    let idle = [false; GROUPS.len()];
    let mut author = Author { dice, cpus, groups, idle, wild: false, cookies: false, scale };
    author.wild = wishes.wild && author.percent(50);
    author.cookies = shape.matches('x').count() > 1 && author.percent(50);
    let mut all = Object::default();
    all.set("machine", author.machine(shape, wishes.kernels));
    let inherit = author.percent(50);
    all.set("global", format!(r#"{{"duration": 2, "pi_enabled": {inherit}}}"#));
    all.set("features", author.features(wishes.features));
    all.set("groups", author.all_groups());
    all.set("mutexes", author.mutexes());
    let threads = author.dice.between(1, 8);
    all.set("tasks", author.tasks(threads));
    if let Some(within) = wishes.changes_within {
        all.set("timeline", author.timeline(threads, within));
    }
    (all.lines(0), groups)
}

struct Author<'a> {
    dice: &'a mut Dice,
    cpus: u64,
    /// The number of [`GROUPS`] that exist.
    groups: usize,
    /// Whether each of them is idle.
    idle: [bool; GROUPS.len()],
    wild: bool,
    cookies: bool,
    scale: u64,
}

impl Author<'_> {
    /// Zero, to which numbers shrink, is never likely.
    fn percent(&mut self, chance: u64) -> bool {
        self.dice.between(0, 99) >= 100 - chance
    }

    fn machine(&mut self, shape: &str, kernels: &[&str]) -> String {
        let mut machine = Object::default();
        let kernel = self.dice.pick(kernels);
        if !kernel.is_empty() {
            machine.set("kernel", format!("{kernel:?}"));
            machine.set("rt_group_sched", self.percent(50));
        }
        machine.set("topology", format!("{shape:?}"));
        machine.set("tick_hz", self.dice.pick(&["1000", "100", "250"]));
        let mut costs = Object::default();
        let likely = self.dice.pick_of(&[0, 25, 100]);
        for cost in COSTS {
            if self.percent(likely) {
                costs.set(cost, self.dice.between(0, 6_000));
            }
        }
        machine.set("costs", costs.text());
        machine.text()
    }

    fn features(&mut self, of: &[String]) -> String {
        let mut some = vec![];
        for _ in 0..self.dice.between(0, 3) {
            let feature = &of[self.dice.below(of.len())];
            if !some.contains(feature) {
                some.push(feature.clone());
            }
        }
        format!("{some:?}")
    }

    fn all_groups(&mut self) -> String {
        let mut groups = Object::default();
        for (nth, path) in GROUPS[..self.groups].iter().enumerate() {
            let group = self.group();
            self.idle[nth] = group.contains("idle");
            groups.set(path, group);
        }
        groups.text()
    }

    fn group(&mut self) -> String {
        let mut group = Object::default();
        match self.dice.between(0, 4) {
            0 => {}
            1 => group.set("idle", true),
            _ => group.set("weight", self.dice.pick(&["2", "100", "512", "1024", "3000", "20000"])),
        }
        if self.percent(30) {
            group.set("latency_nice", self.dice.nice());
        }
        if self.cookies && self.percent(25) {
            group.set("cookie", r#""a""#);
        }
        if self.percent(50) {
            self.limit(&mut group);
        }
        group.text()
    }

    fn limit(&mut self, group: &mut Object) {
        let runtime = self.limit_without_burst(group);
        if self.percent(50) {
            group.set("burst", runtime / 4);
        }
        if self.percent(25) {
            group.set("per_cpu", true);
        }
    }

    /// Sets period and runtime. Returns the runtime.
    fn limit_without_burst(&mut self, group: &mut Object) -> u64 {
        let period = self.dice.between(1, 10) * self.dice.pick_of(&[1_000, 1_000, 12_000]);
        let runtime = (period * self.dice.between(1, 30) / 10).max(1_000);
        group.set("period", period);
        group.set("runtime", runtime);
        runtime
    }

    /// Changes of CPUs, groups and tasks. One CPU stays online. Each thread starts and stops in turn.
    fn timeline(&mut self, threads: u64, within: u64) -> String {
        let stays = self.dice.between(0, self.cpus - 1);
        let mut changes = Vec::new();
        let mut turns = vec![Vec::new(); threads as usize];
        for _ in 0..self.dice.pick_of(&[0, 0, 3, 6, 10]) {
            let at = self.dice.between(0, within);
            let mut change = Object::default();
            change.set("at", at);
            match self.dice.between(0, 4) {
                0 if self.groups > 0 => self.change_group(&mut change),
                1 => {
                    let cpu = self.dice.between(0, self.cpus - 1);
                    change.set("cpu", cpu);
                    change.set("online", cpu == stays || self.percent(50));
                }
                2 => {
                    let thread = self.dice.between(0, threads - 1);
                    turns[thread as usize].push(at);
                    continue;
                }
                _ => self.change_task(&mut change, threads),
            }
            changes.push(change.text());
        }
        for (thread, mut times) in turns.into_iter().enumerate() {
            times.sort_unstable();
            let first = self.dice.below(2);
            for (nth, at) in times.into_iter().enumerate() {
                let key = if (nth + first).is_multiple_of(2) { "start" } else { "stop" };
                changes.push(format!(r#"{{"at": {at}, "{key}": "t{thread}"}}"#));
            }
        }
        format!("[\n    {}\n  ]", changes.join(",\n    "))
    }

    fn change_group(&mut self, change: &mut Object) {
        let group = self.dice.below(self.groups);
        change.set("group", format!("{:?}", GROUPS[group]));
        match self.dice.between(0, 2) {
            0 if !self.idle[group] => {
                change.set("weight", self.dice.pick(&["2", "100", "1024", "20000"]));
            }
            1 => change.set("runtime", -1),
            _ => {
                // An earlier limit may have a burst above the new runtime.
                change.set("burst", 0);
                self.limit_without_burst(change);
            }
        }
    }

    fn change_task(&mut self, change: &mut Object, threads: u64) {
        let thread = match self.dice.between(0, threads) {
            0 => "child".to_owned(),
            nth => format!("t{}", nth - 1),
        };
        change.set("task", format!("{thread:?}"));
        let which = self.dice.between(1, 15);
        if which & 1 != 0 {
            self.policy(change);
        }
        if which & 2 != 0 {
            change.set("latency_nice", self.dice.nice());
        }
        if which & 4 != 0 {
            let cpus = self.cpus;
            let first = self.dice.between(0, cpus - 1);
            let mask: Vec<_> = (0..cpus).filter(|&cpu| cpu == first || self.percent(50)).collect();
            change.set("cpus", format!("{mask:?}"));
        }
        if which & 8 != 0 {
            change.set("slice", self.dice.between(100, 100_000));
        }
    }

    fn mutexes(&mut self) -> String {
        let mut mutexes = Object::default();
        for mutex in ["m0", "m1", "m2"] {
            mutexes.set(mutex, format!("{:?}", self.dice.pick(&["barge", "hand_over", "inherit"])));
        }
        mutexes.text()
    }

    fn tasks(&mut self, threads: u64) -> String {
        let mut tasks = Object::default();
        for index in 0..threads {
            tasks.set(&format!("t{index}"), self.task(index));
        }
        tasks.set("child", self.child());
        if !self.wild {
            tasks.set("bell", BELL);
            tasks.set("fill", FILL);
            tasks.set("drain", DRAIN);
        }
        tasks.lines(2)
    }

    /// A thread of a few instances and phases. It never ends in a tame scenario.
    fn task(&mut self, number: u64) -> String {
        let mut task = Object::default();
        task.set("instance", self.dice.between(1, 3));
        if self.percent(50) {
            task.set("delay", self.dice.between(1, 3_000));
        }
        if self.wild {
            task.set("loop", self.dice.between(0, 7) as i64 - 1);
        }
        if self.percent(20) {
            task.set("reset_on_fork", true);
        }
        self.attributes(&mut task, 80);
        let mut phases = Object::default();
        for index in 0..self.dice.between(1, 4) {
            let mut phase = Object::default();
            let endless = self.wild && self.percent(15);
            phase.set("loop", if endless { -1 } else { self.dice.between(1, 8) as i64 });
            self.attributes(&mut phase, 30);
            self.events(&mut phase, true);
            if self.percent(10) {
                let shared = format!("b{}", number % 2);
                let own = format!("t{number}p{index}");
                phase.set("barrier", format!("{:?}", if self.wild { shared } else { own }));
            }
            phases.set(&format!("p{index}"), phase.text());
        }
        task.set("phases", phases.text());
        task.text()
    }

    /// A thread that only a fork starts. It inherits attributes or sets its own, and ends.
    fn child(&mut self) -> String {
        let mut child = Object::default();
        child.set("instance", 0);
        child.set("loop", self.dice.between(1, 4));
        self.attributes(&mut child, 40);
        self.events(&mut child, false);
        child.text()
    }

    /// Attributes of a thread or a phase, each with this chance.
    fn attributes(&mut self, of: &mut Object, chance: u64) {
        if self.percent(chance) {
            self.policy(of);
        }
        if self.groups > 0 && self.percent(chance) {
            let listed = &GROUPS[..self.groups];
            let group = if self.percent(10) { "/" } else { self.dice.pick(listed) };
            of.set("group", format!("{group:?}"));
        }
        if self.percent(chance / 3) {
            let cpus = self.cpus;
            let mask: Vec<_> = (0..cpus).filter(|_| self.percent(50)).collect();
            let mask = if mask.is_empty() { vec![cpus - 1] } else { mask };
            of.set("cpus", format!("{mask:?}"));
        }
        if self.percent(chance / 2) {
            of.set("latency_nice", self.dice.nice());
        }
        if self.percent(chance / 4) {
            of.set("slice", self.dice.between(100, 100_000));
        }
        if self.percent(chance / 3) {
            of.set("timer_slack", self.dice.between(0, 3_000));
        }
        if self.cookies && self.percent(chance) {
            of.set("cookie", format!("{:?}", self.dice.pick(&["", "a", "b", "c"])));
        }
    }

    fn policy(&mut self, of: &mut Object) {
        let real_time = self.percent(40);
        let policy = self.dice.pick(if real_time { &REAL_TIME } else { &FAIR });
        of.set("policy", format!("{policy:?}"));
        match real_time {
            // Mostly a few values, so that many tasks have equal priorities.
            true => of.set("priority", self.dice.pick(&["1", "2", "2", "3", "4", "5", "50", "99"])),
            false => of.set("priority", self.dice.nice()),
        }
    }

    /// Events: work first, so that no phase is without any, then other events.
    fn events(&mut self, of: &mut Object, forks: bool) {
        of.set("run", self.run(500));
        for _ in 0..self.dice.between(0, 5) {
            self.event(of, forks);
        }
    }

    fn run(&mut self, mean: u64) -> String {
        self.dice.span(mean * self.scale)
    }

    fn event(&mut self, of: &mut Object, forks: bool) {
        // The objects of a wild scenario, of which each kind has two.
        let wild = if self.wild { self.dice.pick(&["0", "1"]) } else { "" };
        match self.dice.between(0, if self.wild { 24 } else { 20 }) {
            0..=3 => of.set("run", self.run(800)),
            4..=6 => of.set("sleep", self.dice.span(1_500)),
            7..=8 => self.timer(of),
            9..=11 => self.locked(of, wild),
            12 => of.set("yield", r#""""#),
            13 => of.set("runtime", self.run(800)),
            14 => of.set("sem_wait", format!(r#""s{wild}""#)),
            15 => of.set("sem_post", format!(r#""s{wild}""#)),
            16 => of.set("recv", format!(r#"{{"ref": "pipe{wild}", "bytes": 3000}}"#)),
            17 => of.set(
                "send",
                format!(r#"{{"ref": "pipe{wild}", "bytes": 2000, "capacity": 9000}}"#),
            ),
            18 => of.set("suspend", r#""""#),
            19 => of.set("resume", format!(r#""t{}""#, self.dice.between(0, 7))),
            20 if forks => {
                of.set("sleep", self.dice.span(3_000));
                of.set("fork", r#""child""#);
            }
            21 => of.set("lock", self.mutex()),
            22 => of.set("unlock", self.mutex()),
            23 => {
                let event = self.dice.pick(&["wait", "sync"]);
                of.set(event, format!(r#"{{"ref": "c{wild}", "mutex": {}}}"#, self.mutex()));
            }
            24 if forks => of.set(self.dice.pick(&["exit", "signal"]), r#""c0""#),
            _ => of.set(self.dice.pick(&["signal", "broad"]), format!(r#""c{wild}""#)),
        }
    }

    fn mutex(&mut self) -> String {
        format!("\"m{}\"", self.dice.between(0, 2))
    }

    fn timer(&mut self, of: &mut Object) {
        let least = if self.wild { 0 } else { 500 };
        let period = self.dice.between(least, 6_000);
        let name = self.dice.pick(&["unique", "unique1", "shared", "other"]);
        let mode = self.dice.pick(&["relative", "absolute"]);
        of.set("timer", format!(r#"{{"ref": {name:?}, "period": {period}, "mode": {mode:?}}}"#));
    }

    /// One or two mutexes, always in the same order, and perhaps a condition.
    fn locked(&mut self, of: &mut Object, wild: &str) {
        let first = self.dice.pick(&["0", "1"]);
        of.set("lock", format!("\"m{first}\""));
        of.set("run", self.run(300));
        if self.percent(30) {
            of.set("lock", r#""m2""#);
            of.set("run", self.run(200));
            of.set("unlock", r#""m2""#);
        }
        if self.percent(30) {
            of.set("wait", format!(r#"{{"ref": "c{wild}", "mutex": "m{first}"}}"#));
        }
        of.set("unlock", format!("\"m{first}\""));
    }
}

/// Ends all waits for a condition, a semaphore or a resumption.
const BELL: &str = r#"{"policy": "SCHED_FIFO", "timer": {"ref": "unique", "period": 3000},
      "run": 20, "broad": "c", "sem_post": "s", "resume": "t0", "resume": "t1", "resume": "t2",
      "resume": "t3", "resume": "t4", "resume": "t5", "resume": "t6", "resume": "t7"}"#;

/// Ends the waits for an empty pipe.
const FILL: &str = r#"{"sleep": 2000, "send": {"ref": "pipe", "bytes": 2000}}"#;

/// Ends the waits for a full pipe.
const DRAIN: &str = r#"{"sleep": 2000, "recv": {"ref": "pipe", "bytes": 2000}}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_scenarios_have_everything() {
        let features = ["NO_RT_PUSH", "NO_RT_PULL", "EEVDF"].map(str::to_owned);
        let kernels = ["", "6.1", "6.18"];
        let (shapes, features, kernels) = (&SHAPES, &features, &kernels);
        let wishes =
            Wishes { shapes, features, kernels, wild: true, scale: 1, changes_within: Some(9_000) };
        let draw = |seed, index| scenario(&mut Dice::new(seed, index), &wishes).0;
        assert_eq!(draw(1, 2), draw(1, 2));
        assert!(draw(1, 2) != draw(1, 3) && draw(1, 2) != draw(2, 2));
        let all: String = (0..40).map(|index| draw(1, index)).collect();
        let values = ["SCHED_BATCH", "SCHED_IDLE", "SCHED_RR", "per_cpu", "burst", "idle\": true"];
        let events = ["fork", "suspend", "barrier", "sem_wait", "recv", "wait", "yield", "lock"];
        let more = ["sync", "signal", "broad", "exit", "sem_post", "send", "resume", "runtime"];
        let attributes = ["latency_nice", "slice", "timer_slack", "cpus", "group", "reset_on_fork"];
        let changes = ["online", "start", "stop", "\"task\""];
        let others = ["cookie", "hand_over", "inherit", "kernel", "6.18", "bell", "EEVDF"];
        let words = values
            .iter()
            .chain(&events)
            .chain(&more)
            .chain(&attributes)
            .chain(&others)
            .chain(&changes);
        for word in words.chain(&GROUPS).chain(&COSTS) {
            assert!(all.contains(word), "{word}");
        }
    }
}
