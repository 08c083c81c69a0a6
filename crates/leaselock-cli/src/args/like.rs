//! The argument that names another lock library.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use leaselock::Mutex;
use leaselock::interop::{Preset, Protocol};

use super::globals::Globals;
use crate::exit::Exit;
use crate::failure::Failure;

/// The library whose locks are shared.
#[derive(Debug, Args)]
pub(crate) struct LikeArgs {
    /// Share the lock that another library has under this name
    ///
    /// Uses the key that LIBRARY has for this name, so that leaselock and LIBRARY exclude each other.
    /// Only on a Redis or Valkey server. Output shows the key.
    #[arg(long = "like", value_name = "LIBRARY", value_parser = library(), hide_short_help = true)]
    pub(crate) preset: Option<Preset>,
}

fn library() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::all().iter().map(|preset| preset.library()))
        .try_map(|name| name.parse::<Preset>())
}

impl LikeArgs {
    /// The mutex of that library, if there is one.
    pub(crate) fn mutex(&self, mutex: Mutex) -> Mutex {
        match self.preset {
            Some(preset) => mutex.preset(preset),
            None => mutex,
        }
    }

    /// The library, when it does not take its locks as leaselock does.
    pub(crate) fn other_protocol(&self) -> Option<Preset> {
        self.preset
            .filter(|preset| preset.protocol() != Protocol::Native)
    }

    /// The name as leaselock knows it. Without a library it is not checked: the first request does that.
    pub(crate) fn name(&self, name: &str, globals: &Globals) -> Result<String, Failure> {
        let Some(preset) = self.preset else {
            return Ok(name.to_owned());
        };
        if globals.url().starts_with("file:") {
            // A user who forgot the server would share the lock with no program and not notice.
            let text = format!(
                "--like: {preset} keeps its locks on a server, and this is a folder; \
                 give --url redis://…, or leave the flag out"
            );
            return Err(Failure::new(text, Exit::USAGE));
        }
        Ok(preset.name_for(name)?.as_str().to_owned())
    }

    /// The same for all names that one lease is to have.
    pub(crate) fn names(
        &self,
        first: &str,
        also: &[String],
        globals: &Globals,
    ) -> Result<Vec<String>, Failure> {
        let names = std::iter::once(first).chain(also.iter().map(String::as_str));
        names.map(|name| self.name(name, globals)).collect()
    }
}
