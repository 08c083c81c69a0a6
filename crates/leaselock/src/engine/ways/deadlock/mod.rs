//! Deadlocks: owners that hold something, and wait for each other in a circle.

pub(crate) mod calls;
mod detector;
pub(crate) mod graph;
mod published;

pub(crate) use self::detector::Detector;
