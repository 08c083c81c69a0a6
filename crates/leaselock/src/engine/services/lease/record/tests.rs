//! What a subscriber of tracing is told of losses.

use std::collections::BTreeMap;
use std::fmt;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

use super::*;
use crate::base::{ClientId, Drift, Token};
use crate::engine::services::lease::state::LeaseTerms;
use crate::engine::values::{AcquireTerms, Resource};
use crate::mutex::MUTEX;

#[derive(Default, Clone)]
struct Warnings(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, about: &tracing::Metadata<'_>) -> bool {
        about.target() == "leaselock" && *about.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        hold(&self.0).push(fields.0);
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn lease(clock: &Clock) -> LeaseRecord {
    let name = Name::new("job").unwrap();
    let resource = Resource::at(&MUTEX, Arc::from(&name), None);
    let token = Token::random(&ClientId::random().unwrap(), false).unwrap();
    let held = Held { resource, token };
    let (now, ttl) = (clock.now(), Ttl::whole_ms(9_000).unwrap());
    let drift = Drift { ppm: 0 };
    let terms = LeaseTerms::of(AcquireTerms::plain(ttl), None, now);
    let core = LeaseMachine::granted(now, drift.deadline(now, ttl), now, terms, drift);
    let fence = Some(Fence::new(7));
    LeaseRecord::new(name, held, fence, None, clock.clone(), core)
}

#[test]
fn each_loss_is_one_warning_with_name_fence_and_reason_and_a_release_is_none() {
    let warnings = Warnings::default();
    // With one subscriber alone the thread of another test could decide that no thread warns.
    let _second = tracing::Dispatch::new(Warnings::default());
    let _warned = tracing::subscriber::set_default(warnings.clone());
    let clock = Clock::manual();
    let [refused, noticed, checked, released] = [(); 4].map(|()| lease(&clock));
    refused.refused(clock.now(), LostReason::KeyMissing);
    released.end(LostReason::Released, clock.now());
    clock.advance(Duration::from_secs(9));
    noticed.step(clock.now());
    assert!(checked.lost_by_now().is_some());
    for record in [&refused, &noticed, &checked, &released] {
        record.step(clock.now()); // the renewal task comes later
    }
    let told = hold(&warnings.0);
    let reasons: Vec<&str> = told.iter().map(|fields| &*fields["reason"]).collect();
    let [gone, over] = [LostReason::KeyMissing, LostReason::Expired].map(|it| it.to_string());
    assert_eq!(reasons, [&*gone, &over, &over]);
    for fields in told.iter() {
        let [what, lock, fence] = ["message", "lock", "fence"].map(|field| &*fields[field]);
        assert_eq!((what, lock, fence), ("lease lost", "job", "7"));
    }
}
