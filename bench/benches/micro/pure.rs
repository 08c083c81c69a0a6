//! What a request costs before it is sent and after its answer came: no I/O in here.

use std::hint::black_box;
use std::time::Duration;

use divan::Bencher;

use crate::clock::Moment;
use crate::keys::MutexKeys;
use crate::lease_core::Core;
use crate::name::Name;
use crate::script::{Call, Operation as _, Tagged, Value};
use crate::steps::{Acquire, Acquired, Release};
use crate::token::{ClientId, Token};
use crate::ttl::{Drift, Ttl};

const TTL: Duration = Duration::from_secs(10);

fn keys() -> MutexKeys {
    let name = Name::new("invoices/2026-07").expect("a good name");
    MutexKeys::new("app:", &name).expect("a good key")
}

fn token() -> Token {
    let client = ClientId::random().expect("random numbers");
    Token::random(&client, true).expect("random numbers")
}

fn ttl() -> Ttl {
    Ttl::new(TTL).expect("in range")
}

#[divan::bench]
fn build_the_keys_of_a_name(bencher: Bencher<'_, '_>) {
    let name = Name::new("invoices/2026-07").expect("a good name");
    bencher.bench_local(|| MutexKeys::new(black_box("app:"), black_box(&name)));
}

#[divan::bench]
fn make_a_token(bencher: Bencher<'_, '_>) {
    let client = ClientId::random().expect("random numbers");
    bencher.bench_local(|| Token::random(black_box(&client), true));
}

#[divan::bench]
fn encode_an_acquisition(bencher: Bencher<'_, '_>) {
    let (keys, token, channel) = (keys(), token(), "app:ll:wake:abcdefgh");
    bencher.bench_local(|| -> Call {
        let acquire = Acquire {
            keys: black_box(&keys),
            token: &token,
            ttl: ttl(),
            passed: ttl(),
            waits: true,
            priority: 0,
            channel,
            fencing: true,
        };
        acquire.call()
    });
}

#[divan::bench]
fn encode_a_release(bencher: Bencher<'_, '_>) {
    let (keys, token) = (keys(), token());
    bencher.bench_local(|| -> Call {
        let release = Release {
            keys: black_box(&keys),
            token: &token,
        };
        release.call()
    });
}

#[divan::bench]
fn decode_a_grant(bencher: Bencher<'_, '_>) {
    let bytes = |text: &str| Value::Bytes(text.as_bytes().to_vec());
    let answer = || {
        let stamp = bytes("1795224695691371");
        Value::Array(vec![bytes("granted"), stamp.clone(), stamp])
    };
    bencher
        .with_inputs(answer)
        .bench_local_values(|answer| -> Acquired {
            let tagged = Tagged::from_value(answer).expect("a tagged answer");
            Acquire::decode(&tagged).expect("a grant")
        });
}

#[divan::bench]
fn renew_a_lease_in_the_core(bencher: Bencher<'_, '_>) {
    let at = |ms: u64| Moment::from_nanos(ms * 1_000_000);
    let drift = Drift { ppm: 10_000 };
    let mut core = Core::granted(at(0), at(1), ttl(), drift, true, None);
    let mut now_ms = 1;
    bencher.bench_local(|| {
        now_ms += 4000; // a renewal is due by then
        let step = core.step(at(now_ms));
        core.extended(at(now_ms), at(now_ms + 1), ttl());
        black_box(step)
    });
}
