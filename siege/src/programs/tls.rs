//! rustls: a handshake and some data in both directions, over memory and over sockets of tokio's.

use super::all;
use crate::draws::Draws;
use runyard::spawn;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Configs = (Arc<ClientConfig>, Arc<ServerConfig>);

/// Returns the configurations of both sides. The client trusts the server's certificate, and all connections of a side
/// share its cache of sessions.
fn configs() -> Configs {
    static CONFIGS: OnceLock<Configs> = OnceLock::new();
    CONFIGS.get_or_init(make_configs).clone()
}

fn make_configs() -> Configs {
    let own = rcgen::generate_simple_self_signed(["siege.test".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider.clone());
    let client = client.with_safe_default_protocol_versions().expect("versions");
    let server = ServerConfig::builder_with_provider(provider);
    let server =
        server.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let server =
        server.with_single_cert(vec![own.cert.der().clone()], key).expect("key and certificate");
    (Arc::new(client.with_root_certificates(roots).with_no_client_auth()), Arc::new(server))
}

/// Moves the pending data of `from` to `to`.
fn carry(from: &mut Connection, to: &mut Connection) {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).expect("memory takes it");
    }
    let mut wire = &wire[..];
    while !wire.is_empty() {
        to.read_tls(&mut wire).expect("memory gives it");
        to.process_new_packets().expect("both speak TLS");
    }
}

fn talk((client, server): Configs, bytes: &[u8]) {
    let name = ServerName::try_from("siege.test").expect("a name");
    let mut client: Connection = ClientConnection::new(client, name).expect("a client").into();
    let mut server: Connection = ServerConnection::new(server).expect("a server").into();
    while client.is_handshaking() || server.is_handshaking() {
        carry(&mut client, &mut server);
        carry(&mut server, &mut client);
    }
    client.writer().write_all(bytes).expect("memory takes it");
    carry(&mut client, &mut server);
    let mut got = vec![0; bytes.len()];
    server.reader().read_exact(&mut got).expect("it has arrived");
    assert!(got == bytes, "what was sent arrives");
    server.writer().write_all(&got).expect("memory takes it");
    carry(&mut server, &mut client);
    client.reader().read_exact(&mut got).expect("it has arrived");
    assert!(got == bytes, "what was sent back arrives");
}

/// Does handshakes over memory in several tasks.
pub async fn handshake(mut draws: Draws) {
    let tasks = draws.within(1, 4);
    let turn = |_| {
        let (seed, length) = (draws.number(), draws.within(1, 12_000));
        spawn(async move {
            let bytes = Draws::new(seed, 0).bytes(length);
            talk(configs(), &bytes);
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}

/// Accepts `connections` connections, and sends all data of each of them back.
async fn give_back(listener: TcpListener, connections: u64) {
    let mut giving = Vec::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().await.expect("a connection");
        giving.push(spawn(async move {
            let shaken = TlsAcceptor::from(configs().1).accept(stream).await;
            let mut stream = shaken.expect("both speak TLS");
            let mut said = Vec::new();
            stream.read_to_end(&mut said).await.expect("the client says that it has said all");
            stream.write_all(&said).await.expect("it is open");
            stream.shutdown().await.expect("it is open");
        }));
    }
    all(giving).await;
}

async fn ask(address: SocketAddr, bytes: &[u8]) {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let name = ServerName::try_from("siege.test").expect("a name");
    let shaken = TlsConnector::from(configs().0).connect(name, stream).await;
    let mut stream = shaken.expect("both speak TLS");
    stream.write_all(bytes).await.expect("it is open");
    stream.shutdown().await.expect("it is open");
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.expect("the server says that it has said all");
    assert!(got == bytes, "what was sent comes back");
}

/// Does handshakes and sends data over TCP, by tokio-rustls.
pub async fn streams(mut draws: Draws) {
    let clients = draws.within(1, 4);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let gives = spawn(give_back(listener, clients));
    let turn = |_| {
        let (seed, length) = (draws.number(), draws.within(1, 40_000));
        spawn(async move {
            let bytes = Draws::new(seed, 0).bytes(length);
            ask(address, &bytes).await;
        })
    };
    all((0..clients).map(turn).collect::<Vec<_>>()).await;
    gives.await.expect("it gives back");
}
