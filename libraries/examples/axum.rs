//! The wait of a quick request in an axum service beside requests that compute for long.
//!
//! ```text
//! cargo run --profile dist -p runyard-libraries --example axum [SECONDS]
//! ```
//!
//! The service has a quick route and a slow one. The slow route takes 50 ms of CPU time without an await. Four clients
//! request the slow route continuously. One client requests the quick route 200 times a second. On a cooperative
//! runtime the quick route waits for the slow handlers. Here each connection is a task of the runtime, and the runtime
//! preempts a slow handler in the middle of its computation.
//!
//! The handlers are those of any axum program. Only two things belong to this runtime: `#[runyard::main(tokio)]`, and
//! `runyard::serve` in place of `axum::serve`.
//!
//! The clients run in the same process, connect over loopback, and use CPU time as well.

use axum::{Json, Router, routing::get};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use runyard::{Allocator, Task, serve, spawn, time};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// With this allocator, the runtime preempts no task that holds the allocator's lock.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

/// The CPU time that a slow request takes.
const SLOW: Duration = Duration::from_millis(50);
const SLOW_CLIENTS: usize = 4;
/// The time between two quick requests.
const EVERY: Duration = Duration::from_millis(5);
const SECONDS: f64 = 3.0;

type Failure = Box<dyn Error + Send + Sync>;

#[runyard::main(tokio)]
async fn main() -> Result<(), Failure> {
    let seconds = std::env::args().nth(1).map_or(Ok(SECONDS), |text| text.parse())?;
    let waited = measure(Duration::from_secs_f64(seconds)).await?;
    println!("{} quick requests beside {} slow ones", waited.quick.len(), waited.nr_slow);
    for (name, part) in [("p50", 0.50), ("p99", 0.99), ("latest", 1.0)] {
        let nth = ((waited.quick.len() - 1) as f64 * part) as usize;
        println!("{name:<7} {:8.2} ms", waited.quick[nth].as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Returns the routes of the service.
fn app() -> Router {
    Router::new().route("/quick", get(quick)).route("/slow", get(slow))
}

async fn quick() -> Json<[u32; 3]> {
    Json([1, 2, 3])
}

/// Computes without an await, like code that was not written for a server.
async fn slow() -> &'static str {
    let end = cpu_time() + SLOW;
    while cpu_time() < end {
        std::hint::spin_loop();
    }
    "computed"
}

/// Returns the CPU time that the calling thread has used. A preempted task keeps its thread, and no other task runs on
/// that thread meanwhile. So the difference of two values in one poll is the CPU time of the task.
fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// The waits of the quick requests, in ascending order, and the number of slow requests that were answered.
struct Waited {
    quick: Vec<Duration>,
    nr_slow: usize,
}

/// Starts the service, sends it requests for `span`, and ends it.
async fn measure(span: Duration) -> Result<Waited, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (end, ends) = oneshot::channel::<()>();
    let server = spawn(serve(listener, app()).with_graceful_shutdown(ends).into_future());

    let until = Instant::now() + span;
    let slow: Vec<_> = (0..SLOW_CLIENTS).map(|_| spawn(ask_for_slow(address, until))).collect();
    // The measuring client has a higher priority than the service that it measures.
    let mut quick = Task::builder().fifo(1).spawn(ask_for_quick(address, until)).await??;
    let mut nr_slow = 0;
    for client in slow {
        nr_slow += client.await??;
    }
    quick.sort();

    // The server closes idle connections, and waits for the others.
    let _ = end.send(());
    server.await??;
    Ok(Waited { quick, nr_slow })
}

async fn ask_for_quick(address: SocketAddr, until: Instant) -> Result<Vec<Duration>, Failure> {
    let mut client = connect(address).await?;
    let mut ticks = time::interval(EVERY);
    let mut waited = Vec::new();
    while Instant::now() < until {
        // The wait counts from the time at which the request was due.
        let due = ticks.tick().await;
        ask(&mut client, "/quick").await?;
        waited.push(due.elapsed());
    }
    Ok(waited)
}

async fn ask_for_slow(address: SocketAddr, until: Instant) -> Result<usize, Failure> {
    let mut client = connect(address).await?;
    let mut answers = 0;
    while Instant::now() < until {
        ask(&mut client, "/slow").await?;
        answers += 1;
    }
    Ok(answers)
}

type Client = SendRequest<Empty<Bytes>>;

async fn connect(address: SocketAddr) -> Result<Client, Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (client, connection) = handshake(TokioIo::new(stream)).await?;
    spawn(connection);
    Ok(client)
}

async fn ask(client: &mut Client, path: &str) -> Result<Bytes, Failure> {
    client.ready().await?;
    let request = Request::get(path).header("host", "here").body(Empty::new())?;
    let answer = client.send_request(request).await?;
    Ok(answer.into_body().collect().await?.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard::Runtime;

    fn runtime() -> Runtime {
        Runtime::builder().workers(2).enable_tokio().build()
    }

    #[test]
    fn both_routes_are_answered_and_the_service_ends() {
        let waited = runtime().block_on(measure(Duration::from_millis(200))).unwrap();
        assert!(!waited.quick.is_empty());
        assert!(waited.nr_slow >= SLOW_CLIENTS);
    }

    #[test]
    fn answers_are_what_the_handlers_return() {
        runtime().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            spawn(serve(listener, app()).into_future());
            let mut client = connect(address).await.unwrap();
            assert_eq!(ask(&mut client, "/quick").await.unwrap(), "[1,2,3]");
            assert_eq!(ask(&mut client, "/slow").await.unwrap(), "computed");
        });
    }
}
