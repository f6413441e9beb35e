//! The handlers of the service, which are the same on tokio and on Runyard.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{SqlitePool, query, query_as};
use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use std::{env, fs, io, process};

pub type Failure = Box<dyn Error + Send + Sync>;

/// The number of an order, and its price in cents.
type Order = (i64, i64);

/// The longest that a query may wait for a connection or for the database.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of latest orders that a list has.
const LISTED: i64 = 10;

/// The number of orders in a report.
const REPORTED: i64 = 1_000;

/// The number of steps that the tax of one order takes. A report computes for several milliseconds.
const STEPS: u32 = 20_000;

/// The time between two heartbeats.
pub const BEAT: Duration = Duration::from_millis(5);

/// Returns the latest orders.
pub async fn list(
    State(pool): State<SqlitePool>,
) -> Result<Json<Vec<Order>>, (StatusCode, String)> {
    let orders = query_as("SELECT id, cents FROM orders ORDER BY id DESC LIMIT ?").bind(LISTED);
    orders.fetch_all(&pool).await.map(Json).map_err(|error| refused(&error))
}

/// Adds an order, and returns its number.
pub async fn add(
    State(pool): State<SqlitePool>,
    Json(cents): Json<i64>,
) -> Result<Json<i64>, (StatusCode, String)> {
    let insert = query("INSERT INTO orders (cents) VALUES (?)").bind(cents).execute(&pool).await;
    insert.map(|done| Json(done.last_insert_rowid())).map_err(|error| refused(&error))
}

/// Returns the tax of the first orders. It computes without an await, like code that was not written for a server.
pub async fn report(State(pool): State<SqlitePool>) -> Result<Json<i64>, (StatusCode, String)> {
    let orders = query_as("SELECT id, cents FROM orders ORDER BY id LIMIT ?").bind(REPORTED);
    let orders: Vec<Order> = orders.fetch_all(&pool).await.map_err(|error| refused(&error))?;
    Ok(Json(orders.iter().map(tax).sum()))
}

fn tax(&(_, cents): &Order) -> i64 {
    for step in 0..STEPS {
        black_box(step);
    }
    cents / 5
}

fn refused(error: &sqlx::Error) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// Sends the lateness of each beat, until the receiver is dropped. It does not use the database, for which it would
/// have to wait as the requests do.
pub async fn heartbeat(beats: Sender<Duration>) {
    let mut due = Instant::now() + BEAT;
    loop {
        tokio::time::sleep_until(due.into()).await;
        if beats.send(due.elapsed()).is_err() {
            break;
        }
        due += BEAT;
    }
}

/// A database in a temporary folder. The folder is removed when this value is dropped.
pub struct Database(PathBuf);

impl Database {
    pub fn new() -> io::Result<Database> {
        static NR: AtomicUsize = AtomicUsize::new(0);
        let nr = NR.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("runyard-service-{}-{nr}", process::id()));
        fs::create_dir(&folder)?;
        Ok(Database(folder))
    }

    /// Opens the database, and fills it with the orders of a report.
    pub async fn open(&self) -> sqlx::Result<SqlitePool> {
        let options = SqliteConnectOptions::new()
            .filename(self.0.join("orders.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(PATIENCE);
        let pool = SqlitePoolOptions::new().acquire_timeout(PATIENCE).connect_with(options).await?;
        let table = "CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)";
        query(table).execute(&pool).await?;
        let fill = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?)
            INSERT INTO orders (cents) SELECT x * 100 FROM n";
        query(fill).bind(REPORTED).execute(&pool).await?;
        Ok(pool)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
