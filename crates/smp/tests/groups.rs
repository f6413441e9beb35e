//! Task groups that are added and removed while a machine runs, and their limits.
#![cfg(not(any(loom, shuttle)))]

use runyard_engine::attr::{Attr, GroupId, Weight};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::limits::Limit;
use runyard_engine::run_queue::{Meter, Prev, Switch};
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Change, Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use runyard_smp::control::Control;
use runyard_smp::groups::TooManyGroups;
use runyard_smp::machine::{Effects, Machine, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Effects that ignore kicks, since the next turn serves them.
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
    /// Returns a machine with room for two groups.
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

    /// Runs for so many milliseconds, with all interrupts in time.
    fn run(&mut self, millis: u64) {
        let end = self.now + Nanos::from_millis(millis);
        self.switch(Prev::Preempted);
        while let Some(at) = self.machine.sight().next_expiry(CPU).filter(|&at| at <= end) {
            self.now = self.now.max(at);
            while self.machine.expire(self.now, CPU, Walk::Busy, &mut Deaf).is_some() {}
            self.switch(Prev::Preempted);
            self.machine.check();
        }
        self.now = end;
    }

    /// Returns the CPU time in milliseconds that a group with a limit has used.
    fn used(&self, group: GroupId) -> u64 {
        let on = self.machine.cpu(CPU).usage(self.now, group);
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
    assert!(yard.machine.groups().has_children(web));
    yard.spawn(1, api);
    yard.run(1_000);
    assert_eq!(yard.used(web), 100, "its child is in it");
    assert_eq!(yard.machine.usage(yard.now, web).nr_throttled, 10);
    yard.machine.set_limit(yard.now, web, None, &mut Deaf);
    assert_eq!(yard.machine.groups().limit(web), None);
    yard.run(100);
}

/// A CPU that ran until a moment and has been stalled since, because its process was stopped.
#[derive(Debug)]
struct Stopped {
    at: Time,
    asked: AtomicU64,
}

impl Meter for Stopped {
    fn used(&self, _: CpuId, now: Time) -> Nanos {
        let at = now.min(self.at).0;
        Nanos(at - self.asked.swap(at, Ordering::Relaxed))
    }
}

/// Before the fix, the group had used a second.
#[test]
fn a_group_does_not_pay_while_its_cpu_stands_still() {
    let mut yard = Yard::new();
    let web = yard.machine.add_group(yard.now, group(GroupId::ROOT, Some(50))).unwrap();
    let meter =
        Stopped { at: yard.now + Nanos::from_millis(10), asked: AtomicU64::new(yard.now.0) };
    yard.machine.charge_by(&(Arc::new(meter) as Arc<dyn Meter>));
    yard.spawn(0, web);
    yard.run(10);
    yard.now = yard.now + Nanos::from_millis(1_000);
    yard.run(0);
    assert_eq!((yard.used(web), yard.machine.usage(yard.now, web).nr_throttled), (10, 0));
}

/// The CPU time that tasks used without being picked counts for the group and for those above it.
#[test]
fn a_group_pays_for_what_it_used_without_being_picked() {
    let mut yard = Yard::new();
    let web = yard.machine.add_group(yard.now, group(GroupId::ROOT, Some(50))).unwrap();
    let api = yard.machine.add_group(yard.now, group(web, None)).unwrap();
    yard.spawn(0, api);
    yard.run(10);
    let ms = Nanos::from_millis;
    assert!(!yard.machine.cpu(CPU).charge_unpicked(yard.now, api, ms(20)));
    assert_eq!(yard.used(web), 30);
    yard.run(70);
    assert_eq!(yard.used(web), 50, "the rest of the period's budget");
    assert!(
        yard.machine.cpu(CPU).charge_unpicked(yard.now, api, ms(70)),
        "a debt of more than a period"
    );
    yard.run(900);
    yard.machine.check();
    assert_eq!(yard.used(web), 500, "as much as ten periods have");
    assert!(
        !yard.machine.cpu(CPU).charge_unpicked(yard.now, GroupId::ROOT, ms(1)),
        "it has no limit"
    );
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
    // The task leaves the group while the group is throttled.
    yard.run(55);
    let change = Change { group: Some(second), ..Change::default() };
    yard.machine.change(yard.now, &*task, change, &mut Deaf);
    yard.machine.remove_group(yard.now, first, &mut Deaf);
    yard.machine.check();
    yard.run(50);
    let again = yard.machine.add_group(yard.now, group(second, Some(20))).unwrap();
    assert_eq!(again, first);
    yard.spawn(1, again);
    yard.run(100);
    assert_eq!(yard.used(again), 20);
}

/// The account holds with and without a limit, and includes removed groups below.
#[test]
fn every_group_has_an_account() {
    let mut yard = Yard::new();
    let web = yard.machine.add_group(yard.now, group(GroupId::ROOT, None)).unwrap();
    let api = yard.machine.add_group(yard.now, group(web, None)).unwrap();
    let [root, task] = [GroupId::ROOT, api].map(|group| yard.spawn(group.0, group));
    yard.run(100);
    let millis = |used: Nanos| used.0 / 1_000_000;
    let used_in =
        |yard: &Yard, group| millis(yard.machine.used_in(yard.now, group, CPU, &mut Deaf));
    let used_by =
        |yard: &Yard, task: &Control| yard.machine.used_by(yard.now, task, &mut Deaf).map(millis);
    let used = used_by(&yard, &task).unwrap();
    assert!((40..=60).contains(&used), "{used}");
    assert!(
        (99..=100).contains(&(used + used_by(&yard, &root).unwrap())),
        "the last moment counts"
    );
    assert_eq!((used_in(&yard, web), used_in(&yard, api)), (used, used));
    let elsewhere = Change { group: Some(GroupId::ROOT), ..Change::default() };
    yard.machine.change(yard.now, &*task, elsewhere, &mut Deaf);
    yard.machine.cpu(CPU).charge_unpicked(yard.now, api, Nanos::from_millis(7));
    yard.run(10);
    assert_eq!(used_in(&yard, api), used + 7, "its later use is not the group's");
    yard.machine.remove_group(yard.now, api, &mut Deaf);
    assert_eq!(used_in(&yard, web), used + 7);
    let again = yard.machine.add_group(yard.now, group(GroupId::ROOT, None)).unwrap();
    assert_eq!((again, used_in(&yard, again)), (api, 0));
    assert_eq!(used_in(&yard, web), used + 7);
    yard.machine.check();
}

/// A host may learn that a task has left a group after the group was removed.
#[test]
fn a_group_that_is_gone_pays_for_nothing() {
    let mut yard = Yard::new();
    let web = yard.machine.add_group(yard.now, group(GroupId::ROOT, Some(50))).unwrap();
    let api = yard.machine.add_group(yard.now, group(web, None)).unwrap();
    yard.machine.remove_group(yard.now, api, &mut Deaf);
    let late = |yard: &Yard| yard.machine.cpu(CPU).charge_unpicked(yard.now, api, Nanos(1));
    assert!(!late(&yard));
    assert_eq!(yard.machine.used_in(yard.now, web, CPU, &mut Deaf), Nanos::ZERO);
    let again = yard.machine.add_group(yard.now, group(web, None)).unwrap();
    assert_eq!(again, api);
    assert_eq!(yard.machine.used_in(yard.now, again, CPU, &mut Deaf), Nanos::ZERO);
    yard.run(10);
    yard.machine.check();
}

/// One thread charges a group repeatedly for unpicked use, while another removes it.
#[test]
fn who_charges_a_group_and_who_removes_it_agree() {
    const CHARGES: u32 = 20_000;
    let yard = Yard::new();
    let (machine, now) = (&yard.machine, yard.now);
    let web = machine.add_group(now, group(GroupId::ROOT, None)).unwrap();
    let api = machine.add_group(now, group(web, None)).unwrap();
    machine.remove_group(now, api, &mut Deaf);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CHARGES {
                machine.cpu(CPU).charge_unpicked(now, api, Nanos(1));
                machine.used_in(now, web, CPU, &mut Deaf);
            }
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            assert_eq!(machine.add_group(now, group(web, None)), Ok(api));
            machine.remove_group(now, api, &mut Deaf);
        }
    });
    machine.check();
}

#[test]
fn a_group_has_another_weight_at_once() {
    let mut yard = Yard::new();
    let [a, b] =
        [(), ()].map(|()| yard.machine.add_group(yard.now, group(GroupId::ROOT, None)).unwrap());
    yard.spawn(1, a);
    yard.spawn(2, b);
    let share = |yard: &mut Yard| {
        let used = |yard: &Yard| {
            [a, b].map(|group| yard.machine.used_in(yard.now, group, CPU, &mut Deaf).0)
        };
        let before = used(yard);
        yard.run(1_000);
        let after = used(yard);
        (after[0] - before[0]) * 100 / (after[0] + after[1] - before[0] - before[1])
    };
    let even = share(&mut yard);
    yard.machine.set_weight(yard.now, a, Weight::new(3 * 1_024).unwrap(), &mut Deaf);
    yard.machine.check();
    let uneven = share(&mut yard);
    assert!((48..=52).contains(&even) && (73..=77).contains(&uneven), "{even} {uneven}");
}

#[test]
#[should_panic(expected = "is a leaf")]
fn a_group_with_children_stays() {
    let yard = Yard::new();
    let first = yard.machine.add_group(yard.now, group(GroupId::ROOT, None)).unwrap();
    yard.machine.add_group(yard.now, group(first, None)).unwrap();
    yard.machine.remove_group(yard.now, first, &mut Deaf);
}
