//! What the structure is still allowed to get wrong. Each number may fall and never rise; at zero its line goes.

use crate::complaint::Complaint;

/// The crate's folder, the rule, and how often it may be broken.
const ALLOWED: &[(&str, &str, usize)] = &[
    ("crates/leaselock/src", "files in a circle", 13),
    ("crates/leaselock/src", "long files", 8),
    ("crates/leaselock/src", "mod.rs that define", 3),
];

/// Passes complaints on if there are more of a rule than allowed, or fewer: then the list is out of date.
pub(super) fn apply(
    folder: &str,
    rule: &str,
    found: Vec<Complaint>,
    count: usize,
) -> Vec<Complaint> {
    let line = ALLOWED
        .iter()
        .find(|line| (line.0, line.1) == (folder, rule));
    judge(folder, rule, found, count, line.map_or(0, |line| line.2))
}

fn judge(
    folder: &str,
    rule: &str,
    mut found: Vec<Complaint>,
    count: usize,
    allowed: usize,
) -> Vec<Complaint> {
    if count > allowed {
        if allowed > 0 {
            let wrong = format!("{rule}: {count}, and {allowed} are allowed");
            found.push(Complaint::new(folder, 0, wrong, "undo what was added"));
        }
        return found;
    }
    if count < allowed {
        let wrong = format!("{rule}: {count} where {allowed} are allowed");
        let right = "write the smaller number into xtask/src/arrows/ratchet.rs";
        return vec![Complaint::new(folder, 0, wrong, right)];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_fall_if_the_list_says_so_and_may_not_rise() {
        let one = || vec![Complaint::new("a", 1, "wrong", "right")];
        let counts = |count, allowed| judge("a", "rule", one(), count, allowed).len();
        assert_eq!(counts(0, 0), 0);
        assert_eq!(counts(1, 0), 1);
        assert_eq!(counts(3, 3), 0);
        assert_eq!(counts(4, 3), 2);
        let stale = judge("a", "rule", one(), 2, 3);
        assert_eq!(stale[0].wrong, "rule: 2 where 3 are allowed");
    }
}
