//! The requests of renewals, batched or one by one, and what their replies mean for each lease.

use std::sync::Arc;
use std::time::Duration;

use super::{DueLease, Id, Renewal, request_timeout};
use crate::base::{ErrorKind, Moment, StoreError, Ttl};
use crate::engine::services::lease::record::LeaseRecord;
use crate::engine::values::calls_many::{ExtendMany, MANY_MAX};
use crate::engine::values::calls_optional::Keep;
use crate::engine::values::{Extend, ExtendAnswer, LockServer, Note, Replies};
use crate::quorum::tally::Votable;

impl Renewal {
    /// Renews leases, as many as possible in one call.
    pub(super) fn send(self: &Arc<Self>, mut renewals: Vec<DueLease>) {
        let can = self.store.capabilities();
        let most = if can.combines {
            can.keys_per_call.min(MANY_MAX)
        } else {
            1
        };
        for batch in batches(&mut renewals, most) {
            let (renewal, batch) = (Arc::clone(self), batch.to_vec());
            drop(tokio::spawn(async move { renewal.renew(batch).await }));
        }
    }

    async fn renew(self: Arc<Self>, batch: Vec<DueLease>) {
        if let [(id, record)] = batch.as_slice() {
            return self.renew_alone(*id, record).await;
        }
        let (t0, ttl) = (self.clock.now(), batch[0].1.ttl());
        let each = batch.iter().map(|(_, record)| record.held.for_ttl(ttl));
        let each: Vec<_> = each.collect();
        let Some(many) = ExtendMany::of(&each) else {
            return; // it is of a kind that has the script: `send` has chosen it
        };
        let within = batch
            .iter()
            .map(|(_, record)| self.within(record, t0))
            .max();
        let (renewal, ids): (_, Vec<Id>) =
            (Arc::clone(&self), batch.iter().map(|(id, _)| *id).collect());
        let on_reply = move |at, answers: &Replies<ExtendAnswer>| {
            renewal.note_missing_votes(at, ids.iter().zip(answers.iter().copied()));
        };
        let answer = self
            .ask(&many, t0, within.unwrap_or_default(), on_reply)
            .await;
        let error = match answer {
            Ok(answers) if answers.len() == batch.len() => {
                let answers = answers.into_iter().map(|one| one.map(Ok)).collect();
                return self.report_all(batch, t0, ttl, answers);
            }
            // One lease of the batch, or the batch as such, may have caused an error that does not pass.
            Err(error) if !error.maybe_applied() && !error.is_transient() => None,
            Err(error) => Some(error),
            Ok(_) => Some(StoreError::unknown(
                ErrorKind::Malformed,
                "the number of answers is not that of the leases",
            )),
        };
        let answers = vec![error.map(Err); batch.len()];
        self.report_all(batch, t0, ttl, answers);
    }

    /// Gives each lease its own reply. A lease without one is renewed alone.
    pub(super) fn report_all(
        self: &Arc<Self>,
        batch: Vec<DueLease>,
        t0: Moment,
        ttl: Ttl,
        answers: Vec<Option<Result<ExtendAnswer, StoreError>>>,
    ) {
        let mut reported = Vec::with_capacity(batch.len());
        for ((id, record), answer) in batch.into_iter().zip(answers) {
            let Some(answer) = answer else {
                let renewal = Arc::clone(self);
                drop(tokio::spawn(async move {
                    renewal.renew_alone(id, &record).await
                }));
                continue;
            };
            let record = self.current(id, &record);
            let keeps = self.report(id, &record, t0, ttl, answer);
            reported.push(id);
            if keeps || record.why.is_some() {
                let renewal = Arc::clone(self);
                drop(tokio::spawn(async move {
                    renewal.renew_sides(&record, keeps).await
                }));
            }
        }
        self.set_alarms(reported);
    }

    async fn renew_alone(self: &Arc<Self>, id: Id, record: &Arc<LeaseRecord>) {
        let (t0, ttl) = (self.clock.now(), record.ttl());
        let held_for = record.held.for_ttl(ttl);
        let within = self.within(record, t0);
        let answer = match &record.custom {
            Some(custom) => {
                let server = LockServer::new(&self.store, within);
                let answer = custom.extend(server, ttl).await;
                if let Ok(ExtendAnswer::Extended { time_us }) = &answer {
                    self.note_time(t0, Some(*time_us));
                }
                answer
            }
            None => {
                let renewal = Arc::clone(self);
                let on_reply = move |at, answer: &ExtendAnswer| {
                    renewal.note_missing_votes(at, std::iter::once((&id, Some(*answer))));
                };
                self.ask(&Extend { held_for }, t0, within, on_reply).await
            }
        };
        let record = self.current(id, record);
        let keeps = self.report(id, &record, t0, ttl, answer);
        self.set_alarms([id]);
        self.renew_sides(&record, keeps).await;
    }

    /// Sends a request and notes the server's time of the reply, before any lease learns of the reply.
    async fn ask<O: Votable>(
        &self,
        operation: &O,
        t0: Moment,
        within: Duration,
        on_reply: impl Fn(usize, &O::Reply) + Send + Sync + 'static,
    ) -> Result<O::Reply, StoreError> {
        let answer = self.store.ask_hearing(operation, within, on_reply).await?;
        self.note_time(t0, answer.time_us);
        answer.reply
    }

    pub(super) fn within(&self, record: &LeaseRecord, t0: Moment) -> Duration {
        let left = record.core().deadline().saturating_since(t0);
        left.min(request_timeout(self.request_timeout, record.ttl()))
    }

    /// Renews what lies beside the lease. The lease holds without it, so errors are ignored.
    async fn renew_sides(&self, record: &LeaseRecord, keeps: bool) {
        let ttl = record.ttl();
        let within = request_timeout(self.request_timeout, ttl);
        if keeps {
            let resource = &record.held.resource;
            drop(self.store.ask(&Keep { resource }, within).await);
        }
        let note = |why| Note::of(record.held.for_ttl(ttl), why);
        if let Some(note) = record.why.as_deref().and_then(note) {
            drop(self.store.ask(&note, within).await);
        }
    }

    /// Returns true when it is time to keep the latest number and, of permits, how many there are. Locks of other
    /// protocols have neither.
    fn report(
        self: &Arc<Self>,
        id: Id,
        record: &Arc<LeaseRecord>,
        t0: Moment,
        ttl: Ttl,
        answer: Result<ExtendAnswer, StoreError>,
    ) -> bool {
        let now = self.clock.now();
        if let Some(hold) = record.counted() {
            let is_confirmed = matches!(answer, Ok(ExtendAnswer::Extended { .. }));
            hold.totals
                .add_renewal(is_confirmed, record.core().headroom(now));
        }
        match answer {
            Ok(ExtendAnswer::Extended { .. }) => {
                record.note_late_renewal(now);
                record.core().extended(t0, now, ttl);
                record.tell_hook();
                self.revote(id, record);
                return record.custom.is_none() && record.core().keep_is_due(now);
            }
            Ok(ExtendAnswer::Gone(reason)) => record.refused(now, reason),
            Err(error) => {
                tracing::debug!(target: "leaselock", lock = %record.name, %error, "renewal failed");
                record.core().failed(now, error);
            }
        }
        false
    }
}

/// Splits leases into calls of at most `most` that a script renews together. Those that end first come first.
pub(super) fn batches(renewals: &mut [DueLease], most: usize) -> Vec<&[DueLease]> {
    let alone = |record: &LeaseRecord| {
        let custom = record.custom.as_ref();
        record.held.resource.kind.extend_many.is_none()
            || custom.is_some_and(|custom| custom.extends_itself())
    };
    let end = |(_, record): &DueLease| record.core().deadline();
    let kind = |record: &LeaseRecord| record.held.resource.kind;
    let group = |(_, record): &DueLease| (kind(record).name, record.ttl(), alone(record));
    renewals.sort_by_cached_key(|due| (group(due), end(due)));
    let alike = |(_, one): &DueLease, (_, other): &DueLease| {
        let together = kind(one) == kind(other) && one.ttl() == other.ttl();
        together && !alone(one) && !alone(other)
    };
    let alike = renewals.chunk_by(alike);
    let mut batches: Vec<_> = alike.flat_map(|same| same.chunks(most)).collect();
    batches.sort_by_cached_key(|batch| end(&batch[0]));
    batches
}
