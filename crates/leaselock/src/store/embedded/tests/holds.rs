//! Sets of holds: each member ends with the process, and the job, of its own client.

use super::*;
use crate::base::error::ErrorKind;
use crate::store::embedded::entry::{Content, Entry};
use crate::store::embedded::folder::{Folder, FolderSettings};
use crate::store::embedded::holds::{Life, Sessionless};
use crate::store::embedded::image::{Image, MOST_KEYS};
use crate::store::embedded::io_error::FileError;
use crate::store::embedded::lockfile;
use crate::store::embedded::packed::Members;

/// What a call sees: the remaining time of the key, and the holds with their ends from now on in milliseconds.
type Seen = (i64, Vec<(String, i64)>);

const SEE: &str = "
    local time = redis.call('TIME')
    local now_us = time[1] * 1000000 + time[2]
    local answer = { 'x', redis.call('PTTL', KEYS[1]) }
    local found = redis.call('ZRANGE', KEYS[1], '0', '-1', 'WITHSCORES')
    for i = 1, #found, 2 do
      answer[#answer + 1] = found[i]
      answer[#answer + 1] = math.floor((tonumber(found[i + 1]) - now_us) / 1000)
    end
    return answer";

const HOLD: &str = "
    local time = redis.call('TIME')
    local now_us = time[1] * 1000000 + time[2]
    for i = 2, #ARGV do
      redis.call('ZADD', KEYS[1], string.format('%.0f', now_us + ARGV[1] * 1000), ARGV[i])
    end
    if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
    return { 'x' }";

impl Peer {
    /// Writes a hold for each token and kind; returns the members.
    async fn hold(&self, ttl_ms: u64, kinds: &[&str]) -> Vec<String> {
        let member = |kind: &&str| format!("{}{kind}", self.token().secret());
        let members: Vec<_> = kinds.iter().map(member).collect();
        self.write(ttl_ms, &members).await;
        members
    }

    async fn write(&self, ttl_ms: u64, members: &[String]) {
        let ttl_ms = ttl_ms.to_string();
        let mut args = vec![ttl_ms.as_str()];
        args.extend(members.iter().map(String::as_str));
        self.run(&made_up(HOLD, &["job"], &args)).await.unwrap();
    }

    async fn see(&self, reads_only: bool) -> Seen {
        let see = call_of(SEE, &["job"], &[], reads_only);
        let answer = self.run(&see).await.unwrap();
        let found = answer.values()[1..].chunks_exact(2).map(|pair| match pair {
            [Value::Bytes(name), Value::Int(left_ms)] => {
                (String::from_utf8(name.clone()).unwrap(), *left_ms)
            }
            other => panic!("{other:?}"),
        });
        (answer.signed(0).unwrap(), found.collect())
    }

    async fn members(&self) -> Vec<String> {
        let (_, found) = self.see(true).await;
        found.into_iter().map(|(name, _)| name).collect()
    }

    /// Waits until only these are left, under the lock and without it.
    ///
    /// Other tests start processes, which have a copy of every descriptor until they run their program.
    async fn sees_soon(&self, expected: &[&String]) {
        let mut expected: Vec<_> = expected.iter().map(|name| (*name).clone()).collect();
        expected.sort();
        loop {
            let mut members = self.members().await;
            members.sort();
            if members == expected {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(self.see(false).await.1.len(), expected.len());
    }
}

#[tokio::test]
async fn each_hold_of_a_dead_process_is_gone_at_once_and_the_others_stay() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let [one, two, other] = [(); 3].map(|()| Peer::on(&scratch, &clock, true));
    let first = one.hold(3_600_000, &["", "12"]).await;
    let second = two.hold(3_600_000, &["3"]).await;
    assert_eq!(other.members().await.len(), 3);
    drop(one);
    other.sees_soon(&[&second[0]]).await;
    let third = other.hold(3_600_000, &[""]).await;
    assert!(!other.members().await.contains(&first[0]));
    drop(two);
    other.sees_soon(&[&third[0]]).await;
}

#[tokio::test]
async fn a_lock_whose_last_holder_died_is_free() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let (one, other) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    one.hold(3_600_000, &["u"]).await;
    assert_eq!(other.listed().await, ["job"]);
    drop(one);
    other.sees_soon(&[]).await;
    assert_eq!(other.see(true).await.0, -2);
    assert_eq!(other.listed().await, Vec::<String>::new());
    assert!(other.take(&other.token(), 1000).await.is_some());
}

#[tokio::test]
async fn holds_of_a_job_that_goes_on_alone_end_a_second_from_now_for_ever() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let [one, two, other] = [(); 3].map(|()| Peer::on(&scratch, &clock, true));
    let left = one.hold(500, &["", "7"]).await;
    let job = Job::inheriting(|| one.store.session_descriptor());
    drop(one);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(3600));
        for reads_only in [true, false] {
            let (pttl_ms, mut found) = other.see(reads_only).await;
            found.sort();
            let mut expected: Vec<_> = left.iter().map(|name| (name.clone(), 1000)).collect();
            expected.sort();
            assert_eq!((pttl_ms, found), (1000, expected));
        }
        // A write must not lose a hold whose score is over.
        let mine = two.hold(300, &[""]).await;
        assert_eq!(other.members().await.len(), 3);
        let release = "redis.call('ZREM', KEYS[1], ARGV[1]) return { 'x' }";
        two.run(&made_up(release, &["job"], &[&mine[0]]))
            .await
            .unwrap();
    }
    // The set has the holds of a living process too, whose scores and ttl are larger.
    let mine = two.hold(60_000, &[""]).await;
    let (pttl_ms, found) = other.see(true).await;
    assert_eq!(
        (pttl_ms, found.last()),
        (60_000, Some(&(mine[0].clone(), 60_000)))
    );
    drop(job);
    other.sees_soon(&[&mine[0]]).await;
}

#[tokio::test]
async fn the_longest_hold_ends_holds_of_a_job_that_goes_on_alone() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let (one, other) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    let until = clock.now().plus(Duration::from_secs(10));
    one.store.limit_session(until);
    let left = one.hold(3_600_000, &["u"]).await;
    one.write(3_600_000, &["u".to_owned()]).await;
    let job = Job::inheriting(|| one.store.session_descriptor());
    drop(one);
    clock.advance(Duration::from_millis(9900));
    let (_, found) = other.see(true).await;
    let mut both = [(left[0].clone(), 100), ("u".to_owned(), 100)];
    both.sort(); // they end together, and some tokens come behind `u`
    assert_eq!(found, both);
    clock.advance(Duration::from_millis(101));
    assert_eq!(other.see(true).await, (-2, vec![]));
    drop(job);
}

#[tokio::test]
async fn holds_of_living_processes_end_by_their_scores_and_the_ttl_of_the_key() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let (one, other) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    let short = one.hold(1000, &[""]).await;
    let long = one.hold(5000, &[""]).await;
    let job = Job::inheriting(|| one.store.session_descriptor());
    clock.advance(Duration::from_millis(1500));
    let expected = [(short[0].clone(), -500), (long[0].clone(), 3500)];
    assert_eq!(other.see(true).await, (3500, expected.to_vec()));
    clock.advance(Duration::from_millis(3501));
    assert_eq!(other.see(true).await, (-2, vec![]));
    drop(job);
}

#[tokio::test]
async fn a_hold_without_a_session_stays_until_its_time_is_over_beside_any_other() {
    for sessionless_first in [true, false] {
        let (scratch, clock) = (Scratch::new(), Clock::manual());
        let [one, other] = [(); 2].map(|()| Peer::on(&scratch, &clock, true));
        let without = Peer::on(&scratch, &clock, false);
        let mut kept = Vec::new();
        if sessionless_first {
            kept = without.hold(60_000, &["", "2"]).await;
        }
        one.hold(60_000, &["", "4"]).await;
        if !sessionless_first {
            kept = without.hold(60_000, &["", "2"]).await;
        }
        assert_eq!(other.members().await.len(), 4);
        drop(without);
        drop(one);
        other.sees_soon(&[&kept[0], &kept[1]]).await;
        // Written anew, by another process and with a hold of its own in between.
        let more = other.hold(60_000, &[""]).await;
        other.sees_soon(&[&kept[0], &kept[1], &more[0]]).await;
        drop(other);
        let last = Peer::on(&scratch, &clock, true);
        last.sees_soon(&[&kept[0], &kept[1]]).await;
        clock.advance(Duration::from_millis(60_001));
        assert_eq!(last.see(true).await, (-2, vec![]));
    }
}

#[tokio::test]
async fn the_member_beside_an_upgradable_hold_goes_with_it_and_not_with_another() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let [one, two, other] = [(); 3].map(|()| Peer::on(&scratch, &clock, true));
    one.hold(60_000, &[""]).await;
    let upgradable = two.hold(60_000, &["u"]).await;
    two.write(60_000, &["u".to_owned()]).await;
    drop(one);
    other.sees_soon(&[&upgradable[0], &"u".to_owned()]).await;
    drop(two);
    other.sees_soon(&[]).await;
}

#[tokio::test]
async fn waiters_of_dead_processes_stay_in_the_queue_and_the_queue_is_no_lock() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let [one, two, other] = [(); 3].map(|()| Peer::on(&scratch, &clock, true));
    other.take(&other.token(), 60_000).await.unwrap();
    for peer in [&one, &two] {
        for _ in 0..3 {
            let call = enqueue("job", &peer.token(), 1000, "channel");
            assert_eq!(peer.tag(&call).await, "waiting");
        }
    }
    let names = [
        one.client.as_str().to_owned(),
        two.client.as_str().to_owned(),
    ];
    drop(one);
    drop(two);
    let body = "return { 'x', redis.call('ZCARD', KEYS[1]) }";
    let queue = mutex_keys("job").queue().to_string();
    let count = made_up(body, &[&queue], &[]);
    let gone = |name: &String| {
        let session = scratch.path().join("locks here/sessions").join(name);
        !session.exists()
    };
    let store = other.store.clone();
    let sweeping =
        tokio::spawn(async move { store.follow(&crate::store::port::no_leases()).await });
    while !names.iter().all(gone) {
        tokio::task::yield_now().await;
    }
    sweeping.abort();
    assert_eq!(other.run(&count).await.unwrap().number(0).unwrap(), 6);
    assert_eq!(other.listed().await, ["job"]);
}

#[tokio::test]
async fn holds_in_memory_end_by_their_scores_and_are_listed() {
    let clock = Clock::manual();
    let client = ClientId::random().unwrap();
    let store = EmbeddedStore::memory("", clock.clone());
    let peer = Peer { client, store };
    let mine = peer.hold(1000, &["u", "3"]).await;
    assert_eq!(peer.listed().await, ["job"]);
    assert_eq!(peer.members().await.len(), mine.len());
    clock.advance(Duration::from_millis(1001));
    assert_eq!(peer.see(true).await, (-2, vec![]));
}

/// A set with holds of both kinds counts twice among the keys of a file.
#[test]
fn no_file_is_written_with_more_entries_than_a_call_reads() {
    let scratch = Scratch::new();
    let settings = FolderSettings {
        path: scratch.path().to_owned(),
        clock: Clock::boot(),
        client: ClientId::random().unwrap().as_str().to_owned(),
        session: true,
    };
    let folder = Folder::open(&settings).unwrap();
    let now_us = folder.time_us().unwrap();
    let entry = |key: usize| Entry {
        key: format!("{{job}}{key}"),
        ends_us: None,
        bound: false,
        sessionless: Sessionless::new(),
        life: Life::Ttl,
        content: Content::Sorted(Members::default()),
    };
    let mut image = Image {
        entries: (0..MOST_KEYS).map(entry).collect(),
        changed: true,
    };
    for (client, has_session) in [(settings.client.as_str(), true), ("client_b", false)] {
        let token = format!("{:022}.{client}", 0);
        image.entries[0].add_member(1.0, token.as_bytes(), Some(has_session));
    }
    let lock = || Ok::<_, FileError>(lockfile::lock(&folder, "job", true)?.unwrap());
    let commit = |image: &Image| {
        let held = lock()?;
        held.commit(image, held.load(now_us)?.1)?;
        drop(held);
        Ok::<_, FileError>(lock()?.load(now_us)?.0.entries)
    };
    let refused = commit(&image);
    assert!(
        matches!(&refused, Err(FileError::Store(error)) if error.kind() == ErrorKind::StorageFull),
        "{refused:?}"
    );
    image.entries.pop();
    assert!(commit(&image).unwrap() == image.entries);
}
