//! A service whose URL file changes while it runs: another password, another server, or no file at all.

use std::fs;
use std::mem::MaybeUninit;

use rustix::fs::inotify;
use testkit::process::{Signal, is_alive};
use testkit::{Cut, Proxy, Server};

use crate::common::{Running, Store, fifo_in_place_of, until, uptime};

const BEFORE: &str = "c2VyIG9sZA";
const AFTER: &str = "bmV3IG9uZQ";
const WRONG: &str = "the user or password in the URL is wrong";
const REFUSED: &str = "retrying, with the URL that the file has by then";

/// A service with the URL in the file `urls`, and no other.
fn serve(store: &Store, url: &str, words: &[&str]) -> Running {
    put(store, url);
    let mut command = store.leaselock(words);
    command.env_remove("LEASELOCK_URL");
    command.env("LEASELOCK_URL_FILE", "urls");
    Running::start(command)
}

/// As a secret that is mounted: there is one file or the other.
fn put(store: &Store, url: &str) {
    fs::write(store.path("new"), url).unwrap();
    fs::rename(store.path("new"), store.path("urls")).unwrap();
}

/// The user has this password from now on, and no connection that it had before.
fn rotate(server: &Server) {
    let secret = format!(">{AFTER}");
    assert!(
        !server
            .cli(&["ACL", "SETUSER", "u", "resetpass", &secret])
            .is_error()
    );
    server.cli(&["CLIENT", "KILL", "USER", "u"]);
}

fn shows_no_password(service: Running) {
    service.signal(Signal::TERM);
    let done = service.end_with_stdin_open();
    assert!(
        !done.err.contains(BEFORE) && !done.err.contains(AFTER),
        "{done:?}"
    );
}

const CRON: [&str; 5] = [
    "cron",
    "* * * * * *",
    "job",
    "-c",
    "echo ${LEASELOCK_URLS_FROM-none} >> ran",
];

fn until_it_runs_on(store: &Store) {
    let before = store.lines("ran").len();
    until("more runs", || store.lines("ran").len() > before + 1);
    assert!(store.lines("ran").iter().all(|line| line == "none"));
}

#[test]
fn a_schedule_whose_login_is_refused_goes_on_with_the_one_in_the_file() {
    let store = Store::redis();
    let login = store.login(BEFORE);
    let service = serve(&store, &login, &CRON);
    store.line_in("ran");
    rotate(store.server());
    until("the refusal", || service.said().contains(REFUSED));
    put(&store, &login.replace(BEFORE, AFTER));
    until_it_runs_on(&store);
    shows_no_password(service);
}

#[test]
fn an_outage_before_the_refusal_does_not_hide_the_file() {
    let store = Store::redis();
    let proxy = Proxy::to(store.server().port());
    store.login(BEFORE);
    let login = proxy.url().replace("://", &format!("://u:{BEFORE}@"));
    let service = serve(&store, &login, &CRON);
    store.line_in("ran");
    proxy.lead_nowhere();
    proxy.cut(Cut::Close);
    until("the outage", || service.said().contains("retrying\n"));
    rotate(store.server());
    proxy.lead_to(store.server().port());
    until("the refusal", || service.said().contains(REFUSED));
    put(&store, &login.replace(BEFORE, AFTER));
    until_it_runs_on(&store);
    shows_no_password(service);
}

#[test]
fn a_schedule_whose_server_is_gone_goes_on_at_the_one_that_the_file_names() {
    let (store, next) = (Store::redis(), Store::redis());
    let service = serve(&store, &store.url, &CRON);
    store.line_in("ran");
    store.server().kill();
    until("the outage", || service.said().contains("retrying\n"));
    put(&store, &next.url);
    until_it_runs_on(&store);
    assert!(next.run(&["schedules"]).out.contains("job"));
    shows_no_password(service);
}

const ELECT: [&str; 4] = ["elect", "led", "-c", "echo $$ >> led; exec cat"];

/// A lock that keeps a campaign waiting, which has its place in the queue.
fn campaign(store: &Store, login: &str, words: &[&str]) -> (Running, Running) {
    let holder = store.start(&["run", "led", "-c", "echo > held; exec cat"]);
    store.line_in("held");
    let service = serve(store, login, words);
    until("its place in the queue", || {
        let lock = store.run(&["status", "--json", "led"]).out;
        lock.contains("\"position\":1")
    });
    (holder, service)
}

#[test]
fn a_leader_that_lost_its_login_waits_for_the_server_that_the_file_names() {
    let (store, next) = (Store::redis(), Store::redis());
    let words = [&["elect", "--ttl", "1s"], &ELECT[1..]].concat();
    let service = serve(&store, &store.login(BEFORE), &words);
    let job = store.line_in("led").parse().unwrap();
    rotate(store.server());
    until("the end of the job", || !is_alive(job));
    until("the refusal", || service.said().contains(REFUSED));
    next.server().kill();
    put(&store, &next.url);
    // Longer than a campaign waits for a server that was never there.
    let since = uptime();
    until("a longer wait", || uptime() - since > 12.0);
    assert_eq!(store.lines("led").len(), 1, "{}", service.said());
    next.server().restart();
    until("the next term", || store.lines("led").len() == 2);
    assert_eq!(next.run(&["leader", "-q", "led"]).code, 0);
    shows_no_password(service);
}

#[test]
fn a_campaign_whose_login_is_refused_goes_on_with_the_one_in_the_file() {
    let store = Store::redis();
    let login = store.login(BEFORE);
    let (holder, service) = campaign(&store, &login, &ELECT);
    rotate(store.server());
    until("the refusal", || service.said().contains(REFUSED));
    put(&store, &login.replace(BEFORE, AFTER));
    holder.end().gives(0);
    store.line_in("led");
    shows_no_password(service);
}

#[test]
fn a_campaign_with_a_limit_ends_when_its_login_is_refused() {
    let store = Store::redis();
    let words = [&["elect", "-w", "10m"], &ELECT[1..]].concat();
    let (holder, service) = campaign(&store, &store.login(BEFORE), &words);
    rotate(store.server());
    let refused = service.end_with_stdin_open();
    refused.refuses(77, WRONG);
    holder.end().gives(0);
}

#[test]
fn a_campaign_that_never_had_an_answer_says_at_once_that_its_login_is_wrong() {
    let store = Store::redis();
    let login = store.login(BEFORE).replace(BEFORE, AFTER);
    let refused = serve(&store, &login, &ELECT).end();
    let refused = refused.refuses(77, WRONG);
    assert!(!refused.err.contains("retrying"), "{refused:?}");
}

/// A FIFO without a writer stands for a share that is out of reach.
#[test]
fn a_schedule_goes_on_with_the_url_of_before_when_the_file_is_no_use() {
    let (store, next) = (Store::file(), Store::file());
    let service = serve(&store, &store.url, &CRON);
    store.line_in("ran");
    let says = |words: &str| {
        until(words, || {
            let said = service.said();
            said.contains(words) && said.contains("going on with the URL of before")
        });
        until_it_runs_on(&store);
    };
    fifo_in_place_of(&store.path("new"));
    fs::rename(store.path("new"), store.path("urls")).unwrap();
    says("the URL file urls: it cannot be read in time");
    fs::remove_file(store.path("urls")).unwrap();
    says("the URL file urls: No such file");
    put(&store, "nonsense://h");
    says("this is none of the URLs");
    put(&store, &next.url);
    until("a tick in the other store", || {
        next.run(&["schedules"]).out.contains("job")
    });
    shows_no_password(service);
}

/// Both print the value of a leader in this store.
fn until_it_prints(store: &Store, follower: &Running, value: &str) {
    let leads = store.start(&["elect", "--value", value, "led", "-c", "exec cat"]);
    until(value, || follower.printed().contains(value));
    leads.end().gives(0);
}

fn goes_on_with_the_url_in_the_file(words: &[&str]) {
    let (store, next) = (Store::redis(), Store::redis());
    let login = store.login(BEFORE);
    let follower = serve(&store, &login, words);
    until_it_prints(&store, &follower, "first");
    rotate(store.server());
    until("the refusal", || {
        follower.said().contains(&format!("leaselock: {WRONG}"))
    });
    put(&store, &login.replace(BEFORE, AFTER));
    until_it_prints(&store, &follower, "second");
    store.server().kill();
    put(&store, &next.url);
    until_it_prints(&next, &follower, "third");
    let times = |value| follower.printed().matches(value).count();
    assert_eq!(["first", "second", "third"].map(times), [1; 3], "{words:?}");
    shows_no_password(follower);
}

#[test]
fn who_follows_goes_on_with_the_url_that_the_file_has_after_a_refusal_and_after_an_outage() {
    std::thread::scope(|scope| {
        scope.spawn(|| goes_on_with_the_url_in_the_file(&["log", "--follow"]));
        goes_on_with_the_url_in_the_file(&["leader", "--follow", "led"]);
    });
}

#[test]
fn a_schedule_whose_store_serves_again_does_not_read_the_file_every_second() {
    let store = Store::redis();
    let frozen = store.server().pause();
    let service = serve(
        &store,
        &store.url,
        &["cron", "0 0 29 2 *", "job", "-c", "true"],
    );
    until("the outage", || service.said().contains("retrying"));
    drop(frozen);
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&opened, store.path("urls"), inotify::WatchFlags::OPEN).unwrap();
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&opened, &mut room);
    let (since, mut times) = (uptime(), 0);
    until("ten seconds", || {
        times += usize::from(reader.next().is_ok()); // equal events that wait are one
        uptime() - since > 10.0
    });
    assert!(times <= 5, "{times}");
    shows_no_password(service);
}
