//! The fencing tokens of all kinds of locks, of four processes, while the server's clock steps back, its keys are lost and
//! it is replaced: judged from the append-only files of all servers ([`testkit::aof`]).
//!
//! A number is larger than all before while the counter is there, whatever the clock does; and after the counter was lost,
//! if the clock did not go back. So a clock that has stepped back is right again, and has passed all numbers, before keys
//! are lost; and a counter that was lost is there again before the clock steps back.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use leaselock::Client;
use leaselock::options::OnCrash;
use testkit::aof::{Fault, Judge, Verdict, is_whole};
use testkit::resp::Connection;
use testkit::{Child, Proxy, Server, wait_until};

use crate::rounds;
use crate::witness::worker;

const PROCESSES: u64 = 4;
/// Beside those that few tasks want.
const NAMES: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(60);
const SECOND_MS: i64 = 1_000;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// What the processes do.
#[derive(Debug, Clone, Copy)]
enum Work {
    AllKinds,
    /// What the stream is compared with: a counter that knows no time.
    BareCounter,
}

/// A process whose tasks take locks of all kinds until it is killed.
pub(crate) async fn works(url: &str, names: u64, seed: u64) {
    let client = Client::open(url).unwrap();
    tokio::spawn(runs_once(client, names, Rng::with_seed(seed)));
    worker::works(url, false, names, seed).await;
}

/// Each run fails, so that another may begin.
async fn runs_once(client: Client, names: u64, mut rng: Rng) {
    loop {
        let key = format!("o{}", rng.u64(..names));
        let once = client.once(key).on_crash(OnCrash::Again);
        let once = once.ttl(Duration::from_millis(400));
        let run = once.run(async |_| Err::<Vec<u8>, _>("so that it is run again"));
        // What is refused, lost or too late is part of it.
        drop(tokio::time::timeout(Duration::from_secs(2), run).await);
        tokio::time::sleep(Duration::from_millis(rng.u64(..5))).await; // others go on
    }
}

/// A process that takes locks with numbers of a counter until it is killed.
pub(crate) fn counts(port: u16, names: u64, seed: u64) {
    let take = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
        redis.call('INCR', KEYS[2]) \
        redis.call('SET', KEYS[1], ARGV[1], 'PX', '1000') \
        return 1";
    let mut rng = Rng::with_seed(seed);
    let mut tokens = (0_u64..).map(|number| format!("{number:022}.{seed:08}"));
    loop {
        let Ok(mut connection) = Connection::open(port, PATIENCE) else {
            std::thread::sleep(Duration::from_millis(5)); // until another server is there
            continue;
        };
        loop {
            let name = format!("w{}", rng.u64(..names));
            let (counter, token) = (format!("{{{name}}}:ll:fence"), tokens.next().unwrap());
            let taken = connection.call(&["EVAL", take, "2", &name, &counter, &token]);
            let given_back = match taken {
                Ok(taken) if taken.integer() == Some(1) => connection.call(&["DEL", &name]),
                other => other,
            };
            if given_back.is_err() {
                break;
            }
        }
    }
}

struct Stage {
    work: Work,
    rng: Rng,
    primary: Server,
    replica: Server,
    proxies: Vec<Proxy>,
    workers: Vec<Child>,
    seeds: u64,
    judge: Judge,
    reigns: usize,
    /// The keys of all fencing tokens that there were.
    counters: BTreeSet<String>,
}

fn builder() -> testkit::server::Builder {
    Server::builder().shifted_clock().effects_kept()
}

/// It follows the other, and its file has all of it.
fn replica_of(primary: &Server) -> Server {
    let replica = builder().replica_of(primary).start();
    wait_until(PATIENCE, "the replica's file is whole", || {
        is_whole(&replica)
    });
    replica
}

/// The time of a server, and the latest of all numbers there.
fn times_ms(server: &Server) -> (i64, i64) {
    let latest = "local latest = 0 \
        for _, key in ipairs(redis.call('KEYS', '*:ll:fence')) do \
          local about = redis.pcall('XINFO', 'STREAM', key) \
          for i = 1, #about, 2 do \
            if about[i] == 'last-generated-id' then \
              latest = math.max(latest, tonumber(string.match(about[i + 1], '^%d+'))) \
            end \
          end \
        end \
        return latest";
    let latest = server.cli(&["EVAL", latest, "0"]).integer().unwrap();
    let time = server.cli(&["TIME"]);
    let number = |at: usize| -> i64 { time.list().unwrap()[at].text().unwrap().parse().unwrap() };
    (number(0) * 1_000 + number(1) / 1_000, latest)
}

impl Stage {
    fn set(work: Work) -> Stage {
        let primary = builder().start();
        let replica = replica_of(&primary);
        let proxies = (0..PROCESSES).map(|_| Proxy::to(primary.port())).collect();
        let mut stage = Stage {
            work,
            rng: Rng::with_seed(1),
            primary,
            replica,
            proxies,
            workers: Vec::new(),
            seeds: 0,
            judge: Judge::default(),
            reigns: 0,
            counters: BTreeSet::new(),
        };
        stage.workers = (0..PROCESSES).map(|at| stage.worker(at)).collect();
        stage
    }

    fn worker(&mut self, at: u64) -> Child {
        self.seeds += 1;
        let proxy = &self.proxies[usize::try_from(at).unwrap()];
        let (names, seed) = (NAMES.to_string(), self.seeds.to_string());
        match self.work {
            Work::AllKinds => {
                let words = [proxy.url().as_str(), &names, &seed].map(str::to_owned);
                let words = words.each_ref().map(String::as_str);
                Child::start("takes numbers of all kinds", &words)
            }
            Work::BareCounter => {
                let port = proxy.port().to_string();
                Child::start("takes numbers of a bare counter", &[&port, &names, &seed])
            }
        }
    }

    /// Grants are made for a while.
    fn meanwhile(&mut self) {
        let time = Duration::from_millis(100 + self.rng.u64(..400));
        std::thread::sleep(time); // a random moment is what comes next
    }

    /// All that happens to one server, until another takes its place.
    fn reign(&mut self) {
        for back_ms in [SECOND_MS, DAY_MS] {
            for _ in 0..rounds(1, 5) {
                self.meanwhile();
                let flush = "local keys = redis.call('KEYS', '*:ll:fence') \
                    redis.call('FLUSHALL') \
                    return keys";
                self.remember_counters(flush);
            }
            self.meanwhile();
            self.step_back(back_ms);
        }
        self.replace_worker();
        self.meanwhile();
        self.fail_over();
    }

    /// Those that a script returns.
    fn remember_counters(&mut self, script: &str) {
        let keys = self.primary.cli(&["EVAL", script, "0"]);
        let keys = keys.list().unwrap().iter();
        self.counters
            .extend(keys.map(|key| key.text().unwrap().to_owned()));
    }

    /// For a while. No counter was lost for which no grant came since: otherwise the clock would go back behind a loss.
    fn step_back(&mut self, milliseconds: i64) {
        self.remember_counters("return redis.call('KEYS', '*:ll:fence')");
        for counter in &self.counters {
            self.primary
                .cli(&["XADD", counter, "MAXLEN", "0", "*", "-", "-"]);
        }
        self.primary.set_clock_offset_ms(-milliseconds);
        self.meanwhile();
        self.primary.set_clock_offset_ms(0);
        wait_until(PATIENCE, "the clock has passed all numbers", || {
            let (now, latest) = times_ms(&self.primary);
            latest < now
        });
    }

    fn replace_worker(&mut self) {
        let at = self.rng.u64(..PROCESSES);
        let victim = usize::try_from(at).unwrap();
        self.workers[victim].kill();
        self.workers[victim] = self.worker(at);
    }

    /// The primary is killed, and a replica that lacks the latest grants takes its place.
    fn fail_over(&mut self) {
        let frozen = self.replica.pause();
        self.primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
        std::thread::sleep(Duration::from_millis(self.rng.u64(20..80))); // grants that the replica will lack
        self.primary.kill();
        // No client is answered before the replica is a primary.
        self.proxies.iter().for_each(Proxy::lead_nowhere);
        drop(frozen);
        self.replica.promote();
        let port = self.replica.port();
        self.proxies.iter().for_each(|proxy| proxy.lead_to(port));
        let next = replica_of(&self.replica);
        let promoted = std::mem::replace(&mut self.replica, next);
        let killed = std::mem::replace(&mut self.primary, promoted);
        self.judge.reads(killed.dir());
        let counter = |name: &str| format!("{{{name}}}:ll:fence");
        self.counters.extend(self.judge.names().map(counter));
        self.reigns += 1;
    }

    fn end(mut self) -> Verdict {
        self.workers.iter_mut().for_each(Child::kill);
        self.primary.kill();
        self.judge.reads(self.primary.dir());
        self.judge.verdict().clone()
    }
}

fn shown(what: &str, reigns: usize, verdict: &Verdict) {
    let behind = verdict.count(Fault::JoinsBehind);
    println!(
        "{what}: {reigns} failovers, {verdict}, of which {behind} joined readers that a failover has kept"
    );
}

#[test]
fn each_grant_has_a_larger_number_than_all_before_whatever_happens_to_the_server() {
    let wanted: u64 = rounds(4_000, 1_000_000).try_into().unwrap();
    let mut stage = Stage::set(Work::AllKinds);
    let is_wrong = |verdict: &Verdict| verdict.wrong.len() > verdict.count(Fault::JoinsBehind);
    while stage.reigns < 2
        || stage.judge.verdict().grants() < wanted && !is_wrong(stage.judge.verdict())
    {
        stage.reign();
    }
    let reigns = stage.reigns;
    let verdict = stage.end();
    shown("all kinds", reigns, &verdict);
    // The number of readers lies with their holds: a failover that keeps these keeps it, and loses later grants.
    let others = { verdict.wrong.iter() }.filter(|wrong| wrong.fault != Fault::JoinsBehind);
    let others: Vec<_> = others.take(5).map(ToString::to_string).collect();
    assert_eq!(others, [""; 0]);
    // A later request of the same call takes a run over, with its number. Nothing else here does so.
    let passed_on = { verdict.passed_on.keys() }.filter(|name| !name.starts_with('o'));
    assert_eq!(passed_on.collect::<Vec<_>>(), [""; 0]);
    assert!(verdict.alone > 0 && verdict.readers > 0 && verdict.permits > 0);
    assert!(verdict.flushes > 0 && verdict.grants() >= wanted);
}

/// The same run could show it.
#[test]
fn a_counter_without_time_gives_numbers_twice_when_keys_are_lost() {
    let mut stage = Stage::set(Work::BareCounter);
    stage.reign();
    let reigns = stage.reigns;
    let verdict = stage.end();
    shown("a bare counter", reigns, &verdict);
    assert!(verdict.count(Fault::NotLarger) > 0, "{verdict}");
    assert_eq!(verdict.count(Fault::NotLarger), verdict.wrong.len());
}
