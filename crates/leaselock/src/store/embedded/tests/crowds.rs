//! Thousands of waiters for one name: counts of the writes to the file, not times.

use std::collections::VecDeque;
use std::sync::mpsc;

use super::*;
use crate::base::clock::Ttl;
use crate::engine::values::calls::Acquire;
use crate::engine::values::calls_optional::{Position, PositionReply};
use crate::engine::values::{AcquireTerms, Held};
use crate::script::Operation;
use crate::store::Event;

const WAITERS: u64 = 2_000;
const CHANNEL: &str = "ll:wake:all";

struct Crowd {
    _scratch: Scratch,
    clock: Clock,
    store: EmbeddedStore,
    holder: Token,
    waiters: VecDeque<Token>,
}

impl Crowd {
    /// Creates a holder, with all the others in the queue in this order.
    async fn gathers() -> Self {
        let (scratch, clock) = (Scratch::new(), Clock::manual());
        let peer = Peer::on(&scratch, &clock, false);
        let holder = peer.token();
        peer.take(&holder, 86_400_000).await.unwrap();
        let waiters: VecDeque<Token> = (0..WAITERS).map(|_| peer.token()).collect();
        for waiter in &waiters {
            clock.advance(Duration::from_micros(1));
            let asks = enqueue("job", waiter, 60_000, CHANNEL);
            assert_eq!(peer.tag(&asks).await, "waiting");
        }
        Crowd {
            _scratch: scratch,
            clock,
            store: peer.store,
            holder,
            waiters,
        }
    }

    fn commits(&self) -> u64 {
        self.store.traffic("job").unwrap().commits
    }

    async fn position(&self, token: &Token) -> Option<u64> {
        let asks = Acquire {
            held: &Held::of(&mutex_keys("job"), token),
            terms: AcquireTerms::plain(Ttl::whole_ms(60_000).unwrap()),
            waits: true,
            channel: CHANNEL,
            range: 1,
        };
        let position = Position::of(&asks).unwrap();
        let call = position.call();
        let answer = self.store.run(&call, WITHIN).await.unwrap();
        match Position::read(call.script, &answer).unwrap() {
            PositionReply::Waiting { position, .. } => Some(position),
            PositionReply::MustAcquire => None,
        }
    }
}

#[tokio::test]
async fn a_waiter_reads_its_position_while_others_use_the_file_and_writes_nothing() {
    let crowd = Crowd::gathers().await;
    let gathered = crowd.commits();
    let growing = 2 * u64::from(WAITERS.ilog2()); // at times the file was too small
    assert!(
        (WAITERS..=2 + WAITERS + growing).contains(&gathered),
        "{gathered}"
    );
    crowd.clock.advance(Duration::from_secs(20));
    let path = std::fs::read_dir(crowd._scratch.path().join("locks here/locks"));
    let file = std::fs::File::open(path.unwrap().next().unwrap().unwrap().path()).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for (at, waiter) in (1..).zip(&crowd.waiters) {
        assert_eq!(crowd.position(waiter).await, Some(at));
    }
    drop(file);
    assert_eq!(crowd.commits(), gathered);
    let asks = enqueue("job", &crowd.waiters[0], 60_000, CHANNEL);
    crowd.store.run(&asks, WITHIN).await.unwrap();
    assert_eq!(
        crowd.commits(),
        gathered + 1,
        "a full request marks its waiter as alive"
    );
}

#[tokio::test]
async fn the_position_of_a_waiter_is_asked_for_with_a_write_before_the_queue_ends() {
    let crowd = Crowd::gathers().await;
    let last = crowd.waiters.back().unwrap();
    assert_eq!(crowd.position(last).await, Some(WAITERS));
    crowd.clock.advance(Duration::from_secs(31));
    assert_eq!(crowd.position(last).await, None);
    let asks = enqueue("job", last, 60_000, CHANNEL);
    crowd.store.run(&asks, WITHIN).await.unwrap();
    crowd.clock.advance(Duration::from_secs(25));
    assert_eq!(crowd.position(last).await, Some(WAITERS), "for all of them");
    assert_eq!(crowd.position(&crowd.waiters[0]).await, Some(1));
}

#[tokio::test]
async fn thousands_are_served_in_order_with_one_write_for_each_hand_over() {
    let mut crowd = Crowd::gathers().await;
    let (sender, events) = mpsc::channel();
    let store = crowd.store.clone();
    let sink = move |event| drop(sender.send(event));
    let listening = tokio::spawn(async move { store.listen(CHANNEL, Box::new(sink)).await });
    while events.try_recv() != Ok(Event::Ready) {
        tokio::time::sleep(Duration::from_millis(1)).await; // between two checks of the condition
    }
    let before = crowd.commits();
    while let Some(next) = crowd.waiters.pop_front() {
        crowd.clock.advance(Duration::from_micros(1));
        let gives = release("job", &crowd.holder);
        assert_eq!(
            crowd.store.run(&gives, WITHIN).await.unwrap().tag(),
            "released"
        );
        let message = loop {
            match events.try_recv() {
                Ok(Event::Message(message)) => break message,
                _ => tokio::time::sleep(Duration::from_millis(1)).await, // between two checks of the condition
            }
        };
        assert!(message.ends_with(next.secret().as_bytes()));
        crowd.holder = next;
    }
    assert_eq!(crowd.commits(), before + WAITERS);
    listening.abort();
}
