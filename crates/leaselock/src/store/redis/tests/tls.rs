//! TLS against a real server, with an authority of the test's own.

use std::path::Path;
use std::process::Command;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::super::endpoint::Endpoint;
use super::super::lane::Lane;
use super::super::{Link, tls};
use super::*;
use crate::error::ErrorKind;

/// Some builds have no TLS. Those that have it look for the certificate, which is not there, and end.
fn server_has_tls() -> bool {
    let dir = testkit::tempdir().unwrap();
    let tried = Command::new(testkit::server::find_binary())
        .args(["--port", "0", "--tls-port", &free_port().to_string()])
        .args([
            "--tls-cert-file",
            "/absent.pem",
            "--tls-key-file",
            "/absent.pem",
        ])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = [tried.stdout, tried.stderr].concat();
    let has = String::from_utf8_lossy(&said).contains("Failed to configure TLS");
    if !has {
        eprintln!("not tested: this server has no TLS");
    }
    has
}

/// A certificate for `localhost` that is its own authority.
fn certificate(dir: &Path) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=leaselock test",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args([
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
        ])
        .current_dir(dir)
        .output()
        .expect("the `openssl` command is needed for this test");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn tls_server(dir: &Path) -> (Server, u16) {
    certificate(dir);
    let path = |name: &str| dir.join(name).display().to_string();
    let port = free_port();
    let server = Server::builder()
        .config("tls-port", &port.to_string())
        .config("tls-cert-file", &path("cert.pem"))
        .config("tls-key-file", &path("key.pem"))
        .config("tls-ca-cert-file", &path("cert.pem"))
        .config("tls-auth-clients", "no")
        .start();
    (server, port)
}

fn trusting(url: &str, cert: &Path) -> RedisStore {
    let Target::Redis(url) = parse(url).unwrap() else {
        panic!("{url}")
    };
    let config = tls::only(vec![CertificateDer::from_pem_file(cert).unwrap()]).unwrap();
    RedisStore(Link::Own(Lane::new(Endpoint::trusting(url, config))))
}

async fn refusal(store: &RedisStore) -> (ErrorKind, bool, String) {
    let error = store
        .run(&acquire("job"), Duration::from_secs(2))
        .await
        .unwrap_err();
    (error.kind(), error.maybe_applied(), error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_works_with_a_trusted_certificate_and_with_no_other() {
    if !server_has_tls() {
        return;
    }
    let dir = testkit::tempdir().unwrap();
    let (server, port) = tls_server(dir.path());
    let cert = dir.path().join("cert.pem");
    let good = trusting(&format!("rediss://localhost:{port}/1"), &cert);
    assert_eq!(tag(&good, &acquire("job")).await, "fenced");
    assert_eq!(good.describe(), format!("rediss://localhost:{port}/1"));

    let (kind, maybe, message) = refusal(&store(&format!("rediss://localhost:{port}"))).await;
    assert_eq!((kind, maybe), (ErrorKind::Unfit, false), "{message}");
    let (kind, maybe, message) =
        refusal(&trusting(&format!("rediss://127.0.0.1:{port}"), &cert)).await;
    assert_eq!((kind, maybe), (ErrorKind::Unfit, false), "{message}");
    assert!(message.contains("not trusted"), "{message}");

    // The client hangs up on what is no TLS, and a server hangs up on what is.
    let plain = server.port();
    let (kind, maybe, message) =
        refusal(&trusting(&format!("rediss://localhost:{plain}"), &cert)).await;
    assert!(
        !maybe
            && matches!(
                kind,
                ErrorKind::Malformed | ErrorKind::Unreachable | ErrorKind::TimedOut
            ),
        "{kind:?}: {message}"
    );
    let (kind, maybe, message) = refusal(&store(&format!("redis://localhost:{port}"))).await;
    assert!(
        !maybe && matches!(kind, ErrorKind::Malformed | ErrorKind::Unreachable),
        "{kind:?}: {message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_over_tls_too() {
    if !server_has_tls() {
        return;
    }
    let dir = testkit::tempdir().unwrap();
    let (server, port) = tls_server(dir.path());
    let store = trusting(
        &format!("rediss://localhost:{port}"),
        &dir.path().join("cert.pem"),
    );
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let listening = tokio::spawn(async move {
        store
            .listen("ch", Box::new(move |event| drop(sender.send(event))))
            .await
    });
    assert_eq!(events.recv().await, Some(crate::store::Event::Ready));
    server.cli(&["PUBLISH", "ch", "x"]);
    assert_eq!(
        events.recv().await,
        Some(crate::store::Event::Message(b"x".to_vec()))
    );
    listening.abort();
}
