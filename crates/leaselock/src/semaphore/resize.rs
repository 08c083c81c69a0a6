//! Pinning the number of permits.

use crate::base::error::{InspectError, StoreError};
use crate::client::named::Named;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::values::resource::Resource;
use crate::quorum::votable::on_one_store;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

pub(super) static RESIZE: Script = script!("semaphore/resize");
pub(super) static RESIZE_STRICT: Script = script!("semaphore/resize", strict);

/// Pins the number of permits; with 0 the latest request decides again. Runs `semaphore/resize`.
#[derive(Debug)]
struct Resize {
    resource: Resource,
    permits: u32,
}

impl Operation for Resize {
    /// How many permits are held.
    type Reply = u32;

    fn script(&self) -> &'static Script {
        match self.resource.gate {
            Some(_) => &RESIZE_STRICT,
            None => &RESIZE,
        }
    }

    fn encode(&self, call: &mut Call) {
        let keys = &self.resource;
        call.key(&keys.lock)
            .key(keys.queue())
            .key(keys.waiters())
            .key(keys.fence())
            .key(keys.usage());
        if let Some(gate) = &keys.gate {
            call.key(&*gate.key_for(&keys.lock));
        }
        call.arg(u64::from(self.permits));
    }

    fn decode(answer: &Answer) -> Result<u32, Malformed> {
        match answer.tag() {
            "resized" => answer.small(1),
            _ => Err(Malformed),
        }
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        answer.number(2).ok()
    }
}

on_one_store!(Resize);

pub(super) async fn resize(named: &Named, permits: u32) -> Result<u32, InspectError> {
    let resource = named.resource()?;
    let resize = Resize { resource, permits };
    let used: Result<u32, StoreError> = named.state.engine.ask(&resize, OPERATOR_WITHIN).await;
    Ok(used?)
}
