//! Tests with a temporary file as lock file, at every point at which a writer can die.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use super::*;
use crate::store::embedded::testing::Scratch;

fn record(text: &str) -> Record {
    Record {
        sequence: 0,
        boot: [7; 16],
        anchor_us: 1,
        boot_us: 2,
        payload: text.as_bytes().to_vec(),
    }
}

fn file(scratch: &Scratch, name: &str) -> File {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(scratch.path().join(name))
        .unwrap()
}

fn found(file: &File) -> Found {
    read(file.as_fd(), file.metadata().unwrap().len()).unwrap()
}

fn put_text(file: &File, text: &str) {
    let present = match found(file) {
        Found::Current(present) => present,
        Found::Blank => {
            let length = file.metadata().unwrap().len();
            prepare(file.as_fd(), length, record("")).unwrap();
            return put_text(file, text);
        }
        other @ Found::Damaged(_) => panic!("{other:?}"),
    };
    write(file.as_fd(), present, record(text)).unwrap();
}

/// True if the other copy is whole, or surely the older one.
fn is_sure(file: &File) -> bool {
    matches!(
        found(file),
        Found::Current(Present {
            doubtful: false,
            ..
        })
    )
}

fn text(file: &File) -> String {
    match found(file) {
        Found::Current(Present { record, .. }) => String::from_utf8(record.payload).unwrap(),
        other => format!("{other:?}"),
    }
}

fn newest(file: &File) -> (u64, u64) {
    match found(file) {
        Found::Current(Present {
            slot, slot_size, ..
        }) => (slot, slot_size),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_byte_anywhere_in_the_newer_copy_leaves_the_older_one_in_doubt() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put_text(&file, "older");
    put_text(&file, "newer");
    let (slot, size) = newest(&file);
    for at in 0..HEADER + 5 {
        let mut byte = [0];
        file.read_exact_at(&mut byte, slot * size + at as u64)
            .unwrap();
        file.write_all_at(&[!byte[0]], slot * size + at as u64)
            .unwrap();
        assert!(text(&file) == "older" && !is_sure(&file), "byte {at}");
        file.write_all_at(&byte, slot * size + at as u64).unwrap();
        assert!(text(&file) == "newer" && is_sure(&file));
    }
}

#[test]
fn two_damaged_copies_are_damage_and_never_a_free_lock() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put_text(&file, "older");
    put_text(&file, "newer");
    for slot in [0, FIRST_SLOT] {
        file.write_all_at(b"garbage", slot + 20).unwrap();
    }
    assert!(text(&file).contains("Damaged"));
    file.write_all_at(&[0; 2048], FIRST_SLOT).unwrap();
    assert!(
        text(&file).contains("Damaged"),
        "a bad first slot held real data"
    );
    file.set_len(100).unwrap();
    assert!(text(&file).contains("Damaged"));
}

#[test]
fn an_empty_or_zeroed_file_or_a_torn_first_write_is_blank() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    assert!(matches!(found(&file), Found::Blank));
    for length in [1, 100, FIRST_FILE] {
        file.set_len(length).unwrap();
        assert!(matches!(found(&file), Found::Blank), "{length}");
    }
    let first = Record {
        sequence: 1,
        ..record("")
    }
    .bytes();
    for written in 0..first.len() {
        file.write_all_at(&first[..written], FIRST_SLOT).unwrap();
        let blank = matches!(found(&file), Found::Blank);
        // The last bytes of the header are zeros, so the last prefixes are already whole.
        assert!(blank || written > 48, "{written}");
    }
    put_text(&file, "works");
    assert_eq!(text(&file), "works");
}

#[test]
fn a_machine_that_dies_after_any_number_of_bytes_leaves_the_state_before() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put_text(&file, "one");
    put_text(&file, "two");
    let (slot, size) = newest(&file);
    let Found::Current(Present {
        record: present, ..
    }) = found(&file)
    else {
        panic!()
    };
    let next = Record {
        sequence: present.sequence + 1,
        ..record("three")
    }
    .bytes();
    for written in 0..next.len() {
        file.write_all_at(&next[..written], (1 - slot) * size)
            .unwrap();
        assert_eq!(text(&file), "two", "{written}");
    }
    put_text(&file, "four");
    assert_eq!(text(&file), "four");
}

#[test]
fn a_file_grows_and_shrinks_with_what_it_holds() {
    let scratch = Scratch::new();
    for before in 1..4 {
        let file = file(&scratch, "lock");
        for _ in 0..before {
            put_text(&file, "small");
        }
        for length in [3000, 100_000, 20, 20, 5000, 1, 1, 1] {
            let long = "x".repeat(length);
            put_text(&file, &long);
            assert_eq!(text(&file), long);
            assert!(both_are_whole(&file), "{length}");
        }
        assert_eq!(file.metadata().unwrap().len(), FIRST_FILE);
    }
}

#[test]
fn a_crash_between_the_steps_of_growing_loses_nothing() {
    let scratch = Scratch::new();
    for newer_in in [0, 1] {
        let file = file(&scratch, "lock");
        put_text(&file, "one");
        while newest(&file).0 != newer_in {
            put_text(&file, "one");
        }
        let Found::Current(Present {
            record: mut present,
            slot,
            ..
        }) = found(&file)
        else {
            panic!()
        };
        if slot == 1 {
            present.sequence += 1;
            write_at(file.as_fd(), 0, &present.bytes()).unwrap();
            assert_eq!(text(&file), "one");
        }
        for length in [
            FIRST_FILE + 1,
            FIRST_FILE * 2 - 1,
            FIRST_FILE * 2,
            FIRST_FILE * 4,
        ] {
            file.set_len(length).unwrap();
            assert_eq!(text(&file), "one", "{length}");
        }
        file.write_all_at(b"leasefl", FIRST_FILE * 2).unwrap();
        assert_eq!(text(&file), "one");
        put_text(&file, &"y".repeat(7000));
        assert_eq!(text(&file).len(), 7000);
    }
}

/// True if both copies are whole: only then can a reader tell damage from a crash.
fn both_are_whole(file: &File) -> bool {
    let (slot, size) = newest(file);
    let other = read_slot(file.as_fd(), (1 - slot) * size, size).unwrap();
    Record::parse(&other).is_some()
}

/// The system may stop between two pages of a write, and before or after any write.
#[test]
fn a_process_that_is_killed_leaves_the_state_before_and_no_doubt() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    for text in ["a", "b", "c", "d"] {
        put_text(&file, &text.repeat(20_000));
    }
    let (slot, size) = newest(&file);
    let Found::Current(Present {
        record: present, ..
    }) = found(&file)
    else {
        panic!()
    };
    let sequence = present.sequence + 1;
    let long = "e".repeat(20_000);
    let next = Record {
        sequence,
        ..record(&long)
    }
    .bytes();
    let other = (1 - slot) * size;
    let page = usize::try_from(PAGE).unwrap();
    for written in (page..next.len()).step_by(page) {
        file.write_all_at(&next[page..written], other + PAGE)
            .unwrap();
        assert!(text(&file).starts_with('d') && is_sure(&file), "{written}");
    }
    file.write_all_at(&next[page..], other + PAGE).unwrap();
    assert!(text(&file).starts_with('d') && is_sure(&file));
    file.write_all_at(&next[..page], other).unwrap();
    assert!(text(&file) == long && is_sure(&file));
}

#[test]
fn a_process_that_is_killed_while_a_file_grows_leaves_no_doubt() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put_text(&file, "one");
    while newest(&file).0 != 0 {
        put_text(&file, "one");
    }
    let Found::Current(Present { record, .. }) = found(&file) else {
        panic!()
    };
    put(file.as_fd(), FIRST_FILE, &earlier(&record)).unwrap();
    for length in [0, 1, FIRST_FILE - 100, FIRST_FILE] {
        let length = file.metadata().unwrap().len().max(FIRST_FILE + length);
        file.set_len(length).unwrap();
        assert!(text(&file) == "one" && is_sure(&file), "{length}");
    }
    assert!(newest(&file).1 == FIRST_FILE && both_are_whole(&file));
}

#[test]
fn a_file_of_a_newer_version_is_not_read_and_says_so() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put_text(&file, "held");
    for slot in [0, FIRST_SLOT] {
        file.write_all_at(&[VERSION + 1], slot + 7).unwrap();
    }
    assert!(text(&file).contains("written by a newer version of leaselock"));
}

#[test]
fn a_state_that_is_too_large_is_refused_and_the_one_before_stays() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put_text(&file, "small");
    let Found::Current(present) = found(&file) else {
        panic!()
    };
    let large = record(&"x".repeat(usize::try_from(LARGEST).unwrap()));
    assert_eq!(write(file.as_fd(), present, large), Err(Errno::FBIG));
    assert!(text(&file) == "small" && is_sure(&file));
    file.set_len(2 * LARGEST + 1).unwrap();
    assert!(matches!(found(&file), Found::Damaged(_)));
}
