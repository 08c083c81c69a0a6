//! Scripts as one library of functions, for servers on which users may send no scripts of their own.
//!
//! The text is joined from the same files. Its digest is part of every name, so the functions of two versions lie on a
//! server side by side, and a client never calls one that is not its own.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::source::Script;

/// The library of this version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// What the library is called on a server.
    pub(crate) name: String,
    /// What `FUNCTION LOAD` gets.
    pub(crate) source: String,
    /// What each script is called as a function.
    functions: HashMap<&'static str, String>,
}

impl Library {
    /// What a script is called as a function.
    pub(crate) fn function(&self, script: &Script) -> &str {
        // One that is not in the library is called by its own name, which no server knows.
        self.functions
            .get(script.name)
            .map_or(script.name, String::as_str)
    }

    /// All of these scripts as one library, under a name that changes with their text.
    pub(crate) fn of(scripts: &[&'static Script]) -> Self {
        // As they are called without the digest, which is that of this.
        let bare = joined("leaselock", scripts);
        let digest = Sha256::digest(bare.as_bytes());
        let digest: String = digest
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("leaselock_{digest}");
        let names = scripts
            .iter()
            .map(|script| (script.name, name_in(&name, script.name)));
        Library {
            functions: names.collect(),
            source: joined(&name, scripts),
            name,
        }
    }

    /// What some script is called as a function: one that is there if the others are.
    pub(crate) fn any_function(&self) -> &str {
        self.functions.values().min().map_or("", String::as_str)
    }
}

/// What a script is called within the library of this name: `leaselock_1a2b3c4d_mutex_acquire`.
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

/// A function of its own for each, with the fragments inside, so that nothing is shared between calls.
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

/// What gives somebody something new is refused when memory is full; what gives back, extends or cleans up is not.
pub(crate) fn grants(script: &str) -> bool {
    let verb = script.rsplit('/').next().unwrap_or(script);
    let others = ["take", "announce", "note", "detach", "init", "accept"];
    verb.starts_with("acquire") || verb.starts_with("vote") || others.contains(&verb)
}
