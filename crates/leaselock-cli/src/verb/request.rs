//! A lock as `run` and `acquire` ask for it: to be held alone, read, or by permits.

use std::time::Duration;

use leaselock::election::Election;
use leaselock::error::InvalidInput;
use leaselock::interop::Protocol;
use leaselock::lease::Leader;
use leaselock::options::Waiting;
use leaselock::{AcquireError, Client, Lease, LeaseError, Mutex, RwLock, Semaphore, Wait};
use serde_json::Value;

use crate::args::Globals;
use crate::args::lease::LockArgs;
use crate::args::mode::Mode;
use crate::failure::Failure;
use crate::held::Held;
use crate::owner::JobOwner;
use crate::session::{self, Purpose};
use crate::{event, output};

/// The lock with its options. It holds nothing.
#[derive(Clone)]
pub(crate) enum Request {
    Exclusive(Mutex),
    /// These names too.
    Several(Mutex, Vec<String>),
    Shared(RwLock),
    /// So many permits.
    Permits(Semaphore, u32),
    /// The name, as the leader.
    Leadership(Election),
}

/// Sets the same option of whichever lock it is.
macro_rules! on_each {
    ($request:expr, $lock:ident => $changed:expr) => {
        match $request {
            Request::Exclusive($lock) => Request::Exclusive($changed),
            Request::Several($lock, also) => Request::Several($changed, also),
            Request::Shared($lock) => Request::Shared($changed),
            Request::Permits($lock, take) => Request::Permits($changed, take),
            Request::Leadership($lock) => Request::Leadership($changed),
        }
    };
}

/// The client and the lock on it as the flags describe it.
pub(crate) fn open(
    name: &str,
    mode: Mode,
    lock: &LockArgs,
    globals: &Globals,
    purpose: Purpose<'_>,
) -> Result<(Client, Request), Failure> {
    let one_store = |what| session::one_store(globals, purpose, what);
    Ok(match mode {
        Mode::Exclusive => {
            let client = session::client(globals, purpose)?;
            let request = Request::exclusive(&client, name, lock, globals);
            (client, request)
        }
        Mode::Shared => {
            let client = one_store("--shared")?;
            let request = Request::Shared(client.rwlock(name)).with(lock, globals);
            (client, request)
        }
        Mode::Permits { take, total } => {
            let client = one_store("--permits")?;
            let request = Request::Permits(client.semaphore(name, total), take);
            (client, request.with(lock, globals))
        }
    })
}

/// The client and the leadership on it, with what followers read of this leader.
pub(crate) fn open_leadership(
    name: &str,
    value: &str,
    lock: &LockArgs,
    globals: &Globals,
    purpose: Purpose<'_>,
    what: &str,
) -> Result<(Client, Request), Failure> {
    let client = session::one_store(globals, purpose, what)?;
    let mut election = client.election(name).value(value);
    if let Some(note) = &lock.note {
        election = election.note(note);
    }
    let request = Request::Leadership(election).with(lock, globals);
    Ok((client, request))
}

impl Request {
    /// The mutex as the flags describe it.
    fn exclusive(client: &Client, name: &str, lock: &LockArgs, globals: &Globals) -> Request {
        let mut mutex = lock.like.mutex(client.mutex(name));
        if let Some(note) = &lock.note {
            mutex = mutex.note(note);
        }
        Request::Exclusive(mutex).with(lock, globals)
    }

    /// The same for these names too, if there are any.
    pub(crate) fn along_with(self, also: &[String]) -> Request {
        match self {
            Request::Exclusive(mutex) if !also.is_empty() => Request::Several(mutex, also.to_vec()),
            request => request,
        }
    }

    /// A lease of a mutex is held by another library's protocol.
    pub(crate) fn protocol(self, protocol: Protocol) -> Request {
        match self {
            Request::Exclusive(mutex) if protocol != Protocol::Native => {
                Request::Exclusive(mutex.protocol(protocol))
            }
            request => request,
        }
    }

    fn with(self, lock: &LockArgs, globals: &Globals) -> Request {
        let longest = globals.longest();
        let (ttl, priority) = (lock.ttl(longest), lock.priority);
        let request = on_each!(self, it => it.ttl(ttl).priority(priority));
        match lock.replicas(longest) {
            Some((count, timeout)) => on_each!(request, it => it.min_replicas(count, timeout)),
            None => request,
        }
    }

    /// Without renewal in the background.
    pub(crate) fn without_renewal(self) -> Request {
        on_each!(self, it => it.renewal(false))
    }

    pub(crate) fn max_hold(self, longest: Duration) -> Request {
        on_each!(self, it => it.max_hold(longest))
    }

    pub(crate) fn wait(
        self,
        wait: Wait,
        tell: impl Fn(&Waiting) + Send + Sync + 'static,
    ) -> Request {
        on_each!(self, it => it.wait(wait).on_wait(tell))
    }

    pub(crate) fn validate(self) -> Result<Request, InvalidInput> {
        if let Request::Several(mutex, also) = &self {
            drop(mutex.clone().along_with(also.clone()).validate()?);
        }
        Ok(on_each!(self, it => it.validate()?))
    }

    /// The lock, if it is taken in another library's way.
    pub(crate) fn of_others(&self, protocol: Protocol) -> Option<Mutex> {
        match self {
            Request::Exclusive(mutex) if protocol != Protocol::Native => Some(mutex.clone()),
            _ => None,
        }
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(
            self,
            Request::Exclusive(_) | Request::Several(..) | Request::Leadership(_)
        )
    }

    /// Acquires for this owner. A process that its job has left behind is no part of the job's owner.
    pub(crate) async fn acquire_for(
        &self,
        job: &JobOwner,
        globals: &Globals,
    ) -> Result<Held, AcquireError> {
        let owned = on_each!(self.clone(), it => it.owner(&job.owner));
        match owned.acquire(globals).await {
            Err(AcquireError::Deadlock { .. }) if job.is_left_behind() => {
                self.acquire(globals).await
            }
            outcome => outcome,
        }
    }

    pub(crate) async fn acquire(&self, globals: &Globals) -> Result<Held, AcquireError> {
        Ok(match self {
            Request::Exclusive(mutex) => Held::Exclusive(mutex.acquire().await?),
            Request::Several(mutex, also) => {
                let lock = mutex.clone().along_with(also.clone());
                Held::Several(lock.acquire().await?)
            }
            Request::Shared(lock) => Held::Shared(lock.read().await?),
            Request::Permits(pool, take) => Held::Permits(pool.acquire_many(*take).await?),
            Request::Leadership(election) => {
                let leading = election.campaign().await?;
                proclaimed(&leading, globals).await;
                Held::Leader(leading)
            }
        })
    }
}

/// The job of a leader begins once every client can read who leads, or once that has failed: it leads in any case.
async fn proclaimed(leading: &Lease<Leader>, globals: &Globals) {
    match leading.proclaimed().await {
        Ok(()) | Err(LeaseError::Lost(_)) => {}
        Err(_) if globals.quiet => {}
        Err(error) => {
            let name = leading.name().as_str();
            let text = format!("followers may not see who leads `{name}`: {error}");
            output::say(&match globals.json {
                true => event::line("not-proclaimed", name, &text, Value::Null),
                false => format!("leaselock: {}\n", output::sanitized(&text)),
            });
        }
    }
}
