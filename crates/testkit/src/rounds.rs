//! How thorough a test is.

/// How many rounds: few with all other tests, `long` for `cargo xtask chaos`, or as many as `LEASELOCK_TEST_ROUNDS`
/// says.
pub fn rounds(few: usize, long: usize) -> usize {
    let wanted = std::env::var("LEASELOCK_TEST_ROUNDS").ok();
    match wanted.as_deref() {
        Some("long") => long,
        Some(count) => count
            .parse()
            .expect("LEASELOCK_TEST_ROUNDS is a number, or `long`"),
        None => few,
    }
}
