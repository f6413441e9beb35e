//! The invariants to verify after an event: all of them with [`Check::Full`], and those of the touched parts with
//! [`Check::Touched`].
//!
//! A changed run queue reports itself under its lock. The simulator itself notes the CPUs of which it changes other
//! state. For the invariants that span CPUs, the state of each CPU at its last touch is kept: the tasks in its queue
//! and on their way, the parts of groups, the waiting tasks, and the running task. After an event, the counters of the
//! whole machine are compared, and all pairs of CPUs with a touched one. Two untouched CPUs are unchanged.
//!
//! Some violations are found later, because no event reports them: a counter that changes by itself, and a budget that
//! has been unused since its period began. After [`Check::EVENTS`] events everything is verified.

use crate::calendar::Due;
use crate::sim::Sim;
use crate::watch::{Check, Takes};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;
use std::collections::BTreeSet;

impl Sim<'_> {
    /// Runs an event and verifies the invariants after it. Returns `false` after the last.
    #[inline(never)]
    pub(crate) fn step_checked(&mut self, at: Time, due: Due) -> bool {
        if due == Due::End && self.options.check == Check::Touched {
            self.check();
        }
        self.now = at;
        if let Due::Interrupt(cpu) | Due::Kick(cpu) | Due::Done(cpu, _) = due {
            self.watch.note(cpu);
        }
        self.happen(due);
        if !self.stopped {
            match self.options.check {
                Check::No => {}
                Check::Touched => self.check_touched(),
                Check::Full => self.check(),
            }
        }
        let goes_on = self.goes_on();
        if !goes_on && !self.stopped && self.options.check == Check::Touched {
            self.check();
        }
        goes_on
    }

    fn check_touched(&mut self) {
        let mut touched = std::mem::take(&mut self.fx.touched);
        touched.drain(..).for_each(|cpu| self.watch.note(cpu));
        self.fx.touched = touched;
        self.touch_siblings();
        let touched = std::mem::take(&mut self.watch.touched);
        self.machine.check_cpus(&touched, &mut self.watch.sums);
        for &cpu in &touched {
            self.check_current(cpu);
            self.check_debts(cpu);
            self.see(cpu);
        }
        let counted = self.blocked + self.watch.housed;
        assert_eq!(counted, self.alive, "no task is lost");
        if std::mem::take(&mut self.watch.objects) {
            self.check_objects();
        }
        self.check_rt_affinity_of(&touched);
        self.check_waste_of(&touched);
        self.check_cores_of(&touched);
        self.check_budgets_touched();
        self.watch.events += 1;
        if self.watch.events >= Check::EVENTS {
            self.watch.events = 0;
            self.check();
        }
        self.forget(touched);
    }

    /// Clears the touched parts before the next event.
    fn forget(&mut self, mut touched: Vec<CpuId>) {
        for cpu in touched.drain(..) {
            self.watch.is_touched[cpu.index()] = false;
        }
        self.watch.touched = touched;
    }

    fn see(&mut self, cpu: CpuId) {
        let mut new = std::mem::take(&mut self.watch.seen[cpu.index()]);
        self.watch.housed -= new.housed;
        new.housed = self.queued_on(cpu) + self.cpus[cpu.index()].inbound as usize;
        self.watch.housed += new.housed;
        if self.promises_no_waste() {
            new.waiters.clear();
            self.waiting_on(cpu, &mut new.waiters);
            new.takes = self.takes(cpu);
            put(&mut self.watch.waiting, cpu, !new.waiters.is_empty());
            put(&mut self.watch.takers, cpu, new.takes != Takes::Nobody);
        }
        if self.promises_rt_affinity() {
            new.runs = self.settled_importance(cpu);
            let waits = self.beaten_on(cpu, |_, _| Some(cpu)).is_some();
            put(&mut self.watch.waiting_rt, cpu, waits);
        }
        self.watch.seen[cpu.index()] = new;
    }

    /// Checks the real-time tasks of touched CPUs against all CPUs, and those of other CPUs against the touched ones.
    fn check_rt_affinity_of(&mut self, touched: &[CpuId]) {
        let watch = &self.watch;
        let beats = |on: CpuId, prio| watch.seen[on.index()].runs.is_some_and(|run| run < prio);
        let beaten = watch.waiting_rt.iter().find_map(|&cpu| {
            self.beaten_on(cpu, |prio, cpus| match watch.is_touched[cpu.index()] {
                true => cpus.iter().find(|&on| beats(on, prio)),
                false => touched.iter().copied().find(|&on| cpus.contains(on) && beats(on, prio)),
            })
        });
        if let Some(beaten) = beaten {
            self.tell_of_beaten(beaten);
        }
    }

    fn check_waste_of(&mut self, touched: &[CpuId]) {
        for &cpu in touched {
            if self.watch.seen[cpu.index()].takes == Takes::Nobody {
                self.note_waste(cpu, None);
            }
        }
        if self.watch.takers.is_empty() {
            return;
        }
        let takers = std::mem::take(&mut self.watch.takers);
        let seen = std::mem::take(&mut self.watch.seen);
        for &cpu in &takers {
            let takes = seen[cpu.index()].takes;
            let find = |on: CpuId| seen[on.index()].waiters.iter().find(|it| takes.wants(cpu, it));
            let is_touched = |on: CpuId| self.watch.is_touched[on.index()];
            let waste = self.watch.waste[cpu.index()];
            let waiter = match waste.map(|waste| is_touched(waste.on)) {
                // The waiting task has not changed, so it still waits.
                Some(false) if !is_touched(cpu) => None,
                None if !is_touched(cpu) => Some(touched.iter().find_map(|&on| find(on))),
                _ => Some(self.watch.waiting.iter().find_map(|&on| find(on))),
            };
            if let Some(waiter) = waiter {
                self.note_waste(cpu, waiter);
            }
            self.check_waste(cpu);
        }
        (self.watch.takers, self.watch.seen) = (takers, seen);
    }

    fn check_budgets_touched(&mut self) {
        let counted = self.watch.sums.groups_counted();
        let groups: Vec<_> = counted.chain(self.watch.stranded.iter().copied()).collect();
        for group in groups {
            self.check_budget(group);
            let is_stranded = self.stranded[group.index()].is_some();
            put(&mut self.watch.stranded, group, is_stranded);
        }
    }
}

/// Inserts `it` into the set or removes it.
fn put<T: Ord>(set: &mut BTreeSet<T>, it: T, is_in: bool) {
    if is_in {
        set.insert(it);
    } else {
        set.remove(&it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Options, Outcome};
    use crate::watch::Waiter;
    use runyard_engine::event::Event;
    use runyard_engine::time::Nanos;
    use runyard_workload::{Overrides, Scenario, parse};

    /// A scenario with all interactions of CPUs: groups with limits, real-time tasks, a mutex, forks.
    const BUSY: &str = r#"{
        "machine": {"cpus": 4, "topology": "2x2"},
        "groups": {"/web": {"runtime": 30000, "period": 50000}, "/web/api": {"weight": 300}},
        "tasks": {
            "hog": {"instance": 2, "group": "/web/api", "run": 5000},
            "idle": {"policy": "SCHED_IDLE", "run": 5000},
            "tick": {"instance": 4, "timer": {"ref": "unique", "period": 3000}, "run": {"uniform": [200, 900]}},
            "rt": {"instance": 3, "policy": "SCHED_FIFO", "run": {"exponential": 400}, "sleep": 1500},
            "lock": {"instance": 3, "group": "/web", "lock": "m", "run": 150, "unlock": "m", "sleep": 700},
            "parent": {"fork": "child", "sleep": 4000},
            "child": {"instance": 0, "loop": 1, "run": 2500},
        },
        "timeline": [{"at": 200000, "cpu": 3, "online": false}, {"at": 300000, "cpu": 3, "online": true}],
            "global": {"duration": 1},
    }"#;

    fn scenario(text: &str, features: &str) -> Scenario {
        let features = features.split_whitespace().map(|name| name.parse().unwrap()).collect();
        let over = Overrides { features, ..Overrides::default() };
        parse("-", text, &over).unwrap().scenario
    }

    fn options(check: Check, seed: u64) -> Options {
        let hint_delay = Nanos(if seed.is_multiple_of(2) { 5_000 } else { 0 });
        Options { seed, check, hint_delay, ..Options::default() }
    }

    /// Asserts that the remembered state of each untouched CPU is its current state.
    fn audit(sim: &Sim<'_>) {
        for (at, seen) in sim.watch.seen.iter().enumerate() {
            let cpu = CpuId::at(at);
            let housed = sim.queued_on(cpu) + sim.cpus[at].inbound as usize;
            assert_eq!(seen.housed, housed, "tasks of CPU {cpu} at {}", sim.now);
            assert_eq!(seen.takes, sim.takes(cpu), "CPU {cpu} at {}", sim.now);
            let runs = sim.promises_rt_affinity().then(|| sim.settled_importance(cpu)).flatten();
            assert_eq!(seen.runs, runs, "CPU {cpu} at {}", sim.now);
            let mut waiters = Vec::new();
            sim.waiting_on(cpu, &mut waiters);
            let ids = |of: &[Waiter]| of.iter().map(|waiter| waiter.task).collect::<Vec<_>>();
            assert_eq!(ids(&seen.waiters), ids(&waiters), "CPU {cpu} at {}", sim.now);
        }
    }

    #[test]
    fn whatever_changes_is_touched() {
        let of_6_12 = "EEVDF DELAY_DEQUEUE FAIR_SERVER PELT BALANCE_BY_ROOM NI_RANDOM";
        for features in ["EEVDF", "NO_EEVDF", of_6_12, "NO_RT_PUSH NO_GREEDY_TIMERS"] {
            let scenario = scenario(BUSY, features);
            for seed in 1..4 {
                let mut sim =
                    Sim::new(&scenario, options(Check::Touched, seed), |_: &Event| {}).unwrap();
                while sim.step() {
                    audit(&sim);
                }
                assert_eq!(sim.violations, [], "{features}, seed {seed}");
            }
        }
    }

    /// Runs a machine without some features and checks the guarantees of all of them.
    fn held_to_too_much(text: &str, without: &str, check: Check, seed: u64) -> Outcome {
        let (has, promises) = (scenario(text, without), scenario(text, ""));
        let mut sim = Sim::new(&has, options(check, seed), |_: &Event| {}).unwrap();
        sim.scenario = &promises;
        sim.run()
    }

    #[test]
    fn what_is_broken_is_seen_at_the_same_event() {
        let balance = "NO_LOAD_BALANCE NO_IDLE_LOAD_BALANCE";
        let pushes = "NO_RT_PUSH NO_RT_PULL";
        for (invariant, without) in [("no-wasted-cpu", balance), ("rt-weak-affinity", pushes)] {
            let mut found = 0;
            for seed in 1..6 {
                let first = |check| {
                    let outcome = held_to_too_much(BUSY, without, check, seed);
                    let mut broken = outcome.violations.into_iter();
                    broken.find(|it| it.invariant == invariant).map(|it| it.at)
                };
                let (full, touched) = (first(Check::Full), first(Check::Touched));
                assert_eq!(touched, full, "{invariant}, seed {seed}");
                found += u32::from(full.is_some());
            }
            assert!(found > 0, "{invariant} is broken");
        }
    }

    #[test]
    #[should_panic(expected = "no task is lost")]
    fn a_lost_task_is_missed_at_once() {
        let scenario = scenario(BUSY, "");
        let mut sim = Sim::new(&scenario, options(Check::Touched, 1), |_: &Event| {}).unwrap();
        (0..100).for_each(|_| assert!(sim.step()));
        sim.alive += 1;
        sim.step();
    }
}
