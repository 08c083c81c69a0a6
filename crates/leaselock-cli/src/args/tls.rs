//! Certificates for TLS: those to trust, and the one to show.

use std::path::PathBuf;

use clap::Args;
use leaselock::options::TlsOptions;

/// Flags for servers at a rediss:// URL.
#[derive(Debug, Clone, Args)]
pub(crate) struct TlsArgs {
    /// Trust the certificate authorities in this PEM file instead of the system's (rediss://)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "LEASELOCK_TLS_CA",
        hide_env_values = true
    )]
    #[arg(help_heading = "Server options", hide_short_help = true)]
    tls_ca: Option<PathBuf>,

    /// Client certificate, a PEM file, for servers that ask for one; needs --tls-key
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "LEASELOCK_TLS_CERT",
        hide_env_values = true
    )]
    #[arg(help_heading = "Server options", hide_short_help = true)]
    tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, a PEM file without a password
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "LEASELOCK_TLS_KEY",
        hide_env_values = true
    )]
    #[arg(help_heading = "Server options", hide_short_help = true)]
    tls_key: Option<PathBuf>,

    /// Name in the server's certificate, if it is not the host of the URL
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "LEASELOCK_TLS_SERVER_NAME",
        hide_env_values = true
    )]
    #[arg(help_heading = "Server options", hide_short_help = true)]
    tls_server_name: Option<String>,
}

impl TlsArgs {
    /// `None` when none was given, or a sentence about one that is missing. An empty one counts as not given.
    pub(crate) fn options(&self) -> Result<Option<TlsOptions>, &'static str> {
        let given = |file: &Option<PathBuf>| {
            let file = file.clone();
            file.filter(|file| !file.as_os_str().is_empty())
        };
        let (ca, cert, key) = (
            given(&self.tls_ca),
            given(&self.tls_cert),
            given(&self.tls_key),
        );
        let name = self
            .tls_server_name
            .as_deref()
            .filter(|name| !name.is_empty());
        if ca.is_none() && cert.is_none() && key.is_none() && name.is_none() {
            return Ok(None);
        }
        let mut options = TlsOptions::new();
        if let Some(ca) = ca {
            options = options.ca_file(ca);
        }
        if let Some(name) = name {
            options = options.server_name(name);
        }
        match (cert, key) {
            (None, None) => Ok(Some(options)),
            (Some(cert), Some(key)) => Ok(Some(options.identity_files(cert, key))),
            (Some(_), None) => Err("--tls-cert needs --tls-key FILE, the key of the certificate"),
            (None, Some(_)) => Err("--tls-key needs --tls-cert FILE, the certificate of the key"),
        }
    }
}
