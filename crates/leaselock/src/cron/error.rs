//! Why a tick was not claimed, or its end not recorded.

use std::time::SystemTime;

use crate::base::error::{AcquireError, StoreError, noun_error};

noun_error! {
    /// Why a request of a [`Cron`](crate::cron::Cron) failed. Nothing is held after any of them.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum CronError of name: "The name.", through AcquireError {
        /// The store did not reply to a read or to `cancel` of a [run](crate::cron::CronRun), or refused. Nothing is held.
        ///
        /// After `cancel` the client repeats the request in the background; until it succeeds, hosts find a run that holds the
        /// name or has crashed.
        #[error("`{name}`: {source}")]
        Store leaves Record,

        /// The tick was not claimed: the store did not reply, strict mode grants nothing at present, or an input is out of its
        /// range.
        ///
        /// A claim whose reply was lost is taken back in the background. Claim the tick again while it is not too late.
        #[error(transparent)]
        Acquire(#[from] AcquireError),

        /// The run ended too late: its lease was over, and another run of the name has begun, or the record is gone.
        ///
        /// With [`OnCrash::Again`](crate::options::OnCrash::Again) the other run may be one of the same tick.
        #[error(
            "`{name}`: the run ended too late, and its end was not recorded: {}",
            if latest.is_some() { "another run has begun since" } else { "the record of the name is gone" }
        )]
        Stale {
            /// The latest tick that has begun since; `None` when the record is gone.
            latest: Option<SystemTime>,
        },

        /// The run has finished, and the store has not confirmed that. Its end may be recorded.
        ///
        /// If it is not, the run counts as crashed; with [`OnCrash::Again`](crate::options::OnCrash::Again), another one follows.
        #[error("`{name}` has run, and whether its end is recorded is not known: {source}")]
        NotConfirmed {
            /// The store's error.
            source: StoreError,
        } leaves Record,
    }
}
