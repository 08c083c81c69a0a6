//! TLS with a configuration of our own: no process-wide provider is needed or set.

use std::fs;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::base::error::{ErrorKind, Result, StoreError, refusal};
use crate::store::tls_options::{Pem, TlsOptions};

/// Builds the configuration of trust and identity. Reads files.
pub(super) fn configured(options: &TlsOptions) -> Result<Arc<ClientConfig>> {
    let roots = if options.authorities.is_empty() {
        system()?
    } else {
        named(&options.authorities)?
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refusal!(Internal: "TLS cannot be set up: {error}"))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &options.identity else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let (chain, proof) = (certificates(certificate, "certificate")?, private(key)?);
    builder
        .with_client_auth_cert(chain, proof)
        .map(Arc::new)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => wrong(format!(
                "the private key ({key:?}) is not that of the certificate ({certificate:?})"
            )),
            other => wrong(format!(
                "the certificate ({certificate:?}) cannot be shown: {other}"
            )),
        })
}

/// Returns the system's authorities, or those in `SSL_CERT_FILE`.
fn system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found
            .errors
            .first()
            .map_or_else(String::new, |error| format!(": {error}"));
        return Err(wrong(format!(
            "no certificate authority is known to this system, so none can be trusted{reason}"
        )));
    }
    Ok(roots)
}

fn named(authorities: &[Pem]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        for certificate in certificates(authority, "certificate authority")? {
            roots.add(certificate).map_err(|error| {
                wrong(format!(
                    "the certificate authority ({authority:?}) cannot be used: {error}"
                ))
            })?;
        }
    }
    Ok(roots)
}

fn certificates(pem: &Pem, what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = read(pem, what)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| unread(&error, pem, what))?;
    if found.is_empty() {
        return Err(unread(&pem::Error::NoItemsFound, pem, what));
    }
    Ok(found)
}

fn private(pem: &Pem) -> Result<PrivateKeyDer<'static>> {
    let bytes = read(pem, "private key")?;
    let locked = String::from_utf8_lossy(&bytes).contains("ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        if locked {
            return wrong(format!(
                "the private key ({pem:?}) is protected by a password: `openssl pkey` writes it without one"
            ));
        }
        unread(&error, pem, "private key")
    })
}

fn read(pem: &Pem, what: &str) -> Result<Vec<u8>> {
    match pem {
        Pem::Bytes(bytes) => Ok(bytes.clone()),
        Pem::File(path) => fs::read(path).map_err(|error| {
            wrong(format!(
                "the {what} ({}) cannot be read: {error}",
                path.display()
            ))
            .with_source(error)
        }),
    }
}

/// Describes a parse failure without the parser's own words, which may repeat a line of the file.
fn unread(error: &pem::Error, pem: &Pem, what: &str) -> StoreError {
    let why = match error {
        pem::Error::NoItemsFound => format!("holds no {what} in PEM form"),
        pem::Error::MissingSectionEnd { .. } => "breaks off within a section".to_owned(),
        _ => "is not well-formed PEM".to_owned(),
    };
    wrong(format!("the {what} ({pem:?}) {why}"))
}

fn wrong(message: String) -> StoreError {
    StoreError::refused(ErrorKind::Tls, message)
}

/// Checks the server's certificate against its name.
pub(super) async fn wrap(
    stream: TcpStream,
    host: &str,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| wrong(format!("{host} is no name that a certificate can carry")))?;
    TlsConnector::from(config)
        .connect(name, stream)
        .await
        .map_err(|error| {
            refused(&error, host).unwrap_or_else(|| {
                let what = "the connection broke before TLS was agreed on";
                explained(ErrorKind::Unreachable, host, what, &error)
            })
        })
}

/// Converts a failure that TLS itself has found; `None` for a connection that just broke.
///
/// It may come with the first reply, when the server refuses our certificate. A wrong certificate needs an operator.
pub(super) fn refused(error: &io::Error, host: &str) -> Option<StoreError> {
    let what = match found_in(error)? {
        rustls::Error::InvalidCertificate(why) => certificate(why),
        rustls::Error::AlertReceived(alert) => answer(*alert),
        rustls::Error::InvalidMessage(_) => {
            let what = "the server does not speak TLS on this port";
            return Some(explained(ErrorKind::Malformed, host, what, error));
        }
        _ => "no agreement on TLS",
    };
    Some(explained(ErrorKind::Tls, host, what, error))
}

/// Returns the error of TLS itself within that of a connection.
pub(super) fn found_in(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn certificate(why: &CertificateError) -> &'static str {
    use CertificateError as E;
    match why {
        E::Expired | E::ExpiredContext { .. } => "the server's certificate has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: is this machine's clock right?"
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            "the server's certificate is for another name: use that name in the URL, or as the server name of the TLS \
             options"
        }
        // An authority of the same name with another key gives a bad signature.
        E::UnknownIssuer | E::BadSignature => {
            "the server's certificate is not trusted: it is from an authority that is not known here; name it in the \
             TLS options"
        }
        _ => "the server's certificate is not trusted",
    }
}

/// Describes the server's alert about the certificate that we have sent, or have not.
fn answer(alert: AlertDescription) -> &'static str {
    use AlertDescription as A;
    match alert {
        A::CertificateRequired => {
            "the server wants a certificate of ours: name one and its key in the TLS options"
        }
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::DecryptError
        | A::AccessDenied => "the server does not accept our certificate",
        A::UnrecognisedName => {
            "the server is not known by this name: see the server name of the TLS options"
        }
        _ => "the server ended the agreement on TLS; it may want a certificate of ours",
    }
}

fn explained(kind: ErrorKind, host: &str, what: &str, error: &io::Error) -> StoreError {
    let said = super::error_map::quoted(&error.to_string());
    StoreError::refused(kind, format!("{host}: {what} ({said})"))
}
