//! A router of axum's with layers of tower's. It is served over loopback, and requested by hyper and by reqwest.

use super::{PATIENCE, all};
use crate::draws::Draws;
use axum::error_handling::HandleErrorLayer;
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use runyard::hyper::Executor;
use runyard::{JoinHandle, spawn};
use std::future::{IntoFuture, pending};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tower::buffer::BufferLayer;
use tower::timeout::error::Elapsed;
use tower::{BoxError, ServiceBuilder};

/// A server, and the channel that ends it.
struct Server {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Starts a server with two routes. One doubles numbers. The other one never answers, and a layer answers for it
    /// after `late`.
    async fn start(late: Duration) -> Server {
        let too_late = async |error: BoxError| {
            assert!(error.is::<Elapsed>(), "{error}");
            "too late"
        };
        let layers = |longest| {
            ServiceBuilder::new()
                .layer(HandleErrorLayer::new(too_late))
                .layer(BufferLayer::new(4))
                .timeout(longest)
        };
        let double = async |Json(number): Json<u32>| Json(2 * u64::from(number));
        let double = Router::new().route("/double", post(double)).layer(layers(PATIENCE));
        let never = Router::new().route("/never", get(pending::<()>)).layer(layers(late));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (end, ends) = oneshot::channel::<()>();
        let server = runyard::serve(listener, double.merge(never)).with_graceful_shutdown(ends);
        Server { address, end, task: spawn(server.into_future()) }
    }

    /// Ends the server, and waits for its last connection.
    async fn end(self) {
        self.end.send(()).expect("it serves");
        self.task.await.expect("it serves").expect("nothing ends it but the signal");
    }
}

/// A client whose connection is a task.
enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    async fn connect(address: SocketAddr, is_http2: bool) -> Client {
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("it is open");
        let io = TokioIo::new(stream);
        if is_http2 {
            let shaken = http2::handshake(Executor::new(), io).await;
            let (client, connection) = shaken.expect("both speak HTTP/2");
            spawn(connection);
            Client::Http2(client)
        } else {
            let (client, connection) = http1::handshake(io).await.expect("both speak HTTP/1");
            spawn(connection);
            Client::Http1(client)
        }
    }

    async fn ask(&mut self, request: Request<Full<Bytes>>) -> Bytes {
        let answer = match self {
            Client::Http1(client) => {
                client.ready().await.expect("the connection is open");
                client.send_request(request).await
            }
            Client::Http2(client) => client.send_request(request).await,
        };
        let body = answer.expect("it answers").into_body().collect();
        body.await.expect("the answer is whole").to_bytes()
    }
}

/// Sends requests by hyper, with a connection for each client. Over HTTP/2 each answer is a task.
pub async fn asked_by_hyper(mut draws: Draws) {
    let (clients, many) = (draws.within(1, 5), draws.within(1, 12));
    let server = Server::start(Duration::from_millis(draws.within(1, 6))).await;
    let address = server.address;
    let ask = |nth: u64| {
        let (is_http2, waits) = (draws.below(2) == 0, draws.below(3) == 0);
        spawn(async move {
            let mut client = Client::connect(address, is_http2).await;
            for number in nth..nth + many {
                let request = Request::post(format!("http://{address}/double"))
                    .header("host", "siege.test")
                    .header("content-type", "application/json");
                let request = request.body(number.to_string().into()).expect("a request");
                assert_eq!(client.ask(request).await, (2 * number).to_string(), "twice {number}");
            }
            if waits {
                let request = Request::get(format!("http://{address}/never"));
                let request = request.header("host", "siege.test").body(Full::default());
                assert_eq!(client.ask(request.expect("a request")).await, "too late");
            }
        })
    };
    all((0..clients).map(ask).collect::<Vec<_>>()).await;
    server.end().await;
}

/// Sends requests by reqwest, with one client for all tasks. Its connections are tasks of tokio's.
pub async fn asked_by_reqwest(mut draws: Draws) {
    let (tasks, many) = (draws.within(1, 5), draws.within(1, 12));
    let server = Server::start(Duration::from_millis(draws.within(1, 6))).await;
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let (double, never) =
        (format!("http://{}/double", server.address), format!("http://{}/never", server.address));
    let ask = |nth: u64| {
        let (client, double, never) = (client.clone(), double.clone(), never.clone());
        let waits = draws.below(3) == 0;
        spawn(async move {
            for number in nth..nth + many {
                let answer = client.post(&double).json(&number).send().await.expect("it answers");
                let twice: u64 = answer.json().await.expect("a number");
                assert_eq!(twice, 2 * number);
            }
            if waits {
                let answer = client.get(&never).send().await.expect("it answers");
                assert_eq!(answer.text().await.expect("the answer is whole"), "too late");
            }
        })
    };
    all((0..tasks).map(ask).collect::<Vec<_>>()).await;
    drop(client);
    server.end().await;
}
