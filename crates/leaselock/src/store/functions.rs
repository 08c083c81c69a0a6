//! The scripts as functions of servers: what an operator is told about loading them.

use futures_util::future::join_all;

use crate::base::error::{Result, StoreError};

/// The library of functions on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LoadedFunctions {
    /// The address of the server, without its login.
    pub node: String,
    /// The name of the library of this version.
    #[cfg_attr(feature = "serde", serde(rename = "library"))]
    pub name: String,
    /// True if the server already had it; then nothing was changed.
    pub was_there: bool,
    /// The libraries of other versions on that server.
    ///
    /// When none of their clients is left, `FUNCTION DELETE` removes them.
    pub others: Vec<String>,
}

impl LoadedFunctions {
    /// Loads the library of this name onto each of several servers. A failure on one does not affect the others.
    pub(crate) async fn on_each<L>(
        name: &str,
        loading: impl Iterator<Item = (String, L)>,
    ) -> Result<Vec<Self>>
    where
        L: Future<Output = Result<Vec<Self>>>,
    {
        let (nodes, loading): (Vec<String>, Vec<L>) = loading.unzip();
        let (mut all, mut failures) = (Vec::new(), Vec::new());
        for (node, loaded) in nodes.iter().zip(join_all(loading).await) {
            match loaded {
                Ok(loaded) => all.extend(loaded),
                Err(error) => failures.push((node, error)),
            }
        }
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
            "{name} is on {} of {} nodes; load it again when this is mended{}",
            all.len(),
            nodes.len(),
            said.concat()
        );
        Err(StoreError::refused(kind, message))
    }
}
