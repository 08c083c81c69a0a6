//! URLs of a server that Sentinels name.

use super::parts::{
    ESCAPES, all_digits, database, decoded, host_and_port, login_of, misread, pairs, refuse,
};
use super::redis_url::{Place, RedisUrl};
use super::sentinels::Sentinels;
use crate::base::error::InvalidInput;

const SENTINEL_PORT: u16 = 26379;
const EXAMPLE: &str = "redis+sentinel://a:26379,b:26379,c:26379/service/0";
/// The most Sentinels: no user runs more, and each may cost a connection that waits for its timeout.
const MOST: usize = 16;

/// `[user:password@]host[:port],…/service[/db][?sentinel_user=…&sentinel_pass=…]`
pub(super) fn watched(rest: &str, tls: bool) -> Result<RedisUrl, InvalidInput> {
    if rest.contains('#') {
        return misread("nothing may follow a # in the URL");
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, places) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login_of(login)?;
    let mut known = Vec::new();
    for place in places.split(',') {
        let place = host_and_port(place, SENTINEL_PORT)?;
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
    add_login(&mut sentinels, query)?;
    Ok(RedisUrl {
        user,
        password,
        db: database(db)?,
        ..RedisUrl::at(Place::Watched(sentinels))
    })
}

/// Checks a name by the rules of Sentinels.
fn name_of(service: &str) -> Result<String, InvalidInput> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if service.is_empty() || service.len() > 128 || !service.chars().all(plain) {
        return refuse(&format!(
            "the URL needs the name under which the Sentinels watch the servers, of letters, digits, dots, dashes and \
             underscores, as in {EXAMPLE}; {ESCAPES}"
        ));
    }
    if all_digits(service) {
        // It would be a database number without a service name.
        return refuse(&format!(
            "the name of the service comes before the number of the database, as in {EXAMPLE}"
        ));
    }
    Ok(service.to_owned())
}

/// Parses the Sentinels' own login, which is seldom that of the servers.
fn add_login(sentinels: &mut Sentinels, query: &str) -> Result<(), InvalidInput> {
    for (key, value) in pairs(query) {
        match key {
            "sentinel_user" => sentinels.user = Some(decoded(value)?),
            "sentinel_pass" => sentinels.password = Some(decoded(value)?),
            "protocol" => {}
            _ => {
                return refuse(&format!(
                    "redis+sentinel:// knows the options sentinel_user and sentinel_pass; {ESCAPES}, %26 for &"
                ));
            }
        }
    }
    if sentinels.user.is_some() && sentinels.password.is_none() {
        return refuse("the URL has a sentinel_user without a password: add &sentinel_pass=…");
    }
    Ok(())
}
