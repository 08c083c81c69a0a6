//! Asking again for votes that a lease of a quorum lacks: a node was unreachable at the grant, or restarted empty
//! since.
//!
//! The replies to each renewal show which nodes those are. Whenever a majority has renewed the lease, the client asks
//! these nodes for their votes again. So a lease that is held for long outlives the restart of every node, one after
//! the other. A new vote replaces no vote for another client, and a node that may not vote yet gives none here either.

use std::sync::Arc;

use super::{Id, Renewal};
use crate::engine::services::lease::record::LeaseRecord;
use crate::engine::values::ExtendAnswer;
use crate::engine::values::ballot::{CastVote, VoteAnswer, Withdraw};
use crate::quorum::group::{NodeQuestion, QuorumStore};

impl Renewal {
    /// Notes which leases have expired on a node, by its reply to their renewal.
    pub(super) fn note_missing_votes<'a>(
        &self,
        at: usize,
        answers: impl Iterator<Item = (&'a Id, Option<ExtendAnswer>)>,
    ) {
        let expired = answers.filter(|(_, answer)| *answer == Some(ExtendAnswer::EXPIRED));
        for (id, _) in expired {
            let mut table = self.table();
            if table.schedule.get(*id).is_some() {
                *table.missing_votes.entry(*id).or_default() |= 1 << at;
            }
        }
    }

    /// Asks the nodes without a vote for a lease that a majority has just renewed.
    pub(super) fn revote(self: &Arc<Self>, id: Id, record: &Arc<LeaseRecord>) {
        if let Some(quorum) = self.store.majority() {
            let Some(nodes) = self.table().missing_votes.remove(&id) else {
                return;
            };
            let (renewal, quorum, record) = (Arc::clone(self), quorum.clone(), Arc::clone(record));
            drop(tokio::spawn(async move {
                renewal.ask_again(&quorum, id, &record, nodes).await;
            }));
        }
    }

    async fn ask_again(&self, quorum: &QuorumStore, id: Id, record: &LeaseRecord, nodes: u32) {
        let vote = CastVote {
            held_for: record.held_for(),
            proposed: 0, // a majority has accepted this lease's fencing token, so these votes need none
            behind: quorum.behind(),
            caller: "",
        };
        let within = self.within(record, self.clock.now());
        let among = |at| nodes & (1_u32 << at) != 0;
        let mut poll = quorum.poll(&vote, NodeQuestion::ToVote, among, within);
        while poll.next().await.is_some() {}
        let given = poll.votes().count(VoteAnswer::is_ours);
        tracing::debug!(target: "leaselock", lock = %record.name, given, "asked again for votes");
        if self.table().schedule.get(id).is_some() {
            return;
        }
        // The lease was released meanwhile, and the release may have reached the nodes before these votes.
        let withdraw = Withdraw::of(&record.held);
        let maybe_has = |at| among(at) && poll.votes().may_have(at, VoteAnswer::is_ours);
        let mut taking_back = quorum.poll(&withdraw, NodeQuestion::ToSay, maybe_has, within);
        while taking_back.next().await.is_some() {}
    }
}
