//! The layers for HTTP services, around a service that says when it is called too early.

mod limiter;
mod semaphore;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use leaselock::Client;
use tokio::sync::Notify;
use tower_service::Service;

use crate::support::soon;

/// A request to `/slow` is answered when the test says so. Each has the fields that it came with.
#[derive(Debug, Default)]
struct Backend {
    shared: Arc<Shared>,
    is_ready: bool,
}

#[derive(Debug, Default)]
struct Shared {
    requests: AtomicUsize,
    running: AtomicUsize,
    may_answer: Notify,
}

impl Backend {
    fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst)
    }

    fn answers_a_slow_one(&self) {
        self.shared.may_answer.notify_one();
    }
}

/// A clone is not ready, whatever the original was.
impl Clone for Backend {
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.shared);
        Backend {
            shared,
            is_ready: false,
        }
    }
}

/// A request that is being served, or was given up.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

type Reply = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

impl Service<Request<()>> for Backend {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Reply;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Reply {
        assert!(self.is_ready, "called without having been ready");
        self.is_ready = false;
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            shared.requests.fetch_add(1, Ordering::SeqCst);
            shared.running.fetch_add(1, Ordering::SeqCst);
            let running = Running(Arc::clone(&shared));
            if request.uri().path() == "/slow" {
                shared.may_answer.notified().await;
            }
            drop(running);
            let mut response = Response::new("the service".to_owned());
            *response.headers_mut() = request.into_parts().0.headers;
            Ok(response)
        })
    }
}

fn request(path: &str, headers: &[(&'static str, &str)]) -> Request<()> {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Sends a request as tower demands: to a service that is ready.
async fn send<S>(service: &mut S, request: Request<()>) -> Response<String>
where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible>,
{
    soon(async {
        let ready = std::future::poll_fn(|context| service.poll_ready(context)).await;
        let Ok(()) = ready;
        let Ok(response) = service.call(request).await;
        response
    })
    .await
}

/// The values of a field, which is a list.
fn field(headers: &HeaderMap, name: &str) -> String {
    let values: Vec<&str> = headers
        .get_all(name)
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    values.join(", ")
}

/// No server listens on port 1.
fn out_of_reach() -> Client {
    Client::open("redis://admin:correct-horse@127.0.0.1:1/").unwrap()
}
