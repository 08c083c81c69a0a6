//! What a client runs, mostly on a thread of its own: renewal, cleanup, batches, messages, and the leases as they know
//! them.

pub(crate) mod batch;
pub(crate) mod broadcast;
pub(crate) mod cleanup;
pub(crate) mod core;
pub(crate) mod ids;
pub(crate) mod lease;
pub(crate) mod leftover;
pub(crate) mod log;
pub(crate) mod node_subscription;
pub(crate) mod renewal;
pub(crate) mod shared;
pub(crate) mod thread;
pub(crate) mod totals;
pub(crate) mod wakeups;

pub(crate) use self::broadcast::BroadcastListener;
pub(crate) use self::cleanup::{CleanupGuard, PendingCleanup};
pub(crate) use self::core::{Engine, OPERATOR_WITHIN};
pub(crate) use self::lease::deadlines::Id;
pub(crate) use self::lease::loss::LossWatch;
pub(crate) use self::lease::record::LeaseRecord;
pub(crate) use self::lease::state::{LeaseMachine, LeaseTerms};
pub(crate) use self::leftover::{Leftover, Undo};
pub(crate) use self::node_subscription::NodeSubscription;
pub(crate) use self::totals::of_client::{Acquiring, CountedHold, KindTotals};
pub(crate) use self::wakeups::grant_deadline::ClockSample;
pub(crate) use self::wakeups::notifier::Registration;
