//! Who holds a lock, read at the key at which its protocol keeps it.

use leaselock::error::RequestError;
use leaselock::inspect::{Holder, Holding, Inspection, LockMode};
use leaselock::{Client, Mutex};
use serde_json::Value;

use crate::show;

/// Reads who holds a lock; changes nothing.
pub(crate) struct Look<'a> {
    client: &'a Client,
    /// The lock that is taken in another library's way. It has one name.
    theirs: Option<Mutex>,
}

/// Who held it at that moment.
pub(crate) enum Seen {
    Ours(Inspection),
    /// Its holder; others' ways have no queue and no sharing.
    Theirs(Option<Holder>),
}

impl<'a> Look<'a> {
    /// Reads locks that are taken as leaselock does.
    pub(crate) fn native(client: &'a Client) -> Look<'a> {
        Look::at(client, None)
    }

    /// Reads this lock, if there is one, and else native ones.
    pub(crate) fn at(client: &'a Client, theirs: Option<Mutex>) -> Look<'a> {
        Look { client, theirs }
    }

    /// The store, as people are told.
    pub(crate) fn store(&self) -> String {
        self.client.store()
    }

    pub(crate) async fn see(&self, name: &str) -> Result<Seen, RequestError> {
        match &self.theirs {
            Some(mutex) => mutex.holder().await.map(Seen::Theirs),
            None => self.client.inspect(name).await.map(Seen::Ours),
        }
    }

    /// Who holds it, in one line; `None` when it is free, or the store does not say.
    pub(crate) async fn held_by(&self, name: &str) -> Option<String> {
        self.see(name).await.ok()?.held_by()
    }

    /// The same for a line that a terminal cuts: what the holder notes comes first.
    pub(crate) async fn held_for(&self, name: &str) -> Option<String> {
        let seen = self.see(name).await.ok()?;
        match seen.alone() {
            Some(holder) if holder.note.is_some() => Some(show::held_for(holder)),
            _ => seen.held_by().map(|who| format!("held by {who}")),
        }
    }
}

impl Seen {
    /// Who holds it, in one line.
    pub(crate) fn held_by(&self) -> Option<String> {
        match self {
            Seen::Ours(seen) => show::held_by(seen),
            Seen::Theirs(holder) => holder.as_ref().map(show::holder),
        }
    }

    /// Of several the one whose lease ends first is the first.
    pub(crate) fn holders(&self) -> &[Holder] {
        match self {
            Seen::Ours(seen) => match &seen.state {
                Holding::Held { holders, .. } => holders,
                _ => &[],
            },
            Seen::Theirs(holder) => holder.as_slice(),
        }
    }

    /// The one that holds it alone.
    pub(crate) fn alone(&self) -> Option<&Holder> {
        let mut holders = self.holders().iter();
        holders.find(|one| one.mode == LockMode::Exclusive)
    }

    /// Readers and holders of permits.
    pub(crate) fn several_json(&self) -> Vec<Value> {
        match self {
            Seen::Ours(seen) => show::holders_json(&seen.state),
            Seen::Theirs(_) => Vec::new(),
        }
    }

    /// Readers or holders of permits hold it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Seen::Ours(seen) if show::is_shared(&seen.state))
    }

    pub(crate) fn waiter_count(&self) -> usize {
        match self {
            Seen::Ours(seen) => seen.waiter_count,
            Seen::Theirs(_) => 0,
        }
    }
}
