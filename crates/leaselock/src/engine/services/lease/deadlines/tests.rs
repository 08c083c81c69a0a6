//! The heap against a list that is searched.

use std::time::Duration;

use leaselock_fence::Name;
use proptest::prelude::*;

use super::*;
use crate::base::{ClientId, Clock, Drift, Token, Ttl};
use crate::engine::services::lease::state::{LeaseMachine, LeaseTerms};
use crate::engine::values::{AcquireTerms, Held, Resource};
use crate::mutex::MUTEX;

fn lease() -> Arc<LeaseRecord> {
    let name = Name::new("job").unwrap();
    let ttl = Ttl::new(Duration::from_secs(1)).unwrap();
    let clock = Clock::manual();
    let now = clock.now();
    let end = now.plus(Duration::from_secs(1));
    let terms = LeaseTerms::of(AcquireTerms::plain(ttl), None, now);
    let core = LeaseMachine::granted(now, end, now, terms, Drift { ppm: 0 });
    let token = Token::random(&ClientId::random().unwrap(), true).unwrap();
    let resource = Resource::at(&MUTEX, Arc::from(&name), None);
    let held = Held { resource, token };
    Arc::new(LeaseRecord::new(name, held, None, None, clock, core))
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u64),
    Remove(usize),
    Move(usize, u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (0..50u64).prop_map(Op::Insert),
        2 => any::<usize>().prop_map(Op::Remove),
        2 => (any::<usize>(), 0..50u64).prop_map(|(which, at)| Op::Move(which, at)),
    ];
    prop::collection::vec(op, 1..120)
}

proptest! {
    #[test]
    fn the_heap_finds_what_a_search_through_a_list_finds(ops in ops()) {
        let at = Moment::from_nanos;
        let record = lease();
        let (mut schedule, mut list): (_, Vec<(Id, u64)>) = (Deadlines::default(), Vec::new());
        let mut gone = Vec::new();
        for op in ops {
            match op {
                Op::Insert(alarm) => list.push((schedule.insert(Arc::clone(&record), at(alarm)), alarm)),
                Op::Remove(_) | Op::Move(..) if list.is_empty() => {}
                Op::Remove(which) => {
                    let (id, _) = list.remove(which % list.len());
                    schedule.remove(id);
                    gone.push(id);
                }
                Op::Move(which, alarm) => {
                    let which = which % list.len();
                    list[which].1 = alarm;
                    assert!(schedule.set_alarm(list[which].0, at(alarm)));
                }
            }
            assert_eq!(schedule.first(), list.iter().map(|(_, alarm)| at(*alarm)).min());
            assert_eq!(schedule.is_empty(), list.is_empty());
            let all: Vec<Id> = schedule.all().into_iter().map(|(id, _)| id).collect();
            assert_eq!(all, list.iter().map(|(id, _)| *id).collect::<Vec<_>>());
            let mut due: Vec<u64> = schedule.due_until(at(20)).iter().map(|(id, _)| id.number).collect();
            let mut expected: Vec<u64> = list.iter().filter(|(_, alarm)| *alarm <= 20).map(|(id, _)| id.number).collect();
            due.sort_unstable();
            expected.sort_unstable();
            assert_eq!(due, expected);
        }
        for id in gone {
            assert!(!schedule.set_alarm(id, at(0)), "an index that is another lease's now was moved");
        }
    }
}

#[test]
fn an_empty_schedule_frees_its_memory() {
    let record = lease();
    let mut schedule = Deadlines::default();
    let ids: Vec<Id> = (0..5000)
        .map(|alarm| schedule.insert(Arc::clone(&record), Moment::from_nanos(alarm)))
        .collect();
    ids.into_iter().for_each(|id| schedule.remove(id));
    assert!(schedule.is_empty() && schedule.entries.capacity() <= ROOM_KEPT);
    assert_eq!(Arc::strong_count(&record), 1);
}
