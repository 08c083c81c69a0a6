//! What doctor says of the Sentinels themselves.

use leaselock::Client;
use leaselock::report::{Finding, Report, Verdict};
use testkit::sentinels::SERVICE;
use testkit::{Sentinels, Server, Watched};

use crate::support::{eventually, soon};

async fn examined(url: &str) -> Report {
    let client = Client::open(url).unwrap();
    soon(client.doctor()).await.unwrap()
}

#[track_caller]
fn check<'a>(report: &'a Report, topic: &str) -> &'a Finding {
    let found = report.findings.iter().find(|check| check.topic == topic);
    found.unwrap_or_else(|| panic!("no {topic} in {report:#?}"))
}

#[track_caller]
fn says(report: &Report, topic: &str, fit: Verdict, words: &str) {
    let check = check(report, topic);
    let advice = check.advice.as_deref().unwrap_or_default();
    let said = format!("{} {advice}", check.found);
    assert!(check.verdict == fit && said.contains(words), "{check:#?}");
}

/// On each of them, which answers at once.
fn set(sentinels: &Sentinels, setting: &str, value: &str) {
    for sentinel in sentinels.each() {
        let answer = sentinel.cli(&["SENTINEL", "SET", SERVICE, setting, value]);
        assert!(!answer.is_error(), "{answer:?}");
    }
}

fn promised(report: &Report, words: &str) -> Option<bool> {
    let mut promises = report.guarantees.iter();
    let found = promises.find(|promise| promise.text.contains(words));
    found.and_then(|promise| promise.kept)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_whether_another_primary_can_be_chosen_and_in_what_time() {
    let group = Watched::start();
    let sentinels = &group.sentinels;
    let report = examined(&group.url()).await;
    let primary = format!("127.0.0.1:{}, by all that answer", group.servers[0].port());
    for (topic, words) in [
        ("Sentinels", "3 of 3 answer"),
        ("number of Sentinels", "3, a majority is 2"),
        ("Sentinel quorum", "2 of 3 must find the primary down"),
        ("primary named", primary.as_str()),
        (
            "a switch",
            "takes 3 s and more (down-after-milliseconds 1000)",
        ),
        ("a switch that fails", "after 10 s (failover-timeout 5000)"),
    ] {
        says(&report, topic, Verdict::Fit, words);
    }
    let chosen = "when the primary dies";
    assert_eq!(promised(&report, chosen), Some(true));

    // The times that Sentinels have when no operator sets them.
    set(sentinels, "down-after-milliseconds", "30000");
    set(sentinels, "failover-timeout", "180000");
    set(sentinels, "quorum", "4");
    let report = examined(&group.url()).await;
    says(
        &report,
        "a switch",
        Verdict::Warn,
        "a ttl of 1 min 4 s or more",
    );
    says(&report, "a switch that fails", Verdict::Warn, "after 6 min");
    says(&report, "Sentinel quorum", Verdict::Warn, "ever chosen");
    assert_eq!(promised(&report, chosen), Some(false));

    set(sentinels, "quorum", "2");
    let [dead, other, _] = sentinels.each() else {
        panic!("three of them")
    };
    dead.kill();
    let report = examined(&group.url()).await;
    let gone = format!("127.0.0.1:{}", dead.port());
    says(&report, "Sentinels", Verdict::Warn, "2 of 3 answer");
    says(&report, "Sentinels", Verdict::Warn, &gone);
    says(&report, "Sentinel quorum", Verdict::Fit, "2 of 3");
    assert_eq!(promised(&report, "while 0 more"), Some(true));
    other.kill();
    let report = examined(&group.url()).await;
    says(&report, "Sentinel quorum", Verdict::Warn, "1 answer");
    assert_eq!(promised(&report, chosen), Some(false));
    assert!(report.is_fit(), "locks go on as long as the primary does");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_name_different_primaries_are_unfit_and_an_even_number_is_told() {
    let (primary, stranger) = (Server::start(), Server::start());
    let sentinels = Sentinels::builder(&primary).count(4).start();
    let url = format!("redis+sentinel://{}/{SERVICE}", sentinels.addresses());
    let report = examined(&url).await;
    says(&report, "number of Sentinels", Verdict::Warn, "use 3 or 5");
    assert!(report.is_fit());
    assert_eq!(promised(&report, "when the primary dies"), None);

    let misled = &sentinels.each()[3];
    let port = stranger.port().to_string();
    for words in [
        &["SENTINEL", "REMOVE", SERVICE] as &[&str],
        &["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", &port, "2"],
    ] {
        assert!(!misled.cli(words).is_error());
    }
    // Whom it watches it asks first.
    eventually("one of them names another", async || {
        let report = examined(&url).await;
        let check = check(&report, "primary named");
        check.verdict == Verdict::Unfit && check.found.contains(&format!("127.0.0.1:{port} by 1"))
    })
    .await;
}

/// The rights that docs/sentinel.md names, without the one to ask for the id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rights_are_enough() {
    let primary = Server::start();
    let sentinels = Sentinels::builder(&primary).start();
    let rights =
        "+sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels +ping +hello";
    for sentinel in sentinels.each() {
        let mut user = vec!["ACL", "SETUSER", "asker", "on", ">s3cret", "-@all"];
        user.extend(rights.split(' '));
        assert!(!sentinel.cli(&user).is_error());
    }
    let login = "sentinel_user=asker&sentinel_pass=s3cret";
    let at = sentinels.addresses();
    let report = examined(&format!("redis+sentinel://{at}/{SERVICE}?{login}")).await;
    says(&report, "Sentinels", Verdict::Fit, "3 of 3 answer");
}
