//! What a server holds already when the oracle comes to it.

use super::fence::{Fence, number};
use super::held::Held;
use super::keys::Part;
use super::lock::{Lock, end_us};
use super::waiters::{Entry, score};

/// One key of a server, as the oracle reads it before clients reach the server.
#[derive(Debug)]
pub(super) enum Found {
    Text {
        value: String,
        ends_us: u64,
    },
    Sorted {
        members: Vec<(String, String)>,
        ends_us: u64,
    },
    Fields(Vec<(String, String)>),
    Stream {
        last_id: String,
    },
}

impl Lock {
    /// A key of a server that serves from now on.
    pub(super) fn adopt(&mut self, part: Part, found: Found) {
        match (part, found) {
            (Part::Lock, Found::Text { value, ends_us }) => {
                self.held = Held::Alone {
                    token: value,
                    ends_us,
                };
            }
            (Part::Lock, Found::Sorted { members, ends_us }) => {
                let member = |(text, ends): (String, String)| (text, end_us(&ends));
                self.held = Held::Set(members.into_iter().map(member).collect());
                self.key_ends_us = Some(ends_us);
            }
            (Part::Queue, Found::Sorted { members, .. }) => {
                for (member, its) in members {
                    let score = score(&its);
                    self.waiters.add(Entry { score, member });
                }
            }
            (Part::Waiters, Found::Fields(fields)) => {
                for (token, member) in fields {
                    self.waiters.know(&token, &member, false);
                }
            }
            (Part::Usage, Found::Fields(fields)) => {
                let permits = fields.iter().find(|(field, _)| field == "permits");
                let permits = permits.and_then(|(_, value)| value.parse().ok());
                self.permits = permits.filter(|permits| *permits > 0);
            }
            (Part::Fence, Found::Stream { last_id }) => {
                let known = number(&last_id).unwrap_or_default();
                self.fence = Fence {
                    exists: true,
                    known,
                };
            }
            _ => {}
        }
    }
}
