//! The children, seen from their parent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::child::{Answer, Follow, Job, Kept, Paired, Pairs, SeenLeader, Turned, Turns};
use crate::contender::{Kind, Setup, by_hand::Seen, text};

/// What a child may take longer than it was asked to work.
const PATIENCE: Duration = Duration::from_secs(90);

/// The folder with the libraries that run in Node and in Python; `cargo xtask bench` names it.
const PEERS: &str = "LEASELOCK_BENCH_PEERS";
/// What drives them.
const NODE_DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/node/driver.js");
const PYTHON_DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/python/driver.py");

/// The program of the other build.
static BEFORE: OnceLock<PathBuf> = OnceLock::new();

/// Lets each workload measure this other build of the benchmark too, beside its own.
pub fn compare_with(program: PathBuf) {
    BEFORE.set(program).ok(); // the command line is read once
}

/// Each build of leaselock is followed by the other one, if there is one to compare with.
pub fn paired(kinds: &[Kind]) -> Vec<Kind> {
    let other = |kind: &Kind| BEFORE.get().and(kind.before());
    let pair = |kind: &Kind| std::iter::once(*kind).chain(other(kind));
    kinds.iter().flat_map(pair).collect()
}

/// The program of a contender, with its first arguments.
fn program(kind: Kind) -> Result<Command, String> {
    if let Some(library) = kind.in_node() {
        let mut node = Command::new("node");
        node.arg(NODE_DRIVER).arg(library);
        let packages = installed("measured", "node and npm")?.join("node_modules");
        node.env("NODE_PATH", packages);
        return Ok(node);
    }
    if let Some(library) = kind.in_python() {
        let folder = installed("measured-python", "python with venv")?;
        let mut python = Command::new(folder.join("bin/python"));
        python.arg(PYTHON_DRIVER).arg(library);
        return Ok(python);
    }
    if kind == kind.as_child() {
        return Ok(Command::new(std::env::current_exe().map_err(text)?));
    }
    let before = BEFORE.get().map(Command::new);
    before.ok_or_else(|| format!("{}: --before names its program", kind.name()))
}

/// Where the libraries of one language are.
fn installed(folder: &str, needs: &str) -> Result<PathBuf, String> {
    let all = std::env::var_os(PEERS).map(PathBuf::from);
    let folder = all.map(|all| all.join(folder));
    let there = folder.filter(|folder| folder.join("ready").is_file());
    there.ok_or_else(|| format!("it needs {needs}, and `cargo xtask bench`"))
}

/// One contender in one process; it is killed when this is dropped.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    pub kind: Kind,
}

impl Worker {
    pub fn start(kind: Kind, urls: &[String], seen: Option<Seen>) -> Result<Worker, String> {
        let setup = Setup {
            kind: kind.as_child(),
            urls: urls.to_vec(),
            seen,
        };
        let setup = serde_json::to_string(&setup).map_err(text)?;
        let mut command = program(kind)?;
        command
            .args(["child", &setup])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(text)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err("a child without pipes".to_owned());
        };
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Worker {
            child,
            input,
            answers,
            kind,
        })
    }

    pub fn pairs(&mut self, job: Pairs) -> Result<Paired, String> {
        let ms = job.ms;
        self.begin(&Job::Pairs(job))?;
        match self.end(ms)? {
            Answer::Pairs(paired) => Ok(paired),
            other => Err(format!("{}: {other:?}", self.kind.name())),
        }
    }

    /// Starts without waiting for the end, so that several processes work at once.
    pub fn begin_turns(&mut self, job: Turns) -> Result<(), String> {
        self.begin(&Job::Turns(job))
    }

    pub fn end_turns(&mut self, ms: u64) -> Result<Turned, String> {
        match self.end(ms)? {
            Answer::Turns(turned) => Ok(turned),
            other => Err(format!("{}: {other:?}", self.kind.name())),
        }
    }

    /// Starts as [`begin_turns`](Worker::begin_turns) does.
    pub fn begin_following(&mut self, job: Follow) -> Result<(), String> {
        self.begin(&Job::Follow(job))
    }

    pub fn end_following(&mut self, ms: u64) -> Result<Vec<SeenLeader>, String> {
        match self.end(ms)? {
            Answer::Followed(seen) => Ok(seen),
            other => Err(format!("{}: {other:?}", self.kind.name())),
        }
    }

    /// Resident memory before and after.
    pub fn hold(&mut self, job: crate::child::Hold) -> Result<(u64, u64), String> {
        self.begin(&Job::Hold(job))?;
        match self.end(60_000)? {
            Answer::Held {
                rss_before,
                rss_after,
            } => Ok((rss_before, rss_after)),
            other => Err(format!("{}: {other:?}", self.kind.name())),
        }
    }

    pub fn watch(&mut self, ms: u64) -> Result<Kept, String> {
        self.begin(&Job::Watch { ms })?;
        match self.end(ms)? {
            Answer::Watched(kept) => Ok(kept),
            other => Err(format!("{}: {other:?}", self.kind.name())),
        }
    }

    fn begin(&mut self, job: &Job) -> Result<(), String> {
        let line = serde_json::to_string(job).map_err(text)?;
        writeln!(self.input, "{line}").map_err(|error| format!("{}: {error}", self.kind.name()))
    }

    fn end(&mut self, ms: u64) -> Result<Answer, String> {
        let line = self
            .answers
            .recv_timeout(Duration::from_millis(ms) + PATIENCE);
        let line = line.map_err(|error| format!("{}: {error}", self.kind.name()))?;
        match serde_json::from_str(&line).map_err(text)? {
            Answer::Failed(why) => Err(format!("{}: {why}", self.kind.name())),
            answer => Ok(answer),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
