//! Requests to Sentinels for the primary's address, and to a server for its role.

#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::time::timeout;

use super::locator::{Address, Located, PrimaryLocator, SentinelAnswer};
use crate::base::error::{ErrorKind, Result, StoreError, refusal};
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::{answer, error_map};
use crate::store::url::{Place, RedisUrl, address};

/// How long one Sentinel may take; then the next one is asked.
pub(crate) const EACH_WITHIN: Duration = Duration::from_millis(500);

/// The failures of Sentinels that do not name a primary.
#[derive(Default)]
struct Denials {
    /// How many do not know the name.
    unknown: usize,
    /// Reports of an older configuration than was seen before.
    stale: Vec<SentinelAnswer>,
    failure: Option<StoreError>,
}

impl Endpoint {
    /// Returns the primary's address, from the first Sentinel with a configuration not older than ours.
    pub(crate) async fn locate(&self) -> Result<Located> {
        let unwatched = || refusal!(Internal: "no Sentinel is asked");
        let watch = self.watch().ok_or_else(unwatched)?;
        let known = watch.in_turn();
        let mut denials = Denials::default();
        for place in &known {
            match self.ask(watch, place).await {
                Ok(Some(seen)) => {
                    if watch.told(&seen) {
                        watch.answered(place, &seen.others);
                        return watch.located().ok_or_else(|| self.silent());
                    }
                    denials.stale.push(seen);
                }
                Ok(None) => denials.unknown += 1,
                Err(error) => denials.fails(error),
            }
        }
        denials.judge(self, watch, known.len())
    }

    /// Asks a Sentinel over a dedicated connection; `None` when it does not know the service.
    pub(crate) async fn ask(
        &self,
        watch: &PrimaryLocator,
        place: &Address,
    ) -> Result<Option<SentinelAnswer>> {
        let node = self.node(watch, place);
        read(
            &node,
            replies_of(&node, &watch.sentinels.service, []).await?,
        )
    }

    pub(crate) fn node(&self, watch: &PrimaryLocator, place: &Address) -> Endpoint {
        let sentinels = &watch.sentinels;
        let (host, port, tls) = (place.0.clone(), place.1, sentinels.tls);
        self.beside(RedisUrl {
            user: sentinels.user.clone(),
            password: sentinels.password.clone(),
            #[cfg(feature = "tls")]
            tls: Arc::clone(&self.url().tls),
            ..RedisUrl::at(Place::Tcp { host, port, tls })
        })
    }

    /// Checks that the named server itself reports that it is the primary.
    ///
    /// A user who may not ask finds out with the first write.
    pub(crate) async fn is_primary(
        &self,
        watch: &PrimaryLocator,
        connection: &mut MultiplexedConnection,
    ) -> Result<()> {
        let role = match connection.send_packed_command(&redis::cmd("ROLE")).await {
            Ok(Value::ServerError(reply)) => {
                let line = error_map::line(&reply);
                return if line.contains("NOPERM") {
                    Ok(())
                } else {
                    Err(error_map::surely_not(self.explain(&line)))
                };
            }
            Ok(Value::Array(parts)) => parts.first().and_then(answer::text),
            Ok(_) => None,
            Err(error) => return Err(self.connecting(error)),
        };
        let what = match role.as_deref() {
            Some("master") => return Ok(()),
            Some("slave") => "a replica",
            Some("sentinel") => "a Sentinel",
            _ => "no primary",
        };
        let place = watch
            .primary()
            .map_or_else(String::new, |(host, port)| address(&host, port));
        let message = format!(
            "{self}: the Sentinels name {place}, which says that it is {what}: a switch may be under way"
        );
        Err(StoreError::refused(ErrorKind::ReadOnly, message))
    }
}

impl Denials {
    /// Records an error; one that needs an operator precedes a transient one.
    fn fails(&mut self, error: StoreError) {
        if self.failure.as_ref().is_none_or(StoreError::is_transient) {
            self.failure = Some(error);
        }
    }

    fn judge(self, endpoint: &Endpoint, watch: &PrimaryLocator, known: usize) -> Result<Located> {
        let stale = &self.stale;
        if self.unknown * 2 > known {
            let service = &watch.sentinels.service;
            let message = format!(
                "{endpoint}: the Sentinels do not know `{service}`: name what stands behind `sentinel monitor` in \
                 their configuration"
            );
            return Err(StoreError::refused(ErrorKind::UnknownService, message));
        }
        // Most of them were set up anew, so their count started anew.
        if stale.len() * 2 > known
            && let Some(seen) = stale.iter().max_by_key(|seen| seen.epoch)
        {
            watch.believe(seen);
            return watch.located().ok_or_else(|| endpoint.silent());
        }
        Err(self
            .failure
            .filter(|error| stale.is_empty() || !error.is_transient())
            .unwrap_or_else(|| {
                let message = format!(
                    "{endpoint}: no Sentinel answers that knows of the latest switch of primaries"
                );
                StoreError::refused(ErrorKind::Unreachable, message)
            }))
    }
}

/// Asks over a connection to a Sentinel; `None` when it does not know the service.
pub(crate) async fn look(
    node: &Endpoint,
    watch: &PrimaryLocator,
    connection: &mut MultiplexedConnection,
) -> Result<Option<SentinelAnswer>> {
    let asked = replies(node, &watch.sentinels.service, [], connection).await?;
    read(node, asked)
}

/// Asks a Sentinel over a dedicated connection, within its time.
pub(crate) async fn replies_of<const MORE: usize, const ALL: usize>(
    node: &Endpoint,
    service: &str,
    more: [&str; MORE],
) -> Result<Option<[Value; ALL]>> {
    let asked = async {
        let raw = node.for_requests().await;
        let mut raw = raw.map_err(|error| of_a_sentinel(node, error))?;
        replies(node, service, more, &mut raw.connection).await
    };
    match timeout(EACH_WITHIN, asked).await {
        Ok(outcome) => outcome,
        Err(_) => Err(of_a_sentinel(node, node.silent())),
    }
}

/// Returns what a Sentinel says of the service: the primary, the service itself, the other Sentinels, and `more`.
///
/// `None` when it does not know the service.
async fn replies<const MORE: usize, const ALL: usize>(
    node: &Endpoint,
    service: &str,
    more: [&str; MORE],
    connection: &mut MultiplexedConnection,
) -> Result<Option<[Value; ALL]>> {
    let mut commands = Pipeline::with_capacity(ALL);
    // The first is right during a switch; the second has the number of the configuration.
    for verb in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "SENTINELS"] {
        commands.cmd("SENTINEL").arg(verb).arg(service);
    }
    for verb in more {
        commands.cmd("SENTINEL").arg(verb);
    }
    let answers = connection
        .send_packed_commands(&commands, 0, commands.len())
        .await;
    let answers = answers.map_err(|error| of_a_sentinel(node, node.connecting(error)))?;
    let replies = <[Value; ALL]>::try_from(answers).map_err(|_| not_understood(node))?;
    match replies.first() {
        Some(Value::ServerError(reply)) if error_map::line(reply).contains("unknown command") => {
            let message = format!(
                "what listens at {node} is no Sentinel: name the Sentinels in the URL, which have a port of their own \
                 (26379 as a rule)"
            );
            Err(StoreError::refused(ErrorKind::Unsupported, message))
        }
        Some(Value::ServerError(reply)) => Err(of_a_sentinel(node, node.refusal(reply))),
        Some(Value::Nil) => Ok(None),
        _ => Ok(Some(replies)),
    }
}

fn read(node: &Endpoint, asked: Option<[Value; 3]>) -> Result<Option<SentinelAnswer>> {
    let Some([named, about, others]) = asked else {
        return Ok(None);
    };
    let seen = seen(&named, &about, &others);
    seen.map(Some).ok_or_else(|| not_understood(node))
}

fn seen(named: &Value, about: &Value, others: &Value) -> Option<SentinelAnswer> {
    let (host, port) = match &answer::texts(named)[..] {
        [host, port] => (host.clone(), port.clone()),
        _ => return None,
    };
    Some(SentinelAnswer {
        primary: place(host, &port)?,
        epoch: answer::field(about, "config-epoch")?.parse().ok()?,
        others: places_in(others),
    })
}

pub(crate) fn places_in(others: &Value) -> Vec<Address> {
    let others = answer::items(others).unwrap_or_default();
    let place = |other| place(answer::field(other, "ip")?, &answer::field(other, "port")?);
    others.iter().filter_map(place).collect()
}

fn place(host: String, port: &str) -> Option<Address> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    let fine = !host.is_empty() && host.len() <= 253 && host.chars().all(plain);
    Some((host, port.parse().ok()?)).filter(|(_, port)| fine && *port > 0)
}

/// Converts a Sentinel's error, which must not be taken for the server's.
pub(crate) fn of_a_sentinel(node: &Endpoint, error: StoreError) -> StoreError {
    let message = match error.kind() {
        ErrorKind::Auth => format!(
            "the Sentinel at {node} wants another login: its own goes into the URL as \
             ?sentinel_user=…&sentinel_pass=…, or ?sentinel_pass=… alone"
        ),
        ErrorKind::Unreachable | ErrorKind::NoReply => format!("Sentinel: {error}"),
        _ => format!("the Sentinel at {node}: {error}"),
    };
    StoreError::refused(error.kind(), message)
}

pub(crate) fn not_understood(node: &Endpoint) -> StoreError {
    refusal!(Malformed: "unexpected reply from the Sentinel at {node}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn list(texts: &[&str]) -> Value {
        Value::Array(texts.iter().map(|word| text(word)).collect())
    }

    #[test]
    fn answers_of_both_protocols_name_the_primary_its_number_and_the_others() {
        let named = list(&["10.0.0.1", "6379"]);
        let flat = list(&["name", "locks", "config-epoch", "7"]);
        let pairs = Value::Map(vec![(text("config-epoch"), text("7"))]);
        let others = Value::Array(vec![
            list(&["ip", "10.0.0.2", "port", "26379"]),
            Value::Map(vec![(text("port"), text("1")), (text("ip"), text("::1"))]),
            list(&["ip", "bad host\r\n", "port", "1"]),
            list(&["ip", "10.0.0.3", "port", "0"]),
        ]);
        let expected = SentinelAnswer {
            primary: ("10.0.0.1".to_owned(), 6379),
            epoch: 7,
            others: vec![("10.0.0.2".to_owned(), 26379), ("::1".to_owned(), 1)],
        };
        for about in [flat, pairs] {
            assert_eq!(seen(&named, &about, &others), Some(expected.clone()));
        }
        for odd in [Value::Nil, list(&["10.0.0.1"]), list(&["10.0.0.1", "x"])] {
            assert_eq!(seen(&odd, &list(&["config-epoch", "7"]), &others), None);
        }
        assert_eq!(seen(&named, &Value::Nil, &others), None);
    }
}
