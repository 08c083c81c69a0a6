//! Connection events as a reason to verify leases at once.
//!
//! A server that was restarted or replaced may have lost the leases, and their holder must learn of it now and not at
//! the next renewal.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::connection::Connection;
use super::connection_events::ConnectionEvents;
use super::follow;
use crate::base::CLOCK;
use crate::store::LeaseHolder;

/// The time for one attempt to connect, as long as any lease is held.
const EACH: Duration = Duration::from_secs(1);
/// The pause between two attempts, also when only an operator could help.
const PAUSE: Duration = Duration::from_millis(100);

impl Connection {
    /// Verifies all leases whenever a connection to the server has ended, once there is another; for ever.
    pub(super) async fn verify_after_reconnects(self: &Arc<Self>, holder: &Arc<dyn LeaseHolder>) {
        self.trouble.tell(holder);
        let mut trouble = self.trouble.watch();
        while trouble.changed().await.is_ok() {
            while holder.holds() {
                if self.reached(CLOCK.now().plus(EACH)).await.is_ok() {
                    holder.verify_all();
                    break;
                }
                sleep(PAUSE).await;
            }
        }
    }
}

/// Verifies all leases on every event, where every request finds its node anew.
pub(super) async fn over_many(trouble: &ConnectionEvents, holder: &Arc<dyn LeaseHolder>) {
    trouble.tell(holder);
    let mut trouble = trouble.watch();
    while trouble.changed().await.is_ok() {
        if holder.holds() {
            holder.verify_all();
        }
        sleep(PAUSE).await; // the nodes of a cluster usually fail together
    }
}

/// Follows the server to its reported address, and verifies leases; for ever.
pub(super) async fn follow(connection: &Arc<Connection>, holder: &Arc<dyn LeaseHolder>) {
    let follows = follow::follow(&connection.endpoint);
    tokio::join!(follows, connection.verify_after_reconnects(holder));
}
