//! The program that runs a library, and what is said to it: peers/README.md has the words.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::Server;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::peer::{Peer, Registry};

/// How long anything may take that happens at once on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// What waits in a library's own way does so for this long: longer than any test is patient.
const TRIES: u32 = 1000;

/// A library that runs. It ends with this value.
pub(crate) struct Driver {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// What it said to an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Got(Theirs),
    Done,
    Refused(String),
}

/// A lock that the library holds, or held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theirs(u64);

impl Driver {
    /// Starts it on a server. Checks that it is the version that its table names.
    pub(crate) async fn start(peer: &Peer, folder: &Path, server: &Server) -> Driver {
        let mut child = command(peer, folder)
            .arg(server.port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut driver = Driver {
            child,
            orders,
            answers,
        };
        let hello = driver.hear().await;
        assert_eq!(hello["version"], peer.version, "{}", peer.library);
        driver
    }

    /// One try.
    pub(crate) async fn try_acquire(&mut self, name: &str, ttl: Duration) -> Answer {
        self.say_acquire(name, ttl, 1).await;
        self.answer().await
    }

    /// One try, for a lock that is free.
    pub(crate) async fn acquire(&mut self, name: &str, ttl: Duration) -> Theirs {
        self.try_acquire(name, ttl).await.got()
    }

    /// Begins to wait in the library's own way; [`Driver::answer`] tells how that ended.
    pub(crate) async fn begin_to_wait(&mut self, name: &str, ttl: Duration) {
        self.say_acquire(name, ttl, TRIES).await;
    }

    /// Begins to wait until it is woken.
    pub(crate) async fn begin_to_sleep(&mut self, name: &str, ttl: Duration) {
        self.say_acquire(name, ttl, 0).await;
    }

    pub(crate) async fn extend(&mut self, lock: Theirs, ttl: Duration) -> Answer {
        let order = json!({ "do": "extend", "lock": lock.0, "ttl_ms": millis(ttl) });
        self.say(&order).await;
        self.answer().await
    }

    pub(crate) async fn release(&mut self, lock: Theirs) -> Answer {
        self.say(&json!({ "do": "release", "lock": lock.0 })).await;
        self.answer().await
    }

    /// The next answer; a library that is in trouble fails the test.
    pub(crate) async fn answer(&mut self) -> Answer {
        let answer = self.hear().await;
        if let Some(number) = answer["got"].as_u64() {
            return Answer::Got(Theirs(number));
        }
        if let Some(words) = answer["refused"].as_str() {
            return Answer::Refused(words.to_owned());
        }
        assert_eq!(answer["done"], true, "{answer}");
        Answer::Done
    }

    async fn say_acquire(&mut self, name: &str, ttl: Duration, tries: u32) {
        let ttl = millis(ttl);
        let order = json!({ "do": "acquire", "name": name, "ttl_ms": ttl, "tries": tries });
        self.say(&order).await;
    }

    async fn say(&mut self, order: &Value) {
        let line = format!("{order}\n");
        self.orders.write_all(line.as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = soon(self.answers.next_line()).await.unwrap();
        match line {
            Some(line) => serde_json::from_str(&line).unwrap(),
            None => panic!("the driver ended: {:?}", self.child.wait().await),
        }
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn got(self) -> Theirs {
        match self {
            Answer::Got(lock) => lock,
            other => panic!("no lock: {other:?}"),
        }
    }

    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Answer::Refused(_))
    }
}

fn command(peer: &Peer, folder: &Path) -> Command {
    let sources = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers"));
    let mut command = match peer.registry {
        Registry::Npm => {
            let mut node = Command::new("node");
            node.arg(sources.join("node/driver.js")).arg(folder);
            node
        }
        Registry::PyPi => {
            let mut python = Command::new(folder.join("bin/python"));
            // What it compiles would lie among the sources.
            python.arg("-B").arg(sources.join("python/driver.py"));
            python
        }
        Registry::CratesIo => Command::new(folder.join("debug/peers")),
    };
    command.arg(peer.library);
    command
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

/// Fails rather than hangs.
#[track_caller]
pub(crate) fn soon<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(PATIENCE, future).await {
            Ok(value) => value,
            Err(_) => panic!("{caller}: not within {PATIENCE:?}"),
        }
    }
}

/// Says something although the test is a good one, whose output is not shown.
pub(crate) fn tell(words: &str) {
    let line = format!("{words}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
