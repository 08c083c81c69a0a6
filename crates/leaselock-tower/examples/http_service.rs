//! How does an HTTP service charge once for each idempotency key, and keep each client to a rate?
//!
//! `POST /charges`: the first request with an `Idempotency-Key` charges, and repetitions get its answer. Another charge under
//! that key gets 422, and a repetition that comes while the first one runs gets 409. Requests beyond the rate get 429.
//! The program sends the requests itself; `axum::serve(listener, service)` takes them from the network.
//!
//! `cargo run -p leaselock-tower --example http_service [URL]`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use leaselock::limiter::Rate;
use leaselock::once::OnceError;
use leaselock::options::OnCrash;
use leaselock::{Client, Name, OperationError, Wait};
use leaselock_tower::LimiterLayer;
use tokio::sync::Notify;
use tower_service::Service;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:http_service")).await
}

/// The service. Its processes share the rates and the keys, because they are on the store.
fn service(client: Client, bank: Arc<Bank>) -> Router {
    let limiters = client.clone();
    let per_user = LimiterLayer::keyed(move |request| {
        let user = request.headers.get("x-user")?.to_str().ok()?; // set by the proxy that knows the user
        let name = Name::escaped(&format!("user/{user}"));
        Some(limiters.limiter(name, Rate::per_minute(5)))
    });
    let charges = Router::new().route("/charges", post(charge));
    charges.with_state(App { client, bank }).layer(per_user)
}

#[derive(Clone)]
struct App {
    client: Client,
    bank: Arc<Bank>,
}

async fn charge(State(app): State<App>, headers: HeaderMap, order: String) -> Response {
    let text = |field| headers.get(field).and_then(|value| value.to_str().ok());
    let (Some(user), Some(key)) = (text("x-user"), text("idempotency-key")) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    // The key is whatever the client has chosen, so it is no name yet. A user's id has no slash: keys of users differ.
    let charge = app
        .client
        .once(Name::escaped(&format!("charge/{user}/{key}")));
    let charge = charge.fingerprint(&order).wait(Wait::Never);
    let charge = charge.on_crash(OnCrash::Refuse).keep_failures(true); // at most once
    match charge.run(|_| app.bank.charge(&order)).await {
        Ok(charged) => (StatusCode::CREATED, charged.value).into_response(),
        Err(OnceError::Failed { message, .. }) => {
            (StatusCode::PAYMENT_REQUIRED, message).into_response()
        }
        Err(OnceError::Mismatch { .. }) => StatusCode::UNPROCESSABLE_ENTITY.into_response(),
        Err(error) if error.is_busy() => StatusCode::CONFLICT.into_response(),
        Err(error) if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        // A run that did not end, among others: a person finds out what was charged.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The bank. It counts what it charges, and takes as long as the test wants for a slow order.
#[derive(Default)]
struct Bank {
    charges: AtomicU32,
    begun: Notify,
    done: Notify,
}

impl Bank {
    async fn charge(&self, order: &str) -> Result<String, &'static str> {
        if order == "refused" {
            return Err("the card is refused");
        }
        let number = self.charges.fetch_add(1, Ordering::SeqCst) + 1;
        if order == "slow" {
            self.begun.notify_one();
            self.done.notified().await;
        }
        Ok(format!("receipt {number}"))
    }
}

/// What a client gets: the status, the seconds of `Retry-After`, and the body.
type Answer = (u16, Option<u32>, String);

async fn send(to: &Router, user: &str, key: &str, order: &str) -> Result<Answer, Box<dyn Error>> {
    let request = Request::post("/charges").header("x-user", user);
    let request = request.header("idempotency-key", key);
    let request = request.body(Body::from(order.to_owned()))?;
    let (head, body) = to.clone().call(request).await?.into_parts();
    let seconds = head
        .headers
        .get("retry-after")
        .map(|seconds| seconds.to_str());
    let seconds = seconds.transpose()?.map(str::parse).transpose()?;
    let body = String::from_utf8(to_bytes(body, 1024).await?.into())?;
    Ok((head.status.as_u16(), seconds, body))
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let bank = Arc::new(Bank::default());
    let one = service(Client::open(url)?, Arc::clone(&bank));
    let two = service(Client::open(url)?, Arc::clone(&bank)); // on another machine

    let receipt = (201, None, "receipt 1".to_owned());
    assert_eq!(send(&one, "ann", "k1", "7.00 EUR").await?, receipt);
    assert_eq!(send(&two, "ann", "k1", "7.00 EUR").await?, receipt);
    assert_eq!(send(&two, "ann", "k1", "8.00 EUR").await?.0, 422);
    let refused = send(&one, "ann", "k2", "refused").await?;
    assert_eq!(send(&two, "ann", "k2", "refused").await?, refused);
    assert_eq!(refused.0, 402);

    // The sixth request within a minute, by both processes together.
    let (status, seconds, _) = send(&one, "ann", "k3", "9.00 EUR").await?;
    assert_eq!(status, 429);
    assert!(
        seconds.is_some_and(|seconds| (1..=12).contains(&seconds)),
        "{seconds:?}"
    );

    // Another user has another rate and other keys.
    let (slow, while_it_runs) = tokio::join!(send(&one, "bob", "k1", "slow"), async {
        bank.begun.notified().await;
        let early = send(&two, "bob", "k1", "slow").await;
        bank.done.notify_one();
        early
    });
    assert_eq!(slow?, (201, None, "receipt 2".to_owned()));
    assert_eq!(while_it_runs?.0, 409);
    assert_eq!(bank.charges.load(Ordering::SeqCst), 2);
    println!("two orders, two charges");
    Ok(())
}
