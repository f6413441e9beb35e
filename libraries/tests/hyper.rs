//! A server for tower services, among them axum's routers. Its connections and requests are tasks of the runtime.
//!
//! Clients and servers communicate over loopback.

#[path = "../../crates/runtime/tests/common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::extract::Request;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use common::{ends, ms, spin, until};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::{Executor as _, Timer as _};
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use runyard::hyper::{Executor, Listener, Timer};
use runyard::{Builder, JoinHandle, Nice, Policy, Runtime, Task, serve, spawn};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::{IntoFuture, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tower::buffer::BufferLayer;
use tower::{ServiceBuilder, ServiceExt, service_fn};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// The policy that some servers request for their connections.
const ASKED: Policy = Policy::Batch(Nice::ZERO);

fn builder(workers: usize) -> Builder {
    Runtime::builder().workers(workers).enable_tokio()
}

/// A server, and the channel that ends it.
struct Server {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

/// Starts a server of `app`, which makes the task of each connection with `task`.
async fn start(app: Router, task: runyard::TaskBuilder) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ends) = oneshot::channel::<()>();
    let server = serve(listener, app).task(task).with_graceful_shutdown(ends);
    Server { address, end, task: spawn(server.into_future()) }
}

impl Server {
    async fn end(self) {
        let _ = self.end.send(());
        self.task.await.unwrap().unwrap();
    }
}

type Http1 = http1::SendRequest<Empty<Bytes>>;
type Http2 = http2::SendRequest<Empty<Bytes>>;

async fn connect1(address: SocketAddr) -> Http1 {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    spawn(connection);
    client
}

async fn connect2(address: SocketAddr) -> Http2 {
    let stream = TcpStream::connect(address).await.unwrap();
    let handshake = http2::handshake(Executor::new(), TokioIo::new(stream));
    let (client, connection) = handshake.await.unwrap();
    spawn(connection);
    client
}

fn request(path: &str) -> hyper::Request<Empty<Bytes>> {
    let request = hyper::Request::get(format!("http://here{path}")).header("host", "here");
    request.body(Empty::new()).unwrap()
}

/// Waits until the connection is free, and requests a path.
async fn ask1(client: &mut Http1, path: &str) -> String {
    client.ready().await.unwrap();
    text(client.send_request(request(path)).await.unwrap()).await
}

async fn ask2(client: &mut Http2, path: &str) -> String {
    client.ready().await.unwrap();
    text(client.send_request(request(path)).await.unwrap()).await
}

async fn text(response: Response<Incoming>) -> String {
    assert_eq!(response.status(), StatusCode::OK);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the id and the policy of the task that handles the request.
async fn who() -> String {
    let task = Task::current();
    format!("{:?} {:?}", task.id(), task.policy())
}

/// Returns a handler that reports its begin, and then waits before it answers. It handles one request only.
fn waiting(begins: oneshot::Sender<()>, waits: oneshot::Receiver<()>) -> MethodRouter {
    let once = Arc::new(Mutex::new(Some((begins, waits))));
    get(async move || {
        let (begins, waits) = once.lock().unwrap().take().unwrap();
        begins.send(()).unwrap();
        waits.await.unwrap();
        "done"
    })
}

/// Whether the answer of [`who`] has the policy [`ASKED`].
fn is_as_asked(answer: &str) -> bool {
    answer.ends_with(&format!("{ASKED:?}"))
}

#[test]
fn requests_of_an_http1_connection_are_in_its_task() {
    builder(2).build().block_on(async {
        let app = Router::new().route("/who", get(who));
        let server = start(app, Task::builder().policy(ASKED)).await;
        let mut client = connect1(server.address).await;
        let mut tasks = BTreeSet::new();
        for _ in 0..3 {
            let answer = ask1(&mut client, "/who").await;
            assert!(is_as_asked(&answer), "{answer}");
            tasks.insert(answer);
        }
        assert_eq!(tasks.len(), 1);
        drop(client);
        server.end().await;
    });
}

#[test]
fn each_request_of_an_http2_connection_is_a_task_that_inherits() {
    builder(2).build().block_on(async {
        let app = Router::new().route("/who", get(who));
        let server = start(app, Task::builder().policy(ASKED)).await;
        let client = connect2(server.address).await;
        let requests: Vec<_> = (0..16)
            .map(|_| {
                let mut client = client.clone();
                spawn(async move { ask2(&mut client, "/who").await })
            })
            .collect();
        let mut tasks = BTreeSet::new();
        for request in requests {
            let answer = request.await.unwrap();
            assert!(is_as_asked(&answer), "{answer}");
            tasks.insert(answer);
        }
        assert_eq!(tasks.len(), 16);
        drop(client);
        server.end().await;
    });
}

/// There is one CPU. The slow handler computes in one poll until the fast handler has run.
#[test]
fn a_handler_that_computes_is_preempted() {
    let runtime = builder(1).build();
    if !runtime.preempts() {
        return;
    }
    ends(move || {
        runtime.block_on(async {
            let [begun, called] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let (begins, waits, calls) = (begun.clone(), called.clone(), called);
            let slow = async move || {
                begins.store(true, Ordering::SeqCst);
                while !waits.load(Ordering::SeqCst) {
                    spin(ms(1));
                }
                "slow"
            };
            let fast = async move || calls.store(true, Ordering::SeqCst);
            let app = Router::new().route("/slow", get(slow)).route("/fast", get(fast));
            let server = start(app, Task::builder()).await;
            let mut slow = connect1(server.address).await;
            let slow = spawn(async move { ask1(&mut slow, "/slow").await });
            until(|| begun.load(Ordering::SeqCst));
            let mut fast = connect1(server.address).await;
            ask1(&mut fast, "/fast").await;
            assert_eq!(slow.await.unwrap(), "slow");
            drop(fast);
            server.end().await;
        });
    });
}

/// A request in progress is answered, an idle connection is closed, and no other connection is accepted.
#[test]
fn a_server_ends_when_the_last_answer_is_given() {
    builder(2).build().block_on(async {
        let (begins, begun) = oneshot::channel::<()>();
        let (goes_on, waits) = oneshot::channel::<()>();
        let app = Router::new().route("/wait", waiting(begins, waits)).route("/who", get(who));
        let Server { address, end, task } = start(app, Task::builder()).await;
        let mut idle = connect1(address).await;
        ask1(&mut idle, "/who").await;
        let mut busy = connect1(address).await;
        let answer = spawn(async move { ask1(&mut busy, "/wait").await });
        begun.await.unwrap();
        end.send(()).unwrap();
        // The loop ends when the server has closed the idle connection.
        while idle.ready().await.is_ok() {
            runyard::yield_now().await;
        }
        while TcpStream::connect(address).await.is_ok() {
            runyard::yield_now().await;
        }
        assert!(!task.is_finished());
        goes_on.send(()).unwrap();
        assert_eq!(answer.await.unwrap(), "done");
        task.await.unwrap().unwrap();
    });
}

#[test]
fn a_server_without_connections_ends_at_once() {
    builder(1).build().block_on(async {
        let server = start(Router::new(), Task::builder()).await;
        server.end().await;
    });
}

/// A request in progress is answered, and an idle connection is closed.
#[test]
fn a_server_that_is_dropped_answers_what_it_has_begun() {
    builder(2).build().block_on(async {
        let (begins, begun) = oneshot::channel::<()>();
        let (goes_on, waits) = oneshot::channel::<()>();
        let app = Router::new().route("/wait", waiting(begins, waits));
        let Server { address, end, task } = start(app, Task::builder()).await;
        let mut idle = connect1(address).await;
        let mut busy = connect1(address).await;
        let answer = spawn(async move { ask1(&mut busy, "/wait").await });
        begun.await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        while idle.ready().await.is_ok() {
            runyard::yield_now().await;
        }
        goes_on.send(()).unwrap();
        assert_eq!(answer.await.unwrap(), "done");
        drop(end);
    });
}

#[test]
fn garbage_and_panics_end_one_connection() {
    builder(2).build().block_on(async {
        let app = Router::new()
            .route("/who", get(who))
            .route("/panic", get(async || -> &'static str { panic!("on purpose") }));
        let server = start(app, Task::builder()).await;
        let mut garbage = TcpStream::connect(server.address).await.unwrap();
        garbage.write_all(b"\x16\x03\x01\x02\x00\x01\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = garbage.read_to_end(&mut answer).await;
        let mut unlucky = connect1(server.address).await;
        assert!(unlucky.send_request(request("/panic")).await.is_err());
        let mut client = connect1(server.address).await;
        ask1(&mut client, "/who").await;
        drop(client);
        server.end().await;
    });
}

/// A listener whose first two accepts fail: with an error of one connection, and with an error of the system.
struct Refused {
    listener: TcpListener,
    times: Arc<AtomicUsize>,
}

impl Listener for Refused {
    type Io = TokioIo<TcpStream>;

    async fn accept(&mut self) -> io::Result<Self::Io> {
        match self.times.fetch_add(1, Ordering::SeqCst) {
            0 => Err(io::ErrorKind::ConnectionAborted.into()),
            1 => Err(io::Error::other("too many open files")),
            _ => Ok(TokioIo::new(self.listener.accept().await?.0)),
        }
    }
}

#[test]
fn a_listener_that_accepts_nothing_is_asked_again() {
    builder(1).build().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let times = Arc::new(AtomicUsize::new(0));
        let listener = Refused { listener, times: times.clone() };
        let began = Instant::now();
        spawn(serve(listener, Router::new().route("/who", get(who))).into_future());
        let mut client = connect1(address).await;
        ask1(&mut client, "/who").await;
        assert!(times.load(Ordering::SeqCst) >= 3);
        assert!(began.elapsed() >= Duration::from_secs(1));
    });
}

#[test]
fn a_socket_of_the_file_system_is_served() {
    builder(1).build().block_on(async {
        let path = std::env::temp_dir().join(format!("runyard-hyper-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        spawn(serve(listener, Router::new().route("/who", get(who))).into_future());
        let stream = UnixStream::connect(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let (mut client, connection) =
            http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.unwrap();
        spawn(connection);
        ask1(&mut client, "/who").await;
    });
}

#[test]
fn any_tower_service_is_served() {
    builder(2).build().block_on(async {
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(Response::new(request.uri().path().to_owned()))
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        spawn(serve(listener, service).into_future());
        let mut client = connect1(address).await;
        assert_eq!(ask1(&mut client, "/echo").await, "/echo");
    });
}

/// Layers of tower's need tokio's timers and spawn tasks on tokio.
#[test]
fn a_timeout_and_a_buffer_of_towers_work() {
    builder(2).build().block_on(async {
        let too_late = async |error: tower::BoxError| {
            assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
            "too late"
        };
        let layers = |longest| {
            ServiceBuilder::new()
                .layer(HandleErrorLayer::new(too_late))
                .layer(BufferLayer::new(8))
                .timeout(longest)
        };
        let never = Router::new().route("/never", get(pending::<()>)).layer(layers(ms(20)));
        let at_once = Router::new().route("/at-once", get(async || "in time"));
        let app = never.merge(at_once.layer(layers(ms(60_000))));
        let server = start(app, Task::builder()).await;
        let mut client = connect1(server.address).await;
        for (path, answer) in [("/never", "too late"), ("/at-once", "in time")] {
            assert_eq!(ask1(&mut client, path).await, answer);
        }
        drop(client);
        server.end().await;
        // The timeout also works in a task without a server.
        let once = ServiceBuilder::new()
            .timeout(ms(1))
            .service(service_fn(|(): ()| pending::<Result<(), Infallible>>()));
        assert!(spawn(once.oneshot(())).await.unwrap().is_err());
    });
}

#[test]
fn reqwest_asks_axum() {
    builder(2).build().block_on(async {
        let double = async |axum::Json(number): axum::Json<u32>| axum::Json(2 * number);
        let server = start(Router::new().route("/double", post(double)), Task::builder()).await;
        let url = format!("http://{}/double", server.address);
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60));
        let client = client.build().unwrap();
        let asks: Vec<_> = (0..8_u32)
            .map(|number| {
                let request = client.post(&url).json(&number);
                spawn(async move { request.send().await?.json::<u32>().await })
            })
            .collect();
        for (number, asks) in asks.into_iter().enumerate() {
            assert_eq!(asks.await.unwrap().unwrap() as usize, 2 * number);
        }
        drop(client);
        server.end().await;
    });
}

#[test]
fn a_connection_is_upgraded() {
    builder(2).build().block_on(async {
        let upgrades = async |request: Request| {
            spawn(async move {
                let upgraded = hyper::upgrade::on(request).await.unwrap();
                let mut stream = TokioIo::new(upgraded);
                let byte = stream.read_u8().await.unwrap();
                stream.write_u8(byte + 1).await.unwrap();
            });
            (StatusCode::SWITCHING_PROTOCOLS, [("connection", "upgrade"), ("upgrade", "count")])
        };
        let server = start(Router::new().route("/", get(upgrades)), Task::builder()).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = b"GET / HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: count\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"));
        stream.write_u8(7).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 8);
        server.end().await;
    });
}

#[test]
fn a_timer_of_hypers_is_moved() {
    Runtime::builder().workers(1).build().block_on(async {
        let began = Instant::now();
        let mut sleep = Timer.sleep(Duration::from_secs(3_600));
        Timer.reset(&mut sleep, began + ms(2));
        sleep.await;
        assert!(began.elapsed() >= ms(2));
        // `Timer` also resets a sleep that another timer has made.
        let other = hyper_util::rt::TokioTimer::new();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = tokio.enter();
        let mut sleep = other.sleep(Duration::from_secs(3_600));
        Timer.reset(&mut sleep, began + ms(3));
        sleep.await;
        assert!(began.elapsed() >= ms(3));
    });
}

#[test]
fn an_executor_starts_tasks_as_it_was_told() {
    let runtime = Runtime::builder().workers(1).build();
    let (send, receive) = std::sync::mpsc::channel();
    let executor = Executor::new().task(Task::builder().policy(ASKED)).on(runtime.handle());
    executor.execute(async move { send.send(Task::current().policy()).unwrap() });
    assert_eq!(receive.recv().unwrap(), ASKED);
}

/// Tasks are preempted at random instants, also within hyper, tower and axum.
#[test]
fn a_server_goes_on_where_tasks_are_stopped_anywhere() {
    let runtime = builder(2).siege(4).build();
    ends(move || {
        runtime.block_on(async {
            let app = Router::new().route("/who", get(who));
            let server = start(app, Task::builder()).await;
            let address = server.address;
            let clients: Vec<_> = (0..8)
                .map(|nth| {
                    spawn(async move {
                        if nth % 2 == 0 {
                            let mut client = connect1(address).await;
                            for _ in 0..60 {
                                ask1(&mut client, "/who").await;
                            }
                        } else {
                            let mut client = connect2(address).await;
                            for _ in 0..60 {
                                ask2(&mut client, "/who").await;
                            }
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            server.end().await;
        });
    });
}
