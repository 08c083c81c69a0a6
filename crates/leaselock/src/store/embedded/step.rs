//! One run of a script: what it works on, and what it asks about the world outside.

use std::sync::Arc;

use super::image::Image;

/// What commands ask about the world outside of the image.
pub(super) trait Surroundings: Send + Sync {
    /// Somebody listens on this channel.
    fn present(&self, channel: &[u8]) -> bool;
    /// This client has a session, so what it holds ends with it.
    fn has_session(&self, client: &str) -> bool;
}

/// One run of a script: what it works on and what it leaves to be done.
pub(super) struct Step {
    pub(super) image: Image,
    /// The store's time, read once.
    pub(super) now_us: u64,
    /// What a script may touch.
    pub(super) keys: Vec<String>,
    pub(super) reads_only: bool,
    pub(super) surroundings: Arc<dyn Surroundings>,
    /// Channel and message, to be sent once the image is committed.
    pub(super) outbox: Vec<(Vec<u8>, Vec<u8>)>,
}
