//! What help and the manual pages say beside the options: examples, variables, files, exit codes.

use crate::exit;

/// The heading of examples in help; the manual page has a heading of its own.
pub(crate) const EXAMPLES: &str = "Examples:\n";

pub(crate) const COMMAND: &str = "\
Examples:
  leaselock run nightly -- ./report         wait for the lock, then run
  leaselock --url redis://db run x -- true  share the lock with other machines";

pub(crate) const RUN: &str = "\
Examples:
  leaselock run nightly -- ./report         wait for the lock, then run
  leaselock run -n nightly -- ./report      exit 75 at once if the lock is held
  leaselock run -w 5m nightly -c 'a; b'     wait five minutes at most; a shell";

/// For the long help, which need not fit on a screen.
pub(crate) const RUN_LONG: &str = "\
Examples:
  leaselock run nightly -- ./report         wait for the lock, then run
  leaselock run -n nightly -- ./report      exit 75 at once if the lock is held
  leaselock run -w 5m nightly -c 'make; ./report'
                                            wait five minutes at most; with a shell
  leaselock run -s config -- ./serve        beside others that give -s
  leaselock run --permits 4 pool -- ./job   four at a time
  leaselock run from --also to -- ./transfer
                                            hold both, or wait for both";

pub(crate) const HOLD: &str = "\
Examples:
  leaselock hold nightly                    hold it until Ctrl-C
  coproc L { exec leaselock hold --kill $$ nightly; }
                                            in bash: read the events from ${L[0]}";

pub(crate) const ACQUIRE: &str = "\
Examples:
  handle=$(leaselock acquire --ttl 10m deploy)
  printf '%s' \"$handle\" | leaselock release";

pub(crate) const EXTEND: &str = "\
Examples:
  LEASELOCK_HANDLE=$handle leaselock extend --ttl 10m";

pub(crate) const RELEASE: &str = "\
Examples:
  printf '%s' \"$handle\" | leaselock release";

pub(crate) const STATUS: &str = "\
Examples:
  leaselock status nightly                  who holds it, who waits
  leaselock status --json nightly | jq .holder.process";

pub(crate) const LS: &str = "\
Examples:
  leaselock ls                              all locks that are held
  leaselock ls 'db:*'                       those whose name begins with db:
  leaselock ls --contended --sort waiting   where others wait, the longest queue first
  leaselock ls --kind leader,cron           who leads, and which ticks run";

pub(crate) const BLAME: &str = "\
Examples:
  leaselock blame                           whom all that wait now wait for
  leaselock blame --limit 1 'db:*'          the worst holder of a lock that begins with db:";

#[cfg(feature = "top")]
pub(crate) const TOP: &str = "\
Examples:
  leaselock top                             what is held now; ? names the keys
  leaselock top --once 'db:*'               print the locks that begin with db:, once";

pub(crate) const SCHEDULES: &str = "\
Examples:
  leaselock schedules                       what runs when, and what ran last
  leaselock schedules --overdue             a health check: exit 1 if a run is missing";

pub(crate) const WAIT: &str = "\
Examples:
  leaselock wait -n deploy && echo free     ask, and do not wait
  leaselock wait -w 10m deploy              wait ten minutes at most";

pub(crate) const BREAK: &str = "\
Examples:
  leaselock break --fence 1795372321031611 deploy
                                            only the grant that status has shown; its holder
                                            stops, and then the next has the lock
  leaselock break --now --fence 1795372321031611 deploy
                                            its holder is dead: the next has it at once";

pub(crate) const LOG: &str = "\
Examples:
  leaselock log --since 1d nightly          what befell this lock
  leaselock log --follow --kind broken      each break from now on, and those before";

pub(crate) const PERMITS: &str = "\
Examples:
  leaselock permits pool                    how many there are, who holds them
  leaselock permits pool set 8              eight for all, whatever they ask for
  leaselock permits pool unset              leave it to run --permits again";

pub(crate) const ELECT: &str = "\
Examples:
  leaselock elect scheduler --value 10.0.0.5:8080 -- ./scheduler
  leaselock elect scheduler -c './scheduler --term $LEASELOCK_TERM'";

pub(crate) const LEADER: &str = "\
Examples:
  leaselock leader scheduler                where the leader is
  leaselock leader --follow scheduler       a line for each change";

pub(crate) const ONCE: &str = "\
Examples:
  leaselock once mail/42 -- ./send-mail 42
  leaselock once --on-crash refuse --keep-failures charge/42 -- ./charge 42
                                            never twice, whatever becomes of it
  leaselock once --kept 1h --keep-failures probe -c 'curl -sf http://db/health'";

pub(crate) const CRON: &str = "\
Examples:
  leaselock cron '30 2 * * *' nightly --tz Europe/Berlin -- ./report
  leaselock cron '*/10 * * * *' mails --again -- ./send-mails
                                            again after a crash
  leaselock cron '30 2 * * *' nightly --show
                                            what became of the latest run
  leaselock cron '30 2 * * *' --tz Europe/Berlin --next 5
                                            when it would run";

pub(crate) const LATCH: &str = "\
Examples:
  leaselock latch deploy-42 --count 3 --arrive shard-1
  leaselock latch deploy-42 --count 3 -w 10m
                                            wait ten minutes at most for all three";

pub(crate) const LIMIT: &str = "\
Examples:
  leaselock limit mails --rate 10/s -- ./send
                                            waits for its turn
  leaselock limit -n mails --rate 100/h --burst 20 -- ./send
                                            exit 75 if the rate is used up";

pub(crate) const COUNT: &str = "\
Examples:
  leaselock count builds                    add 1 and print the sum
  leaselock count builds --add 5
  leaselock count builds --get              only print it
  leaselock count state --cas 0 1           set it to 1 if it is 0";

pub(crate) const DOCTOR: &str = "\
Examples:
  leaselock doctor                          check the default folder
  leaselock --url redis://db doctor         check a server";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  leaselock completions bash > ~/.local/share/bash-completion/completions/leaselock";

pub(crate) const MAN: &str = "\
Examples:
  leaselock man run | man -l -";

/// The end of a long help.
pub(crate) fn with_exit_codes(examples: &str) -> String {
    format!("{examples}\n\n{}", exit::HELP)
}

/// Variables that the command reads and no option has, and those that it sets.
pub(crate) const VARIABLES: [(&str, &str); 11] = [
    (
        "LEASELOCK_HANDLE",
        "The handle for extend and release, unless --handle-file names a file. A secret.",
    ),
    (
        "LEASELOCK_NAME",
        "Set for the job of run: the name of the lock; with --like the key of the other library.",
    ),
    (
        "LEASELOCK_FENCE",
        "Set for the job of run: the fencing token of this grant, for the resource that the lock protects.",
    ),
    (
        "LEASELOCK_FENCES",
        "Set for the job of run --also: for each name a line with its fencing token, a space and the name.",
    ),
    (
        "LEASELOCK_SEQUENCER",
        "Set for the job of run: what it shows to the resource that the lock protects; with --also a line for each name.",
    ),
    (
        "LEASELOCK_TTL_MS",
        "Set for the job of run: the ttl in milliseconds.",
    ),
    (
        "LEASELOCK_TERM",
        "Set for the job of elect: the number of this leadership, which is its fencing token.",
    ),
    (
        "LEASELOCK_TICK",
        "Set for the job of cron: when it was due, in UTC.",
    ),
    (
        "LEASELOCK_OWNER",
        "Set for the job of run, and read by a run in it: who holds the lock, so that a deadlock is found. No secret.",
    ),
    (
        "LEASELOCK_WITHHELD",
        "Set for the job of run in place of a LEASELOCK_URL that has a password. A leaselock in the job then refuses \
         to use the default folder.",
    ),
    ("SHELL", "The shell of run -c; /bin/sh if it is not set."),
];

/// Where locks are kept when no URL is given.
pub(crate) const FILES: [(&str, &str); 2] = [
    (
        "~/.local/state/leaselock",
        "The locks of a user, when neither --url nor LEASELOCK_URL is given. Other users have folders of their own.",
    ),
    ("/var/lib/leaselock", "The same for root."),
];

/// Pages of other programs.
pub(crate) const SEE_ALSO: [&str; 3] = ["flock(1)", "timeout(1)", "redis-cli(1)"];
