//! A waiter of a kind of a later version, which no script can judge: the scripts wake a live one at its turn, pass over
//! one without receivers, and fail on neither.

use super::lab::*;
use crate::base::token::Token;
use crate::client::views::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::Resource;

const KINDS: [&str; 3] = ["a", "z9", "shared"];
/// Later than any server's time, so the entry counts as alive; and a poll long ago.
const JUST_NOW: &str = "9999999999999999";
const LONG_AGO: &str = "1000000000000000";

/// Adds a waiter to the queue before all others.
async fn add_in_front(
    lab: &Lab,
    keys: &Resource,
    (kind, channel): (&str, &str),
    polled: &str,
) -> Token {
    let token = token();
    let ticket = "0000000000000001";
    let member = format!("{ticket}{}{polled} 0 5000 {kind} {channel}", token.secret());
    let entry = [token.secret(), &member];
    lab.meddle(&ADD_MEMBER, &keys.queue().to_string(), &[&member])
        .await;
    lab.meddle(&ADD_ENTRY, &keys.waiters().to_string(), &entry)
        .await;
    token
}

async fn is_free(lab: &Lab, keys: &Resource) -> bool {
    matches!(lab.inspect(keys).await.state, InspectedState::Free)
}

fn waits_here() -> How<'static> {
    How {
        channel: "here",
        ..WAIT
    }
}

/// How a lock is given up.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Released,
    Cancelled,
    Broken,
}

async fn end(lab: &Lab, keys: &Resource, holder: &Token, ending: Ending) {
    match ending {
        Ending::Released => {
            let released = lab.release(keys, holder).await;
            assert_eq!(released, ReleaseAnswer::Released, "{}", lab.engine);
        }
        Ending::Cancelled => {
            let cancelled = lab.cancel(keys, holder).await;
            assert_eq!(cancelled, CancelAnswer::Released, "{}", lab.engine);
        }
        Ending::Broken => {
            let broken = lab.ask(&break_now(keys, None, false)).await;
            assert!(
                matches!(broken, Broke::Broken { .. }),
                "{}: {broken:?}",
                lab.engine
            );
        }
    }
}

#[test]
fn nothing_is_granted_past_a_live_waiter_of_an_unknown_kind_and_it_is_woken_by_its_token() {
    on_every_engine(async |lab| {
        for kind in KINDS {
            let endings = [Ending::Released, Ending::Cancelled, Ending::Broken];
            for ending in endings {
                let keys = keys(&format!("job-{kind}-{ending:?}"));
                let (holder, behind) = (token(), token());
                let (theirs, here) = (lab.listen("theirs").await, lab.listen("here").await);
                lab.granted(&keys, &holder, &TRY).await;
                assert_eq!(lab.waiting(&keys, &behind, &waits_here()).await, 1);
                let first = add_in_front(lab, &keys, (kind, "theirs"), JUST_NOW).await;
                end(lab, &keys, &holder, ending).await;
                assert!(is_free(lab, &keys).await, "{} {kind}", lab.engine);
                assert_eq!(theirs.heard(&first).await, first.secret());

                assert_eq!(lab.waiting(&keys, &behind, &waits_here()).await, 2);
                let newcomer = lab.acquire(&keys, &token(), &TRY).await;
                assert!(matches!(newcomer, Acquired::Busy { .. }), "{newcomer:?}");
                assert_eq!(lab.waiting(&keys, &token(), &WAIT).await, 3);
                assert!(is_free(lab, &keys).await, "{} {kind}", lab.engine);
                assert_eq!(here.count(), 0, "{} {kind}", lab.engine);

                assert_eq!(lab.cancel(&keys, &first).await, CancelAnswer::Left);
                let granted = here.heard(&behind).await;
                assert!(granted.starts_with("grant "), "{granted}");
                assert!(lab.granted(&keys, &behind, &WAIT).await.is_some());
            }
        }
    });
}

#[test]
fn a_waiter_of_an_unknown_kind_without_receivers_is_passed_over_and_removed_in_time() {
    on_every_engine(async |lab| {
        for kind in KINDS {
            for (polled, left) in [(JUST_NOW, 1), (LONG_AGO, 0)] {
                let keys = keys(&format!("job-{kind}-{left}"));
                let (holder, behind) = (token(), token());
                let here = lab.listen("here").await;
                lab.granted(&keys, &holder, &TRY).await;
                lab.waiting(&keys, &behind, &waits_here()).await;
                add_in_front(lab, &keys, (kind, "away"), polled).await;
                lab.release(&keys, &holder).await;
                assert!(here.heard(&behind).await.starts_with("grant "));
                assert!(lab.holds(&keys, &behind).await, "{} {kind}", lab.engine);
                assert_eq!(lab.queue_length(&keys).await, left, "{} {kind}", lab.engine);

                assert_eq!(lab.release(&keys, &behind).await, ReleaseAnswer::Released);
                assert!(lab.granted(&keys, &token(), &TRY).await.is_some());
            }
        }
    });
}

/// A known token keeps its request, and other waiters queue behind it as behind any entry.
#[test]
fn behind_a_holder_an_entry_of_an_unknown_kind_is_one_like_any_other() {
    on_every_engine(async |lab| {
        let (keys, holder, behind) = (keys("job"), token(), token());
        lab.granted(&keys, &holder, &TRY).await;
        let first = add_in_front(lab, &keys, ("w3", "theirs"), JUST_NOW).await;
        assert_eq!(lab.waiting(&keys, &behind, &WAIT).await, 2);
        assert_eq!(lab.waiting(&keys, &behind, &WAIT).await, 2);
        assert_eq!(lab.queue_length(&keys).await, 2);
        assert_eq!(lab.cancel(&keys, &behind).await, CancelAnswer::Left);
        assert_eq!(lab.cancel(&keys, &first).await, CancelAnswer::Left);
        assert_eq!(lab.queue_length(&keys).await, 0);
    });
}
