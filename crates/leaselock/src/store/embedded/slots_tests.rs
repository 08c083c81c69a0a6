//! A temporary file stands for a lock file; every point at which a writer can die is tried.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use super::super::testing::Scratch;
use super::*;

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

fn put(file: &File, text: &str) {
    let (old, slot, slot_size) = match found(file) {
        Found::Current {
            record,
            slot,
            slot_size,
        } => (record, slot, slot_size),
        Found::Fresh => {
            let length = file.metadata().unwrap().len();
            match prepare(file.as_fd(), length, record("")).unwrap() {
                Found::Current {
                    record,
                    slot,
                    slot_size,
                } => (record, slot, slot_size),
                other => panic!("{other:?}"),
            }
        }
        other @ Found::Damaged(_) => panic!("{other:?}"),
    };
    write(file.as_fd(), old, slot, slot_size, record(text)).unwrap();
}

fn text(file: &File) -> String {
    match found(file) {
        Found::Current { record, .. } => String::from_utf8(record.payload).unwrap(),
        other => format!("{other:?}"),
    }
}

fn newest(file: &File) -> (u64, u64) {
    match found(file) {
        Found::Current {
            slot, slot_size, ..
        } => (slot, slot_size),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_byte_anywhere_in_the_newer_copy_leaves_the_older_one() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put(&file, "older");
    put(&file, "newer");
    let (slot, size) = newest(&file);
    for at in 0..HEADER + 5 {
        let mut byte = [0];
        file.read_exact_at(&mut byte, slot * size + at as u64)
            .unwrap();
        file.write_all_at(&[!byte[0]], slot * size + at as u64)
            .unwrap();
        assert_eq!(text(&file), "older", "byte {at}");
        file.write_all_at(&byte, slot * size + at as u64).unwrap();
        assert_eq!(text(&file), "newer");
    }
}

#[test]
fn two_damaged_copies_are_damage_and_never_a_free_lock() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put(&file, "older");
    put(&file, "newer");
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
fn an_empty_or_zeroed_file_or_a_torn_first_write_is_fresh() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    assert!(matches!(found(&file), Found::Fresh));
    for length in [1, 100, FIRST_FILE] {
        file.set_len(length).unwrap();
        assert!(matches!(found(&file), Found::Fresh), "{length}");
    }
    let first = Record {
        sequence: 1,
        ..record("")
    }
    .bytes();
    for written in 0..first.len() {
        file.write_all_at(&first[..written], FIRST_SLOT).unwrap();
        let fresh = matches!(found(&file), Found::Fresh);
        // The last bytes of the header are zeros, so the last prefixes are already whole.
        assert!(fresh || written > 48, "{written}");
    }
    put(&file, "works");
    assert_eq!(text(&file), "works");
}

#[test]
fn a_writer_that_dies_after_any_number_of_bytes_leaves_the_state_before() {
    let scratch = Scratch::new();
    let file = file(&scratch, "lock");
    put(&file, "one");
    put(&file, "two");
    let (slot, size) = newest(&file);
    let Found::Current {
        record: present, ..
    } = found(&file)
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
    put(&file, "four");
    assert_eq!(text(&file), "four");
}

#[test]
fn a_file_grows_and_shrinks_with_what_it_holds() {
    let scratch = Scratch::new();
    for before in 1..4 {
        let file = file(&scratch, "lock");
        for _ in 0..before {
            put(&file, "small");
        }
        for length in [3000, 100_000, 20, 20, 5000, 1, 1, 1] {
            let long = "x".repeat(length);
            put(&file, &long);
            assert_eq!(text(&file), long);
        }
        assert_eq!(file.metadata().unwrap().len(), FIRST_FILE);
    }
}

#[test]
fn a_crash_between_the_steps_of_growing_loses_nothing() {
    let scratch = Scratch::new();
    for newer_in in [0, 1] {
        let file = file(&scratch, "lock");
        put(&file, "one");
        while newest(&file).0 != newer_in {
            put(&file, "one");
        }
        let Found::Current {
            record: mut present,
            slot,
            ..
        } = found(&file)
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
        put(&file, &"y".repeat(7000));
        assert_eq!(text(&file).len(), 7000);
    }
}
