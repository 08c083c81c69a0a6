//! The state machine of a lease, step by step.

use super::*;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * MS)
}

fn ttl(ms: u64) -> Ttl {
    Ttl::new(Duration::from_millis(ms)).unwrap()
}

fn silence() -> StoreError {
    StoreError::unknown(crate::base::error::ErrorKind::NoReply, "no reply in time")
}

/// Returns a lease with a ttl of 1000 ms from 0, so its deadline is 988 ms.
fn lease(renews: bool, max_hold: Option<Duration>) -> LeaseMachine {
    lease_until(at(988), renews, max_hold)
}

fn lease_until(deadline: Moment, renews: bool, max_hold: Option<Duration>) -> LeaseMachine {
    let drift = Drift { ppm: 10_000 };
    let asked = AcquireTerms {
        renews,
        ..AcquireTerms::plain(ttl(1000))
    };
    let terms = LeaseTerms::of(asked, max_hold, at(0));
    LeaseMachine::granted(at(0), deadline, at(0), terms, drift)
}

#[test]
fn renewal_is_due_at_a_third_of_what_is_left_and_only_once() {
    let mut core = lease(true, None);
    assert_eq!(core.deadline(), at(988));
    let NextStep::Until(due) = core.step(at(0)) else {
        panic!()
    };
    assert_eq!(due.as_nanos(), 988 * MS / 3);
    assert_eq!(core.step(due), NextStep::Renew);
    assert_eq!(core.step(due), NextStep::Until(at(988)));
}

#[test]
fn a_lease_that_was_handed_over_for_less_gets_its_whole_ttl_by_its_first_renewal() {
    let mut core = lease_until(at(300), true, None);
    assert_eq!((core.deadline(), core.ttl()), (at(300), ttl(1000)));
    assert_eq!(core.step(at(0)), NextStep::Until(at(100)));
    assert_eq!(core.step(at(100)), NextStep::Renew);
    core.extended(at(100), at(110), core.ttl());
    assert_eq!(core.deadline(), at(1088));
}

#[test]
fn a_lease_that_was_handed_over_for_less_and_is_not_renewed_ends_then() {
    let mut core = lease_until(at(300), true, None);
    assert_eq!(core.step(at(100)), NextStep::Renew);
    assert_eq!(
        core.step(at(300)),
        NextStep::Lost(LostReason::StoreUnreachable)
    );
}

#[test]
fn an_extension_counts_from_before_it_was_sent() {
    let mut core = lease(true, None);
    assert_eq!(core.step(at(400)), NextStep::Renew);
    core.extended(at(400), at(700), ttl(1000));
    assert_eq!(core.deadline(), at(1388));
}

#[test]
fn a_failed_renewal_is_not_a_loss_and_is_tried_again_before_the_deadline() {
    let mut core = lease(true, None);
    assert_eq!(core.step(at(400)), NextStep::Renew);
    core.failed(at(500), silence());
    assert!(core.is_suspect() && core.lost().is_none());
    let NextStep::Until(retry) = core.step(at(500)) else {
        panic!()
    };
    assert!(retry < at(988));
    assert_eq!(core.step(retry), NextStep::Renew);
    assert_eq!(
        core.step(at(988)),
        NextStep::Lost(LostReason::StoreUnreachable)
    );
}

#[test]
fn the_error_of_the_last_renewal_stays_until_one_is_confirmed() {
    let mut core = lease(true, None);
    assert_eq!(core.unconfirmed_for(at(400)), Duration::from_millis(400));
    core.failed(at(500), silence());
    assert_eq!(core.trouble(), Some(&silence()));
    let next = core.passed_on(at(510), ttl(1000), None);
    assert_eq!(next.unconfirmed_for(at(510)), Duration::from_millis(510));
    assert_eq!(next.trouble(), Some(&silence()));
    core.extended(at(520), at(530), ttl(1000));
    assert_eq!(core.trouble(), None);
    assert_eq!(core.unconfirmed_for(at(600)), Duration::from_millis(70));
}

#[test]
fn the_deadline_ends_the_lease_whatever_is_still_in_flight() {
    let mut core = lease(true, None);
    assert_eq!(core.step(at(400)), NextStep::Renew);
    assert_eq!(
        core.step(at(988)),
        NextStep::Lost(LostReason::StoreUnreachable)
    );
    core.extended(at(400), at(990), ttl(1000));
    assert_eq!(core.lost(), Some(LostReason::StoreUnreachable));
    assert_eq!(core.step(at(991)), NextStep::Over);
}

#[test]
fn without_renewal_the_lease_expires() {
    let mut core = lease(false, None);
    assert_eq!(core.step(at(900)), NextStep::Until(at(988)));
    assert_eq!(core.step(at(988)), NextStep::Lost(LostReason::Expired));
}

#[test]
fn the_longest_hold_bounds_every_extension() {
    let mut core = lease(true, Some(Duration::from_millis(1500)));
    assert_eq!(core.step(at(400)), NextStep::Renew);
    core.extended(at(900), at(900), ttl(1000));
    assert_eq!(core.deadline(), at(1500));
    assert_eq!(core.step(at(1499)), NextStep::Until(at(1500)));
    assert_eq!(
        core.step(at(1500)),
        NextStep::Lost(LostReason::MaxHoldReached)
    );
}

#[test]
fn an_extension_that_asks_for_less_never_shortens() {
    let mut core = lease(true, None);
    core.extended(at(100), at(100), ttl(200));
    assert_eq!(core.deadline(), at(988));
}

#[test]
fn the_first_reason_stays() {
    let mut core = lease(true, None);
    assert!(core.end(LostReason::TakenOver));
    assert!(!core.end(LostReason::Released));
    assert_eq!(core.lost(), Some(LostReason::TakenOver));
}

/// With a ttl of 1000 ms the renewal is due at 329 ms, and may run 50 ms earlier.
#[test]
fn a_lease_that_is_nearly_due_goes_with_others_unless_its_last_renewal_failed() {
    let mut core = lease(true, None);
    assert!(!core.renew_early(at(279)));
    assert!(core.renew_early(at(280)) && !core.renew_early(at(280)));
    core.failed(at(300), silence());
    assert!(!core.renew_early(at(400)));
    assert!(!lease(false, None).renew_early(at(900)));
    assert!(
        !lease(true, None).renew_early(at(988)),
        "its deadline has passed"
    );
}

#[test]
fn a_lease_that_is_passed_on_keeps_its_time_and_is_renewed_once_it_is_taken_up() {
    let mut core = lease(true, None);
    let NextStep::Until(due) = core.step(at(0)) else {
        panic!()
    };
    let mut next = core.passed_on(at(100), ttl(1000), None);
    assert!(core.end(LostReason::Released));
    assert_eq!((next.deadline(), next.next()), (at(988), due));
    assert_eq!(
        next.step(due),
        NextStep::Until(at(988)),
        "no task has taken it"
    );
    assert!(next.take_up(due));
    assert_eq!(next.step(due), NextStep::Renew);
}

#[test]
fn a_renewal_in_flight_when_the_lease_is_passed_on_counts_for_the_next_task() {
    let mut core = lease(true, None);
    assert_eq!(core.step(at(400)), NextStep::Renew);
    let mut next = core.passed_on(at(500), ttl(1000), None);
    assert!(!next.take_up(at(500)));
    next.extended(at(400), at(600), ttl(1000));
    assert_eq!(next.deadline(), at(1388));
    // A renewal whose reply is lost does not stop the next one from being due.
    let mut other = core.passed_on(at(500), ttl(1000), None);
    assert!(!other.take_up(at(500)));
    assert_eq!(other.step(other.next()), NextStep::Renew);
}

#[test]
fn each_task_has_a_longest_hold_of_its_own() {
    let long = Duration::from_millis(1500);
    let core = lease(true, Some(long));
    let mut next = core.passed_on(at(600), ttl(1000), Some(Duration::from_millis(1000)));
    next.extended(at(700), at(700), ttl(1000));
    assert_eq!(next.deadline(), at(1600), "counted from its own hand-over");
    let mut free = core.passed_on(at(600), ttl(1000), None);
    free.extended(at(700), at(700), ttl(1000));
    assert_eq!(free.deadline(), at(1688));
}

#[test]
fn a_verification_is_due_at_once() {
    let mut core = lease(true, None);
    core.verify_soon(at(10));
    assert_eq!(core.step(at(10)), NextStep::Renew);
}

#[test]
fn a_verification_is_repeated_until_a_later_request_has_its_reply() {
    let mut core = lease(true, None);
    core.extended(at(0), at(0), ttl(600_000));
    core.verify_soon(at(10));
    assert_eq!(core.step(at(10)), NextStep::Renew);
    core.failed(at(20), silence());
    assert_eq!(core.next(), at(1_020), "much sooner than a sixth");
    core.verify_soon(at(1_000));
    assert_eq!(core.step(at(1_000)), NextStep::Renew);
    core.extended(at(990), at(1_005), ttl(600_000));
    assert_eq!(core.step(at(1_005)), NextStep::Renew, "asked before");
    core.extended(at(1_005), at(1_006), ttl(600_000));
    assert!(core.next() > at(100_000));
    assert_eq!(core.step(at(1_007)), NextStep::Until(core.next()));
}

/// The store forgets the number of a grant after 26 hours.
#[test]
fn a_lease_for_weeks_is_renewed_twice_a_day_and_what_is_beside_it_is_kept() {
    const HOUR_MS: u64 = 3_600_000;
    let (drift, month) = (Drift { ppm: 0 }, 30 * 24 * HOUR_MS);
    let terms = LeaseTerms::of(AcquireTerms::plain(ttl(month)), None, at(0));
    let mut core = LeaseMachine::granted(at(0), at(month), at(0), terms, drift);
    let due = at(12 * HOUR_MS);
    assert_eq!(core.step(at(0)), NextStep::Until(due));
    assert_eq!(core.step(due), NextStep::Renew);
    core.failed(due, silence());
    let again = at(24 * HOUR_MS);
    assert_eq!(core.step(due), NextStep::Until(again));
    assert!(core.keep_is_due(again) && !core.keep_is_due(again));
}
