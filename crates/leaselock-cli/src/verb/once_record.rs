//! What `leaselock once` stores of a run: its exit code and its output.

use crate::exit::Exit;

pub(super) fn code_text(exit: Exit) -> String {
    format!("exit {}", exit.code())
}

/// What is stored: a line with the exit code, and the output behind it; without one, `not-kept` in the line.
pub(super) fn record(exit: Exit, output: Option<Vec<u8>>) -> Vec<u8> {
    let code = code_text(exit);
    match output {
        Some(output) => [code.as_bytes(), b"\n", &output].concat(),
        None => format!("{code} not-kept\n").into_bytes(),
    }
}

/// Reads a record; `None` for the output when it was not kept. The result of a program that uses the library is all
/// output.
pub(super) fn read(record: &[u8]) -> (Exit, Option<&[u8]>) {
    let whole = (Exit::OK, Some(record));
    let Some(at) = record.iter().position(|byte| *byte == b'\n') else {
        return whole;
    };
    let Ok(line) = std::str::from_utf8(&record[..at]) else {
        return whole;
    };
    let (line, is_kept) = match line.strip_suffix(" not-kept") {
        Some(line) => (line, false),
        None => (line, true),
    };
    match code(line) {
        Some(exit) => (exit, is_kept.then(|| &record[at + 1..])),
        None => whole,
    }
}

pub(super) fn code(text: &str) -> Option<Exit> {
    let code = text.strip_prefix("exit ")?.parse().ok()?;
    Some(Exit::chosen(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_other_results_are_output() {
        for (code, output) in [(0, &b""[..]), (3, b"a\nb\xff\0"), (255, b"exit 9\n")] {
            let exit = Exit::chosen(code);
            let written = record(exit, Some(output.to_vec()));
            assert_eq!(read(&written), (exit, Some(output)));
            assert_eq!(read(&record(exit, None)), (exit, None));
        }
        for other in [&b"receipt 7"[..], b"exit 300\n", b"exit\n", b"", b"\xff\n"] {
            assert_eq!(read(other), (Exit::OK, Some(other)));
        }
    }
}
