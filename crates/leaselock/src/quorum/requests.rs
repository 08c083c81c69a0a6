//! What a client counts of its requests. One that goes to several servers is a request to each of them.

use std::array;

use tracing::Span;
use tracing::field::Empty;

use crate::base::counters::{Counts, Histogram, REQUEST_TIMES};
use crate::base::{CLOCK, ErrorKind, Moment, StoreError, debug_as};
use crate::script::{Call, Script};
use crate::store::Store;

/// What a request is for, by how the verb of its script begins. Any other one is a `look` if it only reads.
#[rustfmt::skip]
const OPS: [(&str, &[&str]); 6] = [
    ("acquire", &["acquire", "arrive", "change", "take", "upgrade", "vote"]),
    ("release", &["finish", "give_back", "release", "resign", "withdraw"]),
    ("extend", &["confirm", "downgrade", "extend", "keep", "stay"]),
    ("cancel", &["cancel", "leave"]),
    ("look", &[]),
    ("admin", &[]),
];
#[rustfmt::skip]
const OUTCOMES: [&str; 6] = ["ok", "unreachable", "no_reply", "not_serving", "refused", CANCELLED];
const CANCELLED: &str = "cancelled";

fn index_of(script: &Script) -> usize {
    let verb = script.name.rsplit('/').next().unwrap_or_default();
    let is_of = |(_, verbs): &(_, &[&str])| verbs.iter().any(|one| verb.starts_with(one));
    let other = OPS.len() - 1 - usize::from(script.reads_only);
    OPS.iter().position(is_of).unwrap_or(other)
}

/// How requests ended, and how long they took.
type RequestTotals = (Counts<6>, Histogram<13>);

/// The requests of one client, by what they are for.
pub(crate) struct RequestCounts([RequestTotals; 6]);

impl Default for RequestCounts {
    fn default() -> Self {
        let new = |_| (Counts::of(&OUTCOMES), Histogram::of(&REQUEST_TIMES));
        RequestCounts(array::from_fn(new))
    }
}

impl RequestCounts {
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &RequestTotals)> {
        OPS.iter().map(|(op, _)| *op).zip(&self.0)
    }

    /// Counts a request that is sent now.
    pub(super) fn begin(&self, call: &Call, store: &impl Store) -> Request<'_> {
        let script = call.script;
        let at = *script.counted_as.get_or_init(|| index_of(script));
        let system = || store.capabilities().has_commands.then_some("redis");
        let address =
            || Some(store.describe().split('/').nth(2)?.to_owned()).filter(|it| !it.is_empty());
        let span = tracing::trace_span!(
            target: "leaselock", "request", op = OPS[at].0, otel.kind = "client", db.system.name = system(),
            db.operation.name = script.name, server.address = system().and_then(|_| address()),
            keys = call.parameters.key_count(), outcome = Empty,
        );
        Request(&self.0[at], CLOCK.now(), CANCELLED, span)
    }
}

/// A request since this moment, with its outcome, which is counted when this is dropped.
pub(super) struct Request<'a>(&'a RequestTotals, Moment, &'static str, Span);

impl Request<'_> {
    /// Ends with this answer. Without one the future of the request was dropped.
    pub(super) fn end<T>(mut self, answer: &Result<T, StoreError>) {
        self.2 = match answer {
            Ok(_) => "ok",
            Err(error) if error.kind() == ErrorKind::Unreachable => "unreachable",
            Err(error) if error.kind() == ErrorKind::NoReply => "no_reply",
            Err(error) if error.is_transient() => "not_serving",
            Err(_) => "refused",
        };
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let Request((outcomes, times), began, outcome, span) = self;
        outcomes.add(outcome);
        times.add_time(CLOCK.now().saturating_since(*began));
        span.record("outcome", *outcome);
    }
}

debug_as!(RequestCounts, _it => {});
