//! Which protocols a client supports.

use super::Protocol;
use crate::base::error::InvalidInput;
use crate::engine::services::core::Engine;

/// Refuses other libraries' protocols without a shared server.
pub(crate) fn check_supported(engine: &Engine, protocol: Protocol) -> Result<(), InvalidInput> {
    if engine.store.is_cluster() && !protocol.lies_in_one_slot() {
        return Err(InvalidInput::new(format!(
            "the protocol {protocol} needs keys that a cluster may keep on different nodes: use another protocol, \
                 or a server that is no cluster"
        )));
    }
    if protocol.is_native() {
        return Ok(());
    }
    if engine.strict.is_some() {
        return Err(InvalidInput::new(format!(
            "the protocol {protocol} has no strict mode, because the others who take its locks ask no gate: use the \
                 native protocol, or a client without `strict`"
        )));
    }
    if engine.store.has_commands() {
        return Ok(());
    }
    Err(InvalidInput::new(format!(
        "the protocol {protocol} is for locks in Redis or Valkey that other programs take too, and this is {}: use \
             the native protocol here, or a redis:// URL",
        engine.store.describe()
    ))
    .because("other programs take locks of this protocol on one server"))
}
