//! Random scenarios with everything that the language can ask of a scheduler, in small amounts.
//!
//! No task blocks without an end: three tasks that all scenarios have end every wait within a few milliseconds.

use crate::dice::{Dice, Object};

/// The features of which each scenario has some.
const FEATURES: [&str; 12] = [
    "NO_RT_PUSH",
    "NO_RT_PULL",
    "NO_RT_PUSH_PAST_STUCK",
    "NO_LOAD_BALANCE",
    "NO_IDLE_LOAD_BALANCE",
    "POWER_SAVINGS",
    "NO_WAKEUP_PREEMPTION",
    "NO_GENTLE_FAIR_SLEEPERS",
    "NO_LATENCY_NICE",
    "NO_HARD_LIMITS",
    "NO_RUNTIME_SHARE",
    "NO_GREEDY_TIMERS",
];

/// The percentage of scenarios that have each of [`FEATURES`].
const FEATURE_PERCENT: u64 = 12;

/// The topologies, each with its number of CPUs.
const TOPOLOGIES: [(&str, u64); 8] = [
    ("1x1", 1),
    ("1x2", 2),
    ("1x3", 3),
    ("1x4", 4),
    ("1x2x2", 4),
    ("2x2x2", 8),
    ("2x4", 8),
    ("4x4", 16),
];

/// The paths that a scenario may have. Parents come first, so any first part of the list is a forest.
const GROUPS: [&str; 7] = ["/a", "/b", "/a/c", "/a/c/d", "/b/e", "/f", "/b/e/g"];

const FAIR: [&str; 3] = ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"];
const REAL_TIME: [&str; 2] = ["SCHED_FIFO", "SCHED_RR"];

/// The scenario number `index` of those for `seed`.
#[must_use]
pub fn scenario(seed: u64, index: u64) -> String {
    let (shape, cpus) = TOPOLOGIES[(index % TOPOLOGIES.len() as u64) as usize];
    let mut dice = Dice::new(seed, index);
    let groups = dice.between(0, GROUPS.len() as u64) as usize;
    let mut author = Author { dice, cpus, groups };
    author.scenario(shape)
}

struct Author {
    dice: Dice,
    cpus: u64,
    /// The number of [`GROUPS`] that exist.
    groups: usize,
}

impl Author {
    fn scenario(&mut self, shape: &str) -> String {
        let mut all = Object::default();
        all.set("machine", self.machine(shape));
        let inherit = self.dice.percent(50);
        all.set("global", format!(r#"{{"duration": 2, "pi_enabled": {inherit}}}"#));
        all.set("features", self.features());
        all.set("groups", self.all_groups());
        all.set("tasks", self.tasks());
        all.lines(0)
    }

    fn machine(&mut self, shape: &str) -> String {
        let mut machine = Object::default();
        machine.set("cpus", self.cpus);
        machine.set("topology", format!("{shape:?}"));
        machine.set("tick_hz", self.dice.pick(&["100", "250", "1000"]));
        let mut costs = Object::default();
        for cost in ["context_switch_ns", "migration_ns", "wakeup_ns", "idle_exit_ns", "jitter_ns"]
        {
            if self.dice.percent(25) {
                costs.set(cost, self.dice.between(0, 5_000));
            }
        }
        machine.set("costs", costs.text());
        machine.text()
    }

    fn features(&mut self) -> String {
        let some: Vec<_> = FEATURES.iter().filter(|_| self.dice.percent(FEATURE_PERCENT)).collect();
        format!("{some:?}")
    }

    fn all_groups(&mut self) -> String {
        let mut groups = Object::default();
        for path in &GROUPS[..self.groups] {
            groups.set(path, self.group());
        }
        groups.text()
    }

    fn group(&mut self) -> String {
        let mut group = Object::default();
        match self.dice.between(0, 4) {
            0 => group.set("idle", true),
            1 => {}
            _ => group.set("weight", self.dice.pick(&["2", "100", "512", "1024", "3000", "20000"])),
        }
        if self.dice.percent(30) {
            group.set("latency_nice", self.dice.nice());
        }
        if self.dice.percent(50) {
            let period = self.dice.between(3, 120) * 1_000;
            let runtime = self.dice.between(1_000, period / 3 * self.cpus.min(4));
            group.set("period", period);
            group.set("runtime", runtime);
            if self.dice.percent(50) {
                group.set("burst", self.dice.between(0, runtime));
            }
            if self.dice.percent(25) {
                group.set("per_cpu", true);
            }
        }
        group.text()
    }

    fn tasks(&mut self) -> String {
        let mut tasks = Object::default();
        for index in 0..self.dice.between(3, 8) {
            tasks.set(&format!("t{index}"), self.task(index));
        }
        tasks.set("child", self.child());
        tasks.set("bell", BELL);
        tasks.set("fill", FILL);
        tasks.set("drain", DRAIN);
        tasks.lines(2)
    }

    /// A thread of a few instances and phases that never ends.
    fn task(&mut self, number: u64) -> String {
        let mut task = Object::default();
        task.set("instance", self.dice.between(1, 3));
        if self.dice.percent(30) {
            task.set("delay", self.dice.between(1, 300_000));
        }
        if self.dice.percent(20) {
            task.set("reset_on_fork", true);
        }
        self.attributes(&mut task, 80);
        let mut phases = Object::default();
        for index in 0..self.dice.between(1, 4) {
            let mut phase = Object::default();
            phase.set("loop", self.dice.between(1, 12));
            self.attributes(&mut phase, 25);
            self.events(&mut phase);
            if self.dice.percent(10) {
                phase.set("barrier", format!(r#""t{number}p{index}""#));
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
        child.set("run", self.dice.span(800));
        child.set("sleep", self.dice.span(1_500));
        child.text()
    }

    /// Attributes of a thread or a phase, each with this chance.
    fn attributes(&mut self, of: &mut Object, chance: u64) {
        if self.dice.percent(chance) {
            self.policy(of);
        }
        if self.groups > 0 && self.dice.percent(chance) {
            let listed = &GROUPS[..self.groups];
            let group = if self.dice.percent(10) { "/" } else { self.dice.pick(listed) };
            of.set("group", format!("{group:?}"));
        }
        if self.dice.percent(chance / 3) {
            let mask: Vec<_> = (0..self.cpus).filter(|_| self.dice.percent(50)).collect();
            let mask = if mask.is_empty() { vec![0] } else { mask };
            of.set("cpus", format!("{mask:?}"));
        }
        if self.dice.percent(chance / 2) {
            of.set("latency_nice", self.dice.nice());
        }
        if self.dice.percent(chance / 4) {
            of.set("slice", self.dice.between(100, 20_000));
        }
        if self.dice.percent(chance / 4) {
            of.set("timer_slack", self.dice.between(0, 3_000));
        }
    }

    fn policy(&mut self, of: &mut Object) {
        let real_time = self.dice.percent(30);
        let policy = self.dice.pick(if real_time { &REAL_TIME } else { &FAIR });
        of.set("policy", format!("{policy:?}"));
        match real_time {
            true => of.set("priority", self.dice.between(1, 99)),
            false => of.set("priority", self.dice.nice()),
        }
    }

    /// Events: work first, so that no phase is without any, then other events.
    fn events(&mut self, of: &mut Object) {
        of.set("run", self.dice.span(1_200));
        for _ in 0..self.dice.between(0, 3) {
            self.event(of);
        }
    }

    fn event(&mut self, of: &mut Object) {
        match self.dice.between(0, 18) {
            0..=3 => of.set("sleep", self.dice.span(4_000)),
            4..=6 => self.timer(of),
            7..=9 => self.locked(of),
            10 => of.set("yield", r#""""#),
            11 => of.set("runtime", self.dice.span(2_000)),
            12 => of.set("sem_wait", r#""s""#),
            13 => of.set("sem_post", r#""s""#),
            14 => of.set("recv", r#"{"ref": "pipe", "bytes": 3000}"#),
            15 => of.set("send", r#"{"ref": "pipe", "bytes": 2000, "capacity": 9000}"#),
            16 => of.set("suspend", r#""""#),
            17 => of.set("resume", format!(r#""t{}""#, self.dice.between(0, 7))),
            _ => {
                of.set("sleep", self.dice.span(9_000));
                of.set("fork", r#""child""#);
            }
        }
    }

    fn timer(&mut self, of: &mut Object) {
        let period = self.dice.between(500, 12_000);
        let name = self.dice.pick(&["unique", "unique1", "shared"]);
        let mode = self.dice.pick(&["relative", "absolute"]);
        of.set("timer", format!(r#"{{"ref": {name:?}, "period": {period}, "mode": {mode:?}}}"#));
    }

    /// One or two mutexes, always in the same order, and perhaps a condition.
    fn locked(&mut self, of: &mut Object) {
        of.set("lock", r#""m""#);
        of.set("run", self.dice.span(300));
        if self.dice.percent(30) {
            of.set("lock", r#""n""#);
            of.set("run", self.dice.span(200));
            of.set("unlock", r#""n""#);
        }
        if self.dice.percent(30) {
            of.set("wait", r#"{"ref": "c", "mutex": "m"}"#);
        }
        of.set("unlock", r#""m""#);
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
    fn a_scenario_follows_from_its_seed_and_number() {
        assert_eq!(scenario(1, 2), scenario(1, 2));
        assert_ne!(scenario(1, 2), scenario(1, 2 + TOPOLOGIES.len() as u64));
        assert_ne!(scenario(1, 2), scenario(2, 2));
    }

    #[test]
    fn forty_scenarios_have_everything() {
        let all: String = (0..40).map(|index| scenario(1, index)).collect();
        let values = ["SCHED_BATCH", "SCHED_IDLE", "SCHED_RR", "per_cpu", "burst", "idle\": true"];
        let events = ["fork", "suspend", "barrier", "sem_wait", "recv", "wait", "yield", "lock"];
        let attributes = ["latency_nice", "slice", "timer_slack", "cpus", "group", "reset_on_fork"];
        let words = values.iter().chain(&events).chain(&attributes).chain(&FEATURES);
        for word in words.chain(&GROUPS) {
            assert!(all.contains(word), "{word}");
        }
    }
}
