//! Requests to every Sentinel for the operator's report.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ask::{EACH_WITHIN, field, not_understood, of_a_sentinel, place_in};
use super::locator::{Address, LEARNED_MOST, PrimaryLocator};
use crate::base::error::StoreError;
use crate::store::redis::answer;
use crate::store::redis::doctor::sentinels::{About, Told, View};
use crate::store::redis::endpoint::Endpoint;
use crate::store::url::address;

/// Returns what the Sentinels of the server report, if there are any.
pub(in crate::store::redis) async fn view(endpoint: &Endpoint) -> Option<View> {
    let watch = endpoint.watch()?;
    Some(View {
        service: watch.sentinels.service.clone(),
        told: told(endpoint, watch).await,
    })
}

/// Collects the reports of the known Sentinels, and of those that they name.
async fn told(endpoint: &Endpoint, watch: &PrimaryLocator) -> Vec<Told> {
    let mut places = watch.in_turn();
    let mut asking = JoinSet::new();
    let mut told = Vec::new();
    let mut asked = 0;
    loop {
        for (at, place) in places.iter().enumerate().skip(asked) {
            let (node, place) = (endpoint.node(watch, place), place.clone());
            let service = watch.sentinels.service.clone();
            asking.spawn(async move { (at, about(&node, &service, &place).await) });
        }
        asked = places.len();
        let Some(next) = asking.join_next().await else {
            break;
        };
        let Ok((at, outcome)) = next else {
            continue; // the runtime is shutting down
        };
        if let Ok(Some((_, others))) = &outcome {
            for other in others {
                if places.len() < LEARNED_MOST && !places.contains(other) {
                    places.push(other.clone());
                }
            }
        }
        let (host, port) = &places[at];
        told.push((
            at,
            Told {
                place: address(host, *port),
                said: outcome.map(|found| found.map(|(about, _)| about)),
            },
        ));
    }
    told.sort_by_key(|(at, _)| *at);
    told.into_iter().map(|(_, one)| one).collect()
}

type Found = Option<(About, Vec<Address>)>;

/// Asks one of them; `None` when it does not know the service.
async fn about(node: &Endpoint, service: &str, place: &Address) -> Result<Found, StoreError> {
    let asked = async {
        let raw = node.for_requests().await;
        let mut raw = raw.map_err(|error| of_a_sentinel(node, error))?;
        look(node, service, place, &mut raw.connection).await
    };
    match timeout(EACH_WITHIN, asked).await {
        Ok(outcome) => outcome,
        Err(_) => Err(of_a_sentinel(node, node.silent())),
    }
}

async fn look(
    node: &Endpoint,
    service: &str,
    place: &Address,
    connection: &mut MultiplexedConnection,
) -> Result<Found, StoreError> {
    let mut commands = Pipeline::with_capacity(4);
    for verb in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "SENTINELS"] {
        commands.cmd("SENTINEL").arg(verb).arg(service);
    }
    // Without the right to this, one Sentinel with two addresses counts as two.
    commands.cmd("SENTINEL").arg("MYID");
    let answers = connection
        .send_packed_commands(&commands, 0, commands.len())
        .await;
    let answers = answers.map_err(|error| of_a_sentinel(node, node.connecting(error)))?;
    let [named, about, others, id] = &answers[..] else {
        return Err(not_understood(node));
    };
    if let Value::ServerError(reply) = named {
        return Err(of_a_sentinel(node, node.refusal(reply)));
    }
    if matches!(named, Value::Nil) {
        return Ok(None);
    }
    let read = read(named, about, id, place);
    let about = read.ok_or_else(|| not_understood(node))?;
    let others = match others {
        Value::Array(others) => others.iter().filter_map(place_in).collect(),
        _ => Vec::new(),
    };
    Ok(Some((about, others)))
}

fn read(named: &Value, about: &Value, id: &Value, place: &Address) -> Option<About> {
    let primary = match &answer::texts(named)[..] {
        [host, port] => address(host, port.parse().ok()?),
        _ => return None,
    };
    let number = |name: &str| field(about, name)?.parse::<u64>().ok();
    let milliseconds = |name: &str| number(name).map(Duration::from_millis);
    Some(About {
        id: answer::text(id).unwrap_or_else(|| address(&place.0, place.1)),
        primary,
        sentinels: number("num-other-sentinels")?.checked_add(1)?,
        quorum: number("quorum")?,
        replicas: number("num-slaves")?,
        down_after: milliseconds("down-after-milliseconds")?,
        failover_timeout: milliseconds("failover-timeout")?,
    })
}
