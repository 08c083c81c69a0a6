//! How the feature `serde` writes times: in whole milliseconds, which the names of the fields say.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time.
pub(crate) mod ms {
    use crate::base::serde_units::*;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        whole(*time).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// A length of time that may be unknown.
pub(crate) mod option_ms {
    use crate::base::serde_units::*;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(whole).serialize(to)
    }
}

/// A time that may be unknown, from 1970 on.
pub(crate) mod unix_ms {
    use crate::base::serde_units::*;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        option_ms::serialize(&since, to)
    }
}

/// A time from 1970 on.
pub(crate) mod at_unix_ms {
    use crate::base::serde_units::*;

    pub(crate) fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        unix_ms::serialize(&Some(*time), to)
    }
}

fn whole(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
