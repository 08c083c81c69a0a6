//! Trust and identity of a connection over TLS, as plain values.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio_rustls::rustls::pki_types::ServerName;

use crate::base::error::InvalidInput;

/// Trust and identity of connections to `rediss://` servers.
///
/// By default the authorities of the system are trusted, no client certificate is sent, and the server's must be for
/// the host in the URL.
///
/// Files are read again for each new connection, so a renewed certificate is used from the next one on. A bad file is
/// an error of [`ErrorKind::Tls`](crate::ErrorKind::Tls) of the operation that needed the connection; it names the
/// file.
///
/// ```
/// # fn main() -> Result<(), leaselock::error::InvalidInput> {
/// let tls = leaselock::options::TlsOptions::new()
///     .ca_file("/etc/locks/ca.pem")
///     .identity_files("/etc/locks/me.pem", "/etc/locks/me.key");
/// let client = leaselock::Client::builder()
///     .url("rediss://locks.internal/")
///     .tls(tls)
///     .open()?; // nothing is read or contacted yet
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    pub(super) authorities: Vec<Pem>,
    /// Certificates and key.
    pub(super) identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
}

/// Text in PEM form, or its file.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Pem {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl TlsOptions {
    /// Returns the default: the authorities of the system, and no client certificate.
    pub fn new() -> Self {
        TlsOptions::default()
    }

    /// Trusts the authorities in this PEM file, and no others but those added here too.
    #[must_use]
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.authorities.push(Pem::File(path.as_ref().into()));
        self
    }

    /// Trusts the authorities in this PEM text, and no others but those added here too.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(Pem::Bytes(pem.into()));
        self
    }

    /// Sends the certificate in this PEM file to servers that request one.
    ///
    /// The file has the intermediate certificates after it. The key is in PEM form too, without a password.
    #[must_use]
    pub fn identity_files(mut self, certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        let (certificate, key) = (certificate.as_ref().into(), key.as_ref().into());
        self.identity = Some((Pem::File(certificate), Pem::File(key)));
        self
    }

    /// Sends the certificate in this PEM text, as [`identity_files`](Self::identity_files) does.
    #[must_use]
    pub fn identity_pem(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity = Some((Pem::Bytes(certificate.into()), Pem::Bytes(key.into())));
        self
    }

    /// Sets the name that the server's certificate must be for, in place of the host in the URL.
    ///
    /// The server gets it too (SNI). For a server that is reached by an address or through a tunnel.
    #[must_use]
    pub fn server_name(mut self, name: &str) -> Self {
        self.server_name = Some(name.to_owned());
        self
    }

    pub(super) fn name_of<'a>(&'a self, host: &'a str) -> &'a str {
        self.server_name.as_deref().unwrap_or(host)
    }

    /// True if the options stay valid once read: there is no file that may change.
    pub(super) fn is_lasting(&self) -> bool {
        let identity = self.identity.iter().flat_map(|(one, two)| [one, two]);
        let mut all = self.authorities.iter().chain(identity);
        all.all(|pem| matches!(pem, Pem::Bytes(_)))
    }

    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        match self.server_name.clone().map(ServerName::try_from) {
            Some(Err(_)) => Err(InvalidInput::new(
                "the server name for TLS must be a host name or an address, as certificates carry them: \
                 locks.example.com, without a scheme or a port"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// Hides the content.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::Bytes(_) => f.write_str("in memory"),
            Pem::File(path) => write!(f, "{}", path.display()),
        }
    }
}
