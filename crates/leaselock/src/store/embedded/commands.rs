//! The commands of scripts, on the image of one file. Each does what Redis does, as far as the scripts need.

mod arguments;
mod hashes;
mod sorted_sets;
mod streams;
mod strings;

use self::arguments::{Command, MaybeReply};
use super::reply::{Reply, internal};
use super::step::Step;
use super::whitelist::WHITELIST;
use crate::base::StoreError;
use crate::script::keyspace::Keyspace;

/// Runs one command. The name comes first, in capitals, as the scripts write it.
pub(super) fn run(step: &mut Step, words: &[&[u8]]) -> Result<Reply, StoreError> {
    let (name, args) = words
        .split_first()
        .ok_or_else(|| internal("ERR a command needs a name"))?;
    match (*name, args) {
        (b"TIME", []) => Ok(time(step.now_us)),
        // A folder has no slots, so all channels are of one kind.
        (b"PUBSUB", [what, channels @ ..]) if what == b"NUMSUB" || what == b"SHARDNUMSUB" => {
            Ok(receivers(step, channels))
        }
        (b"PUBLISH" | b"SPUBLISH", [channel, message]) => publish(step, channel, message),
        (b"MGET", [_, ..]) => {
            let values = declared_all(step, args)?.map(|key| step.get(key).flatten());
            Ok(Reply::Array(values.map(Reply::or_nil).collect()))
        }
        (b"EXISTS", [_, ..]) => {
            let keys = declared_all(step, args)?;
            Ok(Reply::count(keys.filter(|key| step.exists(key)).count()))
        }
        (b"DEL", [_, ..]) if !step.reads_only => {
            let keys = declared_all(step, args)?;
            Ok(Reply::count(keys.filter(|key| step.delete(key)).count()))
        }
        (b"XINFO", [what, key]) => on_key(step, name, key, &[what]),
        (command, [key, rest @ ..]) => on_key(step, command, key, rest),
        _ => Err(unknown(name, args)),
    }
}

fn unknown(name: &[u8], args: &[&[u8]]) -> StoreError {
    let name = String::from_utf8_lossy(name);
    let what = if WHITELIST.split_whitespace().any(|known| known == name) {
        "another form of"
    } else {
        "no command"
    };
    let count = args.len();
    internal(format!(
        "ERR the embedded store has {what} {name} ({count} arguments)"
    ))
}

fn declared<'a>(step: &Step, key: &'a [u8]) -> Result<&'a str, StoreError> {
    let key = std::str::from_utf8(key)
        .ok()
        .filter(|key| step.keys.iter().any(|declared| declared == key));
    key.ok_or_else(|| internal("ERR a script touched a key that is not among its KEYS"))
}

fn declared_all<'a>(
    step: &Step,
    keys: &[&'a [u8]],
) -> Result<impl Iterator<Item = &'a str> + use<'a>, StoreError> {
    let keys: Result<Vec<_>, _> = keys.iter().map(|key| declared(step, key)).collect();
    Ok(keys?.into_iter())
}

fn on_key(step: &mut Step, name: &[u8], key: &[u8], args: &[&[u8]]) -> Result<Reply, StoreError> {
    // Of each type of value: commands that only read, and commands that write; `None` for any other.
    type Read = fn(&Step, Command<'_>) -> MaybeReply;
    type Write = fn(&mut Step, Command<'_>) -> MaybeReply;
    let (read, write): (Read, Write) = match name {
        [b'H', ..] => (hashes::read, hashes::write),
        [b'Z', ..] => (sorted_sets::read, sorted_sets::write),
        [b'X', ..] => (streams::read, streams::write),
        _ => (strings::read, strings::write),
    };
    let command = (name, declared(step, key)?, args);
    if let Some(reply) = read(step, command)? {
        return Ok(reply);
    }
    if step.reads_only {
        let command = String::from_utf8_lossy(name);
        return Err(internal(format!(
            "ERR {command} in a script that says it only reads"
        )));
    }
    write(step, command)?.ok_or_else(|| unknown(name, args))
}

fn time(now_us: u64) -> Reply {
    let part = |number: u64| Reply::Bytes(number.to_string().into_bytes());
    Reply::Array(vec![part(now_us / 1_000_000), part(now_us % 1_000_000)])
}

fn receivers(step: &Step, channels: &[&[u8]]) -> Reply {
    let count = |channel: &&[u8]| {
        [
            Reply::Bytes(channel.to_vec()),
            Reply::flag(step.surroundings.present(channel)),
        ]
    };
    Reply::Array(channels.iter().flat_map(count).collect())
}

fn publish(step: &mut Step, channel: &[u8], message: &[u8]) -> Result<Reply, StoreError> {
    if step.reads_only {
        return Err(internal("ERR PUBLISH in a script that says it only reads"));
    }
    let present = step.surroundings.present(channel);
    if present {
        step.outbox.push((channel.to_vec(), message.to_vec())); // a listener that it does not reach now never gets it
    }
    Ok(Reply::flag(present))
}
