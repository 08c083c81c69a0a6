//! What leaselock sends for one pair, read off the server, so that it can be sent by hand.

use testkit::Value;

use crate::child::Pairs;
use crate::contender::{Kind, by_hand::Seen, text};
use crate::crew::Worker;
use crate::stand::Stand;

/// Runs some pairs and takes the last whole one.
pub fn pair(stand: &Stand, kind: Kind) -> Result<Seen, String> {
    let mut worker = Worker::start(kind, &stand.url(), None)?;
    let prefix = "overheard".to_owned();
    let job = Pairs {
        tasks: 1,
        ms: 5,
        prefix: prefix.clone(),
    };
    worker.pairs(job.clone())?; // scripts are known to the server from here on
    let mut monitor = stand.monitor()?;
    worker.pairs(job)?;
    drop(worker);
    let name = format!("{prefix}0");
    let mut calls: Vec<Vec<String>> = Vec::new();
    // Two are enough; what the server has not sent yet comes while we read.
    while calls.len() < 2 {
        let Value::Status(line) = monitor.receive().map_err(text)? else {
            continue;
        };
        let mut words = words(&line);
        let sent = !line.contains(" lua] ")
            && words
                .first()
                .is_some_and(|word| word.eq_ignore_ascii_case("EVALSHA"));
        if sent && words.contains(&name) && (calls.len() == 1 || words.len() > 8) {
            calls.push(words.split_off(1));
        }
    }
    let [acquire, release] =
        <[Vec<String>; 2]>::try_from(calls).map_err(|_| "no pair was overheard")?;
    let token = acquire
        .iter()
        .find(|word| word.len() == 31 && release.contains(word));
    let token = token.ok_or("no token was overheard")?.clone();
    Ok(Seen {
        acquire,
        release,
        name,
        token,
    })
}

/// The quoted words of a line of MONITOR. Ours hold nothing that would be escaped.
fn words(line: &str) -> Vec<String> {
    line.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_monitor_line_are_the_quoted_ones() {
        let line = r#"1795.12 [0 127.0.0.1:51000] "EVALSHA" "abc" "1" "overheard0" """#;
        assert_eq!(words(line), ["EVALSHA", "abc", "1", "overheard0", ""]);
    }
}
