//! Waiting behind a holder of another library: a plain key that is deleted one day, and no client is told by whom.
//!
//! A client on a clock that stands still has no timers: what it learns it was told.

use std::time::Duration;

use leaselock::clock::Clock;
use leaselock::{AcquireError, Client, Lease};
use testkit::{Server, Value, clock};
use tokio::task::JoinHandle;

use crate::support::{
    LONG, apart, calls, channels, eventually, millis, polls_sent, soon, until_queued, waiter,
};

/// Where the server tells what happens to the key `job`.
const NEWS: &str = "__keyspace@0__:job";

/// The head of the queue polls by timer after half a second.
const LESS_THAN_A_TIMER: Duration = Duration::from_millis(200);

fn telling() -> Server {
    Server::builder()
        .config("notify-keyspace-events", "KA")
        .start()
}

/// The other library takes the lock.
fn taken(server: &Server) {
    let set = server.cli(&["SET", "job", "theirs", "NX", "PX", "60000"]);
    assert_eq!(set, Value::Status("OK".into()));
}

fn let_go(server: &Server) {
    assert_eq!(server.cli(&["DEL", "job"]).integer(), Some(1));
}

/// A client without timers, and the clock that would set them off.
fn timeless(server: &Server) -> (Client, Clock) {
    let clock = Clock::manual();
    let builder = Client::builder().url(&server.url()).clock(clock.clone());
    (builder.open().unwrap(), clock)
}

type Waiting = JoinHandle<Result<Lease, AcquireError>>;

async fn served(waiting: Waiting) -> Lease {
    soon(waiting).await.unwrap().unwrap()
}

/// Each has the lock and releases it, in whatever order.
async fn all_served(waiting: impl IntoIterator<Item = Waiting>) {
    let turns = waiting.into_iter().map(|waiter| {
        tokio::spawn(async move { waiter.await.unwrap().unwrap().release().await.unwrap() })
    });
    for turn in turns.collect::<Vec<_>>() {
        soon(turn).await.unwrap();
    }
}

/// Until the only waiter has nothing left to do but wait: it joined the queue, and polled when the news of the key were
/// heard.
async fn settled(server: &Server) {
    eventually("it waits for news", async || {
        channels(server).iter().any(|channel| channel == NEWS) && polls_sent(server) == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_without_timers_is_called_however_the_key_goes_away() {
    for way in [
        vec!["DEL", "job"],
        vec!["UNLINK", "job"],
        vec!["GETDEL", "job"],
        vec!["RENAME", "job", "elsewhere"],
        vec!["PEXPIRE", "job", "-1"],
        vec!["PEXPIRE", "job", "20"], // and the server notices
    ] {
        let server = telling();
        taken(&server);
        let (client, _still) = timeless(&server);
        let next = waiter(&client, "job", LONG);
        settled(&server).await;
        assert!(!server.cli(&way).is_error());
        let lease = served(next).await;
        assert_eq!(polls_sent(&server), 2, "{way:?}: the next look had it");
        lease.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_share_a_queue_entry_are_called_too() {
    let server = telling();
    taken(&server);
    let (client, clock) = timeless(&server);
    let first = waiter(&client, "job", LONG);
    settled(&server).await;
    let second = waiter(&client, "job", LONG);
    eventually("the place is shared", async || {
        client.inspect("job").await.unwrap().queue.len() == 1 && polls_sent(&server) > 2
    })
    .await;
    let_go(&server);
    // It has polled more often at one moment than the pace allows, and is still before its next poll by timer.
    clock.advance(LESS_THAN_A_TIMER * 2);
    all_served([first, second]).await;
}

/// No other client would tell it, and it would poll after a second only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_head_of_the_queue_gives_up_the_next_one_hears_of_the_key() {
    let server = telling();
    taken(&server);
    let [(one, _), (two, _)] = [(); 2].map(|()| timeless(&server));
    let first = waiter(&one, "job", LONG);
    settled(&server).await;
    let next = waiter(&two, "job", LONG);
    until_queued(&two, "job", 2).await;
    first.abort();
    // Beside the two of the first: queued, the first leaves, told, and the key is heard.
    eventually("it is the first", async || polls_sent(&server) == 6).await;
    let_go(&server);
    served(next).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_another_database_and_with_a_prefix_the_waiter_is_called_too() {
    let server = telling();
    let mut theirs = server.connect().unwrap();
    let mut say = |words: &[&str]| assert!(!theirs.call(words).unwrap().is_error());
    say(&["SELECT", "5"]);
    say(&["SET", "app:job", "theirs", "PX", "60000"]);
    let builder = Client::builder().url(&format!("{}5", server.url()));
    let client = builder.prefix("app:").clock(Clock::manual()).open();
    let next = waiter(&client.unwrap(), "job", LONG);
    eventually("it waits for news", async || {
        let news = "__keyspace@5__:app:job".to_owned();
        channels(&server).contains(&news) && polls_sent(&server) == 2
    })
    .await;
    say(&["DEL", "app:job"]);
    served(next).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_renews_makes_no_waiter_poll() {
    let server = telling();
    taken(&server);
    let (client, _still) = timeless(&server);
    let next = waiter(&client, "job", LONG);
    settled(&server).await;
    for _ in 0..100 {
        server.cli(&["PEXPIRE", "job", "60000"]);
        server.cli(&["SET", "job", "theirs", "PX", "60000"]);
    }
    let_go(&server);
    let lease = served(next).await;
    assert_eq!(
        polls_sent(&server),
        2,
        "only the end of the lock made it look"
    );
    lease.release().await.unwrap();
}

/// Others of the fleet take turns so fast that the waiter never finds the lock free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_releases_makes_few_polls() {
    let server = telling();
    taken(&server);
    let (client, clock) = timeless(&server);
    let next = waiter(&client, "job", LONG);
    settled(&server).await;
    let turn = "redis.call('DEL', 'job') redis.call('SET', 'job', 'theirs', 'PX', 60000)";
    for _ in 0..200 {
        server.cli(&["EVAL", turn, "0"]);
    }
    let_go(&server);
    clock.advance(LESS_THAN_A_TIMER);
    let lease = served(next).await;
    let polls = polls_sent(&server) - 2;
    assert!(polls <= 2, "{polls} polls in {LESS_THAN_A_TIMER:?}");
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_server_sends_no_message_a_poll_finds_the_free_lock() {
    let server = Server::start();
    // Some servers ask themselves when they start.
    let settings = || ["config", "config|get", "config|set"].map(|command| calls(&server, command));
    let before = settings();
    taken(&server);
    let client = Client::open(&server.url()).unwrap();
    let next = waiter(&client, "job", LONG);
    until_queued(&client, "job", 1).await;
    let_go(&server);
    served(next).await.release().await.unwrap();
    assert_eq!(settings(), before, "no setting is read or changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_may_not_subscribe_to_the_key_finds_the_free_lock_by_a_poll() {
    for nothing_at_all in [false, true] {
        let server = telling();
        apart(&server); // only its own channel
        if nothing_at_all {
            server.cli(&["ACL", "SETUSER", "default", "resetchannels"]);
        }
        taken(&server);
        let client = Client::open(&server.url()).unwrap();
        let next = waiter(&client, "job", LONG);
        until_queued(&client, "job", 1).await;
        eventually("it was refused", async || {
            polls_sent(&server) > 2 // and more than one poll by timer ago
        })
        .await;
        assert!(!channels(&server).contains(&NEWS.to_owned()));
        let_go(&server);
        served(next).await.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_is_subscribed_only_while_a_waiter_is_behind_another_library() {
    let server = telling();
    let hears = || channels(&server).contains(&NEWS.to_owned());
    let client = Client::open(&server.url()).unwrap();
    let ours = client.mutex("job").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&client, "job", LONG);
    until_queued(&client, "job", 1).await;
    assert!(!hears(), "one of ours hands over");
    ours.release().await.unwrap();
    served(next).await.release().await.unwrap();

    taken(&server);
    let [one, two] = [(); 2].map(|()| waiter(&client, "job", LONG));
    eventually("it is heard", async || hears()).await;
    one.abort();
    two.abort();
    eventually("nobody waits", async || !hears()).await;

    let next = waiter(&client, "job", LONG);
    eventually("it is heard again", async || hears()).await;
    let_go(&server);
    let lease = served(next).await;
    eventually("it is ours", async || !hears()).await;
    lease.release().await.unwrap();
}

/// So many polls, and commands of all kinds with those of the scripts, in so many milliseconds.
async fn load(server: &Server, waiters: &[Waiting]) -> (usize, usize, usize) {
    let everything = || {
        let info = server.cli(&["INFO", "stats"]);
        let lines = info.text().unwrap().lines();
        let mut count = lines.filter_map(|line| line.strip_prefix("total_commands_processed:"));
        count.next().unwrap().trim().parse::<usize>().unwrap()
    };
    let scripts = || calls(server, "evalsha") + calls(server, "eval");
    let (start, polls, commands) = (clock::now(), scripts(), everything());
    tokio::time::sleep(millis(2_000)).await; // the waiters poll meanwhile
    let (polls, commands) = (scripts() - polls, everything() - commands);
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    let took = usize::try_from((clock::now() - start).as_millis()).unwrap();
    println!("{polls} polls and {commands} commands in {took} ms");
    (polls, commands, took)
}

/// Beside what is made all the time: a poll at each edge of the time, one when the key is heard, and who one is.
const POLLS_ONCE: usize = 4;
const COMMANDS_ONCE: usize = 20 * POLLS_ONCE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_waiters_of_one_client_poll_twice_a_second_together() {
    let server = Server::start();
    taken(&server);
    let client = Client::open(&server.url()).unwrap();
    let waiters: Vec<_> = (0..100).map(|_| waiter(&client, "job", LONG)).collect();
    until_queued(&client, "job", 1).await;
    let (polls, commands, took) = load(&server, &waiters).await;
    assert!((1..=took / 500 + POLLS_ONCE).contains(&polls), "{polls}");
    assert!(commands <= 20 * took / 1000 + COMMANDS_ONCE, "{commands}");
    let_go(&server);
    all_served(waiters).await;
}

/// The second place polls every second, the third every one and a half, the fourth every two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_waiters_of_four_clients_poll_five_times_a_second_together() {
    let server = telling();
    taken(&server);
    let clients = [(); 4].map(|()| Client::open(&server.url()).unwrap());
    let of = |client| (0..25).map(move |_| waiter(client, "job", LONG));
    let waiters: Vec<_> = clients.iter().flat_map(of).collect();
    until_queued(&clients[0], "job", 4).await;
    let (polls, commands, took) = load(&server, &waiters).await;
    assert!(
        (1..=took / 200 + 4 * POLLS_ONCE).contains(&polls),
        "{polls}"
    );
    assert!(
        commands <= 4 * (20 * took / 1000 + COMMANDS_ONCE),
        "{commands}"
    );
    let_go(&server);
    all_served(waiters).await;
}
