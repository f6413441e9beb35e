//! The attributes that a task inherits from the task that spawns it, as sched(7) specifies for fork.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, workers};
use runyard::{
    JoinSet, Nice, Policy, RtPrio, Runtime, Task, TaskBuilder, spawn, spawn_blocking, yield_now,
};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

fn normal(nice: i64) -> Policy {
    Policy::Normal(Nice::new(nice).unwrap())
}

fn batch(nice: i64) -> Policy {
    Policy::Batch(Nice::new(nice).unwrap())
}

fn fifo(prio: i64) -> Policy {
    Policy::Fifo(RtPrio::new(prio).unwrap())
}

fn round_robin(prio: i64) -> Policy {
    Policy::RoundRobin(RtPrio::new(prio).unwrap())
}

fn policy() -> Policy {
    Task::current().policy()
}

/// Returns the policy of a plain task that is spawned by a task of `builder`.
fn child_of(runtime: &Runtime, builder: TaskBuilder) -> Policy {
    runtime.block_on(async {
        builder.spawn(async { spawn(async { policy() }).await.unwrap() }).await.unwrap()
    })
}

#[test]
fn a_spawned_task_has_the_policy_of_its_spawner() {
    ends(|| {
        let runtime = workers(2);
        for asked in [normal(19), normal(-5), batch(3), Policy::Idle, fifo(7), round_robin(8)] {
            assert_eq!(child_of(&runtime, Task::builder().policy(asked)), asked);
        }
        assert_eq!(child_of(&runtime, Task::builder()), normal(0));
        let outside = runtime.block_on(async { spawn(async { policy() }).await.unwrap() });
        assert_eq!(outside, normal(0), "from outside of tasks");
    });
}

#[test]
fn who_resets_on_fork_passes_on_no_advantage() {
    ends(|| {
        let runtime = workers(2);
        for (asked, left) in [
            (fifo(7), normal(0)),
            (round_robin(8), normal(0)),
            (normal(-5), normal(0)),
            (batch(-5), batch(0)),
            (normal(5), normal(5)),
            (batch(5), batch(5)),
            (Policy::Idle, Policy::Idle),
        ] {
            let builder = Task::builder().policy(asked).reset_on_fork();
            assert_eq!(child_of(&runtime, builder), left, "{asked:?}");
        }
        let grandchild = runtime.block_on(async {
            let resets = Task::builder().fifo(9).reset_on_fork();
            let child = || Task::builder().fifo(8).spawn(async { spawn(async { policy() }).await });
            resets.spawn(async move { child().await.unwrap().unwrap() }).await.unwrap()
        });
        assert_eq!(grandchild, fifo(8), "the flag is not inherited");
    });
}

#[test]
fn a_demoted_handler_does_not_escape_by_any_way_to_spawn() {
    ends(|| {
        let runtime = workers(2);
        runtime.block_on(async {
            let handler = spawn(async {
                Task::current().set_policy(Policy::Idle);
                let deep = spawn(async { spawn(async { policy() }).await.unwrap() });
                let builder = Task::builder().name("named").latency_nice(3);
                let mut set = JoinSet::new();
                set.spawn(async { policy() });
                set.spawn_blocking(policy);
                let mut all = set.join_all().await;
                all.push(spawn_blocking(policy).await.unwrap());
                all.push(deep.await.unwrap());
                all.push(builder.spawn(async { policy() }).await.unwrap());
                all
            });
            assert_eq!(handler.await.unwrap(), [Policy::Idle; 5]);
        });
    });
}

#[test]
fn a_spawned_task_may_ask_for_another_policy() {
    ends(|| {
        workers(2).block_on(async {
            let spawner = Task::builder().policy(Policy::Idle).spawn(async {
                let asks = Task::builder().nice(0).spawn(async { policy() });
                Task::current().set_policy(normal(3));
                let later = spawn(async { policy() });
                (asks.await.unwrap(), later.await.unwrap())
            });
            assert_eq!(spawner.await.unwrap(), (normal(0), normal(3)));
        });
    });
}

/// If there is only one CPU, that is all CPUs.
#[test]
fn cpus_and_group_are_inherited_whether_the_spawner_resets_or_not() {
    ends(|| {
        let runtime = workers(2);
        let tenant = runtime.group("tenant").create().unwrap();
        let all = runtime.block_on(async { spawn(mine()).await.unwrap() }).0;
        async fn mine() -> (Vec<usize>, Option<String>, Duration) {
            let task = Task::current();
            (task.affinity(), task.group().map(|group| group.path()), task.slack())
        }
        let last = *all.last().unwrap();
        let slack = Duration::from_millis(3);
        let asks = || Task::builder().affinity([last]).group(&tenant).slack(slack);
        let expected = (vec![last], Some("/tenant".to_owned()), slack);
        runtime.block_on(async {
            for asks in [asks(), asks().reset_on_fork()] {
                let child = asks.spawn(async { spawn(mine()).await.unwrap() });
                assert_eq!(child.await.unwrap(), expected);
            }
            let every = all.clone();
            let moved = asks().spawn(async move {
                Task::current().set_affinity(every.iter().copied());
                Task::current().set_group(None);
                yield_now().await;
                let own = Task::builder().affinity([every[0]]).spawn(mine());
                (spawn(mine()).await.unwrap(), own.await.unwrap().0)
            });
            assert_eq!(moved.await.unwrap(), ((all.clone(), None, slack), vec![all[0]]));
        });
    });
}

#[test]
fn a_task_of_another_runtime_begins_with_the_defaults() {
    ends(|| {
        let (runtime, other) = (workers(1), workers(1));
        let task = async move {
            let task = other.spawn(async { policy() });
            let found = task.await.unwrap();
            std::thread::spawn(move || drop(other)).join().unwrap();
            found
        };
        let found = runtime.block_on(async { Task::builder().fifo(3).spawn(task).await.unwrap() });
        assert_eq!(found, normal(0));
    });
}
