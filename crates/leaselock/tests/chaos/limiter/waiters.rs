//! A thousand callers wait at one limiter, and half of them give up, at random.
//!
//! Each asks for another number of permits, by which its reservation is known on the server.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use leaselock::Client;
use leaselock::limiter::{Limiter, Rate, RateDecision};
use testkit::{Server, Value, clock};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::SECOND;
use crate::rounds;

/// What each asks for is about this, and at this rate one moment comes about 10 ms after the other.
const COST: u32 = 1500;
const RATE: u32 = 150_000;
const BURST: u32 = 3000;
const NEWCOMERS: u32 = 10;

/// The moment of each reservation in a set, by what it asked for.
type Moments = BTreeMap<u32, u64>;

fn moments(server: &Server, set: &str) -> Moments {
    let set = server.cli(&[
        "ZRANGE",
        &format!("{{api}}:ll:{set}"),
        "0",
        "-1",
        "WITHSCORES",
    ]);
    let words: Vec<&str> = set.list().unwrap().iter().filter_map(Value::text).collect();
    let cost = |member: &str| member.rsplit_once(' ').unwrap().1.parse().unwrap();
    let entry = |pair: &[&str]| (cost(pair[0]), pair[1].parse().unwrap());
    words.chunks(2).map(entry).collect()
}

fn requests(server: &Server) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = |command: &str| -> u64 {
        let mut lines = stats.text().unwrap().lines();
        let head = format!("cmdstat_{command}:calls=");
        let line = lines.find_map(|line| line.strip_prefix(&head));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    };
    calls("evalsha") + calls("eval")
}

/// What a caller has waited for, and when it acted, by the server's clock.
type Acts = UnboundedSender<(u32, u64)>;

/// They ask on one connection, one after the other.
fn wait(limiter: &Limiter, costs: Range<u32>, acts: &Acts) -> Vec<(u32, JoinHandle<()>)> {
    let start = |cost| {
        let (limiter, acts) = (limiter.clone(), acts.clone());
        let waits = tokio::spawn(async move {
            limiter.acquire_many(cost).await.unwrap();
            acts.send((cost, clock::wall_us())).unwrap();
        });
        (cost, waits)
    };
    costs.map(start).collect()
}

/// Fails rather than waits for ever.
async fn until(mut holds: impl FnMut() -> bool) {
    let end = clock::now() + 120 * SECOND;
    while !holds() {
        assert!(clock::now() < end, "it does not come");
        tokio::time::sleep(SECOND / 1000).await; // between two checks of the condition
    }
}

#[tokio::test]
async fn a_thousand_who_wait_act_in_order_and_not_early_and_half_that_give_up_cost_nobody_anything()
{
    let count = u32::try_from(rounds(60, 1000)).unwrap();
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let limiter = client.limiter("api", Rate::per_second(RATE).burst(BURST));
    limiter.acquire_many(BURST).await.unwrap(); // from now on all wait
    server.cli(&["CONFIG", "RESETSTAT"]);
    let (acts, mut acted) = unbounded_channel();
    let waiters = wait(&limiter, COST..COST + count, &acts);
    until(|| requests(&server) >= u64::from(count)).await;
    assert_eq!(requests(&server), u64::from(count), "one request each");

    // What is missing was over before the last one asked.
    let mut reserved = moments(&server, "reserved");
    let first = *reserved.keys().next().unwrap();
    assert!(reserved.keys().copied().eq(first..COST + count));
    assert!(reserved.values().is_sorted(), "not in order of arrival");

    let mut given_up = BTreeSet::new();
    for (cost, waits) in &waiters {
        if fastrand::bool() && !waits.is_finished() {
            waits.abort();
            given_up.insert(*cost);
        }
    }
    let waits = |cost: &u32| !given_up.contains(cost);
    let is_over = |moment: &u64| *moment <= clock::wall_us();
    let counts = |(cost, moment): (&u32, &u64)| waits(cost) || is_over(moment);
    until(|| moments(&server, "reserved").iter().all(counts)).await;
    let free = moments(&server, "returned");
    let last = reserved.iter().filter(|(cost, _)| waits(cost)).max();
    for cost in &given_up {
        let moment = reserved.get(cost).filter(|moment| !is_over(moment));
        let is_behind = Some(cost) > last.map(|(cost, _)| cost);
        assert!(moment.is_none() || is_behind || free.contains_key(cost));
    }
    let mut in_a_gap = 0;
    for cost in COST - NEWCOMERS..COST {
        let returned = moments(&server, "returned");
        let [(_, newcomer)] = wait(&limiter, cost..cost + 1, &acts).try_into().unwrap();
        let its_moment = || moments(&server, "reserved").get(&cost).copied();
        until(|| its_moment().is_some() || newcomer.is_finished()).await;
        let now_us = clock::wall_us();
        let free = |(its_cost, moment): (&u32, &u64)| *its_cost >= cost && *moment > now_us;
        if returned.iter().any(free) {
            let moment = its_moment().unwrap();
            assert!(returned.values().any(|free| *free == moment));
            in_a_gap += 1;
        }
        reserved.extend(its_moment().map(|moment| (cost, moment)));
    }
    reserved.retain(|cost, _| waits(cost));

    drop(acts);
    let (mut acts, mut latest_us) = (0, 0);
    while let Some((cost, at_us)) = acted.recv().await {
        let moment = reserved.get(&cost).copied().unwrap_or(at_us);
        assert!(at_us >= moment, "{cost} acted too early");
        acts += 1;
        latest_us = latest_us.max(at_us - moment);
    }
    assert_eq!(acts, waiters.len() - given_up.len() + NEWCOMERS as usize);
    let whole_burst_us = u64::from(BURST) * 1_000_000 / u64::from(RATE);
    let empty_us = reserved.values().max().unwrap() + whole_burst_us;
    until(|| is_over(&empty_us)).await;
    let all = limiter.try_acquire_many(BURST).await.unwrap();
    assert_eq!(all, RateDecision::Allowed { left: 0 }, "something is left");
    let given_up = given_up.len();
    println!(
        "{given_up} of {count} gave up, {in_a_gap} newcomers got a moment of theirs; the latest act came {latest_us} us \
         after its moment"
    );
}
