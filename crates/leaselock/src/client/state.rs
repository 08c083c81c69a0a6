//! State that clones of a client share, and the checks before a request is sent.

use std::sync::Arc;

use leaselock_fence::Name;

use super::options::Options;
use crate::base::{InvalidInput, debug_as};
use crate::engine::services::Engine;
use crate::engine::values::{AcquireRequest, Kind, Resource};
use crate::engine::ways::local::groups::LocalGroups;
use crate::interop::protocol::custom::Custom;

pub(crate) struct ClientState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) groups: Arc<LocalGroups>,
    pub(crate) defaults: Options,
    /// The class of a name, for handles that do not set their own.
    pub(crate) class_of: Option<ClassOf>,
}

pub(crate) type ClassOf = Box<dyn Fn(&str) -> &str + Send + Sync>;

/// What remained to be cleaned up when a client was closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CloseReport {
    /// What was taken back in the background, and confirmed: leases and queue entries, and what dropped waits had left,
    /// as the party of a barrier or the reservation of a limiter.
    pub released: usize,
    /// What was not confirmed; it ends by itself at its ttl.
    pub unconfirmed: usize,
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
        if let Some(owner) = &options.owner {
            owner.check(&engine.ids.client)?;
        }
        let keys = protocol
            .keys(&engine.ids.prefix, name)?
            .behind(engine.gate());
        let keys = Resource::new(kind, keys);
        check_kind(kind, engine, options)?;
        protocol.check(engine)?;
        let store = &engine.store;
        store.check_limits(options.priority, ttl.as_duration())?;
        engine.check_replicas(options.copies)?;
        let custom = Custom::of(protocol, &engine.ids.prefix);
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
            "a {name} does not support {what}: leave it out"
        )))
    };
    // Another library's lock is one string that one client holds.
    if !options.protocol.is_native() && kind.no_majority.is_some() {
        return refused("the protocol of another library");
    }
    if options.why.is_some() && kind.note.is_none() {
        return refused("a note");
    }
    if options.copies.is_some() && kind.confirm.is_none() {
        return refused("min_replicas or fsynced");
    }
    match kind.no_majority {
        Some(reason) => engine.needs_one_server(name, reason),
        None => Ok(()),
    }
}

debug_as!(ClientState, it => { id: it.engine.ids.client.as_str(), store: it.engine.store.describe() });
