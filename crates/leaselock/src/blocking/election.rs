//! Leader election without async.

use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::wait::{refused_name, shown_name, wait};
use crate::base::error::{AcquireError, InspectError, ReleaseError};
use crate::client::options::setters;
use crate::client::run::{RunError, RunResult};
use crate::election::{Leader, ProclaimError};
use crate::engine::guard::lease::LeaseView;

/// An [`Election`](crate::Election) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "an election does nothing until a client campaigns or observes"]
pub struct Election {
    pub(super) client: crate::Client,
    pub(super) election: crate::Election,
}

impl Election {
    setters!(election.named.options);

    setting! { election, "Election":
        value(value: impl Into<String>);
    }

    fn about(&self) -> Name {
        shown_name(&self.election.named.name)
    }

    validating!(election, "Election");

    acquiring! { election, "Election", Leadership:
        campaign();
        campaign_within(limit: Duration);
    }

    trying! { election, "Election", Leadership:
        try_campaign();
    }

    waiting! { election, "Election":
        /// [`InspectError`]: it is not known who leads.
        leader() -> Result<Option<Leader>, InspectError>;
    }

    /// As [`Election::observe`](crate::Election::observe).
    pub fn observe(&self) -> LeaderObserver {
        LeaderObserver {
            client: self.client.clone(),
            observer: self.election.observe(),
        }
    }

    /// Runs `body` as the leader and resigns, also on panic.
    ///
    /// A thread cannot be stopped from outside, so a long body asks [`LeaseView::is_held`] from time to time.
    ///
    /// # Errors
    /// [`RunError::Acquire`]: the body did not run. [`RunError::Lost`]: the lease was gone before the body ended.
    pub fn run<T>(&self, body: impl FnOnce(&LeaseView) -> T) -> Result<RunResult<T>, RunError> {
        let leading = self.campaign()?;
        let value = body(&leading.view());
        leading.lost().check()?;
        let released = leading.resign();
        Ok(RunResult { value, released })
    }
}

/// A [`Leadership`](crate::Leadership) whose calls block the calling thread. Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "a leadership that is dropped is given up"]
pub struct Leadership {
    client: crate::Client,
    leadership: crate::Leadership,
}

impl Leadership {
    fn new(client: &crate::Client, leadership: crate::Leadership) -> Self {
        let client = client.clone();
        Leadership { client, leadership }
    }

    holding!(leadership);

    forwarded! { leadership:
        /// As [`Leadership::term`](crate::Leadership::term).
        term -> Fence;
        /// Returns what the followers read.
        value -> &str;
    }

    waiting! { leadership, "Leadership":
        /// [`ProclaimError`]: every variant says whether this client leads.
        proclaimed() -> Result<(), ProclaimError>;
    }

    /// As [`Leadership::resign`](crate::Leadership::resign).
    ///
    /// # Errors
    /// [`ReleaseError`]: this client does not lead after any of them.
    pub fn resign(self) -> Result<(), ReleaseError> {
        wait(&self.client, self.about(), self.leadership.resign())
    }
}

/// A [`LeaderObserver`](crate::LeaderObserver) whose calls block the calling thread.
#[derive(Debug)]
pub struct LeaderObserver {
    client: crate::Client,
    observer: crate::LeaderObserver,
}

impl LeaderObserver {
    forwarded! { observer:
        /// As [`LeaderObserver::current`](crate::LeaderObserver::current).
        current -> Option<&Leader>;
    }

    /// As [`LeaderObserver::changed`](crate::LeaderObserver::changed).
    ///
    /// # Errors
    /// [`InspectError`]; the next call reads again.
    pub fn changed(&mut self) -> Result<(), InspectError> {
        wait(&self.client, refused_name(), self.observer.changed())
    }
}
