//! A RESP2 client of one screen, so that tests can inspect keys without the redis crate.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `+OK`
    Status(String),
    /// `-ERR …`: the server refused, in its own words.
    Error(String),
    /// `:42`
    Integer(i64),
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// Nothing there.
    Nil,
    /// Several values.
    List(Vec<Value>),
}

impl Value {
    /// The text of a status, an error or a string of UTF-8 bytes.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Status(text) | Value::Error(text) => Some(text),
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Value::Integer(_) | Value::Nil | Value::List(_) => None,
        }
    }

    /// The number, for an integer.
    pub fn integer(&self) -> Option<i64> {
        if let Value::Integer(number) = self {
            Some(*number)
        } else {
            None
        }
    }

    /// The values of a list.
    pub fn list(&self) -> Option<&[Value]> {
        if let Value::List(values) = self {
            Some(values)
        } else {
            None
        }
    }

    /// Whether the server refused.
    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error(_))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

/// One connection; one command at a time.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to a port of this machine. `limit` bounds the wait for each answer.
    pub fn open(port: u16, limit: Duration) -> io::Result<Connection> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    /// Sends one command and waits for its answer.
    pub fn call(&mut self, args: &[&str]) -> io::Result<Value> {
        self.send(args)?;
        self.receive()
    }

    /// Sends one command without waiting.
    pub fn send(&mut self, args: &[&str]) -> io::Result<()> {
        self.stream.get_mut().write_all(&encode(args))
    }

    /// Waits for the next answer or pushed message.
    pub fn receive(&mut self) -> io::Result<Value> {
        decode(&mut self.stream)
    }
}

/// A command as bytes on the wire.
pub fn encode(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
    }
    bytes
}

/// The length of the first whole command in `bytes`; `None` while it is still incomplete.
pub fn command_len(bytes: &[u8]) -> Option<usize> {
    let (head, mut at) = line(bytes, 0)?;
    let Some(count) = head.strip_prefix('*') else {
        return Some(at); // an inline command is one line
    };
    for _ in 0..count.parse::<usize>().ok()? {
        let (size, body) = line(bytes, at)?;
        at = body + size.strip_prefix('$')?.parse::<usize>().ok()? + 2;
    }
    (at <= bytes.len()).then_some(at)
}

fn line(bytes: &[u8], start: usize) -> Option<(&str, usize)> {
    let rest = bytes.get(start..)?;
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    let text = std::str::from_utf8(&rest[..length]).ok()?;
    Some((text.trim_end_matches('\r'), start + length + 1))
}

pub(crate) fn decode(reader: &mut impl BufRead) -> io::Result<Value> {
    let mut head = String::new();
    reader.read_line(&mut head)?;
    if !head.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let head = head.trim_end();
    let (kind, rest) = head.split_at_checked(1).ok_or_else(|| malformed(head))?;
    match kind {
        "+" => Ok(Value::Status(rest.to_owned())),
        "-" => Ok(Value::Error(rest.to_owned())),
        ":" => Ok(Value::Integer(number(rest)?)),
        "$" => decode_bytes(reader, number(rest)?),
        "*" => match usize::try_from(number(rest)?) {
            Ok(count) => (0..count)
                .map(|_| decode(reader))
                .collect::<Result<_, _>>()
                .map(Value::List),
            Err(_) => Ok(Value::Nil),
        },
        _ => Err(malformed(head)),
    }
}

fn decode_bytes(reader: &mut impl BufRead, length: i64) -> io::Result<Value> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(Value::Nil);
    };
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(Value::Bytes(bytes))
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| malformed(text))
}

fn malformed(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP2: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_is_decoded() {
        let wire = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$2\r\n\r\n\r\n$-1\r\n*-1\r\n";
        let expected = vec![
            Value::Status("OK".into()),
            Value::Error("ERR no".into()),
            Value::Integer(-7),
            Value::from("\r\n"),
            Value::Nil,
            Value::Nil,
        ];
        assert_eq!(decode(&mut &wire[..]).unwrap(), Value::List(expected));
    }

    #[test]
    fn what_is_not_resp_is_an_error() {
        for wire in ["", "\r\n", "?x\r\n", "+OK", ":x\r\n", "$3\r\nab"] {
            assert!(decode(&mut wire.as_bytes()).is_err(), "{wire:?}");
        }
    }

    #[test]
    fn a_command_is_whole_only_with_its_last_byte() {
        let wire = encode(&["SET", "k", "a\r\nb"]);
        for length in 0..wire.len() {
            assert_eq!(command_len(&wire[..length]), None, "{length}");
        }
        assert_eq!(command_len(&[&wire[..], b"*1"].concat()), Some(wire.len()));
        assert_eq!(command_len(b"PING\r\nPING"), Some(6));
    }
}
