//! `leaselock bench`

mod acquire;
mod figures;
mod free;
mod hand_over;
mod measure;
mod status_line;

pub(crate) use self::measure::run;
