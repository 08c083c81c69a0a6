//! stub
use super::*;
#[derive(Debug, Clone)]
pub(crate) struct RedisStore;
impl RedisStore {
    pub(crate) async fn run(&self, _: &Call, _: Duration) -> Result<Tagged, StoreError> { unimplemented!() }
    pub(crate) async fn listen(&self, _: &str, _: Sink) {}
    pub(crate) async fn scan(&self, _: u64, _: &str, _: Duration) -> Result<(u64, Vec<String>), StoreError> { unimplemented!() }
    pub(crate) async fn examine(&self, _: Duration) -> Result<Vec<Check>, StoreError> { unimplemented!() }
    pub(crate) fn capabilities(&self) -> Capabilities { unimplemented!() }
    pub(crate) fn describe(&self) -> String { unimplemented!() }
    pub(crate) fn another_lane(&self) -> Self { self.clone() }
    pub(crate) fn from_client(_: &::redis::Client) -> Self { unimplemented!() }
    pub(crate) fn from_connection<C: ::redis::aio::ConnectionLike>(_: C) -> Self { unimplemented!() }
    pub(crate) fn from_url(_: url::RedisUrl) -> Self { unimplemented!() }
}
