//! A connection for one purpose.

use std::time::Duration;

use redis::Cmd;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::answer::{malformed, understood};
use super::calls;
use super::driver::{OpenedConnection, RunningDriver};
use super::endpoint::Endpoint;
use crate::base::{Result, debug_as, refusal};
use crate::script::{Answer, Malformed, Operation, Value};

/// A connection for one purpose. Closes when it is dropped.
pub(crate) struct DedicatedConnection {
    raw: OpenedConnection<RunningDriver>,
    endpoint: Endpoint,
}

impl DedicatedConnection {
    /// Opens a connection without other users, driven by the runtime of `handle`.
    pub(super) async fn open(
        endpoint: Endpoint,
        handle: &Handle,
        within: Duration,
    ) -> Result<Self> {
        let dialled = endpoint.clone();
        let opening = handle.spawn(async move { dialled.for_requests().await });
        match timeout(within, opening).await {
            Ok(Ok(raw)) => Ok(DedicatedConnection {
                raw: raw?,
                endpoint,
            }),
            Ok(Err(_)) => Err(refusal!(Internal: "the client's thread is gone")),
            Err(_) => Err(endpoint.silent()),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.raw.driver.is_over()
    }

    /// Runs one command. After a failure the connection is useless.
    pub(crate) async fn ask(&mut self, words: &[&str], within: Duration) -> Result<Value> {
        let answer = self.send(Cmd::new().arg(words), within).await?;
        understood(answer, |line| self.endpoint.explain(line))
    }

    pub(crate) async fn run<O: Operation>(
        &mut self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply> {
        let (call, library) = (operation.call(), self.endpoint.url().functions);
        let short = calls::short(library, &call);
        let mut answer = self.send(&short, within).await?;
        if calls::is_noscript(&answer) {
            let whole = calls::whole(library, &call);
            answer = self.send(&whole, within).await?;
        }
        let answer = understood(answer, |line| match library {
            Some(library) if calls::is_absent(line) => {
                calls::absent(library, line, &self.endpoint.place())
            }
            _ => self.endpoint.explain(line),
        })?;
        O::read(
            call.script,
            &Answer::from_value(answer).map_err(|Malformed| malformed())?,
        )
    }

    async fn send(&mut self, command: &Cmd, within: Duration) -> Result<redis::Value> {
        match timeout(within, self.raw.connection.send_packed_command(command)).await {
            Ok(Ok(answer)) => {
                self.raw.control.answered();
                Ok(answer)
            }
            Ok(Err(error)) => Err(self.endpoint.broke(error)),
            Err(_) => {
                self.raw.control.abort();
                self.raw.driver.stop();
                Err(self.endpoint.no_answer())
            }
        }
    }
}

debug_as!(DedicatedConnection, it => "DedicatedConnection({})", it.endpoint);
