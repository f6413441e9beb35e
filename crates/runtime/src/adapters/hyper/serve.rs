//! A server for any tower service: a loop that accepts connections, and a task for each.
//!
//! hyper-util serves a connection, and finds out whether it is HTTP/1 or HTTP/2. The requests of an HTTP/1 connection
//! run one after the other, in the connection's task. Each request of an HTTP/2 connection is a task of its own. All of
//! them are tasks of the runtime, with preemption, and with the policy and the group of the connection.
//!
//! Rejected: `axum::serve`, because it starts its tasks by `tokio::spawn`. Also rejected: an error for the first
//! connection that cannot be accepted. A process that has too many open files now may have fewer later.
//!
//! Invariant: after the signal no connection is accepted, and the server is over when the last one has ended.

use super::timeouts::Timeouts;
use super::{Executor, Timer};
use crate::task::builder::TaskBuilder;
use crate::time;
use ::hyper::body::{Body, Incoming};
use ::hyper::rt::{Read, Write};
use ::hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::error::Error;
use std::future::{Future, IntoFuture, Pending, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tower_service::Service;

/// Time after which a listener that failed is tried again. Other code may have closed files by then.
const RETRY: Duration = Duration::from_secs(1);

/// A source of connections: a `TcpListener` or a `UnixListener` of `tokio::net`, or a wrapper of one, for example for
/// TLS.
///
/// ```
/// use hyper_util::rt::TokioIo;
/// use runyard::hyper::Listener;
/// use std::io;
/// use tokio::net::{TcpListener, TcpStream};
///
/// /// Waits for one connection after the other, and prints each.
/// struct Telling(TcpListener);
///
/// impl Listener for Telling {
///     type Io = TokioIo<TcpStream>;
///
///     async fn accept(&mut self) -> io::Result<Self::Io> {
///         let (stream, from) = self.0.accept().await?;
///         println!("{from} is here");
///         Ok(TokioIo::new(stream))
///     }
/// }
/// ```
pub trait Listener: Send + 'static {
    /// A connection.
    type Io: Read + Write + Unpin + Send + 'static;

    /// Waits for the next connection. If the future is dropped before it is ready, no connection may be lost.
    ///
    /// # Errors
    /// The reason why there is no connection. Unless the error concerns one connection, the server reports it once on
    /// standard error, and tries again after a second.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

impl Listener for tokio::net::TcpListener {
    type Io = TokioIo<tokio::net::TcpStream>;

    async fn accept(&mut self) -> io::Result<Self::Io> {
        let (stream, _) = tokio::net::TcpListener::accept(self).await?;
        // A response must not wait for the acknowledgement of the last one. On a socket that refuses the option,
        // responses are later.
        let _ = stream.set_nodelay(true);
        Ok(TokioIo::new(stream))
    }
}

#[cfg(unix)]
impl Listener for tokio::net::UnixListener {
    type Io = TokioIo<tokio::net::UnixStream>;

    async fn accept(&mut self) -> io::Result<Self::Io> {
        let (stream, _) = tokio::net::UnixListener::accept(self).await?;
        Ok(TokioIo::new(stream))
    }
}

/// Serves HTTP/1 and HTTP/2 with a tower service, such as axum's `Router`. Each connection is a task of this runtime.
///
/// `.await` turns the result into a future that accepts connections until it is dropped, or until [its
/// signal](Serve::with_graceful_shutdown). In both cases each connection is closed when the requests that it has begun
/// are answered.
///
/// The task of a connection inherits from the calling task, or has [its own attributes](Serve::task). Each request over
/// HTTP/2 is a task that inherits from the connection's task. Upgrades (WebSocket) work. A connection on which the
/// client sends no header for 30 seconds is closed.
///
/// A listener of tokio's needs a driver: [`Builder::enable_tokio`](crate::Builder::enable_tokio), or
/// [`Builder::tokio`](crate::Builder::tokio).
///
/// ```
/// use axum::{Router, routing::get};
/// use runyard::{Runtime, spawn};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::{TcpListener, TcpStream};
///
/// let runtime = Runtime::builder().enable_tokio().build();
/// let answer = runtime.block_on(async {
///     let app = Router::new().route("/", get(|| async { "hello" }));
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let address = listener.local_addr()?;
///     spawn(runyard::serve(listener, app).into_future());
///     let mut client = TcpStream::connect(address).await?;
///     client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await?;
///     let mut answer = String::new();
///     client.read_to_string(&mut answer).await?;
///     std::io::Result::Ok(answer)
/// });
/// assert!(answer?.ends_with("hello"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn serve<L, S>(listener: L, service: S) -> Serve<L, S> {
    Serve { listener, service, task: TaskBuilder::default(), signal: pending() }
}

/// A server that is about to start; see [`serve`](crate::serve()). `.await` starts it.
#[derive(Debug)]
#[must_use = "a server does nothing unless it is awaited"]
pub struct Serve<L, S, F = Pending<()>> {
    listener: L,
    service: S,
    task: TaskBuilder,
    signal: F,
}

impl<L, S, F> Serve<L, S, F> {
    /// Sets the attributes of the task of each connection, such as a policy, a group or a name.
    ///
    /// ```
    /// use runyard::{Runtime, Task};
    /// # use axum::Router;
    /// # use tokio::net::TcpListener;
    ///
    /// let runtime = Runtime::builder().enable_tokio().build();
    /// let web = runtime.group("web").create().unwrap();
    /// runtime.block_on(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    ///     let server = runyard::serve(listener, Router::<()>::new());
    ///     let server = server.task(Task::builder().name("connection").group(&web));
    ///     # drop(server);
    /// });
    /// ```
    pub fn task(mut self, task: TaskBuilder) -> Serve<L, S, F> {
        self.task = task;
        self
    }

    /// Ends the server when `signal` is ready. It then accepts no more connections and closes idle ones. Each other
    /// connection is closed after the requests that it has begun. The server's future is ready when the last connection
    /// has ended.
    ///
    /// ```
    /// use runyard::{Runtime, time};
    /// use std::time::Duration;
    /// # use axum::Router;
    /// # use tokio::net::TcpListener;
    ///
    /// Runtime::builder().enable_tokio().build().block_on(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0").await?;
    ///     let signal = time::sleep(Duration::from_millis(1));
    ///     runyard::serve(listener, Router::<()>::new()).with_graceful_shutdown(signal).await
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn with_graceful_shutdown<G: Future>(self, signal: G) -> Serve<L, S, G> {
        let Serve { listener, service, task, .. } = self;
        Serve { listener, service, task, signal }
    }
}

impl<L, S, F, B> IntoFuture for Serve<L, S, F>
where
    L: Listener,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    F: Future + Send + 'static,
    F::Output: Send,
{
    /// The type is that of `axum::serve`. At present no error ends a server.
    type Output = io::Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Serve { listener, service, task, signal } = self;
        Box::pin(async move {
            let mut accepting = Accepting { listener, said: false };
            let graceful = GracefulShutdown::new();
            let mut signal = pin!(signal);
            loop {
                let accepted = {
                    let mut accepts = pin!(accepting.next());
                    let first = poll_fn(|cx| match signal.as_mut().poll(cx) {
                        Poll::Ready(_) => Poll::Ready(None),
                        Poll::Pending => accepts.as_mut().poll(cx).map(Some),
                    });
                    first.await
                };
                let Some(io) = accepted else { break };
                // The connection goes on without its handle.
                drop(task.clone().spawn(connection(io, service.clone(), graceful.watcher())));
            }
            // The listener is closed, so that no client connects and waits.
            drop(accepting);
            graceful.shutdown().await;
            Ok(())
        })
    }
}

/// Serves one connection.
async fn connection<I, S, B>(io: I, service: S, watcher: Watcher)
where
    I: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut server = auto::Builder::new(Executor::new());
    server.http1().timer(Timeouts::new()).http2().timer(Timer);
    let service = TowerToHyperService::new(service);
    let connection = server.serve_connection_with_upgrades(io, service);
    // The client knows of an error of its connection, or caused it.
    let _ = watcher.watch(connection).await;
}

/// A listener, and whether its failure was reported.
struct Accepting<L> {
    listener: L,
    said: bool,
}

impl<L: Listener> Accepting<L> {
    async fn next(&mut self) -> L::Io {
        loop {
            match self.listener.accept().await {
                Ok(io) => return io,
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    self.say(&error);
                    time::sleep(RETRY).await;
                }
            }
        }
    }

    fn say(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.said, true) {
            eprintln!(
                "runyard: a server cannot accept connections ({error}): it tries again each second"
            );
        }
    }
}

/// Returns whether the error means that a connection ended before it was accepted.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
