//! What can go wrong while I hold a lock, and what does each error mean for what I hold?
//!
//! `cargo run -p leaselock --example safe_operation [URL]`

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use leaselock::inspect::BreakOptions;
use leaselock::{
    AcquireError, Client, ErrorKind, Fence, LeaseError, LostReason, Mutex, ReleaseError,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:")).await
}

/// How the operation ended, in the words of its caller.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// All of it was done, and no other client held the lock before the end.
    Done,
    /// All of it was done, but others may have held the lock before the end: check whether that did harm.
    DoneTooLate,
    /// It did not begin, and nothing is held. Try again later.
    NotNow(Reason),
    /// It was stopped where it stood, because the lease was lost.
    Stopped(LostReason),
    /// It did not begin. Trying again does not help: a person has to change something.
    Wrong,
}

#[derive(Debug, PartialEq, Eq)]
enum Reason {
    Busy,
    Store(ErrorKind),
    Unknown,
}

/// Does `work` under the lock and deals with all that can happen.
async fn operate<W>(mutex: &Mutex, work: impl FnOnce(Fence) -> W) -> Outcome
where
    W: Future<Output = ()>,
{
    let lease = match mutex.acquire().await {
        Ok(lease) => lease,
        // Other clients held it to the end of the wait. Nothing is held, and this attempt has left the queue.
        Err(AcquireError::TimedOut { .. }) => return Outcome::NotNow(Reason::Busy),
        // The store refused or cannot be reached. Nothing is held.
        Err(AcquireError::Store { source, .. }) => {
            return Outcome::NotNow(Reason::Store(source.kind()));
        }
        // The reply was lost. A lease may be there that no client uses; this client cleans it up in the background.
        Err(AcquireError::Unknown { .. }) => return Outcome::NotNow(Reason::Unknown),
        // Bad input, or a client that was closed. Nothing was sent.
        Err(AcquireError::Invalid(_) | AcquireError::Closed) => return Outcome::Wrong,
        // Errors of later versions: nothing is held after any of them.
        Err(_) => return Outcome::NotNow(Reason::Unknown),
    };
    let Some(fence) = lease.fence() else {
        return Outcome::Wrong; // fencing was switched off: then nothing can refuse a late write
    };
    tokio::select! {
        biased;
        // Dropping the work at its next await is all that can be done from here. A write that is on its way already
        // is stopped by the fence alone.
        lost = lease.lost() => return Outcome::Stopped(lost.reason),
        () = work(fence) => {}
    }
    match lease.release().await {
        Ok(()) => Outcome::Done,
        // The work was done, and yet the lease was over: by a clock that jumped, or an operator.
        Err(ReleaseError::NotHeld(_)) => Outcome::DoneTooLate,
        // It was held when the work ended. It is released in the background, or ends at its ttl.
        Err(ReleaseError::Unknown { .. } | ReleaseError::Store { .. }) => Outcome::Done,
        Err(_) => Outcome::Done,
    }
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::open(url)?;
    let mutex = client
        .mutex("operation")
        .ttl(Duration::from_millis(600))
        .wait(leaselock::Wait::Timeout(Duration::from_millis(50)));
    let quick = |_| async {};

    assert_eq!(operate(&mutex, quick).await, Outcome::Done);

    let other = mutex.acquire().await?;
    let busy = Outcome::NotNow(Reason::Busy);
    assert_eq!(operate(&mutex, quick).await, busy);
    extensions(&other).await;
    other.release().await?;

    // An operator takes the lock away. The holder learns of it by a message or at its next renewal, and the work is stopped.
    let slow = |fence| {
        let client = client.clone();
        async move {
            let terms = BreakOptions::default().now().only(fence);
            assert!(client.break_lease("operation", terms).await.is_ok());
            std::future::pending::<()>().await;
        }
    };
    let stopped = operate(&mutex, slow).await;
    assert_eq!(stopped, Outcome::Stopped(LostReason::KeyMissing));

    // The same, but the work ends before the holder has learned of it.
    let unaware = |fence| {
        let client = client.clone();
        async move {
            let terms = BreakOptions::default().now().only(fence);
            assert!(client.break_lease("operation", terms).await.is_ok());
        }
    };
    let late = operate(&mutex, unaware).await;
    // A client that has waited for a lock hears of the break by a message, which may be faster than the work.
    let is_late = matches!(late, Outcome::DoneTooLate | Outcome::Stopped(_));
    assert!(is_late, "{late:?}");

    // Refused before anything is sent: the message says what would be right.
    let nameless = client.mutex("two\nlines");
    assert_eq!(operate(&nameless, quick).await, Outcome::Wrong);

    // No server listens on port 1. Without a wait that is known at once.
    let no_server = Client::open("redis://127.0.0.1:1/")?;
    let unreachable = no_server.mutex("operation").wait(leaselock::Wait::Never);
    let down = Outcome::NotNow(Reason::Store(ErrorKind::Unreachable));
    assert_eq!(operate(&unreachable, quick).await, down);

    client.close().await;
    assert_eq!(operate(&mutex, quick).await, Outcome::Wrong);
    Ok(())
}

/// What an extension can come to.
async fn extensions(lease: &leaselock::Lease) {
    let long = Duration::from_secs(2);
    match lease.extend(long).await {
        Ok(()) => assert!(lease.remaining() > Duration::from_secs(1)),
        // Stop: the lease is gone. `lost()` says the same.
        Err(LeaseError::Lost(lost)) => panic!("{lost}"),
        // Go on: the lease holds until its old deadline at least, and renewals go on too.
        Err(LeaseError::Unknown { source, .. } | LeaseError::Store { source, .. }) => {
            panic!("{source}")
        }
        // The ttl is out of range. Nothing was sent.
        Err(LeaseError::Invalid(error)) => panic!("{error}"),
        Err(error) => panic!("{error}"),
    }
    let too_long = lease.extend(leaselock::options::TTL_MAX * 2).await;
    assert!(matches!(too_long, Err(LeaseError::Invalid(_))));
}
