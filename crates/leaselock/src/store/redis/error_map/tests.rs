//! Tests with the words of real servers.

use ErrorKind::*;

use super::*;

const SHA: &str = "0dba3f50748442a2f9b317a4d0e9153e82f5f7c5";

/// Returns the line as a script raised it in Redis 6.2, in 7.0 to 8, and in Valkey 9.
fn raised(line: &str) -> Vec<String> {
    let (code, _) = line.split_once(' ').unwrap();
    let old = if code == "WRONGTYPE" || code == "ERR" {
        line.to_owned()
    } else {
        format!("@user_script: 12: -{line}")
    };
    vec![
        format!("ERR Error running script (call to f_{SHA}): @user_script:12: {old}"),
        format!("{line} script: {SHA}, on @user_script:12."),
        format!("{line} script: on @user_script:12."),
    ]
}

fn check(line: &str, kind: ErrorKind, maybe_applied: bool) {
    let error = from_line(line);
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (kind, maybe_applied),
        "{line} became {error}"
    );
}

#[test]
fn refusals_are_told_by_their_word_wherever_it_stands() {
    for (line, kind) in [
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            OutOfMemory,
        ),
        (
            "READONLY You can't write against a read only replica.",
            ReadOnly,
        ),
        ("NOREPLICAS Not enough good replicas to write.", NoReplicas),
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands \
             that may modify the data set are disabled, because this instance is configured to report errors during \
             writes if RDB snapshotting fails (stop-writes-on-bgsave-error option).",
            NotServing,
        ),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            WrongType,
        ),
    ] {
        check(line, kind, false);
        for line in raised(line) {
            check(&line, kind, false);
        }
    }
}

#[test]
fn refusals_of_the_whole_command_surely_had_no_effect() {
    for (line, kind) in [
        ("LOADING Redis is loading the dataset in memory", Loading),
        ("LOADING Valkey is loading the dataset in memory", Loading),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            NotServing,
        ),
        (
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            NotServing,
        ),
        ("CLUSTERDOWN Hash slot not served", ClusterDown),
        ("CLUSTERDOWN The cluster is down", ClusterDown),
        ("MOVED 3999 127.0.0.1:6381", ClusterDown),
        ("ASK 3999 127.0.0.1:6381", ClusterDown),
        (
            "TRYAGAIN Multiple keys request during rehashing of slot",
            ClusterDown,
        ),
        (
            "CROSSSLOT Keys in request don't hash to the same slot",
            Unsupported,
        ),
        ("NOSCRIPT No matching script. Please use EVAL.", NotServing),
        ("NOAUTH Authentication required.", Auth),
        (
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
          option can be used to authenticate the client and select the RESP protocol version at the same time",
            Auth,
        ),
        (
            "WRONGPASS invalid username-password pair or user is disabled.",
            Auth,
        ),
        (
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
          configuration is correct?",
            Auth,
        ),
        (
            "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand",
            Forbidden,
        ),
        (
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            Forbidden,
        ),
        (
            "NOPERM User bob has no permissions to run the 'evalsha' command",
            Forbidden,
        ),
        ("NOPERM No permissions to access a key", Forbidden),
        (
            "DENIED Redis is running in protected mode because protected mode is enabled",
            Forbidden,
        ),
        ("ERR max number of clients reached", NotServing),
        ("ERR DB index is out of range", Unsupported),
        (
            "ERR unknown command `evalsha`, with args beginning with: `a`, ",
            Unsupported,
        ),
        (
            "ERR unknown command 'evalsha', with args beginning with: 'a' ",
            Unsupported,
        ),
        (
            "ERR Error compiling script (new function): user_script:1: unexpected symbol near ')'",
            Internal,
        ),
    ] {
        check(line, kind, false);
    }
}

#[test]
fn what_a_user_may_not_do_inside_a_script_may_come_after_a_write() {
    for text in [
        "The user executing the script can't run this command or subcommand",
        "The user executing the script can't access at least one of the keys mentioned in the command arguments",
        "The user executing the script can't publish to the channel mentioned in the command",
    ] {
        check(
            &format!(
                "ERR Error running script (call to f_{SHA}): @user_script:1: @user_script: 1: {text}"
            ),
            Forbidden,
            true,
        );
        check(
            &format!("ERR {text} script: {SHA}, on @user_script:1."),
            Forbidden,
            true,
        );
    }
    for text in [
        "User bob has no permissions to run the 'set' command",
        "No permissions to access a key",
        "No permissions to access a channel",
    ] {
        check(
            &format!("ERR ACL failure in script: {text} script: {SHA}, on @user_script:1."),
            Forbidden,
            true,
        );
        check(
            &format!("ERR ACL failure in script: {text} script: on @user_script:1."),
            Forbidden,
            true,
        );
    }
}

#[test]
fn scripts_that_fail_in_another_way_are_our_fault_and_unknown() {
    for line in raised("ERR value is not an integer or out of range") {
        check(&line, Internal, true);
    }
    check(
        &format!(
            "ERR user_script:1: attempt to perform arithmetic on a nil value script: {SHA}, on @user_script:1."
        ),
        Internal,
        true,
    );
    for text in [
        "Unknown Redis command called from script",
        "Unknown command called from script",
    ] {
        check(
            &format!("ERR {text} script: {SHA}, on @user_script:1."),
            Unsupported,
            true,
        );
    }
    check(
        &format!(
            "ERR Error running script (call to f_{SHA}): @user_script:1: @user_script: 1: Unknown Redis command called from Lua script"
        ),
        Unsupported,
        true,
    );
    check("ERR something new", NotServing, true);
    check("", NotServing, true);
}

#[test]
fn words_of_others_are_made_safe_to_print() {
    let error = from_line(
        "ERR unknown command 'EVALSHA', with args beginning with: 'sha' '1' 'key' 'token' ",
    );
    assert!(
        error
            .to_string()
            .ends_with("(it said: ERR unknown command 'EVALSHA')"),
        "{error}"
    );
    assert_eq!(
        quoted("a\x1b[31m\r\nb\u{9b}"),
        "a\u{fffd}[31m\u{fffd}\u{fffd}b\u{fffd}"
    );
    let long = quoted(&"é".repeat(1000));
    assert_eq!(long.chars().count(), 201);
}
