//! Benchmarks of smol's `async-executor` (`benches/executor.rs`) with its parameters. Tasks are spawned within
//! `block_on`, or by a task, and awaited by their handles.
//!
//! The channels are those of `tokio::sync`, on both sides. `spawn_batch` is left out because neither runtime can spawn
//! many tasks in one call.
//!
//! Like those of the [sibling module](super::tasks), each function returns the number of operations that the tasks
//! report.

use super::host::Host;
use std::pin::Pin;
use tokio::sync::mpsc;

/// Spawns one task within `block_on` and awaits it, `times` times. An operation is such a `block_on`.
pub(super) fn spawn_one<H: Host>(host: &H, times: usize) -> usize {
    let once = |_| host.block_on(async { H::spawn(async { 1 }).await.expect("nothing panics") });
    (0..times).map(once).sum()
}

/// Spawns, from a task, `tasks` tasks that are ready at once, and awaits them. An operation is a task.
pub(super) fn spawn_many_light<H: Host>(host: &H, tasks: usize) -> usize {
    let starting = host.spawn_from_outside(async move {
        let tasks: Vec<_> = (0..tasks).map(|_| H::spawn(async { 1 })).collect();
        sum_of::<H>(tasks).await
    });
    host.block_on(starting).expect("nothing panics")
}

/// Spawns `tasks` tasks. Each spawns a task and awaits it, and so on down to `depth`. An operation is a task.
pub(super) fn spawn_recursively<H: Host>(host: &H, tasks: usize, depth: usize) -> usize {
    let chain = move || async move { 1 + descend::<H>(depth).await };
    host.block_on(async {
        let tasks: Vec<_> = (0..tasks).map(|_| H::spawn(chain())).collect();
        sum_of::<H>(tasks).await
    })
}

/// Spawns a chain of `depth` tasks and returns the number of tasks below the calling one.
fn descend<H: Host>(depth: usize) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move {
        if depth == 0 {
            return 0;
        }
        let below = H::spawn(async move { descend::<H>(depth - 1).await });
        1 + below.await.expect("nothing panics")
    })
}

/// Spawns `tasks` tasks that yield `steps` times each, and awaits them. An operation is a yield.
pub(super) fn yield_now<H: Host>(host: &H, tasks: usize, steps: usize) -> usize {
    let yields = move || async move {
        for _ in 0..steps {
            H::yield_now().await;
        }
        steps
    };
    host.block_on(async {
        let tasks: Vec<_> = (0..tasks).map(|_| H::spawn(yields())).collect();
        sum_of::<H>(tasks).await
    })
}

/// Links `tasks` tasks and the caller in a ring by channels of capacity one, and sends a message round it `steps`
/// times. An operation is a message that a task passes on.
pub(super) fn channels<H: Host>(host: &H, tasks: usize, steps: usize) -> usize {
    host.block_on(async {
        let (first, mut last) = mpsc::channel(1);
        let mut passing = Vec::with_capacity(tasks);
        for _ in 0..tasks {
            let (to, next) = mpsc::channel(1);
            let mut from = std::mem::replace(&mut last, next);
            passing.push(H::spawn(async move {
                let mut passed = 0;
                while passed < steps {
                    from.recv().await.expect("a task or the caller sends");
                    to.send(()).await.expect("a task or the caller receives");
                    passed += 1;
                }
                passed
            }));
        }
        for _ in 0..steps {
            first.send(()).await.expect("the first task receives");
            last.recv().await.expect("the last task sends");
        }
        sum_of::<H>(passing).await
    })
}

/// Awaits all tasks and returns the sum of their results.
async fn sum_of<H: Host>(tasks: Vec<H::Join<usize>>) -> usize {
    let mut sum = 0;
    for task in tasks {
        sum += task.await.expect("nothing panics");
    }
    sum
}
