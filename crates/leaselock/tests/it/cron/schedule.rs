//! The runs of a schedule, when a claim is dropped and when the store's clock was wrong.

use std::time::Duration;

use leaselock::Client;
use leaselock::cron::TickState;
use leaselock_cron::Schedule;
use testkit::{Fault, Proxy, Server, Way};

use super::DAY_MS;
use crate::support::{LONG, eventually, soon};

fn every_second() -> Schedule {
    "* * * * * *".parse().unwrap()
}

#[tokio::test]
async fn a_caller_that_drops_a_claim_gets_its_tick_by_the_next_one() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let [one, other] = [proxy.url(), server.url()].map(|url| Client::open(&url).unwrap());
    let other = other.cron("job");
    let mut runs = every_second().runs(one.cron("job").ttl(LONG));
    let first = soon(runs.next()).await.unwrap();
    let due = every_second().after(first.tick()).next().unwrap();
    first.finish().await.unwrap();
    eventually("the next tick is due", async || {
        other.state().await.unwrap().now > due
    })
    .await;
    proxy.set(Way::ToClient, Fault::Hold);
    let begun = async || other.state().await.unwrap().state == Some(TickState::Running);
    tokio::select! {
        run = runs.next() => panic!("no reply can come: {run:?}"),
        () = eventually("the next tick has begun", begun) => {}
    }
    proxy.heal();
    let run = soon(runs.next()).await.unwrap();
    assert_eq!((run.tick(), run.attempt()), (due, 1));
    run.finish().await.unwrap();
    let known = other.state().await.unwrap();
    assert_eq!(
        (known.latest, known.state),
        (Some(due), Some(TickState::Done))
    );
}

#[tokio::test]
async fn a_schedule_goes_on_when_a_clock_that_was_days_ahead_is_corrected() {
    let day = Duration::from_millis(DAY_MS.unsigned_abs());
    let server = Server::builder().shifted_clock().start();
    let client = Client::open(&server.url()).unwrap();
    let cron = client.cron("job").ttl(LONG);
    let mut runs = every_second().runs(cron.clone());
    let run = soon(runs.next()).await.unwrap();
    let before = run.tick();
    run.finish().await.unwrap();
    server.set_clock_offset_ms(2 * DAY_MS);
    let run = soon(runs.next()).await.unwrap();
    assert!(run.tick() > before + day);
    run.finish().await.unwrap();
    server.set_clock_offset_ms(0);
    let run = soon(runs.next()).await.unwrap();
    assert!(before < run.tick() && run.tick() < before + day);
    run.finish().await.unwrap();
}
