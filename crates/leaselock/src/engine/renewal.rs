//! The one task that keeps all leases of a client: renews what is due and says what is lost.
//!
//! It runs on the client's own thread over a connection of its own, so a busy executor or a full connection of the
//! user delays neither renewals nor the news of a loss.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::revote::Absent;
use super::calls::{Extend, ExtendAnswer};
use super::calls_many::{Answers, ExtendMany, Item, MANY_MAX, Terms};
use super::cleanup::{Cleanup, PendingCleanup};
use super::lease::deadlines::{Deadlines, Id};
use super::lease::record::LeaseRecord;
use super::lease::state::{EARLY_MAX, Step};
use crate::base::clock::{Alarm, Clock, Moment};
use crate::base::clock_watch::ClockWatch;
use crate::base::error::{LostReason, StoreError};
use crate::base::ttl::Ttl;
use crate::engine::note::Note;
use crate::quorum::executor::Executor;
use crate::quorum::votable::Votable;
use crate::store::Holder;

/// How long the task sleeps when it keeps nothing; it is woken by whatever comes.
const IDLE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Renewal {
    table: Mutex<Table>,
    changed: Notify,
    store: Executor,
    clock: Clock,
    request_timeout: Option<Duration>,
    cleanup: Cleanup,
    skew: Arc<ClockWatch>,
}

#[derive(Debug)]
struct Table {
    schedule: Deadlines,
    absent: Absent,
    /// Until when the task sleeps. Whatever comes later need not wake it.
    sleeps_until: Moment,
}

impl Table {
    fn remove(&mut self, id: Id) {
        self.schedule.remove(id);
        self.absent.take(id);
    }
}

/// A lease and where it is in the schedule.
type Due = (Id, Arc<LeaseRecord>);

impl Renewal {
    pub(crate) fn new(
        store: Executor,
        clock: Clock,
        request_timeout: Option<Duration>,
        cleanup: Cleanup,
        skew: Arc<ClockWatch>,
    ) -> Self {
        let table = Table {
            schedule: Deadlines::default(),
            absent: Absent::default(),
            sleeps_until: Moment::from_nanos(u64::MAX),
        };
        Renewal {
            table: Mutex::new(table),
            changed: Notify::new(),
            store,
            clock,
            request_timeout,
            cleanup,
            skew,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a lease from now on. The id takes it back.
    pub(crate) fn keep(&self, kept: Arc<LeaseRecord>) -> Id {
        let alarm = kept.core().next();
        let (id, early) = {
            let mut table = self.table();
            let early = alarm < table.sleeps_until;
            (table.schedule.insert(kept, alarm), early)
        };
        if early {
            self.changed.notify_one();
        }
        id
    }

    /// Stops renewing. A renewal that is on its way changes nothing any more.
    pub(crate) fn forget(&self, id: Id) {
        self.table().remove(id);
    }

    /// The lease is another task's from now on. The new id takes it back.
    pub(crate) fn pass_on(&self, id: Id, to: Arc<LeaseRecord>) -> Id {
        let alarm = to.core().next();
        let (id, early) = {
            let mut table = self.table();
            match table.schedule.replace(id, &to) {
                // An alarm that rings too early is set anew: so a turn wakes nobody.
                Some(known) if known <= alarm => (id, false),
                Some(_) => {
                    table.schedule.set_alarm(id, alarm);
                    (id, alarm < table.sleeps_until)
                }
                None => {
                    let early = alarm < table.sleeps_until;
                    (table.schedule.insert(to, alarm), early)
                }
            }
        };
        if early {
            self.changed.notify_one();
        }
        id
    }

    /// Whoever has the lease by now: it may have passed on while a request was on its way.
    fn present(&self, id: Id, asked_for: &Arc<LeaseRecord>) -> Arc<LeaseRecord> {
        let present = self.table().schedule.get(id);
        present.unwrap_or_else(|| Arc::clone(asked_for))
    }

    /// It is over, unless it has passed on meanwhile: then the alarm that has just rung was the next one's.
    fn forget_this(&self, id: Id, kept: &Arc<LeaseRecord>) {
        let mut table = self.table();
        match table.schedule.get(id) {
            Some(present) if !Arc::ptr_eq(&present, kept) => {
                let alarm = present.core().next();
                table.schedule.set_alarm(id, alarm);
            }
            _ => table.remove(id),
        }
    }

    /// Looks at a lease again, because its deadline moved.
    pub(crate) fn look_again(&self, id: Id) {
        self.set_alarms([(id, Moment::from_nanos(0))]);
    }

    fn set_alarms(&self, alarms: impl IntoIterator<Item = (Id, Moment)>) {
        let early = {
            let mut table = self.table();
            for (id, alarm) in alarms {
                table.schedule.set_alarm(id, alarm);
            }
            let first = table.schedule.first();
            first.is_some_and(|first| first < table.sleeps_until)
        };
        if early {
            self.changed.notify_one();
        }
    }

    /// Everything that is held, oldest first.
    pub(crate) fn held(&self) -> Vec<Arc<LeaseRecord>> {
        let all = self.table().schedule.all();
        all.into_iter().map(|(_, kept)| kept).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table().schedule.is_empty()
    }

    /// Runs for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let alarm = Alarm::new(self.clock.clone());
        loop {
            let next = self.work();
            tokio::select! {
                () = alarm.ring_at(next) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Does all that is due and tells when the next thing is.
    fn work(self: &Arc<Self>) -> Moment {
        loop {
            let now = self.clock.now();
            let due = {
                let mut table = self.table();
                let first = table.schedule.first().unwrap_or_else(|| now.plus(IDLE));
                if first > now {
                    table.sleeps_until = first;
                    return first;
                }
                table.schedule.ringing(now)
            };
            let mut renewals: Vec<Due> = due
                .into_iter()
                .filter(|(id, kept)| self.step(*id, kept, now))
                .collect();
            if !renewals.is_empty() {
                renewals.extend(self.soon_due(now));
                self.send(renewals);
            }
        }
    }

    /// True for a lease that is to be renewed now. Its alarm is its deadline until the answer comes.
    fn step(&self, id: Id, kept: &Arc<LeaseRecord>, now: Moment) -> bool {
        match kept.step(now) {
            Step::Until(next) => self.set_alarms([(id, next)]),
            Step::Renew => {
                let deadline = kept.core().deadline();
                self.set_alarms([(id, deadline)]);
                return true;
            }
            Step::Lost(reason) => {
                tracing::warn!(name = %kept.name, %reason, "lease lost");
                self.give_back_after_hold(kept, reason);
                self.forget_this(id, kept);
            }
            Step::Over => self.forget_this(id, kept),
        }
        false
    }

    /// Those who would be due in a moment and go along with those who are.
    fn soon_due(&self, now: Moment) -> Vec<Due> {
        let mut soon = self.table().schedule.ringing(now.plus(EARLY_MAX));
        soon.retain(|(_, kept)| kept.core().renew_early(now));
        self.set_alarms(soon.iter().map(|(id, kept)| (*id, kept.core().deadline())));
        soon
    }

    /// At the end of the longest hold the store still holds the key: the lease is given up for the holder.
    fn give_back_after_hold(&self, kept: &LeaseRecord, reason: LostReason) {
        if reason == LostReason::HoldOver {
            let owed = PendingCleanup::release(
                kept.keys.clone(),
                kept.token.clone(),
                kept.fence,
                self.clock.now(),
            );
            self.cleanup.take(owed.claimed(kept.claim.clone()));
        }
    }

    /// Renews, as many as possible in one call.
    fn send(self: &Arc<Self>, mut renewals: Vec<Due>) {
        let can = self.store.capabilities();
        let most = if can.combines {
            can.keys_per_call.min(MANY_MAX)
        } else {
            1
        };
        let alone = renewals.extract_if(.., |(_, kept)| {
            kept.claim
                .as_ref()
                .is_some_and(|claim| claim.extends_itself())
        });
        for (id, kept) in alone {
            let keeper = Arc::clone(self);
            drop(tokio::spawn(
                async move { keeper.renew_alone(id, &kept).await },
            ));
        }
        renewals.sort_by_key(|(_, kept)| kept.ttl());
        for same in renewals.chunk_by(|(_, one), (_, other)| one.ttl() == other.ttl()) {
            for batch in same.chunks(most) {
                let (keeper, batch) = (Arc::clone(self), batch.to_vec());
                drop(tokio::spawn(async move { keeper.renew(batch).await }));
            }
        }
    }

    async fn renew(self: Arc<Self>, batch: Vec<Due>) {
        if let [(id, kept)] = batch.as_slice() {
            return self.renew_alone(*id, kept).await;
        }
        let (t0, ttl) = (self.clock.now(), batch[0].1.ttl());
        let terms = Terms {
            ttl,
            fencing: false,
        };
        let item = |(_, kept): &Due| Item {
            keys: kept.keys.clone(),
            token: kept.token.clone(),
            terms,
        };
        let items: Vec<Item> = batch.iter().map(item).collect();
        let within = batch.iter().map(|(_, kept)| self.within(kept, t0)).max();
        let many = ExtendMany(ttl, &items);
        let (keeper, ids): (_, Vec<Id>) =
            (Arc::clone(&self), batch.iter().map(|(id, _)| *id).collect());
        let hears = move |at, answers: &Answers<ExtendAnswer>| {
            keeper.heard(at, ids.iter().zip(answers.iter().copied()));
        };
        let answer = self.ask(&many, t0, within.unwrap_or_default(), hears).await;
        let answers = match answer {
            Ok(answers) if answers.len() == batch.len() => {
                answers.into_iter().map(|one| one.map(Ok)).collect()
            }
            // What does not pass by itself may be the fault of one of them, or of their being together.
            Err(error) if !error.maybe_applied() && !error.may_pass() => {
                batch.iter().map(|_| None).collect()
            }
            Err(error) => batch.iter().map(|_| Some(Err(error.clone()))).collect(),
            Ok(_) => {
                let error = StoreError::unknown(
                    crate::base::error::ErrorKind::Malformed,
                    "the number of answers is not that of the leases",
                );
                batch
                    .iter()
                    .map(|_| Some(Err(error.clone())))
                    .collect::<Vec<_>>()
            }
        };
        self.tell(batch, t0, ttl, answers);
    }

    /// Each lease learns its own answer. Whoever got none asks by itself.
    fn tell(
        self: &Arc<Self>,
        batch: Vec<Due>,
        t0: Moment,
        ttl: Ttl,
        answers: Vec<Option<Result<ExtendAnswer, StoreError>>>,
    ) {
        let mut alarms = Vec::with_capacity(batch.len());
        for ((id, kept), answer) in batch.into_iter().zip(answers) {
            let Some(answer) = answer else {
                let keeper = Arc::clone(self);
                drop(tokio::spawn(
                    async move { keeper.renew_alone(id, &kept).await },
                ));
                continue;
            };
            let kept = self.present(id, &kept);
            self.report(id, &kept, t0, ttl, answer);
            alarms.push((id, kept.core().next()));
            if kept.why.is_some() {
                let keeper = Arc::clone(self);
                drop(tokio::spawn(async move { keeper.renew_note(&kept).await }));
            }
        }
        self.set_alarms(alarms);
    }

    async fn renew_alone(self: &Arc<Self>, id: Id, kept: &Arc<LeaseRecord>) {
        let (t0, ttl) = (self.clock.now(), kept.ttl());
        let extend = Extend {
            keys: &kept.keys,
            token: &kept.token.clone(),
            ttl,
        };
        let within = self.within(kept, t0);
        let answer = match &kept.claim {
            Some(claim) => {
                let answer = claim.extend(&self.store, ttl, within).await;
                if let Ok(ExtendAnswer::Extended { time_us }) = &answer {
                    self.note_time(t0, Some(*time_us));
                }
                answer
            }
            None => {
                let keeper = Arc::clone(self);
                let hears = move |at, answer: &ExtendAnswer| {
                    keeper.heard(at, std::iter::once((&id, Some(*answer))));
                };
                self.ask(&extend, t0, within, hears).await
            }
        };
        let kept = self.present(id, kept);
        self.report(id, &kept, t0, ttl, answer);
        self.set_alarms([(id, kept.core().next())]);
        self.renew_note(&kept).await;
    }

    /// Whatever it answers, it says what time it is there. A lease that the answer is about is told afterwards.
    async fn ask<O: Votable>(
        &self,
        operation: &O,
        t0: Moment,
        within: Duration,
        hears: impl Fn(usize, &O::Reply) + Send + Sync + 'static,
    ) -> Result<O::Reply, StoreError> {
        let answer = self.store.ask_hearing(operation, within, hears).await?;
        self.note_time(t0, answer.time_us);
        answer.reply
    }

    fn within(&self, kept: &LeaseRecord, t0: Moment) -> Duration {
        let left = kept.core().deadline().saturating_since(t0);
        left.min(request_timeout(self.request_timeout, kept.ttl()))
    }

    fn note_time(&self, t0: Moment, time_us: Option<u64>) {
        let now = self.clock.now();
        if time_us.is_some_and(|time_us| self.skew.note(t0, now, time_us)) {
            self.verify_all();
        }
    }

    /// A note is for people; the lease does not depend on it.
    async fn renew_note(&self, kept: &LeaseRecord) {
        if let Some(why) = &kept.why {
            let ttl = kept.ttl();
            let note = Note {
                keys: &kept.keys,
                token: &kept.token.clone(),
                text: why,
                ttl,
            };
            drop(
                self.store
                    .ask(&note, request_timeout(self.request_timeout, ttl))
                    .await,
            );
        }
    }

    fn report(
        self: &Arc<Self>,
        id: Id,
        kept: &Arc<LeaseRecord>,
        t0: Moment,
        ttl: Ttl,
        answer: Result<ExtendAnswer, StoreError>,
    ) {
        let now = self.clock.now();
        match answer {
            Ok(ExtendAnswer::Extended { .. }) => {
                kept.core().extended(t0, now, ttl);
                kept.tell_hook();
                self.regain(id, kept);
            }
            Ok(ExtendAnswer::Expired) => drop(kept.end(LostReason::Vanished)),
            Ok(ExtendAnswer::Taken) => drop(kept.end(LostReason::TakenOver)),
            Err(error) => {
                tracing::debug!(name = %kept.name, %error, "renewal failed");
                kept.core().failed(now, error);
            }
        }
    }
}

impl Holder for Renewal {
    fn holds(&self) -> bool {
        !self.is_empty()
    }

    /// By a renewal.
    fn verify_all(&self) {
        let now = self.clock.now();
        let all = self.table().schedule.all();
        all.iter()
            .for_each(|(_, kept)| kept.core().verify_soon(now));
        self.set_alarms(all.into_iter().map(|(id, _)| (id, now)));
    }
}

/// One request may take a second, or a quarter of the ttl when that is less, so that a renewal can fail twice and a
/// third still comes before the deadline.
pub(crate) fn request_timeout(asked: Option<Duration>, ttl: Ttl) -> Duration {
    asked.unwrap_or_else(|| Duration::from_secs(1).min(ttl.as_duration() / 4))
}

pub(crate) mod revote;
#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests;
