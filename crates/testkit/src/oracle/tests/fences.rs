//! Fencing tokens: grants without one, and numbers that do not grow.

use super::super::adopt::Found;
use super::*;

#[test]
fn a_grant_without_a_fencing_token_of_its_own_is_accused() {
    let repeated = |s: &mut Stream| {
        s.alone(A, 1_000).call(&[A]).lua("DEL job");
        s.call(&[B, "1000", ""])
            .lua(&format!("SET job {B} PX 1000"));
    };
    assert_eq!(after(repeated), [Rule::Fence]);
    let mint = "XADD {job}:ll:fence NOMKSTREAM MAXLEN = 0 * - -";
    let nothing_minted = |s: &mut Stream| {
        s.alone(A, 1_000).call(&[A]).lua("DEL job");
        s.call(&[C]).lua("DEL {job}:ll:fence");
        s.call(&[B, "1000", ""])
            .lua(mint)
            .lua(&format!("SET job {B} PX 1000"));
    };
    assert_eq!(after(nothing_minted), [Rule::Fence], "the key was gone");
    let unfenced = A.replace('.', "~");
    let asks_for_none = |s: &mut Stream| {
        s.call(&[&unfenced, "1000", ""])
            .lua(&format!("SET job {unfenced} PX 1000"));
    };
    assert_eq!(after(asks_for_none), []);
    let permits = |s: &mut Stream| {
        s.permits(A, 1, "1 1").call(&[B, "1000", "", "w"]);
        s.mint().member(&format!("{B}1"), 1_000);
        let number = (s.fence - 100).to_string();
        s.usage("2 2", &[&format!("{B}1"), &number]);
    };
    assert_eq!(after(permits), [Rule::Fence], "the number of other permits");
}

#[test]
fn fencing_tokens_that_do_not_grow_are_accused() {
    let alone = |first: u64, second: u64| {
        after(|s| {
            s.alone_with(START + first, A).call(&[A]).lua("DEL job");
            s.alone_with(START + second, B);
        })
    };
    assert_eq!(alone(1, 2), []);
    assert_eq!(alone(2, 2), [Rule::Fence]);
    assert_eq!(alone(2, 1), [Rule::Fence]);
    let readers = |s: &mut Stream| {
        s.alone_with(START, A).call(&[A]).lua("DEL job");
        s.call(&[B, "1000", "", "s"]).mint();
        s.fence = START;
        s.mark_readers().member(B, 1_000);
    };
    assert_eq!(after(readers), [Rule::Fence], "the writer's number");
}

#[test]
fn readers_without_a_number_or_with_that_of_other_readers_are_accused() {
    let unmarked = |s: &mut Stream| {
        s.alone(A, 1_000).call(&[A]).lua("DEL job");
        s.call(&[B, "1000", "", "s"]).mint().member(B, 1_000);
    };
    assert_eq!(after(unmarked), [Rule::Fence]);
    let not_minted = |s: &mut Stream| {
        s.fence += 100;
        s.call(&[B, "1000", "", "s"])
            .mark_readers()
            .member(B, 1_000);
    };
    assert_eq!(after(not_minted), [Rule::Fence]);
    let two_numbers = |s: &mut Stream| {
        s.read(A, 1_000).read(B, 1_000);
    };
    assert_eq!(after(two_numbers), [Rule::Fence]);
    let of_before = |s: &mut Stream, again: bool| {
        s.read(A, 1_000)
            .call(&[A, "s"])
            .lua(&format!("ZREM job {A}"));
        if again {
            let number = s.fence;
            s.lua(&format!("ZREM job f{number}")).read(B, 1_000);
        } else {
            s.read_too(B);
        }
    };
    assert_eq!(after(|s| of_before(s, false)), [Rule::Fence]);
    assert_eq!(after(|s| of_before(s, true)), []);
    let goes_on = |s: &mut Stream| {
        s.upgradable(A).call(&[A, "s"]);
        s.lua(&format!("ZREM job {A}u")).lua("ZREM job u");
        s.member(A, 1_000);
    };
    assert_eq!(after(goes_on), [], "it reads as before");
}

/// No command says when a key ends. A number that may have ended with it accuses none.
#[test]
fn a_number_of_readers_that_may_have_ended_is_not_that_of_the_next_ones() {
    let unfenced = A.replace('.', "~");
    let next = |s: &mut Stream, left_ms: u64| {
        s.call(&[&unfenced, "30", "", "s"]).member(&unfenced, 30);
        s.call(&[B, "1000", "", "s"]).mint().mark_readers();
        s.member(B, 1_000).call(&[B]).lua(&format!("ZREM job {B}"));
        s.lua(&format!("PEXPIRE job {left_ms}"));
        s.now += 50_000;
        s.call(&[&unfenced, "30", "", "s"]).member(&unfenced, 30);
        s.call(&[B, "1000", "", "s"]).mint().member(B, 1_000);
        s.mark_readers();
    };
    assert_eq!(after(|s| next(s, 1)), []);
    let went_on = after(|s| next(s, 1_000));
    assert_eq!(went_on, [Rule::Fence], "the key was there");
    let in_silence = |s: &mut Stream, later_us: u64| {
        s.read(B, 30);
        s.now += later_us;
        s.call(&[&unfenced, "400", "", "s"]).member(&unfenced, 400);
        s.read(C, 1_000);
    };
    assert_eq!(
        after(|s| in_silence(s, 33_000)),
        [],
        "no hold was given back"
    );
    let beside = after(|s| in_silence(s, 20_000));
    assert_eq!(beside, [Rule::Fence], "its holder was there");
}

#[test]
fn a_range_whose_end_was_not_minted_is_accused() {
    let hands_over = |s: &mut Stream, end: u64| {
        s.alone(A, 1_000).call(&[A]).mint();
        let first = s.fence;
        s.mint_chosen(first + end);
        s.lua(&format!("SET job {B} PX 5000"));
        let message = format!("grant {first} 64 {} 5000 0 {B}", s.now);
        s.line("lua", &["PUBLISH", "ll:wake:client-b", &message]);
    };
    assert_eq!(after(|s| hands_over(s, 63)), []);
    assert_eq!(after(|s| hands_over(s, 62)), [Rule::Message]);
}

#[test]
fn a_fencing_token_that_a_server_before_has_passed_is_accused() {
    let fails_over = |s: &mut Stream, number: u64| {
        s.alone_with(START + 7, A);
        let last_id = format!("{}-0", START / 1_000);
        let fence = ("{job}:ll:fence".to_owned(), Found::Stream { last_id });
        s.judge.adopt(vec![fence], s.now);
        s.now += 1_000_000;
        s.alone_with(number, B);
    };
    assert_eq!(after(|s| fails_over(s, START + 7)), [Rule::Fence]);
    assert_eq!(after(|s| fails_over(s, START + 8)), []);
    let joins = |s: &mut Stream| {
        s.alone_with(START + 7, A);
        let members = vec![(C.to_owned(), s.end_of(9_000).to_string())];
        let members = [members, vec![(format!("f{START}"), "-inf".to_owned())]].concat();
        let ends_us = s.end_of(9_000);
        let readers = Found::Sorted { members, ends_us };
        s.judge.adopt(vec![("job".to_owned(), readers)], s.now);
        s.now += 1_000_000;
        s.call(&[B, "9000", "", "s"]).member(B, 9_000);
    };
    assert_eq!(after(joins), [Rule::Fence], "a number of readers too");
}
