//! The Sentinels that a URL names.

use std::fmt;

use super::parts::address;
use crate::base::shorthand::debug_as;

/// The Sentinels, which know the primary's address. Neither `Debug` nor `Display` shows their login.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// The first Sentinels to ask: they know the others.
    pub(crate) known: Vec<(String, u16)>,
    pub(crate) service: String,
    /// True if Sentinels and servers use TLS.
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// The URL without logins and database.
impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let places: Vec<_> = self
            .known
            .iter()
            .map(|(host, port)| address(host, *port))
            .collect();
        write!(
            f,
            "{scheme}+sentinel://{}/{}",
            places.join(","),
            self.service
        )
    }
}

debug_as!(Sentinels, it => "Sentinels({it})");
