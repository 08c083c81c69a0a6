//! Batching: requests that many tasks make at the same moment go to the store in one call.
//!
//! A single request is sent at once. While other requests of its kind are in flight, a request waits in a queue until
//! the tasks that are ready to run have run, and leaves with all queued requests. Each request has its own reply,
//! timeout and cleanup. A request whose caller is dropped while the request is queued was certainly never sent.

pub(crate) mod batcher;
pub(crate) mod driver;
mod queue;

pub(crate) use self::queue::BatchOutcome;
