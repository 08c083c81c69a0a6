//! Requests to every Sentinel for the operator's report.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;

use super::sentinels::{About, SentinelReply, View};
use crate::base::error::Result;
use crate::store::redis::answer;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::endpoint::sentinel::ask::{not_understood, places_in, replies_of};
use crate::store::redis::endpoint::sentinel::locator::{Address, PrimaryLocator, learn};
use crate::store::url::address;

pub(crate) async fn view(endpoint: &Endpoint) -> Option<View> {
    let watch = endpoint.watch()?;
    Some(View {
        service: watch.sentinels.service.clone(),
        told: told(endpoint, watch).await,
    })
}

/// Collects the reports of the known Sentinels, and of those that they name.
async fn told(endpoint: &Endpoint, watch: &PrimaryLocator) -> Vec<SentinelReply> {
    let mut places = watch.in_turn();
    let service = &watch.sentinels.service;
    let mut asking = FuturesUnordered::new();
    let mut told = BTreeMap::new(); // in the order in which they were named
    let mut asked = 0;
    loop {
        for (at, place) in places.iter().enumerate().skip(asked) {
            let (node, place) = (endpoint.node(watch, place), place.clone());
            asking.push(async move { (at, about(&node, service, &place).await) });
        }
        asked = places.len();
        let Some((at, outcome)) = asking.next().await else {
            break;
        };
        if let Ok(Some((_, others))) = &outcome {
            learn(&mut places, others);
        }
        let (host, port) = &places[at];
        let reply = SentinelReply {
            place: address(host, *port),
            said: outcome.map(|found| found.map(|(about, _)| about)),
        };
        told.insert(at, reply);
    }
    told.into_values().collect()
}

type SentinelReport = Option<(About, Vec<Address>)>;

/// Asks one of them; `None` when it does not know the service.
async fn about(node: &Endpoint, service: &str, place: &Address) -> Result<SentinelReport> {
    // Without the right to the last one, one Sentinel with two addresses counts as two.
    let asked = replies_of(node, service, ["MYID"]).await?;
    let Some([named, about, others, id]) = asked else {
        return Ok(None);
    };
    let about = read(&named, &about, &id, place).ok_or_else(|| not_understood(node))?;
    Ok(Some((about, places_in(&others))))
}

fn read(named: &Value, about: &Value, id: &Value, place: &Address) -> Option<About> {
    let primary = match &answer::texts(named)[..] {
        [host, port] => address(host, port.parse().ok()?),
        _ => return None,
    };
    let number = |name: &str| answer::field(about, name)?.parse::<u64>().ok();
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
