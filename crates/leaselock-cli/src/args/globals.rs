//! The options that stand before or after every verb.

use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};

use super::tls;
use crate::duration;

/// What may stand before or after the verb.
#[derive(Debug, Args)]
pub(crate) struct Globals {
    /// Where the locks live: file: (default), file:///dir, redis://host, rediss://host,
    /// redis+unix:///path, redis+sentinel://host,host/service, redis+cluster://host,host
    ///
    /// Without it the locks lie in ~/.local/state/leaselock (/var/lib/leaselock for root), and
    /// exclude only copies run by the same user on this machine. `file:///dir` shares them between users, `redis://…` between
    /// machines. Three or more servers, an odd number, make a quorum: repeat the option, or name them in
    /// LEASELOCK_URL with spaces between them. A password is better given in LEASELOCK_URL, because
    /// `ps` shows arguments.
    #[arg(long, global = true, value_name = "URL", env = "LEASELOCK_URL", action = ArgAction::Append)]
    #[arg(hide_env_values = true, help_heading = "Global options")]
    url: Vec<String>,

    /// What stands in front of every name on the store, and of the keys and channels of clients
    ///
    /// As in the programs that share the locks, for example `app:`. Names are given and shown
    /// without it. A user who may touch `app:*` only needs it.
    #[arg(
        long,
        global = true,
        value_name = "TEXT",
        env = "LEASELOCK_PREFIX",
        hide_env_values = true
    )]
    #[arg(
        default_value = "",
        hide_default_value = true,
        help_heading = "Global options"
    )]
    pub(crate) prefix: String,

    /// Quorum: the longest --ttl that anybody uses on these servers; all must agree on it
    /// [default: 1m]
    ///
    /// So long a server stays out of votes after it has come up, because it may have forgotten what
    /// it granted.
    #[arg(long, global = true, value_name = "DUR", value_parser = duration::parse)]
    #[arg(
        env = "LEASELOCK_LONGEST_TTL",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub(crate) longest_ttl: Option<Duration>,

    /// Quorum: let servers vote at once after a restart; only when each keeps every write before it
    /// answers (appendfsync always)
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) durable_nodes: bool,

    #[command(flatten)]
    pub(crate) tls: tls::TlsArgs,

    /// Strict mode: the longest ttl that anybody has on this server; everybody must say the same
    ///
    /// After a restart or failover of the server nobody new is granted until all old leases are
    /// over: this long, 1 % of it and 2 s. Whoever waits goes on waiting; what ends sooner exits
    /// 69. See `leaselock strict`.
    #[arg(
        long,
        global = true,
        value_name = "DUR",
        env = "LEASELOCK_STRICT",
        hide_env_values = true
    )]
    #[arg(value_parser = duration::parse, help_heading = "Global options")]
    pub(crate) strict: Option<Duration>,

    /// Call scripts as functions that an administrator has loaded with `functions load`
    ///
    /// For servers on which a user may not send scripts. Needs Redis 7 or later, or Valkey.
    #[arg(
        long,
        global = true,
        env = "LEASELOCK_FUNCTIONS",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    #[arg(value_parser = FalseyValueParser::new())]
    pub(crate) functions: bool,

    /// Print one JSON object a line on standard output
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Tell on standard error how a wait goes on and what becomes of the lock; -vv for the library's events
    ///
    /// Queued behind whom, once each minute, store does not answer, acquired after how long, released. -vvv shows the
    /// events of what the library is built on too. With --json each line is an object.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,

    /// Say nothing on standard error but errors
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Global options"
    )]
    pub(crate) quiet: bool,
}

impl Globals {
    /// The store's URL, the first of several; an empty one, as from `LEASELOCK_URL=`, counts as not given.
    pub(crate) fn url(&self) -> &str {
        self.urls().first().copied().unwrap_or("file:")
    }

    /// The longest ttl that the store allows, when it has such a limit.
    pub(crate) fn longest(&self) -> Option<Duration> {
        match self.urls().len() {
            0 | 1 => self.strict,
            _ => Some(self.longest_ttl.unwrap_or(leaselock::LONGEST_TTL)),
        }
    }

    /// All URLs that were given. Those of servers have no spaces in them, and paths may.
    pub(crate) fn urls(&self) -> Vec<&str> {
        self.url.iter().flat_map(|url| parts(url)).collect()
    }
}

fn parts(urls: &str) -> Vec<&str> {
    if urls.trim_start().starts_with("redis") {
        return urls.split_whitespace().collect();
    }
    let one = Some(urls).filter(|url| !url.is_empty());
    one.into_iter().collect()
}
