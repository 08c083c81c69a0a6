//! Standard output holds what was asked for; everything else goes to standard error.

use std::io::{self, Write as _};

/// Prints what was asked for. A reader that has seen enough, as `head` does, is no error.
pub(crate) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Tells people something. When nobody can hear it there is nobody to tell that either.
pub(crate) fn say(text: &str) {
    io::stderr().lock().write_all(text.as_bytes()).ok();
}
