//! The operator's report about servers.

mod ask;
pub(super) mod ask_sentinels;
pub(super) mod examine;
mod facts;
pub(super) mod permissions;
mod promises;
#[cfg(test)]
mod sentences_tests;
pub(super) mod sentinels;
#[cfg(test)]
mod sentinels_tests;
#[cfg(test)]
mod tests;
mod together;
