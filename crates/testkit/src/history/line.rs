//! An event as a line: `at process number name what [fence deadline]`, times in nanoseconds.
//!
//! Every field is free of spaces and line ends, so a line splits at spaces and at nothing else.

use std::fmt;
use std::str::{FromStr, Split};
use std::time::Duration;

use super::event::{Event, Id, What};

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Id { process, number } = self.id;
        write!(
            f,
            "{} {process} {number} {} ",
            self.at.as_nanos(),
            escape(&self.name)
        )?;
        match self.what {
            What::Invoke => f.write_str("invoke"),
            What::Granted { fence, deadline } => {
                write!(f, "granted {fence} {}", deadline.as_nanos())
            }
            What::Extended { fence, deadline } => {
                write!(f, "extended {fence} {}", deadline.as_nanos())
            }
            What::Release => f.write_str("release"),
            What::Released => f.write_str("released"),
            What::Lost => f.write_str("lost"),
            What::Failed => f.write_str("failed"),
        }
    }
}

/// The line is not an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLine;

impl FromStr for Event {
    type Err = BadLine;

    fn from_str(line: &str) -> Result<Event, BadLine> {
        let mut fields = line.split(' ');
        let at = Duration::from_nanos(field(&mut fields)?);
        let id = Id {
            process: field(&mut fields)?,
            number: field(&mut fields)?,
        };
        let name = unescape(fields.next().ok_or(BadLine)?).ok_or(BadLine)?;
        let what = match fields.next().ok_or(BadLine)? {
            "invoke" => What::Invoke,
            "granted" => What::Granted {
                fence: field(&mut fields)?,
                deadline: nanos(&mut fields)?,
            },
            "extended" => What::Extended {
                fence: field(&mut fields)?,
                deadline: nanos(&mut fields)?,
            },
            "release" => What::Release,
            "released" => What::Released,
            "lost" => What::Lost,
            "failed" => What::Failed,
            _ => return Err(BadLine),
        };
        if fields.next().is_some() {
            Err(BadLine)
        } else {
            Ok(Event { at, id, name, what })
        }
    }
}

fn field<T: FromStr>(fields: &mut Split<'_, char>) -> Result<T, BadLine> {
    fields
        .next()
        .and_then(|field| field.parse().ok())
        .ok_or(BadLine)
}

fn nanos(fields: &mut Split<'_, char>) -> Result<Duration, BadLine> {
    field(fields).map(Duration::from_nanos)
}

/// Whatever is not a plain letter becomes `%` and two hexadecimal digits per byte.
fn escape(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    let escaped = |byte: u8| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02x}")
        }
    };
    name.bytes().map(escaped).collect()
}

fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_as_it_was() {
        let times = (7, Duration::from_nanos(1_700_000_000_123_456_789));
        let kinds = [
            What::Invoke,
            What::Granted {
                fence: times.0,
                deadline: times.1,
            },
            What::Extended {
                fence: times.0,
                deadline: times.1,
            },
            What::Release,
            What::Released,
            What::Lost,
            What::Failed,
        ];
        for what in kinds {
            let id = Id {
                process: 12,
                number: 34,
            };
            let event = Event {
                at: Duration::from_nanos(5),
                id,
                name: "é 100%\n".into(),
                what,
            };
            let line = event.to_string();
            assert!(!line.contains('\n'), "{line:?}");
            assert_eq!(line.parse(), Ok(event), "{line:?}");
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "1 2 3 a",
            "1 2 3 a taken",
            "1 2 3 a granted 1",
            "1 2 3 a lost 1",
            "x 2 3 a lost",
        ] {
            assert_eq!(line.parse::<Event>(), Err(BadLine), "{line:?}");
        }
    }
}
