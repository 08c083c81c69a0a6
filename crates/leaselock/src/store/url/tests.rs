//! Tests of the URLs that name a store.

use proptest::prelude::*;

use super::redis_url::{Place, RedisUrl};
use super::*;

fn redis(url: &str) -> RedisUrl {
    match parse(url).unwrap() {
        Target::Redis(redis) => redis,
        other => panic!("{other:?}"),
    }
}

fn tcp(host: &str, port: u16) -> Place {
    Place::Tcp {
        host: host.to_owned(),
        port,
        tls: false,
    }
}

fn refusal(url: &str) -> String {
    parse(url).expect_err(url).to_string()
}

#[cfg(feature = "redis")]
#[test]
fn a_host_alone_means_the_usual_port_and_database_zero() {
    let url = redis("redis://localhost");
    assert_eq!(
        url,
        RedisUrl {
            place: tcp("localhost", 6379),
            user: None,
            password: None,
            db: 0,
            #[cfg(feature = "redis")]
            functions: None,
            #[cfg(feature = "tls")]
            tls: std::sync::Arc::default(),
        }
    );
    assert_eq!(redis("redis://localhost/"), url);
    assert_eq!(redis("redis://@localhost:6379/0?protocol=resp3"), url);
    assert_eq!(redis("redis://:@localhost"), url);
}

#[cfg(feature = "tls")]
#[test]
fn a_url_of_valkey_means_what_one_of_redis_does() {
    for rest in [
        "://u:p@h:1/2",
        "s://h",
        "+unix:///run/v.sock",
        "+sentinel://h/main",
        "s+cluster://h",
    ] {
        let [redis, valkey] = ["redis", "valkey"].map(|scheme| parse(&format!("{scheme}{rest}")));
        assert_eq!(redis.unwrap(), valkey.unwrap(), "{rest}");
    }
}

#[test]
fn an_address_or_a_path_alone_is_answered_with_what_belongs_in_front_and_never_repeated() {
    for host in ["localhost:6379", "db.example", "10.0.0.1:7000", "s3cret"] {
        assert!(refusal(host).contains("put redis:// in front"), "{host}");
    }
    for path in ["/srv/locks", "./s3cret", "~/locks"] {
        assert!(refusal(path).contains("put file:// in front"), "{path}");
    }
    for other in ["", "user:s3cret@h", "http://s3cret", "redis:s3cret@h"] {
        assert!(refusal(other).contains("none of the URLs"), "{other}");
    }
    for wrong in ["s3cret", "./s3cret", "user:s3cret@h", "http://s3cret"] {
        assert!(!refusal(wrong).contains("s3cret"));
    }
}

#[test]
fn a_folder_may_have_no_slashes_in_front_of_its_path() {
    assert_eq!(
        parse("file:/srv/locks").unwrap(),
        parse("file:///srv/locks").unwrap()
    );
}

#[cfg(feature = "redis")]
#[test]
fn every_part_of_a_network_url_is_read() {
    let url = redis("redis://us%65r:p%40s%2Fs:+@10.0.0.1:7000/12");
    assert_eq!(url.place, tcp("10.0.0.1", 7000));
    assert_eq!(
        (url.user.as_deref(), url.password.as_deref()),
        (Some("user"), Some("p@s/s:+"))
    );
    assert_eq!(url.db, 12);
    assert_eq!(redis("redis://[::1]").place, tcp("::1", 6379));
    assert_eq!(redis("redis://[::1]:7000/").place, tcp("::1", 7000));
    assert_eq!(
        redis("redis://:secret@h").password.as_deref(),
        Some("secret")
    );
    assert_eq!(redis("redis://nopass:@h").password.as_deref(), Some(""));
}

#[cfg(feature = "redis")]
#[test]
fn a_unix_socket_takes_its_options_after_a_question_mark() {
    let url = redis("redis+unix:///run/my%20redis.sock?db=3&user=me&pass=a%26b+c");
    assert_eq!(url.place, Place::Unix("/run/my redis.sock".into()));
    assert_eq!(
        (url.user.as_deref(), url.password.as_deref(), url.db),
        (Some("me"), Some("a&b+c"), 3)
    );
    for wrong in [
        "redis+unix://",
        "redis+unix://run/x",
        "redis+unix:///x?user=me",
        "redis+unix:///x?host=y",
    ] {
        refusal(wrong);
    }
}

#[test]
fn folders_and_memory_have_a_default_and_a_name() {
    assert_eq!(parse("file:").unwrap(), Target::Folder(None));
    assert_eq!(
        parse("file:///srv/my%20locks").unwrap(),
        Target::Folder(Some("/srv/my locks".into()))
    );
    assert_eq!(parse("mem:").unwrap(), Target::Memory(String::new()));
    assert_eq!(
        parse("mem:tests.1").unwrap(),
        Target::Memory("tests.1".to_owned())
    );
    for wrong in [
        "file://host/x",
        "file:x",
        "file:///a%0",
        "file:///a%00",
        "mem://x",
        "mem:a b",
    ] {
        refusal(wrong);
    }
}

#[test]
fn what_is_not_supported_says_so() {
    for url in [
        "",
        "http://host",
        "redis:/host",
        "REDIS://host",
        "postgres://h",
    ] {
        assert!(refusal(url).contains("redis+unix:///path"), "{url}");
    }
}

#[cfg(feature = "redis")]
#[test]
fn a_service_has_its_sentinels_the_login_of_its_servers_and_another_of_the_sentinels() {
    let url = redis("redis+sentinel://me:p%40ss@a,[::1]:7000,a:26379,10.0.0.1:1/my-locks_1.x/3");
    let Place::Watched(sentinels) = &url.place else {
        panic!("{url:?}")
    };
    let known = [("a", 26379), ("::1", 7000), ("10.0.0.1", 1)];
    assert_eq!(
        sentinels.known,
        known.map(|(host, port)| (host.to_owned(), port))
    );
    assert_eq!(
        (sentinels.service.as_str(), sentinels.tls, url.db),
        ("my-locks_1.x", false, 3)
    );
    assert_eq!(
        (url.user.as_deref(), url.password.as_deref()),
        (Some("me"), Some("p@ss"))
    );
    assert_eq!((&sentinels.user, &sentinels.password), (&None, &None));
    assert_eq!(
        url.to_string(),
        "redis+sentinel://a:26379,[::1]:7000,10.0.0.1:1/my-locks_1.x/3"
    );

    let url =
        redis("redis+sentinel://:hunter2@a/locks?sentinel_user=marvin&sentinel_pass=hunt%26er3");
    let Place::Watched(sentinels) = &url.place else {
        panic!("{url:?}")
    };
    assert_eq!(sentinels.user.as_deref(), Some("marvin"));
    assert_eq!(sentinels.password.as_deref(), Some("hunt&er3"));
    for shown in [
        format!("{url:?}"),
        url.to_string(),
        format!("{:?}", url.place),
    ] {
        assert!(
            !shown.contains("hunt") && !shown.contains("marvin"),
            "{shown}"
        );
    }
}

#[cfg(feature = "redis")]
#[test]
fn a_url_of_sentinels_that_is_not_right_says_what_would_be() {
    for (url, says) in [
        ("redis+sentinel://a:1,b:2", "the name under which"),
        ("redis+sentinel://a:1,b:2/", "the name under which"),
        ("redis+sentinel://a/my locks", "the name under which"),
        ("redis+sentinel://a/0", "comes before the number"),
        ("redis+sentinel://a/locks/x", "number of a database"),
        ("redis+sentinel://a,/locks", "host name"),
        ("redis+sentinel:///locks", "host name"),
        (
            "redis+sentinel://a/locks#insecure",
            "nothing may follow a #",
        ),
        (
            "redis+sentinel://a/locks?db=1",
            "sentinel_user and sentinel_pass",
        ),
        (
            "redis+sentinel://a/locks?sentinel_user=x",
            "&sentinel_pass=…",
        ),
        ("redis+sentinel://me@a/locks", "without a password"),
    ] {
        assert!(refusal(url).contains(says), "{url}: {}", refusal(url));
    }
}

#[cfg(not(feature = "redis"))]
#[test]
fn sentinels_that_are_not_built_in_name_their_feature() {
    assert!(refusal("redis+sentinel://a/locks").contains("`redis`"));
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_a_scheme_of_its_own_and_is_never_unchecked() {
    assert_eq!(
        redis("rediss://h:7000").place,
        Place::Tcp {
            host: "h".to_owned(),
            port: 7000,
            tls: true
        }
    );
    assert!(refusal("rediss://h#insecure").contains("SSL_CERT_FILE"));
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_that_is_not_built_in_names_its_feature() {
    assert!(refusal("rediss://h:7000").contains("`tls`"));
}

#[test]
fn malformed_urls_are_refused_without_repeating_a_secret() {
    let secret = "hunter2";
    for url in [
        "redis://:hunter2@ss word@h",
        "redis://:p@ss hunter2@h",
        "redis://:hunter2/x@h",
        "redis://:hunter2#x@h",
        "redis://:hunter2?x@h",
        "redis://:hunter2%@h",
        "redis://:hunter2%zz@h",
        "redis://hunter2@h",
        "redis://h:hunter2",
        "redis://h/hunter2",
        "redis://hunter2 x",
        "redis://[hunter2]:1",
        "redis://[::1]hunter2",
        "redis://h:0",
        "redis://h:+1",
        "redis://h:70000",
        "redis://h/99999999999999999999",
        "redis://h/-1",
        "redis://",
        "redis://:hunter2@",
        "redis+unix://:hunter2@h",
        "redis+unix:///x?hunter2=1",
        "redis+unix:///x?pass=%hunter2",
        "redis+sentinel://:hunter2/x@h/locks",
        "redis+sentinel://:hunter2@s s@h/locks",
        "redis+sentinel://h/hunter2 x",
        "redis+sentinel://h/locks/hunter2",
        "redis+sentinel://h/locks?sentinel_pass=%hunter2",
        "redis+sentinel://h/locks?hunter2",
        "hunter2://h",
        "hunter2",
    ] {
        assert!(!refusal(url).contains(secret), "{url}: {}", refusal(url));
    }
}

#[cfg(feature = "redis")]
#[test]
fn neither_debug_nor_display_shows_the_login() {
    let url = redis("redis://marvin:hunter2@h:1/2");
    for shown in [
        format!("{url:?}"),
        url.to_string(),
        format!("{:?}", Target::Redis(url)),
    ] {
        assert!(
            shown.contains("redis://h:1/2")
                && !shown.contains("hunter2")
                && !shown.contains("marvin"),
            "{shown}"
        );
    }
    assert_eq!(redis("redis://[::1]").to_string(), "redis://[::1]:6379/0");
    assert_eq!(
        redis("redis+unix:///s?db=1&pass=hunter2").to_string(),
        "redis+unix:///s?db=1"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(url in ".{0,60}", scheme in 0..8usize) {
        let schemes =
            ["redis://", "rediss://", "redis+unix://", "redis+sentinel://", "file:", "mem:", "redis://u:p@[", ""];
        drop(parse(&format!("{}{url}", schemes[scheme])));
    }

    #[test]
    fn no_message_repeats_a_password_wherever_a_stray_character_moves_it(
        before in "[a-z:@/?#%\\[\\] ]{0,4}", after in "[a-z:@/?#%\\[\\] ]{0,4}", scheme in 0..5usize,
    ) {
        let scheme = [
            "redis://",
            "rediss://",
            "redis+unix:///s?pass=",
            "redis+sentinel://",
            "redis+sentinel://a/locks?sentinel_pass=",
        ][scheme];
        for url in [
            format!("{scheme}:{before}xyzzy9{after}@host/0"),
            format!("{scheme}{before}xyzzy9{after}:p@host"),
        ] {
            let shown = match parse(&url) {
                Ok(target) => format!("{target:?}"),
                Err(error) => error.to_string(),
            };
            prop_assert!(!shown.contains("xyzzy9"), "{}", shown);
        }
    }

    #[test]
    fn any_login_survives_escaping(user in ".{1,12}", password in ".{0,12}", db in 0..100u32) {
        let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        if cfg!(feature = "redis") {
            let url = redis(&format!("redis://{}:{}@h/{db}", escaped(&user), escaped(&password)));
            prop_assert_eq!((url.user, url.password, url.db), (Some(user), Some(password), db));
        }
    }
}

#[cfg(feature = "redis")]
#[test]
fn a_cluster_is_named_by_some_of_its_nodes_with_one_login() {
    let nodes = |url: &str| match parse(url) {
        Ok(Target::Cluster(nodes)) => nodes,
        other => panic!("{url}: {other:?}"),
    };
    let shown = |url: &str| {
        let nodes = nodes(url);
        nodes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        shown("redis+cluster://a:1,b,[::1]:3/"),
        ["redis://a:1/0", "redis://b:6379/0", "redis://[::1]:3/0"]
    );
    for node in nodes("redis+cluster://me:p%40ss@a,b/0") {
        assert_eq!(node.user.as_deref(), Some("me"));
        assert_eq!(node.password.as_deref(), Some("p@ss"));
    }
    for (url, what) in [
        ("redis+cluster://a:1/2", "one database"),
        ("redis+cluster://", "host name"),
        ("redis+cluster://a,,b", "host name"),
        ("redis+cluster://a:0", "port"),
        ("redis+cluster://a?x=1", "follow"),
        ("redis+cluster://me@a", "without a password"),
    ] {
        assert!(refusal(url).contains(what), "{url}");
    }
}
