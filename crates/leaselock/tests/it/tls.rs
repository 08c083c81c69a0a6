//! TLS: whom we trust, what we show, and what is said when that is not right.

mod several;

use leaselock::options::TlsOptions;
use leaselock::{AcquireError, Client, ErrorKind};
use testkit::tls::Authority;

use crate::support::{LONG, by_message, soon, until_queued, waiter};
use crate::tls_front::Secured;

const HOST: &str = "localhost";

fn client(url: &str, tls: TlsOptions) -> Client {
    Client::builder().url(url).tls(tls).open().unwrap()
}

async fn can_lock(client: &Client) {
    let lease = soon(client.mutex("job").acquire()).await.unwrap();
    lease.release().await.unwrap();
}

/// Why nothing could be acquired, when it surely was not.
async fn refusal(client: &Client) -> (ErrorKind, String) {
    let outcome = soon(client.mutex("job").try_acquire()).await;
    match outcome.unwrap_err() {
        AcquireError::Store { source, .. } => (source.kind(), source.to_string()),
        other => panic!("{other:?}"),
    }
}

/// The refusal is of certificates, and says this.
async fn is_refused(client: &Client, words: &str) {
    let (kind, message) = refusal(client).await;
    assert_eq!(kind, ErrorKind::Tls, "{message}");
    assert!(message.contains(words), "{words:?} in {message:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_and_their_messages_go_over_tls() {
    let authority = Authority::new();
    let secured = Secured::start(&authority, &authority.pair(HOST), false);
    let tls = TlsOptions::new().ca_pem(authority.pem());
    let [one, two] = [0, 1].map(|_| client(&secured.url(), tls.clone()));
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    lease.release().await.unwrap();
    let _lease = by_message(next).await.unwrap().unwrap();
    assert!(format!("{two:?}").contains(&format!("rediss://localhost:{}/0", secured.port)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_must_be_of_a_known_authority_for_this_name_and_of_today() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let secured = Secured::start(&authority, &authority.pair(HOST), false);
    let trusting = |authority: &Authority| TlsOptions::new().ca_pem(authority.pem());

    let unknown = "an authority that is not known here";
    is_refused(&Client::open(&secured.url()).unwrap(), unknown).await;
    is_refused(&client(&secured.url(), trusting(&stranger)), unknown).await;
    let both = trusting(&stranger).ca_pem(authority.pem());
    can_lock(&client(&secured.url(), both)).await;

    let by_address = format!("rediss://127.0.0.1:{}", secured.port);
    is_refused(&client(&by_address, trusting(&authority)), "another name").await;
    let named = trusting(&authority).server_name(HOST);
    can_lock(&client(&by_address, named)).await;
    let misnamed = trusting(&authority).server_name("elsewhere.example");
    is_refused(&client(&secured.url(), misnamed), "another name").await;

    let old = Secured::start(&authority, &authority.expired(HOST), false);
    is_refused(&client(&old.url(), trusting(&authority)), "has expired").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_a_certificate_of_ours_gets_it_or_says_so() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let secured = Secured::start(&authority, &authority.pair(HOST), true);
    let trusting = || TlsOptions::new().ca_pem(authority.pem());
    let showing = |pair: testkit::tls::Pair| {
        client(
            &secured.url(),
            trusting().identity_pem(pair.certificate, pair.key),
        )
    };
    let right = showing(authority.pair("worker"));
    can_lock(&right).await;

    is_refused(
        &client(&secured.url(), trusting()),
        "wants a certificate of ours",
    )
    .await;
    for wrong in [stranger.pair("worker"), authority.expired("worker")] {
        is_refused(&showing(wrong), "does not accept our certificate").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_wrong_is_named_and_what_is_in_it_is_not_repeated() {
    let authority = Authority::new();
    let secured = Secured::start(&authority, &authority.pair(HOST), true);
    let folder = testkit::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (mine, other) = (authority.pair("worker"), authority.pair("worker"));
    let locked = mine.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let torn = mine.key.replace("-----END", "");
    let mangled = mine.key.replace('M', "!");
    for (name, text) in [
        ("ca", &authority.pem()),
        ("cert", &mine.certificate),
        ("key", &mine.key),
        ("others", &other.key),
        ("locked", &locked),
        ("torn", &torn),
        ("mangled", &mangled),
        ("empty", &String::new()),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    let options = |ca: &str, certificate: &str, key: &str| {
        let options = TlsOptions::new().ca_file(path(ca));
        options.identity_files(path(certificate), path(key))
    };
    for (ca, certificate, key, named, words) in [
        ("absent", "cert", "key", "absent", "cannot be read"),
        (
            "empty",
            "cert",
            "key",
            "empty",
            "holds no certificate authority",
        ),
        (
            "key",
            "cert",
            "key",
            "key",
            "holds no certificate authority",
        ),
        ("ca", "absent", "key", "absent", "the certificate ("),
        ("ca", "cert", "absent", "absent", "the private key ("),
        ("ca", "cert", "cert", "cert", "holds no private key"),
        (
            "ca",
            "cert",
            "others",
            "others",
            "is not that of the certificate",
        ),
        ("ca", "cert", "locked", "locked", "protected by a password"),
        ("ca", "cert", "torn", "torn", "breaks off"),
        ("ca", "cert", "mangled", "mangled", "not well-formed"),
    ] {
        let client = client(&secured.url(), options(ca, certificate, key));
        let (kind, message) = refusal(&client).await;
        assert_eq!(kind, ErrorKind::Tls, "{message}");
        let file = path(named).display().to_string();
        assert!(
            message.contains(words) && message.contains(&file),
            "{words:?}: {message}"
        );
        assert!(!message.contains(&mine.key[60..80]), "{message}");
    }
    let shown = format!(
        "{:?}",
        TlsOptions::new().identity_pem(mine.certificate, mine.key.clone())
    );
    assert!(!shown.contains(&mine.key[60..80]), "{shown}");

    // What is put right, or renewed, is used without a restart.
    let client = client(&secured.url(), options("late", "cert", "key"));
    is_refused(&client, "late").await;
    std::fs::write(path("late"), authority.pem()).unwrap();
    can_lock(&client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_tls_is_told_from_a_certificate_that_is_wrong() {
    let authority = Authority::new();
    let secured = Secured::start(&authority, &authority.pair(HOST), false);
    let tls = TlsOptions::new().ca_pem(authority.pem());
    // The client hangs up on what is no TLS, and a server hangs up on what is.
    let plain = format!("rediss://localhost:{}", secured.server.port());
    let (kind, message) = refusal(&client(&plain, tls)).await;
    let passing = [
        ErrorKind::Malformed,
        ErrorKind::Unreachable,
        ErrorKind::NoReply,
    ];
    assert!(passing.contains(&kind), "{kind:?}: {message}");
    let without = format!("redis://localhost:{}", secured.port);
    let (kind, message) = refusal(&Client::open(&without).unwrap()).await;
    assert!(passing.contains(&kind), "{kind:?}: {message}");
}

#[test]
fn options_for_tls_belong_to_a_url_with_tls() {
    for url in [
        "redis://localhost",
        "redis+unix:///run/redis.sock",
        "mem:",
        "file:",
    ] {
        let built = Client::builder().url(url).tls(TlsOptions::new()).open();
        assert!(
            built.unwrap_err().to_string().contains("rediss://"),
            "{url}"
        );
    }
    let named = TlsOptions::new().server_name("rediss://h:1");
    let built = Client::builder()
        .url("rediss://localhost")
        .tls(named)
        .open();
    assert!(built.unwrap_err().to_string().contains("without a scheme"));
}
