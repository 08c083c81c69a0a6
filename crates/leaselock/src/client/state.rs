//! State that clones of a client share, and the checks before a request is sent.

use std::sync::Arc;

use super::options::Options;
use crate::base::error::InvalidInput;
use crate::base::name::Name;
use crate::engine::core::Engine;
use crate::engine::kind::Kind;
use crate::engine::request::AcquireRequest;
use crate::engine::resource::Resource;
use crate::engine::wait::local::groups::LocalGroups;
use crate::interop::protocol::custom::Custom;
use crate::interop::protocol::supported::check_supported;
use crate::script::keys;

pub(crate) struct ClientState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) groups: Arc<LocalGroups>,
    pub(crate) defaults: Options,
}

impl ClientState {
    /// Checks an acquisition, and returns its keys and its request.
    pub(crate) fn request(
        &self,
        kind: &'static Kind,
        name: &Name,
        options: &Options,
    ) -> Result<(Resource, AcquireRequest), InvalidInput> {
        let (engine, protocol) = (&*self.engine, options.protocol);
        let ttl = options.check()?;
        engine.check_strict(ttl)?;
        let keys = protocol.keys(&engine.prefix, name)?.behind(engine.gate());
        let keys = Resource::new(kind, keys);
        check_kind(kind, engine, options)?;
        check_supported(engine, protocol)?;
        let others = keys::others(&engine.prefix, &options.others)?;
        #[cfg(feature = "redis")]
        engine.check_limits(options.priority, ttl)?;
        engine.replicates(options.copies)?;
        let custom = Custom::of(protocol, &engine.prefix, others, options.why.as_deref());
        let request = AcquireRequest {
            ttl,
            priority: options.priority,
            renews: options.renews(),
            fences: options.fences(),
            max_hold: options.max_hold,
            why: options.why.clone(),
            on_wait: options.on_wait.clone(),
            copies: options.copies,
            custom,
        };
        Ok((keys, request))
    }
}

/// Refuses what locks of this kind cannot have, before anything is sent.
fn check_kind(kind: &'static Kind, engine: &Engine, options: &Options) -> Result<(), InvalidInput> {
    let name = kind.name;
    let refused = |what: &str| {
        Err(InvalidInput::new(format!(
            "a {name} cannot have {what}: leave it out"
        )))
    };
    if options.why.is_some() && kind.note.is_none() {
        return refused("a note");
    }
    if options.copies.is_some() && kind.confirm.is_none() {
        return refused("min_replicas or fsynced");
    }
    if engine.store.one().is_none() && !kind.votes {
        return refused("a quorum");
    }
    Ok(())
}
