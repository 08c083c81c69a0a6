//! Servers behind TLS.

use std::fs;

use testkit::Server;
use testkit::server::{find_binary, has_tls};
use testkit::tls::Authority;

use crate::common::Store;

#[test]
fn the_flags_for_tls_say_whom_to_trust_and_what_to_show() {
    let authority = Authority::new();
    let store = Store::file();
    let mine = authority.pair("me");
    for (name, text) in [
        ("ca", authority.pem()),
        ("cert", mine.certificate),
        ("key", mine.key),
    ] {
        fs::write(store.path(name), text).unwrap();
    }
    if !has_tls(&find_binary()) {
        // The library's tests put TLS in front of such a server; here the flags are seen to arrive.
        let flags = ["--url", "rediss://localhost:1", "--tls-ca", "absent", "ls"];
        store
            .run(&flags)
            .refuses(69, "no connection to rediss://localhost:1/0");
        return;
    }
    let server = Server::builder()
        .tls(&authority, authority.pair("locks.internal"), true)
        .start();
    let url = format!("rediss://127.0.0.1:{}", server.tls_port().unwrap());
    let ls = |flags: &[&str]| store.run(&[&["--url", &url], flags, &["ls"]].concat());
    let all = ["--tls-ca", "ca", "--tls-cert", "cert", "--tls-key", "key"];
    let named = ["--tls-server-name", "locks.internal"];
    ls(&[&all[..], &named].concat()).gives(0);
    ls(&named).refuses(77, "an authority that is not known here");
    ls(&all).refuses(77, "for another name");
    ls(&[&all[..2], &named].concat()).refuses(77, "wants a certificate of ours");
    ls(&["--tls-ca", "absent"]).refuses(77, "the certificate authority (absent) cannot be read");

    let mut command = store.leaselock(&["ls"]);
    let by_environment = [
        ("LEASELOCK_URL", url.as_str()),
        ("LEASELOCK_TLS_CA", "ca"),
        ("LEASELOCK_TLS_CERT", "cert"),
        ("LEASELOCK_TLS_KEY", "key"),
        ("LEASELOCK_TLS_SERVER_NAME", "locks.internal"),
    ];
    command.envs(by_environment);
    crate::common::Running::start(command).end().gives(0);
}

#[test]
fn flags_for_tls_that_make_no_sense_are_64() {
    let store = Store::file();
    for (flags, words) in [
        (&["--tls-ca", "ca"] as &[&str], "for a rediss:// URL"),
        (&["--tls-cert", "cert"], "--tls-cert needs --tls-key"),
        (&["--tls-key", "key"], "--tls-key needs --tls-cert"),
        (
            &["--url", "rediss://h", "--tls-server-name", "h:1"],
            "without a scheme or a port",
        ),
    ] {
        store.run(&[flags, &["ls"]].concat()).refuses(64, words);
    }
}
