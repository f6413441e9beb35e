//! Whole programs on the runtime, with each founding mechanism off and on. They have the shapes of the documents'
//! benchmarks, as the task programs of `runyard reproduce --host live` do.
//!
//! | program | operation |
//! |---|---|
//! | `hackbench` | a message of 100 bytes; each sender of a group writes to all its receivers in turn |
//! | `ring` | a token is passed to the next of ten tasks, as in `lat_ctx` |
//! | `build` | one of four jobs starts a compiler, which is polled a few times, and waits for its end |
//! | `users` | the ring beside three tasks that use the mechanism and pass a token of their own, once for eight passes |
//!
//! `off/MECHANISM` is the model without the features of the mechanism's document. With all mechanisms on, the programs
//! leave them `unused`. In `users` the mechanism is `used`, and `off` has the same tasks.
//!
//! An operation's count has all that the process does for it: the program's own code, channels and wakers, polls, and
//! the scheduler. There is no preemption, as in [`crate::runtime`]. How many messages a task finds when it is polled, and
//! where it is polled, depends on the clock. So counts differ between runs, those of hackbench by a tenth and more: take
//! the median of several (`--rounds`).

use crate::overhead::MECHANISMS;
use crate::{Operation, Runner};
use runyard::experiments::{Experiments, Model};
use runyard::time::sleep;
use runyard::{Group, JoinHandle, Limit, Runtime, Task, TaskBuilder, spawn, yield_now};
use runyard_engine::attr::Policy;
use runyard_engine::kernel::Experiment;
use std::hint::black_box;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};

/// The number of workers: the least with which tasks move between CPUs.
const WORKERS: usize = 2;

/// The groups of hackbench, and the senders and receivers of each.
const GROUPS: u64 = 2;
const ENDS: u64 = 4;

/// The room of a pipe: messages.
const ROOM: usize = 20;

/// The tasks of the ring, as processes in the document's first row.
const RING: usize = 10;

/// The jobs of the build, and the polls of a compiler.
const JOBS: u64 = 4;
const POLLS: u32 = 5;

/// The users of a mechanism, and the passes of the ring for each of theirs.
const USERS: usize = 3;
const OF_USERS: u64 = 8;

/// A program: it performs this number of operations and ends.
type Program = fn(&Runtime, u64);

pub(crate) fn operations() -> Vec<Operation> {
    let programs: [(&str, Program); 3] = [
        ("hackbench", |runtime, messages| runtime.block_on(hackbench(messages))),
        ("ring", |runtime, passes| runtime.block_on(ring(passes, RING, Task::builder))),
        ("build", |runtime, files| runtime.block_on(build(files))),
    ];
    let mut operations = Vec::new();
    for (name, program) in programs {
        let unused = move || prepared(Model::default(), program);
        operations.push(Operation::new(format!("programs/{name}/unused"), unused));
        for (mechanism, experiment) in MECHANISMS {
            let off = move || prepared(experiment.before(), program);
            operations.push(Operation::new(format!("programs/{name}/off/{mechanism}"), off));
        }
    }
    for (mechanism, experiment) in MECHANISMS {
        for (side, model) in [("off", experiment.before()), ("used", Model::default())] {
            let name = format!("programs/users/{side}/{mechanism}");
            let program = move |runtime: &Runtime, times| beside_users(runtime, experiment, times);
            operations.push(Operation::new(name, move || prepared(model, program)));
        }
    }
    operations
}

fn prepared(model: Model, program: impl Fn(&Runtime, u64) + 'static) -> Runner {
    let runtime = Runtime::builder()
        .workers(WORKERS)
        .preempt(false)
        .kernel(model)
        .features(model.features().in_runtime())
        .build();
    Box::new(move |times| program(&runtime, times))
}

/// The parts of `all` that so many tasks have.
fn shares(all: u64, tasks: u64) -> impl Iterator<Item = u64> {
    (0..tasks).map(move |task| all / tasks + u64::from(task < all % tasks))
}

async fn joined<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.expect("nothing panics"));
    }
    results
}

async fn hackbench(messages: u64) {
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for of_group in shares(messages, GROUPS) {
        let pipes: Vec<_> = (0..ENDS).map(|_| mpsc::channel(ROOM)).collect();
        let (pipes, ends): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
        receivers.extend(ends.into_iter().map(|end| spawn(received(end))));
        senders.extend(shares(of_group, ENDS).map(|sends| spawn(sent(pipes.clone(), sends))));
    }
    joined(senders).await;
    assert_eq!(joined(receivers).await.iter().sum::<u64>(), messages);
}

async fn sent(pipes: Vec<Sender<[u8; 100]>>, messages: u64) {
    for pipe in pipes.iter().cycle().take(messages as usize) {
        pipe.send(black_box([1; 100])).await.expect("the receiver waits for it");
    }
}

async fn received(mut pipe: Receiver<[u8; 100]>) -> u64 {
    let mut messages = 0;
    while pipe.recv().await.is_some() {
        messages += 1;
    }
    messages
}

/// A token goes round among `tasks` tasks until it was passed `passes` times.
async fn ring(passes: u64, tasks: usize, builder: impl Fn() -> TaskBuilder) {
    let pipes: Vec<_> = (0..tasks).map(|_| mpsc::channel(1)).collect();
    let (mut pipes, ends): (Vec<Sender<u64>>, Vec<_>) = pipes.into_iter().unzip();
    pipes[0].send(passes).await.expect("the pipe has room");
    pipes.rotate_left(1);
    let task = |(mut from, to): (Receiver<u64>, Sender<u64>)| {
        builder().spawn(async move {
            while let Some(left) = from.recv().await {
                // The task that ends the ring leaves its neighbour without a sender.
                if left == 0 || to.send(left - 1).await.is_err() {
                    break;
                }
            }
        })
    };
    joined(ends.into_iter().zip(pipes).map(task).collect()).await;
}

async fn build(files: u64) {
    let job = |files| {
        spawn(async move {
            for _ in 0..files {
                spawn(compiler()).await.expect("nothing panics");
            }
        })
    };
    joined(shares(files, JOBS).map(job).collect()).await;
}

async fn compiler() {
    for poll in 0..POLLS {
        black_box(poll);
        yield_now().await;
    }
}

/// Runs the ring beside tasks that use the mechanism.
fn beside_users(runtime: &Runtime, experiment: Experiment, passes: u64) {
    let limited = (experiment == Experiment::HardLimits).then(|| limited(runtime));
    let user = move || match experiment {
        Experiment::RtMigrate => Task::builder().fifo(5),
        Experiment::IdleBalance => Task::builder().policy(Policy::Idle),
        Experiment::LatencyNice => Task::builder().latency_nice(-20),
        Experiment::HardLimits => Task::builder().group(limited.as_ref()),
        Experiment::GreedyTimers => Task::builder().slack(Duration::from_millis(10)),
    };
    let of_users = passes / OF_USERS;
    runtime.block_on(async move {
        let users = spawn(async move {
            match experiment {
                Experiment::GreedyTimers => naps(of_users, user).await,
                _ => ring(of_users, USERS, user).await,
            }
        });
        ring(passes, RING, Task::builder).await;
        users.await.expect("nothing panics");
    });
}

/// Users of timers sleep for a moment instead of a pass.
async fn naps(naps: u64, builder: impl Fn() -> TaskBuilder) {
    let user = |naps| {
        builder().spawn(async move {
            for _ in 0..naps {
                sleep(Duration::from_micros(1)).await;
            }
        })
    };
    joined(shares(naps, USERS as u64).map(user).collect()).await;
}

/// A group that may use nine tenths of a CPU.
fn limited(runtime: &Runtime) -> Group {
    let limit = Limit::new(Duration::from_millis(90), Duration::from_millis(100));
    runtime.group("limited").limit(limit).create().expect("there is room for it")
}
