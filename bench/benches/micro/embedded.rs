//! The embedded store through the public API: what a pair costs without any server.

use divan::Bencher;
use leaselock::{Client, Lease};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime")
}

/// A pair on a free lock.
fn pair(bencher: Bencher<'_, '_>, url: &str) {
    let runtime = runtime();
    let client = Client::open(url).expect("a good URL");
    let mutex = client.mutex("free");
    bencher.bench_local(|| {
        runtime.block_on(async {
            let lease = mutex.acquire().await.expect("nobody else wants it");
            lease.release().await.expect("it is ours");
        });
    });
}

#[divan::bench(sample_count = 2000)]
fn pair_in_memory(bencher: Bencher<'_, '_>) {
    pair(bencher, "mem:");
}

#[divan::bench(sample_count = 2000)]
fn pair_in_a_folder(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().expect("a folder");
    pair(bencher, &format!("file://{}", folder.path().display()));
}

/// A lock that is busy: one check and a refusal.
#[divan::bench(sample_count = 2000)]
fn busy_in_a_folder(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}", folder.path().display());
    let runtime = runtime();
    let holder = Client::open(&url).expect("a good URL");
    let held = runtime
        .block_on(holder.mutex("held").acquire())
        .expect("it is free");
    let mutex = Client::open(&url).expect("a good URL").mutex("held");
    bencher.bench_local(|| {
        let refused: Option<Lease> = runtime.block_on(mutex.try_acquire()).expect("a folder");
        assert!(refused.is_none());
    });
    runtime.block_on(held.release()).expect("it is ours");
}
