//! Guards that are a lease and something more.

/// Gives a guard the methods of the lease in it.
macro_rules! lease_deref {
    ($guard:ident.$lease:tt) => {
        impl std::ops::Deref for $guard {
            type Target = $crate::engine::guard::lease::Lease;

            fn deref(&self) -> &Self::Target {
                &self.$lease
            }
        }
    };
}
pub(crate) use lease_deref;

/// Gives a guard the methods of the lease in it, and the lease alone for code that handles leases of every kind.
macro_rules! lease_guard {
    ($guard:ident.$lease:tt) => {
        $crate::client::lease_guard::lease_deref!($guard.$lease);

        /// The lease alone, for code that handles leases of every kind.
        impl From<$guard> for $crate::engine::guard::lease::Lease {
            fn from(guard: $guard) -> Self {
                guard.$lease
            }
        }
    };
}
pub(crate) use lease_guard;
