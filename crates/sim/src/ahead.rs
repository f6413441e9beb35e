//! Prefetching: the data of the next events is in the caches before the first of them happens.
//!
//! A large machine does not fit into the caches. The data of an event lies behind pointers, and each pointer costs a
//! cache miss before the next. But the calendar knows the CPUs of the next events. So this file reads the data of all
//! these events together, the nearest pointers first, and the processor overlaps the cache misses.
//!
//! The values read are not used, and no result depends on them.

use crate::calendar::{AT_ONCE, Due};
use crate::cpu::{Cpu, Doing};
use crate::sim::Sim;
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use std::hint::black_box;

/// The largest number of pointers between a run queue and the data that is read.
const HOPS: u32 = 3;

/// The CPUs or tasks of some of the next events.
#[derive(Debug)]
struct Few<T> {
    items: [T; AT_ONCE],
    len: usize,
}

impl<T: Copy> Few<T> {
    fn new(blank: T) -> Few<T> {
        Few { items: [blank; AT_ONCE], len: 0 }
    }

    fn push(&mut self, item: T) {
        self.items[self.len] = item;
        self.len += 1;
    }

    fn iter(&self) -> impl Iterator<Item = T> {
        self.items[..self.len].iter().copied()
    }

    /// Calls `read` for each. The compiler must not remove the calls, although the result is unused.
    fn read(&self, mut read: impl FnMut(T) -> u64) {
        black_box(self.iter().fold(0, |all, item| all ^ read(item)));
    }
}

impl Sim<'_> {
    /// Reads the data of the next events.
    #[inline(never)]
    pub(crate) fn read_ahead(&mut self) {
        let mut next = Few::new((CpuId(0), Due::End));
        for due in self.calendar.soon().take(AT_ONCE) {
            match due {
                Due::Interrupt(cpu) | Due::Kick(cpu) | Due::Done(cpu, _) => next.push((cpu, due)),
                Due::Arrive(number) => {
                    let moving = self.carried[number as usize].as_ref();
                    moving.into_iter().for_each(|moving| next.push((moving.to, due)));
                }
                _ => {}
            }
        }
        next.read(|(cpu, _)| {
            let own = &self.cpus[cpu.index()];
            own.programmed.0 ^ u64::from(own.curr.is_some())
        });
        // Most CPUs that end a stretch of scheduler work need no more data.
        let goes_on = |own: &Cpu, due| {
            matches!((due, own.doing), (Due::Done(..), Doing::Overhead(_))) && !own.resched.is_due()
        };
        let mut queues = Few::new((CpuId(0), Due::End));
        for (cpu, due) in next.iter().filter(|&(cpu, due)| !goes_on(&self.cpus[cpu.index()], due)) {
            queues.push((cpu, due));
        }
        queues.read(|(cpu, _)| self.machine.unshared(cpu).read_ahead(0));
        let (mut tasks, mut timers) = (Few::new(TaskId(0)), Few::new(CpuId(0)));
        let mut expire = Few::new(CpuId(0));
        for (cpu, due) in queues.iter() {
            let own = &self.cpus[cpu.index()];
            match due {
                Due::Interrupt(_) if self.machine.sight().next_timer(cpu) <= own.interrupt_at => {
                    timers.push(cpu);
                    expire.push(cpu);
                }
                Due::Done(..) => {
                    timers.push(cpu);
                    own.task().into_iter().for_each(|task| tasks.push(task));
                }
                _ => {}
            }
        }
        tasks.read(|task| self.read_program(task));
        for hops in 1..=HOPS {
            queues.read(|(cpu, _)| self.machine.unshared(cpu).read_ahead(hops));
            timers.read(|cpu| self.machine.unshared(cpu).read_timers(hops));
        }
        let mut woken = Few::new(TaskId(0));
        for cpu in expire.iter() {
            let token = self.machine.unshared(cpu).first_timer();
            token.into_iter().for_each(|token| woken.push(TaskId(token.0)));
        }
        woken.read(|task| self.read_program(task));
        woken.read(|task| {
            let parked = self.tasks[task.index()].parked.as_ref();
            parked.map_or(0, |task| task.read_ahead())
        });
    }

    /// Reads the part of a task's program that its next step needs.
    fn read_program(&self, task: TaskId) -> u64 {
        let program = &self.tasks[task.index()];
        program.steps.at.0
            ^ u64::from(program.spec.instances)
            ^ program.wakes.len() as u64
            ^ program.attr.slack.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Options;
    use runyard_engine::event::Event;
    use runyard_workload::{Overrides, parse};
    use std::cell::RefCell;

    #[test]
    fn reading_ahead_changes_nothing() {
        let text = r#"{
            "machine": {"cpus": 4, "topology": "2x2"},
            "tasks": {
                "hog": {"instance": 3, "run": 5000},
                "tick": {"instance": 5, "timer": {"ref": "unique", "period": 3000}, "run": {"uniform": [200, 900]}},
                "rt": {"instance": 3, "policy": "SCHED_FIFO", "run": {"exponential": 400}, "sleep": 1500},
                "parent": {"fork": "child", "sleep": 4000},
                "child": {"instance": 0, "loop": 1, "run": 2500},
            },
            "timeline": [{"at": 200000, "cpu": 3, "online": false}, {"at": 300000, "cpu": 3, "online": true}],
            "global": {"duration": 1},
        }"#;
        let scenario = parse("-", text, &Overrides::default()).unwrap().scenario;
        let events = |reads_ahead| {
            let events = RefCell::new(Vec::new());
            let options = Options { ..Options::default() };
            let mut sim =
                Sim::new(&scenario, options, |event: &Event| events.borrow_mut().push(*event));
            sim.as_mut().unwrap().reads_ahead = reads_ahead;
            sim.unwrap().run();
            events.into_inner()
        };
        let events = [false, true].map(events);
        assert!(events[0].len() > 10_000 && events[0] == events[1]);
    }
}
