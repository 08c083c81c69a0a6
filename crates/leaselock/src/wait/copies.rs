//! A grant that counts only once replicas have it.
//!
//! A server tells how many replicas have what *one connection* wrote, so the grant is written once more over a
//! connection of its own, whoever wrote it first: a call that was combined, or the release of whoever held the lock
//! before. What was written earlier has arrived when that has. The connection is shared with nobody meanwhile, because
//! it answers nothing while it waits.

use crate::client::Inner;
use crate::error::{AcquireError, ErrorKind, InvalidInput, ReleaseError, StoreError};
use crate::lease::Lease;
use crate::lease::kept::Kept;
use crate::options::{Copies, Options};

impl Inner {
    /// Only a server of its own has replicas that can be waited for, and only on connections of our own.
    pub(crate) fn replicates(&self, options: &Options) -> Result<(), InvalidInput> {
        if options.copies.is_none() || self.store.has_replicas() {
            return Ok(());
        }
        Err(InvalidInput::new(format!(
            "min_replicas and fsynced need connections of their own to one server with replicas, and this is {}: use a \
             redis:// or redis+sentinel:// URL or a redis::Client, or leave them out",
            self.store.describe()
        )))
    }
}

/// How many copies there are.
struct Counted {
    replicas: u32,
    /// The server itself has it on disk.
    here: bool,
}

impl Counted {
    fn are_enough(&self, asked: Copies) -> bool {
        self.replicas >= asked.replicas && (self.here || asked.on_disk != Some(true))
    }
}

/// The lease, once there are enough copies of it; otherwise it is given back first.
pub(super) async fn confirmed(lease: Lease, asked: Copies) -> Result<Lease, AcquireError> {
    let (inner, kept, _) = lease.parts();
    let (name, clear_in) = (kept.name.clone(), kept.ttl().as_duration());
    let counted = count(inner, kept, asked).await;
    let error = match counted {
        Ok(counted) if counted.are_enough(asked) => {
            if lease.is_held() {
                return Ok(lease);
            }
            let source = StoreError::refused(
                ErrorKind::TimedOut,
                "the lease ended before the replicas had confirmed it",
            );
            AcquireError::Store { name, source }
        }
        Ok(counted) => AcquireError::TooFewCopies {
            name,
            wanted: asked.replicas,
            answered: counted.replicas,
            here: asked.on_disk.filter(|here| *here).map(|_| counted.here),
            within: asked.within,
        },
        Err(source) => AcquireError::Store { name, source },
    };
    match lease.release().await {
        Ok(()) | Err(ReleaseError::NotHeld { .. }) => Err(error),
        Err(ReleaseError::Unknown { name, source } | ReleaseError::Store { name, source }) => {
            let message = format!("{error}; whether it was given back is not known: {source}");
            let source = StoreError::unknown(source.kind(), message);
            Err(AcquireError::Unknown {
                name,
                clear_in,
                source,
            })
        }
    }
}

#[cfg(not(feature = "redis"))]
async fn count(_: &Inner, _: &Kept, _: Copies) -> Result<Counted, StoreError> {
    Err(StoreError::refused(
        ErrorKind::Unsupported,
        "this store has no replicas",
    ))
}

#[cfg(feature = "redis")]
pub(crate) use self::rooms::Rooms;

#[cfg(feature = "redis")]
use self::rooms::count;

#[cfg(feature = "redis")]
mod rooms {
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use tokio::sync::{Semaphore, SemaphorePermit};
    use tokio::time::timeout;

    use super::*;
    use crate::mutex::confirm::{Confirm, Confirmed};
    use crate::script::Value;
    use crate::store::redis::Private;

    /// Each is a connection to the server while somebody waits.
    const ROOMS: usize = 32;
    /// So many stay open when nobody does.
    const IDLE_MOST: usize = 4;

    /// The connections on which replicas are waited for.
    #[derive(Debug)]
    pub(crate) struct Rooms {
        room: Semaphore,
        idle: Mutex<Vec<Private>>,
    }

    impl Default for Rooms {
        fn default() -> Self {
            Rooms {
                room: Semaphore::new(ROOMS),
                idle: Mutex::default(),
            }
        }
    }

    impl Rooms {
        async fn enter(&self, within: Duration) -> Result<SemaphorePermit<'_>, StoreError> {
            match timeout(within, self.room.acquire()).await {
                Ok(Ok(permit)) => Ok(permit),
                _ => {
                    let message = format!(
                        "{ROOMS} acquisitions of this client wait for replicas already, which is the limit"
                    );
                    Err(StoreError::refused(ErrorKind::NotServing, message))
                }
            }
        }

        /// One that was used before and has not broken since.
        fn again(&self) -> Option<Private> {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(Private::is_open);
            idle.pop()
        }

        fn leave(&self, private: Private) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MOST {
                idle.push(private);
            }
        }
    }

    /// How many copies of the grant there are, when enough or when the time is over.
    pub(super) async fn count(
        inner: &Inner,
        kept: &Kept,
        asked: Copies,
    ) -> Result<Counted, StoreError> {
        let within = inner.request_timeout(kept.ttl());
        let rooms = &inner.waiting_rooms;
        let _permit = rooms.enter(asked.within + within).await?;
        let confirm = Confirm {
            keys: &kept.keys,
            token: &kept.token,
            ttl: kept.ttl(),
        };
        let written = match rooms.again() {
            // The server may have closed it just now.
            Some(mut private) => private
                .run(&confirm, within)
                .await
                .ok()
                .map(|found| (private, found)),
            None => None,
        };
        let (mut private, found) = match written {
            Some(written) => written,
            None => {
                let mut private = inner.private(within).await?;
                let found = private.run(&confirm, within).await?;
                (private, found)
            }
        };
        if found != Confirmed::Written {
            let message = "the grant was gone before a replica could confirm it";
            return Err(StoreError::refused(ErrorKind::NotServing, message));
        }
        let counted = wait_on(&mut private, asked, within).await?;
        rooms.leave(private);
        Ok(counted)
    }

    /// The server answers when there are enough copies or the time is over, and counts them in both cases.
    async fn wait_on(
        private: &mut Private,
        asked: Copies,
        within: Duration,
    ) -> Result<Counted, StoreError> {
        let (replicas, here) = (
            asked.replicas.to_string(),
            asked.on_disk.unwrap_or_default(),
        );
        let limit = asked.within.as_millis().to_string();
        let here = if here { "1" } else { "0" };
        let words: &[&str] = match asked.on_disk {
            None => &["WAIT", &replicas, &limit],
            Some(_) => &["WAITAOF", here, &replicas, &limit],
        };
        let count = |value: &Value| match value {
            Value::Int(count) => u32::try_from(*count).ok(),
            _ => None,
        };
        let counted = match &private.ask(words, asked.within + within).await? {
            Value::Array(both) => match &both[..] {
                [here, replicas] => count(here).zip(count(replicas)),
                _ => None,
            },
            replicas => count(replicas).map(|replicas| (0, replicas)),
        };
        let malformed = || {
            StoreError::refused(
                ErrorKind::Malformed,
                "the count of replicas was not understood",
            )
        };
        let (here, replicas) = counted.ok_or_else(malformed)?;
        Ok(Counted {
            replicas,
            here: here > 0,
        })
    }
}
