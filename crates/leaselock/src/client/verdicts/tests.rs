use leaselock_fence::Fence;

use super::*;
use crate::base::fence;
use crate::quorum::tally::said::{decided, votes};

fn seen(letter: char) -> Inspected {
    let state = match letter {
        'f' => InspectedState::Free,
        'o' => InspectedState::Other {
            kind: "hash".into(),
        },
        one => InspectedState::Held(SeenHold {
            mode: LockMode::Exclusive,
            value: vec![one as u8],
            pttl_ms: Some(u64::from(u32::from(one))),
            fence: Some(Fence::new(u64::from(u32::from(one)))),
            why: Vec::new(),
            kind: None,
        }),
    };
    state.into()
}

/// Returns a letter for the holder, `f` for free, `o` for no lock, `?` while that is open.
fn look(said: &str) -> char {
    match decided(inspected(&votes(said, seen))).map(|seen| seen.state) {
        None => '?',
        Some(InspectedState::Free) => 'f',
        Some(InspectedState::Shared { .. } | InspectedState::Other { .. }) => 'o',
        Some(InspectedState::Held(SeenHold { value, .. })) => char::from(value[0]),
    }
}

#[test]
fn a_lock_is_held_by_the_client_with_a_majority_and_free_when_none_can_have_one() {
    for (said, expected) in [
        ("aa.", 'a'),
        ("a..", '?'),
        ("ab.", '?'),
        ("aba", 'a'),
        ("abc", 'f'),
        ("ff.", 'f'),
        ("fa.", '?'),
        ("fax", 'f'),
        ("axx", '?'),
        ("oo.", 'o'),
        ("aabb.", '?'),
        ("aabbx", 'f'),
    ] {
        assert_eq!(look(said), expected, "{said}");
    }
}

#[test]
fn a_majority_holds_a_lock_as_long_as_its_shortest_vote_that_is_needed() {
    let state = |pttl_ms| {
        InspectedState::Held(SeenHold {
            mode: LockMode::Exclusive,
            value: b"a".to_vec(),
            pttl_ms: Some(pttl_ms),
            fence: fence::of_reply(if pttl_ms == 30 { 9 } else { 5 }),
            why: Vec::new(),
            kind: None,
        })
    };
    let all = [state(10), state(30), state(20), state(40)];
    match together(all.iter().collect(), 3) {
        InspectedState::Held(SeenHold { pttl_ms, fence, .. }) => {
            assert_eq!((pttl_ms, fence), (Some(20), fence::of_reply(5)));
        }
        _ => panic!("held"),
    }
}

#[test]
fn the_number_of_a_lease_is_that_of_a_majority_and_those_who_are_late_are_waited_for() {
    let numbered = |letter: char| Inspected {
        state: InspectedState::Held(SeenHold {
            mode: LockMode::Exclusive,
            value: b"a".to_vec(),
            pttl_ms: Some(10),
            fence: letter.to_digit(10).map(u64::from).and_then(fence::of_reply),
            why: Vec::new(),
            kind: None,
        }),
        queue: Vec::new(),
        waiter_count: 0,
        permits: None,
        damaged: Vec::new(),
    };
    for (said, expected) in [
        ("5-.", None),
        ("5-5", Some(5)),
        ("59.", None),
        ("595", Some(5)),
        ("-5x", Some(5)),
        ("5-x", Some(5)),
    ] {
        let found = decided(inspected(&votes(said, numbered)));
        let fence = found.and_then(|seen| fence_of(&seen.state));
        assert_eq!(fence, expected.and_then(fence::of_reply), "{said}");
    }
}

#[test]
fn a_lease_is_broken_when_its_holder_cannot_have_a_majority_any_more() {
    let reply = |letter: char| match letter {
        'b' => Broke::Broken {
            holder: None,
            fence: None,
            count: 1,
            rest_ms: 0,
        },
        _ => Broke::Free,
    };
    let [broken, free] = ['b', 'f'].map(|letter| Some(reply(letter)));
    for (said, expected) in [
        ("bb.", broken.clone()),
        ("b.f", None),
        ("bff", broken.clone()),
        ("bfx", broken.clone()),
        ("bxx", None),
        ("bffxx", broken),
        ("ff.", free.clone()),
        ("ffx", free),
        ("fxx", None),
    ] {
        assert_eq!(decided(broke(&votes(said, reply))), expected, "{said}");
    }
}
