//! Another library's locks: how it names their keys, and its defaults.

mod libraries;
mod library;

pub use self::library::Preset;
