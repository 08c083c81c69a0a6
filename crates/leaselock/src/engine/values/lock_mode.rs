//! How a name is held, and the table of what an owner that holds it in one way gets when it asks for it in another.

use leaselock_fence::{Fence, Name, Sequencer};

use super::resource::{Resource, mode_word};
use crate::base::Token;

/// How a lock is held or asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "mode", content = "permits"))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LockMode {
    /// By one holder alone: a [`Mutex`](crate::Mutex), or the writer of a [`RwLock`](crate::RwLock).
    Exclusive,
    /// By a reader, beside others.
    Shared,
    /// By a reader that may become exclusive.
    Upgradable,
    /// By a holder of this many permits of a [`Semaphore`](crate::Semaphore).
    Permits(u32),
}

/// What a request comes to beside a hold of the same owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The hold covers the request: it costs no request.
    Covered,
    /// The store decides, as for any other client.
    Apart,
    /// The request would wait for this very hold. The text names the way out.
    WaitsForItself(&'static str),
}

impl LockMode {
    /// Returns how this resource is held, or asked for.
    pub(crate) fn of(resource: &Resource) -> LockMode {
        LockMode::of_mode(resource.mode.as_deref())
    }

    /// Reads how a name is held, as a resource and a handle have it.
    pub(crate) fn of_mode(mode: Option<&str>) -> LockMode {
        LockMode::of_word(mode_word(mode).unwrap_or_default())
    }

    /// Reads the kind of a request or of a hold, as in `lua/holds.lua`.
    pub(crate) fn of_word(word: &str) -> LockMode {
        match word {
            "s" => LockMode::Shared,
            "u" => LockMode::Upgradable,
            // A number that no client of ours can have becomes the largest.
            word => match word.strip_prefix('w') {
                Some(count) => LockMode::Permits(count.parse().unwrap_or(u32::MAX)),
                None => LockMode::Exclusive,
            },
        }
    }

    /// Returns how many permits; 0 for any other way.
    pub(crate) fn permits(self) -> u32 {
        match self {
            LockMode::Permits(count) => count,
            _ => 0,
        }
    }

    /// Returns what a holder in this way shows to a protected resource. `None`: no number that we grant.
    pub(crate) fn sequencer(self, name: &Name, fence: Fence, token: &Token) -> Option<Sequencer> {
        let owner = match self {
            LockMode::Exclusive | LockMode::Permits(_) => token.owner_id(),
            // Readers that hold together have one fencing token.
            LockMode::Shared | LockMode::Upgradable => Sequencer::SHARED.to_owned(),
        };
        Sequencer::new(name.clone(), fence, &owner).ok()
    }

    /// What a request comes to while its owner holds the name in this way.
    pub(crate) fn beside(self, asked: LockMode) -> Beside {
        use Beside::{Apart, Covered, WaitsForItself};
        use LockMode::{Exclusive, Permits, Shared, Upgradable};
        match (self, asked) {
            (Exclusive, Exclusive) | (Exclusive | Shared | Upgradable, Shared) => Covered,
            (Permits(_), Permits(_)) => Apart,
            (Shared, Exclusive) => WaitsForItself(
                "release the read first and then check again what was read, or write from the beginning",
            ),
            (Upgradable, Exclusive) => WaitsForItself("upgrade the lease that it holds"),
            (_, Upgradable) => WaitsForItself("use the lease that it holds, or release it first"),
            (_, Permits(_)) => WaitsForItself("release that lease before it takes permits"),
            (Permits(_), _) => WaitsForItself("release the permits first"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: held. Columns: asked for. `=` costs no request, `+` is a hold of its own, `x` would wait for itself.
    #[test]
    fn the_table_of_modes() {
        use LockMode::{Exclusive, Permits, Shared, Upgradable};
        let all = [Exclusive, Shared, Upgradable, Permits(1)];
        let table = [
            (Exclusive, "==xx"),
            (Shared, "x=xx"),
            (Upgradable, "x=xx"),
            (Permits(2), "xxx+"),
        ];
        for (held, row) in table {
            let seen = all.map(|asked| match held.beside(asked) {
                Beside::Covered => '=',
                Beside::Apart => '+',
                Beside::WaitsForItself(_) => 'x',
            });
            assert_eq!(String::from_iter(seen), row, "{held:?}");
        }
    }
}
