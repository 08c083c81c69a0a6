//! `leaselock break`: whom it hits.

use testkit::{Cut, Fault, Proxy, Way};

use crate::common::{Running, Store, object, on_both};

#[test]
fn break_takes_only_what_was_seen_and_asks_when_it_can() {
    on_both(|store| {
        store
            .run(&["break", "--yes", "job"])
            .refuses(79, "`job` is not held");
        store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
        let fence = store.status()["holder"]["fence"].as_u64().unwrap();
        store
            .run(&["break", "job"])
            .refuses(64, &format!("to break this grant give --fence {fence}"));
        store
            .run(&["break", "free"])
            .refuses(79, "`free` is not held");
        let older = (fence - 1).to_string();
        store
            .run(&["break", "--fence", &older, "job"])
            .refuses(79, "see status for the present one");
        assert_eq!(store.status()["holder"]["fence"], fence);
        let seen = ["--fence", &fence.to_string(), "job"];
        let broken = store.run(&[&["break"], &seen[..]].concat()).gives(0);
        assert!(
            broken.err.contains("when its holder has released it, in 9"),
            "{broken:?}"
        );
        assert_eq!(store.status()["holder"]["broken"], true);
        let text = store.run(&["status", "job"]).gives(0).out;
        assert!(text.contains("; broken, free in "), "{text}");
        store
            .run(&["run", "-n", "job", "--", "true"])
            .refuses(75, "");
        let at_once = store
            .run(&[&["break", "--now"], &seen[..]].concat())
            .gives(0);
        assert!(at_once.err.contains("may work on"), "{at_once:?}");
        assert_eq!(store.status()["state"], "free");
        store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
        store
            .run(&["break", "--now", "-y", "-q", "job"])
            .refuses(0, "");
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn a_break_that_finds_the_lock_free_never_hits_the_one_who_comes_next() {
    let store = Store::redis();
    let script = "while [ ! -e stop ]; do \"$0\" run -q job -- true || exit; done";
    let sh = ["-c", script, env!("CARGO_BIN_EXE_leaselock")];
    let busy = Running::start(store.command("sh", &sh));
    for _ in 0..25 {
        let done = store.run(&["break", "--now", "job"]);
        assert!([64, 79].contains(&done.code), "{done:?}");
    }
    std::fs::write(store.path("stop"), "").unwrap();
    busy.end().gives(0);
}

#[test]
fn a_break_whose_reply_is_cut_says_that_the_holder_may_have_been_broken() {
    let store = Store::redis();
    store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
    let fence = store.status()["holder"]["fence"].to_string();
    let proxy = Proxy::to(store.server().port());
    let url = proxy.url();
    // While its lease ends the same break has the same answer.
    let words = ["--url", &url, "--json", "break", "--fence", &fence, "job"];
    store.run(&words).gives(0);
    let before = proxy.bytes(Way::ToClient);
    store.run(&words).gives(0);
    let length = usize::try_from(proxy.bytes(Way::ToClient) - before).unwrap();
    let (mut unknown, how) = (0, Cut::Close);
    for bytes in (1..length).step_by(4) {
        proxy.set(Way::ToClient, Fault::CutAfter { bytes, how });
        let done = store.run(&words);
        assert!([0, 69].contains(&done.code), "cut after {bytes}: {done:?}");
        if done.code == 69 && object(&done.err)["kind"] == "unknown" {
            assert!(done.err.contains("may have been broken"), "{done:?}");
            unknown += 1;
        }
    }
    assert!(unknown > 0);
}
