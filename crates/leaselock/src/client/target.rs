//! Which store a builder's URL or connection means, with what the store is told.

use super::builder::{ClientBuilder, StoreSource};
use super::settings;
use crate::base::error::InvalidInput;
use crate::base::token::ClientId;
use crate::quorum::executor::Executor;
use crate::store::url::{self, RedisUrl, Target};
use crate::store::{EmbeddedStore, RedisStore};

impl ClientBuilder {
    pub(super) fn store(&self, id: &ClientId) -> Result<Executor, InvalidInput> {
        match &self.source {
            StoreSource::Url(url) => {
                let mut target = url::parse(url).map_err(|wrong| refused(url, wrong))?;
                self.settings.tell(servers(&mut target))?;
                self.store_at(target, id)
            }
            StoreSource::Store(Ok(_)) if self.settings.functions.is_some() => {
                Err(settings::functions_need_a_url())
            }
            #[cfg(feature = "tls")]
            StoreSource::Store(Ok(_)) if self.settings.tls.is_some() => Err(InvalidInput::new(
                "a client or connection that is handed in has TLS settings of its own: use a rediss:// URL",
            )),
            StoreSource::Store(Ok(store)) => Ok(Executor::Redis((**store).clone())),
            StoreSource::Store(Err(unusable)) => Err(unusable.clone()),
        }
    }

    fn store_at(&self, target: Target, id: &ClientId) -> Result<Executor, InvalidInput> {
        match target {
            #[cfg(feature = "redis")]
            Target::Redis(server) => Ok(Executor::Redis(RedisStore::from_url(server))),
            #[cfg(feature = "redis")]
            Target::Cluster(nodes) => Ok(Executor::Redis(RedisStore::from_nodes(nodes))),
            #[cfg(feature = "embedded")]
            Target::Folder(folder) => {
                let clock = self.settings.clock.clone();
                Ok(Executor::Embedded(match folder {
                    Some(folder) => EmbeddedStore::folder(&folder, clock, id, self.session),
                    None => EmbeddedStore::default_folder(clock, id, self.session),
                }))
            }
            #[cfg(feature = "embedded")]
            Target::Memory(name) => Ok(Executor::Embedded(EmbeddedStore::memory(
                &name,
                self.settings.clock.clone(),
            ))),
            #[cfg(not(all(feature = "redis", feature = "embedded")))]
            missing => Err(InvalidInput::new(missing.not_built_in())),
        }
    }
}

/// Returns the servers that the target names.
fn servers(target: &mut Target) -> &mut [RedisUrl] {
    match target {
        Target::Redis(server) => std::slice::from_mut(server),
        Target::Cluster(nodes) => nodes,
        Target::Folder(_) | Target::Memory(_) => &mut [],
    }
}

/// Returns what to do in place of what was refused, when the text names several servers. It repeats no part of it.
fn refused(url: &str, wrong: InvalidInput) -> InvalidInput {
    if cfg!(feature = "redis") && names_several_servers(url) {
        InvalidInput::new(SEVERAL_SERVERS)
    } else {
        wrong
    }
}

const SEVERAL_SERVERS: &str = "several servers are no URL of one store: for locks on a majority of them use \
    Quorum::connect([\"redis://one\", \"redis://two\", \"redis://three\"]); redis+cluster:// names nodes of a cluster, \
    and redis+sentinel:// names Sentinels";

/// True for URLs in one list, for hosts in one URL of one server, and for a scheme that is called after a quorum.
fn names_several_servers(url: &str) -> bool {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        let (scheme, _) = url.split_once(':').unwrap_or(("", url));
        return is_of_a_quorum(scheme);
    };
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts); // a password may have any of these
    let is_between = |c: char| c == ',' || c == ';' || c == '|' || c.is_whitespace();
    let is_one_server = matches!(scheme, "redis" | "rediss");
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
mod tests {
    use crate::client::handle::Client;

    #[test]
    fn several_servers_in_one_url_are_refused_with_what_makes_a_quorum_of_them() {
        for several in [
            "redis://a redis://b redis://c",
            "redis://a,redis://b,redis://c",
            "redis://a, redis://b, redis://c",
            "redis://a;redis://b",
            "redis://a\nredis://b\n",
            "redis://a:6379,b:6379,c:6379",
            "redis://user:secret@a,b,c/0",
            "redis://:secret@a redis://:secret@b",
            "rediss://a b c",
            "quorum:redis://a,redis://b",
            "quorum://a,b,c",
            "redis+quorum://a,b,c",
            "redlock:a,b,c",
        ] {
            let refusal = Client::connect(several).unwrap_err().to_string();
            assert!(
                refusal.contains("Quorum::connect([") && !refusal.contains("secret"),
                "{several}: {refusal}"
            );
        }
    }

    #[test]
    fn a_url_of_one_store_keeps_the_reason_for_which_it_is_refused() {
        for one in [
            "redis://a/b",
            "redis://:se cret@a",
            "redis+cluster://a,b,/",
            "localhost:6379",
            "mem:a,b",
            "",
        ] {
            let refusal = Client::connect(one).unwrap_err().to_string();
            assert!(!refusal.contains("Quorum::"), "{one}: {refusal}");
        }
        for good in ["redis://:se,cret@a", "redis+cluster://a,b,c"] {
            assert!(Client::connect(good).is_ok(), "{good}");
        }
    }
}
