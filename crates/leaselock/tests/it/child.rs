//! What a child of this test program does.

use std::path::Path;

use testkit::Child;

/// What a child runs. Without words this is one of the tests, and there is nothing to do.
#[test]
fn obeys_its_parent() {
    let Some(words) = Child::words() else {
        return;
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    match words[..] {
        ["count", url, folder, rounds] => {
            runtime.block_on(crate::history::counter::count(
                url,
                Path::new(folder),
                rounds.parse().unwrap(),
            ));
        }
        ["turns", url, folder, rounds, who] => {
            runtime.block_on(crate::history::rotation::take_turns(
                url,
                Path::new(folder),
                rounds.parse().unwrap(),
                who,
            ));
        }
        ["take once", url, folder] => {
            runtime.block_on(crate::waiting::hand_over::take_once(url, Path::new(folder)));
        }
        ["turns until one stays", url, folder] => {
            runtime.block_on(crate::moves::crash::take_turns_until_one_stays(
                url,
                Path::new(folder),
            ));
        }
        ["once", order, url, folder] => {
            runtime.block_on(crate::once::obeys(order, url, Path::new(folder)));
        }
        ["cron", order, url, folder] => {
            runtime.block_on(crate::cron::obeys(order, url, Path::new(folder)));
        }
        ["waits", ref urls @ ..] => runtime.block_on(crate::waiting::heads::waits(urls)),
        ["hammer", url, history] => {
            runtime.block_on(crate::history::nemesis::hammer(url, Path::new(history)));
        }
        _ => panic!("an order that nobody gives: {words:?}"),
    }
}
