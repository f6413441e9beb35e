//! The clients that speak HTTP/2 with prior knowledge. They use hyper's client on tokio's current-thread runtime.

use crate::Failure;
use crate::clients::Client;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// The number of threads that saturate the service. It equals the default of `wrk`.
const THREADS: usize = 2;

/// A connection with one request at a time.
struct Connection {
    address: SocketAddr,
    send: SendRequest<Empty<Bytes>>,
}

impl Connection {
    async fn open(service: SocketAddr) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(service).await?;
        stream.set_nodelay(true)?;
        let (send, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // The task ends with its runtime.
        tokio::spawn(connection);
        Ok(Connection { address: service, send })
    }

    async fn ask(&mut self, path: &str) -> Result<Bytes, Failure> {
        let request = Request::get(format!("http://{}{path}", self.address)).body(Empty::new())?;
        let answer = self.send.send_request(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(format!("{path}: {}", answer.status()).into());
        }
        Ok(answer.into_body().collect().await?.to_bytes())
    }
}

fn a_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().build()
}

/// A connection that its runtime drives only while a request waits for its response.
pub struct Blocking {
    runtime: Runtime,
    connection: Connection,
}

impl Blocking {
    pub fn connect(service: SocketAddr) -> Result<Blocking, Failure> {
        let runtime = a_runtime()?;
        let connection = runtime.block_on(Connection::open(service))?;
        Ok(Blocking { runtime, connection })
    }
}

impl Client for Blocking {
    fn ask(&mut self, path: &str) -> Result<String, Failure> {
        let body = self.runtime.block_on(self.connection.ask(path))?;
        Ok(String::from_utf8(body.to_vec())?)
    }
}

/// Returns the highest number of quick requests that the service answers in a second, with one request at a time on
/// each connection.
pub fn saturate(service: SocketAddr, connections: usize, span: Duration) -> Result<f64, Failure> {
    let end = Instant::now() + span;
    let threads: Vec<_> = (0..THREADS)
        .map(|_| thread::spawn(move || ask_until(end, service, connections / THREADS)))
        .collect();
    let mut answers = 0;
    for thread in threads {
        answers += thread.join().map_err(|_| "a client panicked")??;
    }
    Ok(answers as f64 / span.as_secs_f64())
}

/// Returns the number of responses that arrive until `end`.
fn ask_until(end: Instant, service: SocketAddr, connections: usize) -> Result<u64, Failure> {
    a_runtime()?.block_on(async {
        let clients: Vec<_> = (0..connections)
            .map(|_| {
                tokio::spawn(async move {
                    let mut connection = Connection::open(service).await?;
                    let mut answers = 0;
                    while Instant::now() < end {
                        connection.ask("/quick").await?;
                        answers += 1;
                    }
                    Ok::<u64, Failure>(answers)
                })
            })
            .collect();
        let mut answers = 0;
        for client in clients {
            answers += client.await??;
        }
        Ok(answers)
    })
}
