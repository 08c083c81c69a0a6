//! The file that holds the keys of a call.

use crate::base::{ErrorKind, StoreError, slots};
use crate::script::Call;

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
