//! Whether a waiter can be woken: the store is asked in the background. See
//! [`Rights`](crate::engine::services::wakeups::rights::Rights).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::ask::Ask;
use crate::base::Token;
use crate::engine::services::wakeups::notifier::Notifier;
use crate::quorum::executor::Executor;

/// Shorter than the longest interval of a waiter that cannot be woken.
const WAITED: Duration = Duration::from_millis(250);

/// Counts the connections of requests and of messages: over a new one the user may be another.
fn connections(store: &Executor, notifier: &Notifier) -> u64 {
    notifier.subscription() + store.epoch().unwrap_or_default()
}

impl Ask<'_> {
    /// Whether a release can wake the waiter of this token, which listens to `channel`. True until the store has said
    /// otherwise.
    pub(super) fn can_be_woken(&self, token: &Token, channel: &str) -> bool {
        if channel.is_empty() {
            return false;
        }
        if !self.engine.store.has_users() {
            return true;
        }
        let background = self.background;
        let known = background.rights.of(channel);
        let present = connections(&background.store, &background.notifier);
        let is_new = known.told_in.load(Ordering::Relaxed) != present;
        if is_new && !known.asking.swap(true, Ordering::SeqCst) {
            self.ask_for_rights(token, channel);
        }
        !known.refused.load(Ordering::Relaxed)
    }

    /// In the background, if the waiter is still there by then.
    fn ask_for_rights(&self, token: &Token, channel: &str) {
        let background = self.background;
        let (rights, store) = (Arc::clone(&background.rights), background.store.clone());
        let notifier = Arc::clone(&background.notifier);
        let (token, channel) = (token.clone(), channel.to_owned());
        let within = self.within();
        drop(background.handle.spawn(async move {
            tokio::time::sleep(WAITED).await;
            let known = rights.of(&channel);
            let asked_in = connections(&store, &notifier);
            let allowed = if notifier.waits(&token) {
                store.may_wake(&channel, within).await
            } else {
                None
            };
            if known.is_told(allowed, asked_in) {
                tracing::warn!(
                    target: "leaselock", channel,
                    "the user may not publish, or not ask who listens: waiters are not woken and poll"
                );
                notifier.wake_all();
            }
        }));
    }
}
