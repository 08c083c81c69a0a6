//! The flag's handle.

use std::time::Duration;

use super::calls::{InspectFlag, Raise};
use crate::base::error::InspectError;
use crate::client::Client;
use crate::engine::services::broadcast;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::shared_state::noun::Noun;
use crate::engine::shared_state::watch::Watch;

const NOUN: &str = "flag";
const KEPT: Duration = Duration::from_secs(60);

/// A latch of one.
#[derive(Debug, Clone)]
pub struct Flag {
    noun: Noun,
}

impl Client {
    /// The flag of this name.
    pub fn flag(&self, name: impl Into<String>) -> Flag {
        Flag {
            noun: Noun::new(self.engine(), name),
        }
    }
}

impl Flag {
    /// Raises it for a minute.
    ///
    /// # Errors
    /// [`InspectError`]: it may be up.
    pub async fn raise(&self) -> Result<(), InspectError> {
        let (engine, keys) = (&self.noun.engine, &self.noun.keys()?);
        let channel = &broadcast::channel_of(engine, NOUN, &keys.lock);
        let kept = KEPT;
        let raise = Raise {
            keys,
            kept,
            channel,
        };
        Ok(engine.ask(&raise, OPERATOR_WITHIN).await?)
    }

    /// Waits until it is up, for at most `limit`; false when it is not.
    ///
    /// # Errors
    /// [`InspectError`]: it is not known whether it is up.
    pub async fn wait_within(&self, limit: Duration) -> Result<bool, InspectError> {
        let (engine, keys) = (&self.noun.engine, &self.noun.keys()?);
        let until = engine.clock.now().plus(limit);
        let mut watch = Watch::new(engine, NOUN, &keys.lock, Some(until));
        loop {
            watch.listens(OPERATOR_WITHIN).await;
            match engine.ask(&InspectFlag { keys }, OPERATOR_WITHIN).await {
                Ok(true) => return Ok(true),
                Ok(false) => watch.has_reply(),
                Err(source) => {
                    if let Some(source) = watch.gives_up(source) {
                        return Err(source.into());
                    }
                }
            }
            if watch.is_over() {
                return Ok(false);
            }
            watch.pause(Duration::MAX).await;
        }
    }
}
