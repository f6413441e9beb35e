//! The behaviour that is the same with each driver.

use super::{with_each_driver, with_each_runtime};
use crate::common::{ends, ms, spin, until};
use runyard::{Builder, Policy, RtPrio, Task, blocking, spawn, spawn_blocking, yield_now};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// Echoes the bytes of each connection, in a task for each connection.
async fn echo(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        spawn(async move {
            let mut byte = [0; 1];
            while let Ok(1) = stream.read(&mut byte).await {
                stream.write_all(&byte).await.unwrap();
            }
        });
    }
}

/// Sends `bytes` bytes. Each byte follows the echo of the previous one.
async fn ask(mut stream: TcpStream, bytes: u8) {
    for sent in 0..bytes {
        stream.write_all(&[sent]).await.unwrap();
        let mut received = [0; 1];
        stream.read_exact(&mut received).await.unwrap();
        assert_eq!(received, [sent]);
    }
}

async fn echoes(clients: usize, bytes: u8) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = spawn(echo(listener));
    let client = || async move { ask(TcpStream::connect(address).await.unwrap(), bytes).await };
    let clients: Vec<_> = (0..clients).map(|_| spawn(client())).collect();
    for client in clients {
        client.await.unwrap();
    }
    server.abort();
}

#[test]
fn tasks_sleep_by_tokio() {
    with_each_runtime(|builder| {
        builder.workers(1).build().block_on(async {
            let sleeps = || async {
                let began = Instant::now();
                tokio::time::sleep(ms(5)).await;
                began.elapsed()
            };
            let in_time = tokio::time::timeout(ms(60_000), spawn(sleeps()));
            assert!(in_time.await.unwrap().unwrap() >= ms(5));
            let never = tokio::time::timeout(ms(1), std::future::pending::<()>());
            assert!(spawn(never).await.unwrap().is_err());
            assert!(sleeps().await >= ms(5));
        });
    });
}

#[test]
fn tasks_talk_by_tokio() {
    with_each_runtime(|builder| builder.workers(2).build().block_on(echoes(8, 100)));
}

#[test]
fn tasks_read_files_by_tokio() {
    with_each_runtime(|builder| {
        builder.workers(1).build().block_on(async {
            let text = spawn(tokio::fs::read_to_string("/proc/self/status")).await.unwrap();
            assert!(text.unwrap().starts_with("Name:"));
        });
    });
}

/// A task that tokio wakes preempts a task that computes. There is one worker, and the computing task stays in one poll
/// until the other task has been woken ten times.
#[test]
fn who_is_woken_by_tokio_preempts() {
    with_each_driver(|builder| {
        let runtime = builder.workers(1).build();
        if !runtime.preempts() {
            return;
        }
        ends(move || {
            runtime.block_on(async {
                let ticks = Arc::new(AtomicUsize::new(0));
                let counts = ticks.clone();
                let alarm = Task::builder().policy(Policy::Fifo(RtPrio::new(50).unwrap()));
                alarm.spawn(async move {
                    while counts.fetch_add(1, Ordering::SeqCst) < 10 {
                        tokio::time::sleep(ms(1)).await;
                    }
                });
                let hog = async move {
                    while ticks.load(Ordering::SeqCst) < 10 {
                        spin(ms(1));
                    }
                };
                spawn(hog).await.unwrap();
            });
        });
    });
}

/// More threads run tasks at a time than there are slots, so spare threads take part. They know the driver too.
#[test]
fn every_thread_knows_the_driver() {
    const THREADS: usize = 12;
    with_each_runtime(|builder| {
        let runtime = builder.workers(1).build();
        let driver = runtime.handle().tokio().unwrap().id();
        let barrier = Arc::new(Barrier::new(THREADS));
        runtime.block_on(async {
            let all: Vec<_> = (0..THREADS)
                .map(|_| {
                    let barrier = barrier.clone();
                    spawn_blocking(move || {
                        blocking(|| barrier.wait());
                        Handle::current().id()
                    })
                })
                .collect();
            for task in all {
                assert_eq!(task.await.unwrap(), driver);
            }
        });
    });
}

#[test]
fn block_on_knows_the_driver_and_forgets_it() {
    with_each_driver(|builder| {
        let runtime = builder.workers(1).build();
        let handle = runtime.handle().clone();
        let driver = handle.tokio().unwrap().id();
        runtime.block_on(async {
            assert_eq!(Handle::current().id(), driver);
            // The driver is also current within a nested `block_on`, and after it.
            handle.block_on(async { assert_eq!(Handle::current().id(), driver) });
            assert_eq!(Handle::current().id(), driver);
        });
        assert!(Handle::try_current().is_err());
    });
}

#[test]
fn hooks_know_the_driver() {
    with_each_driver(|builder| {
        let known = Arc::new(AtomicUsize::new(0));
        let count = |known: &Arc<AtomicUsize>| {
            let known = known.clone();
            move || {
                // A hook may wait for tokio, like a library that closes its network connections.
                Handle::current().block_on(tokio::time::sleep(ms(1)));
                known.fetch_add(1, Ordering::SeqCst);
            }
        };
        let builder = builder.on_thread_start(count(&known)).on_thread_stop(count(&known));
        let runtime = builder.workers(1).build();
        let starts = known.load(Ordering::SeqCst);
        assert!(starts > 0);
        drop(runtime);
        assert_eq!(known.load(Ordering::SeqCst), 2 * starts);
    });
}

/// A task forgets a guard of tokio's, so its thread stays one level deeper in tokio's stack of contexts. Tokio's guards
/// check that level when they are dropped.
#[test]
fn a_task_that_forgets_a_guard_harms_nobody() {
    with_each_driver(|builder| {
        let runtime = builder.workers(1).build();
        runtime.block_on(async {
            for _ in 0..3 {
                spawn(async { std::mem::forget(Handle::current().enter()) }).await.unwrap();
                spawn(tokio::time::sleep(ms(1))).await.unwrap();
            }
        });
    });
}

/// Each timer or socket of tokio's for which a task waits is dropped with the task.
#[test]
fn a_runtime_ends_while_tasks_wait_for_tokio() {
    with_each_runtime(|builder| {
        let runtime = builder.workers(2).build();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            spawn(echo(listener));
            for _ in 0..8 {
                spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream.read_u8().await
                });
                spawn(tokio::time::sleep(ms(3_600_000)));
            }
            yield_now().await;
        });
    });
}

#[test]
fn a_runtime_lives_within_a_task_of_tokio() {
    with_each_driver(|builder| {
        super::a_tokio_runtime().block_on(async {
            let outer = Handle::current().id();
            let runtime = builder.workers(1).build();
            let inner = runtime.handle().tokio().unwrap().id();
            let asks = runtime.spawn(async { Handle::current().id() });
            assert_eq!(asks.await.unwrap(), inner);
            drop(runtime);
            assert_eq!(Handle::current().id(), outer);
        });
    });
}

/// Tasks are preempted at random instants, also while they hold tokio's locks.
#[test]
fn tokio_goes_on_where_tasks_are_stopped_anywhere() {
    with_each_driver(|builder: Builder| {
        let runtime = builder.workers(2).siege(21).build();
        ends(move || {
            runtime.block_on(async {
                let rounds = Arc::new(AtomicUsize::new(0));
                let sleepers: Vec<_> = (0..32_u64)
                    .map(|nth| {
                        let rounds = rounds.clone();
                        spawn(async move {
                            for round in 0..40 {
                                let nap = std::time::Duration::from_micros(100 * (nth + round));
                                let forever = std::future::pending::<()>();
                                assert!(tokio::time::timeout(nap, forever).await.is_err());
                                rounds.fetch_add(1, Ordering::SeqCst);
                            }
                        })
                    })
                    .collect();
                echoes(16, 100).await;
                for sleeper in sleepers {
                    sleeper.await.unwrap();
                }
                until(|| rounds.load(Ordering::SeqCst) == 32 * 40);
            });
        });
    });
}
