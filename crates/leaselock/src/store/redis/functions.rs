//! Scripts as functions of the server, which an administrator has loaded.

use redis::Value;

use super::{CLOCK, Link, RedisStore, answer, command, fault, hash_of};
use crate::error::{ErrorKind, StoreError};
use crate::functions::{self, Library};
use crate::script::Call;

impl Link {
    /// Scripts are called as functions of this library.
    pub(super) fn functions(&self) -> Option<&'static Library> {
        match self {
            Link::Own(lane) => lane.endpoint().url().functions,
            Link::Handed(_) => None,
            #[cfg(feature = "cluster")]
            Link::Cluster(_) => None,
        }
    }
}

/// How a script is called: as a function where there are some, by its hash otherwise.
pub(super) fn short(library: Option<&Library>, call: &Call) -> redis::Cmd {
    match library {
        Some(library) => command("FCALL", library.function(call.script), call),
        None => command("EVALSHA", hash_of(call.script), call),
    }
}

/// The same in a way that a server understands that has never seen the script.
pub(super) fn whole(library: Option<&Library>, call: &Call) -> redis::Cmd {
    match library {
        Some(_) => short(library, call),
        None => command("EVAL", call.script.source, call),
    }
}

/// Nothing was run: the server has no such function, or no functions at all.
pub(super) fn is_absent(line: &str) -> bool {
    line.contains("Function not found") || is_unknown(line)
}

fn is_unknown(line: &str) -> bool {
    line.contains("unknown command") && line.to_ascii_uppercase().contains("FCALL")
}

/// What to do about it.
pub(super) fn absent(library: &Library, line: &str) -> StoreError {
    let message = if is_unknown(line) {
        "the server has no functions, which need Redis 7 or later, or Valkey: use it without them"
            .to_owned()
    } else {
        format!(
            "the server does not have the functions of this version of leaselock ({}): an administrator loads them with \
             `leaselock functions load`",
            library.name
        )
    };
    StoreError::refused(ErrorKind::Unsupported, message)
}

/// What loading the library came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedFunctions {
    /// The name of the library of this version.
    pub name: String,
    /// It was there before; nothing was changed.
    pub was_there: bool,
    /// The libraries of other versions. When no client of theirs is left, `FUNCTION DELETE` takes them away.
    pub others: Vec<String>,
}

impl RedisStore {
    /// Loads the library, unless it is there.
    pub(crate) async fn load_functions(
        &self,
        within: std::time::Duration,
    ) -> Result<LoadedFunctions, StoreError> {
        #[cfg(feature = "cluster")]
        if let Link::Cluster(_) = &self.0 {
            let message = "the nodes of a cluster get functions one by one: name each primary by its own redis:// URL";
            return Err(StoreError::refused(ErrorKind::Unsupported, message));
        }
        let (library, until) = (functions::library(), CLOCK.now().plus(within));
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg(&library.source);
        let was_there = match self.0.ask(&load, None, until).await? {
            Value::ServerError(reply) => {
                let line = fault::line(&reply);
                if line.contains("unknown command") {
                    let message =
                        "the server has no functions: they need Redis 7 or later, or Valkey";
                    return Err(StoreError::refused(ErrorKind::Unsupported, message));
                }
                if !line.contains("already exists") {
                    return Err(self.0.explain(&line));
                }
                true
            }
            _ => false,
        };
        let mut list = redis::cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg("leaselock_*");
        let others = match self.0.ask(&list, None, until).await? {
            Value::ServerError(_) => Vec::new(), // loading is a right of its own
            listed => others(&listed, &library.name),
        };
        Ok(LoadedFunctions {
            name: library.name.clone(),
            was_there,
            others,
        })
    }
}

/// The names of libraries behind `library_name`, without this one.
fn others(listed: &Value, ours: &str) -> Vec<String> {
    let Value::Array(libraries) = listed else {
        return Vec::new();
    };
    let name = |library: &Value| match library {
        Value::Array(fields) => fields.get(1).and_then(answer::text),
        Value::Map(fields) => {
            let is_name = |key: &Value| answer::text(key).is_some_and(|key| key == "library_name");
            let field = fields.iter().find(|(key, _)| is_name(key));
            field.and_then(|(_, value)| answer::text(value))
        }
        _ => None,
    };
    libraries
        .iter()
        .filter_map(name)
        .filter(|name| name != ours)
        .collect()
}
