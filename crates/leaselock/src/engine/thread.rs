//! The client's own thread: renewals, `lost` timers, wake-ups and clean-up run here, whatever the user's executor does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::cleanup::Reaper;
use super::renewal::Keeper;
use super::wait::notifier::Wakeups;
use super::wait::rights::Rights;
use crate::base::error::{ErrorKind, StoreError};
use crate::client::Inner;
use crate::store::subscriptions::Bells;
use crate::store::{Holder, Store};

/// How long the thread goes on cleaning up after the last user of the client is gone.
const LAST_CLEANUP: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) handle: tokio::runtime::Handle,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) reaper: Reaper,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) bells: Arc<Bells>,
    pub(crate) store: Store,
    /// Dropped with the client: the thread ends then.
    _stop: oneshot::Sender<()>,
}

impl Background {
    pub(crate) fn start(inner: &Inner) -> Result<Self, StoreError> {
        let failed = |what: &str, error: std::io::Error| {
            StoreError::refused(
                ErrorKind::Internal,
                format!("cannot start the client's {what}: {error}"),
            )
            .with_source(error)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed("runtime", error))?;
        let store = inner.store.another_lane();
        let clock = inner.clock.clone();
        #[cfg(feature = "redis")]
        if let Store::Quorum(quorum) = &store {
            quorum.clean_up_on(runtime.handle());
        }
        let (reaper, reaping) = Reaper::new();
        let keeper = Arc::new(Keeper::new(
            store.clone(),
            clock.clone(),
            inner.request_timeout,
            reaper.clone(),
            Arc::clone(&inner.skew),
        ));
        let wakeups = Arc::new(Wakeups::new(clock.clone(), reaper.clone()));
        let bells = store.bells();
        let along = Arc::clone(&wakeups);
        let sink = Box::new(move |event| along.hear_along(event));
        inner.store.hear_along(&inner.channel_along, sink);
        let at_nodes = Arc::clone(&wakeups);
        store.hear_at_nodes(Arc::new(move |event| at_nodes.hear_at_node(event)));
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let work = {
            let (keeper, wakeups, reaper) =
                (Arc::clone(&keeper), Arc::clone(&wakeups), reaper.clone());
            let (store, clock, channel) = (store.clone(), clock, inner.channel.clone());
            let last = store.clone();
            let (heard, ringing) = (store.clone(), Arc::clone(&bells));
            let followed = store.clone();
            let holder: Arc<dyn Holder> = keeper.clone();
            async move {
                drop(tokio::spawn(async move { followed.follow(&holder).await }));
                drop(tokio::spawn(keeper.run()));
                drop(tokio::spawn(wakeups.run(store.clone(), channel)));
                drop(tokio::spawn(async move { heard.serve(&ringing).await }));
                drop(tokio::spawn(reaping.run(store, clock.clone())));
                drop(stopped.await); // ends when the client is dropped
                reaper.drained(&clock, LAST_CLEANUP).await;
                last.is_clean(LAST_CLEANUP).await;
            }
        };
        std::thread::Builder::new()
            .name("leaselock".to_owned())
            .spawn(move || runtime.block_on(work))
            .map_err(|error| failed("thread", error))?;
        Ok(Background {
            handle,
            keeper,
            reaper,
            wakeups,
            rights: Arc::default(),
            bells,
            store,
            _stop: stop,
        })
    }
}
