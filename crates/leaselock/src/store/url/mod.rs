//! The URLs that name a store.
//!
//! No message repeats any part of the URL: a password with an unescaped character can end up in the host, the port or
//! the path.

mod parts;
mod redis_url;
mod sentinel;
mod sentinels;
mod server;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use self::parts::address;
pub(crate) use self::redis_url::{Place, RedisUrl};
pub(crate) use self::sentinels::Sentinels;
pub(crate) use self::target::{Target, parse};
