//! SQLite: each connection has a kernel thread of its own, which runs its queries. The requesting tasks wait meanwhile.

use crate::common::{ends, until};
use crate::{BEATS, PATIENCE, a_runtime, heartbeat};
use runyard::{JoinSet, spawn};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Connection, Sqlite, SqliteConnection, SqlitePool, Transaction, query, query_scalar};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::{env, fs, process, thread};

/// A query that counts without an end.
const ENDLESS: &str =
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";

/// The folder of a database. It is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = env::temp_dir().join(format!("runyard-sqlx-{name}-{}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn database(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(self.0.join("test.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(PATIENCE)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn pool(folder: &Folder, connections: u32) -> SqlitePool {
    let options = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(PATIENCE);
    options.connect_with(folder.database()).await.unwrap()
}

#[test]
fn tasks_share_a_pool() {
    const TASKS: i64 = 16;
    let folder = Folder::new("pool");
    a_runtime(2).block_on(async {
        let pool = pool(&folder, 4).await;
        query("CREATE TABLE sums (task INTEGER, value INTEGER)").execute(&pool).await.unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let pool = pool.clone();
            tasks.spawn(async move {
                for value in 0..10_i64 {
                    let insert = query("INSERT INTO sums VALUES (?, ?)").bind(task).bind(value);
                    insert.execute(&pool).await.unwrap();
                }
                let sum = query_scalar("SELECT sum(value) FROM sums WHERE task = ?").bind(task);
                sum.fetch_one(&pool).await.unwrap()
            });
        }
        let sums: Vec<i64> = tasks.join_all().await;
        assert_eq!(sums, [45; TASKS as usize]);
        pool.close().await;
    });
}

#[test]
fn a_transaction_that_is_dropped_is_rolled_back() {
    let folder = Folder::new("rollback");
    a_runtime(2).block_on(async {
        let pool = pool(&folder, 2).await;
        query("CREATE TABLE kept (value INTEGER)").execute(&pool).await.unwrap();
        let insert = async |transaction: &mut Transaction<'_, Sqlite>| {
            query("INSERT INTO kept VALUES (1)").execute(&mut **transaction).await.unwrap();
        };
        let mut dropped = pool.begin().await.unwrap();
        let mut committed = {
            insert(&mut dropped).await;
            drop(dropped);
            pool.begin().await.unwrap()
        };
        insert(&mut committed).await;
        committed.commit().await.unwrap();
        let kept: i64 = query_scalar("SELECT count(*) FROM kept").fetch_one(&pool).await.unwrap();
        assert_eq!(kept, 1);
        pool.close().await;
    });
}

/// There is one CPU. SQLite interrupts a query without an end after [`BEATS`] heartbeats.
#[test]
fn a_heartbeat_goes_on_beside_a_slow_query() {
    ends(|| {
        a_runtime(1).block_on(async {
            let beats = heartbeat();
            let asks = spawn(async move {
                let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
                stops_after(&mut connection, beats).await;
                query(ENDLESS).fetch_one(&mut connection).await.unwrap_err()
            });
            let error = asks.await.unwrap();
            assert!(error.to_string().contains("interrupted"), "{error}");
        });
    });
}

/// Makes SQLite interrupt the connection's queries after [`BEATS`] further heartbeats.
async fn stops_after(connection: &mut SqliteConnection, beats: Arc<AtomicU64>) {
    let last = beats.load(Ordering::SeqCst) + BEATS;
    let mut handle = connection.lock_handle().await.unwrap();
    handle.set_progress_handler(1_000, move || beats.load(Ordering::SeqCst) < last);
}

/// The thread is not a worker. It may run on every CPU of the process, although a task that is bound to one CPU started
/// it.
#[test]
fn queries_run_on_a_thread_of_the_connection() {
    let seen = Arc::new(Mutex::new(None));
    let sees = seen.clone();
    a_runtime(1).block_on(async {
        let asks = spawn(async move {
            let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
            let mut handle = connection.lock_handle().await.unwrap();
            handle.set_progress_handler(1, move || {
                let name = thread::current().name().map(str::to_owned);
                let cpus = thread::available_parallelism().unwrap();
                *sees.lock().unwrap() = Some((name, cpus));
                true
            });
            drop(handle);
            query("SELECT 1").fetch_one(&mut connection).await.unwrap();
        });
        asks.await.unwrap();
    });
    let (name, cpus) = seen.lock().unwrap().take().unwrap();
    assert!(name.unwrap().starts_with("sqlx-sqlite-worker"));
    assert_eq!(cpus, thread::available_parallelism().unwrap());
}

/// A pool maintains its connections in a task of tokio's while the pool is open.
#[test]
fn the_upkeep_of_a_pool_escapes() {
    let folder = Folder::new("upkeep");
    let runtime = a_runtime(2);
    let tokio = runtime.handle().tokio().unwrap().clone();
    let pool = runtime.block_on(pool(&folder, 1));
    until(|| tokio.metrics().num_alive_tasks() == 1);
    runtime.block_on(pool.close());
    until(|| tokio.metrics().num_alive_tasks() == 0);
}
