use std::sync::mpsc;

use rustix::fs::Mode;

use super::*;
use crate::store::embedded::datagram::{Datagrams, file_name};
use crate::store::embedded::testing::Scratch;

/// A receiver in a folder, what it receives on which thread, and its sender.
struct Scene {
    _scratch: Scratch,
    receiver: Arc<Receiver>,
    wake: Datagrams,
    heard: mpsc::Receiver<(Event, String)>,
}

const MODE: Mode = Mode::from_raw_mode(0o600);

fn scene() -> Scene {
    let scratch = Scratch::new();
    let folder = Arc::new(scratch.descriptor());
    let (sender, heard) = mpsc::channel();
    let sink: Sink = Box::new(move |event| {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        drop(sender.send((event, thread)));
    });
    let listener = Listener::bind(Arc::clone(&folder), file_name(b"channel"), MODE).unwrap();
    Scene {
        _scratch: scratch,
        receiver: Arc::new(Receiver::new(listener, "channel", Arc::new(sink))),
        wake: Datagrams::new(folder).unwrap(),
        heard,
    }
}

impl Scene {
    /// Sends until a thread with a name that begins so receives the message.
    async fn is_heard_on(&self, threads: &str) {
        let speak = async {
            loop {
                self.wake.send(b"channel", b"hello");
                tokio::time::sleep(Duration::from_millis(1)).await; // checked each millisecond
                let heard = self.heard.try_iter().last();
                if heard.is_some_and(|(_, thread)| thread.starts_with(threads)) {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.receiver.attend() => panic!("the socket is there"),
            () = speak => {}
        }
    }
}

fn runtime(name: &str, io: bool) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name(name);
    if io {
        builder.enable_io();
    }
    builder.build().unwrap()
}

fn waits_in(runtime: &tokio::runtime::Runtime, receiver: &Arc<Receiver>) {
    let _entered = runtime.enter();
    receiver.follow();
}

#[tokio::test]
async fn messages_are_received_where_a_task_waits_and_at_home_when_that_has_ended() {
    let scene = scene();
    let home = std::thread::current().name().unwrap().to_owned();
    scene.is_heard_on(&home).await;
    let one = runtime("one", true);
    let two = runtime("two", true);
    for (runtime, name) in [(&one, "one"), (&two, "two"), (&one, "one")] {
        waits_in(runtime, &scene.receiver);
        scene.is_heard_on(name).await;
    }
    one.shutdown_background();
    scene.is_heard_on(&home).await;
    waits_in(&two, &scene.receiver);
    scene.is_heard_on("two").await;
    scene.receiver.follow(); // a task waits at home
    scene.is_heard_on(&home).await;
    two.shutdown_background();
}

#[tokio::test]
async fn a_runtime_that_may_stand_still_or_cannot_read_is_not_followed() {
    let scene = scene();
    let home = std::thread::current().name().unwrap().to_owned();
    let still = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    waits_in(&still, &scene.receiver);
    scene.is_heard_on(&home).await;
    let blind = runtime("blind", false);
    waits_in(&blind, &scene.receiver);
    scene.is_heard_on(&home).await;
    assert_eq!(hold(&scene.receiver.place).unfit, Some(blind.handle().id()));
    still.shutdown_background();
    blind.shutdown_background();
}

#[tokio::test]
async fn nothing_is_heard_once_it_is_closed() {
    let scene = scene();
    let away = runtime("away", true);
    waits_in(&away, &scene.receiver);
    scene.is_heard_on("away").await;
    scene.receiver.close();
    assert!(!scene.wake.present(b"channel"));
    let socket = scene.receiver.listener.register().unwrap();
    assert!(!scene.receiver.drain(&socket));
    away.shutdown_background();
}

#[tokio::test]
async fn who_drains_many_at_once_hears_of_a_gap() {
    let scene = scene();
    for _ in 0..1000 {
        scene.wake.send(b"channel", b"x");
    }
    assert!(scene.wake.present(b"channel"), "a full queue is somebody");
    let gap = async {
        let is_gap = |(event, _)| event == Event::Gap;
        while !scene.heard.try_iter().any(is_gap) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = scene.receiver.attend() => panic!("the socket is there"),
        () = gap => {}
    }
    assert_eq!(scene.heard.try_recv().unwrap().0, Event::Ready);
}
