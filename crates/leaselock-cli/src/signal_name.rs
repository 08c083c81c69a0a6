//! Signals by the names that `kill -l` prints, with or without `SIG`, or by number.

use rustix::process::Signal;

/// The standard signals; those of real-time programs have no fixed numbers and are left out.
const NAMES: [(&str, Signal); 31] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ILL", Signal::ILL),
    ("TRAP", Signal::TRAP),
    ("ABRT", Signal::ABORT),
    ("BUS", Signal::BUS),
    ("FPE", Signal::FPE),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("SEGV", Signal::SEGV),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("STKFLT", Signal::STKFLT),
    ("CHLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("URG", Signal::URG),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
    ("VTALRM", Signal::VTALARM),
    ("PROF", Signal::PROF),
    ("WINCH", Signal::WINCH),
    ("IO", Signal::IO),
    ("PWR", Signal::POWER),
    ("SYS", Signal::SYS),
];

/// Parses a signal that can end a job; the signature is that of a clap value parser.
pub(crate) fn parse(text: &str) -> Result<Signal, String> {
    let upper = text.trim().to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = NAMES
        .iter()
        .find(|(name, _)| *name == bare)
        .map(|(_, signal)| *signal);
    let signal = named.or_else(|| bare.parse().ok().and_then(Signal::from_named_raw));
    match signal {
        Some(Signal::STOP | Signal::TSTP | Signal::TTIN | Signal::TTOU | Signal::CONT) => {
            Err("it would not end the job; use for example TERM, INT, QUIT or KILL".into())
        }
        Some(signal) => Ok(signal),
        None => Err("write a name that `kill -l` knows, as TERM or SIGINT, or 1 to 31".into()),
    }
}

/// The name without `SIG`, or the number where there is no name.
pub(crate) fn name(signal: Signal) -> String {
    let known = NAMES.iter().find(|(_, other)| *other == signal);
    known.map_or_else(
        || signal.as_raw().to_string(),
        |(name, _)| (*name).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_goes_by_name_or_number() {
        for text in ["TERM", "term", "SIGTERM", "sigterm", "15", " TERM "] {
            assert_eq!(parse(text), Ok(Signal::TERM), "{text:?}");
        }
        assert_eq!(parse("9"), Ok(Signal::KILL));
        assert_eq!(parse("usr1"), Ok(Signal::USR1));
    }

    #[test]
    fn every_name_comes_back_as_it_went() {
        for (text, signal) in NAMES {
            assert_eq!(name(signal), text);
            assert_eq!(Signal::from_named_raw(signal.as_raw()), Some(signal));
        }
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for text in [
            "",
            "SIG",
            "0",
            "-9",
            "32",
            "64",
            "1e3",
            "TERMX",
            "SIGSIGTERM",
        ] {
            assert!(parse(text).unwrap_err().contains("kill -l"), "{text:?}");
        }
    }

    #[test]
    fn a_signal_that_leaves_the_job_alive_is_refused() {
        for text in ["STOP", "CONT", "20"] {
            assert!(
                parse(text).unwrap_err().contains("would not end the job"),
                "{text:?}"
            );
        }
    }
}
