//! `leaselock bench`

mod acquire;
mod figures;
mod free;
mod hand_over;
mod measure;
mod progress;

pub(crate) use self::measure::run;
