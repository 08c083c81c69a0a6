//! A store in a folder or in memory, for the layers above.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::memory::MemoryStore;
use super::on_disk::FolderStore;
use super::{doctor, folder};
use crate::base::{ClientId, Clock, Moment, Result, StoreError};
use crate::script::{Answer, Call, Listed};
use crate::store::{Capabilities, Event, LeaseHolder, Report, Sink, Store, Subscriptions, Traffic};

/// An embedded store. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) enum EmbeddedStore {
    Folder(Arc<FolderStore>),
    Memory(MemoryStore),
    /// There is no default folder; every operation reports why.
    Nowhere(StoreError),
}

impl EmbeddedStore {
    /// Creates a store in a folder; nothing is read or created before the first use.
    ///
    /// With a session, this client's leases end with its process and the jobs that inherited the session's descriptor.
    pub(crate) fn folder(path: &Path, clock: Clock, client: &ClientId, session: bool) -> Self {
        let client = client.as_str().to_owned();
        let settings = folder::FolderSettings {
            path: path.to_owned(),
            clock,
            client,
            session,
        };
        EmbeddedStore::Folder(Arc::new(FolderStore::new(settings)))
    }

    pub(crate) fn default_folder(clock: Clock, client: &ClientId, session: bool) -> Self {
        match folder::default_folder() {
            Ok(path) => Self::folder(&path, clock, client, session),
            Err(none) => EmbeddedStore::Nowhere(none),
        }
    }

    /// Creates a store in this process's memory. Equal names are one store; a store without a name is alone.
    pub(crate) fn memory(name: &str, clock: Clock) -> Self {
        EmbeddedStore::Memory(MemoryStore::named(name, clock))
    }
}

impl Store for EmbeddedStore {
    async fn run(&self, call: &Call, within: Duration) -> Result<Answer> {
        match self {
            EmbeddedStore::Folder(store) => store.run(call, within).await,
            EmbeddedStore::Memory(store) => store.run(call),
            EmbeddedStore::Nowhere(why) => Err(why.clone()),
        }
    }

    async fn listen(&self, channel: &str, sink: Sink) {
        match self {
            EmbeddedStore::Folder(store) => store.listen(channel, sink).await,
            EmbeddedStore::Memory(store) => store.listen(channel, &sink).await,
            EmbeddedStore::Nowhere(_) => std::future::pending().await,
        }
    }

    /// Removes what dead processes left.
    async fn follow(&self, _holder: &Arc<dyn LeaseHolder>) {
        match self {
            EmbeddedStore::Folder(store) => store.sweep_dead_processes().await,
            EmbeddedStore::Memory(_) | EmbeddedStore::Nowhere(_) => std::future::pending().await,
        }
    }

    fn subscriptions(&self) -> Arc<Subscriptions> {
        Subscriptions::new()
    }

    /// The channels are those of broadcasts, which may have listeners in many processes. Each client has one listener
    /// for a channel, however many of its tasks watch it.
    async fn serve(&self, set: &Arc<Subscriptions>) {
        let mut listeners: HashMap<Arc<str>, Task> = HashMap::new();
        loop {
            let due = set.due();
            for channel in due.unsubscribe {
                listeners.remove(&channel);
            }
            listeners.retain(|channel, _| set.has(channel));
            for channel in due.subscribe {
                // It is due again as long as its listener is not ready.
                listeners.entry(channel).or_insert_with_key(|channel| {
                    let (store, channel) = (self.clone(), Arc::clone(channel));
                    let sink = broadcast_sink(set, &channel);
                    let listening = async move { store.listen(&channel, sink).await };
                    Task(tokio::spawn(listening).abort_handle())
                });
            }
            set.changed().await;
        }
    }

    /// Each lock has one of our tokens in it.
    async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        about: Option<fn(&str) -> Call>,
        within: Duration,
    ) -> Result<(u64, Vec<Listed>)> {
        match self {
            EmbeddedStore::Folder(store) => store.scan(cursor, pattern, about, within).await,
            EmbeddedStore::Memory(store) => Ok((0, store.scan(pattern, about.is_some()))),
            EmbeddedStore::Nowhere(why) => Err(why.clone()),
        }
    }

    async fn examine(&self, within: Duration) -> Result<Report> {
        let (checks, promises) = match self {
            EmbeddedStore::Folder(store) => (store.examine(within).await?, doctor::of_a_folder()),
            EmbeddedStore::Memory(_) => doctor::memory(),
            EmbeddedStore::Nowhere(why) => return Err(why.clone()),
        };
        Ok(Report::new(self.describe(), checks, promises))
    }

    fn unshared(&self) -> Self {
        self.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            wakes: true,
            keys_per_call: 1,
            combines: false,  // each name has a file and a lock of its own
            has_users: false, // every account that may open the folder may do everything there
            has_replicas: false,
            has_commands: false,
            look_every: Duration::from_secs(1),
        }
    }

    /// Counts how often the folder was opened: one that was removed comes back with another clock.
    fn epoch(&self) -> Option<u64> {
        match self {
            EmbeddedStore::Folder(store) => Some(store.epoch()),
            EmbeddedStore::Memory(_) => Some(0),
            EmbeddedStore::Nowhere(_) => None,
        }
    }

    /// `None` for memory, whose waiters are in the same process.
    fn traffic(&self, key: &str) -> Option<Traffic> {
        match self {
            EmbeddedStore::Folder(store) => store.traffic(key),
            EmbeddedStore::Memory(_) | EmbeddedStore::Nowhere(_) => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            EmbeddedStore::Folder(store) => store.describe(),
            EmbeddedStore::Memory(store) => store.describe(),
            EmbeddedStore::Nowhere(_) => "file:".to_owned(),
        }
    }

    fn session_descriptor(&self) -> Option<OwnedFd> {
        match self {
            EmbeddedStore::Folder(store) => store.session_descriptor(),
            EmbeddedStore::Memory(_) | EmbeddedStore::Nowhere(_) => None,
        }
    }

    fn only_job_lives(&self, client: &str) -> bool {
        matches!(self, EmbeddedStore::Folder(store) if store.only_job_lives(client))
    }

    fn limit_session(&self, until: Moment) {
        if let EmbeddedStore::Folder(store) = self {
            store.limit_session(until);
        }
    }
}

/// Ends its task when it is dropped.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reports what happens to a channel. Whatever is not its first beginning may hide a message, and counts as one.
fn broadcast_sink(set: &Arc<Subscriptions>, channel: &Arc<str>) -> Sink {
    let (set, channel) = (Arc::clone(set), Arc::clone(channel));
    let has_begun = AtomicBool::new(false);
    Box::new(move |event| match event {
        Event::Ready if !has_begun.swap(true, Ordering::SeqCst) => {
            set.subscribed(&channel);
        }
        Event::Gap => {}
        Event::Ready | Event::Ended => set.message(&channel, b""),
        Event::Message(message) => set.message(&channel, &message),
    })
}
