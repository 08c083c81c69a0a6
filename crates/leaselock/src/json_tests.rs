//! What the feature `serde` writes and reads: the words are a contract.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Wait;
use crate::base::process::Process;
use crate::client::inspection::{
    BreakOptions, BreakOutcome, Holder, Holding, Inspection, PermitCount, Waiter,
};
use crate::client::{CloseReport, Stats};
use crate::engine::values::kind::LockMode;
use crate::limiter::Rate;
use crate::store::functions::LoadedFunctions;
use crate::store::report::{Finding, Guarantee, Report, Verdict};
use leaselock_fence::{Fence, Name};

#[track_caller]
fn is_told(value: &impl Serialize, json: &str) {
    assert_eq!(serde_json::to_string(value).unwrap(), json);
}

fn process() -> Process {
    Process {
        client: "c1".to_owned(),
        host: Some("vm".to_owned()),
        pid: Some(7),
        name: Some("report".to_owned()),
        started: Some(SystemTime::UNIX_EPOCH + Duration::from_micros(1_500_999)),
        user: Some("alice".to_owned()),
        version: Some("1.0.0".to_owned()),
        via: Some("run".to_owned()),
        serves: vec![Name::new("nightly").unwrap()],
    }
}

const PROCESS: &str = r#"{"client":"c1","host":"vm","pid":7,"name":"report","started_unix_ms":1500,"user":"alice","version":"1.0.0","via":"run","serves":["nightly"]}"#;
const UNKNOWN: &str = r#"{"client":"c2","host":null,"pid":null,"name":null,"started_unix_ms":null,"user":null,"version":null,"via":null,"serves":[]}"#;

fn holder(mode: LockMode) -> Holder {
    Holder {
        mode,
        process: Some(process()),
        note: Some("nightly".to_owned()),
        fence: Some(Fence::new(1_785_000_000_123_456)),
        since: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_785_000_000_123)),
        remaining: Some(Duration::from_micros(8_600_999)),
        digest: "d1".to_owned(),
        broken: false,
    }
}

fn holder_json(mode: &str) -> String {
    format!(
        r#"{{{mode},"process":{PROCESS},"note":"nightly","fence":1785000000123456,"since_unix_ms":1785000000123,"remaining_ms":8600,"digest":"d1","broken":false}}"#
    )
}

#[test]
fn a_process_has_null_for_what_is_not_known() {
    is_told(&process(), PROCESS);
    is_told(&Process::unknown("c2".to_owned()), UNKNOWN);
    let before_1970 = Process {
        started: Some(SystemTime::UNIX_EPOCH - Duration::from_secs(1)),
        ..Process::unknown("c2".to_owned())
    };
    is_told(&before_1970, UNKNOWN);
}

#[test]
fn a_mode_is_a_word_and_permits_have_their_number() {
    is_told(&LockMode::Exclusive, r#"{"mode":"exclusive"}"#);
    is_told(&LockMode::Shared, r#"{"mode":"shared"}"#);
    is_told(&LockMode::Upgradable, r#"{"mode":"upgradable"}"#);
    is_told(&LockMode::Permits(3), r#"{"mode":"permits","permits":3}"#);
}

#[test]
fn a_holder_has_its_mode_and_its_times_with_their_units() {
    let json = holder_json(r#""mode":"exclusive""#);
    is_told(&holder(LockMode::Exclusive), &json);
    let json = holder_json(r#""mode":"permits","permits":2"#);
    is_told(&holder(LockMode::Permits(2)), &json);
    let json = r#"{"mode":"exclusive","process":null,"note":null,"fence":null,"since_unix_ms":null,"remaining_ms":null,"digest":"","broken":false}"#;
    is_told(&Holder::foreign(None), json);
}

#[test]
fn a_state_is_a_word_with_what_belongs_to_it() {
    is_told(&Holding::Free, r#"{"state":"free"}"#);
    let kind = "hash".to_owned();
    let json = r#"{"state":"not_a_lock","type":"hash"}"#;
    is_told(&Holding::NotALock { kind }, json);
    let holder_json = holder_json(r#""mode":"shared""#);
    let json = format!(r#"{{"state":"held","holders":[{holder_json}],"holder_count":1}}"#);
    is_told(&Holding::by(holder(LockMode::Shared)), &json);
}

fn waiter() -> Waiter {
    Waiter {
        position: 1,
        process: Process::unknown("c2".to_owned()),
        priority: -1,
        mode: LockMode::Permits(2),
        waited: Duration::from_secs(3),
    }
}

const PERMITS: PermitCount = PermitCount {
    total: 4,
    used: 3,
    pinned: true,
};

#[test]
fn an_inspection_has_the_fields_of_its_state_beside_the_others() {
    let told = format!(
        r#"{{"position":1,"process":{UNKNOWN},"priority":-1,"mode":"permits","permits":2,"waited_ms":3000}}"#
    );
    is_told(&waiter(), &told);
    is_told(&PERMITS, r#"{"total":4,"used":3,"pinned":true}"#);
    let seen = Inspection {
        name: "invoices".to_owned(),
        state: Holding::Free,
        kind: None,
        queue: vec![waiter()],
        waiter_count: 1,
        permits: Some(PERMITS),
        damaged: vec!["the queue".to_owned()],
    };
    let json = format!(
        r#"{{"name":"invoices","state":"free","kind":null,"queue":[{told}],"waiter_count":1,"permits":{{"total":4,"used":3,"pinned":true}},"damaged":["the queue"]}}"#
    );
    is_told(&seen, &json);
}

#[test]
fn a_break_has_its_terms_and_what_it_came_to() {
    let terms = BreakOptions::default().only(Fence::new(7)).now();
    let terms = terms.because("stuck").by("alice@office");
    let json = r#"{"only_fence":7,"at_once":true,"foreign":false,"protocol":"native","reason":"stuck","operator":"alice@office"}"#;
    is_told(&terms, json);
    let outcome = BreakOutcome {
        count: 1,
        process: Some(process()),
        fence: Some(Fence::new(7)),
        remaining: Some(Duration::from_secs(2)),
        lasts_with_job: false,
    };
    let json = format!(
        r#"{{"count":1,"process":{PROCESS},"fence":7,"remaining_ms":2000,"lasts_with_job":false}}"#
    );
    is_told(&outcome, &json);
}

#[test]
fn a_report_has_words_for_its_verdicts() {
    for (verdict, json) in [
        (Verdict::Fit, r#""fit""#),
        (Verdict::Warn, r#""warn""#),
        (Verdict::Unfit, r#""unfit""#),
    ] {
        is_told(&verdict, json);
    }
    for (guarantee, status) in [
        (Guarantee::kept("it"), "yes"),
        (Guarantee::broken("it"), "no"),
        (Guarantee::unknown("it"), "unknown"),
    ] {
        let json = format!(r#"{{"guarantee":"it","status":"{status}"}}"#);
        is_told(&guarantee, &json);
    }
    let finding = Finding::warn("eviction policy", "allkeys-lru", "noeviction");
    let found = r#"{"topic":"eviction policy","found":"allkeys-lru","verdict":"warn","advice":"noeviction"}"#;
    is_told(&finding, found);
    let promised = r#"{"guarantee":"leases end","status":"yes"}"#;
    is_told(&Guarantee::kept("leases end"), promised);
    let report = Report::new(
        "mem:".to_owned(),
        vec![finding],
        vec![Guarantee::kept("leases end")],
    );
    let json =
        format!(r#"{{"store":"mem:","findings":[{found}],"nodes":[],"guarantees":[{promised}]}}"#);
    is_told(&report, &json);
}

#[test]
fn what_a_client_says_of_itself_has_its_fields() {
    let (released, unconfirmed) = (3, 1);
    let closed = CloseReport {
        released,
        unconfirmed,
    };
    is_told(&closed, r#"{"released":3,"unconfirmed":1}"#);
    let stats = Stats {
        clock_jumps: 2,
        last_clock_jump_ms: Some(-40),
        ..Stats::default()
    };
    is_told(
        &stats,
        r#"{"clock_jumps":2,"last_clock_jump_ms":-40,"kinds":[],"runs":{},"ticks":{},"tick_delays":{"buckets":[],"count":0,"sum":0},"limiter_permits":{},"counter_changes":{},"quarantines":0,"cleanups_pending":0,"connected":{},"requests":{},"request_times":{},"arrivals":{},"barrier_generations":0}"#,
    );
    let loaded = LoadedFunctions {
        node: "redis://a/".to_owned(),
        name: "leaselock_1".to_owned(),
        was_there: false,
        others: vec!["leaselock_0".to_owned()],
    };
    let json = r#"{"node":"redis://a/","library":"leaselock_1","was_there":false,"others":["leaselock_0"]}"#;
    is_told(&loaded, json);
}

#[track_caller]
fn goes_both_ways<T>(value: T, json: &str)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    is_told(&value, json);
    assert_eq!(serde_json::from_str::<T>(json).unwrap(), value);
}

#[test]
fn how_long_to_wait_is_written_and_read() {
    goes_both_ways(Wait::Never, r#""never""#);
    goes_both_ways(Wait::Forever, r#""forever""#);
    let five = Wait::Timeout(Duration::from_secs(5));
    goes_both_ways(five, r#"{"timeout_ms":5000}"#);
    let json = r#"{"poll":{"count":3,"delay_ms":50,"jitter_percent":50}}"#;
    goes_both_ways(Wait::retries(3), json);
    let unknown = serde_json::from_str::<Wait>(r#""sometimes""#).unwrap_err();
    assert!(unknown.to_string().contains("`never`"), "{unknown}");
    assert!(serde_json::from_str::<Wait>(r#"{"timeout_ms":-1}"#).is_err());
}

#[test]
fn a_rate_is_written_and_read_and_refused_where_a_new_one_is() {
    let rate = Rate::per_second(100).burst(20);
    goes_both_ways(rate, r#"{"limit":100,"period_ms":1000,"burst":20}"#);
    let json = r#"{"limit":5,"period_ms":60000}"#;
    let read: Rate = serde_json::from_str(json).unwrap();
    assert_eq!(read, Rate::per_minute(5));
    assert!(serde_json::from_str::<Rate>(r#"{"limit":-5,"period_ms":60000}"#).is_err());

    let none: Rate = serde_json::from_str(r#"{"limit":0,"period_ms":1000}"#).unwrap();
    let client = crate::Client::open("mem:").unwrap();
    let said = |rate| client.limiter("api", rate).validate().unwrap_err();
    assert_eq!(said(none), said(Rate::per_second(0)));
}
