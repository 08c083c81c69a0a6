//! The table of modes: what an owner that holds a name in one way gets when it asks for the name in another way.

use super::resource::Resource;

/// How a name is held, or asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    /// A read that may become exclusive.
    Upgradable,
    Permits,
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

impl Mode {
    /// Reads it from the first letter of the kinds in `lua/holds.lua`.
    pub(crate) fn of(resource: &Resource) -> Mode {
        match resource.mode.as_deref().map(|mode| mode.as_bytes().first()) {
            None => Mode::Exclusive,
            Some(Some(b's')) => Mode::Shared,
            Some(Some(b'w')) => Mode::Permits,
            Some(_) => Mode::Upgradable,
        }
    }

    /// What a request comes to while its owner holds the name in this way.
    pub(crate) fn beside(self, asked: Mode) -> Beside {
        use Beside::{Apart, Covered, WaitsForItself};
        use Mode::{Exclusive, Permits, Shared, Upgradable};
        match (self, asked) {
            (Exclusive, Exclusive) | (Exclusive | Shared | Upgradable, Shared) => Covered,
            (Permits, Permits) => Apart,
            (Shared, Exclusive) => WaitsForItself(
                "release the read first and then check again what was read, or write from the beginning",
            ),
            (Upgradable, Exclusive) => WaitsForItself("upgrade the lease that it holds"),
            (_, Upgradable) => WaitsForItself("use the lease that it holds, or release it first"),
            (_, Permits) => WaitsForItself("release that lease before it takes permits"),
            (Permits, _) => WaitsForItself("release the permits first"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: held. Columns: asked for. `=` costs no request, `+` is a hold of its own, `x` would wait for itself.
    #[test]
    fn the_table_of_modes() {
        use Mode::{Exclusive, Permits, Shared, Upgradable};
        let all = [Exclusive, Shared, Upgradable, Permits];
        let table = [
            (Exclusive, "==xx"),
            (Shared, "x=xx"),
            (Upgradable, "x=xx"),
            (Permits, "xxx+"),
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
