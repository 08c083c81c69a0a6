//! The one task that keeps all leases of a client: renews what is due and says what is lost.
//!
//! It runs on the client's own thread over a connection of its own, so a busy executor or a full connection of the
//! user delays neither renewals nor the news of a loss.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Alarm, Clock, Moment};
use crate::error::{LostReason, StoreError};
use crate::lease::core::Step;
use crate::lease::kept::Kept;
use crate::lease::reaper::{Owed, Reaper};
use crate::mutex::steps::{Extend, ExtendAnswer};
use crate::mutex::views::Note;
use crate::skew::Skew;
use crate::store::Store;
use crate::ttl::Ttl;

/// How long the task sleeps when it keeps nothing; it is woken by whatever comes.
const IDLE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Keeper {
    table: Mutex<Table>,
    changed: Notify,
    store: Store,
    clock: Clock,
    request_timeout: Option<Duration>,
    reaper: Reaper,
    skew: Arc<Skew>,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    leases: HashMap<u64, Entry>,
    due: BinaryHeap<Reverse<(Moment, u64)>>,
}

#[derive(Debug)]
struct Entry {
    kept: Arc<Kept>,
    /// The one entry of `due` that counts; older ones are skipped.
    alarm: Moment,
}

impl Table {
    fn set_alarm(&mut self, id: u64, alarm: Moment) {
        if let Some(entry) = self.leases.get_mut(&id) {
            entry.alarm = alarm;
            self.due.push(Reverse((alarm, id)));
        }
    }

    /// The next lease whose alarm is due at `now`, or when the next one is.
    fn pop_due(&mut self, now: Moment) -> Result<(u64, Arc<Kept>), Option<Moment>> {
        while let Some(Reverse((alarm, id))) = self.due.peek().copied() {
            let entry = self.leases.get(&id).filter(|entry| entry.alarm == alarm);
            if let Some(entry) = entry {
                if alarm > now {
                    return Err(Some(alarm));
                }
                let kept = Arc::clone(&entry.kept);
                self.due.pop();
                return Ok((id, kept));
            }
            self.due.pop();
        }
        Err(None)
    }
}

impl Keeper {
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        request_timeout: Option<Duration>,
        reaper: Reaper,
        skew: Arc<Skew>,
    ) -> Self {
        let (table, changed) = (Mutex::default(), Notify::new());
        Keeper {
            table,
            changed,
            store,
            clock,
            request_timeout,
            reaper,
            skew,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a lease from now on. The id takes it back.
    pub(crate) fn keep(&self, kept: Arc<Kept>) -> u64 {
        let id = {
            let mut table = self.table();
            table.next_id += 1;
            let id = table.next_id;
            let alarm = Moment::from_nanos(0); // the task works out the real one
            table.leases.insert(id, Entry { kept, alarm });
            table.set_alarm(id, alarm);
            id
        };
        self.changed.notify_one();
        id
    }

    /// Stops renewing. A renewal that is on its way changes nothing any more.
    pub(crate) fn forget(&self, id: u64) {
        self.table().leases.remove(&id);
    }

    /// The lease is another task's from now on.
    pub(crate) fn pass_on(&self, id: u64, to: Arc<Kept>) {
        let alarm = to.core().alarm();
        let sooner = {
            let mut table = self.table();
            let entry = table.leases.get_mut(&id);
            let known = entry.map(|entry| {
                entry.kept = Arc::clone(&to);
                entry.alarm
            });
            if known.is_none() {
                table.leases.insert(id, Entry { kept: to, alarm });
            }
            let sooner = known.is_none_or(|known| alarm < known);
            if sooner {
                table.set_alarm(id, alarm);
            }
            sooner
        };
        // An alarm that rings too early is set anew: so a turn wakes nobody.
        if sooner {
            self.changed.notify_one();
        }
    }

    /// Whoever has the lease by now: it may have passed on while a request was on its way.
    fn present(&self, id: u64, asked_for: &Arc<Kept>) -> Arc<Kept> {
        let table = self.table();
        let entry = table.leases.get(&id);
        Arc::clone(entry.map_or(asked_for, |entry| &entry.kept))
    }

    /// It is over, unless it has passed on meanwhile: then the alarm that has just rung was the next one's.
    fn forget_this(&self, id: u64, kept: &Arc<Kept>) {
        let mut table = self.table();
        let Some(present) = table.leases.get(&id).map(|entry| Arc::clone(&entry.kept)) else {
            return;
        };
        if Arc::ptr_eq(&present, kept) {
            table.leases.remove(&id);
        } else {
            let alarm = present.core().alarm();
            table.set_alarm(id, alarm);
        }
    }

    /// Looks at a lease again, because its deadline moved.
    pub(crate) fn look_again(&self, id: u64) {
        self.table().set_alarm(id, Moment::from_nanos(0));
        self.changed.notify_one();
    }

    /// Everything that is held, oldest first.
    pub(crate) fn held(&self) -> Vec<Arc<Kept>> {
        let table = self.table();
        let mut leases: Vec<_> = table
            .leases
            .iter()
            .map(|(id, entry)| (*id, &entry.kept))
            .collect();
        leases.sort_by_key(|(id, _)| *id);
        leases
            .into_iter()
            .map(|(_, kept)| Arc::clone(kept))
            .collect()
    }

    /// Something happened to the store: every lease is verified by a renewal now.
    pub(crate) fn doubt_all(&self) {
        let now = self.clock.now();
        let ids: Vec<u64> = {
            let table = self.table();
            table
                .leases
                .values()
                .for_each(|entry| entry.kept.core().doubt(now));
            table.leases.keys().copied().collect()
        };
        ids.into_iter().for_each(|id| self.look_again(id));
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
            let due = self.table().pop_due(now);
            match due {
                Ok((id, kept)) => self.step(id, kept, now),
                Err(next) => return next.unwrap_or_else(|| now.plus(IDLE)),
            }
        }
    }

    fn step(self: &Arc<Self>, id: u64, kept: Arc<Kept>, now: Moment) {
        match kept.step(now) {
            Step::Until(next) => self.table().set_alarm(id, next),
            Step::Renew => {
                let deadline = kept.core().deadline();
                self.table().set_alarm(id, deadline);
                let keeper = Arc::clone(self);
                drop(tokio::spawn(async move { keeper.renew(id, kept).await }));
            }
            Step::Lost(reason) => {
                tracing::warn!(name = %kept.name, %reason, "lease lost");
                self.give_back_after_hold(&kept, reason);
                self.forget_this(id, &kept);
            }
            Step::Over => self.forget_this(id, &kept),
        }
    }

    /// At the end of the longest hold the store still holds the key: the lease is given up for the holder.
    fn give_back_after_hold(&self, kept: &Kept, reason: LostReason) {
        if reason == LostReason::HoldOver {
            self.reaper.take(Owed::release(
                kept.keys.clone(),
                kept.token.clone(),
                kept.fence,
                self.clock.now(),
            ));
        }
    }

    async fn renew(self: Arc<Self>, id: u64, kept: Arc<Kept>) {
        let (ttl, deadline) = {
            let core = kept.core();
            (core.ttl(), core.deadline())
        };
        let t0 = self.clock.now();
        let within = deadline
            .saturating_since(t0)
            .min(request_timeout(self.request_timeout, ttl));
        let extend = Extend {
            keys: &kept.keys,
            token: &kept.token,
            ttl,
        };
        let answer = self.store.ask(&extend, within).await;
        let kept = self.present(id, &kept);
        self.report(&kept, t0, ttl, answer);
        self.look_again(id);
        if let Some(why) = &kept.why {
            let note = Note {
                keys: &kept.keys,
                token: &kept.token,
                text: why,
                ttl,
            };
            drop(self.store.ask(&note, within).await); // a note for people; the lease does not depend on it
        }
    }

    fn report(&self, kept: &Kept, t0: Moment, ttl: Ttl, answer: Result<ExtendAnswer, StoreError>) {
        let now = self.clock.now();
        match answer {
            Ok(ExtendAnswer::Extended { time_us }) => {
                kept.core().extended(t0, now, ttl);
                kept.tell_hook();
                if self.skew.note(t0, now, time_us) {
                    self.doubt_all();
                }
            }
            Ok(ExtendAnswer::Expired) => drop(kept.end(LostReason::Vanished)),
            Ok(ExtendAnswer::Taken) => drop(kept.end(LostReason::TakenOver)),
            Err(error) => {
                tracing::debug!(name = %kept.name, %error, "renewal failed");
                kept.core().failed(now);
            }
        }
    }
}

/// One request may take a second, or a quarter of the ttl when that is less, so that a renewal can fail twice and a
/// third still comes before the deadline.
pub(crate) fn request_timeout(asked: Option<Duration>, ttl: Ttl) -> Duration {
    asked.unwrap_or_else(|| Duration::from_secs(1).min(ttl.as_duration() / 4))
}

#[cfg(all(test, feature = "embedded"))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::keys::MutexKeys;
    use crate::lease::core::Core;
    use crate::name::Name;
    use crate::store::embedded::EmbeddedStore;
    use crate::token::{ClientId, Token};
    use crate::ttl::Drift;

    fn keeper(clock: &Clock) -> Keeper {
        let store = Store::Embedded(EmbeddedStore::memory("", clock.clone()));
        let reaper = Reaper::new().0;
        Keeper::new(store, clock.clone(), None, reaper, Arc::default())
    }

    fn lease(clock: &Clock) -> Kept {
        let name = Name::new("job").unwrap();
        let keys = MutexKeys::new("", &name).unwrap();
        let token = Token::random(&ClientId::random().unwrap(), false).unwrap();
        let (ttl, drift) = (Ttl::whole_ms(9_000).unwrap(), Drift { ppm: 0 });
        let now = clock.now();
        let deadline = drift.deadline(now, ttl);
        let core = Core::granted(now, deadline, now, ttl, drift, true, None);
        Kept::new(name, keys, token, None, None, clock.clone(), core)
    }

    fn passed_on(kept: &Kept, clock: &Clock) -> Arc<Kept> {
        let ttl = kept.ttl();
        let core = kept.core().passed_on(clock.now(), ttl, None);
        kept.end(LostReason::GivenUp);
        Arc::new(kept.passed_on(None, core))
    }

    #[test]
    fn a_lease_that_passed_on_is_kept_although_the_one_before_it_is_over() {
        let clock = Clock::manual();
        let keeper = Arc::new(keeper(&clock));
        let first = Arc::new(lease(&clock));
        let id = keeper.keep(Arc::clone(&first));
        let due = keeper.work();
        clock.advance(due.saturating_since(clock.now()));
        // The alarm has rung for the first, and meanwhile the lease passes on.
        let (rung, kept) = keeper.table().pop_due(clock.now()).unwrap();
        assert!(rung == id && Arc::ptr_eq(&kept, &first));
        let next = passed_on(&first, &clock);
        keeper.pass_on(id, Arc::clone(&next));
        keeper.step(id, kept, clock.now());
        assert!(Arc::ptr_eq(&keeper.held()[0], &next));
        assert!(Arc::ptr_eq(&keeper.present(id, &first), &next));
        let (_, kept) = keeper.table().pop_due(clock.now()).unwrap();
        assert!(
            Arc::ptr_eq(&kept, &next),
            "it is looked at, because its renewal is due"
        );
    }

    #[test]
    fn an_alarm_is_set_anew_only_when_the_next_lease_needs_it_sooner() {
        let clock = Clock::manual();
        let keeper = Arc::new(keeper(&clock));
        let first = Arc::new(lease(&clock));
        let id = keeper.keep(Arc::clone(&first));
        keeper.work();
        let entries = keeper.table().due.len();
        let mut last = first;
        for _ in 0..1_000 {
            let next = passed_on(&last, &clock);
            keeper.pass_on(id, Arc::clone(&next));
            last = next;
        }
        assert_eq!(keeper.table().due.len(), entries);
        assert_eq!(keeper.held().len(), 1);
    }
}
