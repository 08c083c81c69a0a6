//! A script's plain cases in Rust, for embedded stores, and what they may read and write: the commands of scripts, as
//! methods.

use super::answer::Answer;
use super::parameters::Parameters;
use crate::base::StoreError;

/// The same step as a script, for its plain cases.
///
/// The Lua file decides; the shortcut gives the same result with a tenth of the work. It leaves every other case to the
/// Lua: it returns `None`, and has changed nothing.
pub(crate) type Shortcut = fn(&Parameters, &mut dyn Keyspace) -> Option<Answer>;

/// The id of a stream's entry: milliseconds, and a number among those of the same millisecond.
pub(crate) type StreamId = (u64, u64);

/// The keys of one call. A command on a value of another type fails.
pub(crate) trait Keyspace {
    /// Returns the store's time; it stands still during a call.
    fn now_us(&self) -> u64;

    /// `EXISTS key`.
    fn exists(&self, key: &str) -> bool;
    /// `PEXPIRE key ttl_ms`; false when the key does not exist.
    fn expire(&mut self, key: &str, ttl_ms: u64) -> bool;
    /// `DEL key`; false when the key does not exist.
    fn delete(&mut self, key: &str) -> bool;

    /// `GET key`.
    fn get(&self, key: &str) -> Result<Option<&[u8]>, StoreError>;
    /// `SET key value PX ttl_ms`.
    fn set(&mut self, key: &str, value: &[u8], ttl_ms: u64);

    /// The last id in `XINFO STREAM key`.
    fn stream_last(&self, key: &str) -> Result<Option<StreamId>, StoreError>;
    /// `XADD key MAXLEN 0 id - -`, where no id stands for `*`; `None` when the id is not larger than the last.
    fn stream_add(
        &mut self,
        key: &str,
        id: Option<StreamId>,
    ) -> Result<Option<StreamId>, StoreError>;
}
