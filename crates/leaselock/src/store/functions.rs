//! The scripts as functions of servers: what an operator is told about loading them.

use tokio::task::JoinHandle;

use crate::base::error::{ErrorKind, StoreError};

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

/// The loading of the library onto one of several servers.
pub(crate) struct NodeLoading {
    pub(crate) node: String,
    pub(crate) task: JoinHandle<Result<LoadedFunctions, StoreError>>,
}

impl LoadedFunctions {
    /// Waits for all of them. A failure on one does not affect the others.
    pub(crate) async fn on_each(name: &str, loading: Vec<NodeLoading>) -> Result<Self, StoreError> {
        let mut all = LoadedFunctions {
            name: name.to_owned(),
            was_there: true,
            nodes: Vec::new(),
            others: Vec::new(),
        };
        let (count, mut failures) = (loading.len(), Vec::new());
        for NodeLoading { node, task } in loading {
            match task.await {
                Ok(Ok(loaded)) => {
                    all.was_there &= loaded.was_there;
                    all.nodes.extend(loaded.nodes);
                    all.others.extend(loaded.others);
                }
                Ok(Err(error)) => failures.push((node, error)),
                Err(_) => failures.push((node, ended())),
            }
        }
        all.others.sort();
        all.others.dedup();
        // An error that needs an operator precedes a transient one.
        let worst = failures
            .iter()
            .min_by_key(|(_, error)| error.is_transient());
        let Some(kind) = worst.map(|(_, error)| error.kind()) else {
            return Ok(all);
        };
        let said: Vec<String> = failures
            .iter()
            .map(|(node, error)| format!("; {node}: {error}"))
            .collect();
        let message = format!(
            "{} is on {} of {count} nodes; load it again when this is mended{}",
            all.name,
            all.nodes.len(),
            said.concat()
        );
        Err(StoreError::refused(kind, message))
    }
}

fn ended() -> StoreError {
    StoreError::refused(ErrorKind::Internal, "the runtime is shutting down")
}
