//! How a waiter learns of its grant: the messages, whom they wake, and how long a grant that they bring can be used.

pub(crate) mod grant_deadline;
pub(crate) mod notifier;
