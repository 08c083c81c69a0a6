//! Subscriptions in a folder or in memory: the channels of broadcasts, which may have listeners in many processes.
//!
//! Each client has one listener for a channel, however many of its tasks watch it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::datagram::{Listener, broadcast_name};
use super::on_disk::FolderStore;
use super::receiver::Receiver;
use crate::store::{Event, Sink, Subscriptions};

/// Ends its task when it is dropped.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Keeps a listener for each channel of the set that is wanted, until dropped.
pub(super) async fn serve<F>(
    set: &Arc<Subscriptions>,
    listen: impl Fn(Arc<str>, Sink) -> F + Send + Sync,
) where
    F: Future<Output = ()> + Send + 'static,
{
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
                let sink = sink(set, channel);
                Task(tokio::spawn(listen(Arc::clone(channel), sink)).abort_handle())
            });
        }
        set.changed().await;
    }
}

/// Reports what happens to a channel. Whatever is not its first beginning may hide a message, and counts as one.
fn sink(set: &Arc<Subscriptions>, channel: &Arc<str>) -> Sink {
    let (set, channel) = (Arc::clone(set), Arc::clone(channel));
    let has_begun = AtomicBool::new(false);
    Box::new(move |event| match event {
        Event::Ready if !has_begun.swap(true, Ordering::SeqCst) => {
            set.subscribed(channel.as_bytes());
        }
        Event::Gap => {}
        Event::Ready | Event::Ended => set.message(channel.as_bytes(), b""),
        Event::Message(message) => set.message(channel.as_bytes(), &message),
    })
}

impl FolderStore {
    /// Delivers the messages of a broadcast channel, and the ends of processes that may have held a lock, until dropped.
    pub(super) async fn listen_to_broadcast(&self, channel: &str, sink: Sink) {
        /// The pause before a retry with a folder that cannot be used now.
        const AGAIN: Duration = Duration::from_secs(1);
        let sink = Arc::new(sink);
        loop {
            let bound = self.bind(|folder| {
                let name = broadcast_name(channel.as_bytes(), &self.settings.client);
                Listener::bind(Arc::clone(&folder.wakes), name, folder.file_mode)
            });
            match bound {
                Ok(listener) => {
                    let ear = Receiver::new(listener, channel, Arc::clone(&sink));
                    self.hear(&ear, &sink).await;
                }
                Err(error) => tracing::warn!(target: "leaselock", %error, "cannot hear broadcasts"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
