//! `leaselock latch`: parties arrive, and the others wait for them.

use crate::common::{object, on_both, until};

fn latch<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["latch", "deploy", "--count", "2"], words].concat()
}

#[test]
fn a_latch_opens_when_all_have_arrived_and_says_who_has() {
    on_both(|store| {
        let closed = store.run(&latch(&[])).gives(0).out;
        assert_eq!(closed, "deploy: closed, 0 of 2 arrived\n");
        let waits = store.start(&latch(&["--wait"]));
        for _ in 0..2 {
            let first = store.run(&latch(&["--arrive", "shard-1"])).gives(0).out;
            assert_eq!(first, "deploy: closed, 1 of 2 arrived: shard-1\n");
        }
        store
            .run(&latch(&["-w", "50ms"]))
            .refuses(75, "ms: 1 missing; arrived: shard-1");
        let seen = object(&store.run(&latch(&["--json", "-w", "0"])).gives(75).out);
        assert_eq!((&seen["left"], &seen["open"]), (&1.into(), &false.into()));
        assert_eq!(seen["arrived"], serde_json::json!(["shard-1"]));
        store
            .run(&["latch", "deploy", "--count", "3"])
            .refuses(77, "the parties that arrived use count 2");
        let last = store
            .run(&latch(&["--arrive", "shard-2", "--wait"]))
            .gives(0);
        assert_eq!(last.out, "deploy: open, 2 of 2 arrived: shard-1, shard-2\n");
        let waited = waits.end().gives(0);
        assert_eq!(waited.out, last.out);
        store
            .run(&latch(&["--arrive", "shard-3"]))
            .refuses(77, "open without this party");
        assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "");
        store.run(&["run", "-n", "deploy", "--", "true"]).gives(0);
    });
}

#[test]
fn who_waits_at_a_latch_outlives_a_server_that_is_away() {
    let store = crate::common::Store::redis();
    let latch = ["latch", "deploy", "--count", "1"];
    let waits = store.start(&[&latch[..], &["--wait", "--json"]].concat());
    let listens = || {
        let channels = store
            .server()
            .cli(&["PUBSUB", "CHANNELS", "ll:broadcast:*"]);
        channels.list().is_some_and(|channels| !channels.is_empty())
    };
    until("it listens", listens);
    // A wait to which the store has never replied fails.
    let has_read = || {
        let stats = store.server().cli(&["INFO", "commandstats"]);
        stats.text().unwrap().contains("cmdstat_zrange")
    };
    until("it has read", has_read);
    assert!(has_read(), "asked once more: by now its reply was sent too");
    let frozen = store.server().pause();
    std::thread::sleep(std::time::Duration::from_secs(3)); // longer than a request may take
    drop(frozen);
    store
        .run(&[&latch[..], &["--arrive", "a"]].concat())
        .gives(0);
    assert_eq!(object(&waits.end().gives(0).out)["open"], true);
}
