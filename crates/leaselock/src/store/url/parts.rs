//! The parts of a URL: login, host and port, database, options, path.

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::base::error::InvalidInput;

/// The advice about escapes, as in browsers and `url` crates: raw characters would move the borders of the parts.
pub(super) const ESCAPES: &str = "special characters in a user or password are written as %40 for @, %2F for /, %3A for :, \
                       %23 for #, %3F for ?, %25 for %";

pub(super) fn refuse<T>(message: &str) -> Result<T, InvalidInput> {
    Err(InvalidInput::new(message))
}

/// Refuses what may come of a character that is not escaped.
pub(super) fn misread<T>(message: &str) -> Result<T, InvalidInput> {
    refuse(&format!("{message}; {ESCAPES}"))
}

pub(super) fn login_of(login: &str) -> Result<(Option<String>, Option<String>), InvalidInput> {
    let raw = |c: char| c.is_whitespace() || c.is_control() || c == '@' || c == '[' || c == ']';
    if login.contains(raw) {
        return misread("the user or password has a character that must be escaped");
    }
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (decoded(user)?, decoded(password)?),
        None if login.is_empty() => return Ok((None, None)),
        None => {
            return refuse(
                "the URL has a user without a password: write user:password@host, or :password@host",
            );
        }
    };
    Ok(match (user.is_empty(), password.is_empty()) {
        (true, true) => (None, None),
        (true, false) => (None, Some(password)),
        (false, _) => (Some(user), Some(password)), // an empty password is that of a user with `nopass`
    })
}

pub(super) fn host_and_port(place: &str, usual: u16) -> Result<(String, u16), InvalidInput> {
    let in_brackets = place.strip_prefix('[');
    let (host, port) = match in_brackets.and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => {
            let other = (!rest.is_empty()).then_some(rest);
            (address, rest.strip_prefix(':').or(other))
        }
        Some(_) => {
            return refuse("the brackets must hold an IPv6 address, as in redis://[::1]:6379");
        }
        None => place
            .split_once(':')
            .map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() || host.len() > 253 || !(place.starts_with('[') || host.chars().all(plain)) {
        return misread("the URL needs a host name or address, as in redis://host:6379");
    }
    let port = match port {
        None => usual,
        Some(digits) => match digits.parse() {
            Ok(port) if port > 0 && all_digits(digits) => port,
            _ => return misread("the port must be a number from 1 to 65535"),
        },
    };
    Ok((host.to_owned(), port))
}

pub(super) fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a database number from 0; only the server knows how many there are.
pub(super) fn database(path: &str) -> Result<u32, InvalidInput> {
    match path {
        "" => Ok(0),
        digits if all_digits(digits) && digits.len() <= 6 => digits
            .parse()
            .or_else(|_| refuse("the database must be a number")),
        _ => {
            misread("what follows the host must be the number of a database, as in redis://host/0")
        }
    }
}

pub(super) fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

pub(super) fn absolute(path: &str, wrong: &str) -> Result<PathBuf, InvalidInput> {
    let bytes = unescaped(path).filter(|bytes| bytes.starts_with(b"/") && !bytes.contains(&0));
    if path.contains(['?', '#']) {
        return refuse(&format!("{wrong}; ? is written as %3F and # as %23"));
    }
    bytes
        .map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
        .ok_or_else(|| InvalidInput::new(wrong))
}

pub(super) fn decoded(text: &str) -> Result<String, InvalidInput> {
    let bytes = unescaped(text).and_then(|bytes| String::from_utf8(bytes).ok());
    let wrong = "a % in the URL is not followed by two hex digits of UTF-8";
    bytes.map_or_else(|| misread(wrong), Ok)
}

/// Decodes `%41` as `A`. A plus sign stays one.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

pub(crate) fn address(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
