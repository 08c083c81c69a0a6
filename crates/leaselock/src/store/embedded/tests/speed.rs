//! The duration of a call. Nothing is asserted; `--nocapture` shows it, and only a release build is meaningful.

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
            let answer = store.run(&take, WITHIN).await.unwrap();
            // The latter at a thousand grants in one millisecond.
            assert!(["fenced", "granted"].contains(&answer.tag()), "{answer:?}");
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

/// Four clients hand one lock around; each queues again before it releases the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_pace_of_hand_overs_is_shown() {
    const EACH: u32 = 500;
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let began = clock.now();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let peer = Peer::on(&scratch, &clock, true);
            tokio::spawn(async move {
                let channel = format!("ll:wake:{}", peer.client.as_str());
                let (sender, mut grants) = tokio::sync::mpsc::unbounded_channel();
                let (store, heard) = (peer.store.clone(), channel.clone());
                let listener = tokio::spawn(async move {
                    let sink = move |event| drop(sender.send(event));
                    store.listen(&heard, Box::new(sink)).await;
                });
                while grants.recv().await != Some(crate::store::Event::Ready) {}
                for _ in 0..EACH {
                    let token = peer.token();
                    let call = enqueue("job", &token, 60_000, &channel);
                    while peer.tag(&call).await == "waiting" {
                        // A poll makes up for a lost message.
                        let heard = tokio::time::timeout(Duration::from_secs(1), grants.recv());
                        if let Ok(Some(crate::store::Event::Message(message))) = heard.await
                            && message.ends_with(token.secret().as_bytes())
                        {
                            break;
                        }
                    }
                    assert_eq!(peer.tag(&release("job", &token)).await, "released");
                }
                listener.abort();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let each = clock.now().saturating_since(began) / (4 * EACH);
    eprintln!("folder: {each:?} per contended turn");
}
