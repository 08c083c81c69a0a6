//! The operator's report about a store.

use std::time::Duration;

use super::RedisStore;
use crate::base::clock::CLOCK;
use crate::base::error::StoreError;
use crate::store::redis::doctor::ask_sentinels;
use crate::store::redis::doctor::examine;
use crate::store::redis::link::StoreLink;
use crate::store::report::Report;

impl RedisStore {
    pub(crate) async fn examine(&self, within: Duration) -> Result<Report, StoreError> {
        let StoreLink::Cluster(cluster) = &self.0 else {
            return examine::one(&self.0, within).await;
        };
        let endpoints = cluster.endpoints(CLOCK.now().plus(within)).await?;
        let primaries: Vec<_> = endpoints.into_iter().map(StoreLink::to).collect();
        Box::pin(examine::all(self.describe(), &primaries, within)).await
    }

    /// Adds the findings about the Sentinels, if there are any, for leases of this length.
    pub(crate) async fn examine_sentinels(&self, report: &mut Report, ttl: Duration) {
        let Some(own) = self.0.own() else {
            return;
        };
        if let Some(view) = ask_sentinels::view(&own.endpoint).await {
            report.checks.extend(view.checks(ttl));
            report.promises.extend(view.promise());
        }
    }
}
