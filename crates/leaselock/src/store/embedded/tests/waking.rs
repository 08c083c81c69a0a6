//! Hand-overs: the grant is written, and the message wakes the waiter with the grant.

use std::sync::mpsc;

use super::*;
use crate::store::Event;

/// Listens until the receiver of events is gone.
fn listen(
    store: &EmbeddedStore,
    channel: &'static str,
) -> (tokio::task::JoinHandle<()>, mpsc::Receiver<Event>) {
    let (sender, events) = mpsc::channel();
    let store = store.clone();
    let task = tokio::spawn(async move {
        store
            .listen(channel, Box::new(move |event| drop(sender.send(event))))
            .await
    });
    (task, events)
}

async fn next(events: &mpsc::Receiver<Event>) -> Event {
    loop {
        match events.try_recv() {
            Ok(event) => return event,
            // Between two checks of the condition.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn hands_over(one: &EmbeddedStore, two: &EmbeddedStore) {
    let client = ClientId::random().unwrap();
    let tokens = [(); 4].map(|()| Token::random(&client, true).unwrap());
    one.run(&acquire("job", &tokens[0], 60_000), WITHIN)
        .await
        .unwrap();
    let (task, events) = listen(two, "ll:wake:two");
    assert_eq!(next(&events).await, Event::Ready);
    let gone = one
        .run(&enqueue("job", &tokens[1], 60_000, "ll:wake:gone"), WITHIN)
        .await
        .unwrap();
    assert_eq!((gone.tag(), gone.number(3).unwrap()), ("waiting", 1));
    let line = two
        .run(&enqueue("job", &tokens[2], 60_000, "ll:wake:two"), WITHIN)
        .await
        .unwrap();
    assert_eq!(line.number(3).unwrap(), 2);
    two.run(&enqueue("job", &tokens[3], 60_000, "ll:wake:two"), WITHIN)
        .await
        .unwrap();
    for (holder, after) in [(0, 2), (2, 3)] {
        one.run(&release("job", &tokens[holder]), WITHIN)
            .await
            .unwrap();
        let Event::Message(message) = next(&events).await else {
            panic!("a message")
        };
        let message = String::from_utf8(message).unwrap();
        let words: Vec<&str> = message.split(' ').collect();
        let held = one.run(&inspect("job"), WITHIN).await.unwrap();
        assert_eq!(held.text(3).unwrap(), tokens[after].secret());
        assert_eq!(
            (words[0], words[1].parse().unwrap(), words[6]),
            ("grant", held.number(5).unwrap(), tokens[after].secret())
        );
    }
    task.abort();
    task.await.unwrap_err();
    one.run(&release("job", &tokens[3]), WITHIN).await.unwrap();
    assert_eq!(
        one.run(&inspect("job"), WITHIN).await.unwrap().tag(),
        "free",
        "nobody is there for it"
    );
}

#[tokio::test]
async fn a_release_hands_over_to_the_first_that_is_there_in_a_folder() {
    let scratch = Scratch::new();
    let (one, two) = (
        Peer::on(&scratch, &Clock::boot(), true),
        Peer::on(&scratch, &Clock::boot(), true),
    );
    hands_over(&one.store, &two.store).await;
}

/// Its own thread reads for a task in a runtime without threads.
#[tokio::test]
async fn a_grant_is_received_in_the_runtime_of_the_task_that_asked_for_it() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), true);
    let (sender, events) = mpsc::channel();
    let sink = move |event| {
        let thread = std::thread::current().name().map(str::to_owned);
        drop(sender.send((event, thread.unwrap_or_default())));
    };
    let store = peer.store.clone();
    let listening = tokio::spawn(async move { store.listen("ll:me", Box::new(sink)).await });
    let heard = async || loop {
        match events.try_recv() {
            Ok(heard) => return heard,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await, // between two checks
        }
    };
    let (_, home) = heard().await;
    let many = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("waits here")
        .enable_all()
        .build()
        .unwrap();
    let tokens = [(); 3].map(|()| peer.token());
    peer.take(&tokens[0], 60_000).await.unwrap();
    let (store, asks) = (
        peer.store.clone(),
        enqueue("job", &tokens[1], 60_000, "ll:me"),
    );
    let asked = many.spawn(async move { store.run(&asks, WITHIN).await });
    assert_eq!(asked.await.unwrap().unwrap().tag(), "waiting");
    peer.run(&release("job", &tokens[0])).await.unwrap();
    assert_eq!(heard().await.1, "waits here");
    let asks = enqueue("job", &tokens[2], 60_000, "ll:me");
    assert_eq!(peer.tag(&asks).await, "waiting");
    peer.run(&release("job", &tokens[1])).await.unwrap();
    assert_eq!(heard().await.1, home);
    listening.abort();
    many.shutdown_background();
}

#[tokio::test]
async fn a_release_hands_over_to_the_first_that_is_there_in_memory() {
    let name = ClientId::random().unwrap();
    let store = || EmbeddedStore::memory(name.as_str(), Clock::boot());
    hands_over(&store(), &store()).await;
}

#[tokio::test]
async fn memory_without_a_name_is_shared_with_nobody() {
    let [one, two] = [(); 2].map(|()| EmbeddedStore::memory("", Clock::manual()));
    let client = ClientId::random().unwrap();
    for store in [&one, &two] {
        let token = Token::random(&client, true).unwrap();
        assert_eq!(
            store
                .run(&acquire("job", &token, 1000), WITHIN)
                .await
                .unwrap()
                .tag(),
            "fenced"
        );
        assert_eq!(
            store.scan(0, "*", Some(inspect), WITHIN).await.unwrap(),
            (0, vec![("job".to_owned(), None)])
        );
    }
}

#[tokio::test]
async fn a_listener_in_a_folder_that_was_emptied_listens_anew() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), true);
    let (task, events) = listen(&peer.store, "ll:wake:me");
    assert_eq!(next(&events).await, Event::Ready);
    std::fs::remove_dir_all(scratch.path().join("locks here")).unwrap();
    assert_eq!(next(&events).await, Event::Gap);
    assert_eq!(next(&events).await, Event::Ready);
    let publish = made_up(
        "return { 'x', redis.call('PUBLISH', ARGV[1], 'hello') }",
        &["k"],
        &["ll:wake:me"],
    );
    assert_eq!(peer.run(&publish).await.unwrap().number(0), Ok(1));
    assert_eq!(next(&events).await, Event::Message(b"hello".to_vec()));
    task.abort();
}
