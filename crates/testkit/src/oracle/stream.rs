//! Reading the stream of a server, and the server's own account of it.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::adopt::Found;
use super::judge::{Judge, MARKER, Snapshot};
use super::report::{Report, Rule};
use crate::clock;
use crate::resp::{Connection, Value};
use crate::server::Server;

const MARK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(60);

/// The oracle between two servers.
#[derive(Debug, Default)]
pub struct Oracle {
    judge: Judge,
}

/// The oracle while it follows a server.
#[derive(Debug)]
pub struct Watch {
    reader: JoinHandle<Judge>,
    prober: JoinHandle<()>,
    ends: Arc<AtomicBool>,
    progress: Arc<Mutex<Progress>>,
}

/// How far the reader was at the latest marker.
#[derive(Debug, Default)]
struct Progress {
    report: Report,
    behind: Duration,
}

impl Oracle {
    /// Follows this server from now on. No client may reach it yet: what it holds is read first, and leases that a
    /// server before has granted count beside it.
    #[must_use]
    pub fn follow(mut self, server: &Server) -> Watch {
        let port = server.port();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server is there");
        let mut lines = BufReader::with_capacity(1 << 20, stream);
        lines
            .get_mut()
            .write_all(b"MONITOR\r\n")
            .expect("the server listens");
        let mut answer = String::new();
        lines.read_line(&mut answer).expect("the server answers");
        assert_eq!(answer.trim_end(), "+OK", "MONITOR");
        let mut connection = Connection::open(port, PATIENCE).expect("the server is there");
        let keys = keys(&mut connection);
        self.judge.adopt(keys, clock::wall_us());
        let ends = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = channel();
        let prober = std::thread::spawn({
            let ends = Arc::clone(&ends);
            move || probe(connection, &ends, &sender)
        });
        let progress = Arc::<Mutex<Progress>>::default();
        let reader = std::thread::spawn({
            let progress = Arc::clone(&progress);
            move || read(lines, self.judge, &receiver, &progress)
        });
        Watch {
            reader,
            prober,
            ends,
            progress,
        }
    }

    /// All that was seen.
    pub fn report(self) -> Report {
        self.judge.report
    }
}

impl Watch {
    /// What was seen so far, of all servers.
    pub fn so_far(&self) -> Report {
        self.progress().report.clone()
    }

    /// How old the commands are that it reads. The server keeps in memory what it has not read.
    pub fn behind(&self) -> Duration {
        self.progress().behind
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends at a last marker. A stream that broke off before is a gap.
    pub fn end(self) -> Oracle {
        self.ends.store(true, Ordering::SeqCst);
        self.prober.join().expect("the prober does not panic");
        let mut judge = self.reader.join().expect("the reader does not panic");
        if !judge.is_complete {
            judge.accuse(Rule::Gap, "", "the stream broke off".to_owned());
        }
        Oracle { judge }
    }

    /// Reads what a server that was killed has sent.
    pub fn broken_off(self) -> Oracle {
        self.ends.store(true, Ordering::SeqCst);
        self.prober.join().expect("the prober does not panic");
        let judge = self.reader.join().expect("the reader does not panic");
        Oracle { judge }
    }
}

/// Until the last marker, or the end of the stream.
fn read(
    mut lines: impl BufRead,
    mut judge: Judge,
    snapshots: &Receiver<Snapshot>,
    progress: &Mutex<Progress>,
) -> Judge {
    let mut line = String::new();
    judge.is_complete = false;
    loop {
        line.clear();
        let read = lines.read_line(&mut line);
        if !matches!(read, Ok(1..)) || !line.ends_with('\n') {
            return judge;
        }
        let text = line.trim_end().trim_start_matches('+');
        let Some(marker) = judge.line(text) else {
            continue;
        };
        let Ok(snapshot) = snapshots.recv() else {
            continue; // the server was killed before it answered
        };
        judge.mark(&snapshot);
        let behind_us = clock::wall_us().saturating_sub(judge.now_us());
        *progress.lock().unwrap_or_else(PoisonError::into_inner) = Progress {
            report: judge.report.clone(),
            behind: Duration::from_micros(behind_us),
        };
        if marker == LAST {
            judge.is_complete = true;
            return judge;
        }
    }
}

const LAST: &str = "last";

/// Sends markers, each with the server's account of the same moment.
fn probe(mut connection: Connection, ends: &AtomicBool, snapshots: &Sender<Snapshot>) {
    loop {
        let is_last = ends.load(Ordering::SeqCst);
        let marker = format!("{MARKER}{}", if is_last { LAST } else { "on" });
        let Some(snapshot) = snapshot(&mut connection, &marker) else {
            return;
        };
        if snapshots.send(snapshot).is_err() || is_last {
            return;
        }
        // Suspicions wait for the next marker, and each marker costs the server as much as some dozen requests.
        std::thread::sleep(MARK_EVERY);
    }
}

/// One transaction: nothing runs between the marker and what the server says of it.
fn snapshot(connection: &mut Connection, marker: &str) -> Option<Snapshot> {
    for command in [
        &["MULTI"][..],
        &["ECHO", marker],
        &["INFO", "commandstats"],
        &["CLIENT", "LIST"],
    ] {
        connection.call(command).ok()?;
    }
    let answer = connection.call(&["EXEC"]).ok()?;
    let [_, stats, clients] = answer.list()? else {
        return None;
    };
    Some(Snapshot {
        calls: stats.text()?.lines().filter_map(calls).collect(),
        clients: clients.text()?.lines().filter_map(client).collect(),
    })
}

/// `cmdstat_set:calls=12,usec=…`
fn calls(line: &str) -> Option<(String, u64)> {
    let (verb, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (count, _) = rest.split_once(',')?;
    Some((verb.to_owned(), count.parse().ok()?))
}

/// `id=3 addr=127.0.0.1:57630 …`
fn client(line: &str) -> Option<(String, u64)> {
    let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name));
    Some((field("addr=")?.to_owned(), field("id=")?.parse().ok()?))
}

/// Everything that the server holds.
fn keys(connection: &mut Connection) -> Vec<(String, Found)> {
    let mut call = |args: &[&str]| connection.call(args).expect("the server answers");
    let texts = |value: &Value| -> Vec<String> {
        let list = value.list().unwrap_or_default().iter();
        list.filter_map(|one| one.text().map(str::to_owned))
            .collect()
    };
    let pairs = |value: &Value| -> Vec<(String, String)> {
        let texts = texts(value);
        let pairs = texts.chunks_exact(2);
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    };
    let names = texts(&call(&["KEYS", "*"]));
    let mut found = Vec::new();
    for key in names {
        let now_us = clock::wall_us();
        let ttl_ms = call(&["PTTL", &key]).integer().unwrap_or_default();
        let ends_us = now_us + u64::try_from(ttl_ms).unwrap_or_default() * 1_000;
        let kind = call(&["TYPE", &key]);
        let value = match kind.text() {
            Some("string") => Found::Text {
                value: call(&["GET", &key]).text().unwrap_or_default().to_owned(),
                ends_us,
            },
            Some("zset") => Found::Sorted {
                members: pairs(&call(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])),
                ends_us,
            },
            Some("stream") => {
                let mut about = texts(&call(&["XINFO", "STREAM", &key])).into_iter();
                about.find(|what| what == "last-generated-id");
                let last_id = about.next().expect("a stream has a latest id");
                Found::Stream { last_id }
            }
            Some("hash") => Found::Fields(pairs(&call(&["HGETALL", &key]))),
            _ => continue,
        };
        found.push((key, value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_of_a_server_are_read() {
        let line = "cmdstat_set:calls=12,usec=3,usec_per_call=0.25,rejected_calls=0,failed_calls=0";
        assert_eq!(calls(line), Some(("set".to_owned(), 12)));
        let line = "id=3 addr=127.0.0.1:57630 laddr=127.0.0.1:17351 fd=8 name= sub=1";
        assert_eq!(client(line), Some(("127.0.0.1:57630".to_owned(), 3)));
    }
}
