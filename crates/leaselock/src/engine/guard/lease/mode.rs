//! The ways of holding, as types: what a lease can do besides what every lease can.

use leaselock_fence::Fence;

/// A way of holding: the parameter of [`Lease`](crate::Lease) and [`LeaseView`](crate::LeaseView).
///
/// It is a type and no value, so that a program that upgrades a plain reader does not compile. Nor does one that releases a
/// run, which would count as crashed though its work is done: a run is no `Mode`.
#[expect(private_bounds, reason = "no other crate adds a way of holding")]
#[diagnostic::on_unimplemented(message = "a run ends by `finish` or `cancel`")]
pub trait Mode: Sealed {}

/// A way of holding one name, unlike that of several.
#[expect(private_bounds, reason = "no other crate adds a way of holding")]
pub trait SingleName: Sealed {
    /// What [`Lease::fence`](crate::Lease::fence) returns: `Option<Fence>`, or [`Fence`] where fencing cannot be switched
    /// off.
    type Fence: Granted;
}

/// A way of holding that can go on without its process: see [`Lease::detach`](crate::Lease::detach).
pub trait Detachable: Mode + SingleName {}

/// What only this crate implements.
pub(crate) trait Sealed: Clone + Send + Sync + Unpin + 'static {}

/// A way of holding that is known, unlike `()`.
pub(crate) trait Typed: Sealed {}

/// The fencing token of a grant.
pub(crate) trait Granted {
    fn of(fence: Option<Fence>) -> Self;
}

impl Granted for Option<Fence> {
    fn of(fence: Option<Fence>) -> Self {
        fence
    }
}

impl Granted for Fence {
    /// A noun that refuses `fencing(false)` has a fencing token with each lease.
    fn of(fence: Option<Fence>) -> Self {
        fence.unwrap_or(Fence::new(0))
    }
}

/// Makes types ways of holding: each with its fencing token if it is of one name, and with its markers.
macro_rules! modes {
    ($($mode:ty $(: $fence:ty $(, $marker:ident)*)?;)+) => {
        $(
            impl $crate::engine::guard::lease::mode::Sealed for $mode {}
            impl $crate::engine::guard::lease::mode::Mode for $mode {}
            impl $crate::engine::guard::lease::mode::Typed for $mode {}
            $(
                impl $crate::engine::guard::lease::mode::SingleName for $mode {
                    type Fence = $fence;
                }
                $(impl $crate::engine::guard::lease::mode::$marker for $mode {})*
            )?
        )+
    };
}
pub(crate) use modes;

/// Alone: the lease of a [`Mutex`](crate::Mutex), or of the writer of a [`RwLock`](crate::RwLock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exclusive;

modes! {
    Exclusive: Option<Fence>, Detachable;
}

/// A lease, or a view of one, of any kind.
impl Sealed for () {}
impl Mode for () {}
impl SingleName for () {
    type Fence = Option<Fence>;
}
