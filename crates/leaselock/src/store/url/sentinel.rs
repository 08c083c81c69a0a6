//! URLs of a server that Sentinels name.

use std::fmt;

use super::{
    ESCAPES, Place, RedisUrl, address, all_digits, database, decoded, host_and_port, login_of,
    pairs, refuse,
};
use crate::base::error::InvalidInput;

const DEFAULT_PORT: u16 = 26379;
const EXAMPLE: &str = "redis+sentinel://a:26379,b:26379,c:26379/service/0";
/// More are none that anybody runs; each may cost a connection that waits for its time-out.
const MOST: usize = 16;

/// Who tells where the primary is. Neither `Debug` nor `Display` shows their login.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// Those to begin with: they know of the others.
    pub(crate) known: Vec<(String, u16)>,
    pub(crate) service: String,
    /// Of the Sentinels and of the servers alike.
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// `[user:password@]host[:port],…/service[/db][?sentinel_user=…&sentinel_pass=…]`
pub(super) fn parse(rest: &str, tls: bool) -> Result<RedisUrl, InvalidInput> {
    if rest.contains('#') {
        return refuse(&format!("nothing may follow a # in the URL; {ESCAPES}"));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, places) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login_of(login)?;
    let mut known = Vec::new();
    for place in places.split(',') {
        let place = host_and_port(place, DEFAULT_PORT)?;
        if !known.contains(&place) {
            known.push(place);
        }
    }
    if known.len() > MOST {
        return refuse(&format!(
            "the URL names more than {MOST} Sentinels: some of them are enough"
        ));
    }
    let (service, db) = path.split_once('/').unwrap_or((path, ""));
    let mut sentinels = Sentinels {
        known,
        service: name_of(service)?,
        tls,
        user: None,
        password: None,
    };
    sentinels.login(query)?;
    Ok(RedisUrl {
        place: Place::Watched(sentinels),
        user,
        password,
        db: database(db)?,
        #[cfg(feature = "redis")]
        functions: None,
        #[cfg(feature = "tls")]
        tls: std::sync::Arc::default(),
    })
}

/// What Sentinels take for a name.
fn name_of(service: &str) -> Result<String, InvalidInput> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if service.is_empty() || service.len() > 128 || !service.chars().all(plain) {
        return refuse(&format!(
            "the URL needs the name under which the Sentinels watch the servers, of letters, digits, dots, dashes and \
             underscores, as in {EXAMPLE}; {ESCAPES}"
        ));
    }
    if all_digits(service) {
        // It would be a number of a database whose service was forgotten.
        return refuse(&format!(
            "the name of the service comes before the number of the database, as in {EXAMPLE}"
        ));
    }
    Ok(service.to_owned())
}

impl Sentinels {
    /// Their own login, because it is seldom that of the servers.
    fn login(&mut self, query: &str) -> Result<(), InvalidInput> {
        for (key, value) in pairs(query) {
            match key {
                "sentinel_user" => self.user = Some(decoded(value)?),
                "sentinel_pass" => self.password = Some(decoded(value)?),
                "protocol" => {}
                _ => {
                    return refuse(&format!(
                        "redis+sentinel:// knows the options sentinel_user and sentinel_pass; {ESCAPES}, %26 for &"
                    ));
                }
            }
        }
        if self.user.is_some() && self.password.is_none() {
            return refuse("the URL has a sentinel_user without a password: add &sentinel_pass=…");
        }
        Ok(())
    }
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

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sentinels({self})")
    }
}
