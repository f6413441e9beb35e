//! Tasks taken from a stalled CPU.

use super::*;

/// Lets CPU 0 run a task that never leaves. Other tasks wait beside it, as balancing is off. CPU 1 is idle.
fn standing() -> Stage {
    let mut stage = Stage::new(2, &[Feature::LoadBalance, Feature::RtPush, Feature::RtPull]);
    stage.spawn(fifo(90), &[0]);
    stage
}

impl Stage {
    fn relieve(&mut self, from: u16, to: u16) -> bool {
        let moved = self.world.relieve(CpuId(from), CpuId(to));
        self.world.settle();
        moved
    }
}

#[test]
fn what_waits_where_nobody_runs_goes_to_who_asks_real_time_tasks_first() {
    let mut stage = standing();
    let fair = stage.spawn_on_first(normal(), &[0, 1]);
    let (less, more) =
        (stage.spawn_on_first(fifo(10), &[0, 1]), stage.spawn_on_first(fifo(20), &[0, 1]));
    assert!(stage.relieve(0, 1));
    assert_eq!(stage.runs(1), Some(more), "the most important");
    assert!(!stage.relieve(0, 1), "one that would not run is not taken");
    stage.leave(1, How::Blocks);
    for next in [less, fair] {
        assert!(stage.relieve(0, 1));
        assert_eq!(stage.runs(1), Some(next));
        stage.leave(1, How::Blocks);
    }
    assert!(!stage.relieve(0, 1), "no more");
}

#[test]
fn a_task_that_was_woken_onto_an_idle_cpu_that_stands_still_is_taken() {
    for policy in [normal(), fifo(5)] {
        let mut stage = Stage::new(2, &[]);
        let sleeper = stage.sleeper(policy, &[0, 1]);
        assert_eq!(stage.wake_by(sleeper, By::Nobody), Some(0));
        assert_eq!(stage.runs(0), None, "it was asked to schedule, and did not yet");
        assert!(stage.world.relieve(CpuId(0), CpuId(1)));
        stage.world.settle();
        assert_eq!((stage.runs(0), stage.runs(1)), (None, Some(sleeper)));
    }
}

#[test]
fn who_may_not_run_there_and_who_runs_are_left_where_they_are() {
    let mut stage = standing();
    let pinned = stage.spawn(normal(), &[0]);
    let rt = stage.spawn(fifo(5), &[0]);
    assert!(!stage.relieve(0, 1));
    assert_eq!((stage.place(pinned), stage.place(rt)), (Some(0), Some(0)));
    let mut stage = Stage::new(2, &[]);
    let alone = stage.spawn_on_first(normal(), &[0, 1]);
    assert!(!stage.relieve(0, 1));
    assert_eq!(stage.runs(0), Some(alone));
}

#[test]
fn nobody_is_brought_to_a_cpu_out_of_service() {
    let mut stage = standing();
    let fair = stage.spawn_on_first(normal(), &[0, 1]);
    stage.hotplug(1);
    assert!(!stage.relieve(0, 1));
    assert_eq!(stage.place(fair), Some(0));
}

/// CPU 0 was asked to run a 50, and stands still. CPU 1 runs a 90, and a 40 that may use CPU 0 begins to wait there.
/// Then CPU 2 takes the 50. CPU 0 looks for tasks when it comes, also if a less important one was sent there meanwhile.
#[test]
fn a_cpu_that_was_relieved_of_its_next_task_pulls_when_it_comes() {
    for sent in [false, true] {
        let mut stage = Stage::new(3, &[]);
        let less = stage.sleeper(fifo(10), &[0]);
        let next = stage.sleeper(fifo(50), &[0, 2]);
        let waiting = stage.sleeper(fifo(40), &[1, 0]);
        stage.spawn(fifo(90), &[1]);
        assert_eq!(stage.wake_by(next, By::Nobody), Some(0));
        assert_eq!(stage.wake_by(waiting, By::Nobody), Some(1), "it would wait on either CPU");
        assert!(stage.world.relieve(CpuId(0), CpuId(2)));
        assert_eq!(stage.place(waiting), Some(1), "it is not sent where nobody runs");
        if sent {
            assert_eq!(stage.wake_by(less, By::Nobody), Some(0));
        }
        stage.world.settle();
        assert_eq!((stage.runs(0), stage.runs(2)), (Some(waiting), Some(next)));
    }
}
