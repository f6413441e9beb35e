//! New tasks that wait with the host, in front of the queue.

use crate::world::Tree;
use runyard_engine::attr::{Attr, LatencyNice};
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Begun, Enqueue, Prev, RunQueue};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time, VTime};
use runyard_engine::topology::Topology;
use std::sync::Arc;

const MS: Nanos = Nanos::from_millis(1);
const BEYOND: Nanos = Nanos::from_micros(100);

const RUNS: TaskId = TaskId(0);
const NEWCOMER: TaskId = TaskId(1);
const SENSITIVE: TaskId = TaskId(2);

fn of(id: TaskId, latency_nice: LatencyNice) -> Box<Task<TaskId>> {
    Task::new(id, Attr { latency_nice, ..Attr::normal([CpuId(0)].into_iter().collect()) }, id)
}

fn plain(id: TaskId) -> Box<Task<TaskId>> {
    of(id, LatencyNice::ZERO)
}

/// Returns a queue with a running task, a new task that waits with the host, and its place.
fn with_newcomer() -> (RunQueue<TaskId, Tree>, Box<Task<TaskId>>, VTime) {
    let config = Arc::new(Config::new(Topology::flat(2).unwrap()));
    let mut rq = RunQueue::new(CpuId(0), config, Arc::new(Tree::default()));
    let _ = rq.offer(Time(1), plain(RUNS), Enqueue::Woken).unwrap();
    let _ = rq.schedule(Time(1), Prev::Idle);
    let mut newcomer = plain(NEWCOMER);
    let place =
        rq.queues().start().unwrap().place(&mut newcomer, rq.queues().clock(), BEYOND).unwrap();
    rq.classes_mut().set_outside(Some(place));
    (rq, newcomer, place)
}

/// Lets the running task continue for 1 ms; then a sensitive task starts.
fn after_a_wait() -> (RunQueue<TaskId, Tree>, Box<Task<TaskId>>) {
    let (mut rq, newcomer, place) = with_newcomer();
    let _ = rq.offer(Time(1) + MS, of(SENSITIVE, LatencyNice::MIN), Enqueue::Woken).unwrap();
    assert_eq!(rq.queues().clock(), place, "the clock waits for the newcomer");
    (rq, newcomer)
}

#[test]
fn a_sensitive_task_goes_before_a_newcomer_that_waited_outside() {
    let (mut rq, newcomer) = after_a_wait();
    let now = Time(1) + MS;
    rq.classes_mut().set_outside(None);
    let _ = rq.offer(now, newcomer, Enqueue::Moved).unwrap();
    let switch = rq.schedule(now, Prev::Preempted(RUNS));
    assert_eq!(switch.next, Some((SENSITIVE, SENSITIVE)));
}

/// A task that `could_go_on` reported must be lent, even if it is far from a clock that waits for
/// the new task.
#[test]
fn who_waits_behind_a_newcomer_is_lent_as_the_running_task_ends() {
    let (mut rq, ..) = with_newcomer();
    let waits = TaskId(3);
    let _ = rq.offer(Time(1), plain(waits), Enqueue::Woken).unwrap();
    let now = Time(1) + MS;
    assert!(rq.at(now).could_go_on(false, |_| true));
    let stand_in = Task::stand_in(TaskId(u64::MAX), CpuId(0));
    let Begun::Open(_, terms) = rq.at(now).begin_batch(Prev::Exited, stand_in) else {
        panic!("a task can continue");
    };
    let mut lent = Vec::new();
    rq.classes_mut().lend(&terms, 8, |_| true, |task| lent.push(task.id));
    assert_eq!(lent, [waits]);
}

#[test]
fn a_clock_does_not_pass_a_newcomer_that_comes() {
    let (mut rq, newcomer, place) = with_newcomer();
    rq.classes_mut().set_outside(None);
    let _ = rq.offer(Time(1) + MS, newcomer, Enqueue::Moved).unwrap();
    assert_eq!(rq.queues().clock(), place);
}

#[test]
fn a_clock_goes_on_if_nobody_waits_outside_any_more() {
    let (mut rq, _) = after_a_wait();
    let before = rq.queues().clock();
    rq.classes_mut().set_outside(None);
    rq.charge_until(Time(1) + MS + BEYOND);
    assert!(rq.queues().clock() > before);
}
