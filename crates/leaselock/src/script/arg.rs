//! Keys and arguments of a call, and how they are written.

use std::sync::Arc;
use std::time::Duration;

use crate::base::token::Token;

/// A key or an argument that is written into a call.
///
/// Not by `Display`, whose machinery costs a short call as much as all else.
pub(crate) trait Arg {
    fn write_to(&self, text: &mut Vec<u8>);
}

impl<W: Arg + ?Sized> Arg for &W {
    fn write_to(&self, text: &mut Vec<u8>) {
        (**self).write_to(text);
    }
}

macro_rules! as_bytes {
    ($($Text:ty),+) => {
        $(impl Arg for $Text {
            fn write_to(&self, text: &mut Vec<u8>) {
                text.extend_from_slice(self.as_bytes());
            }
        })+
    };
}
as_bytes!(str, String, Arc<str>, Token);

/// Bytes of any value, for arguments that are no text.
impl Arg for [u8] {
    fn write_to(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(self);
    }
}

/// Writes decimal digits.
impl Arg for u64 {
    fn write_to(&self, text: &mut Vec<u8>) {
        let (mut digits, mut rest, mut first) = ([b'0'; 20], *self, 20);
        loop {
            first -= 1;
            digits[first] += (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        text.extend_from_slice(&digits[first..]);
    }
}

/// In whole milliseconds.
impl Arg for Duration {
    fn write_to(&self, text: &mut Vec<u8>) {
        u64::try_from(self.as_millis())
            .unwrap_or(u64::MAX)
            .write_to(text);
    }
}
