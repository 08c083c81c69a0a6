//! What a store does differently when its keys lie on several nodes.

use std::time::Duration;

use redis::Value;

use super::Cluster;
use crate::base::clock::Moment;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::Call;
use crate::store::redis::{CLOCK, Link, RedisStore, functions, is_noscript, scan};
use crate::store::url::RedisUrl;

impl RedisStore {
    /// A cluster with these among its nodes.
    pub(crate) fn from_nodes(seeds: Vec<RedisUrl>) -> Self {
        RedisStore(Link::Cluster(Cluster::new(seeds)))
    }

    /// On the node that has the call's keys. When they are not together because their slot is being moved, a call that
    /// can do with the first alone does, once half of its time is over.
    pub(in crate::store::redis) async fn run_at_node(
        &self,
        cluster: &Cluster,
        call: &Call,
        until: Moment,
        within: Duration,
    ) -> Result<Value, StoreError> {
        let Some(alone) = call.alone else {
            return at_node(cluster, call, until, until).await;
        };
        let patience = CLOCK.now().plus(within / 2);
        let answer = at_node(cluster, call, until, patience).await?;
        if matches!(&answer, Value::ServerError(reply) if reply.code() == "TRYAGAIN") {
            return at_node(cluster, &call.on_first_key(alone), until, until).await;
        }
        Ok(answer)
    }

    /// One primary after the other: which one stands in the upper bits of the cursor.
    pub(in crate::store::redis) async fn scan_nodes(
        &self,
        cluster: &Cluster,
        cursor: u64,
        pattern: &str,
        until: Moment,
    ) -> Result<(u64, Vec<String>), StoreError> {
        const CURSOR_BITS: u32 = 54;
        let (place, within_node) = (cursor >> CURSOR_BITS, cursor & ((1 << CURSOR_BITS) - 1));
        let index = usize::try_from(place).unwrap_or(usize::MAX);
        let command = scan(within_node, pattern);
        let Some(answer) = cluster.ask_primary(index, &command, until).await? else {
            return Ok((0, Vec::new()));
        };
        let (next, keys) = self.page(&answer)?;
        if next >> CURSOR_BITS > 0 {
            let message = "a node counts its keys in a way that is not understood";
            return Err(StoreError::refused(ErrorKind::Malformed, message));
        }
        let place = if next == 0 { place + 1 } else { place };
        Ok((place << CURSOR_BITS | next, keys))
    }
}

/// Runs a call where its keys lie; tried again until `patience` while they are not together.
async fn at_node(
    cluster: &Cluster,
    call: &Call,
    until: Moment,
    patience: Moment,
) -> Result<Value, StoreError> {
    let key = call.all_keys().next();
    let library = cluster.functions();
    let short = functions::short(library, call);
    let answer = cluster.ask(&short, key, until, patience).await?;
    if !is_noscript(&answer) {
        return Ok(answer);
    }
    let whole = functions::whole(library, call);
    cluster.ask(&whole, key, until, patience).await
}
