//! Locks on a cluster: each on the node that has its slot, wherever that goes.

mod hand_over;
mod moving;
mod outages;
mod refusals;
mod strict;
