//! TLS by rustls, with a certificate that the service makes for itself.

use crate::Failure;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::{self, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
};
use tokio_rustls::{TlsAcceptor, server};

const NAME: &str = "localhost";

/// Returns the configuration of a service, and the certificate that its clients must trust.
pub fn service() -> Result<(Arc<ServerConfig>, Vec<u8>), Failure> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = made.cert.der().clone();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())?;
    Ok((Arc::new(config), certificate.to_vec()))
}

/// Returns the client's side of a connection. The first request does the handshake.
pub fn secure(
    stream: net::TcpStream,
    certificate: &[u8],
) -> Result<StreamOwned<ClientConnection, net::TcpStream>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.to_vec()))?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), NAME.try_into()?)?;
    Ok(StreamOwned::new(client, stream))
}

/// A listener that does one TLS handshake after the other. Both runtimes use it. The handshakes end early and are not
/// measured.
pub struct Listener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener {
    pub fn new(tcp: TcpListener, config: Arc<ServerConfig>) -> Listener {
        Listener { tcp, acceptor: TlsAcceptor::from(config) }
    }

    async fn next(&mut self) -> io::Result<(server::TlsStream<TcpStream>, SocketAddr)> {
        loop {
            let (stream, from) = self.tcp.accept().await?;
            stream.set_nodelay(true)?;
            // `wrk` first connects without a handshake, to see whether the service listens, and disconnects.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return Ok((stream, from));
            }
        }
    }
}

impl axum::serve::Listener for Listener {
    type Io = server::TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            match self.next().await {
                Ok(accepted) => return accepted,
                Err(error) => eprintln!("loads: accept failed: {error}"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

impl runyard::hyper::Listener for Listener {
    type Io = TokioIo<server::TlsStream<TcpStream>>;

    async fn accept(&mut self) -> io::Result<Self::Io> {
        let (stream, _) = axum::serve::Listener::accept(self).await;
        Ok(TokioIo::new(stream))
    }
}
