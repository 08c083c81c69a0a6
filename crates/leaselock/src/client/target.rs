//! Which store a builder's URLs or connection mean, with what the store is told.

use std::time::Duration;

use super::settings::{self, Settings};
use crate::base::clock::{TTL_MAX, TTL_MIN};
use crate::base::{ClientId, Drift, InvalidInput, span};
use crate::quorum::executor::Executor;
use crate::quorum::group::QuorumStore;
use crate::quorum::member::NodeTerms;
use crate::store::url::{RedisUrl, Target};
use crate::store::{EmbeddedStore, RedisStore, url};

/// The default longest ttl on a majority of servers: a minute.
///
/// Six times the default ttl, and a bearable delay for a server after its restart.
pub const DEFAULT_LONGEST_TTL: Duration = Duration::from_secs(60);
/// A slower server is of no use to a lease of ten seconds; a request waits so long only if too few others reply.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// More servers add no safety and slow every request.
const NODES_MAX: usize = 21;

pub(super) enum StoreSource {
    Urls(Vec<String>),
    Store(Result<Box<RedisStore>, InvalidInput>),
}

impl Default for StoreSource {
    fn default() -> Self {
        StoreSource::Urls(Vec::new())
    }
}

/// Which store, and how it is used.
#[derive(Default)]
pub(super) struct StoreTerms {
    pub(super) source: StoreSource,
    /// True if leases in a folder do not end with this process.
    pub(super) outlives_process: bool,
    pub(super) majority: MajorityTerms,
}

/// What was set for a majority, and is refused for one store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MajorityTerms {
    pub(super) node_timeout: Option<Duration>,
    pub(super) longest_ttl: Option<Duration>,
    pub(super) durable_nodes: bool,
}

impl StoreTerms {
    pub(super) fn store(
        &self,
        settings: &Settings,
        id: &ClientId,
    ) -> Result<Executor, InvalidInput> {
        match &self.source {
            StoreSource::Urls(urls) if urls.len() > 1 => self.majority(settings, urls),
            _ if self.majority != MajorityTerms::default() => Err(InvalidInput::new(
                "node_timeout, longest_ttl and durable_nodes are for a majority of servers, and this is one store",
            )),
            StoreSource::Urls(urls) => {
                let url = urls.first().map_or("", String::as_str);
                let mut target = url::parse(url).map_err(|wrong| refused(url, wrong))?;
                settings.tell(servers(&mut target))?;
                self.store_at(target, settings, id)
            }
            StoreSource::Store(Ok(_)) if settings.functions.is_some() => {
                Err(settings::functions_need_a_url())
            }
            #[cfg(feature = "tls")]
            StoreSource::Store(Ok(_)) if settings.tls.is_some() => Err(InvalidInput::new(
                "a client or connection that is handed in has TLS settings of its own: use a rediss:// URL",
            )),
            StoreSource::Store(Ok(store)) => Ok(Executor::redis((**store).clone())),
            StoreSource::Store(Err(unusable)) => Err(unusable.clone()),
        }
    }

    /// Returns the servers as one store.
    fn majority(&self, settings: &Settings, urls: &[String]) -> Result<Executor, InvalidInput> {
        let mut nodes = nodes(urls)?;
        settings.tell(&mut nodes)?;
        let terms = self.majority.checked(settings.drift())?;
        #[cfg(feature = "redis")]
        let servers = nodes.into_iter().map(RedisStore::from_url).collect();
        #[cfg(not(feature = "redis"))]
        let servers = match nodes.pop() {
            Some(node) => return Err(InvalidInput::new(Target::Redis(node).not_built_in())),
            None => Vec::new(),
        };
        Ok(Executor::Majority(QuorumStore::new(servers, terms)))
    }

    fn store_at(
        &self,
        target: Target,
        settings: &Settings,
        id: &ClientId,
    ) -> Result<Executor, InvalidInput> {
        match target {
            #[cfg(feature = "redis")]
            Target::Redis(server) => Ok(Executor::redis(RedisStore::from_url(server))),
            #[cfg(feature = "redis")]
            Target::Cluster(nodes) => Ok(Executor::redis(RedisStore::from_nodes(nodes))),
            #[cfg(feature = "embedded")]
            Target::Folder(folder) => {
                let (clock, session) = (settings.clock(), !self.outlives_process);
                Ok(Executor::embedded(match folder {
                    Some(folder) => EmbeddedStore::folder(&folder, clock, id, session),
                    None => EmbeddedStore::default_folder(clock, id, session),
                }))
            }
            #[cfg(feature = "embedded")]
            Target::Memory(name) => Ok(Executor::embedded(EmbeddedStore::memory(
                &name,
                settings.clock(),
            ))),
            #[cfg(not(all(feature = "redis", feature = "embedded")))]
            missing => Err(InvalidInput::new(missing.not_built_in())),
        }
    }
}

fn servers(target: &mut Target) -> &mut [RedisUrl] {
    match target {
        Target::Redis(server) => std::slice::from_mut(server),
        Target::Cluster(nodes) => nodes,
        Target::Folder(_) | Target::Memory(_) => &mut [],
    }
}

impl MajorityTerms {
    fn checked(&self, drift: Drift) -> Result<NodeTerms, InvalidInput> {
        let longest = self.longest_ttl.unwrap_or(DEFAULT_LONGEST_TTL);
        let node_timeout = self.node_timeout.unwrap_or(NODE_TIMEOUT);
        if !(TTL_MIN..=TTL_MAX).contains(&longest) {
            return Err(InvalidInput::new(format!(
                "longest ttl {} is out of range: from 10 ms to 30 days (a minute is the default)",
                span(longest)
            )));
        }
        if node_timeout.is_zero() {
            let wrong = "a node timeout of zero leaves no time for an answer";
            return Err(InvalidInput::new(wrong));
        }
        Ok(NodeTerms {
            node_timeout,
            longest,
            delayed_restart: !self.durable_nodes,
            drift,
        })
    }
}

/// Returns the URLs of a text. Only those of servers are separated by white space: a folder may have it in its name.
pub(super) fn urls_in(text: &str) -> Vec<String> {
    match text.trim_start().split_once("://").unwrap_or_default().0 {
        "redis" | "rediss" | "redis+unix" | "valkey" | "valkeys" | "valkey+unix" => {
            text.split_whitespace().map(str::to_owned).collect()
        }
        _ => vec![text.to_owned()],
    }
}

/// Parses the URLs: an odd number of different servers, at least three.
fn nodes(urls: &[String]) -> Result<Vec<RedisUrl>, InvalidInput> {
    let count = urls.len();
    if count < 3 || count.is_multiple_of(2) || count > NODES_MAX {
        let why = match count {
            0..3 => "a majority of fewer than three is lost with the first of them",
            even if even.is_multiple_of(2) => {
                "an even number tolerates no more failures than one less"
            }
            _ => "more make nothing safer",
        };
        return Err(InvalidInput::new(format!(
            "a quorum of {count} servers: {why}; name an odd number from 3 to {NODES_MAX}, such as 3 or 5"
        )));
    }
    let mut nodes: Vec<RedisUrl> = Vec::with_capacity(count);
    for (index, url) in urls.iter().enumerate() {
        let target = url::parse(url).map_err(|wrong| refused(url, wrong))?;
        let Target::Redis(node) = target else {
            return Err(InvalidInput::new(
                "a quorum consists of servers: name redis://, rediss:// or redis+unix:// URLs",
            ));
        };
        let same = |other: &RedisUrl| other.place == node.place;
        if let Some(first) = nodes.iter().position(same) {
            return Err(InvalidInput::new(format!(
                "nodes {} and {} are one server, {node}: name another, because one that is listed twice has one vote",
                first + 1,
                index + 1
            )));
        }
        nodes.push(node);
    }
    Ok(nodes)
}

/// Returns what to do in place of what was refused, when the text names several servers. It repeats no part of it.
fn refused(url: &str, wrong: InvalidInput) -> InvalidInput {
    if cfg!(feature = "redis") && names_several_servers(url) {
        InvalidInput::new(SEVERAL_SERVERS)
    } else {
        wrong
    }
}

const SEVERAL_SERVERS: &str = "several servers are named by a URL each, separated by spaces: for locks on a majority of \
    them use Client::open(\"redis://one redis://two redis://three\"); redis+cluster:// names nodes of a cluster, and \
    redis+sentinel:// names Sentinels";

/// True for URLs in one list, for hosts in one URL of one server, and for a scheme that is called after a quorum.
fn names_several_servers(url: &str) -> bool {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        let (scheme, _) = url.split_once(':').unwrap_or(("", url));
        return is_of_a_quorum(scheme);
    };
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts); // a password may have any of these
    let is_between = |c: char| c == ',' || c == ';' || c == '|' || c.is_whitespace();
    let is_one_server = matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys");
    let is_list = rest
        .split(is_between)
        .skip(1)
        .any(|part| part.contains("://"));
    is_list || is_one_server && hosts.contains(is_between) || is_of_a_quorum(scheme)
}

fn is_of_a_quorum(scheme: &str) -> bool {
    let names = ["quorum", "redlock", "majority"];
    names.iter().any(|name| scheme.contains(name))
}

#[cfg(all(test, feature = "redis"))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::client::handle::Client;
    use crate::client::options::Options;

    #[test]
    fn several_servers_in_one_url_are_refused_with_what_makes_a_majority_of_them() {
        for several in [
            "redis://a,redis://b,redis://c",
            "redis://a,b redis://c redis://d",
            "redis://a;redis://b",
            "valkey://a,b,c",
            "redis://a:6379,b:6379,c:6379",
            "redis://user:secret@a,b,c/0",
            "quorum:redis://a,redis://b",
            "quorum://a,b,c",
            "redis+quorum://a,b,c",
            "redlock:a,b,c",
        ] {
            let refusal = Client::open(several).unwrap_err().to_string();
            assert!(
                refusal.contains("Client::open(") && !refusal.contains("secret"),
                "{several}: {refusal}"
            );
        }
    }

    #[test]
    fn servers_are_separated_by_any_white_space() {
        for several in [
            "redis://a redis://b redis://c",
            " redis://a\nrediss://b\t redis+unix:///c\n",
            "redis://:se,cret@a redis://:secret@b redis://c",
        ] {
            let client = Client::open(several);
            let is_majority = |client: &Client| client.state.engine.store.is_majority();
            if several.contains("rediss") && !cfg!(feature = "tls") {
                continue;
            }
            assert!(
                client.as_ref().is_ok_and(is_majority),
                "{several}: {client:?}"
            );
        }
        for (wrong, says) in [
            ("redis://:secret@a redis://:secret@b", "fewer than three"),
            ("redis://a b c", "redis://"),
            ("redis://:secret@a, redis://b, redis://c", "Client::open("),
        ] {
            let refusal = Client::open(wrong).unwrap_err().to_string();
            assert!(
                refusal.contains(says) && !refusal.contains("secret"),
                "{wrong}: {refusal}"
            );
        }
    }

    #[test]
    fn a_url_of_one_store_keeps_the_reason_for_which_it_is_refused() {
        for one in [
            "redis://a/b",
            "redis+cluster://a,b,/",
            "localhost:6379",
            "mem:a,b",
            "",
        ] {
            let refusal = Client::open(one).unwrap_err().to_string();
            assert!(!refusal.contains("Client::open"), "{one}: {refusal}");
        }
        for good in [
            "redis://:se,cret@a",
            "redis+cluster://a,b,c",
            "file:///tmp/a b",
        ] {
            assert!(Client::open(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn what_is_for_a_majority_is_refused_for_one_store() {
        let second = Duration::from_secs(1);
        for builder in [
            Client::builder().url("redis://a").longest_ttl(second),
            Client::builder().url("mem:").node_timeout(second),
            Client::builder().url("redis://a").durable_nodes(),
        ] {
            assert!(refusal(builder).contains("majority"));
        }
        let builder = Client::builder().url("redis://a redis://b redis://c");
        assert!(refusal(builder.strict(second)).contains("strict mode"));
    }

    fn refusal(builder: crate::client::builder::ClientBuilder) -> String {
        builder.open().unwrap_err().to_string()
    }

    #[test]
    fn too_few_an_even_number_and_the_same_server_twice_are_refused_with_what_would_be_right() {
        for (urls, says) in [
            (vec!["redis://a", "redis://b"], "fewer than three"),
            (
                vec!["redis://a", "redis://b", "redis://c", "redis://d"],
                "even number",
            ),
            (vec!["redis://a"; 23], "nothing safer"),
            (
                vec!["redis://a", "redis://b", "redis://a"],
                "nodes 1 and 3 are one server",
            ),
            (
                vec!["redis://a", "redis://u:p@b", "redis://b/3"],
                "nodes 2 and 3",
            ),
            (
                vec!["redis://a", "redis://b", "mem:"],
                "a quorum consists of servers",
            ),
            (vec!["redis://a", "redis://b", "nonsense"], "redis://"),
        ] {
            let refusal = refusal(Client::builder().urls(urls));
            assert!(
                refusal.contains(says) && !refusal.contains(":p@"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn terms_out_of_range_are_refused() {
        let three = || Client::builder().url("redis://a redis://b redis://c");
        let second = Duration::from_secs(1);
        for (builder, says) in [
            (three().node_timeout(Duration::ZERO), "node timeout"),
            (three().longest_ttl(Duration::ZERO), "10 ms to 30 days"),
            (
                three()
                    .longest_ttl(second)
                    .defaults(Options::default().ttl(2 * second)),
                "agree",
            ),
            (three().defaults(Options::default().priority(1)), "priority"),
        ] {
            let refusal = refusal(builder);
            assert!(refusal.contains(says), "{refusal}");
        }
        assert!(three().open().is_ok());
    }

    #[test]
    fn the_default_ttl_fits_itself_to_a_shorter_longest_ttl_and_one_that_was_asked_for_is_refused()
    {
        let urls = ["redis://a", "redis://b", "redis://c"];
        let second = Duration::from_secs(1);
        let quorum = Client::builder().urls(urls).longest_ttl(4 * second).open();
        let quorum = quorum.unwrap();
        assert!(quorum.mutex("job").validate().is_ok());
        assert!(quorum.mutex("job").ttl(4 * second).validate().is_ok());
        let refusal = quorum.mutex("job").ttl(5 * second).validate().unwrap_err();
        assert!(refusal.to_string().contains("4 s"), "{refusal}");
    }
}
