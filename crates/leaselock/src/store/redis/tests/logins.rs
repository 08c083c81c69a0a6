//! Rights of users.

use super::*;
use crate::base::error::ErrorKind;
use crate::store::redis::doctor::permissions;

#[tokio::test]
async fn a_password_is_used_and_never_shown() {
    let server = Server::builder().password("hunter2").start();
    let right = store(&server.url());
    assert_eq!(tag(&right, &acquire("job")).await, "fenced");
    assert!(!format!("{right:?} {}", right.describe()).contains("hunter2"));

    let port = server.port();
    for (url, advice) in [
        (format!("redis://127.0.0.1:{port}"), "wants a login"),
        (format!("redis://:wrongpass1@127.0.0.1:{port}"), "is wrong"),
        (
            format!("redis://somebody:wrongpass1@127.0.0.1:{port}"),
            "is wrong",
        ),
    ] {
        let error = run(&store(&url), &acquire("job")).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.maybe_applied()),
            (ErrorKind::Auth, false),
            "{error}"
        );
        assert!(error.to_string().contains(advice), "{error}");
        assert!(!format!("{error:?}").contains("wrongpass1"), "{error:?}");
    }
}

#[tokio::test]
async fn a_password_that_the_server_does_not_want_is_said_so() {
    let server = Server::start();
    let url = format!("redis://:hunter2@127.0.0.1:{}", server.port());
    let error = run(&store(&url), &acquire("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("has no password"), "{error}");
}

#[tokio::test]
async fn a_user_with_just_the_rights_that_are_needed_can_lock() {
    let server = Server::start();
    let mut rule = vec!["ACL".to_owned(), "SETUSER".to_owned(), "locker".to_owned()];
    rule.extend(
        [
            "on",
            ">pw",
            "~job*",
            "~{job*",
            "resetchannels",
            "&ll:*",
            "-@all",
        ]
        .map(str::to_owned),
    );
    rule.extend(permissions::commands(permissions::USED).map(|command| format!("+{}", command[0])));
    let rule: Vec<&str> = rule.iter().map(String::as_str).collect();
    assert_eq!(server.cli(&rule).text(), Some("OK"));
    let store = store(&format!("redis://locker:pw@127.0.0.1:{}", server.port()));
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
    assert_eq!(tag(&store, &release("job")).await, "released");

    let error = run(&store, &acquire("else")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Forbidden, false),
        "{error}"
    );

    // Inside a script an earlier command may have been allowed, so the outcome is unknown.
    server.cli(&["ACL", "SETUSER", "locker", "-set"]);
    let error = run(&store, &acquire("job")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Forbidden, true),
        "{error}"
    );
}

#[tokio::test]
async fn a_user_who_may_not_ping_can_still_lock() {
    let server = Server::start();
    server.cli(&[
        "ACL", "SETUSER", "locker", "on", ">pw", "~*", "&*", "+@all", "-ping",
    ]);
    let store = store(&format!("redis://locker:pw@127.0.0.1:{}", server.port()));
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
}

#[tokio::test]
async fn a_database_is_chosen_and_one_that_is_not_there_is_refused() {
    let server = Server::start();
    assert_eq!(
        tag(&store(&format!("{}3", server.url())), &acquire("job")).await,
        "fenced"
    );
    assert_eq!(server.cli(&["EXISTS", "job"]).integer(), Some(0));
    let error = run(&store(&format!("{}99", server.url())), &acquire("job"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Unsupported, false),
        "{error}"
    );
}

#[tokio::test]
async fn a_unix_socket_works_and_one_that_is_not_there_is_unreachable() {
    let server = Server::builder().unix_socket().password("sekret").start();
    let socket = server.socket().unwrap().display().to_string();
    let here = store(&format!("redis+unix://{socket}?db=2&pass=sekret"));
    assert_eq!(tag(&here, &acquire("job")).await, "fenced");
    assert_eq!(here.describe(), format!("redis+unix://{socket}?db=2"));
    let absent = store(&format!("redis+unix://{socket}.not"));
    let error = absent
        .run(&acquire("job"), Duration::from_millis(100))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Unreachable, false),
        "{error}"
    );
}
