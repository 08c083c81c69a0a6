//! Holds that end before their time.

use super::*;

#[test]
fn a_hold_that_another_takes_away_shortens_or_revives_is_accused() {
    let taken = |s: &mut Stream| {
        let out = format!("ZREM job {A}");
        s.read(A, 1_000).call(&[B, "s"]).lua(&out);
    };
    assert_eq!(after(taken), [Rule::Lease]);
    let at_once = |flag| ["", flag, "0", "ll:wake:", "", ":r"];
    let broken = |s: &mut Stream| {
        s.alone(A, 1_000).call(&at_once("1")).lua("DEL job");
    };
    assert_eq!(after(broken), []);
    let lasts_ms = |ms: u32| {
        move |s: &mut Stream| {
            let broken = format!("SET job {} PX {ms}", A.replace('.', "!"));
            s.alone(A, 1_000).call(&at_once("0")).lua(&broken);
        }
    };
    assert_eq!(after(lasts_ms(990)), []);
    let ends_broken = |by: &'static str| {
        move |s: &mut Stream| {
            lasts_ms(990)(s);
            s.call(&[by]).lua("DEL job");
        }
    };
    assert_eq!(after(ends_broken(A)), []);
    assert_eq!(after(ends_broken(B)), [Rule::Lease]);
    assert_eq!(after(lasts_ms(2_000)), [Rule::Lease]);
    let shorter = |s: &mut Stream| {
        s.alone(A, 1_000).call(&[A, "300"]).lua("PEXPIRE job 300");
    };
    assert_eq!(after(shorter), [Rule::Lease]);
    let revived = |s: &mut Stream| {
        s.read(A, 1_000)
            .call(&[B, "9000", "", "s"])
            .member(B, 9_000);
        s.now += 2_000_000;
        let ends = s.end_of(1_000);
        s.call(&[A, "1000", "s"])
            .lua(&format!("ZADD job XX {ends} {A}"));
    };
    assert_eq!(after(revived), [Rule::Lease]);
}
