//! A library whose locks are meant: how it names their keys, and what it does when nothing else is said.

mod libraries;
mod library;

pub use self::library::Preset;
