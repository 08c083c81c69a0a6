//! Scripts as functions of the server, which an administrator has loaded.

use std::time::Duration;

use redis::Value;

use super::RedisStore;
use crate::base::clock::CLOCK;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::library::Library;
use crate::store::redis::link::StoreLink;
use crate::store::redis::{answer, error_map};

/// The result of loading the library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedFunctions {
    /// The name of the library of this version.
    pub name: String,
    /// True if each of the nodes already had it; then nothing was changed.
    pub was_there: bool,
    /// Where it was loaded: one server, every primary of a cluster, or every node of a quorum.
    ///
    /// Replicas get it from their primary.
    pub nodes: Vec<FunctionsNode>,
    /// The libraries of other versions.
    ///
    /// When none of their clients is left, `FUNCTION DELETE` removes them.
    pub others: Vec<String>,
}

/// A server with the library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionsNode {
    /// Its address, without its login.
    pub node: String,
    /// True if it already had the library.
    pub was_there: bool,
}

impl RedisStore {
    /// Loads the library onto every server that may hold a lock of this store, unless it is there.
    pub(crate) async fn load_functions(
        &self,
        library: &'static Library,
        within: Duration,
    ) -> Result<LoadedFunctions, StoreError> {
        if let StoreLink::Cluster(cluster) = &self.0 {
            let endpoints = cluster.endpoints_anew(CLOCK.now().plus(within)).await?;
            let stores = endpoints
                .into_iter()
                .map(|node| RedisStore(StoreLink::to(node)))
                .collect();
            return load_on_each(stores, library, within).await;
        }
        self.load_here(library, within).await
    }

    async fn load_here(
        &self,
        library: &Library,
        within: Duration,
    ) -> Result<LoadedFunctions, StoreError> {
        let until = CLOCK.now().plus(within);
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg(&library.source);
        let was_there = match self.0.ask(&load, None, until).await? {
            Value::ServerError(reply) => {
                let line = error_map::line(&reply);
                if line.contains("unknown command") {
                    let message =
                        "the server has no functions: they need Redis 7 or later, or Valkey";
                    return Err(StoreError::refused(ErrorKind::Unsupported, message));
                }
                if !line.contains("already exists") {
                    return Err(self.0.explain(&line));
                }
                true
            }
            _ => false,
        };
        let mut list = redis::cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg("leaselock_*");
        let others = match self.0.ask(&list, None, until).await? {
            Value::ServerError(_) => Vec::new(), // loading is a separate right
            listed => others(&listed, &library.name),
        };
        let node = FunctionsNode {
            node: self.describe(),
            was_there,
        };
        Ok(LoadedFunctions {
            name: library.name.clone(),
            was_there,
            nodes: vec![node],
            others,
        })
    }
}

/// Loads it onto all of them at once. A failure on one does not affect the others.
pub(crate) async fn load_on_each(
    stores: Vec<RedisStore>,
    library: &'static Library,
    within: Duration,
) -> Result<LoadedFunctions, StoreError> {
    let load =
        |store: RedisStore| tokio::spawn(async move { store.load_here(library, within).await });
    let loading: Vec<_> = stores.iter().cloned().map(load).collect();
    let mut all = LoadedFunctions {
        name: library.name.clone(),
        was_there: true,
        nodes: Vec::new(),
        others: Vec::new(),
    };
    let mut failures = Vec::new();
    for (store, loading) in stores.iter().zip(loading) {
        match loading.await {
            Ok(Ok(loaded)) => {
                all.was_there &= loaded.was_there;
                all.nodes.extend(loaded.nodes);
                all.others.extend(loaded.others);
            }
            Ok(Err(error)) => failures.push((store.describe(), error)),
            Err(_) => failures.push((store.describe(), ended())),
        }
    }
    all.others.sort();
    all.others.dedup();
    // An error that needs an operator precedes a transient one.
    let worst = failures.iter().min_by_key(|(_, error)| error.may_pass());
    let Some(kind) = worst.map(|(_, error)| error.kind()) else {
        return Ok(all);
    };
    let said: Vec<String> = failures
        .iter()
        .map(|(node, error)| format!("; {node}: {error}"))
        .collect();
    let message = format!(
        "{} is on {} of {} nodes; load it again when this is mended{}",
        all.name,
        all.nodes.len(),
        stores.len(),
        said.concat()
    );
    Err(StoreError::refused(kind, message))
}

fn ended() -> StoreError {
    StoreError::refused(ErrorKind::Internal, "the runtime is shutting down")
}

/// Returns the names of libraries behind `library_name`, without this one.
fn others(listed: &Value, ours: &str) -> Vec<String> {
    let Value::Array(libraries) = listed else {
        return Vec::new();
    };
    let name = |library: &Value| answer::field(library, "library_name");
    libraries
        .iter()
        .filter_map(name)
        .filter(|name| name != ours)
        .collect()
}
