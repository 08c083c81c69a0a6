//! One run of a script: its data, and its questions about the world outside.

use std::sync::Arc;

use super::image::Image;
use crate::base::{ErrorKind, StoreError, slots};
use crate::script::Call;

/// The world outside of the image, as commands see it.
pub(super) trait Surroundings: Send + Sync {
    /// True if a listener is on this channel.
    fn present(&self, channel: &[u8]) -> bool;
    /// True if this client has a session, so that its leases end with it.
    fn has_session(&self, client: &str) -> bool;
}

/// One run of a script: its data and its pending effects.
pub(super) struct Step {
    pub(super) image: Image,
    /// The store's time, read once.
    pub(super) now_us: u64,
    /// The keys that a script may touch.
    pub(super) keys: Vec<String>,
    pub(super) reads_only: bool,
    pub(super) surroundings: Arc<dyn Surroundings>,
    /// Channels and messages, sent once the image is committed.
    pub(super) outbox: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Step {
    pub(super) fn new(
        call: &Call,
        image: Image,
        now_us: u64,
        surroundings: &Arc<impl Surroundings + 'static>,
    ) -> Self {
        Step {
            image,
            now_us,
            keys: Vec::new(),
            reads_only: call.script.reads_only,
            surroundings: Arc::clone(surroundings) as Arc<dyn Surroundings>,
            outbox: Vec::new(),
        }
    }
}

/// Returns the common slot tag of all keys of a call, which determines their file.
pub(super) fn one_tag(call: &Call) -> Result<&str, StoreError> {
    let mut tags = call.parameters.keys().map(slots::tag);
    match tags.next() {
        Some(tag) if tags.all(|other| other == tag) => Ok(tag),
        _ => {
            let message = format!("{} needs keys that share one slot", call.script.name);
            Err(StoreError::refused(ErrorKind::Internal, message))
        }
    }
}
