//! How long a call takes. Nothing is asserted; `--nocapture` shows it, and only a release build says anything.

use super::*;

#[tokio::test]
async fn the_cost_of_an_uncontended_call_is_shown() {
    const ROUNDS: u32 = 2000;
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let folder = Peer::on(&scratch, &clock, true);
    let memory = EmbeddedStore::memory("", clock.clone());
    let token = folder.token();
    let (take, give) = (acquire("job", &token, 60_000), release("job", &token));
    for (name, store) in [("folder", &folder.store), ("memory", &memory)] {
        let began = clock.now();
        for _ in 0..ROUNDS {
            assert_eq!(store.run(&take, WITHIN).await.unwrap().tag(), "granted");
            assert_eq!(store.run(&give, WITHIN).await.unwrap().tag(), "released");
        }
        let each = clock.now().saturating_since(began) / (2 * ROUNDS);
        eprintln!("{name}: {each:?} per call");
        let began = clock.now();
        for _ in 0..ROUNDS {
            store.run(&inspect("job"), WITHIN).await.unwrap();
        }
        eprintln!(
            "{name}: {:?} per inspect",
            clock.now().saturating_since(began) / ROUNDS
        );
    }
}
