//! How do workers on many hosts run so many jobs at a time and no more, and which host hands the jobs out?
//!
//! All hosts campaign, and the leader hands out the jobs until it leads no more: here an operator breaks its lease halfway.
//! Permits limit how many jobs run on all hosts together. The queue refuses a leader that is late.
//!
//! `cargo run -p leaselock --example workers [URL]`

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaselock::inspect::BreakOptions;
use leaselock::lease::Leader;
use leaselock::{Client, Fence, LeaseView, Name, Sequencer};
use leaselock_fence::{FenceChecker, FenceRefused};
use tokio::sync::watch;
use tokio::task::JoinSet;

const HOSTS: usize = 3;
const WORKERS: usize = 4; // on each host
const PERMITS: u32 = 5; // for all hosts
const JOBS: usize = 60;
const ELECTION: &str = "scheduler";

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:workers")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Failure> {
    let queue = Arc::new(Queue::new()?);
    let mut tasks = JoinSet::new();
    let mut clients = Vec::new();
    for host in 1..=HOSTS {
        let client = Client::open(url)?;
        clients.push(client.clone());
        tasks.spawn(campaign(client.clone(), host, Arc::clone(&queue)));
        for _ in 0..WORKERS {
            tasks.spawn(work(client.clone(), Arc::clone(&queue)));
        }
    }

    queue.until(JOBS / 2).await;
    let first = queue.seen().seen().cloned().ok_or("no leader yet")?;
    let operator = Client::open(url)?;
    operator
        .break_lease(ELECTION, BreakOptions::default())
        .await?;
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    for client in clients {
        client.close().await; // the last leader resigns in the background
    }

    let terms = queue.terms.borrow().clone();
    assert_eq!(terms.len(), JOBS);
    assert!(terms.is_sorted(), "two leaders side by side: {terms:?}");
    assert!(terms.last() > terms.first(), "the first leader went on");
    let most = queue.most.load(Ordering::SeqCst);
    let limit = PERMITS as usize; // of twelve workers
    assert!((2..=limit).contains(&most), "{most}");
    // A job that the first leader sent before it was stopped, and that arrives now.
    let Err(refused) = queue.push(&first) else {
        return Err("the late job was taken".into());
    };
    println!("{JOBS} jobs, {most} at a time at most; {refused}");
    Ok(())
}

/// Leads whenever this host can, until all jobs are handed out.
async fn campaign(client: Client, host: usize, queue: Arc<Queue>) -> Result<(), Failure> {
    let election = client.election(ELECTION).value(format!("host {host}"));
    let election = election.ttl(Duration::from_secs(1)); // a leader hears of a break within a third of it
    let stop = queue.until(JOBS);
    election
        .lead_until(stop, |leading| hand_out(leading, &queue))
        .await?;
    Ok(())
}

/// The work of a leader: it is dropped at an await when the leadership is lost.
async fn hand_out(leading: LeaseView<Leader>, queue: &Queue) -> Result<(), Failure> {
    let shown = leading.sequencer().ok_or("a leader has a fencing token")?;
    while queue.terms.borrow().len() < JOBS {
        queue.push(&shown)?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Takes jobs one by one, and runs each under a permit.
async fn work(client: Client, queue: Arc<Queue>) -> Result<(), Failure> {
    let permits = client.semaphore("running-jobs", PERMITS);
    loop {
        let job = queue.taken.fetch_add(1, Ordering::SeqCst) + 1;
        if job > JOBS {
            return Ok(());
        }
        queue.until(job).await;
        permits.run(|_| queue.run_job()).await?;
    }
}

/// What the hosts share, such as a database: it admits the newest leader only, and counts.
struct Queue {
    checker: Mutex<FenceChecker>,
    terms: watch::Sender<Vec<Fence>>, // for each job that was handed out: the term of its leader
    taken: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Queue {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            checker: Mutex::new(FenceChecker::new(Name::new(ELECTION)?)),
            terms: watch::Sender::default(),
            taken: AtomicUsize::default(),
            running: AtomicUsize::default(),
            most: AtomicUsize::default(),
        })
    }

    fn seen(&self) -> MutexGuard<'_, FenceChecker> {
        self.checker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, shown: &Sequencer) -> Result<(), FenceRefused> {
        let mut checker = self.seen(); // until the job is in the queue
        let _admission = checker.admit(shown)?; // kept in memory, as the jobs are
        self.terms.send_modify(|terms| terms.push(shown.fence()));
        Ok(())
    }

    /// Waits until so many jobs are handed out.
    async fn until(&self, count: usize) {
        let mut terms = self.terms.subscribe();
        drop(terms.wait_for(|terms| terms.len() >= count).await);
    }

    async fn run_job(&self) -> Result<(), Failure> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}
