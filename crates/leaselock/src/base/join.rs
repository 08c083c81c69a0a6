//! Several futures at once, until all have ended.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs the futures at once, and returns their values in the same order.
///
/// # Cancel safety
/// When dropped, it drops the futures that have not ended.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut values: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, value) in running.iter_mut().zip(&mut values) {
            if value.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *value = Some(ready);
            }
        }
        if values.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    values.into_iter().flatten().collect()
}
