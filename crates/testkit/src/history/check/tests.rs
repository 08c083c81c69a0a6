//! Histories as text, one line `at attempt event [fence deadline]` each, most of which must fail.

use super::*;

fn run(history: &str) -> Result<Summary, Vec<Violation>> {
    let event = |line: &str| {
        let (at, rest) = line.trim().split_once(' ').unwrap();
        let (number, what) = rest.split_once(' ').unwrap();
        format!("{at} 1 {number} a {what}").parse().unwrap()
    };
    let events: Vec<Event> = history.trim().lines().map(event).collect();
    check(&events)
}

fn id(number: u64) -> Id {
    Id { process: 1, number }
}

fn only_violation(history: &str) -> Violation {
    let mut found = run(history).expect_err("this history must fail");
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn one_after_the_other_is_sound() {
    let summary = run("
        1 1 invoke
        2 1 granted 7 100
        3 2 invoke
        10 1 release
        11 2 granted 8 100
        12 1 released
        20 2 release");
    assert_eq!(
        summary,
        Ok(Summary {
            names: 1,
            grants: 2,
            lost: 0,
            contended: 1
        })
    );
}

#[test]
fn overlap_fails_even_when_the_second_hold_lies_within_the_first() {
    let found = only_violation(
        "
        1 1 invoke
        2 1 granted 7 100
        3 2 invoke
        10 2 granted 8 90
        20 2 release
        50 1 release",
    );
    let overlap = Duration::from_nanos(10);
    assert_eq!(
        found,
        Violation::Overlap {
            name: "a".into(),
            first: id(1),
            second: id(2),
            overlap
        }
    );
}

#[test]
fn overlap_with_a_long_hold_is_seen_behind_a_short_one() {
    let found = run("
        1 1 invoke
        1 2 invoke
        1 3 invoke
        2 1 granted 7 100
        3 2 granted 8 4
        50 3 granted 9 60");
    assert_eq!(found.unwrap_err().len(), 2, "1 with 2, and 1 with 3");
}

#[test]
fn hold_ends_at_its_deadline_its_loss_or_its_release_whichever_is_first() {
    for end in [
        "2 1 granted 7 10",
        "2 1 granted 7 100\n 10 1 lost",
        "2 1 granted 7 100\n 10 1 release",
    ] {
        let history = format!("1 1 invoke\n{end}\n3 2 invoke\n10 2 granted 8 100");
        assert!(run(&history).is_ok(), "{history}");
        let early = history.replace("10 2 granted", "9 2 granted");
        assert!(run(&early).is_err(), "{early}");
    }
}

#[test]
fn extension_moves_the_end_of_a_hold() {
    let found = only_violation(
        "
        1 1 invoke
        2 1 granted 7 10
        5 1 extended 7 30
        6 2 invoke
        20 2 granted 8 50",
    );
    assert!(matches!(found, Violation::Overlap { .. }), "{found}");
}

#[test]
fn grant_that_came_after_its_own_deadline_was_never_held() {
    let history = "
        1 1 invoke
        2 2 invoke
        3 2 granted 8 100
        50 1 granted 7 40";
    assert!(run(history).is_ok());
}

#[test]
fn repeated_fence_fails() {
    let found = only_violation(
        "
        1 1 invoke
        2 1 granted 7 10
        20 2 invoke
        21 2 granted 7 30",
    );
    assert!(
        matches!(found, Violation::RepeatedFence { fence: 7, .. }),
        "{found}"
    );
}

#[test]
fn reordered_fence_fails_only_when_the_order_was_known() {
    let known = "
        1 1 invoke
        2 1 granted 8 10
        3 2 invoke
        21 2 granted 7 30";
    let found = only_violation(known);
    assert!(matches!(found, Violation::ReorderedFence { .. }), "{found}");
    // The second attempt was under way already, so its fence may be the older one.
    assert!(run(&known.replace("3 2 invoke", "1 2 invoke")).is_ok());
}

#[test]
fn fence_is_compared_with_the_greatest_before_not_the_latest() {
    let found = only_violation(
        "
        1 1 invoke
        1 2 invoke
        2 1 granted 9 5
        6 2 granted 4 8
        10 3 invoke
        11 3 granted 6 20",
    );
    let (first, second) = ((id(1), 9), (id(3), 6));
    assert_eq!(
        found,
        Violation::ReorderedFence {
            name: "a".into(),
            first,
            second
        }
    );
}

#[test]
fn changed_fence_fails() {
    let found = only_violation(
        "
        1 1 invoke
        2 1 granted 7 10
        5 1 extended 8 30",
    );
    assert!(
        matches!(found, Violation::ChangedFence { fences: (7, 8), .. }),
        "{found}"
    );
}

#[test]
fn impossible_lives_fail() {
    for history in [
        "2 1 granted 7 10",
        "1 1 invoke\n2 1 granted 7 10\n3 1 granted 7 10",
        "1 1 invoke\n2 1 extended 7 10",
        "1 1 invoke\n2 1 release",
        "1 1 invoke\n2 1 granted 7 10\n3 1 failed",
    ] {
        let found = run(history).unwrap_err();
        assert!(
            matches!(found[0], Violation::Nonsense { .. }),
            "{history}: {found:?}"
        );
    }
}

#[test]
fn locks_with_different_names_have_nothing_to_do_with_each_other() {
    let line = |name: &str, number: u64| format!("2 1 {number} {name} granted 7 100");
    let begin = |name: &str, number: u64| format!("1 1 {number} {name} invoke");
    let lines = [begin("a", 1), begin("b", 2), line("a", 1), line("b", 2)];
    let events: Vec<Event> = lines.iter().map(|line| line.parse().unwrap()).collect();
    assert_eq!(check(&events).unwrap().names, 2);
}
