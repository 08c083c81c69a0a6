//! The scenarios, each a promise about who is dead when.

use rustix::process::Signal;

use crate::stage::{Stage, lines, type_keys, until, until_moment};
use crate::wrapper::{Lease, PLAN, is_free};
use crate::{boottime, listener};

macro_rules! scenarios {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn())),*] };
}

pub(crate) const ALL: &[(&str, fn())] = scenarios! {
    a_job_that_ends_by_itself_gives_its_code_and_leaves_no_guardian
    a_renewed_lease_lets_the_job_live
    a_job_that_ignores_the_signal_is_dead_before_the_deadline
    a_job_that_hears_the_signal_has_time_to_clean_up
    a_stopped_job_is_continued_so_that_it_can_clean_up
    a_stopped_wrapper_does_not_keep_its_job_alive
    a_stopped_wrapper_with_a_stopped_job_does_not_keep_it_alive
    a_killed_wrapper_leaves_a_job_alone_that_holds_the_lock_itself
    a_killed_wrapper_does_not_keep_its_job_alive
    a_killed_wrapper_ends_its_job_with_term_at_once
    a_descriptor_kept_by_the_guardian_closes_after_the_job_is_dead
    a_job_that_was_told_to_end_is_killed_although_the_wrapper_died_and_it_holds_the_lock
    what_the_job_leaves_in_its_group_is_dead_when_the_wrapper_exits
    a_descendant_that_left_the_group_is_killed_too
    a_lost_lease_ends_the_job_at_once_whatever_its_deadline
    a_late_deadline_does_not_call_the_guardian_back
    a_job_does_not_start_under_a_lease_that_is_about_to_end
    a_job_does_not_run_on_without_its_guardian
    a_stopped_guardian_is_replaced_by_the_wrapper_when_the_lease_is_lost
    what_the_job_leaves_is_asked_and_killed_before_the_wrapper_exits_also_without_a_guardian
    a_guardian_killed_or_stopped_after_the_signal_does_not_move_the_kill_beyond_the_deadline
    the_guardian_is_deaf_to_what_is_meant_for_the_job
    a_command_that_does_not_exist_is_127_and_one_that_cannot_run_is_126
    a_job_ended_by_a_signal_gives_128_and_its_number
    term_reaches_the_whole_job_and_the_job_decides
    a_user_signal_reaches_the_command_alone
    a_signal_ignored_at_the_start_stays_ignored
    a_starter_that_ignores_its_children_does_not_hide_the_jobs_end
    the_job_learns_its_lease_and_no_secret
    on_a_terminal_job_and_wrapper_share_the_group_and_hear_a_key_once
    on_a_terminal_a_stopped_foreground_group_does_not_keep_the_job_alive
    on_a_terminal_a_lost_lease_ends_the_job_and_its_descendants
};

/// Long enough for everything but the scenarios about its end.
const LONG: Lease = Lease {
    length_ms: 60_000,
    renew_ms: 0,
    lost_ms: 0,
    job_holds: false,
    guardian_keeps: false,
};
/// Asks after 1.2 s and kills after 1.8 s.
const SHORT: Lease = Lease {
    length_ms: 2_000,
    ..LONG
};

const IGNORES_TERM: &str = "trap '' TERM; echo $$ > job; while :; do sleep 0.1; done";
const CLEANS_UP: &str = "trap 'touch cleaned; exit 0' TERM; sleep 60 & echo $$ > job; wait";

/// When the job is asked to end.
fn signal_at(stage: &Stage) -> u64 {
    stage.deadline() - boottime::nanoseconds(PLAN.kill_after)
}

fn a_job_that_ends_by_itself_gives_its_code_and_leaves_no_guardian() {
    let mut stage = Stage::script(LONG, "until [ -e go ]; do sleep 0.02; done; exit 7");
    let guardian = stage.guardian();
    std::fs::write(stage.folder.join("go"), "").unwrap();
    assert_eq!(stage.code(), Some(7));
    assert!(guardian.has_ended());
    assert_eq!(stage.log(), "");
}

fn a_renewed_lease_lets_the_job_live() {
    let lease = Lease {
        renew_ms: 200,
        ..SHORT
    };
    let mut stage = Stage::script(lease, "echo $$ > job; sleep 3; exit 3");
    let job = stage.process("job");
    until_moment(stage.deadline());
    assert!(!job.has_ended());
    assert_eq!(stage.code(), Some(3));
}

fn a_job_that_ignores_the_signal_is_dead_before_the_deadline() {
    let mut stage = Stage::script(SHORT, IGNORES_TERM);
    let dead = stage.process("job").end();
    assert!(dead < stage.deadline());
    assert!(
        dead > signal_at(&stage),
        "it was not to be killed before it was asked"
    );
    assert_eq!(stage.code(), Some(79));
    assert_eq!(stage.log(), "NotRenewed\n");
}

fn a_job_that_hears_the_signal_has_time_to_clean_up() {
    let mut stage = Stage::script(SHORT, CLEANS_UP);
    let dead = stage.process("job").end();
    assert!(dead < stage.deadline() && stage.has("cleaned"));
    assert_eq!(stage.code(), Some(79));
}

fn a_stopped_job_is_continued_so_that_it_can_clean_up() {
    let mut stage = Stage::script(SHORT, CLEANS_UP);
    let job = stage.process("job");
    job.stop();
    assert!(job.end() < stage.deadline() && stage.has("cleaned"));
    assert_eq!(stage.code(), Some(79));
}

fn a_stopped_wrapper_does_not_keep_its_job_alive() {
    let mut stage = Stage::script(
        Lease {
            renew_ms: 200,
            ..SHORT
        },
        IGNORES_TERM,
    );
    let (job, wrapper) = (stage.process("job"), stage.wrapper_process());
    wrapper.stop();
    // Nothing is renewed from here on, so no deadline is later than this.
    let last_deadline = boottime::now() + SHORT.length_ms * 1_000_000;
    assert!(job.end() < last_deadline);
    wrapper.signal(Signal::CONT);
    assert_eq!(stage.code(), Some(79));
}

fn a_stopped_wrapper_with_a_stopped_job_does_not_keep_it_alive() {
    let mut stage = Stage::script(
        Lease {
            renew_ms: 200,
            ..SHORT
        },
        IGNORES_TERM,
    );
    let (job, wrapper) = (stage.process("job"), stage.wrapper_process());
    wrapper.stop();
    job.stop();
    let last_deadline = boottime::now() + SHORT.length_ms * 1_000_000;
    assert!(job.end() < last_deadline);
    wrapper.signal(Signal::CONT);
    assert_eq!(stage.code(), Some(79));
}

fn a_killed_wrapper_leaves_a_job_alone_that_holds_the_lock_itself() {
    let lease = Lease {
        job_holds: true,
        ..SHORT
    };
    let mut stage = Stage::script(lease, "echo $$ > job; exec sleep 60");
    let (job, guardian) = (stage.process("job"), stage.guardian());
    stage.wrapper_process().signal(Signal::KILL);
    guardian.end();
    until_moment(stage.deadline());
    assert!(!job.has_ended() && !is_free(&stage.folder));
    job.signal(Signal::KILL);
    job.end();
    until("a free lock", || is_free(&stage.folder));
}

fn a_killed_wrapper_does_not_keep_its_job_alive() {
    let mut stage = Stage::script(SHORT, IGNORES_TERM);
    let (job, guardian) = (stage.process("job"), stage.guardian());
    stage.wrapper_process().signal(Signal::KILL);
    assert!(job.end() < stage.deadline());
    guardian.end();
}

fn a_killed_wrapper_ends_its_job_with_term_at_once() {
    let mut stage = Stage::script(LONG, CLEANS_UP);
    let (job, guardian) = (stage.process("job"), stage.guardian());
    stage.wrapper_process().signal(Signal::KILL);
    assert!(job.end() < signal_at(&stage) && stage.has("cleaned"));
    // Its `sleep` lives on in the group, so the guardian stays.
    assert!(!guardian.has_ended());
}

fn a_descriptor_kept_by_the_guardian_closes_after_the_job_is_dead() {
    let mut stage = Stage::script(
        Lease {
            guardian_keeps: true,
            ..SHORT
        },
        IGNORES_TERM,
    );
    let job = stage.process("job");
    stage.wrapper_process().signal(Signal::KILL);
    until("a free lock", || is_free(&stage.folder));
    assert!(job.has_ended());
    assert!(boottime::now() < stage.deadline());
}

fn a_job_that_was_told_to_end_is_killed_although_the_wrapper_died_and_it_holds_the_lock() {
    let mut stage = Stage::script(
        Lease {
            job_holds: true,
            ..SHORT
        },
        IGNORES_TERM,
    );
    let job = stage.process("job");
    until("the guardian's word", || stage.log() == "NotRenewed\n");
    stage.wrapper_process().signal(Signal::KILL);
    assert!(!job.has_ended());
    assert!(job.end() < stage.deadline());
}

fn what_the_job_leaves_in_its_group_is_dead_when_the_wrapper_exits() {
    // The inner parentheses end at once, so that only the group tells whose the rest is.
    let script =
        "(sh -c \"trap '' TERM; echo \\$\\$ > left; while :; do sleep 0.1; done\" &); sleep 60";
    for lease in [
        SHORT,
        Lease {
            lost_ms: 1_000,
            ..LONG
        },
    ] {
        let mut stage = Stage::script(lease, script);
        let left_behind = stage.process("left");
        assert_eq!(stage.code(), Some(79));
        assert!(left_behind.has_ended());
        assert!(boottime::now() < stage.deadline());
    }
}

fn a_descendant_that_left_the_group_is_killed_too() {
    let daemon = "setsid sh -c \"trap '' TERM; echo \\$\\$ > stray; sleep 60\" & wait";
    let mut stage = Stage::script(SHORT, daemon);
    let stray = stage.process("stray");
    assert_eq!(stage.code(), Some(79));
    assert!(stray.has_ended());
}

fn a_lost_lease_ends_the_job_at_once_whatever_its_deadline() {
    let lease = Lease {
        lost_ms: 300,
        renew_ms: 100,
        ..LONG
    };
    let mut stage = Stage::script(lease, CLEANS_UP);
    let dead = stage.process("job").end();
    assert!(dead < signal_at(&stage) && stage.has("cleaned"));
    assert_eq!(stage.code(), Some(79));
    assert_eq!(stage.log(), "Lost\n");
}

fn a_late_deadline_does_not_call_the_guardian_back() {
    // The renewal comes after the signal, which is at 1.2 s, and before the kill.
    let mut stage = Stage::script(
        Lease {
            renew_ms: 1_450,
            ..SHORT
        },
        IGNORES_TERM,
    );
    assert!(stage.process("job").end() < stage.deadline());
    assert_eq!(stage.code(), Some(79));
}

fn a_job_does_not_start_under_a_lease_that_is_about_to_end() {
    let mut stage = Stage::script(
        Lease {
            length_ms: 700,
            ..LONG
        },
        "touch started",
    );
    assert_eq!(stage.code(), Some(79));
    assert!(!stage.has("started"));
    assert_eq!(stage.log(), "", "it was not even made a job");
}

fn a_job_does_not_run_on_without_its_guardian() {
    for (script, cleaned) in [(CLEANS_UP, true), (IGNORES_TERM, false)] {
        let mut stage = Stage::script(LONG, script);
        let (job, guardian) = (stage.process("job"), stage.guardian());
        guardian.signal(Signal::KILL);
        assert!(job.end() < signal_at(&stage));
        assert_eq!((stage.code(), stage.has("cleaned")), (Some(70), cleaned));
        assert_eq!(stage.log(), "Unguarded\n");
    }
}

fn a_stopped_guardian_is_replaced_by_the_wrapper_when_the_lease_is_lost() {
    let mut stage = Stage::script(
        Lease {
            lost_ms: 1_000,
            ..LONG
        },
        IGNORES_TERM,
    );
    let (job, guardian) = (stage.process("job"), stage.guardian());
    guardian.stop();
    assert!(job.end() < signal_at(&stage));
    assert_eq!(stage.code(), Some(79));
    assert!(
        guardian.has_ended(),
        "it could run on later and harm another process"
    );
}

fn what_the_job_leaves_is_asked_and_killed_before_the_wrapper_exits_also_without_a_guardian() {
    // The outer shell dies of TERM at once.
    let script = "sh -c \"trap 'touch heard' TERM; echo \\$\\$ > left; while :; do sleep 0.1; done\" & \
                  echo $$ > job; wait";
    let lost = Lease {
        lost_ms: 1_000,
        ..LONG
    };
    for (lease, signal, code) in [(LONG, Signal::KILL, 70), (lost, Signal::STOP, 79)] {
        let mut stage = Stage::script(lease, script);
        let (job, left, guardian) = (
            stage.process("job"),
            stage.process("left"),
            stage.guardian(),
        );
        guardian.signal(signal);
        assert_eq!(stage.code(), Some(code));
        assert!(job.has_ended() && left.has_ended() && stage.has("heard"));
    }
}

fn a_guardian_killed_or_stopped_after_the_signal_does_not_move_the_kill_beyond_the_deadline() {
    for signal in [Signal::KILL, Signal::STOP] {
        let mut stage = Stage::script(SHORT, IGNORES_TERM);
        let (job, guardian) = (stage.process("job"), stage.guardian());
        until("the guardian's word", || stage.log() == "NotRenewed\n");
        guardian.signal(signal);
        assert!(job.end() < stage.deadline());
        assert_eq!(stage.code(), Some(79));
    }
}

fn the_guardian_is_deaf_to_what_is_meant_for_the_job() {
    let mut stage = Stage::script(SHORT, IGNORES_TERM);
    let (job, guardian) = (stage.process("job"), stage.guardian());
    for signal in [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
    ] {
        guardian.signal(signal);
    }
    assert!(job.end() < stage.deadline());
    assert_eq!(stage.code(), Some(79));
}

fn a_command_that_does_not_exist_is_127_and_one_that_cannot_run_is_126() {
    assert_eq!(
        Stage::command(LONG, &["./no-such-command"]).code(),
        Some(127)
    );
    assert_eq!(Stage::command(LONG, &["/etc/passwd"]).code(), Some(126));
    assert_eq!(Stage::command(LONG, &["/"]).code(), Some(126));
}

fn a_job_ended_by_a_signal_gives_128_and_its_number() {
    assert_eq!(Stage::script(LONG, "kill -KILL $$").code(), Some(137));
}

fn term_reaches_the_whole_job_and_the_job_decides() {
    let script = "sh -c 'echo $$ > child; exec sleep 60' &
                  trap 'exit 5' TERM; echo $$ > job; wait";
    let mut stage = Stage::script(LONG, script);
    let (child, _job) = (stage.process("child"), stage.process("job"));
    stage.wrapper_process().signal(Signal::TERM);
    assert_eq!(stage.code(), Some(5));
    child.end();
}

fn a_user_signal_reaches_the_command_alone() {
    let script = "sh -c 'echo $$ > child; exec sleep 60' &
                  trap 'touch heard' USR1; echo $$ > job; while :; do wait; done";
    let mut stage = Stage::script(LONG, script);
    let (child, _job) = (stage.process("child"), stage.process("job"));
    stage.wrapper_process().signal(Signal::USR1);
    stage.wait_for("heard");
    assert!(!child.has_ended());
}

fn a_signal_ignored_at_the_start_stays_ignored() {
    // A job that sets the signal's effect anew would show that it was passed on.
    let script = "grep SigIgn /proc/$$/status > ignored
                  exec env --default-signal=HUP sh -c 'echo $$ > job; sleep 60'";
    let mut stage = Stage::behind(LONG, "trap '' HUP; exec \"$@\"", script);
    let job = stage.process("job");
    stage.wrapper_process().signal(Signal::HUP);
    stage.wrapper_process().signal(Signal::TERM);
    // The first would have come first.
    assert_eq!(stage.code(), Some(143));
    assert!(job.has_ended());
    let ignored = std::fs::read_to_string(stage.folder.join("ignored")).unwrap();
    let bits = u64::from_str_radix(ignored.split_whitespace().last().unwrap(), 16).unwrap();
    assert_eq!(bits & 1, 1);
}

fn a_starter_that_ignores_its_children_does_not_hide_the_jobs_end() {
    let mut stage = Stage::behind(LONG, "exec env --ignore-signal=CHLD \"$@\"", "exit 9");
    assert_eq!(stage.code(), Some(9));
}

fn the_job_learns_its_lease_and_no_secret() {
    let script = "env | grep ^LEASELOCK_ | grep -v ^LEASELOCK_TEST_ | sort > learned";
    let mut stage = Stage::behind(LONG, "LEASELOCK_HANDLE=ll1.x exec \"$@\"", script);
    assert_eq!(stage.code(), Some(0));
    let learned = std::fs::read_to_string(stage.folder.join("learned")).unwrap();
    assert_eq!(
        learned,
        "LEASELOCK_FENCE=7\nLEASELOCK_NAME=drill\nLEASELOCK_TTL_MS=20000\n"
    );
}

fn on_a_terminal_job_and_wrapper_share_the_group_and_hear_a_key_once() {
    let (mut stage, mut keys) = Stage::terminal(LONG, &[listener::PART]);
    let job = stage.process("job");
    let wrapper = stage.parent_of(&job);
    assert_eq!(wrapper.group(), job.group());
    let heard = stage.folder.join("heard");
    for presses in 1..=3 {
        type_keys(&mut keys, "\u{3}");
        until("the key", || lines(&heard) >= presses);
    }
    // From another process it is meant for us, and so for the job. Another signal, because the
    // kernel makes one of two that are the same and not yet read.
    wrapper.signal(Signal::TERM);
    until("the signal", || lines(&heard) >= 4);
    let heard = std::fs::read_to_string(heard).unwrap();
    assert_eq!(heard, "key\nkey\nkey\nprocess\n");
    job.signal(Signal::KILL);
    assert_eq!(stage.code_on_terminal(), 137);
}

fn on_a_terminal_a_stopped_foreground_group_does_not_keep_the_job_alive() {
    let lease = Lease {
        renew_ms: 200,
        ..SHORT
    };
    let (mut stage, _keys) = Stage::terminal(lease, &["sh", "-c", &quoted(IGNORES_TERM)]);
    let job = stage.process("job");
    let wrapper = stage.parent_of(&job);
    let group = rustix::process::Pid::from_raw(wrapper.group()).unwrap();
    rustix::process::kill_process_group(group, Signal::STOP).unwrap();
    until("a stopped wrapper", || wrapper.is_stopped());
    let last_deadline = boottime::now() + SHORT.length_ms * 1_000_000;
    assert!(job.end() < last_deadline);
    rustix::process::kill_process_group(group, Signal::CONT).unwrap();
    assert_eq!(stage.code_on_terminal(), 79);
}

fn on_a_terminal_a_lost_lease_ends_the_job_and_its_descendants() {
    let script = "echo $$ > job; sh -c \"trap : TERM; echo \\$\\$ > child; while :; do sleep 0.1; \
                  done\" & wait";
    let (mut stage, _keys) = Stage::terminal(SHORT, &["sh", "-c", &quoted(script)]);
    let (job, child) = (stage.process("job"), stage.process("child"));
    assert!(job.end() < stage.deadline());
    assert!(child.end() < stage.deadline());
    assert_eq!(stage.code_on_terminal(), 79);
}

/// A word for the shell that `script` starts.
fn quoted(script: &str) -> String {
    format!("'{}'", script.replace('\'', r"'\''"))
}
