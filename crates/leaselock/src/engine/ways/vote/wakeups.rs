//! How the nodes wake a waiter.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::services::Registration;
use crate::engine::values::Resource;
use crate::engine::values::ballot::Withdraw;
use crate::engine::ways::ask::Ask;
use crate::quorum::group::{NodeQuestion, QuorumStore};

/// A waiter that the nodes are to wake. Dropping it ends that, in the background.
pub(super) struct VoteWakeups {
    pub(super) registration: Registration,
    quorum: QuorumStore,
    handle: tokio::runtime::Handle,
    resource: Resource,
    /// As the nodes have it.
    text: Arc<str>,
    asked: bool,
    won: bool,
}

impl VoteWakeups {
    pub(super) fn new(ask: &Ask<'_>, quorum: &QuorumStore) -> Self {
        let (background, token) = (ask.background, &ask.token);
        let registration = background.notifier.register(token);
        registration.enters_queue();
        background.notifier.want();
        VoteWakeups {
            registration,
            quorum: quorum.clone(),
            handle: background.handle.clone(),
            resource: ask.resource.clone(),
            text: format!("{} {}", token.secret(), ask.engine.ids.channel).into(),
            asked: false,
            won: false,
        }
    }

    pub(super) fn asks(&mut self) -> Arc<str> {
        self.asked = true;
        Arc::clone(&self.text)
    }

    /// Every node that votes for it has struck it out.
    pub(super) fn has_won(&mut self, unanimous: bool) {
        self.won = true;
        self.asked &= !unanimous;
    }
}

impl Drop for VoteWakeups {
    fn drop(&mut self) {
        /// How long the request may take that ends the messages of a release.
        const WITHIN: Duration = Duration::from_secs(1);
        if !self.asked {
            return;
        }
        let (quorum, resource) = (self.quorum.clone(), self.resource.clone());
        let token = self.registration.token().clone();
        let (text, tells) = (Arc::clone(&self.text), !self.won); // it may have been woken, and leaves that to the next
        drop(self.handle.spawn(async move {
            let leaves = Withdraw {
                resource: &resource,
                token: &token,
                tells,
                caller: &text,
            };
            let mut leaving = quorum.poll(&leaves, NodeQuestion::ToSay, |_| true, WITHIN);
            while leaving.next().await.is_some() {}
        }));
    }
}
