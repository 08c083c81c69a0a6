//! Tests of the sentences about several Sentinels.

use std::time::Duration;

use super::sentinels::{About, SentinelReply, View};
use crate::base::error::{ErrorKind, StoreError};
use crate::store::report::{Finding, Verdict};

const TTL: Duration = Duration::from_secs(10);

fn about(id: usize, of: u64) -> About {
    About {
        id: id.to_string(),
        primary: "10.0.0.1:6379".to_owned(),
        sentinels: of,
        quorum: of / 2 + 1,
        replicas: 1,
        down_after: Duration::from_secs(3),
        failover_timeout: Duration::from_secs(30),
    }
}

/// Creates a view in which so many reply, of so many that exist.
fn view(answer: usize, of: u64) -> View {
    let told = (0..answer).map(|id| SentinelReply {
        place: format!("s{id}:26379"),
        said: Ok(Some(about(id, of))),
    });
    View {
        service: "locks".to_owned(),
        told: told.collect(),
    }
}

fn each(view: &mut View, change: impl Fn(usize, &mut About)) {
    for (at, one) in view.told.iter_mut().enumerate() {
        if let Ok(Some(about)) = &mut one.said {
            change(at, about);
        }
    }
}

#[track_caller]
fn check(view: &View, topic: &str) -> (Verdict, String) {
    let checks = view.checks(TTL);
    let found = checks.iter().find(|check| check.topic == topic);
    let Finding {
        found,
        verdict: fit,
        advice,
        ..
    } = found.unwrap_or_else(|| panic!("no {topic} in {checks:#?}"));
    let advice = advice.as_deref().unwrap_or_default();
    (*fit, format!("{found} {advice}"))
}

#[test]
fn three_that_answer_and_agree_are_fit_and_outlive_the_failure_of_one() {
    let view = view(3, 3);
    for check in view.checks(TTL) {
        assert_eq!(
            (check.verdict, check.advice.clone()),
            (Verdict::Fit, None),
            "{check:?}"
        );
    }
    let promise = view.promise().unwrap();
    assert_eq!(promise.kept, Some(true));
    assert!(promise.text.contains("while 1 more"), "{promise:?}");
}

#[test]
fn too_few_and_an_even_number_are_told_with_what_would_be_better() {
    for (count, of, fit, words) in [
        (1, 1, Verdict::Warn, "fewer than three"),
        (2, 2, Verdict::Warn, "fewer than three"),
        (3, 3, Verdict::Fit, "a majority is 2"),
        (4, 4, Verdict::Warn, "use 3 or 5"),
        (5, 5, Verdict::Fit, "a majority is 3"),
    ] {
        let (found, said) = check(&view(count, of), "number of Sentinels");
        assert_eq!(found, fit, "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn those_that_do_not_answer_or_do_not_know_the_service_are_named_and_too_few_choose_nobody() {
    let mut view = view(1, 3);
    let error = StoreError::refused(ErrorKind::Unreachable, "Sentinel: no connection to s1");
    for (place, said) in [("s1", Err(error)), ("s2", Ok(None))] {
        let place = place.to_owned();
        view.told.push(SentinelReply { place, said });
    }
    let (fit, said) = check(&view, "Sentinels");
    assert_eq!(fit, Verdict::Warn);
    for words in [
        "1 of 3",
        "no connection to s1",
        "s2 does not know locks",
        "RESET",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let (fit, said) = check(&view, "Sentinel quorum");
    assert_eq!(fit, Verdict::Warn);
    assert!(said.contains("no other primary is chosen now"), "{said}");
    let promise = view.promise().unwrap();
    assert_eq!(promise.kept, Some(false));
    assert!(
        promise
            .text
            .contains("2 Sentinels must agree, and 1 answer")
    );
}

/// The URL has one address of it, and the others report another.
#[test]
fn one_sentinel_under_two_addresses_counts_once() {
    let mut view = view(3, 3);
    each(&mut view, |at, about| about.id = (at / 2).to_string());
    assert!(check(&view, "Sentinels").1.contains("2 of 3 answer"));
}

#[test]
fn a_quorum_that_can_never_be_met_and_quorums_that_differ_are_told() {
    let mut view = view(3, 3);
    each(&mut view, |at, about| {
        about.quorum = if at == 0 { 1 } else { 2 }
    });
    let (fit, said) = check(&view, "Sentinel quorum");
    assert_eq!(fit, Verdict::Warn);
    assert!(
        said.contains("1 or 2 of 3") && said.contains("SET locks quorum 2"),
        "{said}"
    );
    each(&mut view, |_, about| about.quorum = 4);
    let (fit, said) = check(&view, "Sentinel quorum");
    assert_eq!(fit, Verdict::Warn);
    assert!(said.contains("ever chosen"), "{said}");
    assert_eq!(view.promise().unwrap().kept, Some(false));
}

#[test]
fn sentinels_that_name_different_primaries_are_unfit() {
    let mut view = view(3, 3);
    each(&mut view, |at, about| {
        if at == 2 {
            about.primary = "10.0.0.2:6379".to_owned();
        }
    });
    let (fit, said) = check(&view, "primary named");
    assert_eq!(fit, Verdict::Unfit);
    assert!(
        said.starts_with("10.0.0.1:6379 by 2, 10.0.0.2:6379 by 1"),
        "{said}"
    );
}

#[test]
fn times_are_held_against_the_ttl() {
    let mut view = view(3, 3);
    each(&mut view, |_, about| {
        about.down_after = Duration::from_secs(30);
        about.failover_timeout = Duration::from_secs(180);
    });
    let (fit, said) = check(&view, "a switch");
    assert_eq!(fit, Verdict::Warn);
    assert!(
        said.contains("takes 32 s") && said.contains("1 min 4 s or more"),
        "{said}"
    );
    let (fit, said) = check(&view, "a switch that fails");
    assert_eq!(fit, Verdict::Warn);
    assert!(
        said.contains("after 6 min") && said.contains("30000"),
        "{said}"
    );
    let long = view.checks(Duration::from_secs(600));
    assert!(
        long.iter().all(|check| check.verdict == Verdict::Fit),
        "{long:#?}"
    );
}

#[test]
fn without_a_replica_nothing_is_promised_and_without_an_answer_little_is_said() {
    let mut alone = view(3, 3);
    each(&mut alone, |_, about| about.replicas = 0);
    assert!(alone.promise().is_none());
    let nobody = view(0, 0);
    assert!(nobody.promise().is_none());
    assert_eq!(nobody.checks(TTL).len(), 1);
}
