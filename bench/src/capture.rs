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
        one_name: false,
        want,
    };
    worker.pairs(job.clone())?; // scripts are known to the server from here on
    let mut monitor = servers.monitor()?;
    worker.pairs(job)?;
    drop(worker);
    let mut seen = Seen {
        want,
        requests: Vec::new(),
        name: format!("{prefix}0"),
        token: None,
    };
    // What the server has not sent yet comes while we read; after some seconds without any it fails.
    loop {
        let Value::Status(line) = monitor.receive().map_err(text)? else {
            continue;
        };
        let words = words(&line);
        if line.contains(" lua] ") || !words.iter().any(|word| word.contains(&seen.name)) {
            continue;
        }
        // Each acquisition has a token of its own, which only what follows it up to the release has too.
        let own = words.iter().find(|word| is_token(word)).cloned();
        if is_one_request(want) {
            seen.requests.push(words);
            seen.token = own;
            return Ok(seen);
        }
        let Some(own) = own else {
            continue;
        };
        if seen.token.as_ref().is_some_and(|token| *token != own) {
            // A release alone is the end of what came before the first line.
            if seen.requests.len() > 1 {
                return whole(seen);
            }
            seen.requests.clear();
        }
        seen.token = Some(own);
        seen.requests.push(words);
    }
}

/// What is asked once, and not given back.
fn is_one_request(want: Want) -> bool {
    matches!(want, Want::Rate(_) | Want::Count | Want::Told)
}

/// Where each turn has a key of its own, that key is the name.
fn whole(seen: Seen) -> Result<Seen, String> {
    if seen.want != Want::Run {
        return Ok(seen);
    }
    let is_key = |word: &&String| word.starts_with(&seen.name);
    let name = seen.requests[0].iter().find(is_key).cloned();
    let name = name.ok_or("a run without its key")?;
    Ok(Seen { name, ..seen })
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
