//! The text of one `.lua` file, joined with the fragments it uses.

use std::sync::OnceLock;

/// A script: one file under `lua/`, joined with the fragments it uses.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    /// Changes nothing, so a folder runs it without its lock and a server takes it for a function that does not write.
    pub(crate) reads_only: bool,
    /// The SHA-1 by which a Redis server knows it, computed on first use.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "only servers cache scripts")
    )]
    pub(crate) sha1: OnceLock<String>,
}

/// Joins `prelude.lua`, the named fragments and the script itself at compile time.
///
/// Making the functions of its fragments costs a script more than the plain case of an acquisition, so a script that is
/// `first` stands before all of them and answers that case; every other is served behind them, by its other half
/// `.rest.lua`.
///
/// One that is `strict` has its part for strict mode in front of it, `.strict.lua`, and is another script to a server.
macro_rules! script {
    ($name:literal strict first $(, with $fragment:literal)*) => {
        $crate::script::source::script!(@of concat!($name, ".strict"), false,
            "gate" concat!($name, ".strict") $name "prelude" $($fragment)* concat!($name, ".rest"))
    };
    ($name:literal strict $(, with $fragment:literal)*) => {
        $crate::script::source::script!(@of concat!($name, ".strict"), false,
            "prelude" $($fragment)* "gate" concat!($name, ".strict") $name)
    };
    ($name:literal first $(, with $fragment:literal)*) => {
        $crate::script::source::script!(@of $name, false, $name "prelude" $($fragment)* concat!($name, ".rest"))
    };
    ($name:literal $(, with $fragment:literal)*) => {
        $crate::script::source::script!(@of $name, false, "prelude" $($fragment)* $name)
    };
    ($name:literal $(, with $fragment:literal)*; reads_only) => {
        $crate::script::source::script!(@of $name, true, "prelude" $($fragment)* $name)
    };
    (@of $name:expr, $reads_only:literal, $($file:expr)+) => {{
        static SCRIPT: $crate::script::source::Script = $crate::script::source::Script {
            name: $name,
            source: concat!($(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/", $file, ".lua")),)+),
            reads_only: $reads_only,
            sha1: std::sync::OnceLock::new(),
        };
        &SCRIPT
    }};
}
pub(crate) use script;

/// The scripts of a noun, for whoever needs all there are.
#[cfg(feature = "redis")]
pub(crate) type Scripts = &'static [fn() -> &'static Script];
