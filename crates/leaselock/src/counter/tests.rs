//! The script of the counter under random operations, against a plain model; and changes that leave together.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use fastrand::Rng;
use leaselock_fence::{Fence, Name, Sequencer};

use super::calls::{
    Batch, Change, ChangeEnd, ChangeOnce, ChangeReply, ChangeRequest, ChangeTerms, PendingChange,
    Read,
};
use super::driver::hear;
use crate::base::{ErrorKind, StoreError};
use crate::client::Client;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::script::keys::LockKeys;

const STEPS: usize = 20_000;
const CLIENTS: usize = 3;

/// What is promised, in plain Rust.
#[derive(Default)]
struct Model {
    value: i64,
    /// What the latest holder has shown.
    seen: Option<Sequencer>,
    /// The latest change of each client, and what was said.
    latest: HashMap<usize, (u64, ChangeEnd)>,
}

impl Model {
    fn change(&mut self, client: usize, number: u64, (change, shown): &Asked) -> ChangeEnd {
        match self.latest.get(&client) {
            Some((latest, said)) if *latest == number => return said.clone(),
            Some((latest, _)) if *latest > number => return ChangeEnd::Forgotten,
            _ => {}
        }
        let (settled, value) = match *change {
            _ if self.refuses(shown.as_deref()) => {
                let (seen, shown) = (self.seen.as_ref().unwrap(), shown.as_ref().unwrap());
                let refusal = match seen.name() == shown.name() {
                    true => ChangeEnd::Stale(seen.fence()),
                    false => ChangeEnd::OtherName(seen.name().clone()),
                };
                (refusal, self.value)
            }
            Change::Add(more) => match self.value.checked_add(more) {
                Some(sum) => (done(sum), sum),
                None => (ChangeEnd::Overflow(self.value), self.value),
            },
            Change::Set { expected, value } if expected == self.value => (done(value), value),
            Change::Set { .. } => (ChangeEnd::Differs(self.value), self.value),
        };
        self.value = value;
        self.latest.insert(client, (number, settled.clone()));
        settled
    }

    fn refuses(&mut self, shown: Option<&Sequencer>) -> bool {
        let rank = |holder: &Sequencer| holder.fence();
        let Some(shown) = shown else { return false };
        match &self.seen {
            Some(seen) if shown.name() != seen.name() => true,
            Some(seen) if rank(shown) < rank(seen) => true,
            Some(seen) if rank(shown) == rank(seen) => shown.owner() != seen.owner(),
            _ => {
                self.seen = Some(shown.clone());
                false
            }
        }
    }
}

/// A change, and who makes it.
type Asked = (Change, Option<Arc<Sequencer>>);

/// No holder, or one of a few that came one after the other; after the first ones now and then one of another lock.
fn holder(rng: &mut Rng, step: usize) -> Option<Arc<Sequencer>> {
    let newest = 1 + u64::try_from(step).unwrap() / 100;
    let fence = Fence::new(newest.saturating_sub(rng.u64(..3)).max(1));
    let owner = ["a", "b"][usize::from(rng.u8(..8) == 0)];
    let name = ["import", "the other one"][usize::from(step > 100 && rng.u8(..8) == 0)];
    let shown = Sequencer::new(Name::new(name).unwrap(), fence, owner).unwrap();
    rng.bool().then(|| Arc::new(shown))
}

/// New changes, requests that are repeated because their reply was lost, and old copies; numbers up to all 64 bits.
#[tokio::test]
async fn the_counter_does_what_a_plain_model_does() {
    let client = Client::open("mem:").unwrap();
    let (engine, keys) = (&client.state.engine, &LockKeys::at("visits".into()));
    let (mut model, mut rng) = (Model::default(), Rng::with_seed(7));
    let mut sent: Vec<Vec<Asked>> = vec![Vec::new(); CLIENTS];
    let [mut stale, mut other] = [0; 2];
    for step in 0..STEPS {
        let by = rng.usize(..CLIENTS);
        let mine = &mut sent[by];
        let at = match rng.usize(..4) {
            0 if !mine.is_empty() => mine.len() - 1,
            1 if !mine.is_empty() => rng.usize(..mine.len()),
            _ => {
                let extremes = [1, -1, 7, i64::MAX, i64::MIN, i64::MAX - 5, 0];
                let value = extremes[rng.usize(..extremes.len())];
                let change = match rng.usize(..4) {
                    0 => Change::Set {
                        expected: [model.value, value][rng.usize(..2)],
                        value,
                    },
                    _ => Change::Add(value),
                };
                mine.push((change, holder(&mut rng, step)));
                mine.len() - 1
            }
        };
        let (number, asked) = (u64::try_from(at).unwrap() + 1, &mine[at]);
        let operation = ChangeOnce {
            keys,
            client: &by.to_string(),
            request: &ChangeRequest {
                number,
                change: asked.0,
                terms: ChangeTerms {
                    shown: asked.1.clone(),
                    ..ChangeTerms::default()
                },
                sent: None,
            },
        };
        let said = engine.ask(&operation, OPERATOR_WITHIN).await.unwrap();
        assert_eq!(said, model.change(by, number, asked), "step {step}");
        stale += usize::from(matches!(said, ChangeEnd::Stale(_)));
        other += usize::from(matches!(said, ChangeEnd::OtherName(_)));
        let value = engine.ask(&Read { keys }, OPERATOR_WITHIN).await.unwrap();
        assert_eq!(value, model.value, "step {step}");
    }
    assert!(stale > STEPS / 20 && other > STEPS / 50, "{stale} {other}");
}

/// The changes of some tasks, and what each of them hears.
fn asked(
    changes: &[(Change, u64)],
) -> (VecDeque<PendingChange>, Vec<oneshot::Receiver<ChangeReply>>) {
    let pending = |(change, kept_ms): &(Change, u64)| {
        let kept = Some(*kept_ms).filter(|ms| *ms > 0);
        let terms = ChangeTerms {
            kept: kept.map(Duration::from_millis),
            ..ChangeTerms::default()
        };
        PendingChange::new(*change, terms)
    };
    changes.iter().map(pending).unzip()
}

fn done(number: i64) -> ChangeEnd {
    ChangeEnd::Done(number, None)
}

fn heard(hears: &mut oneshot::Receiver<ChangeReply>) -> ChangeEnd {
    match hears.try_recv().unwrap() {
        ChangeReply(ended, None) => ended,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_task_gets_its_own_number_out_of_the_sum() {
    let adds = [1, 0, 5, 10].map(|value| (Change::Add(value), 0));
    let (mut waiting, mut hears) = asked(&adds);
    let batch = Batch::take(&mut waiting, 1).unwrap();
    assert_eq!((batch.request.change, waiting.len()), (Change::Add(16), 0));
    assert!(batch.tell(&done(116)).is_empty());
    let numbers: Vec<ChangeEnd> = hears.iter_mut().map(heard).collect();
    assert_eq!(numbers, [101, 101, 106, 116].map(done));
}

/// So that no number in between needs more than 64 bits.
#[test]
fn what_leaves_together_has_one_sign_one_ttl_and_a_sum() {
    let set = Change::Set {
        expected: 1,
        value: 2,
    };
    let (mut waiting, _hears) = asked(&[
        (Change::Add(2), 0),
        (Change::Add(-1), 0),
        (set, 0),
        (Change::Add(i64::MAX), 0),
        (Change::Add(3), 1000),
        (Change::Add(4), 0),
    ]);
    let mut left = Vec::new();
    while let Some(batch) = Batch::take(&mut waiting, 1) {
        left.push(batch.request.change);
    }
    let add = Change::Add;
    assert_eq!(left, [add(6), add(-1), set, add(i64::MAX), add(3)]);
}

#[test]
fn after_a_sum_that_is_too_large_each_change_leaves_alone() {
    let (mut waiting, mut hears) = asked(&[(Change::Add(1), 0), (Change::Add(2), 0)]);
    let batch = Batch::take(&mut waiting, 1).unwrap();
    waiting.extend(batch.tell(&ChangeEnd::Overflow(i64::MAX - 2)));
    let first = Batch::take(&mut waiting, 2).unwrap();
    assert_eq!((first.request.change, waiting.len()), (Change::Add(1), 1));
    assert!(first.tell(&done(i64::MAX - 1)).is_empty());
    let second = Batch::take(&mut waiting, 3).unwrap();
    assert!(second.tell(&ChangeEnd::Overflow(i64::MAX - 1)).is_empty());
    let numbers: Vec<ChangeEnd> = hears.iter_mut().map(heard).collect();
    assert_eq!(
        numbers,
        [done(i64::MAX - 1), ChangeEnd::Overflow(i64::MAX - 1)]
    );
}

#[test]
fn a_change_whose_task_has_gone_away_does_not_leave() {
    let (mut waiting, mut hears) = asked(&[(Change::Add(1), 0), (Change::Add(2), 0)]);
    drop(hears.remove(0));
    let batch = Batch::take(&mut waiting, 1).unwrap();
    assert_eq!(batch.request.change, Change::Add(2));
    let (mut waiting, hears) = asked(&[(Change::Add(1), 0)]);
    drop(hears);
    assert!(Batch::take(&mut waiting, 2).is_none());
}

/// The task that sends for the counter was told *unknown* once more before this one asks.
#[tokio::test]
async fn who_asks_what_became_of_a_change_gets_the_latest_reply() {
    let client = Client::open("mem:").unwrap();
    let counter = client.counter("visits");
    let error = StoreError::unknown(ErrorKind::NoReply, "no reply");
    let (older, hears) = oneshot::channel();
    let (latest, later) = oneshot::channel();
    let unknown = ChangeReply(ChangeEnd::Unknown(error), Some(later));
    older.send(unknown).unwrap();
    latest.send(ChangeReply(done(5), None)).unwrap();
    let ChangeReply(ended, _) = hear(counter.queue().unwrap(), None, hears).await;
    assert_eq!(ended, done(5));
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_damaged_counter_keeps_no_fence_of_a_change_that_was_refused() {
    let server = testkit::Server::start();
    let client = Client::open(&server.url()).unwrap();
    let key = LockKeys::at("visits".into()).beside("counter").to_string();
    server.cli(&["HSET", &key, "value", "soon"]);
    let shown = Sequencer::new(Name::new("import").unwrap(), Fence::new(5), "a").unwrap();
    let counter = client.counter("visits").fenced(&shown);
    counter.add(1).await.unwrap_err();
    counter.compare_and_set(0, 1).await.unwrap_err();
    let fields = server.cli(&["HLEN", &key]);
    assert_eq!(fields.integer(), Some(1), "{fields:?}");
}
