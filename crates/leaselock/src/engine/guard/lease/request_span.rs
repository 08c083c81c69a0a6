//! The spans of what a holder asks for its lease: `release` and `extend`.

use tracing::Span;

/// A span that says at its end what came of it, also that its future was dropped.
///
/// Nothing while no subscriber listens, else a box: a caller's future keeps it.
pub(super) struct RequestSpan(Option<Box<Span>>);

impl RequestSpan {
    pub(super) fn begin(span: Span) -> Self {
        RequestSpan((!span.is_disabled()).then(|| Box::new(span)))
    }

    pub(super) fn end(mut self, outcome: &str) {
        if let Some(span) = self.0.take() {
            span.record("outcome", outcome);
        }
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if let Some(span) = &self.0 {
            span.record("outcome", "cancelled");
        }
    }
}
