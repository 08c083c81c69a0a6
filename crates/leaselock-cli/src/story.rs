//! What `-v` tells on standard error: how a wait goes on and what became of the lock, one line each.

use std::time::Duration;

use leaselock::{ErrorKind, Fence, Lease, StoreError, Waiting};
use serde_json::json;

use crate::args::Globals;
use crate::secrets::without_secrets;
use crate::session::Locks;
use crate::waiting_message::{self, Watch};
use crate::{boottime, output, show};

/// How often a wait that goes on says so.
const EVERY: Duration = Duration::from_secs(60);

/// The story of one lock.
pub(crate) struct Story {
    name: String,
    /// A quorum and other libraries' ways of locking have no queue, so nobody has a position.
    queued: bool,
    told: bool,
    json: bool,
    began: u64,
}

impl Story {
    /// Begins now. Tells nothing unless `-v` asks for it.
    pub(crate) fn of(name: &str, queued: bool, globals: &Globals) -> Story {
        Story {
            name: output::tame(&without_secrets(name)),
            queued,
            told: globals.verbose > 0,
            json: globals.json,
            began: boottime::now(),
        }
    }

    fn age(&self) -> Duration {
        Duration::from_nanos(boottime::now().saturating_sub(self.began))
    }

    fn tell(&self, event: &str, text: &str) {
        if !self.told {
            return;
        }
        let (name, text) = (&self.name, output::tame(text));
        if self.json {
            let object = json!({ "event": event, "name": name, "text": text });
            output::say(&output::json(&object));
        } else {
            let clear = waiting_message::clear();
            output::say(&format!("{clear}leaselock: {name}: {text}\n"));
        }
    }

    pub(crate) fn acquired(&self, lease: &Lease) {
        let waited = show::duration(self.age());
        let fence = lease.fence().map(Fence::get);
        let fence = fence.map_or_else(String::new, |fence| format!(" (fence {fence})"));
        self.tell("acquired", &format!("acquired after {waited}{fence}"));
    }

    pub(crate) fn gave_up(&self, why: &str) {
        let waited = show::duration(self.age());
        self.tell("gave-up", &format!("gave up after {waited}: {why}"));
    }

    pub(crate) fn released(&self, held: Duration) {
        let held = show::duration(held);
        self.tell("released", &format!("released, held {held}"));
    }

    pub(crate) fn free(&self) {
        let waited = show::duration(self.age());
        self.tell("free", &format!("free after {waited}"));
    }

    /// Tells how the wait of `run` and `acquire` goes on. Never ends, so put it beside the wait in a `select!`.
    pub(crate) async fn follow(&self, watch: &Watch, client: &Locks, name: &str) {
        if !self.told {
            std::future::pending::<()>().await;
        }
        let mut plot = Plot::default();
        let store = client.store();
        loop {
            let minute = tokio::time::sleep(EVERY);
            tokio::select! {
                () = watch.changed() => {}
                () = minute => {}
            }
            let news = watch.latest().map(|waiting| News::of(&waiting, &store));
            let Some(line) = news.and_then(|news| plot.next(self.age(), news)) else {
                continue;
            };
            let (event, mut text) = line.in_words(self.queued, &store);
            if line.wants_holder()
                && let Some(holder) = holder(client, name).await
            {
                text.push_str(&format!("; held by {holder}"));
            }
            self.tell(event, &text);
        }
    }

    /// The same for `wait`, which has no place in the queue.
    pub(crate) async fn look_on(&self, client: &Locks, name: &str) {
        if !self.told {
            std::future::pending::<()>().await;
        }
        let mut begins = true;
        loop {
            if let Some(holder) = holder(client, name).await {
                let text = if std::mem::take(&mut begins) {
                    format!("held by {holder}; waiting until it is free")
                } else {
                    let waited = show::duration(self.age());
                    format!("still held after {waited}, by {holder}")
                };
                self.tell("waiting", &text);
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

async fn holder(client: &Locks, name: &str) -> Option<String> {
    match client.inspect(name).await.ok()?.state {
        leaselock::Holding::Held(holder) => Some(show::holder(&holder)),
        _ => None,
    }
}

/// A failed request in a few words: what a person needs to know which server to look at, and why.
pub(crate) fn trouble(error: &StoreError, store: &str) -> String {
    let cause = cause(error, store);
    if is_silence(error) {
        format!("{store} does not answer ({cause})")
    } else {
        cause
    }
}

/// The error without the store's name, where that is said anyway.
pub(crate) fn cause(error: &StoreError, store: &str) -> String {
    if error.kind() == ErrorKind::TimedOut && error.votes().is_empty() {
        return "timed out".to_owned();
    }
    let text = error.to_string();
    match text.split_once(&format!("{store}: ")) {
        Some((_, cause)) if is_silence(error) => cause.to_owned(),
        _ => text,
    }
}

/// There was no answer, and not one that refuses.
pub(crate) fn is_silence(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Unreachable) && error.votes().is_empty()
}

/// What the library has told of the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
enum News {
    At(usize),
    Quarantine(String),
    Trouble(String),
}

impl News {
    fn of(waiting: &Waiting, store: &str) -> News {
        match (&waiting.error, waiting.quarantine) {
            (Some(error), _) => News::Trouble(trouble(error, store)),
            (None, Some(why)) => News::Quarantine(why.to_string()),
            (None, None) => News::At(waiting.place),
        }
    }
}

/// Which line comes next. Time is an argument.
#[derive(Debug, Default)]
struct Plot {
    last: Option<News>,
    /// When the latest line was told.
    told_at: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// The first answer, or the first one of another kind.
    Begins(News),
    /// The same as a minute ago, or another position.
    Still(Duration, News),
    /// The store answers again.
    Back(Duration, News),
}

impl Plot {
    fn next(&mut self, age: Duration, news: News) -> Option<Line> {
        use News::{At, Trouble};
        let due = age >= self.told_at + EVERY;
        let line = match (&self.last, &news) {
            (Some(Trouble(_)), Trouble(_)) | (Some(At(_)), At(_)) if !due => return None,
            (Some(before), _) if before == &news && !due => return None,
            (Some(Trouble(_)), At(_)) => Line::Back(age, news.clone()),
            (Some(Trouble(_)), Trouble(_)) | (Some(At(_)), At(_)) => Line::Still(age, news.clone()),
            (Some(before), _) if before == &news => Line::Still(age, news.clone()),
            _ => Line::Begins(news.clone()),
        };
        (self.last, self.told_at) = (Some(news), age);
        Some(line)
    }
}

impl Line {
    fn wants_holder(&self) -> bool {
        let (Line::Begins(news) | Line::Still(_, news) | Line::Back(_, news)) = self;
        matches!(news, News::At(_))
    }

    /// The event, and the text without the holder.
    fn in_words(&self, queued: bool, store: &str) -> (&'static str, String) {
        let at = |place: &usize| match queued {
            true => format!("queued at position {place}"),
            false => "waiting".to_owned(),
        };
        match self {
            Line::Begins(News::At(place)) => ("queued", at(place)),
            Line::Begins(News::Quarantine(why)) => {
                ("waiting", format!("strict mode grants nobody yet: {why}"))
            }
            Line::Begins(News::Trouble(trouble)) => ("retrying", format!("{trouble}, retrying")),
            Line::Still(age, news) => {
                let age = show::duration(*age);
                match news {
                    News::At(place) => ("waiting", format!("still {} after {age}", at(place))),
                    News::Quarantine(why) => (
                        "waiting",
                        format!("still waiting after {age}; strict mode grants nobody yet: {why}"),
                    ),
                    News::Trouble(trouble) => (
                        "retrying",
                        format!("still waiting after {age}; {trouble}, retrying"),
                    ),
                }
            }
            Line::Back(age, News::At(place)) => {
                let age = show::duration(*age);
                let text = format!("{store} answers again; still {} after {age}", at(place));
                ("waiting", text)
            }
            Line::Back(_, _) => ("waiting", format!("{store} answers again")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: usize) -> News {
        News::At(place)
    }

    fn silence() -> News {
        News::Trouble("redis://h does not answer (timed out)".to_owned())
    }

    #[test]
    fn a_wait_is_told_at_its_beginning_and_then_once_a_minute() {
        let mut plot = Plot::default();
        let s = Duration::from_secs;
        assert_eq!(plot.next(s(0), at(2)), Some(Line::Begins(at(2))));
        assert_eq!(plot.next(s(5), at(2)), None);
        assert_eq!(plot.next(s(59), at(1)), None);
        assert_eq!(plot.next(s(60), at(1)), Some(Line::Still(s(60), at(1))));
        assert_eq!(plot.next(s(119), at(1)), None);
        assert_eq!(plot.next(s(121), at(1)), Some(Line::Still(s(121), at(1))));
    }

    #[test]
    fn a_store_that_does_not_answer_is_told_at_once_once_a_minute_and_when_it_is_back() {
        let mut plot = Plot::default();
        let s = Duration::from_secs;
        plot.next(s(0), at(1));
        assert_eq!(plot.next(s(9), silence()), Some(Line::Begins(silence())));
        assert_eq!(plot.next(s(10), silence()), None);
        assert_eq!(
            plot.next(s(69), silence()),
            Some(Line::Still(s(69), silence()))
        );
        assert_eq!(plot.next(s(72), at(1)), Some(Line::Back(s(72), at(1))));
        assert_eq!(plot.next(s(77), at(1)), None);
    }

    #[test]
    fn the_lines_say_the_position_only_where_there_is_a_queue() {
        let still = Line::Still(Duration::from_secs(61), at(3));
        let words = |line: &Line, queued| line.in_words(queued, "redis://h").1;
        assert_eq!(
            words(&still, true),
            "still queued at position 3 after 1m 1s"
        );
        assert_eq!(words(&still, false), "still waiting after 1m 1s");
        assert_eq!(
            words(&Line::Begins(silence()), true),
            "redis://h does not answer (timed out), retrying"
        );
    }
}
