//! `leaselock top [PATTERN]`

mod draw;
mod fetch;
mod input;
mod run;
mod screen;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use self::run::run;
