//! Every example, on the store in memory and on a real server: what an example asserts is what the documents promise.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Display;
use std::future::Future;

use testkit::Server;

/// The example as it is; only its `main`, which reads the command line, has no use here.
macro_rules! example {
    ($name:ident, $path:literal) => {
        #[path = $path]
        #[allow(dead_code, reason = "`main` is for the command line")]
        mod $name;
    };
}

example!(mutex, "../examples/mutex.rs");
example!(fenced_store, "../examples/fenced_store.rs");
example!(payment_once, "../examples/payment_once.rs");
example!(idempotency_key, "../examples/idempotency_key.rs");
example!(
    daily_report,
    "../../leaselock-cron/examples/daily_report.rs"
);
example!(safe_operation, "../examples/safe_operation.rs");
example!(counter, "../examples/counter.rs");
example!(exact_counter, "../examples/exact_counter.rs");
example!(limiter, "../examples/limiter.rs");
example!(transfer, "../examples/transfer.rs");
example!(connection_pool, "../examples/connection_pool.rs");
example!(shared_config, "../examples/shared_config.rs");
example!(
    rwlock_with_priorities,
    "../examples/rwlock_with_priorities.rs"
);
example!(election, "../examples/election.rs");
example!(workers, "../examples/workers.rs");
example!(
    http_service,
    "../../leaselock-tower/examples/http_service.rs"
);
example!(deadlock, "../examples/deadlock.rs");
example!(testing_your_code, "../examples/testing_your_code.rs");

fn block_on<E: Display>(example: impl Future<Output = Result<(), E>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    if let Err(error) = runtime.block_on(example) {
        panic!("{error}");
    }
}

/// Both stores for one example. A store in memory has a name, so that several clients can share it.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod memory {
            $(#[test]
            fn $name() {
                super::block_on(super::$name::run(concat!("mem:example-", stringify!($name))));
            })*
        }
        mod server {
            $(#[test]
            fn $name() {
                let server = super::Server::start();
                super::block_on(super::$name::run(&server.url()));
            })*
        }
    };
}

on_both!(mutex fenced_store payment_once idempotency_key daily_report safe_operation counter exact_counter limiter transfer connection_pool shared_config rwlock_with_priorities election workers http_service deadlock);

#[test]
fn testing_your_code_needs_no_server() {
    block_on(testing_your_code::run("mem:"));
}
