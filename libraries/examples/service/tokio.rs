//! A service by axum and sqlx on tokio. [`runyard.rs`](runyard.rs) is the same service after it was ported. The guide
//! `docs/guides/from-tokio.md` shows their differences.
//!
//! The service measures itself for some seconds, by clients in the same process, and ends.

mod load;
mod orders;

use axum::{Router, routing::get};
use load::Load;
use orders::{Database, Failure, add, heartbeat, list, report};
use sqlx::SqlitePool;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    service(Load::from_arguments()?).await
}

async fn service(load: Load) -> Result<(), Failure> {
    let database = Database::new()?;
    let pool = database.open().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (beats, ends) = load.start(listener.local_addr()?);
    tokio::spawn(heartbeat(beats));
    axum::serve(listener, app(pool)).with_graceful_shutdown(ends).await?;
    Ok(())
}

fn app(pool: SqlitePool) -> Router {
    Router::new()
        .route("/orders", get(list).post(add))
        .route("/report", get(report))
        .with_state(pool)
}
