//! Scripts as Rust values: the text of a file, a call of it, and its answer.

pub(crate) mod answer;
pub(crate) mod arg;
pub(crate) mod call;
pub(crate) mod damage;
pub(crate) mod keys;
pub(crate) mod keyspace;
pub(crate) mod library;
pub(crate) mod operation;
pub(crate) mod parameters;
pub(crate) mod quarantine_key;
pub(crate) mod source;

pub(crate) use self::answer::{Answer, Malformed, Value};
pub(crate) use self::arg::Arg;
pub(crate) use self::call::Call;
pub(crate) use self::keys::LockKeys;
pub(crate) use self::library::Library;
pub(crate) use self::operation::Operation;
pub(crate) use self::parameters::Parameters;
pub(crate) use self::source::{Script, Scripts, script};
