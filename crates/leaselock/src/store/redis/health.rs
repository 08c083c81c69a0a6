//! What happens to connections is a reason to look after leases at once: a server that was restarted or replaced may
//! know nothing of them, and their holder is to hear of it now and not at the next renewal.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::connection::Connection;
use super::connection_events::ConnectionEvents;
use super::sentinel;
use crate::base::clock::Clock;
use crate::store::Holder;

const CLOCK: Clock = Clock::boot();
/// As long as anything is held, a connection is tried to be made for so long at a time.
const EACH: Duration = Duration::from_secs(1);
/// Between two times, also when only a person could help.
const PAUSE: Duration = Duration::from_millis(100);

impl Connection {
    /// Has all leases verified whenever a connection to the server has ended, as soon as there is one again; for ever.
    pub(super) async fn keep_vigil(self: &Arc<Self>, holder: &dyn Holder) {
        let mut trouble = self.trouble().watch();
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

/// The same where every request finds its node anew.
pub(super) async fn over_many(trouble: &ConnectionEvents, holder: &dyn Holder) {
    let mut trouble = trouble.watch();
    while trouble.changed().await.is_ok() {
        if holder.holds() {
            holder.verify_all();
        }
        sleep(PAUSE).await; // the nodes of a cluster are mostly in trouble together
    }
}

/// Follows the server to where it is said to be, and looks after leases; for ever.
pub(super) async fn follow(lane: &Arc<Connection>, holder: &dyn Holder) {
    let follows = sentinel::follow(lane.endpoint());
    tokio::join!(follows, lane.keep_vigil(holder));
}
