//! What leaselock sends for one pair, read off the server, so that it can be sent by hand.

use testkit::Value;

use crate::child::Pairs;
use crate::contender::{Kind, Want, by_hand::Seen, text};
use crate::servers::Servers;
use crate::worker::Worker;

/// Runs some pairs and takes the first whole one.
pub fn pair(servers: &Servers, kind: Kind, want: Want) -> Result<Seen, String> {
    let mut worker = Worker::start(kind, &servers.urls(), None)?;
    let prefix = "captured".to_owned();
    let job = Pairs {
        tasks: 1,
        ms: 40,
        prefix: prefix.clone(),
        want,
    };
    worker.pairs(job.clone())?; // scripts are known to the server from here on
    let mut monitor = servers.monitor()?;
    worker.pairs(job)?;
    drop(worker);
    let name = format!("{prefix}0");
    let (mut requests, mut token) = (Vec::new(), None::<String>);
    // What the server has not sent yet comes while we read; after some seconds without any it fails.
    loop {
        let Value::Status(line) = monitor.receive().map_err(text)? else {
            continue;
        };
        let words = words(&line);
        if line.contains(" lua] ") || !words.iter().any(|word| word.contains(&name)) {
            continue;
        }
        // Each acquisition has a token of its own, which only what follows it up to the release has too.
        let Some(own) = words.iter().find(|word| is_token(word)).cloned() else {
            continue;
        };
        if let Some(token) = token.replace(own.clone()).filter(|token| *token != own) {
            // A release alone is the end of what came before the first line.
            if requests.len() > 1 {
                return Ok(Seen {
                    requests,
                    name,
                    token,
                });
            }
            requests.clear();
        }
        requests.push(words);
    }
}

/// 22 random characters, a separator and 8 of the client.
fn is_token(word: &str) -> bool {
    word.len() == 31
        && word
            .chars()
            .nth(22)
            .is_some_and(|mark| mark == '.' || mark == '~')
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
        let line = r#"1795.12 [0 127.0.0.1:51000] "EVALSHA" "abc" "1" "captured0" """#;
        assert_eq!(words(line), ["EVALSHA", "abc", "1", "captured0", ""]);
    }
}
