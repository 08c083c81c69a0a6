//! A real Redis or Valkey server of a test's own: a free port, a folder of its own, gone on drop.

mod binary;
mod builder;
mod launch;
mod replication;
mod running;
mod shifted;
mod shim;
mod slow_disk;

pub use self::binary::{find as find_binary, has_tls};
pub use self::builder::Builder;
pub(crate) use self::builder::free_port;
pub use self::running::{Paused, Server};

#[cfg(test)]
mod tests;
