//! How long a step takes.

use std::time::{Duration, Instant};

/// Time since `start`.
pub(crate) fn since(start: Instant) -> Duration {
    start.elapsed()
}

/// Now, for times that people read.
#[expect(
    clippy::disallowed_methods,
    reason = "a step that spans a suspend may look too short"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
