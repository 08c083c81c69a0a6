//! A server that speaks TLS, whether its program can or not.

use std::net::SocketAddr;
use std::sync::Arc;

use testkit::Server;
use testkit::server::{find_binary, has_tls};
use testkit::tls::{Authority, Pair};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// The server's own TLS where it has one; else a front in this process takes it off in front of the server.
pub(crate) struct Secured {
    pub(crate) server: Server,
    pub(crate) port: u16,
    _front: Option<Front>,
}

impl Secured {
    /// With `clients` every client must show a certificate of the authority.
    pub(crate) fn start(authority: &Authority, pair: &Pair, clients: bool) -> Secured {
        if has_tls(&find_binary()) {
            let builder = Server::builder().tls(authority, pair.clone(), clients);
            let server = builder.start();
            let port = server.tls_port().unwrap();
            return Secured {
                server,
                port,
                _front: None,
            };
        }
        let server = Server::start();
        let front = Front::start(authority, pair, clients, server.port());
        Secured {
            server,
            port: front.address.port(),
            _front: Some(front),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("rediss://localhost:{}/", self.port)
    }
}

/// Takes TLS off and passes on what is in it. On a thread of its own, so that a test's runtime may be busy.
struct Front {
    address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

/// A test's own runtime may be the one that drops it, which must not wait for another.
impl Drop for Front {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Front {
    fn start(authority: &Authority, pair: &Pair, clients: bool, to: u16) -> Front {
        let acceptor = TlsAcceptor::from(config(authority, pair, clients));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((outside, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut outside = acceptor.accept(outside).await?;
                    let mut inside = TcpStream::connect(("127.0.0.1", to)).await?;
                    copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
        Front {
            address,
            runtime: Some(runtime),
        }
    }
}

fn config(authority: &Authority, pair: &Pair, clients: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap())
        .unwrap();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if clients {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
    let chain = chain.collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}
