//! Strict mode: a server that may have forgotten leases grants nothing until all of them are over.

mod clusters;
mod cut_off;
mod failovers;
mod gates;
mod refusals;
mod sentinels;
mod waits;

use std::time::Duration;

use leaselock::strict::Quarantine;
use leaselock::{AcquireError, Client, Lease, Mutex};
use testkit::Server;

use crate::support::millis;

/// A quarantine takes 2 s and a little more than this, and a lease of this length lives through a pause of a busy
/// machine.
const LONGEST: Duration = Duration::from_secs(3);
const GATE: &str = "ll:gate";
/// No server is called so: the gate is that of another, as after a restart with the data or a promotion.
const STRANGER: &str = "0123456789abcdef";

fn strict(server: &Server) -> Client {
    strict_for(server, LONGEST)
}

fn strict_for(server: &Server, longest: Duration) -> Client {
    let builder = Client::builder().url(&server.url()).strict(longest);
    builder.request_timeout(LONGEST).open().unwrap()
}

/// A client of a server that grants.
async fn opened(server: &Server) -> Client {
    let client = strict(server);
    client.init_strict().await.unwrap();
    client
}

fn lock(client: &Client) -> Mutex {
    client.mutex("job").ttl(LONGEST)
}

async fn taken(client: &Client) -> Lease {
    lock(client).try_acquire().await.unwrap().unwrap()
}

/// No client is granted, for this reason and not for longer than a quarantine.
async fn quarantined(client: &Client) -> Quarantine {
    match lock(client).try_acquire().await {
        Err(AcquireError::Quarantined {
            reason: why,
            remaining,
            ..
        }) => {
            let most = LONGEST + LONGEST / 100 + millis(2_002);
            assert!(remaining <= most, "{remaining:?}");
            why
        }
        other => panic!("granted or refused in another way: {other:?}"),
    }
}

/// The gate is another server's from now on.
fn moved(server: &Server) {
    let longest = LONGEST.as_millis();
    let gate = format!("{STRANGER} 0 {longest}");
    server.cli(&["SET", GATE, &gate]);
}

/// When the present quarantine ends, by the server's clock.
fn ends_us(server: &Server) -> u64 {
    let gate = server.cli(&["GET", GATE]);
    let gate = gate.text().unwrap();
    gate.split(' ').nth(1).unwrap().parse().unwrap()
}

/// It was granted after the quarantine had ended: fencing tokens are times of the server.
fn granted_after(lease: &Lease, end_us: u64) {
    let granted_us = lease.fence().unwrap().get();
    assert!(end_us > 0 && granted_us >= end_us, "{granted_us} {end_us}");
}
