//! Scripts as Rust values: the text of a file, a call of it, and its answer.

pub(crate) mod answer;
pub(crate) mod call;
pub(crate) mod damage;
pub(crate) mod keys;
pub(crate) mod keyspace;
pub(crate) mod library;

pub(crate) use self::answer::{Answer, Malformed, Value};
pub(crate) use self::call::{Arg, Call, Listed, Operation, Parameters, Script, Scripts, script};
pub(crate) use self::keys::LockKeys;
pub(crate) use self::library::Library;
