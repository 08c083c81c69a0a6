//! A replica that is frozen while it is waited for: how long after the grant it is given back, beside the time that
//! replicas were given.

use std::time::Duration;

use leaselock::inspect::Holding;
use leaselock::options::Options;
use leaselock::{AcquireError, Client};
use testkit::{Server, clock, wait_until};

use crate::figures::Figures;
use crate::rounds;

/// Longer than replicas are ever waited for.
const TTL: Duration = Duration::from_secs(30);
/// Anything that waits for no replica is done within this, on a machine that does something else as well.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long replicas may take.
const LIMITS: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
];

/// Takes locks that one replica must have within that time, when there is one.
fn client(server: &Server, within: Option<Duration>) -> Client {
    let defaults = Options::default().ttl(TTL);
    let defaults = match within {
        Some(within) => defaults.min_replicas(1, within),
        None => defaults,
    };
    let builder = Client::builder().url(&server.url()).defaults(defaults);
    builder.open().unwrap()
}

/// It was refused because no replica has it, and nothing is held.
async fn refused(client: &Client, name: &str, outcome: Result<leaselock::Lease, AcquireError>) {
    let Err(AcquireError::TooFewReplicas {
        required: 1,
        confirmed: 0,
        ..
    }) = outcome
    else {
        panic!("{name}: {outcome:?}")
    };
    let seen = client.inspect(name).await.unwrap();
    assert_eq!(seen.state, Holding::Free, "{name}");
    assert!(client.held().is_empty());
}

/// It was free.
async fn alone(careful: &Client, name: &str, took: &mut Figures) {
    let outcome = took.time(careful.mutex(name).acquire()).await;
    refused(careful, name, outcome).await;
}

/// The release of another hands it over.
async fn handed_over(holder: &Client, careful: &Client, name: &str, took: &mut Figures) {
    let lease = holder.mutex(name).acquire().await.unwrap();
    let mutex = careful.mutex(name);
    let waiter = tokio::spawn(async move { (mutex.acquire().await, clock::now()) });
    let limit = clock::now() + PATIENCE;
    while holder.inspect(name).await.unwrap().queue.is_empty() {
        assert!(clock::now() < limit, "nobody is in line");
        tokio::time::sleep(Duration::from_millis(2)).await; // between two checks of the queue
    }
    let begin = clock::now();
    lease.release().await.unwrap();
    let (outcome, end) = waiter.await.unwrap();
    took.add(end - begin);
    refused(careful, name, outcome).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_a_frozen_replica_does_not_confirm_is_refused_when_its_time_is_over() {
    let times = rounds(1, 10);
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let holder = client(&primary, None);
    let patient = client(&primary, Some(PATIENCE)); // on a busy machine a replica that runs may be late too
    for within in LIMITS {
        let careful = client(&primary, Some(within));
        let (mut plain, mut copied) = (Figures::default(), Figures::default());
        for _ in 0..times {
            for (client, took) in [(&holder, &mut plain), (&patient, &mut copied)] {
                let lease = took.time(client.mutex("job").acquire()).await.unwrap();
                lease.release().await.unwrap();
            }
        }
        let frozen = replica.pause();
        let (mut free, mut by_hand_over) = (Figures::default(), Figures::default());
        for time in 0..times {
            alone(&careful, &format!("free-{time}"), &mut free).await;
            handed_over(
                &holder,
                &careful,
                &format!("handed-{time}"),
                &mut by_hand_over,
            )
            .await;
        }
        drop(frozen);
        wait_until(PATIENCE, "the replica is in step again", || {
            replica.follows(primary.port())
        });
        println!(
            "a replica has {within:?}: frozen, the grant of a free lock was refused after {free}, one by hand-over after \
             {by_hand_over}; running, it was had after {copied}, and without min_replicas after {plain}"
        );
    }
}
