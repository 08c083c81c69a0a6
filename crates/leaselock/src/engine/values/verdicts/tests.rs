use super::*;
use crate::quorum::tally::Absent;
use crate::quorum::tally::said::{decided, votes};

fn extension(letter: char) -> ExtendAnswer {
    match letter {
        'y' => ExtendAnswer::Extended { time_us: 7 },
        'e' => ExtendAnswer::EXPIRED,
        _ => ExtendAnswer::TAKEN,
    }
}

#[test]
fn an_extension_needs_a_majority_of_all_nodes_and_only_nodes_that_refuse_can_refuse_it() {
    let yes = Some(ExtendAnswer::Extended { time_us: 0 });
    for (said, expected) in [
        ("yyy..", yes),
        ("yyyee", yes),
        ("eeyyy", yes),
        ("yy...", None),
        ("yyxxx", None),
        ("yyexx", None),
        ("xxxxx", None),
        ("eexxx", None),
        ("yyeee", Some(ExtendAnswer::EXPIRED)),
        ("eee..", Some(ExtendAnswer::EXPIRED)),
        ("tee..", Some(ExtendAnswer::EXPIRED)),
        ("ttt..", Some(ExtendAnswer::TAKEN)),
    ] {
        assert_eq!(
            decided(extended(&votes(said, extension))),
            expected,
            "{said}"
        );
    }
}

#[test]
fn of_many_extensions_each_has_its_own_majority() {
    let mut three = Votes::new(3);
    let said = |letters: &str| {
        letters
            .chars()
            .map(|l| (l != '-').then(|| extension(l)))
            .collect()
    };
    three.record(0, Ok::<Replies<ExtendAnswer>, Absent>(said("yye-")), None);
    assert!(decided(each_item(&three, extended)).is_none());
    three.record(1, Ok(said("yet-")), None);
    assert!(
        decided(each_item(&three, extended)).is_none(),
        "the second may still get a majority"
    );
    three.record(2, Ok(said("yeyy")), None);
    let yes = Some(ExtendAnswer::Extended { time_us: 0 });
    let gone = Some(ExtendAnswer::EXPIRED);
    assert_eq!(
        decided(each_item(&three, extended)),
        Some(vec![yes, gone, gone, None])
    );
}

#[test]
fn a_release_is_confirmed_by_a_majority_and_nothing_less() {
    let answer = |letter| match letter {
        'r' => ReleaseAnswer::Released,
        'e' => ReleaseAnswer::Expired,
        _ => ReleaseAnswer::Taken,
    };
    for (said, expected) in [
        ("rr.", Some(ReleaseAnswer::Released)),
        ("rrt", Some(ReleaseAnswer::Released)),
        ("rx.", None),
        ("rex", None),
        ("ree", Some(ReleaseAnswer::Expired)),
        ("tt.", Some(ReleaseAnswer::Taken)),
        ("te.", None), // the third may say that another has it
        ("tet", Some(ReleaseAnswer::Taken)),
        ("tex", Some(ReleaseAnswer::Expired)),
    ] {
        assert_eq!(decided(released(&votes(said, answer))), expected, "{said}");
    }
}
