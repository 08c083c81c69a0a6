//! One test per reply of the scripts that search for deadlocks.

use super::lab::*;
use crate::engine::values::LockMode;
use crate::engine::ways::deadlock::calls::*;
use crate::engine::ways::deadlock::graph::GraphWait;

const OWNERS: &str = "ll:owners:abcdefgh";

fn wait(waiter: &str) -> GraphWait {
    GraphWait {
        owner: "abcdefgh/1".into(),
        label: "import 42, part 7".into(),
        lock: "a name: with signs".into(),
        waiter: waiter.into(),
    }
}

#[test]
fn what_is_published_is_read_beside_each_hold_until_that_very_wait_is_withdrawn() {
    on_every_engine(async |lab| {
        let held = ["0a0a0a0a".to_owned(), "0b0b0b0b".to_owned()];
        let read = async || {
            lab.ask(&Waits {
                owners: OWNERS,
                held: &held,
            })
            .await
        };
        assert_eq!(read().await, [None, None]);
        let (first, second) = (wait("01"), wait("02"));
        for wait in [&first, &first, &second] {
            let wait = wait.encode();
            lab.ask(&Publish {
                owners: OWNERS,
                wait: &wait,
                held: &held,
            })
            .await;
        }
        assert_eq!(read().await, [Some(second.clone()), Some(second.clone())]);
        let withdraw = async |wait: &GraphWait, held: &[String]| {
            let wait = wait.encode();
            lab.ask(&WithdrawWait {
                owners: OWNERS,
                wait: &wait,
                held,
            })
            .await;
        };
        withdraw(&first, &held).await;
        assert_eq!(
            read().await,
            [Some(second.clone()), Some(second.clone())],
            "a late withdrawal"
        );
        withdraw(&second, &held[..1]).await;
        withdraw(&second, &held[..1]).await;
        assert_eq!(read().await, [None, Some(second)]);
    });
}

#[test]
fn inspect_shows_the_holder_and_the_waiters_that_hear_messages() {
    on_every_engine(async |lab| {
        let (keys, holder, deaf, waiter) = (keys("job"), token(), token(), token());
        let seen = async || lab.ask(&InspectHolds { keys: &keys }).await;
        assert!(seen().await.lock.holds.is_empty() && seen().await.tokens.is_empty());
        lab.granted(&keys, &holder, &TRY).await;
        let ear = lab.listen("ll:wake:waiter").await;
        lab.waiting(
            &keys,
            &deaf,
            &How {
                channel: "ll:wake:deaf",
                ..WAIT
            },
        )
        .await;
        let how = How {
            channel: "ll:wake:waiter",
            priority: -3,
            ..WAIT
        };
        lab.waiting(&keys, &waiter, &how).await;
        let InspectedHolds { lock, tokens } = seen().await;
        assert_eq!(tokens, [deaf.secret(), waiter.secret()]);
        assert_eq!(
            (lock.holds.len(), lock.holds[0].digest.as_str()),
            (1, holder.digest().as_str())
        );
        assert_eq!(
            (lock.holds[0].share, lock.permits),
            (LockMode::Exclusive, 0)
        );
        let queue: Vec<_> = lock
            .queue
            .iter()
            .map(|one| (one.is_alive, one.priority))
            .collect();
        assert_eq!(queue, [(false, 0), (true, -3)]);
        lab.ask(&WakeVictim {
            keys: &keys,
            token: waiter.secret(),
        })
        .await;
        lab.ask(&WakeVictim {
            keys: &keys,
            token: holder.secret(),
        })
        .await;
        assert_eq!(ear.heard(&waiter).await, waiter.secret());
        lab.release(&keys, &holder).await;
        lab.meddle(&SET, &keys.lock, &["of another library"]).await;
        assert!(
            seen().await.lock.holds[0].client.is_empty(),
            "it has no owner"
        );
    });
}
