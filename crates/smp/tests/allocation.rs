//! With enough room, the hot calls do not allocate. A preempted task may hold the allocator's lock, and a scheduler
//! that waited for it would wait for ever.
#![cfg(not(any(loom, shuttle)))]

use allocation_counter::measure;
use runyard_engine::attr::{Attr, Cookie, GroupId, Nice, Policy, RtPrio};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::limits::Limit;
use runyard_engine::run_queue::{Prev, Switch};
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use runyard_smp::control::Control;
use runyard_smp::machine::{Effects, Machine, Moving, TaskOf, Work};
use std::sync::Arc;

const CPUS: usize = 4;
const TASKS: u32 = 24;

/// Effects that serve no kick, since each CPU has its turn soon, and that count the migrated tasks.
#[derive(Default)]
struct Carrier {
    carried: usize,
}

impl Effects<Work<()>> for Carrier {
    fn kick(&mut self, _: CpuId) {}

    fn carry(&mut self, moving: Moving<Work<()>>) -> Option<Moving<Work<()>>> {
        self.carried += 1;
        Some(moving)
    }
}

/// A machine with tasks of every policy, inside and outside of groups, and its host.
struct Bench {
    machine: Machine<Work<()>>,
    now: Time,
    running: [Option<Work<()>>; CPUS],
    sleepers: Vec<TaskOf<Work<()>>>,
    fx: Carrier,
}

impl Bench {
    fn new() -> Bench {
        Bench::of(Config::new(Topology::new(2, 2, 1).unwrap()))
    }

    fn of(config: Config) -> Bench {
        Bench::with_room(config, 2 * TASKS as usize)
    }

    fn with_room(config: Config, room: usize) -> Bench {
        let (runtime, period) = (Nanos::from_millis(9), Nanos::from_millis(10));
        let limit = Limit::new(runtime, period, Nanos::ZERO, false).unwrap();
        let limited = GroupSpec { limit: Some(limit), ..GroupSpec::ROOT };
        let third = GroupSpec { cookie: Cookie::new(3), ..GroupSpec::ROOT };
        let groups = [GroupSpec::ROOT, limited, third];
        let machine = Machine::new(config, &groups).unwrap();
        let sleepers = (0..TASKS).map(task).collect();
        machine.reserve(room);
        let (now, fx) = (Time(1), Carrier::default());
        Bench { machine, now, running: [const { None }; CPUS], sleepers, fx }
    }

    fn wake(&mut self) {
        if let Some(task) = self.sleepers.pop() {
            silently("wake", || self.machine.wake(self.now, task, None, &mut self.fx));
        }
    }

    fn schedule(&mut self, cpu: usize, block: bool) {
        let prev = match self.running[cpu].take() {
            None => Prev::Idle,
            Some(work) if block => Prev::Blocked(work),
            Some(work) => Prev::Yielded(work),
        };
        let at = CpuId::at(cpu);
        let Switch { next, released } =
            silently("schedule", || self.machine.schedule(self.now, at, prev, &mut self.fx));
        self.running[cpu] = next.map(|(_, work)| work);
        if let Some((task, _)) = released {
            self.sleepers.insert(0, task);
        }
    }

    fn expire(&mut self, cpu: usize) {
        let at = CpuId::at(cpu);
        while silently("expire", || self.machine.expire(self.now, at, Walk::Idle, &mut self.fx))
            .is_some()
        {}
    }
}

fn task(id: u32) -> TaskOf<Work<()>> {
    let policy = match id % 4 {
        0 => Policy::Fifo(RtPrio::new(i64::from(id) + 1).unwrap()),
        1 => Policy::RoundRobin(RtPrio::new(i64::from(id) + 1).unwrap()),
        2 => Policy::Normal(Nice::default()),
        _ => Policy::Idle,
    };
    let affinity = if id.is_multiple_of(3) { CpuSet::only(CpuId(1)) } else { CpuSet::first(CPUS) };
    let (group, cookie) = (GroupId(id % 3), Cookie::new(id % 5));
    let attr = Attr { policy, group, cookie, ..Attr::normal(affinity) };
    let work = Work { control: Arc::new(Control::default()), work: () };
    Task::new(TaskId(id.into()), attr, work)
}

fn silently<T>(what: &str, call: impl FnOnce() -> T) -> T {
    let mut result = None;
    let made = measure(|| result = Some(call()));
    assert_eq!(made.count_total, 0, "{what} allocates");
    result.expect("it was called")
}

#[test]
fn the_hot_calls_allocate_nothing() {
    play(Bench::new());
}

#[test]
fn nor_do_they_where_threads_of_a_core_decide_together() {
    let topology = Topology::new(1, 2, 2).unwrap();
    for tickless in [false, true] {
        play(Bench::of(Config { cookies: true, tickless, ..Config::new(topology) }));
    }
}

/// Memory that was allocated before makes the room.
#[test]
fn room_for_more_tasks_is_room_for_their_cookies() {
    let config = Config { cookies: true, ..Config::new(Topology::new(1, 2, 2).unwrap()) };
    let bench = Bench::with_room(config, 3);
    for cpu in CpuSet::first(CPUS).iter() {
        let mut room = bench.machine.room(2 * TASKS as usize);
        silently("reserve", || bench.machine.cpu(cpu).reserve_in(&mut room));
    }
    play(bench);
}

fn play(mut bench: Bench) {
    // Each CPU takes turns at its own pace. Sleeps and wake-ups have other periods, so tasks are pushed, pulled and
    // balanced.
    let mut forced = 0;
    for turn in 0..20_000 {
        bench.now = bench.now + Nanos::from_micros(130);
        if turn % 3 != 0 {
            bench.wake();
        }
        bench.schedule(turn % 7 % CPUS, turn % 5 < 2);
        bench.expire(turn % CPUS);
        forced += usize::from(bench.machine.cpu(CpuId::at(turn % CPUS)).forced_idle().is_some());
    }
    bench.machine.check();
    let usage = bench.machine.usage(bench.now, GroupId(1));
    assert!(usage.nr_throttled > 30, "{usage:?}");
    assert_eq!(forced > 100, bench.machine.config().cookies, "{forced}");
    assert!(bench.fx.carried > 1_000, "{} tasks changed CPU", bench.fx.carried);
}
