//! sqlx with SQLite: a pool of connections to one file. Each connection has a thread of its own.

use super::{PATIENCE, all};
use crate::draws::Draws;
use runyard::{spawn, yield_now};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{query, query_scalar};
use std::path::PathBuf;
use std::{env, fs, process};

/// The file of a database. It is removed when this value is dropped.
struct File(PathBuf);

impl File {
    fn new() -> File {
        File(env::temp_dir().join(format!("runyard-siege-{}.db", process::id())))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

async fn pool(file: &File, connections: u32) -> SqlitePool {
    let database = SqliteConnectOptions::new()
        .filename(&file.0)
        .create_if_missing(true)
        .synchronous(SqliteSynchronous::Off)
        .busy_timeout(PATIENCE);
    let options = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(PATIENCE);
    options.connect_with(database).await.expect("a database")
}

/// Commits some transactions and drops the others. Exactly the committed rows are in the table afterwards.
pub async fn pooled(mut draws: Draws) {
    let (tasks, many, connections) = (draws.within(1, 5), draws.within(1, 20), draws.within(1, 4));
    let file = File::new();
    let pool = pool(&file, connections as u32).await;
    let table = query("CREATE TABLE items (task INTEGER, number INTEGER)");
    table.execute(&pool).await.expect("a table");
    let work = |nth: u64| {
        let (pool, is_kept) = (pool.clone(), draws.below(4) > 0);
        spawn(async move {
            let mut transaction = pool.begin().await.expect("a transaction");
            for number in 0..many {
                let add = query("INSERT INTO items VALUES (?, ?)");
                let add = add.bind(nth as i64).bind(number as i64);
                add.execute(&mut *transaction).await.expect("a row");
                if number % 8 == 0 {
                    yield_now().await;
                }
            }
            if is_kept {
                transaction.commit().await.expect("the disk takes it");
            } else {
                drop(transaction);
            }
            let sum = query_scalar("SELECT coalesce(sum(number), 0) FROM items WHERE task = ?");
            let sum: i64 = sum.bind(nth as i64).fetch_one(&pool).await.expect("a sum");
            let kept = if is_kept { (0..many).sum::<u64>() } else { 0 };
            assert_eq!(sum as u64, kept, "of task {nth}, kept: {is_kept}");
            kept
        })
    };
    let kept: u64 = all((0..tasks).map(work).collect::<Vec<_>>()).await.into_iter().sum();
    let sum = query_scalar("SELECT coalesce(sum(number), 0) FROM items");
    let sum: i64 = sum.fetch_one(&pool).await.expect("a sum");
    assert_eq!(sum as u64, kept, "of all tasks");
    pool.close().await;
}
