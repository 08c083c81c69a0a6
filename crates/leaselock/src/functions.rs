//! All scripts as one library of functions, for servers on which nobody may send scripts of their own.
//!
//! The text is joined from the same files. Its digest is part of every name, so the functions of two versions lie on a
//! server side by side, and a client never calls one that is not its own.

use std::collections::HashMap;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::engine::gate;
use crate::interop::protocol;
use crate::script::Script;
use crate::{client, mutex};

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
}

/// Every script that a server may be asked to run.
pub(crate) fn scripts() -> impl Iterator<Item = &'static Script> {
    let ours = [mutex::SCRIPTS, gate::SCRIPTS, client::functions::SCRIPTS];
    let all = ours.into_iter().chain(protocol::SCRIPTS);
    all.flatten().map(|script| script())
}

pub(crate) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // As they are called without the digest, which is that of this.
        let bare = joined("leaselock");
        let digest = Sha256::digest(bare.as_bytes());
        let digest: String = digest
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("leaselock_{digest}");
        let names = scripts().map(|script| (script.name, name_in(&name, script.name)));
        Library {
            functions: names.collect(),
            source: joined(&name),
            name,
        }
    })
}

/// What a script is called within the library of this name: `leaselock_1a2b3c4d_mutex_acquire`.
pub(crate) fn name_in(library: &str, script: &str) -> String {
    format!("{library}_{}", script.replace(['/', '.'], "_"))
}

fn joined(library: &str) -> String {
    let functions: String = scripts().map(|script| function(library, script)).collect();
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
        script.source
    )
}

/// What gives somebody something new is refused when memory is full; what gives back, extends or cleans up is not.
fn grants(script: &str) -> bool {
    let verb = script.rsplit('/').next().unwrap_or(script);
    let others = ["take", "announce", "note", "detach", "init", "accept"];
    verb.starts_with("acquire") || verb.starts_with("vote") || others.contains(&verb)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// A new script must be named in the `SCRIPTS` of its noun.
    #[test]
    fn every_script_is_in_the_library() {
        let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
        let mut files = BTreeSet::new();
        for noun in std::fs::read_dir(lua).unwrap().flatten() {
            if !noun.path().is_dir() {
                continue; // fragments
            }
            for file in std::fs::read_dir(noun.path()).unwrap().flatten() {
                let verb = file.file_name().into_string().unwrap();
                let verb = verb.trim_end_matches(".lua");
                if !verb.ends_with(".rest") {
                    files.insert(format!("{}/{verb}", noun.file_name().to_str().unwrap()));
                }
            }
        }
        let named: BTreeSet<String> = scripts().map(|script| script.name.to_owned()).collect();
        assert_eq!(named, files);
        assert_eq!(scripts().count(), named.len(), "each once");
    }

    #[test]
    fn names_are_those_that_servers_take_and_change_with_the_text() {
        let library = library();
        assert_eq!(library.name.len(), "leaselock_".len() + 8);
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for script in scripts() {
            let name = name_in(&library.name, script.name);
            assert!(name.chars().all(plain), "{name}");
            assert!(
                library.source.contains(&format!("function_name='{name}'")),
                "{name}"
            );
        }
        assert!(
            library
                .source
                .starts_with(&format!("#!lua name={}\n", library.name))
        );
    }

    #[test]
    fn only_what_grants_is_refused_when_memory_is_full() {
        let allowed = scripts().filter(|script| !script.reads_only && !grants(script.name));
        let allowed: Vec<&str> = allowed.map(|script| script.name).collect();
        for name in [
            "release",
            "release_many",
            "extend",
            "extend_many",
            "cancel",
            "break",
        ] {
            assert!(
                allowed.contains(&format!("mutex/{name}").as_str()),
                "{name}"
            );
        }
        assert!(allowed.iter().all(|name| {
            !["acquire", "take", "vote"]
                .iter()
                .any(|grants| name.contains(grants))
        }));
    }
}
