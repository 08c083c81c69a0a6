//! What an owner holds: one entry for each lease, with what each of its guards asked for.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::error::Lost;
use crate::base::token::client_of;
use crate::base::{InvalidInput, Moment, Ttl};
use crate::engine::guard::lease::Lease;
use crate::engine::services::{Engine, Id, LeaseRecord, LeaseTerms};
use crate::engine::values::kind::Beside;
use crate::engine::values::{AcquireRequest, AcquireTerms, Copies, LockMode};

/// The holds of an owner, by the lock's key. Only permits of one name may be several holds.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    by_key: HashMap<Arc<str>, Vec<Hold>>,
    /// The number of the latest guard.
    guards: u64,
}

/// A lease of an owner.
#[derive(Debug)]
pub(crate) struct Hold {
    mode: LockMode,
    record: Arc<LeaseRecord>,
    id: Id,
    /// True if the server may still run a request of the acquisition.
    late_requests: bool,
    fences: bool,
    copies: Option<Copies>,
    /// True while its only guard is upgraded or downgraded.
    pub(super) changing: bool,
    /// What each living guard asked for, by its number.
    guards: Vec<(u64, LeaseTerms)>,
}

/// What an acquisition finds.
pub(crate) enum FoundHold<'a> {
    /// The hold covers it.
    Covered(&'a mut Hold),
    /// A hold of that name was lost, and a guard of it lives.
    Lost(Lost),
    WaitsForItself(&'static str),
    /// The store decides.
    Nothing,
}

impl Holds {
    /// Finds the hold of this name that decides about a request. Returns the number of a new guard with it.
    pub(crate) fn find(&mut self, key: &str, asked: LockMode) -> (FoundHold<'_>, u64) {
        self.guards += 1;
        for hold in self.by_key.get_mut(key).into_iter().flatten() {
            if let Some(lost) = hold.record.lost_by_now() {
                return (FoundHold::Lost(lost), self.guards);
            }
            if hold.changing {
                let way_out = "let the upgrade or downgrade of the lease that it holds end first";
                return (FoundHold::WaitsForItself(way_out), self.guards);
            }
            let found = match hold.mode.beside(asked) {
                Beside::Covered => FoundHold::Covered(hold),
                Beside::WaitsForItself(way_out) => FoundHold::WaitsForItself(way_out),
                Beside::Apart => continue,
            };
            return (found, self.guards);
        }
        (FoundHold::Nothing, self.guards)
    }

    /// Adds the lease that the store has granted, and returns the number of its guard.
    pub(crate) fn add(&mut self, mode: LockMode, lease: &Lease, request: &AcquireRequest) -> u64 {
        self.guards += 1;
        let (_, record, id) = lease.parts();
        let key = Arc::clone(&record.held.resource.lock);
        self.by_key.entry(key).or_default().push(Hold {
            mode,
            record: Arc::clone(record),
            id,
            late_requests: lease.expects_late_requests(),
            fences: request.terms.fences,
            copies: request.copies,
            changing: false,
            guards: vec![(self.guards, record.core().terms())],
        });
        self.guards
    }

    /// The client and the digest of each token that holds as long as its guards do. A hold that ends by itself keeps no
    /// other owner waiting for ever.
    pub(super) fn lasting(&self) -> Vec<(String, String)> {
        let holds = self.by_key.values().flatten();
        let lasting = holds.filter(|hold| {
            let terms = hold.terms();
            terms.asked.renews && terms.hold_until.is_none() && hold.record.lost_by_now().is_none()
        });
        let named = |hold: &Hold| {
            let token = &hold.record.held.token;
            Some((client_of(token.as_bytes())?.to_owned(), token.digest()))
        };
        lasting.filter_map(named).collect()
    }

    fn place(&self, key: &str, guard: u64) -> Option<usize> {
        let mut holds = self.by_key.get(key)?.iter();
        holds.position(|hold| hold.guards.iter().any(|(number, _)| *number == guard))
    }

    pub(crate) fn of_guard(&mut self, key: &str, guard: u64) -> Option<&mut Hold> {
        let place = self.place(key, guard)?;
        self.by_key.get_mut(key)?.get_mut(place)
    }

    /// Removes a guard, and its hold with the last one. Returns the hold if it has other guards.
    pub(crate) fn remove(&mut self, key: &str, guard: u64) -> Option<&mut Hold> {
        let place = self.place(key, guard)?;
        let holds = self.by_key.get_mut(key)?;
        holds[place].guards.retain(|(number, _)| *number != guard);
        if !holds[place].guards.is_empty() {
            return self.by_key.get_mut(key)?.get_mut(place);
        }
        holds.remove(place);
        if holds.is_empty() {
            self.by_key.remove(key);
        }
        None
    }
}

impl Hold {
    /// Adds a guard, and returns its lease.
    ///
    /// # Errors
    /// The guard would promise what the hold does not have.
    pub(crate) fn share(
        &mut self,
        engine: &Arc<Engine>,
        guard: u64,
        request: &AcquireRequest,
    ) -> Result<Lease, InvalidInput> {
        let name = &self.record.name;
        if request.terms.fences && !self.fences {
            return Err(InvalidInput::new(format!(
                "the owner holds `{name}` without a fencing token: acquire it with one first, or switch fencing off here too"
            )));
        }
        if request.copies.is_some() && request.copies != self.copies {
            return Err(InvalidInput::new(format!(
                "the owner holds `{name}` already, and not by that number of replicas: ask for them where it is acquired first"
            )));
        }
        let terms = LeaseTerms::of(request.terms, request.max_hold, engine.clock.now());
        self.guards.push((guard, terms));
        self.apply(engine);
        let mut lease = Lease::new(Arc::clone(engine), Arc::clone(&self.record), self.id);
        if self.late_requests {
            lease.expect_late_requests();
        }
        Ok(lease)
    }

    /// Goes on as the lease that its only guard was changed into.
    pub(super) fn becomes(&mut self, record: &Arc<LeaseRecord>, id: Id, late_requests: bool) {
        let terms = record.core().terms();
        self.guards.iter_mut().for_each(|guard| guard.1 = terms);
        self.copies = None; // no change waits for them
        self.mode = LockMode::of(&record.held.resource);
        (self.record, self.id) = (Arc::clone(record), id);
        self.late_requests = late_requests;
        self.changing = false;
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.guards.len() > 1
    }

    /// Notes that a guard was extended, and returns the ttl that renewals ask for.
    pub(crate) fn extended(&mut self, guard: u64, ttl: Ttl) -> Ttl {
        let mut guards = self.guards.iter_mut();
        if let Some((_, terms)) = guards.find(|(number, _)| *number == guard) {
            terms.asked.ttl = ttl;
        }
        self.terms().asked.ttl
    }

    /// The longest ttl that a guard asked for, renewal if one of them did, and the shortest of their longest holds.
    fn terms(&self) -> LeaseTerms {
        let all = || self.guards.iter().map(|(_, terms)| terms);
        let known = self.record.core().terms().asked;
        let longest = all().map(|terms| terms.asked.ttl).max();
        LeaseTerms {
            asked: AcquireTerms {
                ttl: longest.unwrap_or(known.ttl),
                renews: all().any(|terms| terms.asked.renews),
                ..known
            },
            hold_until: all().filter_map(|terms| terms.hold_until).min(),
        }
    }

    /// Makes the lease what its guards ask for together.
    pub(crate) fn apply(&self, engine: &Engine) {
        let terms = self.terms();
        let changed = self.record.core().set_terms(terms, engine.clock.now());
        if changed {
            let end_of_time = Moment::from_nanos(u64::MAX);
            engine
                .store
                .limit_session(terms.hold_until.unwrap_or(end_of_time));
            if let Some(background) = engine.started() {
                // Not here, where the owner is locked: a hook may use it.
                let record = Arc::clone(&self.record);
                drop(background.handle.spawn(async move { record.tell_hook() }));
            }
            engine.check_now(self.id);
        }
    }
}
