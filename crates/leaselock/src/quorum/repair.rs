//! Background cleanup on nodes that did not confirm it, until it cannot matter any more.
//!
//! A frozen or slow node may carry out a vote without a reply late, after its withdrawal. So each call is repeated
//! until the node has replied, and then twice more. It concerns one key that expires by itself. So the number of calls
//! is bounded, and their time by the longest lease.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;

use super::member::Common;
use crate::base::backoff::Backoff;
use crate::base::{CLOCK, Moment, debug_as, hold};
use crate::script::Call;
use crate::store::{RedisStore, Store};

/// Repetitions after a reply, because it may have overtaken an earlier request.
const LOOKS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// Pauses while the node does not reply; the last one repeats.
const PAUSES_MS: &[u64] = &[50, 200, 1000, 3000];
const TRY_WITHIN: Duration = Duration::from_secs(1);
/// A stalled node may carry out old requests when it resumes, so retries do not end with the lease.
const RETRY_BEYOND_LEASE: Duration = Duration::from_secs(60);
/// The most keys of a node that is gone for long. The oldest is dropped first.
const MOST: usize = 8192;

/// The pending cleanup of one node.
pub(super) struct Repair {
    store: RedisStore,
    common: Arc<Common>,
    runs_on: Arc<OnceLock<Handle>>,
    due: Mutex<DueRepair>,
}

#[derive(Default)]
struct DueRepair {
    /// By when they are due; the number makes every entry different.
    calls: BTreeMap<(Moment, u64), RepairEntry>,
    /// The keys of all entries.
    keys: usize,
    count: u64,
    running: bool,
}

impl DueRepair {
    fn push(&mut self, at: Moment, entry: RepairEntry) {
        self.count += 1;
        self.keys += entry.call.parameters.key_count();
        self.calls.insert((at, self.count), entry);
    }

    fn pop(&mut self) -> Option<(Moment, RepairEntry)> {
        let ((at, _), entry) = self.calls.pop_first()?;
        self.keys -= entry.call.parameters.key_count();
        Some((at, entry))
    }
}

struct RepairEntry {
    call: Arc<Call>,
    /// How many replies there were.
    answers: usize,
    until: Moment,
}

impl Repair {
    pub(super) fn new(
        store: RedisStore,
        common: &Arc<Common>,
        runs_on: &Arc<OnceLock<Handle>>,
    ) -> Arc<Self> {
        Arc::new(Repair {
            store,
            common: Arc::clone(common),
            runs_on: Arc::clone(runs_on),
            due: Mutex::default(),
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        let due = hold(&self.due);
        !due.running && due.calls.is_empty()
    }

    /// Takes over a call that was not confirmed, or did not find what it was to clean up.
    pub(super) fn take(self: &Arc<Self>, call: &Arc<Call>, answered: bool) {
        let now = CLOCK.now();
        let mut due = hold(&self.due);
        let pause = if answered { LOOKS[0] } else { Duration::ZERO };
        let entry = RepairEntry {
            call: Arc::clone(call),
            answers: usize::from(answered),
            until: now.plus(self.common.terms.longest).plus(RETRY_BEYOND_LEASE),
        };
        due.push(now.plus(pause), entry);
        while due.keys > MOST && due.pop().is_some() {}
        if due.running {
            return;
        }
        let handle = self.runs_on.get().cloned();
        if let Some(handle) = handle.or_else(|| Handle::try_current().ok()) {
            due.running = true;
            drop(handle.spawn(Arc::clone(self).run()));
        }
    }

    async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::new(PAUSES_MS);
        while let Some((at, mut entry)) = self.next() {
            CLOCK.sleep_until(at).await;
            let counted = (self.common.requests).begin(&entry.call, &self.store);
            let outcome = self.store.run(&entry.call, TRY_WITHIN).await;
            counted.end(&outcome);
            let now = CLOCK.now();
            let pause = match outcome {
                Ok(_) => {
                    backoff.reset();
                    entry.answers += 1;
                    LOOKS.get(entry.answers - 1).copied()
                }
                Err(error) if error.is_transient() && now < entry.until => {
                    // The other calls would fail in the same way.
                    CLOCK.sleep(backoff.next()).await;
                    Some(Duration::ZERO)
                }
                Err(_) => None,
            };
            if let Some(pause) = pause {
                hold(&self.due).push(CLOCK.now().plus(pause), entry);
            }
        }
    }

    /// Returns the entry that is due first; with none, the next caller starts the task again.
    fn next(&self) -> Option<(Moment, RepairEntry)> {
        let mut due = hold(&self.due);
        let next = due.pop();
        due.running = next.is_some();
        next
    }
}

debug_as!(Repair, it => "Repair({} calls)", hold(&it.due).calls.len());
