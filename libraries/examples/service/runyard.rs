//! A service by axum and sqlx on Runyard. [`tokio.rs`](tokio.rs) is the same service before it was ported. The guide
//! `docs/guides/from-tokio.md` shows their differences.
//!
//! The service measures itself for some seconds, by clients in the same process, and ends.

mod load;
mod orders;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use load::Load;
use orders::{Database, Failure, add, heartbeat, list, report};
use runyard::{Allocator, Group, Handle, Limit, Task, TaskBuilder};
use sqlx::SqlitePool;
use tokio::net::TcpListener;

/// With this allocator, the runtime preempts no task that holds the allocator's lock.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

#[runyard::main(tokio)]
async fn main() -> Result<(), Failure> {
    service(Load::from_arguments()?).await
}

async fn service(load: Load) -> Result<(), Failure> {
    let database = Database::new()?;
    let pool = database.open().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (beats, ends) = load.start(listener.local_addr()?);
    Task::builder().fifo(1).spawn(heartbeat(beats));
    let limit = Limit::percent_of_machine(20.0);
    let trial = Handle::current().group("trial").limit(limit).create()?;
    runyard::serve(listener, app(pool, trial)).with_graceful_shutdown(ends).await?;
    Ok(())
}

fn app(pool: SqlitePool, trial: Group) -> Router {
    let demoted = from_fn_with_state(Task::builder().nice(19), in_task);
    Router::new()
        .route("/orders", get(list).post(add))
        .route("/report", get(report).layer(demoted))
        .layer(from_fn_with_state(trial, by_tenant))
        .with_state(pool)
}

/// Runs the handler in a task of its own.
async fn in_task(State(task): State<TaskBuilder>, request: Request, next: Next) -> Response {
    let answer = task.spawn(next.run(request)).await;
    answer.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Runs the requests of tenants on trial in a group, which limits their CPU time.
async fn by_tenant(State(trial): State<Group>, request: Request, next: Next) -> Response {
    if request.headers().get("tenant").is_some_and(|tenant| tenant == "trial") {
        return in_task(State(Task::builder().group(&trial)), request, next).await;
    }
    next.run(request).await
}

#[cfg(test)]
mod tests;
