//! A toy: a semaphore of one, with scripts of its own.

mod kind;
mod lock;

pub(crate) use self::kind::TOY;
pub use self::lock::Toy;
