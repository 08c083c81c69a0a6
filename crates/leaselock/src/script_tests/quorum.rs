//! One test per reply of the scripts of a quorum's nodes, and per sentence of their replay sections. On a server only.

use std::time::Duration;

use leaselock_fence::Fence;

use super::lab::*;
use crate::base::error::ErrorKind;
use crate::base::token::Token;
use crate::engine::values::ballot::*;
use crate::engine::values::calls_many::Item;
use crate::engine::values::grant::ReleaseAnswer;
use crate::engine::values::kind::{Held, Resource};
use crate::script::Value;

const BEHIND: Duration = Duration::from_secs(15);

fn on_a_server(test: impl AsyncFn(&Lab)) {
    let lab = redis();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test(&lab));
}

impl Lab {
    async fn vote(
        &self,
        keys: &Resource,
        token: &Token,
        proposed: u64,
        caller: &str,
    ) -> VoteAnswer {
        self.ask(&CastVote {
            held_for: Held::of(keys, token).for_ttl(ttl(30_000)),
            proposed,
            behind: BEHIND,
            caller,
        })
        .await
    }

    async fn propose(&self, keys: &Resource, token: &Token, proposed: u64) -> AcceptAnswer {
        let (proposed, behind) = (Fence::new(proposed), BEHIND);
        self.ask(&Accept {
            held: &Held::of(keys, token),
            proposed,
            behind,
        })
        .await
    }

    async fn withdraw(&self, keys: &Resource, token: &Token) -> ReleaseAnswer {
        self.ask(&Withdraw::of(&Held::of(keys, token))).await
    }

    async fn vote_many(&self, items: &[Item], proposed: u64) -> VotedMany {
        self.ask(&VoteMany {
            items,
            proposed,
            behind: BEHIND,
        })
        .await
    }

    async fn withdraw_many(&self, items: &[&Item], tells: bool) -> Vec<Option<ReleaseAnswer>> {
        self.ask(&WithdrawMany { items, tells }).await
    }

    /// Reads the node's clock, by a vote that is withdrawn.
    async fn now_us(&self) -> u64 {
        let (keys, token) = (keys("clock"), unfenced_token());
        let voted = self.vote(&keys, &token, 0, "").await;
        assert_eq!(self.withdraw(&keys, &token).await, ReleaseAnswer::Released);
        voted.time_us()
    }

    async fn fence_of(&self, keys: &Resource) -> Option<u64> {
        Some(self.latest_fence(keys).await).filter(|latest| *latest > 0)
    }

    async fn left_ms(&self, key: &str) -> i64 {
        match self.meddle(&TTL_OF, key, &[]).await[0] {
            Value::Int(left) => left,
            ref other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_free_lock_is_voted_for_under_a_proposal_that_holds() {
    on_a_server(async |lab| {
        let (keys, token) = (keys("job"), token());
        let proposed = lab.now_us().await;
        let voted = lab.vote(&keys, &token, proposed, "").await;
        assert!(matches!(voted, VoteAnswer::Accepted { .. }), "{voted:?}");
        assert!(lab.holds(&keys, &token).await);
        assert_eq!(lab.fence_of(&keys).await, Some(proposed));
        let left = lab.left_ms(&keys.fence().to_string()).await;
        assert!(left > 25 * 3_600_000, "{left}");
    });
}

#[test]
fn without_fencing_a_vote_touches_no_fence() {
    on_a_server(async |lab| {
        let (keys, token) = (keys("job"), unfenced_token());
        let voted = lab.vote(&keys, &token, 0, "").await;
        assert!(matches!(voted, VoteAnswer::Accepted { .. }), "{voted:?}");
        assert_eq!(lab.fence_of(&keys).await, None);
    });
}

/// Three proposals do not hold: one equal to the last, 0, which is none, and one too far behind the node's clock: by a
/// quarter of the longest lease.
#[test]
fn a_proposal_that_does_not_hold_leaves_the_vote_and_the_fence_and_names_what_would() {
    on_a_server(async |lab| {
        let behind_us = u64::try_from(BEHIND.as_micros()).unwrap();
        for (name, ahead) in [("new", false), ("seen", true)] {
            let keys = keys(name);
            let now = lab.now_us().await;
            let seen = now + 60_000_000;
            let before = ahead.then_some(seen);
            if let Some(number) = before {
                lab.set_fence(&keys, number).await;
            }
            let too_small = if ahead {
                vec![0, now, seen - 1, seen]
            } else {
                vec![0, 1, now - behind_us]
            };
            for proposed in too_small {
                let token = token();
                let voted = lab.vote(&keys, &token, proposed, "").await;
                let VoteAnswer::Granted { least, .. } = voted else {
                    panic!("{proposed}: {voted:?}")
                };
                assert!(
                    if ahead {
                        least == seen + 1
                    } else {
                        least >= now
                    },
                    "{least}"
                );
                assert!(lab.holds(&keys, &token).await);
                assert_eq!(lab.fence_of(&keys).await, before);
                let again = lab.propose(&keys, &token, least).await;
                assert!(
                    ahead || again == AcceptAnswer::Agreed,
                    "{least} is what was asked for"
                );
                assert_eq!(lab.withdraw(&keys, &token).await, ReleaseAnswer::Released);
                match before {
                    Some(number) => lab.set_fence(&keys, number).await,
                    None => drop(lab.meddle(&DELETE, &keys.fence().to_string(), &[]).await),
                }
            }
        }
    });
}

#[test]
fn a_number_that_was_accepted_is_refused_when_it_is_sent_again() {
    on_a_server(async |lab| {
        let (keys, token) = (keys("job"), token());
        let proposed = lab.now_us().await;
        lab.vote(&keys, &token, proposed, "").await;
        lab.meddle(&SHORTEN, &keys.lock, &["5000"]).await;
        let again = lab.vote(&keys, &token, proposed, "").await;
        assert!(
            matches!(again, VoteAnswer::Granted { least, .. } if least > proposed),
            "{again:?}"
        );
        assert!(
            lab.left_ms(&keys.lock).await > 20_000,
            "its time is whole again"
        );
        assert!(matches!(
            lab.propose(&keys, &token, proposed).await,
            AcceptAnswer::Refused { least } if least > proposed
        ));
        assert_eq!(
            lab.propose(&keys, &token, proposed + 60_000_000).await,
            AcceptAnswer::Agreed
        );
        let other = super::lab::token();
        assert_eq!(
            lab.propose(&keys, &other, proposed + 61_000_000).await,
            AcceptAnswer::Gone
        );
    });
}

#[test]
fn a_held_lock_is_busy_and_a_registered_caller_is_woken_once_by_its_release() {
    on_a_server(async |lab| {
        let (keys, holder, other) = (keys("job"), token(), token());
        lab.vote(&keys, &holder, lab.now_us().await, "").await;
        let caller = format!("{} news", other.secret());
        for _ in 0..2 {
            let VoteAnswer::Busy { seen } = lab.vote(&keys, &other, 0, &caller).await else {
                panic!("it is held")
            };
            assert!(seen.remaining.unwrap().as_millis() > 20_000);
            assert_eq!(
                seen.holder.as_deref(),
                crate::base::token::client_of(holder.secret().as_bytes())
            );
        }
        let gone = format!("{} nobody", token().secret());
        assert!(matches!(
            lab.vote(&keys, &token(), 0, &gone).await,
            VoteAnswer::Busy { .. }
        ));
        let news = lab.listen("news").await;
        assert_eq!(lab.withdraw(&keys, &holder).await, ReleaseAnswer::Released);
        assert_eq!(news.heard(&other).await, other.secret());
        assert_eq!(lab.withdraw(&keys, &holder).await, ReleaseAnswer::Expired);
        lab.vote(&keys, &other, lab.now_us().await, &caller).await;
        assert_eq!(lab.withdraw(&keys, &holder).await, ReleaseAnswer::Taken);
        // Its vote removed its own registration. The caller without receivers is left, and the next wake-up removes it.
        assert_eq!(lab.withdraw(&keys, &other).await, ReleaseAnswer::Released);
        let left = lab.meddle(&TYPE_OF, &keys.callers().to_string(), &[]).await;
        assert_eq!(left, [Value::Bytes(b"none".to_vec())]);
    });
}

#[test]
fn a_caller_that_leaves_a_free_lock_passes_its_wake_up_on() {
    on_a_server(async |lab| {
        let (keys, holder, gone, next) = (keys("job"), token(), token(), token());
        lab.vote(&keys, &holder, lab.now_us().await, "").await;
        let [left, other] = [&gone, &next].map(|token| format!("{} news", token.secret()));
        lab.vote(&keys, &next, 0, &other).await;
        let news = lab.listen("news").await;
        let held = Held::of(&keys, &gone);
        let leaves = |tells| Withdraw {
            held: &held,
            tells,
            caller: &left,
        };
        assert_eq!(lab.ask(&leaves(true)).await, ReleaseAnswer::Taken);
        lab.meddle(&DELETE, &keys.lock, &[]).await;
        assert_eq!(lab.ask(&leaves(false)).await, ReleaseAnswer::Expired);
        let asks = lab.meddle(&TYPE_OF, &keys.callers().to_string(), &[]).await;
        assert_eq!(
            asks,
            [Value::Bytes(b"zset".to_vec())],
            "no caller was woken yet"
        );
        assert_eq!(lab.ask(&leaves(true)).await, ReleaseAnswer::Expired);
        assert_eq!(news.heard(&next).await, next.secret());
    });
}

#[test]
fn a_damaged_fence_refuses_the_vote_leaves_nothing_and_asks_for_no_number() {
    on_a_server(async |lab| {
        let (keys, token) = (keys("job"), token());
        let fence = keys.fence().to_string();
        for damage in ["", "9007199254740-993", "soon"] {
            lab.meddle(&DELETE, &fence, &[]).await;
            match damage {
                "" => lab.meddle(&ADD_HASH, &fence, &[]).await,
                "soon" => lab.meddle(&SET, &fence, &[damage]).await,
                id => lab.meddle(&ADVANCE, &fence, &[id]).await,
            };
            for caller in ["", "somebody ch"] {
                let held = Held::of(&keys, &token);
                let vote = CastVote {
                    held_for: held.for_ttl(ttl(30_000)),
                    proposed: lab.now_us().await,
                    behind: BEHIND,
                    caller,
                };
                let error = lab.store.ask(&vote, WITHIN).await.unwrap_err();
                let what = (error.kind(), error.maybe_applied());
                assert_eq!(what, (ErrorKind::Corrupt, false), "{error}");
            }
            let now = lab.now_us().await;
            let many = lab.vote_many(&[item(&keys, &token)], now).await;
            assert_eq!(many.accepted, [false]);
            assert!(many.least < now + 60_000_000, "{many:?}");
            let left = lab.meddle(&TYPE_OF, &keys.lock, &[]).await;
            assert_eq!(left, [Value::Bytes(b"none".to_vec())]);
        }
    });
}

/// The vote stays in spite of the damage: its lease may be in use.
#[test]
fn a_fence_that_was_damaged_behind_a_vote_takes_no_other_number_and_leaves_the_vote() {
    on_a_server(async |lab| {
        let (keys, token) = (keys("job"), token());
        let now = lab.now_us().await;
        lab.vote(&keys, &token, now, "").await;
        lab.meddle(&SET, &keys.fence().to_string(), &["soon"]).await;
        let accept = Accept {
            held: &Held::of(&keys, &token),
            proposed: Fence::new(now + 1),
            behind: BEHIND,
        };
        let error = lab.store.ask(&accept, WITHIN).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(lab.holds(&keys, &token).await);
    });
}

#[test]
fn a_number_that_would_damage_the_fence_is_not_accepted() {
    on_a_server(async |lab| {
        let (keys, token) = (keys("job"), token());
        let beyond = Fence::MAX.get() + 1;
        for caller in ["", "somebody ch"] {
            let voted = lab.vote(&keys, &token, beyond, caller).await;
            assert!(matches!(voted, VoteAnswer::Granted { .. }), "{voted:?}");
            let long = lab.vote(&keys, &token, beyond * 10, caller).await;
            assert!(matches!(long, VoteAnswer::Granted { .. }), "{long:?}");
            assert_eq!(lab.fence_of(&keys).await, None);
            lab.withdraw(&keys, &token).await;
        }
    });
}

#[test]
fn another_type_under_the_callers_costs_a_wake_up_and_no_answer() {
    on_a_server(async |lab| {
        let (keys, holder, other) = (keys("job"), token(), token());
        lab.meddle(&SET, &keys.callers().to_string(), &["x"]).await;
        lab.vote(&keys, &holder, lab.now_us().await, "").await;
        let busy = lab.vote(&keys, &other, 0, "somebody ch").await;
        assert!(matches!(busy, VoteAnswer::Busy { .. }), "{busy:?}");
        assert_eq!(lab.withdraw(&keys, &holder).await, ReleaseAnswer::Released);
        assert!(!lab.holds(&keys, &holder).await);
        let now = lab.now_us().await;
        let granted = lab.vote(&keys, &other, now, "somebody ch").await;
        assert!(
            matches!(granted, VoteAnswer::Accepted { .. }),
            "{granted:?}"
        );
        let given_back = [item(&keys, &other)];
        let given_back: Vec<&Item> = given_back.iter().collect();
        let answers = lab.withdraw_many(&given_back, true).await;
        assert_eq!(answers, [Some(ReleaseAnswer::Released)]);
    });
}

#[test]
fn of_many_the_free_locks_get_votes_and_the_call_has_no_effect_on_the_others() {
    on_a_server(async |lab| {
        let names = ["free", "held", "odd", "ahead"].map(keys);
        let [free, held, odd, ahead] = &names;
        let (holder, now) = (token(), lab.now_us().await);
        lab.vote(held, &holder, now, "").await;
        lab.meddle(&ADD_HASH, &odd.lock, &[]).await;
        let far = now + 60_000_000;
        lab.set_fence(ahead, far).await;
        // The first lock a second time: another task of the same client wants it too.
        let items: Vec<Item> = names
            .iter()
            .chain([free])
            .map(|keys| item(keys, &token()))
            .collect();
        let voted = lab.vote_many(&items, now + 1).await;
        assert_eq!(voted.accepted, [true, false, false, false, false]);
        assert_eq!(voted.least, far + 1, "what would hold for all");
        assert!(lab.holds(free, &items[0].held.token).await && lab.holds(held, &holder).await);
        assert!(!lab.holds(ahead, &items[3].held.token).await);
        assert_eq!(lab.fence_of(free).await, Some(now + 1));
        assert_eq!(
            lab.fence_of(odd).await,
            Some(now + 1),
            "lost, and the next is larger"
        );

        let again = lab.vote_many(&items, voted.least).await;
        assert_eq!(again.accepted, [false, false, false, true, false]);
        assert!(lab.left_ms(&free.lock).await > 20_000);
    });
}

#[test]
fn many_votes_without_fencing_touch_no_fences() {
    on_a_server(async |lab| {
        let names = ["one", "two"].map(keys);
        let items: Vec<Item> = names
            .iter()
            .map(|keys| item(keys, &unfenced_token()))
            .collect();
        assert_eq!(lab.vote_many(&items, 0).await.accepted, [true, true]);
        assert_eq!(lab.fence_of(&names[0]).await, None);
    });
}

#[test]
fn of_many_the_votes_that_are_held_are_withdrawn_and_their_callers_are_woken() {
    on_a_server(async |lab| {
        let names = ["mine", "free", "theirs", "odd"].map(keys);
        let [mine, _, theirs, odd] = &names;
        let (other, now) = (token(), lab.now_us().await);
        lab.vote(theirs, &other, now, "").await;
        lab.meddle(&ADD_HASH, &odd.lock, &[]).await;
        let items: Vec<Item> = names.iter().map(|keys| item(keys, &token())).collect();
        lab.vote(mine, &items[0].held.token, now, "").await;
        let caller = format!("{} news", other.secret());
        lab.vote(mine, &other, 0, &caller).await;
        let news = lab.listen("news").await;
        let twice: Vec<&Item> = items.iter().chain([&items[0]]).collect();
        let answers = lab.withdraw_many(&twice, true).await;
        let (released, expired) = (Some(ReleaseAnswer::Released), Some(ReleaseAnswer::Expired));
        assert_eq!(
            answers,
            [released, expired, Some(ReleaseAnswer::Taken), None, expired]
        );
        assert_eq!(news.heard(&other).await, other.secret());
        assert!(lab.holds(theirs, &other).await);
        let answers = lab.withdraw_many(&twice, true).await;
        assert_eq!(answers[0], expired, "the first call did the work");
    });
}
