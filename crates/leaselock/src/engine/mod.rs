//! Acquiring, waiting, renewing, releasing and cleaning up: one implementation for all kinds of locks, in five storeys.
//! Each uses those before it. The last one is for what holds nothing.

pub(crate) mod values;

pub(crate) mod services;

pub(crate) mod guard;

pub(crate) mod ways;

pub(crate) mod shared_state;
