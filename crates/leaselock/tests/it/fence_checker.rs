//! Fence checkers on real resources: a holder that was frozen past its lease writes late, and is refused.

mod http;
mod object;
mod sequencers;
mod sql;
mod sqlite;
mod values;

use std::time::Duration;

use leaselock::clock::Clock;
use leaselock::{Client, Fence, Name, Sequencer};
use testkit::rounds;

const NAME: &str = "account";

/// A number that a fence checker guards.
trait Resource {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late>;
    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late>;
}

/// The checker refused.
#[derive(Debug, PartialEq, Eq)]
struct Late;

fn shown(fence: u64, owner: &str) -> Sequencer {
    Sequencer::new(Name::new(NAME).unwrap(), Fence::new(fence), owner).unwrap()
}

/// In each round a holder reads and freezes, its lease expires, and the next holder takes over. Returns how many late
/// writes the resource accepted.
async fn late_writes_accepted(resource: &mut dyn Resource, rounds: usize) -> usize {
    let clock = Clock::manual();
    let client = Client::builder().url("mem:").clock(clock.clone());
    let mutex = client.open().unwrap().mutex(NAME).renewal(false);
    let mut accepted = 0;
    for round in 0..rounds {
        let frozen = mutex.acquire().await.unwrap();
        let late = frozen.sequencer().unwrap();
        let seen = resource.read(&late);
        clock.advance(Duration::from_secs(11)); // the ttl is 10 s
        assert!(!frozen.is_held());
        let holder = mutex.acquire().await.unwrap();
        let now = holder.sequencer().unwrap();
        let value = resource.read(&now).unwrap();
        // Every other time before the next holder has written: its read alone must have shut the late one out.
        if round % 2 == 1 {
            resource.write(&now, value + 1).unwrap();
        }
        let outcome = resource.write(&late, seen.unwrap() + 1000);
        accepted += usize::from(outcome.is_ok());
        if round % 2 == 0 {
            resource.write(&now, value + 1).unwrap();
        }
        holder.release().await.unwrap();
    }
    accepted
}

/// The whole story: late writers, late readers, another owner with the same number, and nothing is lost.
async fn refuses_whoever_is_late(resource: &mut dyn Resource, rounds: usize) {
    assert_eq!(late_writes_accepted(resource, rounds).await, 0);
    println!("{rounds} late writes, all refused");
    let rounds = u64::try_from(rounds).unwrap();

    // Numbers that follow each other, as large as they come.
    let last = 8_999_999_999_000_000;
    let (late, now, twin) = (shown(last - 1, "a"), shown(last, "b"), shown(last, "c"));
    assert_eq!(
        resource.read(&late),
        Ok(rounds),
        "no holder's write is lost"
    );
    assert_eq!(resource.read(&now), Ok(rounds));
    for refused in [&late, &twin] {
        assert_eq!(resource.read(refused), Err(Late));
        assert_eq!(resource.write(refused, 0), Err(Late));
    }
    for value in [7, 7, 8] {
        assert_eq!(resource.write(&now, value), Ok(())); // also what changes nothing
    }
    assert_eq!(resource.read(&now), Ok(8));

    // Readers of one phase share a number.
    let readers = shown(last + 1, Sequencer::SHARED);
    for _ in 0..3 {
        assert_eq!(resource.read(&readers), Ok(8));
    }
    assert_eq!(resource.write(&now, 0), Err(Late));
    assert_eq!(resource.read(&readers), Ok(8));
}

/// The resource without a checker: this is what happens.
struct Unchecked(u64);

impl Resource for Unchecked {
    fn read(&mut self, _: &Sequencer) -> Result<u64, Late> {
        Ok(self.0)
    }

    fn write(&mut self, _: &Sequencer, value: u64) -> Result<(), Late> {
        self.0 = value;
        Ok(())
    }
}

#[tokio::test]
async fn without_a_checker_every_late_write_gets_through() {
    let rounds = rounds(100, 10_000);
    let accepted = late_writes_accepted(&mut Unchecked(0), rounds).await;
    assert_eq!(accepted, rounds);
}
