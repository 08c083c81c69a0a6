//! The options that stand before or after every verb.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, ValueHint};

use super::tls;
use crate::duration;

/// The options of every verb. Those for servers alone are left out of the short help.
#[derive(Debug, Clone, Args)]
pub(crate) struct Globals {
    /// Where locks are kept [default: a folder of this user]
    ///
    /// file: (default), file:///dir, redis://host, rediss://host, redis+unix:///path,
    /// redis+sentinel://host,host/service, redis+cluster://host,host
    ///
    /// The default is a private folder on this machine: ~/.local/state/leaselock, and
    /// /var/lib/leaselock for root. So processes of different users do not exclude each other. Use
    /// `file:///srv/locks` to share locks between users, `redis://…` to share them between machines.
    /// `status -v` and `doctor` name the folder.
    ///
    /// An odd number of servers, three or more, is a quorum: repeat the option, or separate the URLs
    /// in LEASELOCK_URL by spaces. Put a password into LEASELOCK_URL, because `ps` shows arguments.
    #[arg(long, global = true, value_name = "URL", env = "LEASELOCK_URL", action = ArgAction::Append)]
    #[arg(hide_env_values = true, help_heading = "Global options")]
    url: Vec<String>,

    /// Read the URLs from this file, one a line
    ///
    /// For a credential of systemd, a secret of Kubernetes or Docker. Blank lines and those that begin with
    /// # are passed over; three or more URLs are a quorum. An option goes before a variable, and
    /// LEASELOCK_URL_FILE before LEASELOCK_URL.
    #[arg(long, global = true, value_name = "FILE", env = "LEASELOCK_URL_FILE")]
    #[arg(
        hide_env_values = true,
        help_heading = "Global options",
        hide_short_help = true
    )]
    #[arg(value_hint = ValueHint::FilePath)]
    url_file: Option<OsString>,

    /// Prefix of every lock name, client key and channel on the store
    ///
    /// Use that of the programs that share the locks, for example `app:`. Names are given and shown
    /// without it. A user with rights on `app:*` needs no other rights.
    #[arg(
        long,
        global = true,
        value_name = "TEXT",
        env = "LEASELOCK_PREFIX",
        hide_env_values = true
    )]
    #[arg(default_value = "", hide_default_value = true)]
    #[arg(help_heading = "Global options", hide_short_help = true)]
    pub(crate) prefix: String,

    /// Quorum: the longest --ttl that any client uses on these servers; all must agree on it
    /// [default: 1m]
    ///
    /// A server that has just started does not vote for this long, because it may have forgotten its
    /// grants.
    #[arg(long, global = true, value_name = "DUR", value_parser = duration::parse)]
    #[arg(env = "LEASELOCK_LONGEST_TTL", hide_env_values = true)]
    #[arg(help_heading = "Server options", hide_short_help = true)]
    pub(crate) longest_ttl: Option<Duration>,

    /// Quorum: let a restarted server vote at once; only if each writes to disk before it answers
    /// (appendfsync always)
    #[arg(long, global = true)]
    #[arg(help_heading = "Server options", hide_short_help = true)]
    pub(crate) durable_nodes: bool,

    #[command(flatten)]
    pub(crate) tls: tls::TlsArgs,

    /// Strict mode: the longest ttl of any client of this server; all must agree on it
    ///
    /// After a restart or failover the server grants no lock until all old leases have expired: after
    /// this long, 1 % of it and 2 s. A longer wait continues; a shorter one exits 69. See
    /// `leaselock strict`.
    #[arg(
        long,
        global = true,
        value_name = "DUR",
        env = "LEASELOCK_STRICT",
        hide_env_values = true
    )]
    #[arg(value_parser = duration::parse)]
    #[arg(help_heading = "Server options", hide_short_help = true)]
    pub(crate) strict: Option<Duration>,

    /// Call scripts as functions that an administrator has loaded with `functions load`
    ///
    /// For servers on which the user may not send scripts. Needs Redis 7 or later, or Valkey.
    #[arg(
        long,
        global = true,
        env = "LEASELOCK_FUNCTIONS",
        hide_env_values = true
    )]
    #[arg(value_parser = FalseyValueParser::new())]
    #[arg(help_heading = "Server options", hide_short_help = true)]
    pub(crate) functions: bool,

    /// Print one JSON object per line
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Report waiting, grant and release; -vv: more
    ///
    /// On standard error: position and holder at the start and then every minute, failed polls, the
    /// wait until the grant, and the release. -vv adds what the library and its dependencies say for
    /// debugging, -vvv all that they say. With --json each line is an object.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,

    /// Print nothing but errors on standard error
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
    /// Decides between the URLs and the file: an option goes before a variable, and the file before `LEASELOCK_URL`. Of
    /// two options neither can be right. An empty variable counts as not given.
    pub(super) fn settle(&mut self, found: &ArgMatches) -> Result<(), &'static str> {
        let is_option = |id| found.value_source(id) == Some(ValueSource::CommandLine);
        let is_empty = self.url_file.as_ref().is_some_and(|file| file.is_empty());
        match (is_option("url"), is_option("url_file")) {
            (true, true) => Err(
                "--url and --url-file: each says where the locks are; give one of them. A quorum has all its URLs in the \
                 file, one a line",
            ),
            (false, true) if is_empty => {
                Err("--url-file: the name of the file is empty; give one, or --url")
            }
            (takes_url, _) => {
                if takes_url || is_empty {
                    self.url_file = None;
                }
                Ok(())
            }
        }
    }

    /// The file that has the URLs, if there is one.
    pub(crate) fn url_file(&self) -> Option<&Path> {
        self.url_file.as_deref().map(Path::new)
    }

    /// These URLs take the place of those that were given.
    pub(crate) fn take_urls(&mut self, urls: Vec<String>) {
        self.url = urls;
    }

    /// The URLs as they were given.
    pub(crate) fn given_urls(&self) -> &[String] {
        &self.url
    }

    /// The store's URL, the first of several; an empty one, as from `LEASELOCK_URL=`, counts as not given.
    pub(crate) fn url(&self) -> &str {
        self.urls().first().copied().unwrap_or("file:")
    }

    /// The longest ttl that the store allows, when it has such a limit.
    pub(crate) fn longest(&self) -> Option<Duration> {
        match self.urls().len() {
            0 | 1 => self.strict,
            _ => Some(
                self.longest_ttl
                    .unwrap_or(leaselock::options::DEFAULT_LONGEST_TTL),
            ),
        }
    }

    /// All URLs that were given. Those of servers have no spaces in them, and paths may.
    pub(crate) fn urls(&self) -> Vec<&str> {
        self.url.iter().flat_map(|url| parts(url)).collect()
    }
}

fn parts(urls: &str) -> Vec<&str> {
    let urls_of_servers = ["redis", "valkey"];
    if urls_of_servers
        .iter()
        .any(|scheme| urls.trim_start().starts_with(scheme))
    {
        return urls.split_whitespace().collect();
    }
    let one = Some(urls).filter(|url| !url.is_empty());
    one.into_iter().collect()
}
