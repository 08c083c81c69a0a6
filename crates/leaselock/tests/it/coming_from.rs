//! What users of other libraries find here: the rows of docs/from-*.md, each with the test that it names.

mod redis_exp_lock;
mod redis_py;
mod redislock;
mod redisson;
mod redlock;
mod redsync;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use leaselock::inspect::BreakOptions;
use leaselock::{Client, Lease, Mutex, Wait};
use testkit::Server;

use crate::support::{LONG, millis};

const PAGES: [&str; 7] = [
    include_str!("../../../../docs/from-node.md"),
    include_str!("../../../../docs/from-python.md"),
    include_str!("../../../../docs/from-go.md"),
    include_str!("../../../../docs/from-java.md"),
    include_str!("../../../../docs/from-rust.md"),
    include_str!("../../../../docs/from-shell.md"),
    include_str!("../../../../docs/from-services.md"),
];

/// A server and two clients of it, each with a mutex on the same name.
struct Rig {
    server: Server,
    one: Client,
    two: Client,
}

impl Rig {
    fn start() -> Rig {
        let server = Server::start();
        let client = || Client::open(&server.url()).unwrap();
        let (one, two) = (client(), client());
        Rig { server, one, two }
    }

    /// The lock `job`, for the client that holds it first.
    fn mine(&self) -> Mutex {
        self.one.mutex("job").ttl(LONG)
    }

    /// The same lock, for the other client.
    fn theirs(&self) -> Mutex {
        self.two.mutex("job").ttl(LONG)
    }

    /// Takes the lock from its holder, as an expiry would.
    async fn take_away(&self) {
        let terms = BreakOptions::default().now();
        self.two.break_lease("job", terms).await.unwrap();
    }
}

/// So many tries beyond the first, a moment apart.
fn tries(count: u32) -> Wait {
    Wait::Poll {
        count: Some(count),
        delay: millis(1),
        jitter_percent: 0,
    }
}

async fn acquired(mutex: &Mutex) -> Lease {
    mutex.try_acquire().await.unwrap().unwrap()
}

/// The last cell of each row is `[name](file)`: a test of that name in that file. A file of
/// `coming_from/` has no test without a row.
#[test]
fn each_row_of_the_pages_names_a_test_that_exists() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut named = BTreeSet::new();
    let heads = ["| there |", "|---"];
    let rows = PAGES.iter().flat_map(|page| page.lines());
    let rows = rows.filter(|line| line.starts_with('|'));
    for row in rows.filter(|row| !heads.iter().any(|head| row.starts_with(head))) {
        let (_, link) = row
            .rsplit_once(" | [")
            .unwrap_or_else(|| panic!("no test: {row}"));
        let (name, file) = link.split_once("](").unwrap();
        let file = file.split(')').next().unwrap();
        let text = fs::read_to_string(docs.join(file)).unwrap();
        assert!(text.contains(&format!("fn {name}(")), "no {name} in {file}");
        if file.contains("/tests/it/coming_from/") {
            named.insert((file.to_owned(), name.to_owned())); // other files test more than the page
        }
    }
    assert!(named.len() > 50, "{}", named.len());
    for file in named.iter().map(|(file, _)| file).collect::<BTreeSet<_>>() {
        let text = fs::read_to_string(docs.join(file)).unwrap();
        let tests = text
            .split("#[")
            .filter(|part| part.starts_with("test]") || part.starts_with("tokio::test]"));
        for test in tests {
            let (_, rest) = test.split_once("fn ").unwrap();
            let name = rest.split('(').next().unwrap().to_owned();
            assert!(
                named.contains(&(file.clone(), name.clone())),
                "no row for {name}"
            );
        }
    }
}
