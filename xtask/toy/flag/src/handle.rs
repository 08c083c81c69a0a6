//! The flag's handle.

use std::time::Duration;

use super::calls::{InspectFlag, Raise};
use crate::base::error::{InvalidInput, noun_error};
use crate::client::Client;
use crate::engine::shared_state::noun::Noun;

const KEPT: Duration = Duration::from_secs(60);

/// A latch of one.
#[derive(Debug, Clone)]
pub struct Flag {
    noun: Noun,
}

noun_error! {
    /// Why a call of a [`Flag`] failed.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum FlagError of name: "The flag's name." {
        /// The store did not reply, or refused.
        #[error("`{name}`: {source}")]
        Store,

        /// The name is a bad one. Nothing was sent.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),
    }
}

impl Client {
    /// The flag of this name.
    pub fn flag(&self, name: impl Into<String>) -> Flag {
        Flag {
            noun: Noun::new(self.engine(), "flag", name),
        }
    }
}

impl Flag {
    /// Raises it for a minute.
    ///
    /// # Errors
    /// [`FlagError`]: it may be up.
    pub async fn raise(&self) -> Result<(), FlagError> {
        let flag = self.noun.valid()?;
        let raise = Raise {
            keys: &flag.keys,
            kept: KEPT,
            channel: &flag.channel(),
        };
        Ok(flag.ask(&raise).await?)
    }

    /// Waits until it is up, for at most `limit`; false when it is not.
    ///
    /// # Errors
    /// [`FlagError`]: it is not known whether it is up.
    pub async fn wait_within(&self, limit: Duration) -> Result<bool, FlagError> {
        let flag = self.noun.valid()?;
        let until = Some(flag.engine.clock.now().plus(limit));
        let inspect = InspectFlag { keys: &flag.keys };
        let found = |is_up: bool, is_over: bool| Ok((is_up || is_over).then_some(is_up));
        flag.wait_for(&inspect, until, found).await
    }
}
