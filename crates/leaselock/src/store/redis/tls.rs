//! TLS with a configuration of our own: no process-wide provider is needed or set.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::error::{ErrorKind, StoreError};

/// Trusts the system's authorities, or those in `SSL_CERT_FILE`; reads files.
pub(super) fn system() -> Result<Arc<ClientConfig>, StoreError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found
            .errors
            .first()
            .map_or_else(String::new, |error| format!(": {error}"));
        let message = format!(
            "no certificate authority is known to this system, so none can be trusted{reason}"
        );
        return Err(StoreError::refused(ErrorKind::Unfit, message));
    }
    trusting(roots)
}

/// Trusts these authorities alone, for tests.
#[cfg(test)]
pub(super) fn only(
    authorities: Vec<rustls::pki_types::CertificateDer<'static>>,
) -> Result<Arc<ClientConfig>, StoreError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    trusting(roots)
}

fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, StoreError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| {
            StoreError::refused(
                ErrorKind::Internal,
                format!("TLS cannot be set up: {error}"),
            )
        })?;
    Ok(Arc::new(
        builder.with_root_certificates(roots).with_no_client_auth(),
    ))
}

/// Checks the server's certificate against its name.
pub(super) async fn wrap(
    stream: TcpStream,
    host: &str,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, StoreError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        StoreError::refused(
            ErrorKind::Unfit,
            format!("{host} is no name that a certificate can carry"),
        )
    })?;
    TlsConnector::from(config)
        .connect(name, stream)
        .await
        .map_err(|error| refused(error, host))
}

/// A certificate that is not right needs a person; a connection that broke may be better next time.
fn refused(error: io::Error, host: &str) -> StoreError {
    let wrong = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let (kind, what) = match wrong {
        Some(rustls::Error::InvalidCertificate(_)) => {
            (ErrorKind::Unfit, "the certificate is not trusted")
        }
        Some(rustls::Error::InvalidMessage(_)) => (
            ErrorKind::Malformed,
            "the server does not speak TLS on this port",
        ),
        Some(_) => (ErrorKind::Unfit, "no agreement on TLS"),
        None => (
            ErrorKind::Unreachable,
            "the connection broke before TLS was agreed on",
        ),
    };
    StoreError::refused(
        kind,
        format!(
            "{host}: {what}: {}",
            super::fault::quoted(&error.to_string())
        ),
    )
    .with_source(error)
}
