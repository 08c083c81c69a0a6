//! State that the tasks of one client share for one key, whatever handles they have.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crate::base::hold;

/// How many states there may be before a sweep removes those without a user.
const SWEEP_FROM: usize = 64;

/// One state for each noun and key, as long as anything uses it.
#[derive(Debug, Default)]
pub(crate) struct SharedStates(Mutex<StateTable>);

#[derive(Debug, Default)]
struct StateTable {
    states: HashMap<(&'static str, Arc<str>), Weak<dyn Any + Send + Sync>>,
    /// The number of states at which the next sweep is due.
    sweep_at: usize,
}

impl SharedStates {
    /// Returns the state of this noun and key, made by `new` if nothing uses one.
    pub(crate) fn get<T: Any + Send + Sync>(
        &self,
        noun: &'static str,
        key: &Arc<str>,
        new: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut table = hold(&self.0);
        let known = table.states.get(&(noun, Arc::clone(key)));
        let known = known
            .and_then(Weak::upgrade)
            .and_then(|state| state.downcast().ok());
        if let Some(state) = known {
            return state;
        }
        if table.states.len() >= table.sweep_at.max(SWEEP_FROM) {
            table.states.retain(|_, state| state.strong_count() > 0);
            table.sweep_at = 2 * table.states.len();
        }
        let state = Arc::new(new());
        let shared: Arc<dyn Any + Send + Sync> = state.clone();
        let key = (noun, Arc::clone(key));
        table.states.insert(key, Arc::downgrade(&shared));
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_shared_while_it_is_used_and_no_longer() {
        let (states, key): (_, Arc<str>) = (SharedStates::default(), "a".into());
        let first = states.get("counter", &key, || 1);
        let again = states.get("counter", &key, || 2);
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(*states.get("other", &key, || 3), 3);
        drop((first, again));
        assert_eq!(*states.get("counter", &key, || 4), 4);
    }

    #[test]
    fn states_that_nothing_uses_do_not_pile_up() {
        let states = SharedStates::default();
        let kept = states.get("counter", &"kept".into(), || 0);
        for number in 0..10 * SWEEP_FROM {
            states.get("counter", &number.to_string().into(), || number);
        }
        assert!(hold(&states.0).states.len() <= SWEEP_FROM);
        assert!(Arc::ptr_eq(
            &kept,
            &states.get("counter", &"kept".into(), || 1)
        ));
    }
}
