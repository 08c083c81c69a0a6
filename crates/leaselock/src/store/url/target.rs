//! What a URL names: a server, a cluster, a folder or memory.

use std::path::PathBuf;

use super::parts::{absolute, refuse};
use super::redis_url::RedisUrl;
use super::{sentinel, server};
use crate::base::error::InvalidInput;

/// What a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A Redis or Valkey server.
    Redis(RedisUrl),
    /// Some nodes of a cluster, which know the others.
    Cluster(Vec<RedisUrl>),
    /// A folder of lock files; `None` is the default one.
    Folder(Option<PathBuf>),
    /// The memory of this process, by name.
    Memory(String),
}

impl Target {
    /// Names the feature that this build lacks.
    #[cfg(not(all(feature = "redis", feature = "embedded")))]
    pub(crate) fn not_built_in(&self) -> String {
        let feature = match self {
            Target::Redis(_) | Target::Cluster(_) => "redis",
            Target::Folder(_) | Target::Memory(_) => "embedded",
        };
        format!("this build cannot use such a store: switch on the feature `{feature}`")
    }
}

const FORMS: &str = "redis://[user:password@]host[:port][/db], rediss://… for TLS, redis+unix:///path[?db=&user=&pass=], \
                     redis+sentinel://[user:password@]sentinel[:port],…/service[/db], \
                     redis+cluster://[user:password@]host[:port],host[:port],… for a cluster, file: or file:///folder, mem: or mem:name";

/// Parses a URL, or returns a message that says what would be right.
pub(crate) fn parse(url: &str) -> Result<Target, InvalidInput> {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let scheme = match scheme.strip_prefix("valkey") {
        Some(kind) => format!("redis{kind}"),
        None => scheme.to_owned(),
    };
    let tls = scheme.starts_with("rediss");
    let parsed = match (scheme.as_str(), rest.strip_prefix("//")) {
        ("file", _) => return folder(rest),
        ("mem", _) => return memory(rest),
        ("redis" | "rediss", Some(rest)) => server::network(rest, tls).map(Target::Redis),
        ("redis+sentinel" | "rediss+sentinel", Some(rest)) => {
            sentinel::watched(rest, tls).map(Target::Redis)
        }
        ("redis+unix", Some(rest)) => server::unix(rest).map(Target::Redis),
        ("redis+cluster" | "rediss+cluster", Some(rest)) => {
            server::cluster(rest, tls).map(Target::Cluster)
        }
        _ => {
            let unknown = || format!("this is none of the URLs that name a store: {FORMS}");
            return refuse(&nearly(url).unwrap_or_else(unknown));
        }
    };
    is_built_in(tls).and(parsed) // what the build lacks comes before what is wrong in the URL
}

/// What is missing in front of an address or a path. It repeats no part of it.
fn nearly(url: &str) -> Option<String> {
    let in_address = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if url.starts_with(['/', '.', '~']) {
        Some(
            "this is a path: put file:// in front of an absolute one, as in file:///srv/locks"
                .into(),
        )
    } else if !url.is_empty() && url.chars().all(in_address) {
        Some("this is a host and port: put redis:// in front, as in redis://host:6379".into())
    } else {
        None
    }
}

fn is_built_in(tls: bool) -> Result<(), InvalidInput> {
    if !cfg!(feature = "redis") {
        return refuse("this build has no Redis in it: switch on the feature `redis`");
    }
    if tls && !cfg!(feature = "tls") {
        return refuse("this build has no TLS in it: switch on the feature `tls`");
    }
    Ok(())
}

fn folder(rest: &str) -> Result<Target, InvalidInput> {
    if rest.is_empty() {
        return Ok(Target::Folder(None));
    }
    let wrong = "a folder is file: for the usual place, or its absolute path after file:, as in file:///srv/locks";
    let path = rest.strip_prefix("//").unwrap_or(rest);
    absolute(path, wrong).map(|path| Target::Folder(Some(path)))
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
