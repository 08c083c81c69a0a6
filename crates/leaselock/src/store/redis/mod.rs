//! Leases on one Redis or Valkey server. The client's builder apart, no other folder names `redis::`.
//!
//! A script is sent by its hash, and as a whole when the server does not have it; never loaded beforehand. Every call
//! has one deadline, which covers connecting too. `error_map` decides what a failure means for the request.
//!
//! The redis client has counterparts of this code, and each would break a promise. Its cluster connection sends a
//! request again after a dropped connection or a timeout. A release that is sent twice answers *expired* for one that
//! worked. Its Sentinel client believes the first Sentinel that names a primary, whatever its configuration epoch. Its
//! connection manager keeps a stalled connection with its queue, and its TLS needs a provider for the whole process.

mod answer;
mod calls;
mod channels;
mod cluster;
mod connection;
mod connection_events;
mod dedicated;
mod doctor;
mod driver;
mod endpoint;
mod error_map;
mod external_connection;
mod follow;
mod health;
mod heartbeat;
mod link;
mod push_mode;
mod push_receiver;
mod sessions;
mod socket;
mod store;
mod subscriber;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use self::dedicated::DedicatedConnection;
pub(crate) use self::link::RedisStore;
