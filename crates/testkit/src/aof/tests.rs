//! Files written by hand: the right one passes, and each wrong number is found.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::{Fault, Judge, Verdict, is_whole};
use crate::clock;
use crate::process::wait_until;
use crate::resp::encode;
use crate::server::Server;

const PATIENCE: Duration = Duration::from_secs(20);

const A: &str = "aaaaaaaaaaaaaaaaaaaaaa.client-a";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbb.client-b";
const C: &str = "cccccccccccccccccccccc.client-c";

/// Commands, each on a line; between `MULTI` and `EXEC` those of a script.
fn server(base: &str, commands: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("appendonlydir");
    fs::create_dir(&path).unwrap();
    let file = |name: &str, commands: &str| {
        let lines = { commands.lines() }.filter(|line| !line.trim().is_empty());
        let bytes: Vec<u8> = lines
            .flat_map(|line| encode(&line.split_whitespace().collect::<Vec<_>>()))
            .collect();
        fs::write(path.join(name), bytes).unwrap();
    };
    file("base", base);
    file("incr", commands);
    let manifest = "file old seq 1 type h\nfile base seq 1 type b\nfile incr seq 2 type i\n";
    fs::write(path.join("appendonly.aof.manifest"), manifest).unwrap();
    folder
}

fn alone(number: u64, token: &str) -> String {
    script(&format!("{}\nSET job {token} PXAT 9", mint(number)))
}

fn script(commands: &str) -> String {
    format!("MULTI\n{commands}\nEXEC\n")
}

fn mint(number: u64) -> String {
    let id = format!("{}-{}", number / 1_000, number % 1_000);
    format!("XADD {{job}}:ll:fence NOMKSTREAM MAXLEN = 0 {id} - -")
}

/// The first reader of a phase.
fn reads(number: u64, token: &str) -> String {
    let mint = mint(number);
    script(&format!(
        "{mint}\nZADD job -inf f{number}\nZADD job 5 {token}"
    ))
}

fn permit(number: u64, token: &str) -> String {
    let mint = mint(number);
    script(&format!(
        "{mint}\nZADD job 5 {token}1\nHSET {{job}}:ll:usage sum x permits 3 {token}1 {number}"
    ))
}

fn judge<'a>(servers: impl IntoIterator<Item = &'a Path>) -> Verdict {
    let mut judge = Judge::default();
    servers.into_iter().for_each(|folder| judge.reads(folder));
    judge.verdict().clone()
}

fn faults(verdict: &Verdict) -> Vec<Fault> {
    verdict.wrong.iter().map(|wrong| wrong.fault).collect()
}

fn of(commands: &[String]) -> Verdict {
    judge([server("", &commands.concat()).path()])
}

fn found(commands: &[String]) -> Vec<Fault> {
    faults(&of(commands))
}

fn free() -> String {
    "DEL job\n".to_owned()
}

#[test]
fn grants_of_all_kinds_with_numbers_that_grow_are_right() {
    let range = [mint(8_000), mint(8_063)].join("\n");
    let unfenced = A.replace('.', "~");
    let verdict = of(&[
        "SELECT 0\n".to_owned(),
        alone(5_000, A),
        format!("SET job {A} PXAT 10\n"), // an extension
        free(),
        script(&format!("{range}\nSET job {B} PXAT 9")),
        format!("SET job {C} PXAT 9\n"), // the number goes with it
        free(),
        reads(8_064, A),
        format!("ZADD job 6 {B}\n"),
        script(&format!("ZREM job {B}\nZREM job {A}\nZREM job f8064")),
        reads(8_065, &format!("{A}u")),
        script(&format!("ZREM job {A}u\nZADD job 6 {A}")), // reads on
        script(&format!("{}\nSET job {A} PXAT 9", mint(8_066))),
        script(&format!(
            "DEL job\n{}\nZADD job 6 {A}\nZADD job -inf f8067",
            mint(8_067)
        )),
        free(),
        permit(9_000, A),
        permit(9_001, B),
        free(),
        format!("SET job {unfenced} PXAT 9\n"),
        free(),
        "SET job the-lock-of-another-library\n".to_owned(),
    ]);
    assert_eq!(faults(&verdict), []);
    let counts = [
        verdict.alone,
        verdict.readers,
        verdict.permits,
        verdict.passed_on["job"],
    ];
    assert_eq!(counts, [3, 5, 2, 1]);
}

#[test]
fn a_number_that_is_not_larger_than_all_before_is_found() {
    for second in [4_999, 5_000] {
        let found = found(&[alone(5_000, A), free(), alone(second, B)]);
        assert_eq!(found, [Fault::NotLarger], "{second}");
    }
    let within_a_range = [mint(5_000), mint(5_063)].join("\n");
    let range = script(&format!("{within_a_range}\nSET job {A} PXAT 9"));
    assert_eq!(found(&[range, free(), alone(5_063, B)]), [Fault::NotLarger]);
    assert_eq!(
        found(&[alone(5_000, A), free(), reads(5_000, B)]),
        [Fault::NotLarger]
    );
    assert_eq!(
        found(&[permit(5_000, A), permit(5_000, B)]),
        [Fault::NotLarger]
    );
    let of_before = script(&format!("ZREM job {A}\nZADD job 7 {B}"));
    assert_eq!(found(&[reads(5_000, A), of_before]), [Fault::NotLarger]);
}

#[test]
fn readers_of_one_phase_with_two_numbers_are_found() {
    assert_eq!(found(&[reads(5_000, A), reads(5_001, B)]), [Fault::Unlike]);
    let joins_behind = [
        reads(5_000, A),
        script(&format!("{}\nSET job {B} PXAT 9", mint(5_001))),
        format!("ZADD job 6 {A}\n"),
        format!("ZADD job -inf f5000 6 {C}\n"),
    ];
    let without = found(&joins_behind);
    assert_eq!(
        without,
        [Fault::Missing, Fault::NotLarger],
        "no mark, an old one"
    );
    let wasted = [
        reads(5_000, A),
        mint(5_001) + "\n",
        format!("ZADD job 6 {B}\n"),
    ];
    assert_eq!(found(&wasted), [], "a number that nobody has");
}

#[test]
fn a_grant_without_a_number_that_was_minted_for_it_is_found() {
    assert_eq!(found(&[format!("SET job {A} PXAT 9\n")]), [Fault::Missing]);
    assert_eq!(found(&[format!("ZADD job 5 {A}\n")]), [Fault::Missing]);
    assert_eq!(found(&[format!("ZADD job 5 {A}1\n")]), [Fault::Missing]);
    let not_minted = format!("ZADD job -inf f5000 5 {A}\n");
    assert_eq!(found(&[not_minted]), [Fault::Missing]);
    let not_its_own = script(&format!(
        "{}\nZADD job 5 {A}1\nHSET {{job}}:ll:usage {A}1 4000",
        mint(5_000)
    ));
    assert_eq!(found(&[not_its_own]), [Fault::Missing]);
    let elsewhere = [mint(5_000) + "\n", format!("SET job {A} PXAT 9\n")];
    assert_eq!(found(&elsewhere), [Fault::Missing], "by another request");
}

#[test]
fn all_keys_are_lost_and_numbers_go_on() {
    let flushed = |number: u64| {
        let commands = [alone(5_000, A), "FLUSHALL\n".to_owned(), alone(number, B)];
        let verdict = of(&commands);
        assert_eq!((verdict.flushes, verdict.alone), (1, 2));
        faults(&verdict)
    };
    assert_eq!(flushed(5_001), []);
    assert_eq!(flushed(1), [Fault::NotLarger]);
}

#[test]
fn a_counter_without_time_repeats_numbers_after_a_loss() {
    let counted = |token: &str| script(&format!("INCR {{job}}:ll:fence\nSET job {token} PXAT 9"));
    assert_eq!(found(&[counted(A), free(), counted(B)]), []);
    let lost = [counted(A), "FLUSHALL\n".to_owned(), counted(B)];
    assert_eq!(found(&lost), [Fault::NotLarger]);
}

#[test]
fn a_transaction_that_was_cut_off_has_no_effect() {
    let cut = format!("MULTI\n{}\nSET job {A} PXAT 9\n", mint(5_000));
    let verdict = of(&[alone(5_000, A), free(), cut]);
    assert_eq!((faults(&verdict), verdict.alone), (vec![], 1));
    let folder = server("", &alone(5_000, A));
    let path = folder.path().join("appendonlydir/incr");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(judge([folder.path()]).alone, 0, "within a command");
}

#[test]
fn the_file_of_a_replica_repeats_grants_and_goes_on_with_its_own() {
    let primary = server("", &[alone(5_000, A), free(), alone(5_001, B)].concat());
    let takes_over = |number: u64| {
        let replica = server("", &[alone(5_000, A), free(), alone(number, C)].concat());
        faults(&judge([primary.path(), replica.path()]))
    };
    assert_eq!(takes_over(5_002), []);
    assert_eq!(
        takes_over(5_001),
        [Fault::NotLarger],
        "the grant that was lost"
    );
}

#[test]
fn holds_that_a_server_begins_with_are_those_of_the_server_before() {
    let begins_with = |base: &str, commands: &str| {
        let granted = [
            reads(5_000, A),
            free(),
            alone(6_000, B),
            free(),
            permit(7_000, A),
        ];
        let primary = server("", &granted.concat());
        let replica = server(base, commands);
        faults(&judge([primary.path(), replica.path()]))
    };
    let alone = format!("SET job {B}\nPEXPIREAT job 9\n");
    let extends = format!("SET job {B} PXAT 10\n");
    assert_eq!(begins_with(&alone, &extends), []);
    let permits = format!("ZADD job 5 {A}1\nHMSET {{job}}:ll:usage permits 3 {A}1 7000\n");
    assert_eq!(begins_with(&permits, &permit(7_001, B)), []);
    let readers = format!("ZADD job -inf f5000 5 {A}\n");
    let joins = format!("ZADD job 6 {C}\n");
    assert_eq!(begins_with(&readers, &joins), [Fault::JoinsBehind]);
    assert_eq!(begins_with(&readers, &reads(7_001, C)), [Fault::Unlike]);
}

/// What a server writes is what is read: a key that has ended, a mint, a script, a loss.
#[test]
fn the_files_of_a_server_are_read() {
    let server = Server::builder().effects_kept().start();
    takes(&server, A);
    server.cli(&["DEL", "job"]);
    takes(&server, B);
    server.cli(&["FLUSHALL"]);
    let flushed_us = clock::wall_us();
    wait_until(PATIENCE, "the clock has passed each number", || {
        clock::wall_us() > flushed_us + 1_000
    });
    takes(&server, C);
    let replica = Server::builder().effects_kept().replica_of(&server).start();
    wait_until(PATIENCE, "the file is whole", || is_whole(&replica));
    server.kill();
    replica.promote();
    takes(&replica, A);
    replica.kill();
    let verdict = judge([server.dir(), replica.dir()]);
    assert_eq!(faults(&verdict), []);
    assert_eq!((verdict.alone, verdict.flushes), (4, 1));
}

fn takes(server: &Server, token: &str) {
    let script = "redis.call('XADD', KEYS[2], 'MAXLEN', '=', '0', '*', '-', '-') \
        redis.call('SET', KEYS[1], ARGV[1], 'PX', '60000')";
    let eval = ["EVAL", script, "2", "job", "{job}:ll:fence", token];
    assert!(!server.cli(&eval).is_error());
}
