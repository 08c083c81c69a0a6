//! A lease that an operator has broken before and that has not ended yet: a further break would change nothing.

use std::time::Duration;

use leaselock::inspect::{BreakOptions, Holder, Holding, LockMode, Process, printable};
use leaselock::interop::Protocol;
use leaselock::report::LogEntry;
use leaselock::{Client, Fence};
use serde_json::{Value, json};

use crate::{event, output, procfs, show};

/// Those whose leases end, and what the event log says of the break.
#[derive(Debug)]
pub(super) struct BrokenBefore {
    holders: Vec<Holder>,
    entry: Option<LogEntry>,
}

impl BrokenBefore {
    /// Finds out whether all that such a break would take away was taken before. `None` too where that is not known: the break
    /// itself says what is wrong then.
    pub(super) async fn find(
        client: &Client,
        name: &str,
        terms: &BreakOptions,
        grants: &[Fence],
    ) -> Option<Self> {
        if terms.at_once || terms.protocol != Protocol::Native {
            return None;
        }
        let holders = all_ending(client.inspect(name).await.ok()?.state, grants)?;
        let log = client.log(Duration::MAX).await.unwrap_or_default();
        let name = printable(name); // as the log has it
        let mut entries = log.into_iter().filter(|entry| {
            let is_of = |one: &Holder| one.fence.is_some() && one.fence == entry.fence;
            entry.kind == "broken"
                && entry.name.as_deref() == Some(&*name)
                && holders.iter().any(is_of)
        });
        // As the holder is told: the first break, but of readers, who share a fencing token, the latest.
        let is_reader = |one: &Holder| matches!(one.mode, LockMode::Shared | LockMode::Upgradable);
        let entry = match holders.iter().any(is_reader) {
            true => entries.next_back(),
            false => entries.next(),
        };
        Some(BrokenBefore { holders, entry })
    }

    pub(super) fn in_words(&self, name: &str) -> String {
        let name = output::sanitized(name);
        let who = match &self.holders[..] {
            [one] => show::who(one.process.as_ref()),
            several => format!("{} holders", several.len()),
        };
        let entry = self.entry.as_ref().map(|entry| format!(", {entry}"));
        let entry = output::sanitized(&entry.unwrap_or_default());
        let free = match self.remaining() {
            Some(rest) => format!("it is free in {} at the latest", show::whole(rest)),
            None => "it is about to be free".to_owned(),
        };
        format!("`{name}` was taken from {who} before{entry}; {free}, and with --now at once")
    }

    /// As the object of a break that has broken it.
    pub(super) fn json(&self, name: &str) -> Value {
        let first = &self.holders[0];
        let broken = BrokenHolders {
            first: first.process.as_ref(),
            fence: first.fence.filter(|_| self.holders.len() == 1),
            count: self.holders.len(),
            remaining: self.remaining(),
            lasts_with_job: false,
        };
        let unknown = json!({ "by": null, "why": null });
        broken.json(name, &self.entry.as_ref().map_or(unknown, event::broken))
    }

    fn remaining(&self) -> Option<Duration> {
        self.holders.iter().filter_map(|one| one.remaining).max()
    }
}

/// From whom a lock was taken.
pub(super) struct BrokenHolders<'a> {
    pub(super) first: Option<&'a Process>,
    /// Of the only one.
    pub(super) fence: Option<Fence>,
    pub(super) count: usize,
    pub(super) remaining: Option<Duration>,
    pub(super) lasts_with_job: bool,
}

impl BrokenHolders<'_> {
    /// `before`: who broke it, if another break did.
    pub(super) fn json(&self, name: &str, before: &Value) -> Value {
        json!({
            "name": name,
            "broken": {
                "client": show::client(self.first),
                "process": show::process_json(self.first),
                "fence": self.fence,
                "holders": self.count,
                "remaining_ms": self.remaining.map(show::ms),
                "lasts_with_job": self.lasts_with_job,
            },
            "before": before,
        })
    }
}

/// The holders that a break of these grants would hit, or with none of them of all, if each of them was broken before.
fn all_ending(state: Holding, grants: &[Fence]) -> Option<Vec<Holder>> {
    let Holding::Held { holders, count, .. } = state else {
        return None;
    };
    // In a folder a job may keep the lock of its dead wrapper, and the break says so. `acquire` ends as it should.
    let this_host = procfs::host_name();
    let is_gone = |one: &Holder| {
        let process = one.process.as_ref();
        let wrapper = process.filter(|it| it.via.as_deref() != Some("acquire"));
        let here = wrapper.filter(|it| it.host.as_deref() == Some(&*this_host));
        let pid = here.and_then(|it| i32::try_from(it.pid?).ok());
        pid.is_some_and(|pid| procfs::Stat::of(pid).is_none())
    };
    let are_all_shown = holders.len() == count && !holders.iter().any(is_gone);
    let hit = |one: &Holder| grants.is_empty() || one.fence.is_some_and(|it| grants.contains(&it));
    let hit: Vec<Holder> = holders.into_iter().filter(hit).collect();
    (are_all_shown && !hit.is_empty() && hit.iter().all(|one| one.broken)).then_some(hit)
}
