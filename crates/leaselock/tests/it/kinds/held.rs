//! What an actor holds, and how it comes to hold it.

use leaselock::lease::Upgradable;
use leaselock::{Client, Fence, Lease};

use super::{Kind, NAME, UNSET};
use crate::support::LONG;

/// What an actor holds.
pub(super) enum Held {
    Writer(Lease),
    Upgradable(Lease<Upgradable>),
    Other(Lease<()>),
}

impl Held {
    pub(super) fn any(self) -> Lease<()> {
        match self {
            Held::Writer(lease) => lease.into(),
            Held::Upgradable(up) => up.into(),
            Held::Other(lease) => lease,
        }
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        match self {
            Held::Writer(lease) => lease.fence(),
            Held::Upgradable(up) => up.fence(),
            Held::Other(lease) => lease.fence(),
        }
    }

    pub(super) fn upgradable(self) -> Lease<Upgradable> {
        match self {
            Held::Upgradable(up) => up,
            _ => panic!("not an upgradable reader"),
        }
    }

    pub(super) async fn release(self) {
        self.any().release().await.unwrap();
    }
}

pub(super) async fn acquire(client: Client, kind: Kind, priority: i32) -> Held {
    let lock = client.rwlock(NAME).ttl(LONG).priority(priority);
    match kind {
        Kind::Upgrade => panic!("not without a read"),
        Kind::Upgradable => Held::Upgradable(lock.upgradable_read().await.unwrap()),
        Kind::Write => {
            let mutex = client.mutex(NAME).ttl(LONG).priority(priority);
            Held::Writer(mutex.acquire().await.unwrap())
        }
        Kind::Read => Held::Other(lock.read().await.unwrap().into()),
        Kind::Permits(count) => {
            let pool = client.semaphore(NAME, UNSET).ttl(LONG).priority(priority);
            Held::Other(pool.acquire_many(count).await.unwrap().into())
        }
    }
}

pub(super) async fn attempt(client: &Client, kind: Kind) -> Option<Held> {
    let lock = client.rwlock(NAME).ttl(LONG);
    match kind {
        Kind::Upgrade => panic!("not without a read"),
        Kind::Upgradable => lock
            .try_upgradable_read()
            .await
            .unwrap()
            .map(Held::Upgradable),
        Kind::Write => {
            let lease = client.mutex(NAME).ttl(LONG).try_acquire().await.unwrap();
            lease.map(Held::Writer)
        }
        Kind::Read => lock
            .try_read()
            .await
            .unwrap()
            .map(|it| Held::Other(it.into())),
        Kind::Permits(count) => {
            let pool = client.semaphore(NAME, UNSET).ttl(LONG);
            let permits = pool.try_acquire_many(count).await.unwrap();
            permits.map(|it| Held::Other(it.into()))
        }
    }
}

pub(super) async fn downgrade(client: &Client, held: Held, to_upgradable: bool) -> Held {
    let lock = client.rwlock(NAME).ttl(LONG);
    match held {
        Held::Upgradable(up) => Held::Other(up.downgrade().await.unwrap().into()),
        Held::Writer(lease) if to_upgradable => {
            Held::Upgradable(lock.downgrade_to_upgradable(lease).await.unwrap())
        }
        Held::Writer(lease) => Held::Other(lock.downgrade(lease).await.unwrap().into()),
        _ => panic!("nothing that is downgraded"),
    }
}
