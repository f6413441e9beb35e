//! rustls over memory: a handshake, and some data there and back.

use super::all;
use crate::draws::Draws;
use runyard::spawn;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

type Configs = (Arc<ClientConfig>, Arc<ServerConfig>);

/// Both sides, with a certificate that the client knows.
fn configs() -> Configs {
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

/// Carries what `from` has to send.
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

/// Handshakes of several tasks, with one memory of sessions.
pub async fn handshake(mut draws: Draws) {
    static CONFIGS: OnceLock<Configs> = OnceLock::new();
    let configs = CONFIGS.get_or_init(configs);
    let tasks = draws.within(1, 4);
    let turn = |_| {
        let (seed, length) = (draws.number(), draws.within(1, 12_000));
        spawn(async move {
            let mut draws = Draws::new(seed, 0);
            let bytes: Vec<u8> = (0..length).map(|_| draws.number() as u8).collect();
            talk(configs.clone(), &bytes);
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}
