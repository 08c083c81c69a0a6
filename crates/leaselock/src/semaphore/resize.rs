//! Pinning the number of permits.

use super::kind::RESIZE;
use crate::base::error::RequestError;
use crate::client::inspection::PermitCount;
use crate::client::named::Named;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::values::operation::operation;
use crate::engine::values::resource::Resource;

operation! {
    /// Pins the number of permits; with 0 the latest request decides again. Runs
    /// `semaphore/resize`.
    pub(super) struct Resize {
        resource: Resource,
        permits: u32,
    }
    script resource.script(&RESIZE);
    fn encode(call) {
        call.key(&resource.lock).key(resource.queue()).key(resource.waiters());
        call.key(resource.fence()).key(resource.usage());
        if let Some(gate) = &resource.gate {
            call.key(&*gate.key_for(&resource.lock));
        }
        call.arg(u64::from(*permits));
    }
    fn decode(answer) -> (u32, u32) {
        "resized" => (answer.small(0)?, answer.small(1)?),
    }
    fn time_us(answer) {
        answer.number(2).ok()
    }
}

pub(super) async fn resize(named: &Named, permits: u32) -> Result<PermitCount, RequestError> {
    let resource = named.resource()?;
    let resize = Resize { resource, permits };
    let (total, used) = named.state.engine.ask(&resize, OPERATOR_WITHIN).await?;
    Ok(PermitCount {
        total,
        used,
        pinned: permits > 0,
    })
}
