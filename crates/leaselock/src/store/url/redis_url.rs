//! The address and login of a server.

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "tls")]
use std::sync::Arc;

use super::parts::address;
use super::sentinels::Sentinels;
#[cfg(feature = "tls")]
use crate::base::error::InvalidInput;
use crate::base::shorthand::debug_as;
use crate::script::library::Library;
#[cfg(feature = "tls")]
use crate::store::tls_options::TlsOptions;

/// The address and login of a server. Neither `Debug` nor `Display` shows the login.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisUrl {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: u32,
    /// Set when scripts are called as functions of this library.
    pub(crate) functions: Option<&'static Library>,
    /// Set for an address with TLS.
    #[cfg(feature = "tls")]
    pub(crate) tls: Arc<TlsOptions>,
}

impl RedisUrl {
    /// Returns the first database there, without a login.
    pub(crate) fn at(place: Place) -> Self {
        RedisUrl {
            place,
            user: None,
            password: None,
            db: 0,
            functions: None,
            #[cfg(feature = "tls")]
            tls: Arc::default(),
        }
    }

    /// Sets the options for TLS, which only an address with TLS may have: no user may take plain text for TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn secure(&mut self, options: &Arc<TlsOptions>) -> Result<(), InvalidInput> {
        options.check()?;
        let is_over_tls = match &self.place {
            Place::Tcp { tls, .. } => *tls,
            Place::Unix(_) => false,
            Place::Watched(sentinels) => sentinels.tls,
        };
        if !is_over_tls {
            return Err(InvalidInput::new(format!(
                "options for TLS are for a rediss:// URL, and {self} is another"
            )));
        }
        self.tls = Arc::clone(options);
        Ok(())
    }
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
    Unix(PathBuf),
    /// The server that the Sentinels name.
    Watched(Sentinels),
}

/// The URL without its login.
impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp { host, port, tls } => {
                let scheme = if *tls { "rediss" } else { "redis" };
                write!(f, "{scheme}://{}/{}", address(host, *port), self.db)
            }
            Place::Unix(path) => write!(f, "redis+unix://{}?db={}", path.display(), self.db),
            Place::Watched(sentinels) => write!(f, "{sentinels}/{}", self.db),
        }
    }
}

debug_as!(RedisUrl, it => "RedisUrl({it})");
