//! Completions as a shell calls them.

use leaselock::Client;

use crate::common::{Running, Store};

/// What bash offers for a line that was typed so far. The exit code of the search for names is in the file `searched`.
fn offered(store: &Store, typed: &str) -> Vec<String> {
    let script = r#"
        PATH="$(dirname "$1"):$PATH"
        eval "$(leaselock completions bash)"
        leaselock() { command leaselock "$@"; echo $? > searched; }
        COMP_LINE="$2" COMP_POINT=${#2}
        read -ra COMP_WORDS <<< "$2"
        case "$2" in *" ") COMP_WORDS+=("") ;; esac
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _leaselock_or_names leaselock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let program = env!("CARGO_BIN_EXE_leaselock");
    let bash = store.command("bash", &["-c", script, "bash", program, typed]);
    let done = Running::start(bash).end().gives(0);
    let lines = done.out.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn bash_completes_names_of_locks_that_are_held_where_a_verb_takes_one() {
    let store = Store::file();
    for name in ["db:orders", "db:users", "nightly", "two words"] {
        store.run(&["acquire", "--ttl", "10m", name]).gives(0);
    }
    std::fs::write(store.path("urls"), &store.url).unwrap();
    let names = store.run(&["ls", "--names"]).gives(0).out;
    assert_eq!(names, "db:orders\ndb:users\nnightly\ntwo words\n");
    for (typed, expected) in [
        ("leaselock status n", &["nightly"][..]),
        ("leaselock status nightly t", &["two\\ words"]),
        ("leaselock wait -w 5 n", &["nightly"]),
        ("leaselock break --yes n", &["nightly"]),
        ("leaselock run n", &["nightly"]),
        ("leaselock run --permits 3 n", &["nightly"]),
        ("leaselock permits n", &["nightly"]),
        ("leaselock hold -w 5 n", &["nightly"]),
        ("leaselock acquire --ttl 5s n", &["nightly"]),
        // Behind a colon bash replaces what follows it.
        ("leaselock status db:o", &["orders"]),
        ("leaselock --url file:///nowhere/x status n", &[]),
        ("leaselock --url-file urls status n", &["nightly"]),
    ] {
        assert_eq!(offered(&store, typed), expected, "{typed}");
    }
    assert!(offered(&store, "leaselock stat").contains(&"status".to_owned()));
    assert!(offered(&store, "leaselock run --kill").contains(&"--kill-after".to_owned()));
    let other = offered(&store, "leaselock run nightly n");
    assert!(!other.contains(&"nightly".to_owned()), "{other:?}");
}

#[test]
fn a_name_is_offered_however_many_others_are_held() {
    let store = Store::file();
    let client = Client::open(&store.url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let leases = runtime.unwrap().block_on(async {
        let names = (1..=250).map(|n| format!("job{n}"));
        let nights = (1..=9).map(|n| format!("nightly{n}"));
        let (mut leases, others) = (Vec::new(), ["any*thing", "anything"].map(str::to_owned));
        for name in names.chain(nights).chain(others) {
            leases.push(client.mutex(&name).acquire().await.unwrap());
        }
        leases
    });
    let mut nights = offered(&store, "leaselock status nig");
    nights.sort();
    let expected: Vec<_> = (1..=9).map(|n| format!("nightly{n}")).collect();
    assert_eq!(nights, expected);
    let literal = offered(&store, "leaselock status any*");
    assert_eq!(literal, ["any\\*thing"], "what is typed is no pattern");
    drop(leases);
}

#[test]
fn a_server_that_does_not_reply_is_not_waited_for_as_a_request_would() {
    let store = Store::redis();
    store.run(&["acquire", "--ttl", "10m", "nightly"]).gives(0);
    assert_eq!(offered(&store, "leaselock status n"), ["nightly"]);
    let _paused = store.server().pause();
    let none: [&str; 0] = [];
    assert_eq!(offered(&store, "leaselock status n"), none);
    // A request that has waited as long as it may ends with 69.
    assert_eq!(store.line_in("searched"), "0");
}
