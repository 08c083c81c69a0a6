//! Sends a change until it is settled.

use std::sync::Arc;
use std::time::Duration;

use super::calls::ChangeOnce;
use super::change::{ChangeEnd, ChangeRequest, Shortfall};
use crate::base::backoff::Backoff;
use crate::base::{Moment, StoreError};
use crate::engine::guard::replicas::Written;
use crate::engine::services::core::{Engine, OPERATOR_WITHIN};
use crate::engine::shared_state::noun::ValidNoun;
use crate::engine::values::request::Copies;
use crate::quorum::executor::Executor;

/// How long a task waits for a reply that was lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after the first request the client asks again. The store remembers the reply for twice as long.
const ASKS_AGAIN_FOR: Duration = Duration::from_secs(5 * 60);
/// Pauses between two requests; the last one repeats.
const PAUSES_MS: &[u64] = &[0, 20, 100, 500, 1000];

/// How long one request may take, without the time of replicas.
pub(super) fn within(engine: &Engine) -> Duration {
    let limit = engine.request_timeout.unwrap_or(OPERATOR_WITHIN);
    limit.min(OPERATOR_WITHIN)
}

/// Sends a change, and again under the same number while its reply is lost. `makes_progress` is called before and after each request.
pub(super) async fn send(
    noun: &ValidNoun,
    store: &Executor,
    request: ChangeRequest,
    makes_progress: impl Fn(Moment),
) -> ChangeEnd {
    let engine = &noun.engine;
    let change = ChangeOnce {
        keys: &noun.keys,
        client: engine.ids.client.as_str(),
        number: request.number,
        change: request.change,
        terms: &request.terms,
    };
    let mut sent = request.sent;
    let mut now = engine.clock.now();
    let give_up_at = now.plus(PATIENCE);
    let mut backoff = Backoff::new(PAUSES_MS);
    loop {
        if sent.is_some_and(|sent| now.saturating_since(sent) > ASKS_AGAIN_FOR) {
            return ChangeEnd::Forgotten;
        }
        makes_progress(now);
        let asked = match request.terms.copies {
            Some(copies) => Box::pin(ask_with_copies(engine, &change, copies)).await,
            None => store.ask(&change, within(engine)).await,
        };
        let error = match asked {
            Ok(ended) => return ended,
            Err(error) => error,
        };
        if error.maybe_applied() {
            sent.get_or_insert(now);
        }
        now = engine.clock.now();
        makes_progress(now);
        if sent.is_none() {
            return ChangeEnd::Refused(error);
        }
        if !error.is_transient() || now >= give_up_at {
            return ChangeEnd::Unknown(error);
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

/// Changes the counter over a connection of its own, and waits there until replicas have the change.
async fn ask_with_copies(
    engine: &Engine,
    change: &ChangeOnce<'_>,
    asked: Copies,
) -> Result<ChangeEnd, StoreError> {
    let (written, ended) = Written::new(engine, change, asked, within(engine)).await?;
    let ChangeEnd::Done(value, _) = ended else {
        written.put_back();
        return Ok(ended);
    };
    let (confirmed, source) = match written.count(asked).await {
        Ok(counted) if counted.are_enough(asked) => return Ok(ended),
        Ok(counted) => (counted.replicas, None),
        Err(error) => (0, Some(error)),
    };
    let lacking = Shortfall {
        asked,
        confirmed,
        source,
    };
    Ok(ChangeEnd::Done(value, Some(Arc::new(lacking))))
}
