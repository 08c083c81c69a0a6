//! Which store a builder's URL or connection means, with what the store is told.

use super::builder::{ClientBuilder, Source};
use crate::base::error::InvalidInput;
use crate::base::token::ClientId;
use crate::quorum::executor::Executor;
use crate::store::Store;
#[cfg(feature = "embedded")]
use crate::store::embedded::EmbeddedStore;
use crate::store::url;
use crate::store::url::Target;

impl ClientBuilder {
    pub(super) fn store(&self, id: &ClientId) -> Result<Executor, InvalidInput> {
        match &self.source {
            Source::Url(url) => {
                let target = self.secured(self.hardened(url::parse(url)?)?)?;
                self.store_at(target, id).map(Executor::One)
            }
            #[cfg(feature = "redis")]
            Source::Store(Ok(_)) if self.functions.is_some() => Err(functions_need_a_url()),
            #[cfg(feature = "tls")]
            Source::Store(Ok(_)) if self.tls.is_some() => Err(InvalidInput::new(
                "a client or connection that is handed in has TLS settings of its own: use a rediss:// URL".to_owned(),
            )),
            #[cfg(feature = "redis")]
            Source::Store(Ok(store)) => Ok(Executor::One(Store::Redis((**store).clone()))),
            #[cfg(feature = "redis")]
            Source::Store(Err(unusable)) => Err(unusable.clone()),
            #[cfg(feature = "redis")]
            Source::Quorum(quorum) => Ok(Executor::Majority(quorum.clone())),
        }
    }

    /// The target, told to call functions when that was asked for.
    #[cfg(feature = "redis")]
    fn hardened(&self, mut target: Target) -> Result<Target, InvalidInput> {
        match &mut target {
            _ if self.functions.is_none() => Ok(target),
            Target::Redis(server) => {
                server.functions = self.functions;
                Ok(target)
            }
            Target::Cluster(nodes) => {
                for node in nodes {
                    node.functions = self.functions;
                }
                Ok(target)
            }
            _ => Err(functions_need_a_url()),
        }
    }

    #[cfg(not(feature = "redis"))]
    fn hardened(&self, target: Target) -> Result<Target, InvalidInput> {
        Ok(target)
    }

    /// The target with the options for TLS, which only one with TLS may have.
    #[cfg(feature = "tls")]
    fn secured(&self, mut target: Target) -> Result<Target, InvalidInput> {
        let Some(options) = &self.tls else {
            return Ok(target);
        };
        match &mut target {
            Target::Cluster(nodes) => nodes.iter_mut().try_for_each(|node| node.secure(options))?,
            Target::Redis(server) => server.secure(options)?,
            Target::Folder(_) | Target::Memory(_) => {
                return Err(InvalidInput::new(
                    "options for TLS are for a rediss:// URL, and this is another".to_owned(),
                ));
            }
        }
        Ok(target)
    }

    #[cfg(not(feature = "tls"))]
    fn secured(&self, target: Target) -> Result<Target, InvalidInput> {
        Ok(target)
    }

    #[cfg_attr(
        not(feature = "embedded"),
        expect(unused_variables, reason = "only files know clients by their id")
    )]
    fn store_at(&self, target: Target, id: &ClientId) -> Result<Store, InvalidInput> {
        match target {
            #[cfg(feature = "redis")]
            Target::Redis(server) => Ok(Store::Redis(crate::store::redis::RedisStore::from_url(
                server,
            ))),
            #[cfg(feature = "redis")]
            Target::Cluster(nodes) => Ok(Store::Redis(
                crate::store::redis::RedisStore::from_nodes(nodes),
            )),
            #[cfg(feature = "embedded")]
            Target::Folder(folder) => {
                let clock = self.clock.clone();
                Ok(Store::Embedded(match folder {
                    Some(folder) => EmbeddedStore::folder(&folder, clock, id, self.session),
                    None => EmbeddedStore::default_folder(clock, id, self.session),
                }))
            }
            #[cfg(feature = "embedded")]
            Target::Memory(name) => Ok(Store::Embedded(EmbeddedStore::memory(
                &name,
                self.clock.clone(),
            ))),
            #[cfg(not(all(feature = "redis", feature = "embedded")))]
            missing => Err(InvalidInput::new(missing.not_built_in())),
        }
    }
}

#[cfg(feature = "redis")]
fn functions_need_a_url() -> InvalidInput {
    InvalidInput::new(
        "functions are called on servers that are named by a redis:// URL, and this is another store".to_owned(),
    )
}
