//! Running a script on the node that has its keys.

use std::time::Duration;

use redis::Value;

use super::router::Cluster;
use crate::base::{CLOCK, Moment, Result};
use crate::script::Call;
use crate::store::redis::calls;

impl Cluster {
    /// Runs a call on the node that has its keys.
    ///
    /// While their slot is being moved they may be on two nodes. Once half of its time is over, a call that can do so
    /// then runs on the first key alone.
    pub(crate) async fn run(&self, call: &Call, until: Moment, within: Duration) -> Result<Value> {
        let Some(alone) = call.alone else {
            return self.run_until(call, until, until).await;
        };
        let retry_until = CLOCK.now().plus(within / 2);
        let answer = self.run_until(call, until, retry_until).await?;
        if matches!(&answer, Value::ServerError(reply) if reply.code() == "TRYAGAIN") {
            return self
                .run_until(&call.on_first_key(alone), until, until)
                .await;
        }
        Ok(answer)
    }

    /// Runs a call on its keys' node, and retries until `retry_until` while they are on two nodes.
    async fn run_until(&self, call: &Call, until: Moment, retry_until: Moment) -> Result<Value> {
        let key = call.parameters.keys().next();
        let library = self.topology.functions();
        let short = calls::short(library, call);
        let answer = self.ask(&short, key, until, retry_until).await?;
        if !calls::is_noscript(&answer) {
            return Ok(answer);
        }
        let whole = calls::whole(library, call);
        self.ask(&whole, key, until, retry_until).await
    }
}
