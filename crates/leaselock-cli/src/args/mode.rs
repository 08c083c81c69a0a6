//! The arguments that say how a lock is held: alone, beside other readers, or by permits.

use clap::Args;
use leaselock::interop::{Preset, Protocol};

use super::lease::LockArgs;

#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// Read: hold the lock beside others that give -s
    ///
    /// A holder without -s excludes all of these, and they exclude it. A later request waits behind
    /// those that wait already, so neither starves.
    #[arg(short, long)]
    shared: bool,

    /// Hold the lock alone: the default, accepted because flock(1) has it, as -x and -e
    #[arg(short = 'x', short_alias = 'e', long = "exclusive")]
    #[arg(conflicts_with = "shared", hide_short_help = true)]
    _exclusive: bool,

    /// Let N hold it at a time, each with a permit
    ///
    /// The number of the latest request counts, unless `permits NAME set` has pinned one. A holder of
    /// the same name without --permits waits until all permits are back.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    permits: Option<u32>,

    /// Hold this many of the permits [default: 1]
    #[arg(
        long,
        value_name = "M",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    take: Option<u32>,
}

/// How the lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    /// So many of so many permits.
    Permits {
        take: u32,
        total: u32,
    },
}

impl ModeArgs {
    /// Whether the lock is to be held alone.
    pub(crate) fn is_alone(&self) -> bool {
        !self.shared && self.permits.is_none() && self.take.is_none()
    }

    /// The second stage: how the lock is to be held, when the flags for that agree with each other and with the rest.
    pub(crate) fn mode(&self, lock: &LockArgs, protocol: Protocol) -> Result<Mode, String> {
        let (flag, mode) = match (self.shared, self.permits, self.take) {
            (false, None, None) => return Ok(Mode::Exclusive),
            (true, None, None) => ("--shared", Mode::Shared),
            (_, None, Some(take)) => {
                return Err(format!(
                    "--take: say of how many permits; give --permits N too, with N at least {}",
                    take.max(1)
                ));
            }
            (true, Some(_), _) => {
                return Err(
                    "--shared and --permits: a lock has either readers or permits; \
                            give one of the two"
                        .into(),
                );
            }
            (false, Some(total), take) => {
                let take = take.unwrap_or(1);
                let mode = Mode::Permits { take, total };
                check_permits(take, total)?;
                ("--permits", mode)
            }
        };
        if lock.like.preset.is_some() || protocol != Protocol::Native {
            let other = match lock.like.preset {
                Some(_) => "--like",
                None => "--protocol",
            };
            return Err(format!(
                "{flag} and {other}: other libraries would not see readers and permits of \
                 leaselock; leave one of the two out"
            ));
        }
        if lock.note.is_some() {
            return Err(format!(
                "{flag} and --note: only a holder that holds the lock alone has a note; leave --note out"
            ));
        }
        Ok(mode)
    }
}

/// Refuses several names where they cannot be had.
pub(super) fn check_also(
    also: &[String],
    mode: Mode,
    lock: &LockArgs,
    protocol: Protocol,
) -> Result<(), String> {
    let theirs = lock.like.preset.map(Preset::protocol);
    let is_native = protocol == Protocol::Native && theirs.is_none_or(|it| it == Protocol::Native);
    let other = match mode {
        _ if also.is_empty() => return Ok(()),
        Mode::Shared => "--shared",
        Mode::Permits { .. } => "--permits",
        Mode::Exclusive if is_native => return Ok(()),
        Mode::Exclusive if protocol == Protocol::Native => "--like",
        Mode::Exclusive => "--protocol",
    };
    Err(format!(
        "--also and {other}: several names are held alone and in the native way; leave one of the two away"
    ))
}

/// Refuses what `--permits TOTAL --take TAKE` cannot do.
fn check_permits(take: u32, total: u32) -> Result<(), String> {
    if total == 0 {
        return Err("--permits: with 0 permits nothing could ever run; give 1 or more".into());
    }
    if take == 0 {
        return Err("--take: 0 permits would let any number run; give 1 or more".into());
    }
    if take > total {
        return Err(format!(
            "--take: {take} permits are more than the {total} of --permits; \
             give at most {total}, or a larger --permits"
        ));
    }
    Ok(())
}
