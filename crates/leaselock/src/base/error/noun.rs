//! What the errors about a name have in common: that name, and an arm for a request that failed.

use leaselock_fence::Name;

use super::store::StoreError;

/// A request about a name failed.
#[derive(Debug)]
pub(crate) struct NounFailure {
    pub(crate) name: Name,
    pub(crate) source: StoreError,
}

/// Writes the error of a noun or of an operation, and how it is made of a [`NounFailure`].
///
/// `Store` is the arm of a request that failed, and the last one. The arms are written as `thiserror` has them; each one
/// with fields has the name too, and one in parentheses is another error. For
/// [`OperationError`](super::OperationError), `leaves` says what may be left on the store, and `=>` what else is known.
macro_rules! noun_error {
    (
        $(#[$meta:meta])*
        pub enum $Error:ident of $name:ident: $whose:literal $(, through $Acquire:ident)? {
            $(#[$failed:meta])*
            Store $(leaves $remains:ident $({ $($how_long:tt)* })?)?,
            $(
                $(#[$arm:meta])*
                $Arm:ident $(($($inner:tt)*))? $({ $($fields:tt)* })?
                $(leaves $left:ident $({ $($left_for:tt)* })?)? $(=> $how:path)?,
            )*
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
            Store {
                #[doc = $whose]
                name: ::leaselock_fence::Name,
                /// The store's error.
                source: $crate::base::error::StoreError,
            },
        }

        $(impl From<::leaselock_fence::InvalidInput> for $Error {
            fn from(invalid: ::leaselock_fence::InvalidInput) -> Self {
                $Acquire::from(invalid).into()
            }
        })?

        impl $crate::base::error::operation::HasFacts for $Error {
            fn facts(&self) -> $crate::base::error::operation::ErrorFacts<'_> {
                use $crate::base::error::operation::ErrorFacts;
                match self {
                    $Error::Store { $name, source } => {
                        ErrorFacts::of_store($name, source)
                            $(.leaves($crate::base::error::operation::Remains::$remains $({ $($how_long)* })?))?
                    }
                    $(noun_error!(@arm $Error $Arm $name $(($($inner)*))? $({ $($fields)* })?) => {
                        let facts = noun_error!(@facts self $name $(($($inner)*))? $({ $($fields)* })?);
                        $(let facts = facts.leaves($crate::base::error::operation::Remains::$left $({ $($left_for)* })?);)?
                        $(let facts = $how(facts, self);)?
                        facts
                    })*
                }
            }
        }

        impl From<$crate::base::error::NounFailure> for $Error {
            fn from(failure: $crate::base::error::NounFailure) -> Self {
                let $crate::base::error::NounFailure { name, source } = failure;
                $Error::Store { name, source }
            }
        }
    };
    (@arm $Error:ident $Arm:ident $name:ident) => { $Error::$Arm };
    (@arm $Error:ident $Arm:ident $name:ident { $($fields:tt)* }) => { $Error::$Arm { $name, .. } };
    (@arm $Error:ident $Arm:ident $name:ident ($($inner:tt)*)) => { $Error::$Arm($name) };
    (@facts $this:ident $name:ident) => { ErrorFacts::default() };
    (@facts $this:ident $name:ident { $($fields:tt)* }) => { ErrorFacts::of($name).caused_by($this) };
    (@facts $this:ident $name:ident ($($inner:tt)*)) => { $name.facts() };
}
pub(crate) use noun_error;
