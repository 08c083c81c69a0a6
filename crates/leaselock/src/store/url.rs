//! The URLs that name a store.
//!
//! No message repeats any part of the URL: a password with an unescaped character in it ends up anywhere, in the host,
//! the port or the path.

pub(crate) mod sentinel;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::base::error::InvalidInput;

/// What a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A Redis or Valkey server.
    Redis(RedisUrl),
    /// Some nodes of a cluster, by which the others are found.
    Cluster(Vec<RedisUrl>),
    /// A folder of lock files; `None` is the default one.
    Folder(Option<PathBuf>),
    /// The memory of this process, by name.
    Memory(String),
}

impl Target {
    /// Which feature a build without it would need.
    #[cfg(not(all(feature = "redis", feature = "embedded")))]
    pub(crate) fn not_built_in(&self) -> String {
        let feature = match self {
            Target::Redis(_) | Target::Cluster(_) => "redis",
            Target::Folder(_) | Target::Memory(_) => "embedded",
        };
        format!("this build cannot use such a store: switch on the feature `{feature}`")
    }
}

/// Where a server is and how to log in. Neither `Debug` nor `Display` shows the login.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisUrl {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: u32,
    /// Scripts are called as functions of this library.
    #[cfg(feature = "redis")]
    pub(crate) functions: Option<&'static crate::script::library::Library>,
    /// For a place with TLS.
    #[cfg(feature = "tls")]
    pub(crate) tls: std::sync::Arc<super::redis::TlsOptions>,
}

impl RedisUrl {
    #[cfg(feature = "tls")]
    pub(crate) fn is_over_tls(&self) -> bool {
        match &self.place {
            Place::Tcp { tls, .. } => *tls,
            Place::Unix(_) => false,
            Place::Watched(sentinels) => sentinels.tls,
        }
    }

    /// With these options, which only a place with TLS may have: nobody is to take plain text for TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn secure(
        &mut self,
        options: &std::sync::Arc<super::redis::TlsOptions>,
    ) -> Result<(), InvalidInput> {
        options.check()?;
        if !self.is_over_tls() {
            return Err(InvalidInput::new(format!(
                "options for TLS are for a rediss:// URL, and {self} is another"
            )));
        }
        self.tls = std::sync::Arc::clone(options);
        Ok(())
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
    Unix(PathBuf),
    /// On whichever server the Sentinels name.
    Watched(sentinel::Sentinels),
}

const FORMS: &str = "redis://[user:password@]host[:port][/db], rediss://… for TLS, redis+unix:///path[?db=&user=&pass=], \
                     redis+sentinel://[user:password@]sentinel[:port],…/service[/db], \
                     redis+cluster://[user:password@]host[:port],host[:port],… for a cluster, file: or file:///folder, mem: or mem:name";
const DEFAULT_PORT: u16 = 6379;
/// What a browser and `url` crates escape as well; raw, they would move the borders between the parts.
const ESCAPES: &str = "special characters in a user or password are written as %40 for @, %2F for /, %3A for :, \
                       %23 for #, %3F for ?, %25 for %";

/// What the URL names, or a message that says what would be right.
pub(crate) fn parse(url: &str) -> Result<Target, InvalidInput> {
    if let Some(rest) = url.strip_prefix("redis://") {
        redis_is_built_in()?;
        network(rest, false).map(Target::Redis)
    } else if let Some(rest) = url.strip_prefix("rediss://") {
        redis_is_built_in()?;
        tls_is_built_in()?;
        network(rest, true).map(Target::Redis)
    } else if let Some(rest) = url.strip_prefix("redis+sentinel://") {
        redis_is_built_in()?;
        sentinel::parse(rest, false).map(Target::Redis)
    } else if let Some(rest) = url.strip_prefix("rediss+sentinel://") {
        redis_is_built_in()?;
        tls_is_built_in()?;
        sentinel::parse(rest, true).map(Target::Redis)
    } else if let Some(rest) = url.strip_prefix("redis+unix://") {
        redis_is_built_in()?;
        unix(rest).map(Target::Redis)
    } else if let Some(rest) = url.strip_prefix("redis+cluster://") {
        redis_is_built_in()?;
        cluster(rest, false).map(Target::Cluster)
    } else if let Some(rest) = url.strip_prefix("rediss+cluster://") {
        redis_is_built_in()?;
        tls_is_built_in()?;
        cluster(rest, true).map(Target::Cluster)
    } else if let Some(rest) = url.strip_prefix("file:") {
        folder(rest)
    } else if let Some(name) = url.strip_prefix("mem:") {
        memory(name)
    } else {
        refuse(&format!(
            "this is none of the URLs that name a store: {FORMS}"
        ))
    }
}

fn refuse<T>(message: &str) -> Result<T, InvalidInput> {
    Err(InvalidInput::new(message.to_owned()))
}

fn redis_is_built_in() -> Result<(), InvalidInput> {
    if cfg!(feature = "redis") {
        Ok(())
    } else {
        refuse("this build has no Redis in it: switch on the feature `redis`")
    }
}

fn tls_is_built_in() -> Result<(), InvalidInput> {
    if cfg!(feature = "tls") {
        Ok(())
    } else {
        refuse("this build has no TLS in it: switch on the feature `tls`")
    }
}

/// `[user[:password]@]host[:port],host[:port],…`: some of the nodes. All have the same login.
fn cluster(rest: &str, tls: bool) -> Result<Vec<RedisUrl>, InvalidInput> {
    if rest.contains(['#', '?']) {
        return refuse(&format!(
            "nothing may follow a # or ? in the URL of a cluster; {ESCAPES}"
        ));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(path, "" | "0") {
        return refuse(&format!(
            "a cluster has one database, 0: leave out what follows the hosts; {ESCAPES}"
        ));
    }
    let (login, places) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login_of(login)?;
    let node = |place: &str| {
        let (host, port) = host_and_port(place, DEFAULT_PORT)?;
        Ok(RedisUrl {
            place: Place::Tcp { host, port, tls },
            user: user.clone(),
            password: password.clone(),
            db: 0,
            #[cfg(feature = "redis")]
            functions: None,
            #[cfg(feature = "tls")]
            tls: std::sync::Arc::default(),
        })
    };
    places.split(',').map(node).collect()
}

/// `[user[:password]@]host[:port][/db]`
fn network(rest: &str, tls: bool) -> Result<RedisUrl, InvalidInput> {
    let (rest, fragment) = rest
        .split_once('#')
        .map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    match fragment {
        None => {}
        Some("insecure") => {
            return refuse(
                "#insecure is not supported: a certificate that nobody checks keeps nobody out; \
                 add the server's authority to the system's roots or name it in SSL_CERT_FILE",
            );
        }
        Some(_) => return refuse(&format!("nothing may follow a # in the URL; {ESCAPES}")),
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    for (key, _) in pairs(query) {
        if key != "protocol" {
            return refuse(&format!(
                "options after a ? are known for redis+unix:// only; {ESCAPES}"
            ));
        }
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login_of(login)?;
    let (host, port) = host_and_port(place, DEFAULT_PORT)?;
    Ok(RedisUrl {
        place: Place::Tcp { host, port, tls },
        user,
        password,
        db: database(path)?,
        #[cfg(feature = "redis")]
        functions: None,
        #[cfg(feature = "tls")]
        tls: std::sync::Arc::default(),
    })
}

fn login_of(login: &str) -> Result<(Option<String>, Option<String>), InvalidInput> {
    let raw = |c: char| c.is_whitespace() || c.is_control() || c == '@' || c == '[' || c == ']';
    if login.contains(raw) {
        return refuse(&format!(
            "the user or password has a character that must be escaped; {ESCAPES}"
        ));
    }
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (decoded(user)?, decoded(password)?),
        None if login.is_empty() => return Ok((None, None)),
        None => {
            return refuse(
                "the URL has a user without a password: write user:password@host, or :password@host",
            );
        }
    };
    Ok(match (user.is_empty(), password.is_empty()) {
        (true, true) => (None, None),
        (true, false) => (None, Some(password)),
        (false, _) => (Some(user), Some(password)), // an empty password is that of a user with `nopass`
    })
}

fn host_and_port(place: &str, usual: u16) -> Result<(String, u16), InvalidInput> {
    let (host, port) = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => {
            (address, rest.strip_prefix(':').or(non_empty(rest)))
        }
        Some(_) => {
            return refuse("the brackets must hold an IPv6 address, as in redis://[::1]:6379");
        }
        None => place
            .split_once(':')
            .map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() || host.len() > 253 || !(place.starts_with('[') || host.chars().all(plain)) {
        return refuse(&format!(
            "the URL needs a host name or address, as in redis://host:6379; {ESCAPES}"
        ));
    }
    let port = match port {
        None => usual,
        Some(digits) => match digits.parse() {
            Ok(port) if port > 0 && all_digits(digits) => port,
            _ => {
                return refuse(&format!(
                    "the port must be a number from 1 to 65535; {ESCAPES}"
                ));
            }
        },
    };
    Ok((host.to_owned(), port))
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Servers count databases from 0; how many there are is theirs to say.
fn database(path: &str) -> Result<u32, InvalidInput> {
    match path {
        "" => Ok(0),
        digits if all_digits(digits) && digits.len() <= 6 => digits
            .parse()
            .or_else(|_| refuse("the database must be a number")),
        _ => refuse(&format!(
            "what follows the host must be the number of a database, as in redis://host/0; {ESCAPES}"
        )),
    }
}

/// `/path[?db=N&user=U&pass=P]`
fn unix(rest: &str) -> Result<RedisUrl, InvalidInput> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = absolute(
        path,
        "redis+unix:// needs the absolute path of a socket, as in redis+unix:///run/redis.sock",
    )?;
    let mut url = RedisUrl {
        place: Place::Unix(path),
        user: None,
        password: None,
        db: 0,
        #[cfg(feature = "redis")]
        functions: None,
        #[cfg(feature = "tls")]
        tls: std::sync::Arc::default(),
    };
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

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn folder(rest: &str) -> Result<Target, InvalidInput> {
    if rest.is_empty() {
        return Ok(Target::Folder(None));
    }
    let wrong = "a folder is file: for the usual place, or its absolute path after file://, as in file:///srv/locks";
    match rest.strip_prefix("//") {
        Some(path) => absolute(path, wrong).map(|path| Target::Folder(Some(path))),
        None => refuse(wrong),
    }
}

fn memory(name: &str) -> Result<Target, InvalidInput> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.len() <= 128 && name.chars().all(plain) {
        Ok(Target::Memory(name.to_owned()))
    } else {
        refuse(
            "a store in memory is mem: or mem:name, the name at most 128 letters, digits, dots, dashes and underscores",
        )
    }
}

fn absolute(path: &str, wrong: &str) -> Result<PathBuf, InvalidInput> {
    let bytes = unescaped(path).filter(|bytes| bytes.starts_with(b"/") && !bytes.contains(&0));
    if path.contains(['?', '#']) {
        return refuse(&format!("{wrong}; ? is written as %3F and # as %23"));
    }
    bytes
        .map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
        .ok_or_else(|| InvalidInput::new(wrong.to_owned()))
}

fn decoded(text: &str) -> Result<String, InvalidInput> {
    let bytes = unescaped(text).and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.ok_or_else(|| {
        InvalidInput::new(format!(
            "a % in the URL is not followed by two hex digits of UTF-8; {ESCAPES}"
        ))
    })
}

/// `%41` becomes `A`. A plus sign stays one.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

/// As it stands in a URL.
pub(crate) fn address(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
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

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}
