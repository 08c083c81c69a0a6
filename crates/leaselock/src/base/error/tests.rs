use super::*;

#[test]
fn a_measured_time_is_told_without_digits_that_mean_nothing() {
    for (measured_ns, told) in [
        (2_002_037_277, "2.002s"),
        (620_378, "620µs"),
        (99_999_999, "99.999ms"),
        (100_000_001, "100ms"),
        (999, "0ns"),
    ] {
        let waited = std::time::Duration::from_nanos(measured_ns);
        assert_eq!(format!("{:?}", rounded(waited)), told);
    }
}

#[test]
fn a_store_error_keeps_its_cause() {
    let cause = std::io::Error::other("broken pipe");
    let error = StoreError::unknown(ErrorKind::Unreachable, "connection lost").with_source(cause);
    assert_eq!(
        std::error::Error::source(&error)
            .map(ToString::to_string)
            .as_deref(),
        Some("broken pipe")
    );
    assert!(error.maybe_applied() && error.is_transient());
    assert!(!StoreError::refused(ErrorKind::Auth, "no password").is_transient());
}
