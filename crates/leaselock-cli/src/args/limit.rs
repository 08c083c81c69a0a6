//! The arguments of the verb for rate limits.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::{duration, manual};

/// Run a command at a limited rate
///
/// Waits until the rate allows it, and becomes the command. All who give the same name share the rate,
/// on all machines that use the server. Those who wait run in the order of arrival. Nothing is held
/// while the command runs: use run --permits too, to limit how many run at the same time.
///
/// Exits 75 when the command would have to wait longer than -n or -w allow.
#[derive(Debug, Args)]
#[command(after_help = manual::LIMIT, after_long_help = manual::with_exit_codes(manual::LIMIT))]
#[command(override_usage = "leaselock limit [OPTIONS] --rate N/PERIOD NAME [--] COMMAND [ARG]...")]
pub(crate) struct LimitArgs {
    /// Average rate: 10/s, 100/1m, 1000/h; any one period may have more, see --burst
    #[arg(long, value_name = "N/PERIOD", value_parser = rate, allow_hyphen_values = true)]
    pub(crate) rate: Rate,

    /// Runs that may start at once after a pause [default: N of the rate]
    ///
    /// Any one period has at most N of the rate and this many runs: by default twice the rate.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) burst: Option<u32>,

    /// How many runs this one counts for
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    pub(crate) cost: u32,

    /// Do not wait: fail at once when the rate is used up
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait at most this long; fail at once when it would take longer [default: forever]
    #[arg(short, long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,

    /// Name of the limiter
    #[arg(value_name = "NAME")]
    pub(crate) limiter: String,

    /// The command and its arguments, passed on byte for byte and without a shell
    #[arg(trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// A number of permits in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) limit: u32,
    pub(crate) period: Duration,
}

/// Reads `10/s` and `100/5m`.
fn rate(text: &str) -> Result<Rate, String> {
    let right = "write how many, a slash and the period: 10/s, 100/5m or 1000/h";
    let (limit, period) = text.split_once('/').ok_or(right)?;
    let limit = limit.parse().map_err(|_| {
        format!(
            "`{limit}` is no whole number from 1 to {}; {right}",
            u32::MAX
        )
    })?;
    // A unit alone is one of it.
    let is_unit = period.starts_with(|first: char| first.is_ascii_alphabetic());
    let one = if is_unit { "1" } else { "" };
    let period = duration::parse(&format!("{one}{period}")).map_err(|wrong| wrong.to_string())?;
    Ok(Rate { limit, period })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_period_which_may_be_a_unit_alone() {
        for (text, limit, period_ms) in [
            ("10/s", 10, 1000),
            ("1/1h", 1, 3_600_000),
            ("100/1m30s", 100, 90_000),
            ("5/250ms", 5, 250),
            ("5/2", 5, 2000),
        ] {
            let period = Duration::from_millis(period_ms);
            assert_eq!(rate(text), Ok(Rate { limit, period }), "{text}");
        }
        for text in [
            "10",
            "/s",
            "ten/s",
            "-1/s",
            "10/",
            "10/parsec",
            "1.5/s",
            "5000000000/s",
        ] {
            let refusal = rate(text).unwrap_err();
            assert!(refusal.contains("write"), "{text}: {refusal}");
        }
    }
}
