use super::*;

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
