//! Scripts as functions of the server, which an administrator has loaded.

use std::time::Duration;

use redis::Value;

use crate::base::{CLOCK, ErrorKind, Result, StoreError};
use crate::script::library::Library;
use crate::store::redis::link::RedisStore;
use crate::store::redis::{answer, error_map};
use crate::store::{LoadedFunctions, Store};

impl RedisStore {
    /// Loads the library onto the one server, unless it is there.
    pub(super) async fn load_here(
        &self,
        library: &Library,
        within: Duration,
    ) -> Result<Vec<LoadedFunctions>> {
        let until = CLOCK.now().plus(within);
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg(&library.source);
        let was_there = match self.ask(&load, None, until).await? {
            Value::ServerError(reply) => {
                let line = error_map::line(&reply);
                if line.contains("unknown command") {
                    let message =
                        "the server has no functions: they need Redis 7 or later, or Valkey";
                    return Err(StoreError::refused(ErrorKind::Unsupported, message));
                }
                if !line.contains("already exists") {
                    return Err(self.explain(&line));
                }
                true
            }
            _ => false,
        };
        let mut list = redis::cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg("leaselock_*");
        let others = match self.ask(&list, None, until).await? {
            Value::ServerError(_) => Vec::new(), // loading is a separate right
            listed => others(&listed, &library.name),
        };
        Ok(vec![LoadedFunctions {
            node: self.describe(),
            name: library.name.clone(),
            was_there,
            others,
        }])
    }
}

/// Returns the names of libraries behind `library_name`, without this one.
fn others(listed: &Value, ours: &str) -> Vec<String> {
    let libraries = answer::items(listed).unwrap_or_default();
    let name = |library: &Value| answer::field(library, "library_name");
    libraries
        .iter()
        .filter_map(name)
        .filter(|name| name != ours)
        .collect()
}
