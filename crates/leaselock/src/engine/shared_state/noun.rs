//! A name of a client at which something waits or counts.

use std::sync::Arc;

use leaselock_fence::Name;

use crate::base::error::InvalidInput;
use crate::engine::services::core::Engine;
use crate::script::keys::LockKeys;

/// What the handle of such a primitive has in any case.
#[derive(Debug, Clone)]
pub(crate) struct Noun {
    pub(crate) engine: Arc<Engine>,
    name: Result<Name, InvalidInput>,
}

impl Noun {
    /// The first operation reports a bad name.
    pub(crate) fn new(engine: &Arc<Engine>, name: impl Into<String>) -> Self {
        Noun {
            engine: Arc::clone(engine),
            name: Name::new(name),
        }
    }

    /// Returns the name; `None` for a malformed one.
    pub(crate) fn as_str(&self) -> Option<&str> {
        self.name.as_ref().ok().map(Name::as_str)
    }

    pub(crate) fn name(&self) -> Result<Name, InvalidInput> {
        self.name.clone()
    }

    pub(crate) fn keys(&self) -> Result<LockKeys, InvalidInput> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        LockKeys::new(&self.engine.ids.prefix, name)
    }
}
