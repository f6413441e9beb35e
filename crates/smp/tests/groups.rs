//! Task groups that come and go while a machine runs, and their limits.
#![cfg(not(any(loom, shuttle)))]

use runyard_engine::attr::{Attr, GroupId, Weight};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::limits::Limit;
use runyard_engine::run_queue::{Prev, Switch};
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Change, Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use runyard_smp::control::Control;
use runyard_smp::groups::TooManyGroups;
use runyard_smp::machine::{Effects, Machine, Work};
use std::sync::Arc;

/// Kicks are served by the next turn.
struct Deaf;

impl<W> Effects<W> for Deaf {
    fn kick(&mut self, _: CpuId) {}
}

const CPU: CpuId = CpuId(0);

/// One CPU on which tasks of several groups never sleep.
struct Yard {
    machine: Machine<Work<()>>,
    now: Time,
    running: Option<(TaskId, Work<()>)>,
}

impl Yard {
    /// Room for two groups.
    fn new() -> Yard {
        let config = Config::new(Topology::flat(1).unwrap());
        let machine = Machine::with_room(config, &[GroupSpec::ROOT], 2).unwrap();
        Yard { machine, now: Time(1), running: None }
    }

    fn spawn(&self, id: u32, group: GroupId) -> Arc<Control> {
        let control = Arc::new(Control::default());
        let work = Work { control: control.clone(), work: () };
        let attr = Attr { group, ..Attr::normal(CpuSet::only(CPU)) };
        let task = Task::new(TaskId(id.into()), attr, work);
        self.machine.spawn(self.now, task, None, &mut Deaf);
        control
    }

    fn switch(&mut self, prev: impl FnOnce(Work<()>) -> Prev<Work<()>>) {
        let prev = self.running.take().map_or(Prev::Idle, |(_, work)| prev(work));
        let Switch { next, .. } = self.machine.schedule(self.now, CPU, prev, &mut Deaf);
        self.running = next;
    }

    /// For so many milliseconds, all interrupts in time.
    fn run(&mut self, millis: u64) {
        let end = self.now + Nanos::from_millis(millis);
        self.switch(Prev::Preempted);
        while let Some(at) = self.machine.next_expiry(CPU).filter(|&at| at <= end) {
            self.now = self.now.max(at);
            while self.machine.expire(self.now, CPU, Walk::Busy, &mut Deaf).is_some() {}
            self.switch(Prev::Preempted);
            self.machine.check();
        }
        self.now = end;
    }

    /// What a group with a limit used so far, in milliseconds.
    fn used(&self, group: GroupId) -> u64 {
        let on = self.machine.usage_on(self.now, group, CPU);
        on.map_or(0, |usage| usage.used.0) / 1_000_000
    }
}

fn group(parent: GroupId, millis: Option<u64>) -> GroupSpec {
    let limit = |millis| {
        let runtime = Nanos::from_millis(millis);
        Limit::new(runtime, Limit::PERIOD, Nanos::ZERO, false).unwrap()
    };
    GroupSpec { parent, limit: millis.map(limit), ..GroupSpec::ROOT }
}

#[test]
fn a_group_that_is_added_is_held_to_its_limit() {
    let mut yard = Yard::new();
    yard.spawn(0, GroupId::ROOT);
    yard.run(50);
    let web = yard.machine.add_group(yard.now, group(GroupId::ROOT, Some(10))).unwrap();
    let api = yard.machine.add_group(yard.now, group(web, None)).unwrap();
    assert!(yard.machine.has_children(web));
    yard.spawn(1, api);
    yard.run(1_000);
    assert_eq!(yard.used(web), 100, "its child is in it");
    assert_eq!(yard.machine.usage(yard.now, web).nr_throttled, 10);
    yard.machine.set_limit(yard.now, web, None, &mut Deaf);
    assert_eq!(yard.machine.limit(web), None);
    yard.run(100);
}

#[test]
fn the_place_of_a_group_that_is_removed_is_used_again() {
    let mut yard = Yard::new();
    let spec = GroupSpec { weight: Weight::new(100).unwrap(), ..group(GroupId::ROOT, Some(10)) };
    let first = yard.machine.add_group(yard.now, spec).unwrap();
    let second = yard.machine.add_group(yard.now, group(GroupId::ROOT, None)).unwrap();
    let third = yard.machine.add_group(yard.now, group(GroupId::ROOT, None));
    assert_eq!(third, Err(TooManyGroups));
    let task = yard.spawn(0, first);
    // In the middle of being throttled it goes elsewhere.
    yard.run(55);
    let change = Change { group: Some(second), ..Change::default() };
    yard.machine.change(yard.now, &task, change, &mut Deaf);
    yard.machine.remove_group(yard.now, first, &mut Deaf);
    yard.machine.check();
    yard.run(50);
    let again = yard.machine.add_group(yard.now, group(second, Some(20))).unwrap();
    assert_eq!(again, first);
    yard.spawn(1, again);
    yard.run(100);
    assert_eq!(yard.used(again), 20);
}

#[test]
#[should_panic(expected = "is a leaf")]
fn a_group_with_children_stays() {
    let yard = Yard::new();
    let first = yard.machine.add_group(yard.now, group(GroupId::ROOT, None)).unwrap();
    yard.machine.add_group(yard.now, group(first, None)).unwrap();
    yard.machine.remove_group(yard.now, first, &mut Deaf);
}
