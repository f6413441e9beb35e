//! The service of each side.

use crate::Failure;
use crate::clients::{Service, Wire};
#[cfg(feature = "rustls")]
use crate::tls;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use rayon::{ThreadPool, ThreadPoolBuilder};
use runyard::{Limit, Policy, Runtime, Task, TaskBuilder};
use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::net;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
#[cfg(feature = "rustls")]
use tokio_rustls::rustls::ServerConfig;

/// The CPU time that a slow request takes.
const SLOW: Duration = Duration::from_millis(50);

/// The number of steps in a slow request. It is measured once: a handler that read the clock of its CPU time would make
/// the kernel check the thread's slice at each reading.
static STEPS: LazyLock<u64> = LazyLock::new(|| {
    const BEFORE_A_LOOK: u64 = 50_000;
    let mut steps = 0;
    let end = cpu_time() + SLOW;
    while cpu_time() < end {
        take(BEFORE_A_LOOK);
        steps += BEFORE_A_LOOK;
    }
    steps
});

/// The runtime of a service, and the place where its slow handler computes.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    /// The slow handler computes in place, on tokio.
    Tokio,
    /// The slow handler computes on a thread of tokio's for blocking functions.
    TokioBlocking,
    /// The slow handler computes on a pool of rayon's, whose threads have nice 19.
    TokioRayon,
    /// The slow handler computes in place, on this runtime.
    Runyard,
    /// The slow handler computes in a task at nice 19.
    RunyardNice,
    /// The slow handler computes in a SCHED_IDLE task.
    RunyardIdle,
    /// The slow handler computes in a task group that may use half of the machine.
    RunyardLimited,
}

pub const SIDES: [Side; 7] = [
    Side::Tokio,
    Side::TokioBlocking,
    Side::TokioRayon,
    Side::Runyard,
    Side::RunyardNice,
    Side::RunyardIdle,
    Side::RunyardLimited,
];

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Tokio => "tokio",
            Side::TokioBlocking => "tokio-spawn_blocking",
            Side::TokioRayon => "tokio-rayon-nice-19",
            Side::Runyard => "runyard",
            Side::RunyardNice => "runyard-nice-19",
            Side::RunyardIdle => "runyard-idle",
            Side::RunyardLimited => "runyard-half",
        }
    }
}

/// The listener of a service, and its protocol.
pub enum Entrance {
    /// Connections without TLS. Each client chooses HTTP/1 or HTTP/2.
    Plain(net::TcpListener),
    #[cfg(feature = "rustls")]
    Tls(net::TcpListener, Arc<ServerConfig>),
}

/// Opens an entrance at a free port. Returns it with the data that its clients need.
pub fn open(wire: Wire) -> Result<(Entrance, Service), Failure> {
    let listener = net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let (entrance, certificate) = match wire {
        Wire::Http1 | Wire::Http2 => (Entrance::Plain(listener), Vec::new()),
        #[cfg(feature = "rustls")]
        Wire::Tls => {
            let (config, certificate) = tls::service()?;
            (Entrance::Tls(listener, config), certificate)
        }
    };
    Ok((entrance, Service { address, wire, certificate }))
}

/// Serves until `ends` is ready.
pub fn serve(
    side: Side,
    entrance: Entrance,
    ends: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Failure> {
    LazyLock::force(&STEPS);
    match side {
        Side::Tokio => on_tokio(get(slow), entrance, ends),
        Side::TokioBlocking => on_tokio(get(slow_blocking), entrance, ends),
        Side::TokioRayon => on_tokio(get(slow_in_pool).with_state(demoted_pool()?), entrance, ends),
        Side::Runyard => {
            on_runyard(&Runtime::builder().enable_tokio().build(), None, entrance, ends)
        }
        Side::RunyardNice | Side::RunyardIdle | Side::RunyardLimited => {
            let runtime = Runtime::builder().enable_tokio().build();
            let task = task_of(side, &runtime)?;
            on_runyard(&runtime, Some(task), entrance, ends)
        }
    }
}

fn task_of(side: Side, runtime: &Runtime) -> Result<TaskBuilder, Failure> {
    let task = Task::builder();
    Ok(match side {
        Side::RunyardNice => task.nice(19),
        Side::RunyardIdle => task.policy(Policy::Idle),
        _ => {
            let half = Limit::percent_of_machine(50.0);
            task.group(&runtime.group("slow").limit(half).create()?)
        }
    })
}

fn on_tokio(
    slow: MethodRouter,
    entrance: Entrance,
    ends: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match entrance {
            Entrance::Plain(listener) => {
                // `runyard::serve` sets TCP_NODELAY on its connections as well.
                let listener =
                    TcpListener::from_std(listener)?.tap_io(|stream| _ = stream.set_nodelay(true));
                axum::serve(listener, app(slow)).with_graceful_shutdown(ends).await?;
            }
            #[cfg(feature = "rustls")]
            Entrance::Tls(listener, config) => {
                let listener = tls::Listener::new(TcpListener::from_std(listener)?, config);
                axum::serve(listener, app(slow)).with_graceful_shutdown(ends).await?;
            }
        }
        Ok(())
    })
}

fn on_runyard(
    runtime: &Runtime,
    task: Option<TaskBuilder>,
    entrance: Entrance,
    ends: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Failure> {
    let slow = match task {
        None => get(slow),
        Some(task) => get(slow).layer(from_fn_with_state(task, in_task)),
    };
    runtime.block_on(async {
        match entrance {
            Entrance::Plain(listener) => {
                let listener = TcpListener::from_std(listener)?;
                runyard::serve(listener, app(slow)).with_graceful_shutdown(ends).await?;
            }
            #[cfg(feature = "rustls")]
            Entrance::Tls(listener, config) => {
                let listener = tls::Listener::new(TcpListener::from_std(listener)?, config);
                runyard::serve(listener, app(slow)).with_graceful_shutdown(ends).await?;
            }
        }
        Ok(())
    })
}

fn app(slow: MethodRouter) -> Router {
    Router::new().route("/quick", get(quick)).route("/slow", slow)
}

async fn quick() -> Json<[u32; 3]> {
    Json([1, 2, 3])
}

/// Computes without an await, like code that was not written for a server.
async fn slow() -> &'static str {
    compute()
}

async fn slow_blocking() -> Result<&'static str, StatusCode> {
    spawn_blocking(compute).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn slow_in_pool(State(pool): State<Arc<ThreadPool>>) -> Result<&'static str, StatusCode> {
    let (send, receive) = oneshot::channel();
    // The send fails if the client has disconnected.
    pool.spawn(move || _ = send.send(compute()));
    receive.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

/// Makes a pool with a thread for each CPU.
fn demoted_pool() -> Result<Arc<ThreadPool>, Failure> {
    // On Linux the nice value that this call sets is the calling thread's.
    let demote = |_| setpriority_process(None, 19).expect("every thread may ask for less");
    Ok(Arc::new(ThreadPoolBuilder::new().start_handler(demote).build()?))
}

/// Runs the handler in a task of its own.
async fn in_task(State(task): State<TaskBuilder>, request: Request, next: Next) -> Response {
    let answer = task.spawn(next.run(request)).await;
    answer.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

fn compute() -> &'static str {
    take(*STEPS);
    "computed"
}

fn take(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}

/// Returns the CPU time that the calling thread has used.
fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}
