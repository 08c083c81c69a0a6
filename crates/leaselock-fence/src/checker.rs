//! The rule of every fence checker, without I/O.

use crate::name::Name;
use crate::sequencer::Sequencer;

/// What a protected resource has seen of one name: the sequencer with the largest fencing token.
///
/// It admits a larger fencing token, and the one that it has seen when the owner is the same. It refuses all others.
/// The caller keeps the checker where the resource is, and does the work **under the lock under which it asked**: a
/// holder that was admitted and then waits could otherwise be overtaken by the next one.
///
/// # Algorithm
/// Martin Kleppmann, *How to do distributed locking* (2016), with reads admitted like writes, and owners compared where
/// numbers are equal. Burrows, *The Chubby lock service* (2006), has the sequencer.
///
/// # Examples
/// ```
/// use leaselock_fence::{Admission, FenceChecker, Name, Sequencer};
///
/// let mut checker = FenceChecker::new(Name::new("invoices")?);
/// let [late, holder]: [Sequencer; 2] = ["33.a.invoices".parse()?, "34.b.invoices".parse()?];
/// assert_eq!(checker.admit(&late)?, Admission::Raised);
/// assert_eq!(checker.admit(&holder)?, Admission::Raised); // a read is enough
/// assert_eq!(checker.admit(&holder)?, Admission::Known);
/// assert!(checker.admit(&late).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FenceChecker {
    name: Name,
    seen: Option<Sequencer>,
}

/// How a fence checker admitted a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a fencing token that is new must be stored before the work"]
#[non_exhaustive]
pub enum Admission {
    /// The fencing token is larger than all before. Store what the checker has seen, and then do the work.
    Raised,
    /// This grant was admitted before. There is nothing to store.
    Known,
}

/// Why a fence checker refused a request. Nothing was read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceRefused {
    /// A later holder was here: the lease has ended. Stop, and use nothing that was read under it.
    #[error(
        "`{}`: the fencing token {} is stale: the resource has seen {}",
        shown.name(), shown.fence(), seen.fence()
    )]
    Stale {
        /// What the holder showed.
        shown: Sequencer,
        /// What the resource has seen.
        seen: Sequencer,
    },

    /// Another grant with the same number was here: the lock's store has lost its data, and its clock went back.
    ///
    /// Stop, and acquire anew: the next number is larger.
    #[error(
        "`{}`: the fencing token {} came twice: the resource has seen it of another owner",
        shown.name(), shown.fence()
    )]
    OtherOwner {
        /// What the holder showed.
        shown: Sequencer,
        /// What the resource has seen.
        seen: Sequencer,
    },

    /// Another name protects this resource. Fencing tokens of different names cannot be compared.
    #[error("`{}` does not protect this resource: `{name}` does", shown.name())]
    OtherName {
        /// What the holder showed.
        shown: Sequencer,
        /// The name that protects the resource.
        name: Name,
    },
}

impl FenceChecker {
    /// Creates the checker of a resource that this name protects and that no holder has used.
    pub fn new(name: Name) -> Self {
        FenceChecker { name, seen: None }
    }

    /// Returns what the resource has seen, to be stored beside it; `None` before the first holder.
    pub fn seen(&self) -> Option<&Sequencer> {
        self.seen.as_ref()
    }

    /// Admits a holder that reads or writes, or refuses it.
    ///
    /// # Errors
    /// [`FenceRefused`]: do nothing for this request. The checker is as it was.
    pub fn admit(&mut self, shown: &Sequencer) -> Result<Admission, FenceRefused> {
        if *shown.name() != self.name {
            let (shown, name) = (shown.clone(), self.name.clone());
            return Err(FenceRefused::OtherName { shown, name });
        }
        match &self.seen {
            Some(seen) if shown.fence() < seen.fence() => {
                let (shown, seen) = (shown.clone(), seen.clone());
                Err(FenceRefused::Stale { shown, seen })
            }
            Some(seen) if shown.fence() > seen.fence() => Ok(self.raise(shown)),
            Some(seen) if shown.owner() == seen.owner() => Ok(Admission::Known),
            Some(seen) => {
                let (shown, seen) = (shown.clone(), seen.clone());
                Err(FenceRefused::OtherOwner { shown, seen })
            }
            None => Ok(self.raise(shown)),
        }
    }

    fn raise(&mut self, shown: &Sequencer) -> Admission {
        self.seen = Some(shown.clone());
        Admission::Raised
    }
}

/// The checker of a resource that has seen this sequencer, as it was stored.
impl From<Sequencer> for FenceChecker {
    fn from(seen: Sequencer) -> Self {
        FenceChecker {
            name: seen.name().clone(),
            seen: Some(seen),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fence::Fence;

    fn shown(fence: u64, owner: &str) -> Sequencer {
        let name = Name::new("x").unwrap();
        Sequencer::new(name, Fence::new(fence), owner).unwrap()
    }

    fn checker() -> FenceChecker {
        FenceChecker::new(Name::new("x").unwrap())
    }

    proptest! {
        /// Requests in any order: the work of one that was admitted never follows that of a later holder.
        #[test]
        fn what_was_admitted_is_in_the_order_of_the_grants(
            requests in prop::collection::vec((1..6_u64, "[ab*]"), 0..40),
        ) {
            let mut checker = checker();
            let mut done: Vec<Sequencer> = Vec::new();
            for (fence, owner) in requests {
                let shown = shown(fence, &owner);
                let before = checker.clone();
                let outcome = checker.admit(&shown);
                let newest = done.last();
                let fits = newest.is_none_or(|last| *last == shown || last.fence() < shown.fence());
                prop_assert_eq!(outcome.is_ok(), fits, "{:?} after {:?}", shown, newest);
                match outcome {
                    Ok(admission) => {
                        let raised = newest != Some(&shown);
                        prop_assert_eq!(admission == Admission::Raised, raised);
                        done.push(shown);
                    }
                    Err(_) => prop_assert_eq!(&checker, &before),
                }
                prop_assert_eq!(checker.seen(), done.last());
                // What was stored goes on where the checker was.
                if let Some(seen) = checker.seen() {
                    let stored: Sequencer = seen.to_string().parse().unwrap();
                    prop_assert_eq!(FenceChecker::from(stored), checker.clone());
                }
            }
        }
    }

    #[test]
    fn a_refusal_says_both_numbers_and_what_is_wrong() {
        let mut checker = checker();
        assert_eq!(checker.admit(&shown(34, "b")), Ok(Admission::Raised));
        let stale = checker.admit(&shown(33, "a")).unwrap_err().to_string();
        assert!(
            stale.contains("33 is stale") && stale.contains("seen 34"),
            "{stale}"
        );
        let twin = checker.admit(&shown(34, "c")).unwrap_err().to_string();
        assert!(twin.contains("34 came twice"), "{twin}");
        let other = checker.admit(&"99.d.y".parse().unwrap());
        let other = other.unwrap_err().to_string();
        assert!(other.contains("`x` does"), "{other}");
        assert_eq!(checker.seen(), Some(&shown(34, "b")));
    }

    #[test]
    fn readers_of_one_phase_pass_in_numbers_and_the_writer_before_them_does_not() {
        let mut checker = checker();
        assert_eq!(checker.admit(&shown(33, "writer")), Ok(Admission::Raised));
        assert_eq!(checker.admit(&shown(34, "*")), Ok(Admission::Raised));
        assert_eq!(checker.admit(&shown(34, "*")), Ok(Admission::Known));
        let late = checker.admit(&shown(33, "writer"));
        assert!(matches!(late, Err(FenceRefused::Stale { .. })), "{late:?}");
    }
}
