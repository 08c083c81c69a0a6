//! One test per reply of the scripts for operators: break, inspect, survey, and the records and notes that they show.

use super::lab::*;
use super::rwlock::reads::as_kind;
use crate::base::token::Token;
use crate::client::inspection::BreakOptions;
use crate::client::views::*;
use crate::engine::values::Note;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, Resource};
use crate::mutex::MUTEX;
use crate::rwlock::READ;
use crate::script::Value;
use crate::script::keys::LockKeys;
use crate::semaphore::PERMITS;

#[test]
fn break_takes_away_what_its_terms_allow() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        let terms = |only, foreign| break_now(&keys, only, foreign);
        assert_eq!(lab.ask(&terms(None, false)).await, Broke::Free);
        let fence = lab.granted(&keys, &holder, &TRY).await.unwrap();
        let older = crate::Fence::new(fence.get() - 1);
        assert_eq!(
            lab.ask(&terms(Some(older), false)).await,
            Broke::Changed { fence: Some(fence) }
        );
        assert!(lab.holds(&keys, &holder).await);
        let Broke::Broken {
            holder: was_holder,
            fence: broken,
            count: 1,
            rest_ms: 0,
        } = lab.ask(&terms(Some(fence), false)).await
        else {
            panic!()
        };
        assert_eq!(
            (was_holder.as_deref(), broken),
            (
                crate::base::token::client_of(holder.secret().as_bytes()),
                Some(fence)
            )
        );
        lab.meddle(&SET, &keys.lock, &["f47ac10b-58cc-4372-a567-0e02b2c3d479"])
            .await;
        assert_eq!(lab.ask(&terms(None, false)).await, Broke::Foreign);
        assert!(matches!(
            lab.ask(&terms(None, true)).await,
            Broke::Broken { holder: None, .. }
        ));
        assert!(matches!(
            lab.inspect(&keys).await.state,
            InspectedState::Free
        ));
    });
}

/// Each way of holding.
fn every_hold() -> [(Resource, Token); 5] {
    [
        (keys("fenced"), token()),
        (keys("unfenced"), unfenced_token()),
        (as_kind(&READ, "s", "read"), token()),
        (as_kind(&READ, "u", "upgradable"), token()),
        (as_kind(&PERMITS, "w2 3", "permits"), token()),
    ]
}

#[test]
fn a_lease_that_is_broken_is_not_renewed_and_its_holder_alone_can_release_it() {
    on_every_engine(async |lab| {
        for (keys, holder) in every_hold() {
            let fenced = holder.is_fenced();
            let fencing = How {
                fencing: fenced,
                ..TRY
            };
            lab.granted(&keys, &holder, &fencing).await;
            for _ in 0..2 {
                let broke = lab.ask(&break_of(&keys, BreakOptions::default())).await;
                let Broke::Broken {
                    count: 1,
                    rest_ms,
                    fence,
                    ..
                } = broke
                else {
                    panic!("{}: {broke:?}", lab.engine)
                };
                assert!(rest_ms > 1_000, "{}: {rest_ms}", lab.engine);
                assert_eq!(fence.is_some(), fenced, "{}", lab.engine);
            }
            assert_eq!(
                lab.extend(&keys, &holder, 90_000).await,
                ExtendAnswer::BROKEN,
                "{}",
                lab.engine
            );
            let alone = Resource::at(&MUTEX, keys.lock.clone(), None);
            let next = lab.acquire(&alone, &token(), &TRY).await;
            assert!(matches!(next, Acquired::Busy { .. }), "{}", lab.engine);
            let released = lab.release(&keys, &holder).await;
            assert_ne!(released, ReleaseAnswer::Released, "{}", lab.engine);
            let released = lab.release(&keys, &holder.broken()).await;
            assert_eq!(released, ReleaseAnswer::Released, "{}", lab.engine);
        }
    });
}

#[test]
fn what_a_cancel_finds_broken_it_gives_back() {
    on_every_engine(async |lab| {
        for (keys, holder) in every_hold() {
            let fencing = How {
                fencing: holder.is_fenced(),
                ..TRY
            };
            lab.granted(&keys, &holder, &fencing).await;
            lab.ask(&break_of(&keys, BreakOptions::default())).await;
            let cancelled = lab.cancel(&keys, &holder).await;
            assert_eq!(cancelled, CancelAnswer::Released, "{}", lab.engine);
            let alone = Resource::at(&MUTEX, keys.lock.clone(), None);
            lab.granted(&alone, &token(), &TRY).await; // it is free
            let absent = lab.cancel(&keys, &holder).await;
            assert_eq!(absent, CancelAnswer::Absent, "{}", lab.engine);
        }
    });
}

#[test]
fn inspect_shows_free_held_and_other() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        assert!(matches!(
            lab.inspect(&keys).await.state,
            InspectedState::Free
        ));
        let fence = lab.granted(&keys, &holder, &TRY).await;
        let held = Held::of(&keys, &holder);
        let note = |text| Note::of(held.for_ttl(ttl(60_000)), text).unwrap();
        lab.ask(&note("month end")).await;
        let InspectedState::Held(SeenHold {
            value,
            pttl_ms,
            fence: shown,
            why,
            ..
        }) = lab.inspect(&keys).await.state
        else {
            panic!()
        };
        assert_eq!(
            (value.as_slice(), shown, why.as_slice()),
            (holder.secret().as_bytes(), fence, b"month end".as_slice())
        );
        assert!(pttl_ms.unwrap() > 20_000);
        lab.release(&keys, &holder).await;
        lab.meddle(&ADD_HASH, &keys.lock, &[]).await;
        assert!(
            matches!(lab.inspect(&keys).await.state, InspectedState::Other { kind } if kind == "hash")
        );
    });
}

#[test]
fn a_note_is_shown_only_for_the_lease_that_left_it() {
    on_every_engine(async |lab| {
        let (keys, first, second) = (keys("job"), token(), token());
        lab.granted(&keys, &first, &TRY).await;
        let note = async |token, text| {
            let held = Held::of(&keys, token);
            lab.ask(&Note::of(held.for_ttl(ttl(60_000)), text).unwrap())
                .await;
        };
        note(&first, "mine").await;
        lab.release(&keys, &first).await;
        lab.granted(&keys, &second, &TRY).await;
        let InspectedState::Held(SeenHold { why, .. }) = lab.inspect(&keys).await.state else {
            panic!()
        };
        assert!(why.is_empty());
        note(&second, "").await;
        assert_ne!(
            lab.meddle(&TYPE_OF, &keys.note().to_string(), &[]).await,
            [Value::Bytes(b"none".to_vec())],
            "not its own note"
        );
        note(&first, "").await;
        assert_eq!(
            lab.meddle(&TYPE_OF, &keys.note().to_string(), &[]).await,
            [Value::Bytes(b"none".to_vec())]
        );
        note(&second, "ours").await;
        note(&first, "late").await; // sent while it held, run when it no longer does
        let InspectedState::Held(SeenHold { why, .. }) = lab.inspect(&keys).await.state else {
            panic!()
        };
        assert_eq!(why, b"ours");
    });
}

#[test]
fn survey_finds_locks_among_other_keys() {
    on_every_engine(async |lab| {
        let one = keys("one");
        let surveyed = async |names: &[&str]| {
            let candidates: Vec<LockKeys> =
                names.iter().map(|name| (*keys(name)).clone()).collect();
            let candidates = &candidates[..];
            lab.ask(&Survey { candidates }).await
        };
        let held = token();
        lab.granted(&one, &held, &TRY).await;
        if lab.store.capabilities().keys_per_call > 1 {
            lab.meddle(&SET, "two", &["not a token but thirty-one long"])
                .await;
            lab.meddle(&ADD_HASH, "three", &[]).await;
            let found = surveyed(&["three", "none", "one", "two"]).await;
            assert!(matches!(found[..], [(2, Some(_))]));
        }
        assert!(surveyed(&["none"]).await.is_empty());
        let inspected = lab.inspect(&one).await.state;
        let [
            (
                0,
                Some(InspectedState::Held(SeenHold {
                    value,
                    pttl_ms,
                    fence: number,
                    why,
                    ..
                })),
            ),
        ] = &surveyed(&["one"]).await[..]
        else {
            panic!("it is held, with nothing beside it")
        };
        let InspectedState::Held(SeenHold { fence, .. }) = inspected else {
            panic!()
        };
        assert_eq!(
            (&value[..], *number, &why[..]),
            (held.as_bytes(), fence, &b""[..])
        );
        assert!(fence.is_some() && pttl_ms.is_some_and(|rest| rest > 0));
        let noted = async || match &surveyed(&["one"]).await[..] {
            [(0, Some(InspectedState::Held(hold)))] => hold.why.clone(),
            _ => panic!("a note is read with the lock"),
        };
        let note = one.note().to_string();
        lab.meddle(&SET, &note, &["of another holder"]).await;
        assert_eq!(noted().await, b"");
        let ours = format!("{}the night's invoices", held.secret());
        lab.meddle(&SET, &note, &[&ours]).await;
        assert_eq!(noted().await, b"the night's invoices");
        // What else is beside the lock is for an inspection.
        lab.meddle(&SET, &one.usage().to_string(), &["damage"])
            .await;
        assert!(matches!(surveyed(&["one"]).await[..], [(0, None)]));
    });
}

#[test]
fn a_lock_is_held_as_the_record_says_that_has_its_token() {
    on_every_engine(async |lab| {
        let (one, held, other) = (keys("one"), token(), token());
        lab.granted(&one, &held, &TRY).await;
        let candidates = &[(*one).clone()][..];
        let kind = async || {
            let [(0, Some(surveyed))] = &lab.ask(&Survey { candidates }).await[..] else {
                panic!("a record beside the lock needs no inspection")
            };
            let inspected = lab.inspect(&one).await.state.kind();
            assert_eq!(surveyed.kind(), inspected);
            inspected.unwrap()
        };
        assert_eq!(kind().await, "mutex");
        let leader = one.beside("leader").to_string();
        for (token, expected) in [(&other, "mutex"), (&held, "leader")] {
            let record = format!("{}\n\n1\nvalue", token.secret());
            lab.meddle(&SET, &leader, &[&record]).await;
            assert_eq!(kind().await, expected);
        }
        lab.meddle(&SET, &one.lock, &[held.broken().secret()]).await;
        assert_eq!(kind().await, "leader", "of a broken lease");
        lab.meddle(&DELETE, &leader, &[]).await;
        for expected in ["once", "cron"] {
            let record = one.beside(expected).to_string();
            let say = async |state: &str| {
                lab.meddle(&ADD_ENTRY, &record, &["state", state]).await;
                kind().await
            };
            let of = |token: &Token| format!("run {} 1 1", token.secret());
            assert_eq!(say(&of(&other)).await, "mutex");
            assert_eq!(say(&of(&held)).await, expected);
            assert_eq!(say("").await, "mutex");
            lab.meddle(&DELETE, &record, &[]).await;
        }
        // Keys of another type say nothing.
        lab.meddle(&ADD_HASH, &leader, &[]).await;
        lab.meddle(&SET, &one.beside("cron").to_string(), &["x"])
            .await;
        assert_eq!(kind().await, "mutex");
    });
}

#[test]
fn a_client_writes_its_record_and_deletes_it() {
    use crate::base::process::Process;
    use crate::engine::services::ids::{Announce, Who};
    on_every_engine(async |lab| {
        let this = Process::this("", None, None);
        let (record, about) = ("ll:client:abcdefgh", this.encode());
        assert_eq!(lab.ask(&Who { record }).await, None);
        for _ in 0..2 {
            lab.ask(&Announce {
                record,
                about: Some((&about, ttl(60_000))),
            })
            .await;
            assert_eq!(lab.ask(&Who { record }).await.as_ref(), Some(&this));
        }
        lab.ask(&Announce {
            record,
            about: Some((&about, ttl(10))),
        })
        .await;
        let Value::Int(left) = lab.meddle(&TTL_OF, record, &[]).await[0] else {
            panic!()
        };
        assert!(left > 50_000, "shortened to {left}");
        lab.ask(&Announce {
            record,
            about: None,
        })
        .await;
        assert_eq!(lab.ask(&Who { record }).await, None);
    });
}

#[test]
fn a_record_that_no_client_wrote_is_ignored_and_is_no_error() {
    use crate::engine::services::ids::Who;
    on_every_engine(async |lab| {
        let record = "ll:client:abcdefgh";
        for (script, text) in [
            (&SET_BYTES, String::new()),
            (&ADD_HASH, String::new()),
            (&SET, String::new()),
            (&SET, "host\n7\nname".to_owned()),
            (&SET, "host\nseven\nname\n1".to_owned()),
            (&SET, format!("host\n7\n{}\n1", "x".repeat(1 << 20))),
        ] {
            lab.meddle(script, record, &[&text]).await;
            assert_eq!(lab.ask(&Who { record }).await, None, "{}", lab.engine);
            lab.meddle(&DELETE, record, &[]).await;
        }
    });
}

#[test]
fn text_that_is_no_note_is_not_shown_and_a_long_note_is_cut() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        lab.granted(&keys, &holder, &TRY).await;
        let long = format!("{}{}", holder.secret(), "x".repeat(1 << 20));
        for (script, text, shown) in [
            (&ADD_HASH, String::new(), 0),
            (&SET_BYTES, String::new(), 0),
            (&SET, long, 1024),
        ] {
            let key = keys.note().to_string();
            lab.meddle(script, &key, &[&text]).await;
            let InspectedState::Held(SeenHold { why, .. }) = lab.inspect(&keys).await.state else {
                panic!("{}", lab.engine)
            };
            assert_eq!(why.len(), shown, "{}", lab.engine);
            let held = Held::of(&keys, &holder);
            let note = Note::of(held.for_ttl(ttl(60_000)), "month end");
            lab.ask(&note.unwrap()).await;
            lab.meddle(&DELETE, &key, &[]).await;
        }
    });
}

#[test]
fn a_waiter_of_an_impossible_priority_is_shown() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.granted(&keys, &token(), &TRY).await;
        let member = format!(
            "1795224695691371{}1795224695691371 99999999999 5000 1 ",
            token().secret()
        );
        lab.meddle(&ADD_MEMBER, &keys.queue().to_string(), &[&member])
            .await;
        let priorities: Vec<i32> = lab
            .inspect(&keys)
            .await
            .queue
            .into_iter()
            .map(|waiter| waiter.priority)
            .collect();
        assert_eq!(priorities, [i32::MAX], "{}", lab.engine);
    });
}

#[test]
fn a_break_that_names_a_fence_spares_holders_without_one() {
    on_every_engine(async |lab| {
        let (keys, fenced, unfenced) = (keys("job"), token(), unfenced_token());
        let fence = lab.granted(&keys, &fenced, &TRY).await;
        lab.release(&keys, &fenced).await;
        let how = How {
            fencing: false,
            ..TRY
        };
        lab.granted(&keys, &unfenced, &how).await;
        let terms = |only| break_now(&keys, only, true);
        let spared = Broke::Changed { fence: None };
        assert_eq!(lab.ask(&terms(fence)).await, spared);
        assert!(lab.holds(&keys, &unfenced).await);
        let Broke::Broken { fence: none, .. } = lab.ask(&terms(None)).await else {
            panic!()
        };
        assert_eq!(none, None);
        lab.meddle(&SET, &keys.lock, &["foreign"]).await;
        assert_eq!(lab.ask(&terms(fence)).await, spared);
    });
}

/// A server that is full refuses a script whose first write needs memory.
#[tokio::test]
async fn under_memory_pressure_a_lease_is_broken_as_at_any_time() {
    let (lab, server) = (redis(), |lab: &Lab, most| {
        let server = lab.server.as_ref().unwrap();
        server.cli(&["CONFIG", "SET", "maxmemory", most]);
    });
    for (keys, holder) in every_hold() {
        let fencing = How {
            fencing: holder.is_fenced(),
            ..TRY
        };
        lab.granted(&keys, &holder, &fencing).await;
        server(&lab, "1");
        let broke = lab.ask(&break_of(&keys, BreakOptions::default())).await;
        assert!(matches!(broke, Broke::Broken { count: 1, .. }), "{broke:?}");
        let renewed = lab.extend(&keys, &holder, 90_000).await;
        assert_eq!(renewed, ExtendAnswer::BROKEN);
        server(&lab, "0");
    }
}
