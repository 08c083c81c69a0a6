//! Several --url: a majority of independent servers.

use serde_json::json;
use testkit::Server;

use crate::common::{Done, Store, object, until};

struct Nodes {
    servers: Vec<Server>,
    store: Store,
}

impl Nodes {
    fn start() -> Nodes {
        let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let mut store = Store::file();
        store.url = urls.join(" ");
        Nodes { servers, store }
    }

    /// These servers are young, and would not vote for a minute.
    fn run(&self, words: &[&str]) -> Done {
        let mut all = vec!["--durable-nodes"];
        all.extend(words);
        self.store.run(&all)
    }
}

#[test]
fn a_lock_of_several_servers_is_taken_extended_and_released_while_one_of_them_is_dead() {
    let nodes = Nodes::start();
    for dead in [None, Some(1)] {
        if let Some(dead) = dead {
            nodes.servers[dead].kill();
        }
        let handle = nodes.run(&["acquire", "--ttl", "50s", "job"]).gives(0).out;
        nodes
            .run(&["acquire", "-n", "job"])
            .refuses(75, "`job` is held by leaselock acquire[");
        let status = object(&nodes.run(&["status", "--json", "job"]).gives(0).out);
        assert_eq!(
            (&status["state"], &status["queue"]),
            (&"held".into(), &json!([]))
        );
        let with = |words: &[&str]| {
            let words: Vec<&str> = [&["--durable-nodes"], words].concat();
            nodes.store.run_with_input(&words, &handle)
        };
        with(&["extend", "--ttl", "40s"]).gives(0);
        with(&["release"]).gives(0);
        for server in nodes
            .servers
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != dead)
        {
            assert_eq!(server.1.cli(&["EXISTS", "job"]).integer(), Some(0));
        }
        nodes.run(&["wait", "-n", "job"]).gives(0);
        let ran = nodes.run(&["run", "job", "--", "sh", "-c", "echo $LEASELOCK_FENCE"]);
        assert!(ran.gives(0).out.trim().parse::<u64>().unwrap() > 0);
        let broken = nodes.run(&["acquire", "job"]).gives(0);
        drop(broken);
        nodes.run(&["break", "--now", "--yes", "job"]).gives(0);
        nodes.run(&["wait", "-n", "job"]).gives(0);
    }
}

#[test]
fn without_a_majority_the_command_says_what_each_server_said_and_ends_with_69() {
    let nodes = Nodes::start();
    nodes.servers[0].kill();
    nodes.servers[2].kill();
    let done = nodes.run(&["run", "-n", "job", "--", "true"]);
    let done = done.refuses(69, "no majority of 3 nodes");
    assert!(
        done.err.matches("unreachable (connection refused)").count() == 2
            && done.err.contains("granted"),
        "{}",
        done.err
    );
    let done = nodes.run(&["--json", "run", "-n", "job", "--", "true"]);
    let told = object(&done.refuses(69, "no majority of 3 nodes").err);
    let votes: Vec<&str> = [0, 1, 2]
        .map(|at| told["nodes"][at]["vote"].as_str().unwrap())
        .to_vec();
    assert_eq!(votes, ["unreachable", "granted", "unreachable"], "{told}");
    assert_eq!(told["nodes"][0]["said"], "unreachable (connection refused)");
    nodes
        .run(&["status", "job"])
        .refuses(69, "no majority of 3 nodes");
}

#[test]
fn servers_that_came_up_lately_do_not_vote_and_say_for_how_long() {
    let nodes = Nodes::start();
    let done = nodes.store.run(&["run", "-n", "job", "--", "true"]);
    done.refuses(69, "started recently and votes again in");
    let doctor = nodes.store.run(&["doctor"]);
    assert!(doctor.out.contains("3 of 3 nodes answer"), "{}", doctor.out);
}

#[test]
fn what_several_servers_cannot_be_asked_is_refused_with_64() {
    let mut nodes = Nodes::start();
    nodes
        .run(&["ls"])
        .refuses(64, "ls is not available on a majority of servers (3 given)");
    nodes.run(&["bench"]).refuses(64, "one store");
    nodes
        .run(&["run", "--ttl", "2m", "job", "--", "true"])
        .refuses(64, "longest");
    nodes
        .run(&["run", "--priority", "1", "job", "--", "true"])
        .refuses(64, "no queue");
    nodes.store.url = "redis://a redis://b".to_owned();
    nodes.run(&["status", "job"]).refuses(64, "odd number");
}

#[test]
fn a_longest_ttl_below_the_default_refuses_nothing_but_a_longer_ttl_that_was_asked_for() {
    let nodes = Nodes::start();
    let short = |words: &[&str]| nodes.run(&[&["--longest-ttl", "4s"], words].concat());
    short(&["status", "job"]).gives(0);
    short(&["wait", "-n", "job"]).gives(0);
    short(&["doctor"]);
    short(&["run", "--ttl", "1s", "job", "--", "true"]).gives(0);
    let job = ["run", "job", "-c", "echo $LEASELOCK_TTL_MS"];
    assert_eq!(short(&job).gives(0).out, "4000\n");
    short(&["run", "--ttl", "5s", "job", "--", "true"]).refuses(64, "longest");
    let handle = short(&["acquire", "job"]).gives(0).out;
    let with = |verb: &[&str]| {
        let words = [&["--durable-nodes", "--longest-ttl", "4s"], verb].concat();
        nodes.store.run_with_input(&words, &handle)
    };
    with(&["extend"]).gives(0);
    with(&["release"]).gives(0);
}

#[test]
fn a_wait_for_several_servers_is_told_without_a_position_and_not_begun_for_an_ancestor() {
    let nodes = Nodes::start();
    let program = env!("CARGO_BIN_EXE_leaselock");
    let inner = ["run", "job", "--", program, "--durable-nodes"];
    nodes
        .run(&[&inner[..], &["run", "job", "--", "true"]].concat())
        .refuses(
            75,
            "`job` is held by an ancestor of this process (leaselock[",
        );

    let holder = ["--durable-nodes", "run", "job", "--", "sh", "-c"];
    let script = "echo $$ > held; exec cat";
    let holder = nodes.store.start(&[&holder[..], &[script]].concat());
    nodes.store.line_in("held");
    let waiter = ["--durable-nodes", "-v", "run", "job", "--", "true"];
    let waiter = nodes.store.start(&waiter);
    let queued = "leaselock: job: waiting; held by sh[";
    until("its first line", || waiter.said().starts_with(queued));
    holder.end().gives(0);
    let done = waiter.end().gives(0);
    assert!(
        done.err.contains("leaselock: job: acquired after "),
        "{done:?}"
    );
    assert!(
        done.err.contains("leaselock: job: released, held "),
        "{done:?}"
    );
}
