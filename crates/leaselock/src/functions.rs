//! The list of all scripts, and their use as a library of functions.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::Duration;

use crate::base::StoreError;
use crate::client::builder::ClientBuilder;
use crate::client::{Client, views};
use crate::engine::services::ids;
use crate::engine::values::{ballot, calls_optional, gate, log};
use crate::engine::ways::deadlock::calls as deadlock;
use crate::interop::protocol;
use crate::script::{Library, Script};
use crate::store::LoadedFunctions;
use crate::{KINDS, SCRIPTS};

/// Lists every script that a server may run.
fn scripts() -> impl Iterator<Item = &'static Script> {
    let kinds = KINDS.iter().flat_map(|kind| kind.scripts());
    let ours = [
        views::SCRIPTS,
        gate::SCRIPTS,
        ids::SCRIPTS,
        calls_optional::SCRIPTS,
        log::SCRIPTS,
        deadlock::SCRIPTS,
        ballot::SCRIPTS,
        protocol::SCRIPTS,
    ];
    let ours = ours.into_iter().chain(SCRIPTS.iter().copied());
    let all = kinds.chain(ours.flatten().copied());
    let mut names = HashSet::new(); // kinds may have scripts in common
    all.filter(move |script| names.insert(script.name))
}

/// Returns the library of this version.
fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::of(&scripts().collect::<Vec<_>>()))
}

/// A server compiles all scripts before it answers.
const LOAD_WITHIN: Duration = Duration::from_secs(10);

impl Client {
    /// Loads all scripts as functions onto the server, every primary of a cluster, or every node of a quorum. Returns what
    /// is on each.
    ///
    /// For clients that were built with [`functions_only`](crate::ClientBuilder::functions_only). Replicas get them from their
    /// primary. Each version of leaselock has a library of its own: it leaves others as they are, and does nothing when
    /// its own is there. The user needs the right to `FUNCTION LOAD`.
    ///
    /// # Cancel safety
    /// When dropped, it may have happened, on some of several servers only; repeating it does no harm.
    ///
    /// # Errors
    /// [`StoreError`] of the kind `Unsupported` when the store has no functions (Redis before 7, a folder), `Forbidden`
    /// when the user may not load them. Of several servers it names each that failed; the others have them.
    ///
    /// # Examples
    /// ```no_run
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = leaselock::Client::open("redis://127.0.0.1/")?;
    /// for server in client.load_functions().await? {
    ///     println!("{server:?}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn load_functions(&self) -> Result<Vec<LoadedFunctions>, StoreError> {
        let store = &self.state.engine.store;
        store.load_functions(library(), LOAD_WITHIN).await
    }

    /// Returns what [`load_functions`](Client::load_functions) loads, to load it by other means.
    ///
    /// `FUNCTION LOAD` takes it as it is.
    pub fn functions_source() -> &'static str {
        &library().source
    }
}

impl ClientBuilder {
    /// Calls scripts only as functions that an administrator has loaded.
    ///
    /// See [`Client::load_functions`]. The user then needs no right to send scripts. Needs
    /// Redis 7 or later, or Valkey, at a URL. Where the functions of this version are missing, each operation says so,
    /// and names the server. A server of a majority that has none of them has no vote.
    pub fn functions_only(mut self) -> Self {
        self.settings.functions = Some(library());
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::script::library::{grants, name_in};

    /// A new script must be named in the `SCRIPTS` of its primitive.
    #[test]
    fn every_script_is_in_the_library() {
        let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
        let mut files = BTreeSet::new();
        for noun in std::fs::read_dir(lua).unwrap().flatten() {
            if !noun.path().is_dir() {
                continue; // fragments
            }
            for file in std::fs::read_dir(noun.path()).unwrap().flatten() {
                let text = std::fs::read_to_string(file.path()).unwrap();
                if !text.contains("\n-- Returns ") {
                    continue; // a fragment of this primitive
                }
                let verb = file.file_name().into_string().unwrap();
                let verb = verb.trim_end_matches(".lua");
                let name = format!("{}/{verb}", noun.file_name().to_str().unwrap());
                if text.contains("\n--#strict\n") {
                    files.insert(format!("{name}.strict"));
                }
                files.insert(name);
            }
        }
        let named: BTreeSet<String> = scripts().map(|script| script.name.to_owned()).collect();
        assert_eq!(named, files);
        assert_eq!(scripts().count(), named.len(), "each once");
        let whole = |script: &Script| !script.source().contains(crate::script::call::UNKNOWN);
        assert!(scripts().all(whole), "a fragment that does not exist");
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
    fn strict_mode_changes_nothing_of_what_is_refused_when_memory_is_full() {
        let strict = scripts().filter_map(|script| script.name.strip_suffix(".strict"));
        let changed = |name: &&str| grants(&format!("{name}.strict")) != grants(name);
        assert_eq!(strict.filter(changed).collect::<Vec<_>>(), [""; 0]);
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
