//! The examination, tested.
