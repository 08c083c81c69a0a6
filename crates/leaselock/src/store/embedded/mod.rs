//! stub
use super::*;
#[derive(Debug, Clone)]
pub(crate) struct EmbeddedStore;
impl EmbeddedStore {
    pub(crate) async fn run(&self, _: &Call, _: Duration) -> Result<Tagged, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn listen(&self, _: &str, _: Sink) {}
    pub(crate) async fn scan(
        &self,
        _: u64,
        _: &str,
        _: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        unimplemented!()
    }
    pub(crate) async fn examine(&self, _: Duration) -> Result<Vec<Check>, StoreError> {
        unimplemented!()
    }
    pub(crate) fn capabilities(&self) -> Capabilities {
        unimplemented!()
    }
    pub(crate) fn describe(&self) -> String {
        unimplemented!()
    }
    pub(crate) fn another_lane(&self) -> Self {
        self.clone()
    }
    pub(crate) fn folder(
        _: Option<std::path::PathBuf>,
        _: crate::clock::Clock,
        _: &crate::token::ClientId,
        _: bool,
    ) -> Self {
        unimplemented!()
    }
    pub(crate) fn memory(_: &str, _: crate::clock::Clock) -> Self {
        unimplemented!()
    }
    pub(crate) fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        unimplemented!()
    }
}
