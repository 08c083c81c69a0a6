//! What errors of nouns have in common: the name, and an arm for a request that failed.

use leaselock_fence::Name;

use super::store::StoreError;

/// A request about a name failed.
#[derive(Debug)]
pub(crate) struct NounFailure {
    pub(crate) name: Name,
    pub(crate) source: StoreError,
}

/// Writes the error of a noun, and how it is made of a [`NounFailure`].
///
/// `Store` is the arm of a request that failed, and the last one. The others differ from noun to noun, and are written as
/// `thiserror` has them; each one with fields has the name too.
macro_rules! noun_error {
    (
        $(#[$meta:meta])*
        pub enum $Error:ident of $name:ident: $whose:literal {
            $(#[$failed:meta])*
            Store,
            $($(#[$arm:meta])* $Arm:ident $(($($inner:tt)*))? $({ $($fields:tt)* })?,)*
        }
    ) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub enum $Error {
            $(
                $(#[$arm])*
                $Arm $(($($inner)*))? $({
                    #[doc = $whose]
                    $name: ::leaselock_fence::Name,
                    $($fields)*
                })?,
            )*

            $(#[$failed])*
            #[error("`{name}`: {source}")]
            Store {
                #[doc = $whose]
                name: ::leaselock_fence::Name,
                /// The store's error.
                source: $crate::base::error::StoreError,
            },
        }

        impl From<$crate::base::error::NounFailure> for $Error {
            fn from(failure: $crate::base::error::NounFailure) -> Self {
                let $crate::base::error::NounFailure { name, source } = failure;
                $Error::Store { name, source }
            }
        }
    };
}
pub(crate) use noun_error;
