//! Scripts as one library of functions, for servers on which users may send no scripts of their own.
//!
//! The text is joined from the same files. Its digest is part of every name. So the functions of two versions coexist
//! on a server, and a client never calls those of another version.

use std::collections::HashMap;

use super::call::Script;
use crate::base::token;

/// The library of this version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// The library's name on a server.
    pub(crate) name: String,
    /// The source for `FUNCTION LOAD`.
    pub(crate) source: String,
    /// The function name of each script.
    functions: HashMap<&'static str, String>,
}

impl Library {
    pub(crate) fn function(&self, script: &Script) -> &str {
        // A script outside the library is called by its own name, which no server knows.
        self.functions
            .get(script.name)
            .map_or(script.name, String::as_str)
    }

    /// Builds a library of all these scripts, under a name that changes with their text.
    pub(crate) fn of(scripts: &[&'static Script]) -> Self {
        // The digest is that of the functions without a digest in their names.
        let bare = joined("leaselock", scripts);
        let name = format!("leaselock_{}", token::digest(bare.as_bytes()));
        let names = scripts
            .iter()
            .map(|script| (script.name, name_in(&name, script.name)));
        Library {
            functions: names.collect(),
            source: joined(&name, scripts),
            name,
        }
    }

    /// Returns the name of some function, which is there if the others are.
    pub(crate) fn any_function(&self) -> &str {
        self.functions.values().min().map_or("", String::as_str)
    }
}

/// Builds a script's function name in this library: `leaselock_1a2b3c4d_mutex_acquire`.
pub(crate) fn name_in(library: &str, script: &str) -> String {
    format!("{library}_{}", script.replace(['/', '.'], "_"))
}

fn joined(library: &str, scripts: &[&'static Script]) -> String {
    let functions: String = scripts
        .iter()
        .map(|script| function(library, script))
        .collect();
    format!("#!lua name={library}\n{functions}")
}

/// Builds the function of a script, with the fragments inside, so that calls share nothing.
fn function(library: &str, script: &Script) -> String {
    let flags = if script.reads_only {
        "'no-writes'"
    } else if grants(script.name) {
        ""
    } else {
        "'allow-oom'"
    };
    format!(
        "redis.register_function{{function_name='{}', flags={{{flags}}}, callback=function(KEYS, ARGV)\n{}end}}\n",
        name_in(library, script.name),
        script.source()
    )
}

/// True if the script grants something, which a server refuses when memory is full.
///
/// A script that releases, extends or cleans up runs even then.
pub(crate) fn grants(script: &str) -> bool {
    let verb = script.rsplit('/').next().unwrap_or(script);
    let verb = verb.split('.').next().unwrap_or(verb); // a script of strict mode ends in `.strict`
    let others = [
        "take", "announce", "note", "detach", "init", "accept", "upgrade", "change",
    ];
    verb.starts_with("acquire") || verb.starts_with("vote") || others.contains(&verb)
}
