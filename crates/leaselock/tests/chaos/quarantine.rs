//! Until when servers that took over grant nothing in strict mode.

use std::time::Duration;

use leaselock::{AcquireError, Client};
use testkit::clock;

/// The quarantines behind a switch. Mostly there is one; Sentinels that switch twice in a row make two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quarantines {
    pub(crate) count: usize,
    /// When the last one was over, by our clock, and not later than it was.
    pub(crate) end: Duration,
}

/// Asks for a lock that no other client wants until it is granted again.
pub(crate) async fn over(
    probe: &Client,
    name: &str,
    ttl: Duration,
    patience: Duration,
) -> Quarantines {
    /// What answers say about the end of one quarantine differs by less.
    const SAME: Duration = Duration::from_secs(1);
    let mutex = probe.mutex(name).ttl(ttl);
    let limit = clock::now() + patience;
    let mut met: Option<Quarantines> = None;
    loop {
        let asked = clock::now();
        match (mutex.try_acquire().await, met) {
            (Err(AcquireError::Quarantined { remaining, .. }), met_before) => {
                let (end, count) = (asked + remaining, met_before.map_or(0, |met| met.count));
                met = Some(match met_before {
                    Some(before) if end < before.end + SAME => Quarantines {
                        count,
                        end: end.min(before.end),
                    },
                    _ => Quarantines {
                        count: count + 1,
                        end,
                    },
                });
            }
            (Ok(Some(_)), Some(met)) => return met,
            // A server that does not know yet that it was replaced; or none.
            (Ok(_) | Err(_), _) => {}
        }
        assert!(
            clock::now() < limit,
            "no quarantine has begun and ended: {met:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await; // between two checks
    }
}
