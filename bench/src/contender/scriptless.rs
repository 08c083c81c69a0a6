//! scriptless: a free lock by plain commands in place of the acquire script, through the bare client. It knows free names
//! only, so it shows the most that such a path can gain.
//!
//! The release is leaselock's own script, captured as for `by_hand.rs`, or `DELIFEQ` and a check of the queue.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, mpsc, oneshot};

use super::by_hand::{Seen, Words, with_name};
use super::{Contender, Hold, Inside, Kind, Lock, Setup, Turn, bare_connection, held, raw, text};

/// How many batches of one client are under way; what is asked meanwhile forms the next one.
const UNDER_WAY: usize = 4;
/// What XADD does: nothing is added, and the next id is used up.
const NEXT: [&str; 6] = ["MAXLEN", "=", "0", "*", "-", "-"];
/// As leaselock keeps the counter.
const FENCE_KEPT_MS: u64 = 93_600_000;
/// The second of the two that were captured.
const RELEASE: usize = 1;
/// Where the release script has its keys: behind EVALSHA, the script, and how many they are.
const LOCK: usize = 3;
const QUEUE: usize = 4;
const FENCE: usize = 6;

/// Which plain commands, and how many requests in one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    pub fenced: bool,
    /// At most so many requests in one write; 1: each alone.
    pub at_once: usize,
    /// The release is no script.
    pub delifeq: bool,
}

impl Form {
    pub fn name(self) -> &'static str {
        match (self.fenced, self.at_once, self.delifeq) {
            (true, 1, false) => "scriptless",
            (true, 1, true) => "scriptless, DELIFEQ",
            (true, 16, false) => "scriptless, by 16",
            (true, 16, true) => "scriptless, by 16, DELIFEQ",
            (true, _, _) => "scriptless, by 64",
            (false, 1, false) => "scriptless, unfenced",
            (false, 1, true) => "scriptless, unfenced, DELIFEQ",
            (false, 16, false) => "scriptless, unfenced, by 16",
            (false, 16, true) => "scriptless, unfenced, by 16, DELIFEQ",
            (false, _, _) => "scriptless, unfenced, by 64",
        }
    }

    /// Whose release script it uses.
    pub fn leaselock(self) -> Kind {
        match self.fenced {
            true => Kind::Leaselock,
            false => Kind::LeaselockUnfenced,
        }
    }

    pub fn inside_scripts(self) -> Inside {
        match self.delifeq {
            true => Inside::Nothing,
            false => Inside::Release,
        }
    }

    fn add_acquire(self, pipe: &mut Pipeline, ask: &Ask) {
        pipe.add_command(raw::set(&ask.words[LOCK], &ask.token));
        pipe.cmd("EXISTS").arg(&ask.words[QUEUE]);
        if self.fenced {
            let fence = &ask.words[FENCE];
            pipe.cmd("XADD").arg(fence).arg("NOMKSTREAM").arg(&NEXT);
            pipe.cmd("PEXPIRE").arg(fence).arg(FENCE_KEPT_MS);
        }
    }

    fn add_release(self, pipe: &mut Pipeline, ask: &Ask) {
        if self.delifeq {
            pipe.cmd("DELIFEQ").arg(&ask.words[LOCK]).arg(&ask.token);
            pipe.cmd("EXISTS").arg(&ask.words[QUEUE]);
        } else {
            let (token, words) = (&ask.token, &ask.words[..ask.words.len() - 1]);
            pipe.cmd(&words[0]).arg(&words[1..]).arg(token);
        }
    }

    /// Sends all of these in one write, acquisitions before releases, and says what became of each, in the same order.
    async fn exchange(
        self,
        connection: &mut MultiplexedConnection,
        asks: &mut [Ask],
    ) -> Result<Vec<Done>, String> {
        asks.sort_by_key(|ask| !ask.acquires);
        let acquires = asks.partition_point(|ask| ask.acquires);
        let in_transaction = self.fenced && acquires > 0;
        let mut pipe = Pipeline::new();
        if in_transaction {
            pipe.cmd("MULTI");
        }
        asks[..acquires]
            .iter()
            .for_each(|ask| self.add_acquire(&mut pipe, ask));
        // What is answered before EXEC says only that it is queued.
        let skipped = if in_transaction { pipe.len() } else { 0 };
        if in_transaction {
            pipe.cmd("EXEC");
        }
        asks[acquires..]
            .iter()
            .for_each(|ask| self.add_release(&mut pipe, ask));
        let sent = connection.send_packed_commands(&pipe, skipped, pipe.len() - skipped);
        let mut replies = sent.await.map_err(text)?;
        if in_transaction {
            let rest = replies.split_off(1);
            let Some(Value::Array(granted)) = replies.pop() else {
                return Err("EXEC did nothing".to_owned());
            };
            replies = granted;
            replies.extend(rest);
        }
        let of_acquire = if self.fenced { 4 } else { 2 };
        let of_release = if self.delifeq { 2 } else { 1 };
        let replies = replies.split_at_checked(acquires * of_acquire);
        let (acquired, released) = replies.ok_or("too few replies")?;
        let acquired = acquired.chunks(of_acquire).map(was_acquired);
        let released = released.chunks(of_release).map(was_released);
        Ok(acquired.chain(released).collect())
    }

    /// Sends batch after batch: what is there when it begins, at most so many.
    async fn send_batches(
        self,
        mut connection: MultiplexedConnection,
        asks: Arc<Mutex<mpsc::UnboundedReceiver<Ask>>>,
    ) {
        let mut batch = Vec::new();
        loop {
            let mut waiting = asks.lock().await;
            if waiting.recv_many(&mut batch, self.at_once).await == 0 {
                return;
            }
            // Tasks that are ready to run ask before the batch leaves; it waits for no other task.
            tokio::task::yield_now().await;
            while batch.len() < self.at_once
                && let Ok(ask) = waiting.try_recv()
            {
                batch.push(ask);
            }
            drop(waiting);
            let done = self.exchange(&mut connection, &mut batch).await;
            let done = done.unwrap_or_else(|why| vec![Err(why); batch.len()]);
            for (ask, done) in batch.drain(..).zip(done) {
                // No task waits any more when the round has failed.
                ask.reply.and_then(|reply| reply.send(done).ok());
            }
        }
    }
}

/// An acquisition or a release.
struct Ask {
    acquires: bool,
    words: Words,
    token: String,
    /// In batches only.
    reply: Option<oneshot::Sender<Done>>,
}

/// False: held without a number, because there is no counter.
type Done = Result<bool, String>;

fn was_acquired(replies: &[Value]) -> Done {
    match replies {
        [Value::Okay, Value::Int(0)] => Ok(true),
        [
            Value::Okay,
            Value::Int(0),
            Value::BulkString(_),
            Value::Int(1),
        ] => Ok(true),
        [Value::Okay, Value::Int(0), Value::Nil, Value::Int(0)] => Ok(false),
        other => Err(format!("scriptless does not wait: {other:?}")),
    }
}

fn was_released(replies: &[Value]) -> Done {
    match replies {
        [Value::Array(tag)] if tag == &[Value::BulkString(b"released".to_vec())] => Ok(true),
        [Value::Int(1), Value::Int(0)] => Ok(true),
        other => Err(format!("scriptless lost its key: {other:?}")),
    }
}

#[derive(Clone)]
pub struct Scriptless {
    form: Form,
    connection: MultiplexedConnection,
    seen: Seen,
    /// `None` where each request goes alone.
    asks: Option<mpsc::UnboundedSender<Ask>>,
}

impl Contender for Scriptless {
    type Lock = ScriptlessLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let Kind::Scriptless(form) = setup.kind else {
            return Err("it has no form".to_owned());
        };
        let connection = bare_connection(setup.url()).await?;
        let seen = setup.seen.clone().ok_or("nothing was captured")?;
        let mut asks = None;
        if form.at_once > 1 {
            let (sender, waiting) = mpsc::unbounded_channel();
            let waiting = Arc::new(Mutex::new(waiting));
            for _ in 0..UNDER_WAY {
                tokio::spawn(form.send_batches(connection.clone(), waiting.clone()));
            }
            asks = Some(sender);
        }
        Ok(Scriptless {
            form,
            connection,
            seen,
            asks,
        })
    }

    fn lock(&self, name: &str) -> ScriptlessLock {
        let requests = with_name(&self.seen.requests, &self.seen.name, name);
        ScriptlessLock {
            words: requests[RELEASE].clone(),
            client: self.clone(),
            turns: 0,
        }
    }
}

pub struct ScriptlessLock {
    client: Scriptless,
    /// The release script with its keys.
    words: Words,
    turns: u64,
}

impl ScriptlessLock {
    async fn ask(&mut self, acquires: bool, token: &str) -> Done {
        let mut ask = Ask {
            acquires,
            words: self.words.clone(),
            token: token.to_owned(),
            reply: None,
        };
        let client = &mut self.client;
        let Some(asks) = &client.asks else {
            let batch = &mut [ask];
            let done = client.form.exchange(&mut client.connection, batch).await?;
            return done.into_iter().next().ok_or("no reply")?;
        };
        let (reply, done) = oneshot::channel();
        ask.reply = Some(reply);
        asks.send(ask).map_err(text)?;
        done.await.map_err(text)?
    }
}

impl Lock for ScriptlessLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.turns += 1;
        let token = self.client.seen.token_of(self.turns);
        if !self.ask(true, &token).await? {
            // The first turn of a name, in the round that does not count: leaselock's script creates the counter.
            let mut create = redis::cmd("XADD");
            create.arg(&self.words[FENCE]).arg(&NEXT);
            let created: Result<String, _> = create.query_async(&mut self.client.connection).await;
            created.map_err(text)?;
        }
        let turn = held(hold.clone()).await;
        self.ask(false, &token).await?;
        Ok(turn)
    }
}
