//! What a script's plain cases in Rust may read and write in embedded stores: the commands of scripts, as methods.

use crate::base::Result;

/// The id of a stream's entry: milliseconds, and a number among those of the same millisecond.
pub(crate) type StreamId = (u64, u64);

/// The keys of one call. A command on a value of another type fails.
pub(crate) trait Keyspace {
    /// Returns the store's time; it stands still during a call.
    fn now_us(&self) -> u64;

    /// `EXISTS key`.
    fn exists(&self, key: &str) -> bool;
    /// `PTTL key`, rounded down, so that no client expects more.
    fn remaining_ms(&self, key: &str) -> i64;
    /// `PEXPIRE key ttl_ms`; false when the key does not exist.
    fn expire(&mut self, key: &str, ttl_ms: u64) -> bool;
    /// `DEL key`; false when the key does not exist.
    fn delete(&mut self, key: &str) -> bool;

    /// `GET key`.
    fn get(&self, key: &str) -> Result<Option<&[u8]>>;
    /// `SET key value PX ttl_ms`.
    fn set(&mut self, key: &str, value: &[u8], ttl_ms: u64);

    /// The last id in `XINFO STREAM key`.
    fn stream_last(&self, key: &str) -> Result<Option<StreamId>>;
    /// `XADD key MAXLEN 0 id - -`, where no id stands for `*`; `None` when the id is not larger than the last.
    fn stream_add(&mut self, key: &str, id: Option<StreamId>) -> Result<Option<StreamId>>;
}
