//! The release of a lease, whatever an operator has done to it.

use std::time::Duration;

use super::batchable::Releases;
use super::batcher::Batcher;
use crate::base::{StoreError, Ttl};
use crate::engine::values::{Item, Release, ReleaseAnswer};

impl Batcher<Releases> {
    /// Releases a lease, also one that was broken and has not ended.
    pub(crate) async fn release(
        &self,
        release: &Release<'_>,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let item = || Item::of(release.resource, release.token, Ttl::DEFAULT, true);
        let reply = self.ask(release, item, within).await?;
        // What is broken is there under another token: exclusively, or as a hold that is not found.
        let may_be_broken = match release.resource.mode {
            None => ReleaseAnswer::Taken,
            Some(_) => ReleaseAnswer::Expired,
        };
        if reply != may_be_broken {
            return Ok(reply);
        }
        let broken = Release {
            token: &release.token.broken(),
            ..*release
        };
        match Box::pin(self.ask(&broken, || None, within)).await? {
            ReleaseAnswer::Released => Ok(ReleaseAnswer::Released),
            ReleaseAnswer::Expired | ReleaseAnswer::Taken => Ok(reply),
        }
    }
}
