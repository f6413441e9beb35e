//! HTTPS by rustls: a listener for `serve` that speaks TLS. Its handshakes are tasks of the runtime as well. So a slow
//! client delays no other client.

#[path = "../../crates/runtime/tests/common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use bytes::Bytes;
use common::ends;
use http_body_util::{BodyExt, Empty};
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use runyard::hyper::{Executor, Listener};
use runyard::time::timeout;
use runyard::{JoinHandle, JoinSet, Runtime, serve, spawn};
use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// The longest that a client may take for its handshake. Then the listener drops the connection.
const HANDSHAKE: Duration = Duration::from_secs(30);

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

type Stream = server::TlsStream<TcpStream>;
type Secure = client::TlsStream<TcpStream>;

/// A listener whose connections have done their handshake.
struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<Option<Stream>>,
}

impl Tls {
    fn new(listener: TcpListener, config: ServerConfig) -> Tls {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Tls { listener, acceptor, handshakes: JoinSet::new() }
    }
}

impl Listener for Tls {
    type Io = TokioIo<Stream>;

    async fn accept(&mut self) -> io::Result<Self::Io> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let handshake = timeout(HANDSHAKE, self.acceptor.accept(accepted?.0));
                    self.handshakes.spawn(async { handshake.await.ok()?.ok() });
                }
                Some(shaken) = self.handshakes.join_next() => {
                    // A failed handshake is an error of its client. The listener ignores it.
                    if let Ok(Some(stream)) = shaken {
                        return Ok(TokioIo::new(stream));
                    }
                }
            }
        }
    }
}

/// The configurations of a server and of clients that trust only that server.
struct Trust {
    server: ServerConfig,
    client: ClientConfig,
}

fn trust() -> Trust {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = CertificateDer::from(made.cert);
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    server.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Trust { server, client }
}

/// A server, and the channel that ends it.
struct Server {
    address: SocketAddr,
    client: ClientConfig,
    end: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

async fn start() -> Server {
    let Trust { server, client } = trust();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let version = async |request: Request| format!("{:?}", request.version());
    let app = Router::new().route("/version", get(version));
    let (end, ends) = oneshot::channel::<()>();
    let server = serve(Tls::new(listener, server), app).with_graceful_shutdown(ends);
    Server { address, client, end, task: spawn(server.into_future()) }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Does the handshake of a client that speaks these protocols.
    async fn shake(&self, stream: TcpStream, protocols: &[&[u8]]) -> io::Result<Secure> {
        let mut config = self.client.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn end(self) {
        self.end.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

fn request() -> hyper::Request<Empty<Bytes>> {
    let request = hyper::Request::get("https://localhost/version").header("host", "localhost");
    request.body(Empty::new()).unwrap()
}

/// Returns the server's answer over HTTP/1.
async fn ask1(stream: Secure) -> String {
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    spawn(connection);
    text(client.send_request(request()).await.unwrap()).await
}

/// Returns the server's answer over HTTP/2.
async fn ask2(stream: Secure) -> String {
    let handshake = http2::handshake(Executor::new(), TokioIo::new(stream));
    let (mut client, connection) = handshake.await.unwrap();
    spawn(connection);
    text(client.send_request(request()).await.unwrap()).await
}

async fn text(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn a_runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).enable_tokio().build()
}

#[test]
fn the_protocol_is_agreed_on_in_the_handshake() {
    a_runtime(2).block_on(async {
        let server = start().await;
        let stream = server.shake(server.connect().await, &[HTTP2, HTTP1]).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(HTTP2));
        assert_eq!(ask2(stream).await, "HTTP/2.0");
        let stream = server.shake(server.connect().await, &[HTTP1]).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(HTTP1));
        assert_eq!(ask1(stream).await, "HTTP/1.1");
        server.end().await;
    });
}

/// A client delays no other client if it sends nothing, does not speak TLS, or speaks no protocol of the server's.
#[test]
fn who_does_not_shake_hands_holds_up_nobody() {
    ends(|| {
        a_runtime(2).block_on(async {
            let server = start().await;
            let mut silent = server.connect().await;
            let late = server.connect().await;
            let mut plain = server.connect().await;
            plain.write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            let mut answer = Vec::new();
            let _ = plain.read_to_end(&mut answer).await;
            assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
            assert!(server.shake(server.connect().await, &[b"gopher"]).await.is_err());
            // No other client connects from here on. So this handshake must finish without a further accept.
            let stream = server.shake(late, &[HTTP1]).await.unwrap();
            assert_eq!(ask1(stream).await, "HTTP/1.1");
            server.end().await;
            // The end of the server also ends the handshakes that have not finished.
            assert!(matches!(silent.read(&mut [0]).await, Ok(0) | Err(_)));
        });
    });
}

#[test]
fn nothing_escapes() {
    let runtime = a_runtime(1);
    let tokio = runtime.handle().tokio().unwrap().clone();
    runtime.block_on(async {
        let server = start().await;
        for _ in 0..10 {
            let stream = server.shake(server.connect().await, &[HTTP2]).await.unwrap();
            ask2(stream).await;
            assert_eq!(tokio.metrics().num_alive_tasks(), 0);
        }
        server.end().await;
    });
}
