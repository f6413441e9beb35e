//! Real-time budgets on a machine with core scheduling: what one thread of a core decided for another does not hold
//! once an inherited priority comes or goes there.

use super::*;
use runyard_engine::run_queue::Importance;

/// A machine of two cores with two threads each. Real-time tasks have 10 ms of CPU time on each CPU.
struct Cores {
    stage: Stage,
}

impl Cores {
    fn new() -> Cores {
        let mut config = Config::new(Topology::new(1, 2, 2).unwrap());
        (config.rt_runtime, config.rt_period) =
            (Some(Nanos::from_millis(10)), Nanos::from_millis(1_000));
        config.cookies = true;
        Cores { stage: Stage { world: World::with(config), tasks: 0 } }
    }

    /// Spawns a task with this cookie, which waits or runs on `cpu`.
    fn spawn(&mut self, policy: Policy, cookie: u32, cpu: u16) -> TaskId {
        let task = self.stage.tasks;
        let attr = Attr { policy, cookie: Cookie::new(cookie), ..Attr::normal(cpus(&[cpu])) };
        let world = &mut self.stage.world;
        world.spawn(world.now, attr, CpuId(cpu));
        world.settle();
        self.stage.tasks += 1;
        TaskId(task.into())
    }

    /// Returns a fair task that went to sleep on CPU 0, may run on these CPUs, and inherited this priority then.
    fn holder(&mut self, prio: i64, cookie: u32, affinity: &[u16]) -> TaskId {
        let task = self.spawn(normal(), cookie, 0);
        assert_eq!(self.stage.runs(0), Some(task));
        self.stage.leave(0, How::Blocks);
        self.stage.set_affinity(task, affinity);
        self.stage.change(task, Change { boost: RtPrio::new(prio).into(), ..Change::default() });
        task
    }

    /// Lets a task of priority 5 use the real-time budget of CPU 0.
    fn throttled(&mut self, cookie: u32) -> TaskId {
        let task = self.spawn(fifo(5), cookie, 0);
        self.stage.world.live_for(Nanos::from_millis(15));
        let machine = &self.stage.world.machine;
        let importance = machine.cpu(CpuId(0)).inspect(|rq| rq.classes().load().importance);
        assert_eq!(importance, Importance::Closed, "it is throttled");
        task
    }

    fn forced_idle(&self, cpu: u16) -> bool {
        self.stage.world.machine.cpu(CpuId(cpu)).forced_idle().is_some()
    }
}

/// CPU 1 leaves the core to the fair task of CPU 0. Before CPU 0 has begun it, a task of the same cookie comes there
/// with an inherited priority, so that the most important task of CPU 0 may run again. That task has another cookie.
#[test]
fn a_thread_decides_anew_if_an_inherited_priority_ends_the_throttling_there() {
    let mut cores = Cores::new();
    let holder = cores.holder(3, 2, &[0]);
    let first = cores.throttled(1);
    cores.spawn(normal(), 2, 0);
    cores.spawn(fifo(4), 3, 1);
    assert!(cores.forced_idle(0));
    cores.stage.leave(1, How::Blocks);
    cores.stage.world.wake(cores.stage.world.now, holder, By::Nobody);
    cores.stage.world.settle();
    assert_eq!(cores.stage.runs(0), Some(first));
}

/// CPU 1 leaves the core to the most important task of CPU 0. Before CPU 0 has begun it, the task leaves whose inherited
/// priority prevents the throttling there. So the most important task that may run is on CPU 1.
#[test]
fn a_thread_decides_anew_if_the_last_inherited_priority_there_goes() {
    let mut cores = Cores::new();
    let holder = cores.holder(2, 0, &[0, 2]);
    let first = cores.throttled(1);
    let elsewhere = cores.spawn(fifo(50), 0, 2);
    cores.spawn(normal(), 1, 0);
    let second = cores.spawn(fifo(4), 3, 1);
    cores.spawn(fifo(7), 2, 1);
    let beside = cores.spawn(fifo(3), 2, 0);
    cores.stage.world.wake(cores.stage.world.now, holder, By::Nobody);
    cores.stage.world.settle();
    assert_eq!((cores.stage.runs(0), cores.stage.place(holder)), (Some(beside), Some(0)));
    assert_eq!((cores.stage.place(first), cores.stage.place(second)), (Some(0), Some(1)));
    cores.stage.leave(1, How::Blocks);
    assert_eq!(cores.stage.runs(2), Some(elsewhere));
    cores.stage.leave(2, How::Blocks);
    cores.stage.world.settle();
    assert_eq!((cores.stage.runs(1), cores.stage.runs(2)), (Some(second), Some(holder)));
}
