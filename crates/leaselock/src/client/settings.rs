//! What a client is built with, whatever its store.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Name;

use super::named::{ClassOf, ClientState};
use super::options::{DEFAULT_DRIFT_PPM, Options};
use crate::base::process::Process;
use crate::base::{ClientId, Clock, Drift, InvalidInput, debug_as};
use crate::engine::services::{Engine, core};
use crate::engine::values::Strict;
use crate::quorum::executor::Executor;
use crate::script::Library;
use crate::store::url::RedisUrl;

/// The largest drift that can be set: a clock with more leaves little of a lease, and needs repair.
const DRIFT_PPM_MAX: u32 = 500_000;
const PROCESS_NAME_MAX: usize = 100;

#[derive(Default)]
pub(crate) struct Settings {
    pub(super) prefix: String,
    pub(super) defaults: Options,
    pub(super) drift_ppm: Option<u32>,
    pub(super) request_timeout: Option<Duration>,
    pub(super) process_name: Option<String>,
    pub(super) process_via: Option<String>,
    /// A clock that a test moves; `None`: the machine's.
    pub(super) clock: Option<Clock>,
    pub(super) class_of: Option<ClassOf>,
    pub(crate) functions: Option<&'static Library>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Arc<crate::store::tls_options::TlsOptions>>,
}

impl Settings {
    pub(super) fn drift(&self) -> Drift {
        Drift {
            ppm: self.drift_ppm.unwrap_or(DEFAULT_DRIFT_PPM),
        }
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock.clone().unwrap_or(Clock::boot())
    }

    pub(super) fn check(&self) -> Result<(), InvalidInput> {
        Name::check("prefix", &self.prefix)?;
        self.defaults.check()?;
        let named = [&self.process_name, &self.process_via]
            .into_iter()
            .flatten();
        let is_too_long = |name: &String| name.chars().count() > PROCESS_NAME_MAX;
        let wrong = if self.drift().ppm > DRIFT_PPM_MAX {
            format!(
                "drift of {} millionths is out of range: at most {DRIFT_PPM_MAX}; 10000 is the default",
                self.drift().ppm
            )
        } else if self.request_timeout.is_some_and(|time| time.is_zero()) {
            "a request timeout of zero leaves no time for an answer".to_owned()
        } else if named.clone().any(is_too_long) {
            format!("process name and what it is held by: at most {PROCESS_NAME_MAX} characters")
        } else {
            return Ok(());
        };
        Err(InvalidInput::new(wrong))
    }

    /// Tells the servers whether they are asked for functions, and what TLS connections to them trust.
    pub(super) fn tell(&self, servers: &mut [RedisUrl]) -> Result<(), InvalidInput> {
        if servers.is_empty() && self.functions.is_some() {
            return Err(functions_need_a_url());
        }
        for server in &mut *servers {
            server.functions = self.functions;
        }
        #[cfg(feature = "tls")]
        if let Some(options) = &self.tls {
            if servers.is_empty() {
                let wrong = "options for TLS are for a rediss:// URL, and this is another";
                return Err(InvalidInput::new(wrong));
            }
            return servers
                .iter_mut()
                .try_for_each(|server| server.secure(options));
        }
        Ok(())
    }

    pub(super) fn client(
        self,
        id: ClientId,
        store: Executor,
        strict: Option<Strict>,
    ) -> Arc<ClientState> {
        let engine = Engine::new(core::EngineSettings {
            drift: self.drift(),
            clock: self.clock(),
            prefix: self.prefix,
            about: Process::this(id.as_str(), self.process_name, self.process_via),
            request_timeout: self.request_timeout,
            store,
            strict,
            id,
        });
        Arc::new(ClientState {
            engine: Arc::new(engine),
            groups: Arc::default(),
            defaults: self.defaults,
            class_of: self.class_of,
        })
    }
}

pub(super) fn functions_need_a_url() -> InvalidInput {
    let wrong = "functions are called on servers that are named by a redis:// URL, and this is another store";
    InvalidInput::new(wrong)
}

pub(super) fn new_id() -> Result<ClientId, InvalidInput> {
    let no_random =
        |error| InvalidInput::new(format!("the system gives no random numbers: {error}"));
    ClientId::random().map_err(no_random)
}

debug_as!(Settings, it => { prefix: it.prefix, defaults: it.defaults, drift_ppm: it.drift().ppm });
