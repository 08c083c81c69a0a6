//! Checkers of single values: in memory, in Redis, in a folder.

use std::sync::atomic::{AtomicU64, Ordering};

use leaselock::{Name, Sequencer};
use leaselock_fence::redis::{ADMIT, READ_OR_WRITE};
use leaselock_fence::{FenceChecker, FileFenceChecker, FileFenceError};
use testkit::{Server, Value};

use super::{Late, NAME, Resource, refuses_whoever_is_late, rounds, shown};

struct InMemory(FenceChecker, u64);

impl Resource for InMemory {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        self.0.admit(shown).map(|_| self.1).map_err(|_| Late)
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        let _nothing_to_store = self.0.admit(shown).map_err(|_| Late)?;
        self.1 = value;
        Ok(())
    }
}

#[tokio::test]
async fn the_checker_in_memory_refuses_whoever_is_late() {
    let checker = FenceChecker::new(Name::new(NAME).unwrap());
    refuses_whoever_is_late(&mut InMemory(checker, 0), rounds(1000, 10_000)).await;
}

struct InRedis(Server);

impl InRedis {
    fn call(&self, shown: &Sequencer, value: &[String]) -> Result<u64, Late> {
        let fence = shown.fence().to_string();
        let mut call = vec!["EVAL", READ_OR_WRITE, "1", NAME, &fence, shown.owner()];
        call.extend(value.iter().map(String::as_str));
        let Value::List(reply) = self.0.cli(&call) else {
            panic!("no reply of a script")
        };
        let words: Vec<Option<String>> = reply.into_iter().map(text).collect();
        match (words[0].as_deref(), words.get(1).cloned().flatten()) {
            (Some("admitted"), value) => Ok(value.map_or(0, |digits| digits.parse().unwrap())),
            (Some("stale"), Some(seen)) => {
                assert!(seen.parse::<u64>().unwrap() >= shown.fence().get());
                Err(Late)
            }
            _ => panic!("{words:?}"),
        }
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Bytes(bytes) => Some(String::from_utf8(bytes).unwrap()),
        _ => None,
    }
}

impl Resource for InRedis {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        self.call(shown, &[])
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        assert_eq!(self.call(shown, &[value.to_string()])?, value);
        Ok(())
    }
}

#[tokio::test]
async fn the_checker_in_redis_refuses_whoever_is_late() {
    refuses_whoever_is_late(&mut InRedis(Server::start()), rounds(500, 10_000)).await;
}

#[test]
fn the_function_for_redis_guards_a_script_of_the_users_own() {
    let server = Server::start();
    let script = format!(
        "{ADMIT}
        local stale = fence_admit(KEYS[1], ARGV[1], ARGV[2])
        if stale then return stale end
        return {{ 'admitted', redis.call('RPUSH', KEYS[2], ARGV[3]) }}"
    );
    let push = |fence: &str, owner: &str, item: &str| {
        server.cli(&[
            "EVAL",
            &script,
            "2",
            "{log}:fence",
            "{log}",
            fence,
            owner,
            item,
        ])
    };
    let admitted = |length| {
        Value::List(vec![
            Value::Bytes(b"admitted".into()),
            Value::Integer(length),
        ])
    };
    assert_eq!(push("34", "b", "one"), admitted(1));
    let stale = ["stale", "34", "b"].map(|word| Value::Bytes(word.into()));
    assert_eq!(push("33", "a", "late"), Value::List(stale.to_vec()));
    assert_eq!(push("34", "b", "two"), admitted(2));
    assert_eq!(server.cli(&["LLEN", "{log}"]), Value::Integer(2));
    // What another program keeps under the key is left as it is.
    server.cli(&["SET", "{other}:fence", "1"]);
    let call = [
        "EVAL",
        &script,
        "2",
        "{other}:fence",
        "{other}",
        "33",
        "a",
        "item",
    ];
    assert!(matches!(server.cli(&call), Value::Error(_)));
    assert_eq!(server.cli(&["EXISTS", "{other}"]), Value::Integer(0));
}

const BALANCE: &str = "balance";

impl Resource for FileFenceChecker {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        balance(self, shown)
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        set_balance(self, shown, value)
    }
}

fn balance(folder: &FileFenceChecker, shown: &Sequencer) -> Result<u64, Late> {
    let digits = FileFenceChecker::read(folder, shown, BALANCE).map_err(late)?;
    let digits = digits.map(|digits| String::from_utf8(digits).unwrap());
    Ok(digits.map_or(0, |digits| digits.parse().unwrap()))
}

fn set_balance(folder: &FileFenceChecker, shown: &Sequencer, value: u64) -> Result<(), Late> {
    let digits = value.to_string();
    FileFenceChecker::write(folder, shown, BALANCE, digits.as_bytes()).map_err(late)
}

fn late(error: FileFenceError) -> Late {
    assert!(matches!(error, FileFenceError::Refused(_)), "{error}");
    Late
}

fn in_folder(folder: &testkit::TempDir) -> FileFenceChecker {
    FileFenceChecker::new(folder.path(), Name::new(NAME).unwrap())
}

#[tokio::test]
async fn the_checker_of_a_folder_refuses_whoever_is_late() {
    let folder = testkit::tempdir().unwrap();
    refuses_whoever_is_late(&mut in_folder(&folder), rounds(30, 10_000)).await;
}

/// Each holder adds 1 to what it has read. The writes of those that were admitted are all there.
#[test]
fn holders_that_come_at_the_same_time_lose_no_write_in_a_folder() {
    const HOLDERS: u64 = 60;
    let folder = testkit::tempdir().unwrap();
    let (next, written) = (AtomicU64::new(1), AtomicU64::new(0));
    let holds = || {
        let checker = in_folder(&folder);
        loop {
            let fence = next.fetch_add(1, Ordering::Relaxed);
            if fence > HOLDERS {
                return;
            }
            let shown = shown(fence, "x");
            let seen = balance(&checker, &shown);
            if seen.is_ok_and(|seen| set_balance(&checker, &shown, seen + 1).is_ok()) {
                written.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(holds);
        }
    });
    let last = balance(&in_folder(&folder), &shown(HOLDERS + 1, "y")).unwrap();
    assert_eq!(last, written.into_inner());
    assert!(last > 0);
}
