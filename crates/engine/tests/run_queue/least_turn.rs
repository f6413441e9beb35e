//! A host whose preempted tasks are dear lets fair tasks run on beyond their slices.

use crate::world::Tree;
use runyard_engine::attr::{Attr, LatencyNice, Nice};
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Enqueue, Prev, RunQueue, Switch};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use std::sync::Arc;

const MS: Nanos = Nanos::from_millis(1);
const HOG: TaskId = TaskId(0);
const OTHER: TaskId = TaskId(1);

type Rq = RunQueue<TaskId, Tree>;

fn of(id: TaskId, nice: i64, latency_nice: LatencyNice) -> Box<Task<TaskId>> {
    let mut attr = Attr { latency_nice, ..Attr::normal([CpuId(0)].into_iter().collect()) };
    attr.policy = runyard_engine::attr::Policy::Normal(Nice::new(nice).unwrap());
    Task::new(id, attr, id)
}

fn plain(id: TaskId) -> Box<Task<TaskId>> {
    of(id, 0, LatencyNice::ZERO)
}

/// Returns a queue of a machine with two CPUs, where a slice is 6 ms, whose turns last so many milliseconds at least, and
/// where a hog of this nice value begins at 1 ns.
fn with_hog(least: u64, nice: i64) -> Rq {
    let config = Arc::new(Config::new(Topology::flat(2).unwrap()));
    let mut rq = RunQueue::new(CpuId(0), config, Arc::new(Tree::default()));
    rq.classes_mut().set_least_turn(Nanos::from_millis(least));
    let _ = rq.offer(Time(1), of(HOG, nice, LatencyNice::ZERO), Enqueue::Woken).unwrap();
    let _ = rq.schedule(Time(1), Prev::Idle);
    rq
}

/// Returns the milliseconds that the hog runs beside the other task, which waits from the beginning.
fn turn(mut rq: Rq, other: Box<Task<TaskId>>) -> u64 {
    let _ = rq.offer(Time(1), other, Enqueue::Moved).unwrap();
    for ms in 1..100 {
        let now = Time(1) + Nanos::from_millis(ms);
        while rq.expire(now, Walk::Busy).is_some() {}
        if rq.schedule(now, Prev::Preempted(HOG)).next.is_some_and(|(id, _)| id == OTHER) {
            return ms;
        }
    }
    panic!("{rq}")
}

#[test]
fn a_turn_lasts_its_least_time() {
    assert_eq!(turn(with_hog(0, 0), plain(OTHER)), 7);
    assert_eq!(turn(with_hog(24, 0), plain(OTHER)), 24);
}

#[test]
fn a_light_task_has_a_smaller_part_of_it() {
    assert_eq!(turn(with_hog(24, 5), plain(OTHER)), 8, "335 of 1,024 parts");
}

#[test]
fn a_sensitive_task_waits_no_longer_than_ever() {
    let sensitive = || of(OTHER, 0, LatencyNice::new(-10).unwrap());
    let ever = turn(with_hog(0, 0), sensitive());
    assert_eq!(turn(with_hog(24, 0), sensitive()), ever);
}

/// Returns whether the hog, which has run for 20 ms, loses the CPU to a task that slept for that time, or to a new one
/// that waited with the host.
fn preempts(least: u64, slept: bool) -> bool {
    let (mut rq, mut other, mut since) = (with_hog(least, 0), plain(OTHER), Time(1));
    if slept {
        // It runs once the hog is ahead of it.
        let (_, later) =
            (rq.offer(Time(1), other, Enqueue::Moved).unwrap(), Time(1) + Nanos(30 * MS.0));
        assert_eq!(rq.schedule(later, Prev::Yielded(HOG)).next, Some((OTHER, OTHER)));
        let Switch { next, released } = rq.schedule(later, Prev::Blocked(OTHER));
        (other, since) = (released.unwrap().0, later);
        assert_eq!(next, Some((HOG, HOG)));
    } else {
        let (start, clock) = (rq.queues().start().unwrap(), rq.queues().clock());
        let _ = start.place(&mut other, clock, MS).unwrap();
    }
    let now = since + Nanos(20 * MS.0);
    let _ = rq.offer(now, other, if slept { Enqueue::Woken } else { Enqueue::Moved }).unwrap();
    rq.schedule(now, Prev::Preempted(HOG)).next.is_some_and(|(id, _)| id == OTHER)
}

#[test]
fn a_sleeper_preempts_as_ever_and_a_new_task_does_not() {
    assert!(preempts(0, true) && preempts(24, true));
    assert!(preempts(0, false) && !preempts(24, false));
}
