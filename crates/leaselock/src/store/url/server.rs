//! URLs of one server, by its address or its socket, and of the nodes of a cluster.

use super::parts::{
    ESCAPES, absolute, database, decoded, host_and_port, login_of, misread, pairs, refuse,
};
use super::redis_url::{Place, RedisUrl};
use crate::base::error::InvalidInput;

const DEFAULT_PORT: u16 = 6379;

/// `[user[:password]@]host[:port][/db]`
pub(super) fn network(rest: &str, tls: bool) -> Result<RedisUrl, InvalidInput> {
    match rest.split_once('#') {
        None => {}
        Some((_, "insecure")) => {
            return refuse(
                "#insecure is not supported: a certificate that is not checked keeps no attacker out; \
                 add the server's authority to the system's roots or name it in SSL_CERT_FILE",
            );
        }
        Some(_) => return misread("nothing may follow a # in the URL"),
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    for (key, _) in pairs(query) {
        if key != "protocol" {
            return misread("options after a ? are known for redis+unix:// only");
        }
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login_of(login)?;
    let (host, port) = host_and_port(place, DEFAULT_PORT)?;
    Ok(RedisUrl {
        user,
        password,
        db: database(path)?,
        ..RedisUrl::at(Place::Tcp { host, port, tls })
    })
}

/// `/path[?db=N&user=U&pass=P]`
pub(super) fn unix(rest: &str) -> Result<RedisUrl, InvalidInput> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = absolute(
        path,
        "redis+unix:// needs the absolute path of a socket, as in redis+unix:///run/redis.sock",
    )?;
    let mut url = RedisUrl::at(Place::Unix(path));
    for (key, value) in pairs(query) {
        match key {
            "db" => url.db = database(value)?,
            "user" => url.user = Some(decoded(value)?),
            "pass" => url.password = Some(decoded(value)?),
            "protocol" => {}
            _ => {
                return refuse(&format!(
                    "redis+unix:// knows the options db, user and pass; {ESCAPES}, %26 for &"
                ));
            }
        }
    }
    if url.user.is_some() && url.password.is_none() {
        return refuse("the URL has a user without a password: add &pass=…");
    }
    Ok(url)
}

/// `[user[:password]@]host[:port],host[:port],…`: some of the nodes. All have the same login.
pub(super) fn cluster(rest: &str, tls: bool) -> Result<Vec<RedisUrl>, InvalidInput> {
    if rest.contains(['#', '?']) {
        return misread("nothing may follow a # or ? in the URL of a cluster");
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(path, "" | "0") {
        return misread("a cluster has one database, 0: leave out what follows the hosts");
    }
    let (login, places) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login_of(login)?;
    let node = |place: &str| {
        let (host, port) = host_and_port(place, DEFAULT_PORT)?;
        Ok(RedisUrl {
            user: user.clone(),
            password: password.clone(),
            ..RedisUrl::at(Place::Tcp { host, port, tls })
        })
    };
    places.split(',').map(node).collect()
}
