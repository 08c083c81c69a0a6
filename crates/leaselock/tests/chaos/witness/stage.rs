//! The servers, the processes that take locks there, and what is done to them.

use std::time::Duration;

use fastrand::Rng;
use leaselock::Client;
use testkit::oracle::{Report, Watch};
use testkit::process::Signal;
use testkit::{Child, Cut, Fault, Oracle, Proxy, Server, Way, clock};

use super::work::LONGEST;
use super::worker;

const WORKERS: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(30);
/// The oracle reads faster than this falls behind, or the workers wait for it.
const BEHIND_MAX: Duration = Duration::from_secs(3);

pub(super) struct Stage {
    names: u64,
    strict: bool,
    rng: Rng,
    primary: Server,
    /// Of strict mode.
    replica: Option<Server>,
    proxies: Vec<Proxy>,
    workers: Vec<Child>,
    watch: Option<Watch>,
    begin: Duration,
    faults: u64,
    behind: Duration,
}

/// Sleeps while the others work.
fn meanwhile(time: Duration) {
    std::thread::sleep(time); // how long a fault lasts, or how long all is well
}

impl Stage {
    pub(super) fn set(names: u64, strict: bool) -> Stage {
        let primary = Server::start();
        let watch = Oracle::default().follow(&primary);
        let replica = strict.then(|| Server::builder().replica_of(&primary).start());
        if strict {
            let client = Client::builder().url(&primary.url()).strict(LONGEST);
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            let client = { client }.open().unwrap();
            runtime.block_on(client.init_strict()).unwrap();
        }
        let proxies = (0..WORKERS).map(|_| Proxy::to(primary.port())).collect();
        let mut stage = Stage {
            names,
            strict,
            rng: Rng::with_seed(names),
            primary,
            replica,
            proxies,
            workers: Vec::new(),
            watch: Some(watch),
            begin: clock::now(),
            faults: 0,
            behind: Duration::ZERO,
        };
        stage.workers = (0..WORKERS).map(|number| stage.worker(number)).collect();
        stage
    }

    fn worker(&self, number: u64) -> Child {
        let proxy = &self.proxies[usize::try_from(number % WORKERS).unwrap()];
        worker::start(&proxy.url(), self.strict, self.names, number)
    }

    /// Whether there are fewer operations than that or a step is missing, and no violation.
    pub(super) fn goes_on(&mut self, operations: u64, steps: &[&str]) -> bool {
        let watch = self.watch.as_ref().unwrap();
        self.behind = self.behind.max(watch.behind());
        if watch.behind() > BEHIND_MAX {
            self.workers.iter().for_each(|worker| worker.stop());
            testkit::wait_until(PATIENCE, "the oracle catches up", || {
                watch.behind() < BEHIND_MAX / 10
            });
            self.each_worker(Signal::CONT);
        }
        let report = watch.so_far();
        let is_missing = |step: &&str| report.count(step) == 0;
        let reaches = report.operations >= operations && !steps.iter().any(is_missing);
        let in_time = report.operations < operations * 20;
        !reaches && in_time && report.violations.is_empty()
    }

    fn each_worker(&self, signal: Signal) {
        self.workers.iter().for_each(|worker| worker.signal(signal));
    }

    /// One fault, and its end.
    pub(super) fn strike(&mut self) {
        self.faults += 1;
        let at = self.rng.u64(..WORKERS);
        let victim = usize::try_from(at).unwrap();
        let way = [Way::ToServer, Way::ToClient][self.rng.usize(..2)];
        let proxy = &self.proxies[victim];
        match self.rng.u64(..30) {
            0..4 => {
                self.workers[victim].kill();
                self.workers[victim] = self.worker(at + WORKERS * self.faults);
            }
            4..6 => {
                self.workers[victim].stop();
                meanwhile(Duration::from_millis(self.rng.u64(..900))); // longer than its leases, or not
                self.workers[victim].signal(Signal::CONT);
            }
            6..9 => proxy.cut(Cut::Reset),
            9..12 => proxy.cut(Cut::Close),
            12..14 => proxy.set(way, Fault::Hold),
            14..16 => proxy.set(way, Fault::Delay(Duration::from_millis(self.rng.u64(..30)))),
            16..20 => proxy.set(Way::ToServer, Fault::Duplicate),
            20 => proxy.set(way, Fault::HalfOpen),
            21..24 => drop(self.primary.cli(&["CLIENT", "PAUSE", "100"])),
            24..26 => drop(self.primary.cli(&["SCRIPT", "FLUSH"])),
            26..28 => drop(self.primary.cli(&["CLIENT", "KILL", "TYPE", "pubsub"])),
            _ => {} // so are some turns
        }
        let usage = format!("{{w{}}}:ll:usage", self.rng.u64(..self.names));
        self.primary.cli(&["DEL", &usage]);
        meanwhile(Duration::from_millis(self.rng.u64(..200))); // how long it is so
        self.proxies.iter().for_each(Proxy::heal);
        meanwhile(Duration::from_millis(self.rng.u64(..600))); // how long all is well
    }

    /// The primary is killed: it comes back without data, or a replica that lacks the latest grants takes over.
    pub(super) fn fail_over(&mut self, to_replica: bool) {
        let replica = self.replica.take().unwrap();
        let watch = self.watch.take().unwrap();
        let frozen = to_replica.then(|| replica.pause());
        if to_replica {
            self.primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
            meanwhile(Duration::from_millis(60)); // grants that the replica will lack
        }
        self.primary.kill();
        // No client reaches a server before the oracle does.
        self.proxies.iter().for_each(Proxy::lead_nowhere);
        drop(frozen);
        let oracle = watch.broken_off();
        let other = if to_replica {
            replica.promote();
            std::mem::replace(&mut self.primary, replica)
        } else {
            self.primary.restart();
            replica
        };
        self.watch = Some(oracle.follow(&self.primary));
        let port = self.primary.port();
        self.proxies.iter().for_each(|proxy| proxy.lead_to(port));
        if to_replica {
            other.restart();
        }
        other.replica_of(port);
        self.replica = Some(other);
    }

    /// All workers are killed; a client that comes then is served.
    pub(super) fn end(mut self) -> Report {
        self.workers.iter_mut().for_each(Child::kill);
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let builder = Client::builder().url(&self.primary.url());
        let builder = if self.strict {
            builder.strict(LONGEST)
        } else {
            builder
        };
        let client = { builder }.open().unwrap();
        runtime.block_on(async {
            for name in 0..self.names {
                let mutex = client.mutex(format!("w{name}")).ttl(LONGEST);
                let lease = mutex.acquire_within(PATIENCE).await.unwrap();
                lease.release().await.unwrap();
            }
        });
        let report = self.watch.take().unwrap().end().report();
        let took = clock::now() - self.begin;
        let behind = self.behind;
        println!(
            "{} faults; {} operations in {took:.1?}; the oracle was at most {behind:.1?} behind",
            self.faults, report.operations
        );
        report
    }
}
