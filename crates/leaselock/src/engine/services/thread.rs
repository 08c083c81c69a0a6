//! The client's own thread: renewals, `lost` timers, wake-ups and cleanup run here, whatever the user's executor does.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use super::cleanup::Cleanup;
use super::ids::Ids;
use super::log::EventLog;
use super::renewal::Renewal;
use super::wakeups::notifier::Notifier;
use crate::base::clock_watch::ClockWatch;
use crate::base::{Clock, ErrorKind, StoreError};
use crate::quorum::executor::Executor;
use crate::store::{LeaseHolder, Subscriptions};

/// How long the thread goes on with cleanup after the client was dropped.
const LAST_CLEANUP: Duration = Duration::from_secs(5);

/// Returns a runtime for a caller that blocks on a future of a client whose thread could not start.
///
/// Without descriptors for I/O it has timers alone, and building it needs nothing of the system.
pub(crate) fn spare_runtime() -> tokio::runtime::Runtime {
    let builder = tokio::runtime::Builder::new_current_thread;
    let whole = builder().enable_all().build();
    whole.unwrap_or_else(|_| {
        let timers = builder().enable_time().build();
        timers.expect("timers need nothing of the system")
    })
}

#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) handle: tokio::runtime::Handle,
    pub(crate) renewal: Arc<Renewal>,
    pub(crate) cleanup: Cleanup,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) store: Executor,
    /// Dropped with the client: the thread ends then.
    _stop: oneshot::Sender<()>,
}

impl Background {
    pub(crate) fn start(
        ids: &Ids,
        over: &Executor,
        clock: &Clock,
        request_timeout: Option<Duration>,
        clock_watch: &Arc<ClockWatch>,
        log: &Arc<EventLog>,
    ) -> Result<Self, StoreError> {
        let failed = |what: &str, error: std::io::Error| {
            StoreError::refused(
                ErrorKind::Internal,
                format!("cannot start the client's {what}: {error}"),
            )
            .with_source(error)
        };
        // Before its runtime, which cannot be dropped here if the thread does not start.
        let (gives, given) = mpsc::channel::<(tokio::runtime::Runtime, _)>();
        std::thread::Builder::new()
            .name("leaselock".to_owned())
            .spawn(move || {
                if let Ok((runtime, work)) = given.recv() {
                    runtime.block_on(work);
                }
            })
            .map_err(|error| failed("thread", error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed("runtime", error))?;
        let store = over.unshared();
        store.clean_up_on(runtime.handle());
        let (cleanup, cleanup_task) = Cleanup::new();
        let renewal = Arc::new(Renewal::new(
            store.clone(),
            clock.clone(),
            request_timeout,
            cleanup.clone(),
            Arc::clone(clock_watch),
            Arc::downgrade(log),
        ));
        let holder: Arc<dyn LeaseHolder> = renewal.clone();
        let notifier = Arc::new(Notifier::new(
            clock.clone(),
            cleanup.clone(),
            Arc::clone(&holder),
        ));
        let subscriptions = store.subscriptions();
        let on_connection = Arc::clone(&notifier);
        let sink = Box::new(move |event| on_connection.receive_on_connection(event));
        over.deliver_along(&ids.channel_along, sink);
        let at_nodes = Arc::clone(&notifier);
        store.deliver_from_nodes(Arc::new(move |event| at_nodes.receive_at_node(event)));
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let work = {
            let (renewal, notifier, cleanup) =
                (Arc::clone(&renewal), Arc::clone(&notifier), cleanup.clone());
            let (store, clock, channel) = (store.clone(), clock.clone(), ids.channel.clone());
            let last = store.clone();
            let (serving, served) = (store.clone(), Arc::clone(&subscriptions));
            let following = store.clone();
            let (log, logging) = (Arc::clone(log), store.clone());
            let writer = Arc::clone(&log);
            async move {
                drop(tokio::spawn(async move { following.follow(&holder).await }));
                drop(tokio::spawn(renewal.run()));
                drop(tokio::spawn(notifier.run(store.clone(), channel)));
                drop(tokio::spawn(async move { writer.run(logging).await }));
                drop(tokio::spawn(async move { serving.serve(&served).await }));
                drop(tokio::spawn(cleanup_task.run(store, clock.clone())));
                drop(stopped.await); // ends when the client is dropped
                cleanup.drained(&clock, LAST_CLEANUP, || 0).await; // no task is left
                last.is_clean(LAST_CLEANUP).await;
                log.finish(&last).await;
            }
        };
        drop(gives.send((runtime, work))); // the thread waits for it
        Ok(Background {
            handle,
            renewal,
            cleanup,
            notifier,
            subscriptions,
            store,
            _stop: stop,
        })
    }
}
