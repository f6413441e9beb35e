//! Postgres, by its protocol over a Unix socket. Each test starts a server of its own.

mod server;

use crate::common::{ends, until};
use crate::{BEATS, PATIENCE, a_runtime, heartbeat};
use runyard::{JoinSet, spawn};
use server::Server;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Acquire, PgPool, query, query_scalar};
use std::sync::atomic::Ordering;

async fn pool(options: PgConnectOptions, connections: u32) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(PATIENCE);
    pool.connect_with(options).await.unwrap()
}

#[test]
fn tasks_share_a_pool() {
    const TASKS: i64 = 16;
    let server = Server::start("pool");
    a_runtime(2).block_on(async {
        let pool = pool(server.options(), 4).await;
        query("CREATE TABLE sums (task BIGINT, value BIGINT)").execute(&pool).await.unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let pool = pool.clone();
            tasks.spawn(async move {
                let mut connection = pool.acquire().await.unwrap();
                // The first transaction is dropped, and the second one is committed.
                for commits in [false, true] {
                    let mut transaction = connection.begin().await.unwrap();
                    for value in 0..10_i64 {
                        let insert =
                            query("INSERT INTO sums VALUES ($1, $2)").bind(task).bind(value);
                        insert.execute(&mut *transaction).await.unwrap();
                    }
                    if commits {
                        transaction.commit().await.unwrap();
                    }
                }
                drop(connection);
                let sum = "SELECT sum(value)::BIGINT FROM sums WHERE task = $1";
                query_scalar(sum).bind(task).fetch_one(&pool).await.unwrap()
            });
        }
        let sums: Vec<i64> = tasks.join_all().await;
        assert_eq!(sums, [45; TASKS as usize]);
        pool.close().await;
    });
}

/// There is one CPU. A query waits for a lock, which the test releases after [`BEATS`] heartbeats.
#[test]
fn a_heartbeat_goes_on_beside_a_slow_query() {
    let server = Server::start("slow");
    let options = server.options();
    ends(move || {
        let runtime = a_runtime(1);
        let tokio = runtime.handle().tokio().unwrap().clone();
        runtime.block_on(async {
            let pool = pool(options, 2).await;
            // The upkeep of the pool is a task of tokio's while the pool is open.
            until(|| tokio.metrics().num_alive_tasks() == 1);
            let mut holds = pool.acquire().await.unwrap();
            query("SELECT pg_advisory_lock(1)").execute(&mut *holds).await.unwrap();
            let waits = pool.clone();
            let slow = spawn(async move {
                query("SELECT pg_advisory_xact_lock(1)").execute(&waits).await.unwrap();
            });
            let beats = heartbeat();
            while beats.load(Ordering::SeqCst) < BEATS {
                runyard::yield_now().await;
            }
            assert!(!slow.is_finished());
            query("SELECT pg_advisory_unlock(1)").execute(&mut *holds).await.unwrap();
            slow.await.unwrap();
            drop(holds);
            pool.close().await;
        });
        until(|| tokio.metrics().num_alive_tasks() == 0);
    });
}
